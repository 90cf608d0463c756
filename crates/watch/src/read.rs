//! `watch --read`: the flows of a capture, judged by the same programs as live ones, and one report over their whole
//! lives.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use tcpilot_capture::{Counts, End, Error, Judge, Options};
use tcpilot_kernel::stop_flag;
use tcpilot_show::failure::{Failure, Kind};

use super::{
    flows::{Period, Viewer, thousandths},
    model::Models,
    output::{Output, Snapshot},
    views::{CaptureView, View},
};
use crate::args::WatchArgs;

/// Reads the capture, and shows its flows.
///
/// # Errors
/// The file cannot be read, or is no capture.
pub fn run(args: &WatchArgs, file: &Path) -> Result<(), Failure> {
    let models = Models::of(args)?;
    let mut output = Output::open(args)?;
    let stop = stop_flag()?;
    let options = Options {
        classifier: args.classifier.number(),
        one_way: args.one_way,
        udp: args.udp,
        flows_max: args.flows,
    };
    let failed = |error: &Error| refuse(file, error);
    let mut judge = Judge::start(&options, &models.tcp, &models.extrapolation, &models.quic)
        .map_err(|error| failed(&error))?;
    let input = open(file).map_err(|error| failed(&Error::Input(error)))?;
    let end = take_all(&mut judge, input, args.seconds, &stop).map_err(|error| failed(&error))?;
    if judge.counts().packets == 0 {
        return Err(failed(&Error::Empty));
    }
    let view = view(args, &name(file), &models, &judge, end);
    let snapshot = Snapshot {
        views: vec![view],
        ..Snapshot::default()
    };
    output.show(snapshot, true).map(|_| ())
}

fn is_standard_input(file: &Path) -> bool {
    file.as_os_str() == "-"
}

fn name(file: &Path) -> String {
    match is_standard_input(file) {
        true => "standard input".to_owned(),
        false => file.display().to_string(),
    }
}

fn open(file: &Path) -> io::Result<Box<dyn Read + Send>> {
    match is_standard_input(file) {
        true => Ok(Box::new(io::stdin())),
        false => Ok(Box::new(File::open(file)?)),
    }
}

/// Gives the judge all packets, those of the first seconds, or those until a signal.
fn take_all(
    judge: &mut Judge,
    input: impl Read + Send,
    seconds: Option<u64>,
    stop: &AtomicBool,
) -> Result<End, Error> {
    let most_ns = seconds.map_or(u64::MAX, |s| s.saturating_mul(1_000_000_000));
    let mut is_ended = false;
    let end = tcpilot_capture::read(input, |frame| {
        is_ended = stop.load(Ordering::Relaxed) || !judge.take_until(frame, most_ns);
        !is_ended
    })?;
    // The reader stopped on purpose: nothing is missing.
    Ok(if is_ended { End::Whole } else { end })
}

fn refuse(file: &Path, error: &Error) -> Failure {
    let (kind, remedy) = match error {
        Error::Empty => (Kind::Usage, "did the capture see a packet?"),
        Error::Format => (
            Kind::Usage,
            "`tcpdump -w FILE` and Wireshark write captures; `editcap` changes others into pcapng",
        ),
        Error::Header => (Kind::Usage, "was it copied as a whole?"),
        Error::Input(_) => (Kind::Usage, ""),
        Error::Memory => (Kind::Failed, "give less room by --flows"),
    };
    Failure::new(kind, format!("{}: {error}", name(file)), remedy)
}

fn view(args: &WatchArgs, name: &str, models: &Models, judge: &Judge, end: End) -> View {
    let by = Viewer {
        place: name,
        classifier: args.classifier,
        models,
        now_ns: judge.now_ns(),
    };
    let (mut flows, mut queue_us) = (Vec::new(), 0);
    for flow in judge.flows() {
        flows.push(by.view(&flow, &Period::life(&flow)));
        queue_us = queue_us.max(judge.queue_us(&flow.key));
    }
    flows.sort_by(|a, b| b.rate.cmp(&a.rate).then_with(|| a.flow.cmp(&b.flow)));
    let passed_s = judge.passed_ns() as f64 / 1e9;
    let totals = judge.totals();
    View {
        device: name.to_owned(),
        present: true,
        t_s: thousandths(passed_s),
        link_rate: 0,
        link_capacity: None,
        link_used: None,
        link_queue_us: queue_us,
        in_packets: totals.in_packets,
        out_packets: 0,
        dropped_packets: 0,
        other_packets: totals.other_packets,
        unreadable_packets: totals.unreadable_packets,
        unproved_packets: totals.unproved_packets,
        unseen_packets: None,
        missed_events: 0,
        reused: totals.reused,
        groups: View::sum(name, &flows, Some(passed_s)),
        fair: None,
        capture: Some(capture(&judge.counts(), end)),
        flows,
    }
}

fn capture(counts: &Counts, end: End) -> CaptureView {
    CaptureView {
        packets: counts.packets,
        judged_packets: counts.taken,
        other_packets: counts.other,
        not_ip_packets: counts.not_ip,
        fragments: counts.fragments,
        cut_packets: counts.cut,
        other_link_packets: counts.other_link,
        timeless_packets: counts.timeless,
        doubled_packets: counts.elsewhere,
        backward_packets: counts.backward,
        end: match end {
            End::Whole => "whole",
            End::Cut => "cut",
            End::Damaged => "damaged",
        }
        .to_owned(),
    }
}
