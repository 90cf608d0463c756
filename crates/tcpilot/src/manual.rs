//! The manual pages: one for each command, with the text of `--help`, and tcpilot.toml(5). The build of the
//! package calls `tcpilot manual DIR` to write them.

use std::{fs, io, path::Path};

use clap::{Command, CommandFactory};
use clap_mangen::{
    Man,
    roff::{Inline, Roff, bold, roman},
};
use tcpilot_config::reference;
use tcpilot_pilot::args::{DEFAULT_CONFIG, DEFAULT_SOCKET, DEFAULT_STATE};

use crate::cli::Cli;

const MANUAL: &str = "tcpilot manual";
const SMALL_FILE: [&str; 5] = [
    "algorithms = [\"cubic\", \"bbr\"]",
    "",
    "[leave_alone]",
    "local_ports = [22]",
    "",
];

const EXAMPLES: [(&str, &str); 5] = [
    (
        "tcpilot check",
        "Whether it can run here, and how much of the traffic it could steer.",
    ),
    (
        "tcpilot run",
        "Steers this host until Ctrl-C; then everything is as before.",
    ),
    (
        "tcpilot status",
        "Whether it helps, and where, in five lines.",
    ),
    (
        "tcpilot paths",
        "Each address with its algorithm, and Mbit/s with tcpilot and without.",
    ),
    (
        "tcpilot explain 203.0.113.9",
        "Why connections to this address are treated as they are.",
    ),
];

/// Writes all pages into a folder, and makes the folder.
///
/// # Errors
/// The folder or a page cannot be written.
pub fn write(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let mut all = Cli::command().disable_help_subcommand(true);
    all.build();
    write_command(&all, dir)?;
    fs::write(dir.join("tcpilot.toml.5"), configuration())
}

fn write_command(command: &Command, dir: &Path) -> io::Result<()> {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        write_command(sub, dir)?;
    }
    let man = Man::new(command.clone())
        .source(concat!("tcpilot ", env!("CARGO_PKG_VERSION")))
        .manual(MANUAL);
    let mut page = Vec::new();
    man.render(&mut page)?;
    // clap's name for the text after the options says nothing.
    let mut page = String::from_utf8_lossy(&page).replace(".SH EXTRA\n", ".SH NOTES\n");
    if command.get_name() == "tcpilot" {
        page += &rest_of_main();
    }
    let name = man.get_filename();
    fs::write(dir.join(name), page)
}

/// Sections of tcpilot(1) that clap does not write.
fn rest_of_main() -> String {
    let mut page = Roff::new();
    page.control("SH", ["EXAMPLES"]);
    for (command, about) in EXAMPLES {
        page.control("TP", []);
        page.text([bold(command)]);
        page.text([roman(about)]);
    }
    page.control("SH", ["FILES"]);
    for (file, about) in [
        (
            DEFAULT_CONFIG,
            "Configuration; without it every setting has its default.",
        ),
        (DEFAULT_STATE, "What was learned, over restarts."),
        (
            DEFAULT_SOCKET,
            "Where the daemon answers the other commands.",
        ),
    ] {
        page.control("TP", []);
        page.text([bold(file)]);
        page.text([roman(about)]);
    }
    page.control("SH", ["SEE ALSO"]);
    page.text([
        bold("tcpilot.toml"),
        roman("(5), "),
        bold("tcpilot-run"),
        roman("(1), "),
        bold("ss"),
        roman("(8)"),
    ]);
    page.render()
}

/// tcpilot.toml(5), as roff.
fn configuration() -> String {
    let mut page = Roff::new();
    let version = concat!("tcpilot ", env!("CARGO_PKG_VERSION"));
    page.control("TH", ["tcpilot.toml", "5", "", version, MANUAL]);
    page.control("SH", ["NAME"]);
    page.text([roman("tcpilot.toml - configuration of tcpilot")]);
    page.control("SH", ["SYNOPSIS"]);
    page.text([bold(DEFAULT_CONFIG)]);
    page.control("SH", ["DESCRIPTION"]);
    page.text([roman(
        "tcpilot runs without this file, with each default below. It is written in TOML. A key that is left \
         out keeps its default. `tcpilot config check` reports mistakes, and `tcpilot config show` prints \
         what is in force. A daemon that runs takes a change up by `systemctl reload tcpilot`.",
    )]);
    for part in reference::parts() {
        let title = match (part.table.as_str(), part.kind) {
            ("", _) => "TOP OF THE FILE".to_owned(),
            (table, None) => table.to_owned(),
            (table, Some(kind)) => format!("{table} with kind = \"{kind}\""),
        };
        page.control("SH", [title.as_str()]);
        for entry in part.entries {
            page.control("TP", []);
            page.text([bold(entry.key)]);
            page.text(inlines(&entry.doc));
        }
    }
    page.control("SH", ["EXAMPLE"]);
    page.control("nf", []);
    for line in SMALL_FILE {
        page.text([roman(line)]);
    }
    page.control("fi", []);
    page.control("SH", ["SEE ALSO"]);
    page.text([
        bold("tcpilot"),
        roman("(1), "),
        bold("tcpilot-config"),
        roman("(1)"),
    ]);
    page.render()
}

/// Turns Markdown into roff: text between backticks becomes bold.
fn inlines(text: &str) -> Vec<Inline> {
    let parts = text.split('`').enumerate();
    parts
        .map(|(at, part)| if at % 2 == 1 { bold(part) } else { roman(part) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_and_configuration_has_a_page() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path()).unwrap();
        let pages = fs::read_dir(dir.path()).unwrap();
        let mut names: Vec<_> = pages.map(|page| page.unwrap().file_name()).collect();
        names.sort();
        for wanted in [
            "tcpilot.1",
            "tcpilot-run.1",
            "tcpilot-cc-load.1",
            "tcpilot.toml.5",
        ] {
            assert!(
                names.iter().any(|name| name == wanted),
                "{wanted} of {names:?}"
            );
        }
        assert!(!names.iter().any(|name| name == "tcpilot-manual.1"));
    }

    #[test]
    fn configuration_page_lists_every_key() {
        let page = configuration();
        let keys = reference::parts();
        let keys: Vec<_> = keys.iter().flat_map(|part| &part.entries).collect();
        assert!(keys.len() > 50);
        for entry in keys {
            let name = entry.key.split(' ').next().unwrap();
            assert!(page.contains(&format!("\\fB{name}")), "{name}: {page}");
        }
    }

    #[test]
    fn words_between_backticks_are_bold() {
        let [a, b, c] = &inlines("a `b` c")[..] else {
            panic!()
        };
        assert_eq!([a, b, c], [&roman("a "), &bold("b"), &roman(" c")]);
    }

    #[test]
    fn the_example_is_a_configuration() {
        let text = SMALL_FILE.join("\n");
        tcpilot_config::Config::from_toml(&text, "example").unwrap();
    }
}
