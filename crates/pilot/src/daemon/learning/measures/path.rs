//! The measures of a path and of its algorithms: how a record enters them, how people see them, and how they
//! are saved. A new measure of a path is a field of [`OfPath`] here.

use tcpilot_abi::{
    TP_CONN_DRY_RUN, TP_LEVEL_NONE, TP_RECORD_FOREIGN, TP_RECORD_FORGOTTEN, TP_RECORD_MOVED,
    TP_RECORD_RESCUED, TP_RECORD_SAMPLE, TP_RECORD_TIMED_OUT, TP_RECORD_TUNED, TP_RECORD_UNDONE,
    Why, tp_record,
};
use tcpilot_learner::{
    bytes::{Reader, Writer},
    reward::Measures,
};

use super::{
    decisions::{Decision, Decisions, End},
    window::{Epoch, Log16, Passed, Window},
};
use crate::{
    daemon::learning::{
        long::Before,
        translate::{BUSY_TICKS_MIN, Terms, has, measures, was_switched},
    },
    figures::{AlgorithmView, PathView},
};

/// How long the windows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Seconds of a window: `learner.window_s`.
    pub window_s: u32,
    /// Seconds of a window of slow-start thresholds: `ssthresh.window_s`.
    pub ssthresh_s: u32,
    /// A lower threshold shows a short connection, and not the path: `ssthresh.floor_packets`.
    pub ssthresh_floor: u32,
}

/// A record in the terms of this book.
#[derive(Clone, Debug)]
pub struct Sample {
    at_s: f64,
    /// The learner's number of the record's algorithm.
    arm: Option<usize>,
    /// Ended connections.
    ends: u32,
    /// Connections that ended or left their chosen algorithm.
    chosen: u32,
    is_favourite: bool,
    was_sampled: bool,
    /// Bytes per second; 0: the record shows none.
    rate: u64,
    min_rtt_us: u32,
    srtt_us: u32,
    ssthresh_packets: u32,
    /// Segments since the connection's last record.
    segments: u64,
    retransmitted: u64,
    decision: Option<Decision>,
}

impl Sample {
    /// `None` if the record's path is unknown.
    pub fn new(record: &tp_record, before: &Before, terms: &Terms<'_>) -> Option<Sample> {
        if has(record, TP_RECORD_FORGOTTEN) {
            return None; // its class is part of the path
        }
        let told = before.totals();
        let weight = u32::from(record.weight.max(1));
        let is_foreign = has(record, TP_RECORD_FOREIGN);
        let is_end = !has(record, TP_RECORD_SAMPLE);
        let is_first_switch =
            has(record, TP_RECORD_RESCUED | TP_RECORD_MOVED) && !was_switched(record);
        let is_choice = is_first_switch || (is_end && !was_switched(record));
        let measured = measures(record, told, terms.ticks_per_s);
        let is_new = !matches!(before, Before::Unknown);
        let sum = |segments: u64| {
            if is_new {
                segments * u64::from(weight)
            } else {
                0
            }
        };
        let arm = terms.arms.of_number(record.arm).filter(|_| !is_foreign);
        Some(Sample {
            at_s: terms.clock.seconds(record.at_ns),
            arm,
            ends: if is_end { weight } else { 0 },
            chosen: if is_choice { weight } else { 0 },
            is_favourite: u32::from(record.level) < TP_LEVEL_NONE
                && record.probability > u16::MAX / 2,
            was_sampled: told.is_some(),
            rate: match has(record, TP_RECORD_TUNED) {
                true => 0, // a tuned window made it
                false => rate(record, &measured, terms.ticks_per_s),
            },
            min_rtt_us: record.min_rtt_us,
            srtt_us: record.srtt_us,
            ssthresh_packets: record.ssthresh_packets,
            segments: sum(measured.segments),
            retransmitted: sum(measured.retransmitted),
            decision: (!is_foreign).then(|| decision(record, arm, before, terms)),
        })
    }
}

/// Acknowledged bytes from which on a mean counts by itself. With fewer, a connection seldom leaves slow
/// start; most applications with occasional data send no more.
const MEAN_BYTES_MIN: u64 = 65536;

