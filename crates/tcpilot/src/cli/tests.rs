use clap::{CommandFactory, Parser};

use super::Cli;

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn an_upgrade_has_its_former_name_too() {
    for option in ["--upgrade", "--take-over"] {
        match Cli::try_parse_from(["tcpilot", "run", option])
            .unwrap()
            .command
        {
            super::Command::Run(args) => assert!(args.upgrade, "{option}"),
            _ => panic!("not `run`"),
        }
    }
}
