//! The knowledge of the learner in the daemon is kept separately from epsilon-greedy's.

use super::*;

fn rows(numbers: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let row = |number: &u8| (vec![*number; 24], vec![*number, 0, 255]);
    numbers.iter().map(row).collect()
}

fn known(policy: &str, numbers: &[u8]) -> Knowledge {
    Knowledge {
        policy: policy.to_owned(),
        arms: vec!["cubic".to_owned(), "bbr".to_owned()],
        rows: rows(numbers),
        ..Knowledge::default()
    }
}

fn read(store: &Store, policy: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    let each = |key: &[u8], row: &[u8]| rows.push((key.to_vec(), row.to_vec()));
    store.for_each_row(policy, each).unwrap();
    rows
}

#[test]
fn each_learner_keeps_its_own_rows() {
    let (_dir, file) = stored(&paths(3));
    let (mut store, _) = Store::open(&file).unwrap();
    store.save_knowledge(&[known("default", &[1, 2])]).unwrap();
    store.save(&[path(4)], NOW - WEEK, []).unwrap();
    drop(store);
    let (store, aside) = Store::open(&file).unwrap();
    assert_eq!(aside, None);
    assert_eq!(read(&store, "default"), rows(&[1, 2]));
    assert_eq!(store.load().unwrap().len(), 4);
}

#[test]
fn only_changes_are_written_unless_all() {
    let (_dir, file) = stored(&[]);
    let (mut store, _) = Store::open(&file).unwrap();
    let both = [known("default", &[1, 2, 3]), known("web", &[1])];
    store.save_knowledge(&both).unwrap();
    let change = Knowledge {
        gone: vec![vec![2; 24]],
        ..known("default", &[4])
    };
    store.save_knowledge(&[change]).unwrap();
    assert_eq!(read(&store, "default"), rows(&[1, 3, 4]));
    assert_eq!(read(&store, "web"), rows(&[1]));
    let anew = Knowledge {
        is_all: true,
        arms: vec!["reno".to_owned()],
        ..known("default", &[9])
    };
    store.save_knowledge(&[anew]).unwrap();
    assert_eq!(read(&store, "default"), rows(&[9]));
    assert_eq!(store.known_arms("default").unwrap().unwrap(), ["reno"]);
    assert_eq!(store.known_arms("web").unwrap().unwrap(), ["cubic", "bbr"]);
    assert_eq!(store.known_arms("other").unwrap(), None);
}

