//! The live view: `tcpilot top`, and `tcpilot run --live`.

use std::time::Duration;

use crate::pilot::{
    figures::{PathView, Status},
    protocol::{self, Request},
    table,
};
use crate::{
    cli::SocketArgs,
    failure::{Failure, Kind},
    show::live::Screen,
};

/// The content of the live view.
pub fn text(status: &Status, paths: &[PathView]) -> String {
    format!("{}\n{}", table::status(status), table::paths(paths))
}

/// `tcpilot top`.
///
/// # Errors
/// If no daemon answers, or there is no terminal.
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
        screen.draw_text(&text(&view.0, &view.1))?;
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
