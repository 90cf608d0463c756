use tcpilot_proof::{Pair, Pairs};

use super::*;
use crate::figures::{ChoicesView, FleetComparison, FleetReport, GroupView, PointView, StopView};

fn measure(name: &str, known: Option<(f64, f64, f64)>, verdict: &str) -> MeasureView {
    let mut sums = Pairs::default();
    for _ in 0..412 {
        sums.add(Pair {
            difference: 0.1,
            covariate: 0.0,
        });
    }
    MeasureView {
        name: name.to_owned(),
        change: known.map(|k| k.0),
        low: known.map(|k| k.1),
        high: known.map(|k| k.2),
        verdict: verdict.to_owned(),
        pairs_missing: known.is_none().then_some(291),
        ready_in_s: known.is_none().then_some(5 * 86_400),
        interval_pairs_missing: None,
        interval_in_s: None,
        sums,
    }
}

#[allow(clippy::too_many_lines, reason = "a list of figures")]
fn example() -> EffectReport {
    let now_unix_s = 1_795_003_200;
    let point = |number: u64| PointView {
        at_unix_s: now_unix_s - 86_400 + 3600 * number,
        pairs: 20 + number,
        change: 0.2,
        low: 0.2 - 1.0 / (number + 2) as f64,
        high: 0.2 + 1.0 / (number + 2) as f64,
    };
    let group = |name: &str, change: f64| GroupView {
        group: name.to_owned(),
        pairs: 41,
        change,
        low: Some(change - 0.2),
        high: Some(change + 0.2),
    };
    let hour = |number: u64| ChoicesView {
        at_unix_s: now_unix_s - 86_400 + 3600 * number,
        connections: [
            ("bbr".to_owned(), 10 + number),
            ("cubic".to_owned(), 40 - number),
        ]
        .into(),
    };
    EffectReport {
        since_unix_s: now_unix_s - 12 * 86_400,
        now_unix_s,
        design: "block".to_owned(),
        hold_out_percent: 5,
        groups: 61,
        groups_active: 63,
        pairs: 412,
        connections: 18_204,
        connections_all: 364_000,
        connections_held_out: 18_100,
        hold_out_cost: 4181.1,
        explored: 12.3,
        measures: vec![
            measure("goodput", Some((0.231, 0.114, 0.36)), "better"),
            measure(
                "time to complete, from 1 MiB",
                Some((-0.27, -0.36, -0.17)),
                "better",
            ),
            measure("retransmitted", Some((0.003, -0.001, 0.007)), "not shown"),
            measure("RTT inflation", None, "insufficient data"),
        ],
        worst: vec![
            group("198.51.100.0/24", -0.061),
            group("203.0.113.0/24", 0.2),
        ],
        stops: vec![StopView {
            group: "192.0.2.0/24".to_owned(),
            harm: 0.05,
            at_unix_s: now_unix_s - 7200,
            until_unix_s: now_unix_s + 14_400,
            active: true,
            sentence:
                "192.0.2.0/24: steering costs more than 5.0 % of goodput; tried again in 240 min"
                    .to_owned(),
        }],
        history: (0..24).map(point).collect(),
        choices: (0..24).map(hour).collect(),
        ..EffectReport::default()
    }
}

