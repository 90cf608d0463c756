//! `docs/use/configuration.md` agrees with the code: its reference is generated, and its examples are run.
//!
//! `TCPILOT_RENEW=1 cargo test -p tcpilot-config` rewrites the reference.

use super::super::reference::{Part, parts};
use super::super::write::wrap;
use super::messages::MESSAGES;
use super::*;

const DOC: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/use/configuration.md"
);
const BEGIN: &str = "<!-- generated from crates/config/src: begin -->\n";
const END: &str = "<!-- generated: end -->\n";

fn read_doc() -> String {
    std::fs::read_to_string(DOC).unwrap()
}

fn heading(part: &Part) -> String {
    match (part.table.as_str(), part.kind) {
        ("", _) => "### At the top of the file".to_owned(),
        (table, None) => format!("### `{table}`"),
        (table, Some(kind)) => format!("#### `{table}` with `kind = \"{kind}\"`"),
    }
}

fn reference() -> String {
    let mut text = String::new();
    for part in parts() {
        text += &format!("\n{}\n\n", heading(&part));
        for entry in part.entries {
            let lines = wrap(&format!("- `{}`: {}", entry.key, entry.doc), 98);
            text += &(lines.join("\n  ") + "\n");
        }
    }
    text + "\n"
}

#[test]
fn the_reference_is_that_of_the_code() {
    let doc = read_doc();
    let (before, rest) = doc.split_once(BEGIN).unwrap();
    let (stored, after) = rest.split_once(END).unwrap();
    if std::env::var_os("TCPILOT_RENEW").is_some() {
        std::fs::write(DOC, format!("{before}{BEGIN}{}{END}{after}", reference())).unwrap();
        return;
    }
    assert_eq!(stored, reference(), "renew it with TCPILOT_RENEW=1");
}

#[test]
fn each_example_is_a_configuration_without_warnings() {
    let doc = read_doc();
    let examples: Vec<&str> = doc
        .split("```toml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert!(examples.len() >= 3);
    for example in examples {
        let warnings = config(example).warnings();
        assert!(warnings.is_empty(), "{example}{warnings:?}");
    }
}

#[test]
fn each_error_shown_is_one_that_is_given() {
    let doc = read_doc();
    let shown: Vec<&str> = doc
        .lines()
        .filter(|line| line.starts_with("/etc/tcpilot/tcpilot.toml:"))
        .collect();
    assert!(shown.len() >= 5);
    for line in shown {
        let message = line.splitn(3, ':').nth(2).unwrap();
        assert!(
            MESSAGES
                .iter()
                .any(|(_, known)| known.splitn(3, ':').nth(2) == Some(message)),
            "{line}"
        );
    }
}
