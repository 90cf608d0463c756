//! Each table is compared whole with its copy in `golden/`. After a change of tables, run `TCPILOT_RENEW=1
//! cargo test -p tcpilot-pilot` to renew the copies, and review their diff.

mod examples;

use std::{fs, path::PathBuf};

use super::*;
pub(crate) use examples::learning;
use examples::*;

use crate::figures::{DecisionView, ExplainedPath, Explanation};

fn assert_golden(name: &str, text: &str) {
    let file =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("src/table/golden/{name}.txt"));
    if std::env::var_os("TCPILOT_RENEW").is_some() {
        fs::write(&file, text).unwrap();
    }
    let stored = fs::read_to_string(&file).unwrap();
    assert_eq!(text, stored, "{} differs", file.display());
}

#[test]
fn the_table_of_paths_reads_as_its_copy() {
    assert_golden("paths", &paths(&[lossy_path(), new_path()]));
}

#[test]
fn learners_knowledge_reads_as_its_copies() {
    assert_golden("paths-thompson", &paths(&[known_and_measured()]));
    let explained = |path, decisions| {
        let explained = ExplainedPath {
            path,
            decisions,
            tuning: None,
        };
        explanation(&Explanation {
            stopped: None,
            address: "203.0.113.9".to_owned(),
            paths: vec![explained],
            flows: vec![flow("bbr", Why::Rescued)],
        })
    };
    assert_golden(
        "explain-thompson",
        &explained(
            known_and_measured(),
            vec![
                decision(0.5, Some("cubic"), Why::Rescued),
                DecisionView {
                    end: "open".to_owned(),
                    goodput: None,
                    loss_ratio: None,
                    ..decision(1.2, Some("bbr"), Why::Drawn)
                },
                DecisionView {
                    loss_ratio: Some(0.0),
                    dry_run: true,
                    ..decision(61.0, None, Why::HeldOut)
                },
            ],
        ),
    );
    assert_golden("explain-unseen", &explained(known("group"), Vec::new()));
    assert_golden("status-verbose", &status_in_full(&learning()));
    assert_golden(
        "report-thompson",
        &report(&learning(), &[known_and_measured()]),
    );
    let dry = Status {
        dry_run: true,
        ..learning()
    };
    assert_golden("status-dry-run", &status(&dry));
    let stale = Status {
        choice_dists_valid: false,
        traffic: None,
        ..learning()
    };
    assert_golden("status-stale", &status(&stale));
}

#[test]
fn unanswered_learner_is_not_shown_as_empty() {
    let busy = Status {
        learning: None,
        paths: 0,
        effect: Some("not known".to_owned()),
        ..learning()
    };
    let text = status_in_full(&busy);
    assert!(!text.contains("0 paths"), "{text}");
    let line = text.lines().find(|l| l.starts_with("paths"));
    assert_eq!(
        line,
        Some("paths    not known now: the learner has not answered")
    );
}

#[test]
fn no_path_is_said_in_words() {
    assert_golden("paths-none", &paths(&[]));
}

#[test]
fn the_table_of_flows_reads_as_its_copy() {
    assert_golden(
        "flows",
        &flows(&[flow("bbr", Why::Rescued), flow_left_alone()]),
    );
}

#[test]
fn an_explanation_reads_as_its_copy() {
    let explained = Explanation {
        stopped: None,
        address: "203.0.113.9".to_owned(),
        paths: vec![ExplainedPath {
            path: lossy_path(),
            decisions: vec![
                decision(0.5, Some("cubic"), Why::Rescued),
                decision(1.2, Some("bbr"), Why::Drawn),
                decision(61.0, None, Why::NoChoiceDist),
            ],
            tuning: Some(tuning()),
        }],
        flows: vec![flow("bbr", Why::Rescued)],
    };
    assert_golden("explain", &explanation(&explained));
}

#[test]
fn address_without_path_is_explained_in_words() {
    let explained = Explanation {
        stopped: None,
        address: "203.0.113.9".to_owned(),
        paths: Vec::new(),
        flows: Vec::new(),
    };
    assert_golden("explain-none", &explanation(&explained));
}

/// A status with a result and gains.
fn helping() -> Status {
    let paths = [known_and_measured(), lossy_path()];
    let mut gains = AddressView::all(&paths, path_name);
    gains.retain(|view| view.gain() > 0);
    Status {
        effect: Some("goodput +23.1 % (+11.4 % to +36.0 %), better, sure".to_owned()),
        gains,
        ..learning()
    }
}

