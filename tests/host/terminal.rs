//! What a terminal shows after a full-screen view has ended.

use std::{
    fs::{self, File},
    io::{Read, Write},
    os::{
        fd::{AsRawFd, FromRawFd},
        unix::process::CommandExt,
    },
    process::Command,
    sync::{Arc, Mutex},
    thread,
};

use tcpilot_tests::{Child, Lab, Place, until};

use crate::{ALWAYS_BBR, rescue::way};

/// The program in a terminal of 24 lines and 100 columns, and the terminal's other end.
pub fn in_terminal(mut command: Command) -> (Child, File) {
    let (mut master, mut slave) = (0, 0);
    let size = libc::winsize {
        ws_row: 24,
        ws_col: 100,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let none = std::ptr::null_mut();
    // SAFETY: both numbers may be written, and the size is read.
    let made = unsafe {
        libc::openpty(
            &raw mut master,
            &raw mut slave,
            none,
            std::ptr::null(),
            &raw const size,
        )
    };
    assert_eq!(made, 0);
    // The program must not have this end too, or it would never be closed.
    // SAFETY: a plain system call about a number.
    let set = unsafe { libc::fcntl(master, libc::F_SETFD, libc::FD_CLOEXEC) };
    assert_eq!(set, 0);
    // SAFETY: it was just opened, and nobody else in this process has it.
    let other_end = unsafe { File::from_raw_fd(master) };
    // SAFETY: between fork and exec only system calls are made.
    unsafe { command.pre_exec(move || into_foreground(slave)) };
    let child = Child(command.spawn().unwrap());
    // SAFETY: nobody else in this process uses it.
    unsafe { libc::close(slave) };
    (child, other_end)
}

/// Makes this process the leader of a session with the terminal `slave`. Call it between fork and exec.
fn into_foreground(slave: i32) -> std::io::Result<()> {
    // SAFETY: plain system calls about this process; no memory is allocated.
    unsafe {
        if libc::setsid() < 0 || libc::ioctl(slave, libc::TIOCSCTTY, 0) < 0 {
            return Err(std::io::Error::last_os_error());
        }
        for fd in 0..2 {
            libc::dup2(slave, fd);
        }
    }
    Ok(())
}

/// A terminal as a person sees it: text, and whether the alternate screen, the cursor and the echo are on.
#[derive(Debug)]
struct Seen {
    /// The text on the usual screen. The alternate one is lost when it is left.
    text: String,
    is_alternate: bool,
    has_cursor: bool,
}

/// Plays the output of a program: escape sequences (ECMA-48) other than the two modes move or colour, and have no text.
fn seen(output: &str) -> Seen {
    let mut seen = Seen {
        text: String::new(),
        is_alternate: false,
        has_cursor: true,
    };
    let mut rest = output;
    while let Some(at) = rest.find("\x1b[") {
        seen.write(&rest[..at]);
        let sequence = &rest[at + 2..];
        let end = sequence.find(|c: char| ('@'..='~').contains(&c)).unwrap();
        match &sequence[..=end] {
            "?1049h" => seen.is_alternate = true,
            "?1049l" => seen.is_alternate = false,
            "?25h" => seen.has_cursor = true,
            "?25l" => seen.has_cursor = false,
            _ => {}
        }
        rest = &sequence[end + 1..];
    }
    seen.write(rest);
    seen
}

impl Seen {
    fn write(&mut self, text: &str) {
        if !self.is_alternate {
            self.text += text;
        }
    }
}

/// Starts the program in a terminal, waits until its view shows this, and presses Ctrl-C. Returns the exit status, the
/// terminal as it is afterwards, and whether it echoes.
fn after_ctrl_c(command: Command, shows: &str) -> (Option<i32>, Seen, bool) {
    let (mut child, mut terminal) = in_terminal(command);
    let output = Arc::new(Mutex::new(Vec::new()));
    let (mut reads, into) = (terminal.try_clone().unwrap(), Arc::clone(&output));
    // SAFETY: a plain copy of a descriptor; it keeps the terminal open after the program has ended.
    let kept = unsafe { libc::dup(terminal.as_raw_fd()) };
    let reader = thread::spawn(move || {
        let mut some = [0; 4096];
        // Reading fails once the program has ended.
        while let Ok(count @ 1..) = reads.read(&mut some) {
            into.lock().unwrap().extend(&some[..count]);
        }
    });
    let text = || String::from_utf8_lossy(&output.lock().unwrap()).into_owned();
    until("the view is there", || text().contains(shows).then_some(()));
    terminal.write_all(b"\x03").unwrap();
    let mut settings = std::mem::MaybeUninit::<libc::termios>::uninit();
    let status = child.wait().code();
    // SAFETY: the structure has room, and is read only if it was written.
    let echoes = unsafe {
        assert_eq!(libc::tcgetattr(kept, settings.as_mut_ptr()), 0);
        let flags = settings.assume_init().c_lflag;
        libc::close(kept);
        flags & (libc::ECHO | libc::ICANON) == libc::ECHO | libc::ICANON
    };
    reader.join().unwrap();
    (status, seen(&text()), echoes)
}

#[test]
fn report_of_live_run_stays_on_the_terminal() {
    let lab = Lab::new();
    let file = |name: &str| lab.dir.path().join(name);
    fs::write(file("live.toml"), ALWAYS_BBR).unwrap();
    let mut command = Place::here().command("tcpilot");
    command
        .args(["run", "--live", "--cgroup"])
        .arg(lab.cgroup.path());
    command.arg("--config").arg(file("live.toml"));
    command.arg("--state").arg(file("live.db"));
    command.arg("--socket").arg(file("live.sock"));
    let (status, seen, echoes) = after_ctrl_c(command, "Ctrl-C ends");
    assert_eq!(status, Some(0), "{seen:?}");
    assert!(!seen.is_alternate && seen.has_cursor && echoes, "{seen:?}");
    for part in ["tcpilot steered 0 connections", "Detached: "] {
        assert!(seen.text.contains(part), "{part} is not in {seen:?}");
    }
}

#[test]
fn top_and_watch_leave_the_terminal_as_it_was() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_BBR);
    let _way = way(&lab, "", "pfifo limit 1000");
    let mut top = Place::here().command("tcpilot");
    top.arg("top").arg("--socket").arg(pilot.socket());
    let mut watch = Place::outside(&lab.net.near).command("tcpilot");
    watch.arg("watch").arg("eth0");
    for command in [top, watch] {
        let (status, seen, echoes) = after_ctrl_c(command, "q quit");
        assert_eq!(status, Some(0), "{seen:?}");
        assert!(!seen.is_alternate && seen.has_cursor && echoes, "{seen:?}");
        // Nothing of the view is left between the shell's lines.
        assert!(!seen.text.contains("q quit"), "{seen:?}");
    }
}
