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

    /// Whether nobody is connected, except perhaps clients that have not asked.
    pub fn is_idle(&self, silent_count: bool) -> bool {
        let counts = |client: &Client| silent_count || !client.is_asking();
        !self.clients.iter().any(counts)
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
mod tests;
