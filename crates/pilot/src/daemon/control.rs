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

use super::client::Client;

/// The most clients at once. If one more connects, the daemon drops a client, see [`Control::make_room`].
const CLIENTS_MAX: usize = 64;
/// Time without accepting after the kernel refused a connection, most likely because no descriptor is left.
const DEAF_FOR: Duration = Duration::from_secs(1);

/// The listening socket, and the lock to mark it as this daemon's.
pub struct Control {
    listener: UnixListener,
    path: PathBuf,
    /// The connected clients, the oldest first.
    clients: Vec<Client>,
    deaf_until: Option<Instant>,
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

    /// Waits for a question, at most for `timeout`, and returns the client to answer. A signal also ends the
    /// wait, and so does readability of one of `others`. Meanwhile questions come in and answers go out.
    pub fn wait(&mut self, timeout: Duration, others: &[BorrowedFd<'_>]) -> Option<&mut Client> {
        // Drop them before the wait: a client reading its answer to the end waits for the close.
        self.clients.retain(|client| !client.is_done());
        self.poll(timeout, others);
        self.clients.iter_mut().for_each(Client::go_on);
        self.clients
            .retain(|client| !client.is_done() && !client.is_late());
        self.clients.iter_mut().find(|client| client.has_asked())
    }

    fn poll(&mut self, timeout: Duration, others: &[BorrowedFd<'_>]) {
        let has_asked = self.clients.iter().any(Client::has_asked);
        let timeout = if has_asked { Duration::ZERO } else { timeout };
        let deaf = self.deaf_until.is_some_and(|until| Instant::now() < until);
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
                Ok(client) => {
                    self.deaf_until = None;
                    self.clients.push(client);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    if self.deaf_until.is_none() {
                        tracing::warn!(%error, "a question could not be taken; will try again");
                    }
                    self.deaf_until = Some(Instant::now() + DEAF_FOR);
                    self.make_room();
                    return;
                }
            }
            if self.clients.len() > CLIENTS_MAX {
                self.make_room();
            }
        }
    }

    /// Drops the oldest client without a question yet, or else the oldest of all.
    fn make_room(&mut self) {
        if !self.clients.is_empty() {
            let idle = self.clients.iter().position(Client::is_asking);
            self.clients.remove(idle.unwrap_or(0));
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
