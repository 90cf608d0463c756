//! A live view in a terminal.

use std::{
    fs::File,
    io::{self, IsTerminal, Stdout, Write, stdin, stdout},
    os::fd::AsFd,
    time::Duration,
};

use crossterm::{
    cursor,
    event::{self, Event, KeyCode, KeyEvent, KeyModifiers},
    execute, queue, style, terminal,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use super::{
    browse::{Press, Size},
    wrap::wrapped,
};

/// The terminal's other screen, given back on drop.
pub struct Screen {
    out: Stdout,
}

impl Screen {
    /// Switches to that screen if there is a terminal and this process may use it.
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
        Ok(Screen { out })
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

    /// The room that the terminal has for lines.
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
            let line: String = line.chars().take(columns).collect();
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
    pub fn quit_pressed(&self) -> io::Result<bool> {
        let press = self.press_within(Duration::ZERO)?;
        let quits = [Press::Quit, Press::Escape, Press::Letter('q')];
        Ok(press.is_some_and(|press| quits.contains(&press)))
    }

    /// The next key that means something, if one is pressed within this time. A change of the terminal's size
    /// ends the wait.
    ///
    /// # Errors
    /// The terminal went away.
    pub fn press_within(&self, wait: Duration) -> io::Result<Option<Press>> {
        if !is_in_foreground() {
            std::thread::sleep(wait);
            return Ok(None);
        }
        // crossterm never comes back from a terminal that hung up, so it may only look, and not wait.
        wait_for_input(Duration::ZERO)?;
        if !event::poll(Duration::ZERO)? {
            wait_for_input(wait)?;
            if !event::poll(Duration::ZERO)? {
                return Ok(None);
            }
        }
        Ok(match event::read()? {
            Event::Key(key) => press_of(key),
            _ => None,
        })
    }
}

/// Waits until the terminal has something to read, or a signal comes.
///
/// # Errors
/// The terminal went away.
fn wait_for_input(wait: Duration) -> io::Result<()> {
    let (input, tty);
    // As crossterm takes it.
    let terminal = if stdin().is_terminal() {
        input = stdin();
        input.as_fd()
    } else {
        tty = File::open("/dev/tty")?;
        tty.as_fd()
    };
    let mut fds = [PollFd::new(&terminal, PollFlags::IN)];
    match poll(
        &mut fds,
        Some(&Timespec::try_from(wait).map_err(io::Error::other)?),
    ) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let lost = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    if fds[0].revents().intersects(lost) {
        return Err(io::Error::new(
            io::ErrorKind::NotConnected,
            "the terminal went away",
        ));
    }
    Ok(())
}

/// The meaning of a key.
fn press_of(key: KeyEvent) -> Option<Press> {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(match key.code {
        KeyCode::Char('c') if is_control => Press::Quit,
        KeyCode::Char(_) if is_control => return None,
        KeyCode::Char(letter) => Press::Letter(letter),
        KeyCode::Backspace => Press::Backspace,
        KeyCode::Enter => Press::Enter,
        KeyCode::Esc => Press::Escape,
        KeyCode::Up => Press::Up,
        KeyCode::Down => Press::Down,
        KeyCode::PageUp => Press::PageUp,
        KeyCode::PageDown => Press::PageDown,
        KeyCode::Home => Press::Home,
        KeyCode::End => Press::End,
        _ => return None,
    })
}

/// Whether this process may set up its terminal and read from it. In the background either would stop the
/// process (SIGTTOU, SIGTTIN; termios(3)), and a stopped daemon steers connections but answers nobody.
fn is_in_foreground() -> bool {
    let own = rustix::process::getpgrp();
    let is_own = |group: rustix::io::Result<_>| group.is_ok_and(|group| group == own);
    if stdin().is_terminal() {
        return is_own(rustix::termios::tcgetpgrp(stdin()));
    }
    // crossterm reads from this terminal if standard input is none.
    File::open("/dev/tty").is_ok_and(|tty| is_own(rustix::termios::tcgetpgrp(tty)))
}

/// The terminal's columns and rows. A terminal that does not know its size, such as a serial console, gets
/// the classic 80 by 24.
fn size() -> io::Result<(u16, u16)> {
    match terminal::size()? {
        (0, _) | (_, 0) => Ok((80, 24)),
        known => Ok(known),
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if !is_in_foreground() {
            return; // the shell has set up the terminal for others
        }
        let _ = execute!(self.out, terminal::LeaveAlternateScreen, cursor::Show);
        let _ = terminal::disable_raw_mode();
    }
}
