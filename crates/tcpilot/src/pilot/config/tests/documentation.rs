//! `docs/use/configuration.md` says what the code does: its reference is generated, its examples are run.
//!
//! `TCPILOT_RENEW=1 cargo test -p tcpilot documentation` rewrites the reference.

use super::super::settings::Key;
use super::super::write::{range, wrap};
use super::messages::MESSAGES;
use super::*;

const DOC: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/use/configuration.md"
);
const BEGIN: &str = "<!-- generated from crates/tcpilot/src/pilot/config: begin -->\n";
const END: &str = "<!-- generated: end -->\n";

fn read_doc() -> String {
    std::fs::read_to_string(DOC).unwrap()
}

fn entries(keys: &[Key], always_default: bool) -> String {
    let mut text = String::new();
    for key in keys {
        let value = key
            .value
            .clone()
            .filter(|_| always_default || key.value.as_deref() != Some("\"\""));
        let value = value.map_or_else(
            || format!("`{}`", key.name),
            |value| format!("`{} = {value}`", key.name),
        );
        let lines = wrap(&format!("- {value}: {}{}", key.doc.trim(), range(key)), 98);
        text += &(lines.join("\n  ") + "\n");
    }
    text
}

/// All kinds have a part, whatever the default.
fn learner(learner: &Learner) -> String {
    let mut text = format!(
        "\n### `[learner]`\n\n{}",
        entries(&learner.common.keys(), true)
    );
    for (kind, section) in learner.kinds() {
        let (kind, keys) = (kind.name(), entries(&section.keys(), true));
        text += &format!("\n#### `[learner]` with `kind = \"{kind}\"`\n\n{keys}");
    }
    text
}

fn reference() -> String {
    let config = Config::default();
    let mut text = format!(
        "\n### At the top of the file\n\n{}",
        entries(&config.keys(), true)
    );
    for (name, section) in config.sections() {
        if name == "learner" {
            text += &learner(&config.learner);
            continue;
        }
        text += &format!("\n### `[{name}]`\n\n{}", entries(&section.keys(), true));
    }
    let policy = Policy::default();
    text += &format!("\n### `[[policy]]`\n\n{}", entries(&policy.keys(), false));
    text += &entries(&policy.matches.keys(), false);
    text += &format!(
        "\n### `[policy.prefix]`\n\n{}\n",
        entries(&policy.prefix.keys(), false)
    );
    text
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
