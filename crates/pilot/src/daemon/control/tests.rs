//! Whom the control socket serves first, and how much it keeps for whom.

use std::os::unix::net::UnixStream;

use super::*;

#[test]
fn second_daemon_is_refused_stale_socket_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run/t.sock");
    let first = Control::open(&path).unwrap();
    let failure = Control::open(&path).err().unwrap();
    assert_eq!(failure.kind, Kind::Running);
    assert!(failure.message.contains(&std::process::id().to_string()));
    drop(first);
    drop(UnixListener::bind(&path).unwrap()); // the file stays, as after SIGKILL
    assert!(path.exists());
    Control::open(&path).unwrap();
}

#[test]
fn other_files_and_foreign_locks_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (path, goal) = (dir.path().join("t.sock"), dir.path().join("goal"));
    fs::write(&path, "precious").unwrap();
    assert_eq!(check_free(&path).unwrap_err().kind, Kind::Usage);
    Control::open(&path).err().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    fs::remove_file(&path).unwrap();
    fs::write(&goal, "precious").unwrap();
    let lock = dir.path().join("t.sock.lock");
    fs::remove_file(&lock).unwrap();
    std::os::unix::fs::symlink(&goal, &lock).unwrap();
    Control::open(&path).err().unwrap();
    fs::rename(&goal, &lock).unwrap();
    Control::open(&path).err().unwrap();
    assert_eq!(fs::read_to_string(&lock).unwrap(), "precious");
}

#[test]
fn a_check_changes_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.sock");
    let lock = dir.path().join("t.sock.lock");
    check_free(&path).unwrap();
    assert!(!lock.exists());
    fs::write(&lock, "123456\n").unwrap(); // of a dead daemon
    check_free(&path).unwrap();
    assert_eq!(fs::read_to_string(&lock).unwrap(), "123456\n");
}

#[test]
fn the_socket_is_for_its_owner_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.sock");
    let _control = Control::open(&path).unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn waiting_ends_with_the_timeout() {
    let dir = tempfile::tempdir().unwrap();
    let mut control = Control::open(&dir.path().join("t.sock")).unwrap();
    assert!(control.wait(Duration::from_millis(1), &[]).is_none());
}

#[test]
fn silent_clients_keep_nobody_from_asking() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.sock");
    let mut control = Control::open(&path).unwrap();
    let connect = || UnixStream::connect(&path).unwrap();
    let mut silent = Vec::new();
    for _ in 0..3 * CLIENTS_MAX {
        silent.push(connect());
        assert!(control.wait(Duration::ZERO, &[]).is_none());
    }
    assert!(control.clients.len() <= CLIENTS_MAX);
    let mut asks = connect();
    asks.write_all(b"\"status\"\n").unwrap();
    let client = control.wait(Duration::from_secs(1), &[]).unwrap();
    client.answer(|_, out| out.write_all(b"yes"));
    let mut answer = String::new();
    control.wait(Duration::ZERO, &[]);
    asks.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "yes\n");
}

/// Lets in a client of this user, which asks if it has a question.
fn come(control: &mut Control, user: User, question: &[u8]) -> UnixStream {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(question).unwrap();
    let mut client = Client::new(ours).unwrap();
    client.become_user(user);
    client.go_on();
    control.clients.push(client);
    control.keep_quota();
    theirs
}

fn count(control: &Control, is_it: impl Fn(&Client) -> bool) -> usize {
    control.clients.iter().filter(|one| is_it(one)).count()
}

const STATUS: &[u8] = b"\"status\"\n";

#[test]
fn guests_have_quotas_and_root_has_places() {
    let dir = tempfile::tempdir().unwrap();
    let mut control = Control::open(&dir.path().join("t.sock")).unwrap();
    let mut all = Vec::new();
    for user in 1..=5 {
        all.extend((0..20).map(|_| come(&mut control, User::Guest(user), STATUS)));
    }
    let counts = [1, 2, 3, 4, 5].map(|user| count(&control, |one| one.user() == User::Guest(user)));
    assert_eq!(counts, [16, 16, 16, 0, 0]);
    all.extend((0..16).map(|_| come(&mut control, User::Owner, STATUS)));
    assert_eq!(count(&control, |one| one.user() == User::Owner), 16);
    assert_eq!(control.clients.len(), CLIENTS_MAX);
}

#[test]
fn silent_guests_make_room_and_asked_questions_stay() {
    let dir = tempfile::tempdir().unwrap();
    let mut control = Control::open(&dir.path().join("t.sock")).unwrap();
    let mut all = Vec::new();
    for question in [STATUS, b"", STATUS] {
        all.extend((0..10).map(|_| come(&mut control, User::Guest(1), question)));
    }
    let silent = count(&control, Client::is_asking);
    assert_eq!((control.clients.len(), silent), (16, 0));
}

