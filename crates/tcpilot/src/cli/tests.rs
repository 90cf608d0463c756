use std::fmt::Write as _;

use clap::{Command, CommandFactory};

use super::Cli;

const BEGIN: &str = "<!-- generated from crates/tcpilot/src/cli.rs: begin -->\n";
const END: &str = "<!-- generated: end -->\n";

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

/// `TCPILOT_RENEW=1 cargo test -p tcpilot cli` renews the manual.
#[test]
fn the_manual_says_what_the_help_says() {
    let mut tree = Cli::command().term_width(100);
    tree.build();
    crate::documents::assert_manual(BEGIN, END, &manual(&tree));
}

fn manual(command: &Command) -> String {
    let mut out = String::new();
    for sub in command.get_subcommands() {
        if sub.is_hide_set() || sub.get_name() == "help" {
            continue;
        }
        if sub.has_subcommands() {
            out.push_str(&manual(sub));
        } else {
            let name = sub.get_bin_name().unwrap_or_default();
            let help = sub.clone().render_long_help().to_string();
            let _ = write!(out, "\n### {name}\n\n```text\n{}\n```\n", help.trim_end());
        }
    }
    out
}
