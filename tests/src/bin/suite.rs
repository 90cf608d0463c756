//! Runs test binaries: a process for each test, several at once, and says how long they took.
//!
//!   suite [OPTION]… BINARY…
//!   --jobs N        so many tests at once (default: 1)
//!   --repeat N      each of them so often (default: once)
//!   --only WORD     only tests whose name contains one of these words
//!   --except FILE   not those in the file, one on a line, each with its reason
//!   --claims DIR    only tests not begun by another run with this folder; for runs side by side
//!   --times FILE    the longest of last time first; the file is then renewed
//!
//! BINARY is a test program of cargo's. First what killed tests of earlier runs left behind is removed.
//! A signal ends every test, removes what they made, and ends the run.
#![allow(clippy::expect_used, reason = "it is a part of the tests")]

use std::process::ExitCode;

use tcpilot_tests::suite::{Options, run};

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("suite: {message}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("suite: {message}");
            ExitCode::from(2)
        }
    }
}
