use serde::Serialize;

use super::*;
use crate::figure::figures;

figures! {
    /// An item.
    #[derive(Clone, Debug, PartialEq, Serialize)]
    Line {
        /// Where to.
        remote: String;
        /// How long.
        rtt_us: Option<u32>, Microseconds, "RTT";
        /// How much.
        loss: Option<f64>, Share, "Loss";
        /// Its tags.
        tags: Vec<String>;
        /// Its ways.
        ways: Vec<Way>;
    }
}

figures! {
    /// A part of an item.
    #[derive(Clone, Debug, PartialEq, Serialize)]
    Way {
        /// Its name.
        name: String, "Way";
        /// How fast.
        rate: Option<u64>, BytesPerSecond, "Rate";
        /// How long.
        rtt_us: Option<u32>, Microseconds;
    }
}

impl Listed for Line {
    type Part = Way;
    const PARTS: &'static str = "ways";
    const NAME: &'static str = "Line";
    fn name(&self) -> String {
        format!("to {}", self.remote)
    }
    fn parts(&self) -> &[Way] {
        &self.ways
    }
    fn parts_mut(&mut self) -> Option<&mut Vec<Way>> {
        Some(&mut self.ways)
    }
}

fn way(name: &str, rate: Option<u64>) -> Way {
    Way {
        name: name.to_owned(),
        rate,
        rtt_us: None,
    }
}

fn line(remote: &str, rtt_us: Option<u32>, tags: &[&str], ways: &[Way]) -> Line {
    Line {
        remote: remote.to_owned(),
        rtt_us,
        loss: Some(0.02),
        tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
        ways: ways.to_vec(),
    }
}

fn lines() -> Vec<Line> {
    let slow = way("slow", Some(125_000));
    vec![
        line(
            "10.0.0.10:80",
            Some(20_000),
            &["ssh", "nginx"],
            &[slow.clone(), way("fast", Some(1_250_000))],
        ),
        line(
            "10.0.0.9:80",
            Some(900),
            &[],
            &[slow.clone(), way("fast", Some(2_500_000))],
        ),
        line(
            "[2001:db8::1]:443",
            None,
            &["curl"],
            &[way("fast", None), slow],
        ),
    ]
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|&word| word.to_owned()).collect()
}

fn selected(query: ListQuery) -> Vec<String> {
    let mut lines = lines();
    Selection::new(&query).unwrap().apply(&mut lines);
    let names = |ways: &[Way]| {
        ways.iter()
            .map(|way| way.name.clone())
            .collect::<Vec<_>>()
            .join("+")
    };
    let said = lines
        .iter()
        .map(|line| format!("{} {}", line.remote, names(&line.ways)));
    said.collect()
}

fn filtered(filter: &str) -> Vec<String> {
    let filter = words(&[filter]);
    selected(ListQuery {
        filter,
        ..ListQuery::default()
    })
}

fn sorted(sort: &[&str]) -> Vec<String> {
    let sort = words(sort);
    selected(ListQuery {
        sort,
        ..ListQuery::default()
    })
}

const FIRST: &str = "10.0.0.10:80 slow+fast";
const SECOND: &str = "10.0.0.9:80 slow+fast";
const THIRD: &str = "[2001:db8::1]:443 fast+slow";

#[test]
fn filter_compares_in_the_columns_units() {
    assert_eq!(filtered("rtt_us>1ms"), [FIRST]);
    assert_eq!(filtered("rtt_us >= 900"), [FIRST, SECOND]);
    assert_eq!(filtered("rtt_us<0.02s"), [SECOND]);
    assert_eq!(filtered("rtt_us<=20 ms"), [FIRST, SECOND]);
    assert_eq!(filtered("rtt_us=900us"), [SECOND]);
    assert_eq!(filtered("loss>1%").len(), 3);
    assert_eq!(filtered("loss>2%").len(), 0);
}

#[test]
fn a_filter_on_parts_leaves_those_parts() {
    assert_eq!(
        filtered("rate>=10Mbit/s"),
        ["10.0.0.10:80 fast", "10.0.0.9:80 fast"]
    );
    assert_eq!(
        filtered("way=slow"),
        [
            "10.0.0.10:80 slow",
            "10.0.0.9:80 slow",
            "[2001:db8::1]:443 slow"
        ]
    );
    assert_eq!(filtered("rate=-"), ["[2001:db8::1]:443 fast"]);
}

#[test]
fn filter_matches_addresses_in_a_prefix() {
    assert_eq!(filtered("remote=10.0.0.0/24"), [FIRST, SECOND]);
    assert_eq!(filtered("remote=10.0.0.9"), [SECOND]);
    assert_eq!(filtered("remote=10.0.0.9:80"), [SECOND]);
    assert_eq!(filtered("remote=2001:db8::/32"), [THIRD]);
    assert_eq!(filtered("remote!=10.0.0.0/24"), [THIRD]);
}

