//! A live view in a terminal.

use std::{
    io::{self, IsTerminal, Stdout, Write, stdin, stdout},
    time::Duration,
};

use crossterm::{
    cursor,
    event::{self, Event, KeyCode, KeyModifiers},
    execute, queue, style, terminal,
};

/// The terminal's other screen, given back on drop.
pub struct Screen {
    out: Stdout,
}

impl Screen {
    /// Switches to it, if there is a terminal and this process may use it.
    ///
    /// # Errors
    /// The terminal cannot.
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

    /// Draws a text, and says whether to quit.
    ///
    /// # Errors
    /// The terminal went away.
    pub fn show(&mut self, text: &str) -> io::Result<bool> {
        self.draw_text(text)?;
        self.quit_pressed()
    }

    /// Draws a text, cut to the terminal's size.
    ///
    /// # Errors
    /// If the terminal went away.
    pub fn draw_text(&mut self, text: &str) -> io::Result<()> {
        if !is_in_foreground() {
            return Ok(());
        }
        let (columns, rows) = size()?;
        queue!(self.out, cursor::MoveTo(0, 0))?;
        for line in frame(text, columns.into(), rows.into()) {
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
    /// If the terminal went away.
    pub fn quit_pressed(&self) -> io::Result<bool> {
        self.quit_pressed_within(Duration::ZERO)
    }

    /// The same, after this time at most.
    ///
    /// # Errors
    /// If the terminal went away.
    pub fn quit_pressed_within(&self, wait: Duration) -> io::Result<bool> {
        if !is_in_foreground() {
            std::thread::sleep(wait);
            return Ok(false);
        }
        if !event::poll(wait)? {
            return Ok(false);
        }
        let Event::Key(key) = event::read()? else {
            return Ok(false);
        };
        let control_c =
            key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        Ok(control_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc))
    }
}

/// Whether this process may set up its terminal and read from it. From the background either would stop it
/// (SIGTTOU, SIGTTIN; termios(3)), and a stopped daemon steers connections while it hears nobody.
fn is_in_foreground() -> bool {
    let own = rustix::process::getpgrp();
    let is_own = |group: rustix::io::Result<_>| group.is_ok_and(|group| group == own);
    if stdin().is_terminal() {
        return is_own(rustix::termios::tcgetpgrp(stdin()));
    }
    // As crossterm does it.
    std::fs::File::open("/dev/tty").is_ok_and(|tty| is_own(rustix::termios::tcgetpgrp(tty)))
}

/// A terminal that does not know its size, such as a serial console, has the classic one.
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

/// The lines of the view, none wider or more than the terminal has.
fn frame(text: &str, columns: usize, rows: usize) -> Vec<String> {
    let mut lines: Vec<String> = text
        .lines()
        .take(rows.saturating_sub(2))
        .map(|line| line.chars().take(columns).collect())
        .collect();
    lines.push("q or Ctrl-C ends".chars().take(columns).collect());
    lines
}