#[test]
fn status_is_five_lines() {
    let text = status(&helping());
    assert_eq!(text.lines().count(), 5, "{text}");
    assert_golden("status", &text);
    assert_eq!(status(&running()).lines().count(), 5);
}

#[test]
fn addresses_have_a_row_each() {
    let other_class = PathView {
        class: Some("33 to 66 ms".to_owned()),
        experience: 2.0,
        connections: 6,
        ..known_and_measured()
    };
    let foreign = PathView {
        prefix: "198.51.100.7".parse().unwrap(),
        baseline: None,
        ..known_and_measured()
    };
    let all = [other_class, known_and_measured(), new_path(), foreign];
    assert_golden("addresses", &addresses(&all));
    let view = &AddressView::all(&all, path_name)[0];
    assert_eq!((view.connections, view.sure), (100, true));
    let names = hosts("203.0.113.9 db1");
    let owned = PathView {
        processes: vec!["nginx".to_owned()],
        ..known_and_measured()
    };
    let all = Selection::default();
    assert_golden(
        "addresses-named",
        &selected_addresses(&[owned], &all, &names, true),
    );
}

#[test]
fn bytes_of_no_card_are_reported() {
    let mut status = running();
    let inside = status.traffic.as_mut().unwrap();
    (inside.steered_bytes, inside.sent_bytes, inside.share) = (791_000_000, 40_000, None);
    let text = super::status_in_full(&status);
    let line = text.lines().find(|l| l.starts_with("traffic")).unwrap();
    assert_eq!(
        line,
        "traffic  791.0 MB can be steered, more than the 0.0 MB sent by eth0,eth1: some stays on this host or \
         leaves by other devices"
    );
}

#[test]
fn the_report_reads_as_its_copy() {
    assert_golden("report", &report(&running(), &[lossy_path(), new_path()]));
}

#[test]
fn the_report_of_a_dry_run_says_so() {
    let dry = Status {
        dry_run: true,
        ..running()
    };
    assert_golden("report-dry-run", &report(&dry, &[]));
}

/// The texts that have names from outside: as cells, and in sentences.
fn texts(name: &str) -> String {
    let text = || name.to_owned();
    let flow = FlowView {
        netns: text(),
        algorithm: text(),
        processes: vec![text(), text()],
        pods: vec![text()],
        cgroup: Some(text()),
        ..flow("bbr", Why::Drawn)
    };
    let path = PathView {
        netns: text(),
        interface: Some(text()),
        processes: vec![text()],
        pods: vec![text()],
        algorithms: vec![algorithm(name, 1, 1, 1, 1, 0.5)],
        ..lossy_path()
    };
    let status = Status {
        cgroup: text(),
        state: text(),
        degraded: vec![text()],
        algorithms_missing: vec![text()],
        ..learning()
    };
    let explanation = Explanation {
        address: "203.0.113.9".to_owned(),
        paths: vec![ExplainedPath {
            path: path.clone(),
            decisions: Vec::new(),
            tuning: None,
        }],
        flows: vec![flow.clone()],
        stopped: None,
    };
    let mut all = Selection::default();
    let key = "cgroup,netns,algorithm,processes";
    let query = tcpilot_show::select::ListQuery {
        columns: key.split(',').map(str::to_owned).collect(),
        ..Default::default()
    };
    let mut out = selected_flows(std::slice::from_ref(&flow), &all, true);
    all = Selection::new(&query).unwrap();
    out += &selected_flows(&[flow], &all, true);
    out += &selected_paths(std::slice::from_ref(&path), &Selection::default(), true);
    out += &selected_addresses(
        std::slice::from_ref(&path),
        &Selection::default(),
        &hosts(&format!("203.0.113.9 {name}")),
        true,
    );
    out + &super::status(&status)
        + &super::status_in_full(&status)
        + &super::explanation(&explanation)
        + &report(&status, &[path])
}

#[test]
fn names_from_outside_are_escaped_and_one_line() {
    let name = "a\u{1b}]0;x\u{7}\nb\r\u{9b}2J\u{202e}";
    let (wild, tame) = (texts(name), texts("a"));
    let obeyed = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
    assert!(!wild.contains(obeyed), "{wild:?}");
    assert!(
        wild.contains("a\\u{1b}]0;x\\u{7} b \\u{9b}2J\\u{202e}"),
        "{wild}"
    );
    assert_eq!(wild.lines().count(), tame.lines().count(), "{wild}");
}
