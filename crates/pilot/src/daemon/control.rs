//! The control socket. A socket belongs to one daemon, serves root and maybe a group, and is removed when
//! the daemon ends.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::{
            fs::{DirBuilderExt, PermissionsExt},
            net::UnixListener,
        },
    },
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tcpilot_show::failure::{Failure, Kind};

use tcpilot_kernel::{file, inherited, try_lock};

use super::{access::User, client::Client};

/// The most clients at once, the most guests among them, and the most clients of one guest. So there are always
/// places for root. If one more connects, the daemon drops a client, see [`Control::keep_quota`].
const CLIENTS_MAX: usize = 64;
const GUESTS_MAX: usize = 48;
const OF_GUEST_MAX: usize = 16;
/// Bytes of answers in memory for readers, in sum and for one guest. At this number a guest's next question waits,
/// and root's next answer takes the place of the oldest reader: at most one answer more is in memory.
const UNREAD_BYTES_MAX: u64 = 48 << 20;
const UNREAD_OF_GUEST_MAX: u64 = 8 << 20;
/// Time without accepting after the kernel refused a connection, most likely because no descriptor is left.
const DEAF_FOR: Duration = Duration::from_secs(1);

/// The listening socket, and the lock to mark it as this daemon's.
pub struct Control {
    listener: UnixListener,
    path: PathBuf,
    /// The connected clients, the oldest first.
    clients: Vec<Client>,
    deaf_until: Option<Instant>,
    /// Whether new clients wait outside, for the daemon's next program.
    is_closed: bool,
    lock: File,
}

impl Control {
    /// Takes the lock next to the socket, then the socket's name; a killed daemon may have left it.
    ///
    /// # Errors
    /// [`Kind::Running`] if another daemon has the lock; [`Kind::Failed`] if the folder cannot be written.
    pub fn open(path: &Path) -> Result<Control, Failure> {
        let cannot = |error: io::Error| {
            Failure::new(
                Kind::Failed,
                format!("cannot make the control socket {}: {error}", path.display()),
                "give --socket a place that can be written",
            )
        };
        if let Some(dir) = path.parent().filter(|d| !d.as_os_str().is_empty()) {
            let mut builder = fs::DirBuilder::new();
            builder
                .recursive(true)
                .mode(0o700)
                .create(dir)
                .map_err(cannot)?;
        }
        let mut lock = lock(path, true).map_err(cannot)??;
        name_owner(&mut lock).map_err(cannot)?;
        file::remove_socket(path).map_err(cannot)?;
        let listener = UnixListener::bind(path).map_err(cannot)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        Ok(Control {
            listener,
            path: path.to_path_buf(),
            clients: Vec::new(),
            deaf_until: None,
            is_closed: false,
            lock,
        })
    }

    /// Takes over the socket and lock from this process's former program. Clients connected meanwhile are
    /// still waiting.
    ///
    /// # Errors
    /// The former program left no such descriptors.
    pub fn resume(path: &Path, descriptors: Option<[i32; 2]>) -> Result<Control, Failure> {
        let [listener, lock] = descriptors.unwrap_or([-1; 2]);
        Ok(Control {
            listener: inherited(listener)?.into(),
            path: path.to_path_buf(),
            clients: Vec::new(),
            deaf_until: None,
            is_closed: false,
            lock: inherited(lock)?.into(),
        })
    }

    /// The descriptors of the socket and of the lock.
    pub fn descriptors(&self) -> (BorrowedFd<'_>, BorrowedFd<'_>) {
        (self.listener.as_fd(), self.lock.as_fd())
    }

    /// Whether nobody is connected.
    pub fn is_idle(&self) -> bool {
        self.clients.is_empty()
    }

    /// Leaves new clients waiting outside, or lets them in again.
    pub fn close(&mut self, is_closed: bool) {
        self.is_closed = is_closed;
    }

