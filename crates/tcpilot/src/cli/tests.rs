use clap::{CommandFactory, Parser};

use tcpilot_pilot::figures::{FlowView, PathView};
use tcpilot_show::select;
use tcpilot_watch::link;

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

#[test]
fn columns_of_help_fit_the_narrowest_terminal() {
    for help in [
        select::help::<PathView>(),
        select::help::<FlowView>(),
        select::help::<link::FlowView>(),
    ] {
        for line in help.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        // The second line of a meaning stands below the first.
        let indent = |line: &&str| line.len() - line.trim_start().len();
        let depths = help.lines().skip(1).take_while(|line| !line.is_empty());
        let depths: std::collections::BTreeSet<usize> = depths.map(|l| indent(&l)).collect();
        assert_eq!(depths.len(), 2, "{help}");
    }
}
