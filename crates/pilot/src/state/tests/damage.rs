//! A damaged file is not trusted, and no file is thrown away.

use super::*;

/// Opens a file with this content, and returns the reason why it was set aside. The content must stay
/// unchanged.
fn reason_for(content: &[u8]) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.db");
    fs::write(&file, content).unwrap();
    let (store, aside) = Store::open(&file).unwrap();
    let aside = aside?;
    assert!(aside.path.to_string_lossy().contains("/state.db.corrupt-"));
    assert_eq!(fs::read(&aside.path).unwrap(), content);
    assert!(store.load().unwrap().is_empty());
    Some(aside.reason)
}

#[test]
fn an_empty_file_is_a_new_store() {
    assert_eq!(reason_for(b""), None);
}

#[test]
fn non_database_file_is_set_aside() {
    for content in [
        &b"hello\n"[..],
        &[0; 4096],
        &[0xff; 100],
        b"SQLite format 3\0",
    ] {
        assert_eq!(
            reason_for(content).unwrap(),
            "file is not a database",
            "{content:?}"
        );
    }
}

/// Opens a file with this content; true if it was set aside. If not, it must hold all of `expected`.
fn is_set_aside(content: &[u8], expected: &[StoredPath]) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.db");
    fs::write(&file, content).unwrap();
    let (mut store, aside) = Store::open(&file).unwrap();
    match &aside {
        Some(aside) => assert_eq!(fs::read(&aside.path).unwrap(), content),
        None => assert_eq!(store.load().unwrap(), expected),
    }
    store.save(&[], NOW - WEEK, []).unwrap();
    aside.is_some()
}

#[test]
fn a_truncated_file_is_set_aside() {
    let (_dir, file) = stored(&paths(50));
    let whole = fs::read(&file).unwrap();
    // SQLite treats a file of one byte as empty.
    for len in (2..whole.len() - 4096)
        .step_by(997)
        .chain([100, 512, 4096, 8192])
    {
        assert!(
            is_set_aside(&whole[..len], &paths(50)),
            "{len} of {}",
            whole.len()
        );
    }
    // The end of the last page may be unused.
    for len in (whole.len() - 4096..whole.len())
        .step_by(37)
        .chain([whole.len() - 1])
    {
        is_set_aside(&whole[..len], &paths(50));
    }
}

#[test]
fn damaged_byte_is_noticed_or_harmless() {
    let (_dir, file) = stored(&paths(50));
    let whole = fs::read(&file).unwrap();
    let mut noticed = 0;
    // Every byte of the first page's header and schema, then samples of the rest.
    for at in (0..200).chain((200..whole.len()).step_by(61)) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x15;
        noticed += usize::from(is_set_aside(&damaged, &paths(50)));
    }
    assert!(
        noticed > whole.len() / 61 / 2,
        "{noticed} of {}",
        whole.len() / 31
    );
}

#[test]
fn any_version_byte_of_the_header_is_survived() {
    let (_dir, file) = stored(&paths(3));
    let whole = fs::read(&file).unwrap();
    for (at, value) in [18, 19]
        .into_iter()
        .flat_map(|at| (0..4).map(move |value| (at, value)))
    {
        let mut damaged = whole.clone();
        damaged[at] = value;
        is_set_aside(&damaged, &paths(3));
    }
}

#[test]
fn zeroed_pages_are_noticed() {
    let (_dir, file) = stored(&paths(50));
    let whole = fs::read(&file).unwrap();
    for page in 0..whole.len() / 4096 {
        let mut damaged = whole.clone();
        damaged[page * 4096..(page + 1) * 4096].fill(0);
        let reason = reason_for(&damaged);
        // An empty meta table does no harm.
        assert!(reason.is_some() || damaged == whole, "page {page}");
    }
}