#[test]
fn root_is_answered_before_earlier_guests() {
    let dir = tempfile::tempdir().unwrap();
    let mut control = Control::open(&dir.path().join("t.sock")).unwrap();
    let mut all: Vec<_> = (1..=30)
        .map(|user| come(&mut control, User::Guest(user), STATUS))
        .collect();
    all.push(come(&mut control, User::Owner, STATUS));
    let next = control.wait(Duration::ZERO, &[]).unwrap();
    assert_eq!(next.user(), User::Owner);
    next.answer(|_, out| out.write_all(b"yes"));
    let next = control.wait(Duration::ZERO, &[]).unwrap();
    assert_eq!(next.user(), User::Guest(1));
}

/// Guests that ask for all paths, and never read.
#[test]
fn slow_readers_hold_bounded_memory() {
    const BYTES: usize = 6 << 20;
    let dir = tempfile::tempdir().unwrap();
    let mut control = Control::open(&dir.path().join("t.sock")).unwrap();
    let mut all = Vec::new();
    for _ in 0..3 {
        all.extend((1..=15).map(|user| come(&mut control, User::Guest(user), STATUS)));
    }
    let long = vec![b'x'; BYTES];
    while let Some(client) = control.wait(Duration::ZERO, &[]) {
        client.answer(|_, out| out.write_all(&long));
    }
    let unread: u64 = control.clients.iter().map(Client::unread_bytes).sum();
    assert!(
        (UNREAD_BYTES_MAX..UNREAD_BYTES_MAX + 2 * BYTES as u64).contains(&unread),
        "{unread}"
    );
    let of_one = control
        .clients
        .iter()
        .filter(|c| c.user() == User::Guest(1));
    let of_one: u64 = of_one.map(Client::unread_bytes).sum();
    assert!(of_one < UNREAD_OF_GUEST_MAX + 2 * BYTES as u64, "{of_one}");
    all.push(come(&mut control, User::Owner, STATUS));
    let root = control.wait(Duration::ZERO, &[]).unwrap();
    root.answer(|_, out| out.write_all(&long));
    let now: u64 = control.clients.iter().map(Client::unread_bytes).sum();
    assert_eq!(now, unread, "in the place of the oldest reader");
    // A reader at the end makes room for the next answer.
    let mut reader = all.remove(1);
    let read = std::thread::spawn(move || reader.read_to_end(&mut Vec::new()).unwrap());
    while control.wait(Duration::from_millis(10), &[]).is_none() {}
    drop(control);
    assert!(read.join().unwrap() > BYTES);
}

#[test]
fn clients_of_a_closed_socket_wait_outside() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.sock");
    let mut control = Control::open(&path).unwrap();
    control.close(true);
    let mut asks = UnixStream::connect(&path).unwrap();
    asks.write_all(STATUS).unwrap();
    assert!(control.wait(Duration::ZERO, &[]).is_none() && control.is_idle(true));
    control.close(false);
    assert!(control.wait(Duration::from_secs(9), &[]).is_some());
}

/// The daemon may be busy for longer than a client has time to ask, as with a save of very many paths.
#[test]
fn questions_to_a_busy_daemon_are_answered() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.sock");
    let mut control = Control::open(&path).unwrap();
    let mut asks: Vec<_> = (0..3)
        .map(|_| UnixStream::connect(&path).unwrap())
        .collect();
    assert!(control.wait(Duration::ZERO, &[]).is_none()); // they are let in
    asks.iter_mut()
        .for_each(|one| one.write_all(b"\"status\"\n").unwrap());
    control.clients.iter_mut().for_each(Client::run_out_of_time);
    for _ in 0..3 {
        let client = control.wait(Duration::from_secs(1), &[]).unwrap();
        client.answer(|_, out| out.write_all(b"yes"));
    }
    for mut one in asks {
        let mut text = String::new();
        control.wait(Duration::ZERO, &[]);
        one.read_to_string(&mut text).unwrap();
        assert_eq!(text, "yes\n");
    }
}

#[test]
fn answered_client_is_dropped_before_the_wait() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.sock");
    let mut control = Control::open(&path).unwrap();
    let mut asks = UnixStream::connect(&path).unwrap();
    asks.write_all(b"\"status\"\n").unwrap();
    let client = control.wait(Duration::from_secs(1), &[]).unwrap();
    client.answer(|_, out| out.write_all(b"yes"));
    let begun = Instant::now();
    let read = std::thread::spawn(move || {
        asks.read_to_string(&mut String::new()).unwrap();
        begun.elapsed()
    });
    control.wait(Duration::from_secs(5), &[]);
    assert!(read.join().unwrap() < Duration::from_secs(4));
    assert!(control.is_idle(true));
}

/// A successor waits for silent clients only for a moment.
#[test]
fn silent_clients_are_told_from_askers() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.sock");
    let mut control = Control::open(&path).unwrap();
    let mut client = UnixStream::connect(&path).unwrap();
    assert!(control.wait(Duration::ZERO, &[]).is_none()); // it is let in
    assert!(!control.is_idle(true) && control.is_idle(false));
    client.write_all(STATUS).unwrap();
    assert!(control.wait(Duration::from_secs(1), &[]).is_some());
    assert!(!control.is_idle(false));
}
