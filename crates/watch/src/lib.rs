//! `tcpilot watch DEV…`: the congestion controls of flows across a device, or with `--read` in a capture. It
//! needs no daemon, and changes nothing without `--fair`.
#![warn(clippy::print_stdout)] // it panics if the reader is gone: `tcpilot_show::output` does not

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tcpilot_kernel::host;
use tcpilot_kernel::stop_flag;
use tcpilot_show::{
    failure::{Failure, Kind},
    metrics::PatientServer,
};

mod acks;
pub mod args;
pub mod census;
pub mod fair;
mod flows;
mod ipfix;
pub mod link;
mod metrics;
mod model;
mod output;
mod rate;
mod read;
mod record;
mod schema;
mod store;
mod table;
mod tally;
mod unseen;
pub mod views;
mod watched;

use args::WatchArgs;
use census::{Census, CensusWriter};
use ipfix::Exporter;
use metrics::Board;
use model::Models;
use output::{Output, Snapshot};
use tally::Tally;
use views::View;
use watched::Watched;

/// Interval of the view and of lines of JSON.
const EVERY: Duration = Duration::from_secs(1);
/// Interval of reading the ring, and of noticing signals.
const STEP: Duration = Duration::from_millis(100);
/// The most devices of one watch: each calls its programs at the packets of the others, too.
const DEVICES_MAX: usize = 16;

/// Watches until a signal comes, or for the time of `--for`.
///
/// # Errors
/// The host lacks something, a device, a file or the terminal fails, or the kernel refuses to put a device's
/// former qdisc back.
pub fn run(args: &WatchArgs) -> Result<(), Failure> {
    if args.schema {
        tcpilot_show::output::write(&schema::text()?)?;
        return Ok(());
    }
    if let Some(file) = &args.read {
        return read::run(args, file);
    }
    check_devices(args)?;
    if args.devices.is_empty() {
        return show_census(args);
    }
    host::check_requirements()?;
    if args.fair.restore {
        let mut devices = args.devices.iter();
        return devices.try_for_each(|device| fair::restore(device, &args.fair));
    }
    let models = Models::of(args)?;
    let sums = Sums::open(args)?;
    let stop = stop_flag()?;
    let load = |device: &String| Watched::load(args, device, &models);
    let all = args.devices.iter().map(load).collect::<Result<_, _>>()?;
    let output = Output::open(args)?; // before the queues: a terminal can stop a process
    let mut watching = Watching { all, output, sums };
    let watched = watching.go_on(args, &stop);
    watching.sums.end();
    let take_down = watching.all.iter_mut().map(Watched::take_down);
    let restored: Result<(), Failure> = take_down.collect();
    match watched {
        Ok(()) => restored,
        Err(failure) => Err(failure.with(restored)),
    }
}

/// A watch with all its parts.
struct Watching<'a> {
    all: Vec<Watched<'a>>,
    output: Output,
    sums: Sums,
}

impl Watching<'_> {
    /// Watches until it is stopped, or nobody reads the output any more.
    fn go_on(&mut self, args: &WatchArgs, stop: &AtomicBool) -> Result<(), Failure> {
        let is_report = self.output.is_report();
        let mut all = self.all.iter_mut();
        all.try_for_each(|one| one.begin(args, is_report))?;
        let (start, mut next) = (Instant::now(), Instant::now() + EVERY);
        let mut quit = false;
        loop {
            let ended = quit
                || stop.load(Ordering::Relaxed)
                || args.seconds.is_some_and(|s| start.elapsed().as_secs() >= s);
            self.all.iter_mut().try_for_each(Watched::step)?;
            if ended || Instant::now() >= next {
                next += EVERY;
                let views = self.all.iter_mut().map(Watched::look);
                let snapshot = self.sums.take(views.collect::<Result<_, _>>()?, ended);
                if !self.output.show(snapshot, ended)? {
                    return Ok(());
                }
            }
            if ended {
                return self.all.iter_mut().try_for_each(Watched::finish);
            }
            quit = self.output.wait(STEP)?;
        }
    }
}

/// Sums over all looks: the census, metrics, and flow records.
#[derive(Default)]
struct Sums {
    tally: Tally,
    writer: Option<CensusWriter>,
    exporter: Option<Exporter>,
    board: Option<Arc<Board>>,
    server: Option<PatientServer>,
}

impl Sums {
    fn open(args: &WatchArgs) -> Result<Sums, Failure> {
        let mut sums = Sums::default();
        if args.census {
            sums.writer = Some(CensusWriter::open(&args.census_file)?);
        }
        if let Some(collector) = &args.ipfix {
            sums.exporter = Some(Exporter::open(collector, args.ipfix_enterprise)?);
        }
        if let Some(address) = args.listen {
            let board = Arc::new(Board::default());
            sums.server = Some(PatientServer::open(address, Arc::clone(&board) as _));
            sums.board = Some(board);
        }
        Ok(sums)
    }

    /// Takes a look at all devices, once a second. `ended`: it is the last one.
    fn take(&mut self, views: Vec<View>, ended: bool) -> Snapshot {
        let now = Instant::now();
        self.server.iter_mut().for_each(PatientServer::retry);
        if self.writer.is_some() || self.board.is_some() {
            self.tally.look(&views, now);
        }
        if ended {
            self.tally.finish();
        }
        if let Some(exporter) = &mut self.exporter {
            exporter.look(&views, now, ended);
        }
        if let Some(board) = &self.board {
            let sums = self.tally.sums().iter();
            board.put(&views, sums.map(|(kind, sum)| (kind.clone(), *sum)));
        }
        let writer = self.writer.as_mut();
        let is_saved = writer.is_some_and(|writer| writer.save(&self.tally, ended));
        Snapshot {
            views,
            census: self.writer.as_ref().map(|k| k.census(&self.tally)),
            is_saved,
        }
    }

    /// Saves the rest, also if the watch failed, or nobody reads its output any more.
    fn end(&mut self) {
        self.tally.finish();
        if let Some(writer) = &mut self.writer {
            writer.save(&self.tally, true);
        }
    }
}

/// `--census` without a device: the saved census.
fn show_census(args: &WatchArgs) -> Result<(), Failure> {
    let mut output = Output::open(args)?;
    let snapshot = Snapshot {
        census: Some(Census::read(&args.census_file)?),
        ..Snapshot::default()
    };
    output.show(snapshot, true).map(|_| ())
}

/// Refuses devices that cannot be watched together.
fn check_devices(args: &WatchArgs) -> Result<(), Failure> {
    let devices = &args.devices;
    let refuse = |message: String, remedy: &str| Err(Failure::new(Kind::Usage, message, remedy));
    if devices.len() > DEVICES_MAX {
        let message = format!("{} devices are too many", devices.len());
        return refuse(message, "at most 16 can be watched at once");
    }
    let mut sorted = devices.clone();
    sorted.sort();
    if let Some([twice, _]) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return refuse(format!("{twice} is named twice"), "name each device once");
    }
    let for_one = [
        ("--fair", args.fair.fair),
        ("--record", args.record.is_some()),
        ("--acks-at", args.acks_at.is_some()),
    ];
    match for_one.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) if devices.len() > 1 => refuse(
            format!("{option} is for one device"),
            "start a tcpilot for each",
        ),
        _ => Ok(()),
    }
}