/// Compares a text with its stored copy; `TCPILOT_RENEW=1` renews the copy.
fn compare(name: &str, text: &str) {
    let path = format!("{}/src/report/tests/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("TCPILOT_RENEW").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn the_report_is_as_stored() {
    compare("report.txt", &text(&example()));
}

#[test]
fn page_is_as_stored_without_network() {
    let page = page(&example());
    assert!(!page.contains("http") && !page.contains("url("), "{page}");
    compare("report.html", &page);
}

#[test]
fn line_has_effect_price_and_guard() {
    assert_eq!(
        line(&example()),
        "goodput +23.1 % (+11.4 % to +36.0 %), better, sure · held out: 5 % of the time of each group · the guard has \
         stopped steering in 1 place"
    );
    let none = EffectReport {
        unknown: Some("nothing is held out".to_owned()),
        ..EffectReport::default()
    };
    assert_eq!(line(&none), "not known: nothing is held out");
    assert_eq!(text(&none), "effect   not known: nothing is held out\n");
    assert!(page(&none).contains("Not known: nothing is held out."));
}

#[test]
fn young_report_names_the_next_step() {
    let with = |goodput: MeasureView| EffectReport {
        measures: vec![goodput],
        trial_until_unix_s: Some(3600),
        ..EffectReport::default()
    };
    let none = MeasureView {
        interval_pairs_missing: Some(20),
        interval_in_s: Some(7000),
        ..measure("goodput", None, "insufficient data")
    };
    let held_out = " · held out: half of the time of each group, for another 1 h 0 min (trial)";
    assert_eq!(
        line(&with(none.clone())),
        format!("goodput not proven: first interval at 20 pairs, 20 to go, in about 2 h{held_out}")
    );
    let early = MeasureView {
        change: Some(0.33),
        interval_pairs_missing: Some(5),
        interval_in_s: None,
        ..none
    };
    assert_eq!(
        line(&with(early)),
        format!(
            "goodput +33.0 % so far, not proven: first interval at 20 pairs, 5 to go{held_out}"
        )
    );
    let later = MeasureView {
        pairs_missing: Some(40),
        ready_in_s: Some(5 * 86_400),
        ..measure("goodput", Some((0.2, -0.01, 0.43)), "insufficient data")
    };
    assert_eq!(
        line(&with(later)),
        format!(
            "goodput +20.0 % (-1.0 % to +43.0 %), not proven: about 40 pairs more at this effect, in about 5 d{held_out}"
        )
    );
}

#[test]
fn small_loss_is_not_minus_zero() {
    assert_eq!(
        [-0.0004, 0.0, -0.0006].map(|v| change(v, "")),
        ["+0.0 %", "+0.0 %", "-0.1 %"]
    );
}

#[test]
fn bars_of_groups_have_their_addresses() {
    let page = page(&example());
    assert!(page.contains(">198.51.100.0/24</text>"), "{page}");
    // A host with many groups shows both ends of the list.
    let many = EffectReport {
        worst: (0..100)
            .map(|i| GroupView {
                group: format!("group{i:03}"),
                change: f64::from(i) / 100.0,
                ..GroupView::default()
            })
            .collect(),
        ..example()
    };
    let page = super::page(&many);
    let shows = |name: &str| page.contains(&format!(">{name}</text>"));
    assert!(shows("group000") && shows("group099") && !shows("group050"));
    assert!(
        page.contains("70 groups between these are not drawn"),
        "{page}"
    );
}

#[test]
fn hours_end_now() {
    let report = EffectReport {
        since_unix_s: 1_795_003_200 - 600,
        now_unix_s: 1_795_003_200 + 1800,
        choices: vec![ChoicesView {
            at_unix_s: 1_795_003_200,
            connections: [("bbr".to_owned(), 1)].into(),
        }],
        ..example()
    };
    let page = page(&report);
    // The bar of this hour, half over, fills the plot's width.
    let bar = page.split("class=\"c0\"").nth(1).unwrap();
    assert!(
        bar.contains("x=\"62.0\"") && bar.contains("width=\"566.0\""),
        "{bar}"
    );
}

#[test]
fn days_are_those_of_the_calendar() {
    let known = [
        (0, "1970-01-01"),
        (951_782_400, "2000-02-29"),
        (1_795_003_200, "2026-11-18"),
        (4_107_542_400, "2100-03-01"),
    ];
    for (unix_s, expected) in known {
        assert_eq!(day(unix_s), expected);
    }
}

#[test]
fn page_shows_names_as_text() {
    assert_eq!(
        crate::html::escape("<i>\u{1b}[2J\n\"&\u{202e}"),
        "&lt;i&gt;\\u{1b}[2J &quot;&amp;\\u{202e}"
    );
}

#[test]
fn fleet_report_has_first_connections_apart() {
    let mut missing = measure("goodput", None, "insufficient data");
    missing.interval_pairs_missing = Some(20);
    missing.interval_in_s = Some(9 * 86_400);
    let report = FleetReport {
        unknown: None,
        since_unix_s: 1_795_003_200 - 12 * 86_400,
        now_unix_s: 1_795_003_200,
        held_back_percent: 5,
        rotation_s: 604_800,
        first: FleetComparison {
            pairs: 41,
            connections: 2041,
            measures: vec![
                measure("goodput", Some((0.18, 0.05, 0.33)), "better"),
                measure("retransmitted", Some((0.0, -0.004, 0.004)), "not shown"),
            ],
        },
        later: FleetComparison {
            pairs: 0,
            connections: 0,
            measures: vec![missing],
        },
    };
    assert_eq!(
        fleet(&report),
        "Since 2026-11-06 (12 d 0 h), connections that hear the fleet against those to sites held back from it\n\n\
         first 10 connections of a path          change   interval (95 %, valid at any look)\n\
         goodput                                +18.0 %      +5.0 % …   +33.0 %    better, sure\n\
         retransmitted                          +0.0 pp     -0.4 pp …   +0.4 pp    no effect worth having\n\
         41 pairs of sites with 2041 connections of 16 KiB or more\n\n\
         later connections                       change   interval (95 %, valid at any look)\n\
         goodput                                      -   -                        not proven: first interval at 20 \
         pairs, 20 to go, in about 9 d\n\
         0 pairs of sites with 0 connections of 16 KiB or more\n\n\
         held back from the fleet: 5 % of the sites (/16, /32), others each 7 d\n"
    );
    let none = FleetReport {
        unknown: Some("this host is in no fleet".to_owned()),
        ..FleetReport::default()
    };
    assert_eq!(
        fleet(&none),
        "fleet    not known: this host is in no fleet\n"
    );
}
