//! The destinations of snapshots: a live list, lines of JSON, or a report at the end.

use std::{
    io, thread,
    time::{Duration, Instant},
};

use tcpilot_show::{
    browse::{Browser, KeyEffect, Press, Size},
    failure::Failure,
    live::Screen,
    output,
    select::Selection,
};

use super::{
    census::{Census, CensusRow},
    table,
    views::View,
};
use crate::{args::WatchArgs, link::FlowView};

/// The state of all devices at one time.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// A view of each device.
    pub views: Vec<View>,
    /// With `--census`.
    pub census: Option<Census>,
    /// Whether the census was just saved.
    pub is_saved: bool,
}

/// The rows on show: flows, or those of the census.
enum List {
    Flows(Browser<FlowView>),
    Census(Browser<CensusRow>),
}

impl List {
    fn press(&mut self, press: Press) -> KeyEffect {
        match self {
            List::Flows(browser) => browser.press(press),
            List::Census(browser) => browser.press(press),
        }
    }

    /// The text above the rows, and the table of rows, on a screen of so many columns.
    fn text(&self, snapshot: &Snapshot, width: Option<usize>) -> (String, String) {
        let mut head = table::head(&snapshot.views);
        let rows = match (self, &snapshot.census) {
            (List::Census(browser), Some(census)) => {
                head = format!("{head}\n{}", census.head());
                census.table(browser.selection())
            }
            (List::Flows(browser), _) => table::flows(&snapshot.views, browser.selection(), width),
            (List::Census(_), None) => String::new(),
        };
        (head, rows)
    }

    fn frame(&mut self, snapshot: &Snapshot, size: Size) -> Vec<String> {
        let (head, table) = self.text(snapshot, Some(size.columns));
        match self {
            List::Flows(browser) => browser.frame(&head, &table, size),
            List::Census(browser) => browser.frame(&head, &table, size),
        }
    }

    fn json(&self, snapshot: Snapshot) -> io::Result<String> {
        match (self, snapshot.census) {
            (List::Flows(browser), _) => json(snapshot.views, browser.selection()),
            (List::Census(browser), Some(census)) => census.json_line(browser.selection()),
            (List::Census(_), None) => Ok(String::new()),
        }
    }
}

enum To {
    /// A scrolling list, and its contents.
    Live(Screen, Snapshot),
    /// Lines of JSON, each second; with a census, whenever it is saved.
    Json,
    /// A report at the end.
    Once { json: bool },
}

/// The destination.
pub struct Output {
    to: To,
    list: List,
}

impl Output {
    /// Opens the destination named by the arguments.
    ///
    /// # Errors
    /// A column is unknown, or the terminal cannot be set up.
    pub fn open(args: &WatchArgs) -> Result<Output, Failure> {
        let query = args.rows.query();
        let list = match args.census {
            true => List::Census(Browser::new(query, false)?),
            false => List::Flows(Browser::new(query, false)?),
        };
        let to = match (args.once || args.devices.is_empty(), args.json) {
            (true, json) => To::Once { json },
            (false, true) => To::Json,
            (false, false) => match Screen::if_any()? {
                Some(screen) => To::Live(screen, Snapshot::default()),
                None => To::Once { json: false },
            },
        };
        Ok(Output { to, list })
    }

    /// Whether it shows one report over the flows' whole lives.
    pub fn is_report(&self) -> bool {
        matches!(self.to, To::Once { .. })
    }

    /// Waits, and obeys keys pressed meanwhile; true if the user wants to quit.
    ///
    /// # Errors
    /// The terminal went away.
    pub fn wait(&mut self, time: Duration) -> Result<bool, Failure> {
        let To::Live(screen, snapshot) = &mut self.to else {
            thread::sleep(time);
            return Ok(false);
        };
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if let Some(press) = screen.press_within(left)? {
                if self.list.press(press) == KeyEffect::Quit {
                    return Ok(true);
                }
                draw(screen, &mut self.list, snapshot)?;
            }
            if left.is_zero() {
                return Ok(false);
            }
        }
    }

    /// Shows a snapshot; false if nobody reads the output any more.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn show(&mut self, new: Snapshot, is_last: bool) -> Result<bool, Failure> {
        match &mut self.to {
            To::Live(screen, snapshot) => {
                *snapshot = new;
                draw(screen, &mut self.list, snapshot)?;
                Ok(true)
            }
            To::Once { .. } if !is_last => Ok(true),
            To::Json if new.census.is_some() && !new.is_saved => Ok(true),
            To::Json | To::Once { json: true } => Ok(output::write(&self.list.json(new)?)?),
            To::Once { json: false } => {
                let (head, rows) = self.list.text(&new, None);
                let text = format!("{head}\n{rows}");
                Ok(output::write(&output::lines(text.trim_start()))?)
            }
        }
    }
}

fn draw(screen: &mut Screen, list: &mut List, snapshot: &Snapshot) -> Result<(), Failure> {
    let lines = list.frame(snapshot, Screen::size()?);
    screen.draw(lines.iter().map(String::as_str))?;
    Ok(())
}

fn json(views: Vec<View>, selection: &Selection<FlowView>) -> io::Result<String> {
    let mut text = String::new();
    for mut view in views {
        selection.apply(&mut view.flows);
        text += &view.json_lines()?;
    }
    Ok(text)
}
