//! The live view: `tcpilot top`, and `tcpilot run --live`.

use std::{
    io::{self, IsTerminal, Stdout, Write, stdin, stdout},
    time::Duration,
};

use crossterm::{
    cursor,
    event::{self, Event, KeyCode, KeyModifiers},
    execute, queue, style, terminal,
};

use crate::{
    cli::SocketArgs,
    failure::{Failure, Kind},
    pilot::protocol::{self, Request},
    show::table,
    show::views::{PathView, Status},
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

    /// Draws what there is, and says whether to quit.
    ///
    /// # Errors
    /// The terminal went away.
    pub fn show(&mut self, status: &Status, paths: &[PathView]) -> io::Result<bool> {
        self.draw(status, paths)?;
        self.quit_pressed()
    }

    fn draw(&mut self, status: &Status, paths: &[PathView]) -> io::Result<()> {
        self.draw_text(&format!(
            "{}\n{}",
            table::status(status),
            table::paths(paths)
        ))
    }

    /// Draws a text, cut to the terminal's size.
    ///
    /// # Errors
    /// Where the terminal went away.
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
    /// Where the terminal went away.
    pub fn quit_pressed(&self) -> io::Result<bool> {
        self.quit_pressed_within(Duration::ZERO)
    }

    fn quit_pressed_within(&self, wait: Duration) -> io::Result<bool> {
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

/// `tcpilot top`.
///
/// # Errors
/// Where no daemon answers, or there is no terminal.
pub fn top(args: &SocketArgs) -> Result<(), Failure> {
    let mut view = ask(args)?; // before the screen changes: an error is read where it is printed
    let Some(mut screen) = Screen::if_any()? else {
        return Err(Failure::new(
            Kind::Usage,
            "top needs a terminal, and to be in its foreground",
            "for scripts there are `tcpilot status --json` and `tcpilot paths --json`",
        ));
    };
    loop {
        screen.draw(&view.0, &view.1)?;
        if screen.quit_pressed_within(Duration::from_secs(1))? {
            return Ok(());
        }
        view = ask(args)?;
    }
}

fn ask(args: &SocketArgs) -> Result<(Status, Vec<PathView>), Failure> {
    let status = protocol::ask(&args.socket, &Request::Status)?;
    let mut paths: Vec<PathView> = protocol::ask(&args.socket, &Request::Paths)?;
    PathView::sort(&mut paths);
    Ok((status, paths))
}
