//! `tcpilot top`: the live view.

use std::time::{Duration, Instant};

use tcpilot_show::{
    args::SelectArgs,
    browse::{Browser, KeyEffect},
    failure::{Failure, Kind},
    live::Screen,
};

use crate::args::{PathsArgs, TopArgs};
use crate::{
    figures::{PathView, Status},
    lists,
    protocol::{self, AskError, Request},
    table,
};

/// Refresh interval of the rows.
const EVERY: Duration = Duration::from_secs(1);
/// The interval is at least this many times as long as an answer takes: the daemon has others to serve.
const REST: u32 = 10;

/// `tcpilot top`.
///
/// # Errors
/// No daemon answers, a column is unknown, or there is no terminal.
pub fn top(args: &TopArgs) -> Result<(), Failure> {
    let mut browser = Browser::new(args.list.list.query(), args.list.list.processes)?;
    let mut view = ask(args, &browser)?; // before the screen changes, to keep an error readable
    let Some(mut screen) = Screen::if_any()? else {
        return Err(Failure::new(
            Kind::Usage,
            "top needs a terminal, and to be in its foreground",
            "for scripts there are `tcpilot status --json` and `tcpilot paths --json`",
        ));
    };
    loop {
        let lines = browser.frame(&view.head, &view.table, Screen::size()?);
        screen.draw(lines.iter().map(String::as_str))?;
        let left = view.due.saturating_duration_since(Instant::now());
        let next = match screen.press_within(left)? {
            Some(press) => browser.press(press),
            None if Instant::now() >= view.due => KeyEffect::Ask,
            None => KeyEffect::Draw,
        };
        match next {
            KeyEffect::Draw => {}
            KeyEffect::Ask => view = ask(args, &browser)?,
            KeyEffect::Quit => return Ok(()),
        }
    }
}

/// The content of the screen, and the time to renew it.
struct View {
    head: String,
    table: String,
    due: Instant,
}

fn ask(args: &TopArgs, browser: &Browser<PathView>) -> Result<View, AskError> {
    let begun = Instant::now();
    let socket = &args.socket.socket;
    let status: Status = protocol::ask(socket, &Request::Status)?;
    let list = PathsArgs {
        all: args.list.all,
        list: SelectArgs {
            processes: browser.processes,
            ..args.list.list.clone()
        },
    };
    let table = lists::table_of_paths(socket, browser.selection(), &list)?;
    let took = begun.elapsed();
    Ok(View {
        head: table::status(&status),
        table,
        due: Instant::now() + EVERY.max(took * REST),
    })
}