    /// Waits for a question, at most for `timeout`, and returns the client to answer: root before all others. A
    /// signal also ends the wait, and so does readability of one of `others`. Meanwhile questions come in and
    /// answers go out.
    pub fn wait(&mut self, timeout: Duration, others: &[BorrowedFd<'_>]) -> Option<&mut Client> {
        // Drop them before the wait: a client reading its answer to the end waits for the close.
        self.clients.retain(|client| !client.is_done());
        self.poll(timeout, others);
        self.clients.iter_mut().for_each(Client::go_on);
        self.clients
            .retain(|client| !client.is_done() && !client.is_late());
        let mut next = self.next()?;
        if self.unread_bytes(|_| true) >= UNREAD_BYTES_MAX {
            // Root's answer takes the room of the oldest reader.
            let reads = |client: &Client| client.unread_bytes() > 0;
            if let Some(oldest) = self.clients.iter().position(reads) {
                self.clients.remove(oldest);
                next -= usize::from(oldest < next);
            }
        }
        self.clients.get_mut(next)
    }

    /// The place of the client to answer next.
    fn next(&self) -> Option<usize> {
        let asks = |client: &Client| client.has_asked() && client.user() == User::Owner;
        let owner = self.clients.iter().position(asks);
        owner.or_else(|| {
            let asks = |client: &Client| client.has_asked() && self.has_room(client.user());
            self.clients.iter().position(asks)
        })
    }

    /// Whether a guest's next answer has room in memory.
    fn has_room(&self, user: User) -> bool {
        self.unread_bytes(|_| true) < UNREAD_BYTES_MAX
            && self.unread_bytes(|other| other == user) < UNREAD_OF_GUEST_MAX
    }

    fn unread_bytes(&self, of: impl Fn(User) -> bool) -> u64 {
        let readers = self.clients.iter().filter(|client| of(client.user()));
        readers.map(Client::unread_bytes).sum()
    }

    fn poll(&mut self, timeout: Duration, others: &[BorrowedFd<'_>]) {
        let timeout = self.next().map_or(timeout, |_| Duration::ZERO);
        let deaf = self.is_closed || self.deaf_until.is_some_and(|until| Instant::now() < until);
        let listen = (!deaf).then(|| PollFd::new(&self.listener, PollFlags::IN));
        let mut fds: Vec<PollFd<'_>> = listen.into_iter().collect();
        let clients = self.clients.iter().map(Client::awaits);
        fds.extend(clients.map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)));
        let others = others.iter();
        fds.extend(others.map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)));
        let Ok(timeout) = Timespec::try_from(timeout) else {
            return;
        };
        let ready = poll(&mut fds, Some(&timeout)).is_ok_and(|ready| ready > 0);
        if ready && !deaf {
            self.let_in();
        }
    }

    /// Accepts all waiting clients.
    fn let_in(&mut self) {
        for _ in 0..CLIENTS_MAX {
            let accepted = self.listener.accept();
            match accepted.and_then(|(stream, _)| Client::new(stream)) {
                Ok(mut client) => {
                    client.go_on(); // its question may be there
                    self.deaf_until = None;
                    self.clients.push(client);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    if self.deaf_until.is_none() {
                        tracing::warn!(%error, "a question could not be taken; will try again");
                    }
                    self.deaf_until = Some(Instant::now() + DEAF_FOR);
                    if !self.clients.is_empty() {
                        let idle = self.clients.iter().position(Client::is_asking);
                        self.clients.remove(idle.unwrap_or(0));
                    }
                    return;
                }
            }
            self.keep_quota();
        }
    }

    /// Drops a client if the newest one is too many: of its user, of the guests, or of all. The oldest of these
    /// without a question goes. If all have asked, that is the newest.
    fn keep_quota(&mut self) {
        let Some(newest) = self.clients.last().map(Client::user) else {
            return;
        };
        let is_guest = |user: User| user != User::Owner;
        let quotas: [(usize, &dyn Fn(User) -> bool); 3] = [
            (OF_GUEST_MAX, &|user| is_guest(user) && user == newest),
            (GUESTS_MAX, &|user| is_guest(user) && is_guest(newest)),
            (CLIENTS_MAX, &|_| true),
        ];
        for (most, counts) in quotas {
            let counts = |client: &&Client| counts(client.user());
            if self.clients.iter().filter(counts).count() > most {
                let idle = |client: &Client| counts(&client) && client.is_asking();
                let newest = self.clients.len() - 1;
                let idle = self.clients.iter().position(idle);
                self.clients.remove(idle.unwrap_or(newest));
                return;
            }
        }
    }
}

/// Checks that no daemon has this socket, and neither creates nor changes a file.
///
/// # Errors
/// [`Kind::Running`] if a daemon has it; [`Kind::Usage`] if there is something else of its name. [`Control::open`]
/// reports all other errors later.
pub fn check_free(socket: &Path) -> Result<(), Failure> {
    match file::has_socket(socket) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let mut failure = Failure::of_file(socket, &error);
            failure.remedy = "give --socket another name".to_owned();
            return Err(failure);
        }
        _ => {}
    }
    match lock(socket, false) {
        Ok(taken) => taken.map(drop),
        Err(_) => Ok(()),
    }
}

fn lock(socket: &Path, create: bool) -> io::Result<Result<File, Failure>> {
    let mut name = socket.as_os_str().to_owned();
    name.push(".lock");
    let mut file = file::open_lock(Path::new(&name), create)?;
    if !try_lock(&file)? {
        let mut pid = String::new();
        file.read_to_string(&mut pid)?;
        return Ok(Err(Failure::new(
            Kind::Running,
            format!(
                "another tcpilot (pid {}) has {}",
                pid.trim(),
                socket.display()
            ),
            "stop it first, or give both --socket and --cgroup of its own",
        )));
    }
    Ok(Ok(file))
}

/// Writes the owner of a lock into its file, for others that want it.
fn name_owner(lock: &mut File) -> io::Result<()> {
    lock.set_len(0)?;
    lock.rewind()?;
    writeln!(lock, "{}", std::process::id())
}

impl Drop for Control {
    fn drop(&mut self) {
        // The lock file stays: if it were removed, two daemons could lock two files of the same name.
        let _ = file::remove_socket(&self.path);
    }
}

#[cfg(test)]
mod tests {
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
        let counts =
            [1, 2, 3, 4, 5].map(|user| count(&control, |one| one.user() == User::Guest(user)));
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
        assert!(control.wait(Duration::ZERO, &[]).is_none() && control.is_idle());
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
        assert!(control.is_idle());
    }
}
