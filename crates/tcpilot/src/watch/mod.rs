//! `tcpilot watch DEV`: which congestion controls cross a device. It needs no daemon, and changes nothing
//! without `--fair`.

use std::{
    io::{self, Write, stdout},
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use tcpilot_abi::{TP_CLASSIFIER_P4AIR, TP_CLASSIFIER_TCPILOT};
use tcpilot_kernel::{host, watch::Options};

use crate::{
    cli::{Classifier, WatchArgs},
    failure::{Failure, Kind},
    fair::{self, Fair},
    link::Device,
    pilot::daemon::stop_flag,
    show::live::Screen,
};

mod flows;
mod model;
mod rate;
mod record;
mod table;
mod unseen;
pub(crate) mod views;

use flows::Flows;
use model::Model;
use rate::LinkRate;
use record::Recorder;

/// Interval at which the view is renewed and lines of JSON are written.
const EVERY: Duration = Duration::from_secs(1);
/// Interval at which records are taken from the ring and signals are noticed.
const STEP: Duration = Duration::from_millis(100);

/// Watches until a signal comes, or for the time of `--for`.
///
/// # Errors
/// The host lacks something, or the device, a file or the terminal fails.
pub fn run(args: &WatchArgs) -> Result<(), Failure> {
    host::check_requirements()?;
    if args.fair.restore {
        return fair::restore(&args.device, &args.fair);
    }
    let model = match &args.model {
        Some(path) => Model::read(path)?,
        None => Model::built_in()?,
    };
    let mut device = Device::find(&args.device)?;
    let mut watch = fair::load(args, options(args)?, &model.in_kernel)?;
    watch.set_device(device.index());
    let mut recorder = args.record.as_deref().map(Recorder::create).transpose()?;
    let stop = stop_flag()?;
    let mut output = Output::open(args)?; // before the queues: a terminal can stop a process
    let mut fair = Fair::start(args, &mut watch, &device)?;
    let mut flows = Flows::new(args.classifier, &model, output.is_report());
    let (start, mut next) = (Instant::now(), Instant::now() + EVERY);
    let mut rate = LinkRate::new(start, watch.totals().left_bytes);
    loop {
        let ended = stop.load(Ordering::Relaxed)
            || output.quit_pressed()?
            || args.seconds.is_some_and(|s| start.elapsed().as_secs() >= s);
        let left_bytes = watch.totals().left_bytes;
        watch.set_link_rate(rate.look(Instant::now(), left_bytes));
        if let Some(recorder) = &mut recorder {
            recorder.take(&watch)?;
        }
        if let Some(fair) = &mut fair {
            fair.renew(&mut watch)?;
        }
        if ended || Instant::now() >= next {
            next += EVERY;
            watch.set_device(device.look());
            let mut view = flows.look(&mut watch, &device)?;
            if let Some(fair) = &mut fair {
                fair.follow(&mut watch, &device)?;
                view.fair = Some(fair.view(&watch));
            }
            if !output.show(&view, ended)? {
                return Ok(());
            }
        }
        if ended {
            return recorder.map_or(Ok(()), Recorder::finish);
        }
        thread::sleep(STEP);
    }
}

fn options(args: &WatchArgs) -> Result<Options, Failure> {
    let netns_inum = host::own_netns_inum().ok_or_else(|| {
        Failure::new(
            Kind::Failed,
            "/proc/self/ns/net cannot be read",
            "is /proc mounted?",
        )
    })?;
    Ok(Options {
        classifier: match args.classifier {
            Classifier::Tcpilot => TP_CLASSIFIER_TCPILOT,
            Classifier::P4air => TP_CLASSIFIER_P4AIR,
        },
        record: args.record.is_some(),
        one_way: args.one_way,
        link_rate: (args.rate_mbit.unwrap_or(0.0) * 125_000.0) as u64,
        flows_max: args.flows,
        netns_inum,
        fair: args.fair.fair,
        qdisc_packets: None,
    })
}

/// The destination of the views.
enum Output {
    Live(Screen),
    /// A line for each flow, and one for the totals, each second.
    Json,
    /// A report at the end.
    Once {
        json: bool,
    },
}

impl Output {
    fn open(args: &WatchArgs) -> Result<Output, Failure> {
        Ok(match (args.once, args.json) {
            (true, json) => Output::Once { json },
            (false, true) => Output::Json,
            (false, false) => match Screen::if_any()? {
                Some(screen) => Output::Live(screen),
                None => Output::Once { json: false },
            },
        })
    }

    fn is_report(&self) -> bool {
        matches!(self, Output::Once { .. })
    }

    fn quit_pressed(&self) -> io::Result<bool> {
        match self {
            Output::Live(screen) => screen.quit_pressed(),
            _ => Ok(false),
        }
    }

    /// Shows a view; false if nobody reads the output any more.
    fn show(&mut self, view: &views::View, is_last: bool) -> Result<bool, Failure> {
        let text = match self {
            Output::Live(screen) => {
                screen.draw_text(&table::view(view))?;
                return Ok(true);
            }
            Output::Once { .. } if !is_last => return Ok(true),
            Output::Json | Output::Once { json: true } => view.json_lines()?,
            Output::Once { json: false } => table::view(view),
        };
        let mut out = stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(error.into()),
            Ok(()) => Ok(true),
        }
    }
}