#[test]
fn changed_measure_in_sound_database_is_noticed() {
    let (_dir, file) = stored(&paths(3));
    let db = Connection::open(&file).unwrap();
    db.execute(
        "UPDATE path SET measures = replace(measures, '1710535', '0')",
        [],
    )
    .unwrap();
    drop(db);
    assert_eq!(
        reason_for(&fs::read(&file).unwrap()).unwrap(),
        "a row is damaged: its checksum is wrong"
    );
}

#[test]
fn newer_schema_is_set_aside_aloud() {
    let (_dir, file) = stored(&paths(3));
    Connection::open(&file)
        .unwrap()
        .pragma_update(None, "user_version", 2)
        .unwrap();
    assert_eq!(
        reason_for(&fs::read(&file).unwrap()).unwrap(),
        "a newer tcpilot wrote it: schema 2, this one knows 1"
    );
}

#[test]
fn a_database_of_another_program_is_set_aside() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("other.db");
    Connection::open(&file)
        .unwrap()
        .execute_batch("CREATE TABLE t (x)")
        .unwrap();
    assert_eq!(
        reason_for(&fs::read(&file).unwrap()).unwrap(),
        "it is a database of another program"
    );
}

#[test]
fn nothing_set_aside_is_ever_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.db");
    let asides: Vec<PathBuf> = (0..20)
        .map(|i| {
            fs::write(&file, format!("bad {i}")).unwrap();
            Store::open(&file).unwrap().1.unwrap().path
        })
        .collect();
    for (i, aside) in asides.iter().enumerate() {
        assert_eq!(fs::read_to_string(aside).unwrap(), format!("bad {i}"));
    }
}

#[test]
fn a_journal_goes_with_its_database() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.db");
    fs::write(&file, "bad").unwrap();
    fs::write(dir.path().join("state.db-journal"), "journal").unwrap();
    let aside = check::set_aside(&file, NOW).unwrap();
    assert_eq!(aside, dir.path().join(format!("state.db.corrupt-{NOW}")));
    let journal = dir.path().join(format!("state.db.corrupt-{NOW}-journal"));
    assert_eq!(fs::read_to_string(journal).unwrap(), "journal");
}

#[test]
fn database_without_rename_keeps_its_journal() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.db");
    fs::create_dir(&file).unwrap(); // the second step fails: a folder cannot take the name of a file
    let journal = dir.path().join("state.db-journal");
    fs::write(&journal, "journal").unwrap();
    check::set_aside(&file, NOW).unwrap_err();
    assert_eq!(fs::read_to_string(&journal).unwrap(), "journal");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

/// A crash before the last step of `set_aside` leaves the journal with both names.
#[test]
fn leftover_journal_is_not_used_for_new_database() {
    let (dir, file) = stored(&paths(50));
    let whole = fs::read(&file).unwrap();
    let writer = Connection::open(&file).unwrap();
    // With so little memory pages reach the file before the end, so the journal is needed.
    writer
        .execute_batch("PRAGMA cache_size = 1; BEGIN IMMEDIATE; DELETE FROM path")
        .unwrap();
    let journal = dir.path().join("state.db-journal");
    let content = fs::read(&journal).unwrap();
    assert!(
        content.len() > 4096 && fs::read(&file).unwrap() != whole,
        "half done"
    );
    let aside = dir.path().join("state.db.corrupt-1");
    let beside = dir.path().join("state.db.corrupt-1-journal");
    fs::copy(&file, &aside).unwrap();
    fs::copy(&journal, &beside).unwrap();
    std::mem::forget(writer); // it would roll back, and remove the journal
    fs::remove_file(&file).unwrap();
    let (store, set_aside) = Store::open(&file).unwrap();
    assert_eq!((store.load().unwrap(), set_aside), (Vec::new(), None));
    assert!(!journal.exists());
    assert_eq!(fs::read(&beside).unwrap(), content);
    // Together they are the last save.
    let (store, set_aside) = Store::open(&aside).unwrap();
    assert_eq!((store.load().unwrap(), set_aside), (paths(50), None));
}