/// The delivery rate in bytes per second: the higher of the last sample, unless the application limited it,
/// and the mean while data was in flight. The last sample of a connection often belongs to its FIN. 0:
/// unknown.
fn rate(record: &tp_record, measured: &Measures, ticks_per_s: u32) -> u64 {
    let last = u64::from(record.rate) * 1000;
    // Without a last sample nobody knows whether the application was the limit.
    if last == 0 && measured.bytes_acked < MEAN_BYTES_MIN {
        return 0;
    }
    last.max(mean(measured, ticks_per_s).unwrap_or(0))
}

/// Bytes per second while data was under way. Rounded down by a tick; a few ticks show nothing.
fn mean(measured: &Measures, ticks_per_s: u32) -> Option<u64> {
    let tick_us = 1_000_000u64.checked_div(ticks_per_s.into())?;
    let is_long = measured.busy_us >= u64::from(BUSY_TICKS_MIN) * tick_us;
    let bytes = measured.bytes_acked.saturating_mul(1_000_000);
    bytes
        .checked_div(measured.busy_us + tick_us)
        .filter(|_| is_long)
}

/// The choice behind a record. Its result is the whole connection's, if the connection has had one algorithm.
fn decision(
    record: &tp_record,
    arm: Option<usize>,
    before: &Before,
    terms: &Terms<'_>,
) -> Decision {
    let since = before.totals().filter(|_| was_switched(record));
    let measured = measures(record, since, terms.ticks_per_s);
    let is_known = since.is_some() || !was_switched(record);
    let share = measured.retransmitted as f64 / measured.segments as f64;
    let last = (record.rate > 0).then(|| u64::from(record.rate) * 1000);
    Decision {
        at_s: terms.clock.seconds(record.opened_ns).max(0.0) as u64,
        arm,
        why: Why::from_number(record.why),
        dry_run: u32::from(record.conn_flags) & TP_CONN_DRY_RUN != 0,
        end: end(record),
        goodput: mean(&measured, terms.ticks_per_s)
            .or(last)
            .filter(|_| is_known),
        resent: (is_known && measured.segments > 0).then_some(share),
    }
}

fn end(record: &tp_record) -> End {
    let switches = TP_RECORD_RESCUED | TP_RECORD_UNDONE | TP_RECORD_MOVED;
    match () {
        () if has(record, switches) => End::Switched,
        () if has(record, TP_RECORD_SAMPLE) => End::Open,
        () if has(record, TP_RECORD_TIMED_OUT) => End::TimedOut,
        () => End::Closed,
    }
}

/// The measures of a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfPath {
    epoch: Epoch,
    ssthresh_epoch: Epoch,
    /// Bytes per second.
    rate: Window<Log16>,
    min_rtt_us: Window<Log16>,
    ssthresh_packets: Window<Log16>,
    srtt_us: u32,
    /// Segments, and those sent again.
    segments: Window<u32>,
    retransmitted: Window<u32>,
    /// Ended connections.
    connections: u32,
    decisions: Decisions,
}

impl OfPath {
    /// Moves the windows on to this time, and returns how far the algorithms' windows have to move.
    pub fn pass(&mut self, now_s: f64, windows: &Windows) -> Passed {
        let passed = self.epoch.pass(Epoch::at(now_s, windows.window_s));
        self.rate.pass(passed);
        self.min_rtt_us.pass(passed);
        self.segments.pass(passed);
        self.retransmitted.pass(passed);
        let ssthresh = Epoch::at(now_s, windows.ssthresh_s);
        self.ssthresh_packets
            .pass(self.ssthresh_epoch.pass(ssthresh));
        passed
    }

    /// Ended connections.
    pub fn connections(&self) -> u32 {
        self.connections
    }

    /// Takes in a record; the windows are those of its time.
    pub fn take(&mut self, sample: &Sample, windows: &Windows) {
        self.rate.add_greatest(sample.rate);
        self.min_rtt_us.add_least(sample.min_rtt_us.into());
        if sample.ssthresh_packets >= windows.ssthresh_floor {
            self.ssthresh_packets
                .add_greatest(sample.ssthresh_packets.into());
        }
        self.srtt_us = match (self.srtt_us, sample.srtt_us) {
            (before, 0) => before,
            (0, first) => first,
            (before, next) => before - (before >> 3) + (next >> 3),
        };
        self.segments.add(sample.segments);
        self.retransmitted.add(sample.retransmitted);
        self.connections = self.connections.saturating_add(sample.ends);
        if let Some(decision) = &sample.decision {
            self.decisions.add(decision);
        }
    }

