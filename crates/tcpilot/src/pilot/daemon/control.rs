//! The control socket: one daemon per socket, for root only, gone when the daemon goes.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read, Seek, Write},
    os::{
        fd::BorrowedFd,
        unix::{
            fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::failure::{Failure, Kind};

/// The listening socket, and the lock that says whose it is.
pub struct Control {
    listener: UnixListener,
    path: PathBuf,
    _lock: File,
}

impl Control {
    /// Takes the lock beside the socket, then the socket's name: what a killed daemon left is replaced.
    ///
    /// # Errors
    /// [`Kind::Running`] when another daemon has the lock; [`Kind::Failed`] when the folder cannot be
    /// written.
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
        let lock = lock(path).map_err(cannot)??;
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(cannot(error)),
            _ => {}
        }
        let listener = UnixListener::bind(path).map_err(cannot)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        Ok(Control {
            listener,
            path: path.to_path_buf(),
            _lock: lock,
        })
    }

    /// Waits for a question, at most for `timeout`; a signal ends the wait, and so does `other` when it
    /// can be read.
    pub fn wait(&self, timeout: Duration, other: Option<BorrowedFd<'_>>) -> Option<UnixStream> {
        let mut fds = vec![PollFd::new(&self.listener, PollFlags::IN)];
        fds.extend(other.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let timeout = Timespec::try_from(timeout).ok()?;
        poll(&mut fds, Some(&timeout)).ok()?;
        self.listener.accept().ok().map(|(stream, _)| stream)
    }
}

fn lock(socket: &Path) -> io::Result<Result<File, Failure>> {
    let mut name = socket.as_os_str().to_owned();
    name.push(".lock");
    let mut options = File::options();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600);
    let mut file = options.open(&name)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
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
        Err(TryLockError::Error(error)) => return Err(error),
    }
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())?;
    Ok(Ok(file))
}

impl Drop for Control {
    fn drop(&mut self) {
        // The lock file stays: removing it would let two daemons lock two files of one name.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_daemon_is_refused_and_a_stale_socket_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/t.sock");
        let first = Control::open(&path).unwrap();
        let failure = Control::open(&path).err().unwrap();
        assert_eq!(failure.kind, Kind::Running);
        assert!(failure.message.contains(&std::process::id().to_string()));
        drop(first);
        drop(UnixListener::bind(&path).unwrap()); // as after SIGKILL: the file stays
        assert!(path.exists());
        Control::open(&path).unwrap();
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
        let control = Control::open(&dir.path().join("t.sock")).unwrap();
        assert!(control.wait(Duration::from_millis(1), None).is_none());
    }
}
