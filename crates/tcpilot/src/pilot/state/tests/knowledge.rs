//! What the learner in the daemon knows: kept beside what epsilon-greedy has learned.

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
fn each_learner_keeps_its_own_whatever_the_other_saves() {
    let (_dir, file) = stored(&paths(3));
    let (mut store, _) = Store::open(&file).unwrap();
    store.save_knowledge(&[known("default", &[1, 2])]).unwrap();
    store.save(&[path(4)], NOW, WEEK).unwrap();
    drop(store);
    let (store, aside) = Store::open(&file).unwrap();
    assert_eq!(aside, None);
    assert_eq!(read(&store, "default"), rows(&[1, 2]));
    assert_eq!(store.load(NOW, WEEK).unwrap().len(), 4);
}

#[test]
fn only_what_changed_is_written_unless_it_is_all() {
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
fn a_reset_forgets_what_either_has_learned() {
    let (_dir, file) = stored(&paths(3));
    let (mut store, _) = Store::open(&file).unwrap();
    store.save_knowledge(&[known("default", &[1])]).unwrap();
    assert_eq!(store.reset().unwrap(), 3);
    assert!(read(&store, "default").is_empty());
    assert_eq!(store.known_arms("default").unwrap(), None);
}

#[test]
fn a_file_of_an_older_tcpilot_gets_the_tables_and_keeps_its_paths() {
    let (_dir, file) = stored(&paths(3));
    let db = Connection::open(&file).unwrap();
    db.execute_batch("DROP TABLE knowledge; DROP TABLE learner;")
        .unwrap();
    drop(db);
    let (mut store, aside) = Store::open(&file).unwrap();
    assert_eq!(aside, None);
    assert_eq!(store.load(NOW, WEEK).unwrap(), paths(3));
    store.save_knowledge(&[known("default", &[1])]).unwrap();
    assert_eq!(read(&store, "default"), rows(&[1]));
}
