//! One program becomes another, or tries another, and leaves it descriptors.

use std::{
    io,
    os::{
        fd::{FromRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::{Child, Command},
};

use crate::Error;

/// Signals held back from a program until it has set its handlers.
const HELD_BACK: [i32; 3] = [libc::SIGHUP, libc::SIGINT, libc::SIGTERM];

fn check(result: i32) -> io::Result<()> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Sets whether a descriptor is closed when this process becomes another program.
fn set_close(fd: i32, close: bool) -> io::Result<()> {
    let flags = if close { libc::FD_CLOEXEC } else { 0 };
    // SAFETY: a plain system call about a descriptor.
    check(unsafe { libc::fcntl(fd, libc::F_SETFD, flags) })
}

fn mask_signals(how: i32) -> io::Result<()> {
    // SAFETY: an empty set may be written to; it is read while it lives.
    unsafe {
        let mut set = std::mem::zeroed();
        check(libc::sigemptyset(&raw mut set))?;
        for signal in HELD_BACK {
            check(libc::sigaddset(&raw mut set, signal))?;
        }
        match libc::pthread_sigmask(how, &raw const set, std::ptr::null_mut()) {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// Unblocks the signals held back for this program by a former one.
///
/// # Errors
/// The kernel's.
pub fn take_signals() -> io::Result<()> {
    mask_signals(libc::SIG_UNBLOCK)
}

/// Becomes the program of `command`, in this process, and leaves it these descriptors. Nothing is dropped on
/// the way. It returns only on failure, and then nothing has changed.
pub fn become_program(mut command: Command, leave: &[i32]) -> io::Error {
    let left = leave.to_vec();
    let prepare = move || {
        mask_signals(libc::SIG_BLOCK)?;
        left.iter().try_for_each(|fd| set_close(*fd, false))
    };
    // SAFETY: only system calls are made. exec() runs it in this single-threaded process.
    let error = unsafe { command.pre_exec(prepare) }.exec();
    for fd in leave {
        let _ = set_close(*fd, true);
    }
    let _ = mask_signals(libc::SIG_UNBLOCK);
    error
}

/// Starts the program of `command`, and leaves it these descriptors. It does not outlive this process.
///
/// # Errors
/// The kernel's.
pub fn try_program(mut command: Command, leave: &[i32]) -> io::Result<Child> {
    let left = leave.to_vec();
    let prepare = move || {
        // SAFETY: a plain system call about this process.
        check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
        left.iter().try_for_each(|fd| set_close(*fd, false))
    };
    // SAFETY: between fork and exec only system calls are made.
    unsafe { command.pre_exec(prepare) }.spawn()
}

/// A descriptor left open for this program by a former one. It is marked so this program does not leave
/// it to others by accident. Call this once for each number, before anything else is opened.
///
/// # Errors
/// [`Error::System`] if it is not open.
pub fn inherited(fd: i32) -> Result<OwnedFd, Error> {
    set_close(fd, true).map_err(|source| Error::System {
        action: "take what the former program left",
        source,
    })?;
    // SAFETY: it is open, and nobody else in this process knows of it: it was open before main().
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_exec_keeps_cloexec_and_signal_mask() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
        let error = become_program(Command::new("/nonexistent/program"), &[fd]);
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        // SAFETY: a plain system call about a descriptor.
        assert_eq!(unsafe { libc::fcntl(fd, libc::F_GETFD) }, libc::FD_CLOEXEC);
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let blocked = status.lines().find_map(|l| l.strip_prefix("SigBlk:"));
        assert_eq!(u64::from_str_radix(blocked.unwrap().trim(), 16), Ok(0));
    }

    #[test]
    fn program_inherits_only_given_descriptors() {
        let open = || std::fs::File::open("/dev/null").unwrap();
        let (left, kept) = (open(), open());
        let number = |file| std::os::fd::AsRawFd::as_raw_fd(file);
        let mut command = Command::new("sh");
        let test = format!(
            "test -e /proc/self/fd/{} -a ! -e /proc/self/fd/{}",
            number(&left),
            number(&kept)
        );
        command.args(["-c", &test]);
        let mut child = try_program(command, &[number(&left)]).unwrap();
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn closed_descriptor_cannot_be_inherited() {
        assert!(inherited(9999).is_err());
    }
}