#[test]
fn list_matches_by_entry_text_anywhere() {
    assert_eq!(filtered("tags=nginx"), [FIRST]);
    assert_eq!(filtered("tags~UR"), [THIRD]);
    assert_eq!(filtered("tags=-"), [SECOND]);
    assert_eq!(filtered("fast").len(), 3);
    assert_eq!(filtered("0.0.9"), [SECOND]);
    assert_eq!(filtered("2001:DB8"), [THIRD]);
    let both = words(&["10.0", "rtt_us>1ms"]);
    assert_eq!(
        selected(ListQuery {
            filter: both,
            ..ListQuery::default()
        }),
        [FIRST]
    );
}

#[test]
fn sorting_is_by_size_missing_last() {
    assert_eq!(sorted(&["rtt_us"]), [SECOND, FIRST, THIRD]);
    assert_eq!(sorted(&["-rtt_us"]), [FIRST, SECOND, THIRD]);
    assert_eq!(sorted(&["remote"]), [SECOND, FIRST, THIRD]);
    assert_eq!(sorted(&["loss", "-remote"]), [THIRD, FIRST, SECOND]);
}

/// The parts are sorted too, and each item stands where its first part belongs.
#[test]
fn items_are_sorted_by_their_best_part() {
    assert_eq!(
        sorted(&["-rate"]),
        [
            "10.0.0.9:80 fast+slow",
            "10.0.0.10:80 fast+slow",
            "[2001:db8::1]:443 slow+fast"
        ]
    );
}

#[test]
fn a_limit_counts_items() {
    let limit = Some(1);
    let sort = words(&["remote"]);
    assert_eq!(
        selected(ListQuery {
            limit,
            sort,
            ..ListQuery::default()
        }),
        [SECOND]
    );
}

#[test]
fn unknown_column_is_refused_with_the_known() {
    let known = "there are line, remote, rtt_us, loss, tags, way, rate, way.rtt_us";
    let queries = [
        ListQuery {
            sort: words(&["-rtt"]),
            ..ListQuery::default()
        },
        ListQuery {
            columns: words(&["rtt"]),
            ..ListQuery::default()
        },
        ListQuery {
            filter: words(&["rtt=1"]),
            ..ListQuery::default()
        },
    ];
    for query in queries {
        let failure = Selection::<Line>::new(&query).err().unwrap();
        assert_eq!(failure.kind, Kind::Usage);
        assert_eq!(
            failure.to_string(),
            format!("there is no column `rtt`; {known}"),
            "{query:?}"
        );
    }
    let query = ListQuery {
        filter: words(&["rtt_us>soon"]),
        ..ListQuery::default()
    };
    let failure = Selection::<Line>::new(&query).err().unwrap();
    assert_eq!(
        failure.to_string(),
        "`soon` in the filter `rtt_us>soon` is no number; write a number, alone or with us, ms, s"
    );
}

#[test]
fn table_has_usual_or_named_columns() {
    let usual = Selection::new(&ListQuery::default()).unwrap();
    let text = usual.table(&lines()[..1], |_| true, &["tags"]);
    assert_eq!(
        text,
        "Line             Way   tags              Rate\n\
         to 10.0.0.10:80  slow  ssh,nginx   1.0 Mbit/s\n\
         to 10.0.0.10:80  fast  ssh,nginx  10.0 Mbit/s\n"
    );
    let columns = words(&["way.rtt_us", "rtt_us", "way", "tags"]);
    let named = Selection::new(&ListQuery {
        columns,
        ..ListQuery::default()
    })
    .unwrap();
    assert_eq!(
        named.table(&lines()[1..2], |_| true, &[]),
        "way.rtt_us       RTT  Way   tags\n         \
         -  0.900 ms  slow     -\n         \
         -  0.900 ms  fast     -\n"
    );
}

#[test]
fn it_says_whether_a_column_is_named() {
    let names = |query: &ListQuery| {
        Selection::<Line>::new(query)
            .unwrap()
            .names(&["tags", "loss"])
    };
    assert!(!names(&ListQuery {
        sort: words(&["rtt_us"]),
        ..ListQuery::default()
    }));
    assert!(names(&ListQuery {
        sort: words(&["-tags"]),
        ..ListQuery::default()
    }));
    assert!(names(&ListQuery {
        filter: words(&["loss>1%"]),
        ..ListQuery::default()
    }));
    assert!(names(&ListQuery {
        columns: words(&["line", "tags"]),
        ..ListQuery::default()
    }));
}

#[test]
fn lines_are_broken_at_the_width() {
    assert_eq!(wrapped("one two three", 9), ["one two", "three"]);
    assert_eq!(wrapped("longer than", 3), ["longer", "than"]);
}
