//! A live view in a terminal.

use std::{
    fs::File,
    io::{self, IsTerminal, Stdin, Stdout, Write, stdin, stdout},
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crossterm::{cursor, execute, queue, style, terminal};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use signal_hook::{SigId, consts::SIGWINCH, flag, low_level};

use super::{
    browse::{Press, Size},
    keys::Keys,
    output::printable,
    wrap::wrapped,
};

/// Bytes read from the terminal at once: a key is at most a few.
const READ: usize = 1024;

/// The terminal's other screen, given back on drop.
pub struct Screen {
    out: Stdout,
    keys: Keys,
    /// The terminal's size changed; set by a signal.
    resized: Arc<AtomicBool>,
    signal: SigId,
}

impl Screen {
    /// Switches to the alternate screen if there is a terminal and this process may use it.
    ///
    /// # Errors
    /// The terminal cannot be set up.
    pub fn if_any() -> io::Result<Option<Screen>> {
        if !stdout().is_terminal() {
            return Ok(None);
        }
        if !is_in_foreground() {
            tracing::warn!("in the background of its terminal: no live view");
            return Ok(None);
        }
        Screen::open().map(Some)
    }

    fn open() -> io::Result<Screen> {
        let mut out = stdout();
        terminal::enable_raw_mode()?;
        execute!(out, terminal::EnterAlternateScreen, cursor::Hide)?;
        let resized = Arc::default();
        let signal = flag::register(SIGWINCH, Arc::clone(&resized))?;
        Ok(Screen {
            out,
            keys: Keys::default(),
            resized,
            signal,
        })
    }

    /// Draws a head, whose lines are wrapped, a table, and a line of help, cut to the terminal's size; true if
    /// the user wants to quit.
    ///
    /// # Errors
    /// The terminal went away.
    pub fn show(&mut self, head: &str, table: &str) -> io::Result<bool> {
        let Size { columns, rows } = Screen::size()?;
        let head = wrapped(head, columns);
        let lines = head.iter().map(String::as_str).chain([""]);
        let lines = lines.chain(table.lines()).take(rows.saturating_sub(1));
        self.draw(lines.chain(["q or Ctrl-C ends"]))?;
        self.quit_pressed()
    }

    /// The size of the terminal, in lines and columns.
    ///
    /// # Errors
    /// The terminal went away.
    pub fn size() -> io::Result<Size> {
        let (columns, rows) = size()?;
        Ok(Size {
            columns: usize::from(columns),
            rows: usize::from(rows.saturating_sub(1)),
        })
    }

    /// Draws at most [`Screen::size`] lines, cut to the terminal's width.
    ///
    /// # Errors
    /// The terminal went away.
    pub fn draw<'a>(&mut self, lines: impl IntoIterator<Item = &'a str>) -> io::Result<()> {
        if !is_in_foreground() {
            return Ok(());
        }
        let columns = usize::from(size()?.0);
        queue!(self.out, cursor::MoveTo(0, 0))?;
        for line in lines {
            let line: String = printable(line).chars().take(columns).collect();
            queue!(
                self.out,
                style::Print(line),
                terminal::Clear(terminal::ClearType::UntilNewLine),
                style::Print("\r\n")
            )?;
        }
        queue!(
            self.out,
            terminal::Clear(terminal::ClearType::FromCursorDown)
        )?;
        self.out.flush()
    }

    /// Whether q, Escape or Ctrl-C was pressed; does not wait.
    ///
    /// # Errors
    /// The terminal went away.
    pub fn quit_pressed(&mut self) -> io::Result<bool> {
        let press = self.press_within(Duration::ZERO)?;
        let quits = [Press::Quit, Press::Escape, Press::Letter('q')];
        Ok(press.is_some_and(|press| quits.contains(&press)))
    }

    /// The next meaningful key, if one is pressed within this time. A change of the terminal's size ends the
    /// wait.
    ///
    /// # Errors
    /// The terminal went away.
    pub fn press_within(&mut self, wait: Duration) -> io::Result<Option<Press>> {
        if let Some(press) = self.keys.give() {
            return Ok(Some(press));
        }
        if !is_in_foreground() {
            std::thread::sleep(wait);
            return Ok(None);
        }
        if !self.resized.swap(false, Ordering::Relaxed) {
            read_within(&Input::of_keys()?, wait, &mut self.keys)?;
        }
        Ok(self.keys.give())
    }
}

/// Waits until the terminal has something to read, or a signal comes, and reads once: a second read could wait
/// for ever.
///
/// # Errors
/// The terminal went away.
fn read_within(terminal: &impl AsFd, wait: Duration, keys: &mut Keys) -> io::Result<()> {
    let mut fds = [PollFd::new(terminal, PollFlags::IN)];
    let wait = Timespec::try_from(wait).map_err(io::Error::other)?;
    match poll(&mut fds, Some(&wait)) {
        Ok(0) | Err(Errno::INTR) => return Ok(()),
        Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    let lost = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    let mut read = [0; READ];
    let count = if fds[0].revents().intersects(lost) {
        0
    } else {
        match rustix::io::read(terminal, &mut read) {
            Err(Errno::INTR | Errno::AGAIN) => return Ok(()),
            count => count?,
        }
    };
    if count == 0 {
        return Err(io::Error::new(
            io::ErrorKind::NotConnected,
            "the terminal went away",
        ));
    }
    keys.take(&read[..count]);
    Ok(())
}

/// The source of the keys.
enum Input {
    Standard(Stdin),
    Controlling(File),
}

impl Input {
    /// Standard input if it is a terminal, or else this process's own.
    fn of_keys() -> io::Result<Input> {
        let standard = stdin();
        if standard.is_terminal() {
            return Ok(Input::Standard(standard));
        }
        File::open("/dev/tty").map(Input::Controlling)
    }
}

impl AsFd for Input {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Input::Standard(stdin) => stdin.as_fd(),
            Input::Controlling(file) => file.as_fd(),
        }
    }
}

/// Whether this process may set up its terminal and read from it. In the background either would stop the
/// process (SIGTTOU, SIGTTIN; termios(3)), and a stopped daemon steers connections but answers nobody.
fn is_in_foreground() -> bool {
    let group = Input::of_keys().map(rustix::termios::tcgetpgrp);
    matches!(group, Ok(Ok(group)) if group == rustix::process::getpgrp())
}

/// The terminal's columns and rows. A terminal without a known size, such as a serial console, gets the
/// classic 80 by 24.
fn size() -> io::Result<(u16, u16)> {
    match terminal::size()? {
        (0, _) | (_, 0) => Ok((80, 24)),
        known => Ok(known),
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        low_level::unregister(self.signal);
        if !is_in_foreground() {
            return; // the shell has set up the terminal for others
        }
        let _ = execute!(self.out, terminal::LeaveAlternateScreen, cursor::Show);
        let _ = terminal::disable_raw_mode();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn lost_terminal_is_an_error_at_once() {
        let (near, far) = UnixStream::pair().unwrap();
        let mut keys = Keys::default();
        read_within(&near, Duration::ZERO, &mut keys).unwrap();
        (&far).write_all(b"s").unwrap();
        read_within(&near, Duration::MAX / 4, &mut keys).unwrap();
        assert_eq!(keys.give(), Some(Press::Letter('s')));
        drop(far);
        let error = read_within(&near, Duration::MAX / 4, &mut keys).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotConnected);
    }
}