#[test]
fn interrupted_full_save_loses_nothing() {
    let (_dir, file) = stored(&[]);
    let (mut store, _) = Store::open(&file).unwrap();
    let before = [known("default", &[1, 2, 3]), known("web", &[7])];
    store.save_knowledge(&before).unwrap();
    let first = Knowledge {
        is_all: true,
        has_more: true,
        ..known("default", &[2, 4])
    };
    store.save_knowledge(std::slice::from_ref(&first)).unwrap();
    drop(store); // killed
    let (mut store, _) = Store::open(&file).unwrap();
    assert_eq!(read(&store, "default"), rows(&[1, 2, 3, 4]));
    store.save_knowledge(&[first]).unwrap();
    store.save_knowledge(&[known("default", &[5])]).unwrap();
    assert_eq!(read(&store, "default"), rows(&[2, 4, 5]));
    assert_eq!(read(&store, "web"), rows(&[7]));
    let left = "SELECT count(*) FROM kept";
    let left: i64 = store.db.query_row(left, [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
    // Later changes are not included.
    store.save_knowledge(&[known("default", &[6])]).unwrap();
    assert_eq!(read(&store, "default"), rows(&[2, 4, 5, 6]));
}

#[test]
fn first_part_removes_rows_of_other_algorithms() {
    let (_dir, file) = stored(&[]);
    let (mut store, _) = Store::open(&file).unwrap();
    store
        .save_knowledge(&[known("default", &[1, 2, 3])])
        .unwrap();
    let other = Knowledge {
        is_all: true,
        has_more: true,
        arms: vec!["reno".to_owned()],
        ..known("default", &[2])
    };
    store.save_knowledge(&[other]).unwrap();
    assert_eq!(read(&store, "default"), rows(&[2]));
}

#[test]
fn a_reset_forgets_what_either_has_learned() {
    let (_dir, file) = stored(&paths(3));
    let (mut store, _) = Store::open(&file).unwrap();
    store.save_knowledge(&[known("default", &[1])]).unwrap();
    assert_eq!(store.reset().unwrap(), 3);
    assert!(read(&store, "default").is_empty());
    assert_eq!(store.known_arms("default").unwrap(), None);
}

#[test]
fn older_file_gets_tables_and_keeps_paths() {
    let (_dir, file) = stored(&paths(3));
    let db = Connection::open(&file).unwrap();
    db.execute_batch("DROP TABLE knowledge; DROP TABLE learner; DROP TABLE kept;")
        .unwrap();
    drop(db);
    let (mut store, aside) = Store::open(&file).unwrap();
    assert_eq!(aside, None);
    assert_eq!(store.load().unwrap(), paths(3));
    store.save_knowledge(&[known("default", &[1])]).unwrap();
    assert_eq!(read(&store, "default"), rows(&[1]));
}

/// The saved knowledge of a learner with two algorithms and two paths.
fn learned(policy: &str) -> Knowledge {
    use tcpilot_learner::{
        Lineage, Observation, Outcome, Settings, Thompson, lineage::Class, regression::Features,
        reward::Reward,
    };
    let mut learner = Thompson::new(2, Settings::default()).unwrap();
    for number in 0..20 {
        let peer = format!("198.51.100.{}", 1 + number % 2).parse().unwrap();
        let seen = Observation {
            lineage: Lineage::of(peer, Class::default(), 0),
            arm: number / 2 % 2,
            outcome: Outcome::Reward(Reward {
                nats: 14.0 + 0.1 * number as f64,
                weight: 1.0,
            }),
            features: Features {
                handshake_rtt_us: 20_000.0,
                bytes: 1e6,
                small_window: false,
                ecn: 0,
                interface: 0,
            },
            at_s: NOW as f64 + number as f64,
            bouts: tcpilot_learner::sharing::Bouts::CLEAR,
            since_last_s: None,
            segments: 0,
            is_switched: false,
            beside: 1,
        };
        learner.observe(&seen).unwrap();
    }
    let mut knowledge = Knowledge {
        is_all: true,
        rows: Vec::new(),
        ..known(policy, &[])
    };
    learner.save(true, |key, row| {
        knowledge.rows.push((key.to_vec(), row.unwrap().to_vec()));
    });
    knowledge.rows.sort();
    knowledge
}

fn exported(store: &Store) -> String {
    let mut document = Vec::new();
    store.export_json(&mut document).unwrap();
    String::from_utf8(document).unwrap()
}

#[test]
fn thompsons_knowledge_survives_export_and_import() {
    let (_dir, file) = stored(&paths(2));
    let (mut store, _) = Store::open(&file).unwrap();
    let before = exported(&store);
    assert!(
        before.starts_with("{\"tcpilot_state\":1,"),
        "older versions read it"
    );
    let effect = Knowledge {
        policy: "/effect".to_owned(),
        ..known("", &[1])
    };
    let all = [learned("default"), learned("web"), effect];
    store.save_knowledge(&all).unwrap();
    let document = exported(&store);
    assert!(document.starts_with("{\"tcpilot_state\":2,"));

    let (_other_dir, other) = stored(&[]);
    let (mut other, _) = Store::open(&other).unwrap();
    // The import replaces this knowledge as a whole.
    other.save_knowledge(&[known("web", &[1, 2])]).unwrap();
    other.import_all(&parse(&document).unwrap()).unwrap();
    assert_eq!(exported(&other), document);
    for knowledge in &all[..2] {
        assert_eq!(read(&other, &knowledge.policy), knowledge.rows);
        let arms = other.known_arms(&knowledge.policy).unwrap();
        assert_eq!(arms.as_ref(), Some(&knowledge.arms));
    }
    assert_eq!(
        other.known_arms("/effect").unwrap(),
        None,
        "that is the host's"
    );
    assert_eq!(other.load().unwrap(), paths(2));
}

/// A change of `learned` in a document.
type Change = &'static dyn Fn(&mut serde_json::Value);

#[test]
fn unusable_knowledge_is_refused_without_change() {
    let (_dir, file) = stored(&paths(2));
    let (mut store, _) = Store::open(&file).unwrap();
    store.save_knowledge(&[learned("default")]).unwrap();
    let good = exported(&store);
    let document = |change: Change| {
        let mut document: serde_json::Value = serde_json::from_str(&good).unwrap();
        document["paths"] = serde_json::to_value([path(9)]).unwrap();
        change(&mut document["learned"]);
        document.to_string()
    };
    let of_default = "what was learned for policy default: ";
    let cases: [(Change, String); 7] = [
        (
            &|learned| learned[0]["rows"][3][1] = "01ff".into(),
            format!("{of_default}1 rows are damaged"),
        ),
        (
            &|learned| learned[0]["rows"] = serde_json::json!([]),
            format!("{of_default}its head is missing"),
        ),
        (
            // The rows compare two algorithms.
            &|learned| learned[0]["algorithms"] = serde_json::json!(["cubic", "bbr", "reno"]),
            "are damaged".to_owned(),
        ),
        (
            &|learned| learned[0]["algorithms"] = serde_json::json!(["cubic", "cubic"]),
            format!("{of_default}algorithm cubic stands there twice"),
        ),
        (
            &|learned| learned[0]["algorithms"] = serde_json::json!(["cubic", "bbr,reno"]),
            format!("{of_default}`bbr,reno` cannot be an algorithm"),
        ),
        (
            &|learned| {
                let again = learned[0].clone();
                learned.as_array_mut().unwrap().push(again);
            },
            "what was learned for policy default stands there twice".to_owned(),
        ),
        (
            &|learned| learned[0]["rows"][0][1] = "0".into(),
            "a row must be pairs of hexadecimal digits".to_owned(),
        ),
    ];
    for (change, why) in cases {
        let text = document(change);
        let error = parse(&text).unwrap_err().to_string();
        assert!(
            error.starts_with("not imported, nothing was changed: "),
            "{error}"
        );
        assert!(error.contains(&why), "{error}");
    }
    // The import also refuses a document not checked by `parse`.
    let mut bad = parse(&document(&|_| {})).unwrap();
    bad.learned[0].rows.pop();
    bad.learned[0].rows[0].1.push(0);
    assert!(store.import_all(&bad).is_err());
    assert_eq!(exported(&store), good);
}