    /// Puts the measures into a view.
    pub fn show(&self, view: &mut PathView) {
        let small = |number: u64| number.try_into().ok();
        let (sent, again) = (self.segments.sum(), self.retransmitted.sum());
        view.min_rtt_us = self.min_rtt_us.least().and_then(small);
        view.srtt_us = (self.srtt_us > 0).then_some(self.srtt_us);
        view.max_delivery_rate = self.rate.greatest();
        view.ssthresh = self.ssthresh_packets.greatest().and_then(small);
        view.loss_ratio = (sent > 0).then(|| again as f64 / sent as f64);
        view.connections = self.connections.into();
    }

    /// The last decisions, the newest first.
    pub fn decisions(&self, now_s: f64) -> Vec<Decision> {
        self.decisions.all(now_s.max(0.0) as u64)
    }

    pub fn write(&self, to: &mut Writer) {
        self.epoch.write(to);
        self.ssthresh_epoch.write(to);
        self.rate.write(to);
        self.min_rtt_us.write(to);
        self.ssthresh_packets.write(to);
        to.u32(self.srtt_us);
        self.segments.write(to);
        self.retransmitted.write(to);
        to.u32(self.connections);
        self.decisions.write(to);
    }

    pub fn read(from: &mut Reader<'_>) -> Option<OfPath> {
        Some(OfPath {
            epoch: Epoch::read(from)?,
            ssthresh_epoch: Epoch::read(from)?,
            rate: Window::<Log16>::read(from)?,
            min_rtt_us: Window::<Log16>::read(from)?,
            ssthresh_packets: Window::<Log16>::read(from)?,
            srtt_us: from.u32()?,
            segments: Window::<u32>::read(from)?,
            retransmitted: Window::<u32>::read(from)?,
            connections: from.u32()?,
            decisions: Decisions::read(from)?,
        })
    }
}

/// The measures of an algorithm on a path. Its windows have the path's epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfArm {
    chosen: u32,
    judged: u32,
    greedy: u32,
    rate: Window<Log16>,
    min_rtt_us: Window<Log16>,
}

impl OfArm {
    pub fn pass(&mut self, passed: Passed) {
        self.rate.pass(passed);
        self.min_rtt_us.pass(passed);
    }

    /// Takes in a record of this algorithm; `is_update`: the learner could judge by it.
    pub fn take(&mut self, sample: &Sample, is_update: bool) {
        let chosen = sample.chosen;
        self.chosen = self.chosen.saturating_add(chosen);
        if is_update || sample.was_sampled {
            self.judged = self.judged.saturating_add(chosen);
        }
        if sample.is_favourite {
            self.greedy = self.greedy.saturating_add(chosen);
        }
        self.rate.add_greatest(sample.rate);
        self.min_rtt_us.add_least(sample.min_rtt_us.into());
    }

    pub fn show(&self, view: &mut AlgorithmView) {
        view.chosen = self.chosen;
        view.samples = self.judged;
        view.greedy = self.greedy;
        view.max_delivery_rate = self.rate.greatest();
        view.min_rtt_us = self.min_rtt_us.least().and_then(|us| us.try_into().ok());
    }

    pub fn write(&self, to: &mut Writer) {
        to.u32(self.chosen).u32(self.judged).u32(self.greedy);
        self.rate.write(to);
        self.min_rtt_us.write(to);
    }

    pub fn read(from: &mut Reader<'_>) -> Option<OfArm> {
        Some(OfArm {
            chosen: from.u32()?,
            judged: from.u32()?,
            greedy: from.u32()?,
            rate: Window::<Log16>::read(from)?,
            min_rtt_us: Window::<Log16>::read(from)?,
        })
    }
}

impl Sample {
    /// When the record was made, in seconds since 1970.
    pub fn at_s(&self) -> f64 {
        self.at_s
    }

    /// The learner's number of the measured algorithm.
    pub fn arm(&self) -> Option<usize> {
        self.arm
    }
}
