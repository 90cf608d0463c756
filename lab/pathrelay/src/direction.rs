//! One direction of a path: its thread takes packets from a device, keeps each for the delay, and gives it to
//! the other device.

use std::{
    collections::VecDeque,
    io,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use hdrhistogram::Histogram;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, read, write},
    time::{ClockId, clock_gettime},
};
use serde::Serialize;

use crate::{
    delay_queue::{DelayQueues, Fate, HEADER},
    link::Change,
    trace::{Follower, Sample, Trace},
};

/// Packets taken in before the thread looks again for due packets.
const BATCH: usize = 32;
const SAMPLE_NS: u64 = 100_000_000;
/// A waiting thread checks at least this often whether it should end.
const LOOK_NS: u64 = 50_000_000;

/// What becomes quantiles at the end.
struct Times {
    late: Histogram<u64>,
    woken_late: Histogram<u64>,
    write: Histogram<u64>,
}

impl Times {
    fn new() -> anyhow::Result<Times> {
        let made = || Histogram::new_with_bounds(1, 60_000_000_000, 3);
        Ok(Times {
            late: made()?,
            woken_late: made()?,
            write: made()?,
        })
    }
}

/// One direction, ready to run.
#[derive(Debug)]
pub struct Direction {
    pub from: OwnedFd,
    pub to: OwnedFd,
    pub queues: DelayQueues,
    /// Limit of the first delay queue; with a limit there is no second queue.
    pub limit: Option<Limit>,
    /// Delays of the first delay queue.
    pub schedule: Schedule,
}

/// Changes still to come.
#[derive(Debug)]
pub struct Schedule {
    /// In the order of their times.
    pub changes: VecDeque<Change>,
    /// Set when the traces and the changes begin; until then a trace lets everything pass.
    pub begun: Arc<AtomicBool>,
    pub begun_ns: Option<u64>,
}

/// A rate following a trace, and the queue before it.
#[derive(Debug)]
pub struct Limit {
    pub trace: Trace,
    pub queue_bytes: usize,
    pub follower: Option<Follower>,
}

/// A direction's counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Passed on; a super-packet counts once.
    pub packets: u64,
    pub bytes: u64,
    /// Lost on purpose.
    pub lost: u64,
    /// Refused by the device they should have left through.
    pub refused: u64,
    /// So often nothing was taken in because the line was full: then the delay was longer than asked for.
    pub full: u64,
    /// The most bytes under way at once.
    pub most_held: usize,
    /// How much later than due packets left, in microseconds.
    pub late_us: Late,
    /// How much later than due the thread began to pass packets on, after it had waited for the first: the
    /// cost of the scheduler and the timer. The rest of the lateness comes from packets waiting for those
    /// before them.
    pub woken_late_us: Late,
    /// How long the device took for a packet: all immediate work of the receiving stack.
    pub write_us: Late,
    /// Packets dropped at the full queue before a trace.
    pub dropped: u64,
    /// Samples of a followed trace, ten a second.
    pub samples: Vec<Sample>,
}

/// Quantiles of lateness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Late {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

impl From<&Histogram<u64>> for Late {
    fn from(found: &Histogram<u64>) -> Late {
        let at = |share| found.value_at_quantile(share) as f64 / 1e3;
        Late {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: found.max() as f64 / 1e3,
        }
    }
}

impl Direction {
    /// Runs until `stop`.
    ///
    /// # Errors
    /// When a device is gone, or the histogram cannot be made.
    pub fn run(mut self, stop: &AtomicBool) -> anyhow::Result<Report> {
        let mut report = Report::default();
        let mut times = Times::new()?;
        let mut has_waited = false;
        while !stop.load(Ordering::Relaxed) {
            self.begin();
            if has_waited {
                self.note_wake(&mut times);
            }
            self.give(&mut report, &mut times)?;
            self.sample(&mut report);
            has_waited = self.take(&mut report)? == 0;
            if has_waited {
                self.wait()?;
            }
        }
        report.most_held = self.queues.most_held();
        report.late_us = Late::from(&times.late);
        report.woken_late_us = Late::from(&times.woken_late);
        report.write_us = Late::from(&times.write);
        Ok(report)
    }

    /// After the signal: follows the trace from now on, and makes the due changes.
    fn begin(&mut self) {
        let schedule = &mut self.schedule;
        if schedule.begun_ns.is_none() && schedule.begun.load(Ordering::Relaxed) {
            let at_ns = now_ns();
            schedule.begun_ns = Some(at_ns);
            if let Some(limit) = &mut self.limit {
                limit.follower = Some(Follower::new(limit.trace.clone(), at_ns));
            }
        }
        let Some(begun_ns) = schedule.begun_ns else {
            return;
        };
        let is_due = |change: &Change| begun_ns + change.at.as_nanos() as u64 <= now_ns();
        while schedule.changes.front().is_some_and(is_due) {
            let Some(change) = schedule.changes.pop_front() else {
                return;
            };
            self.queues.first_mut().change(&change);
        }
    }

    /// Passes packets at the trace's opportunities.
    fn follow(&mut self, report: &mut Report, times: &mut Times) -> io::Result<()> {
        let Some(follower) = self
            .limit
            .as_mut()
            .and_then(|limit| limit.follower.as_mut())
        else {
            return Ok(());
        };
        let (line, to) = (&mut self.queues.first_mut().line, &self.to);
        while follower.due_ns() <= now_ns() {
            let late_ns = now_ns() - follower.due_ns();
            let mut gone = Ok(());
            follower.take(line.first().map(wire_bytes), || {
                let packet = line.first()?;
                times.late.saturating_record(late_ns.max(1));
                gone = deliver(to, packet, report);
                line.pop();
                line.first().map(wire_bytes)
            });
            gone?;
        }
        Ok(())
    }

    fn sample(&mut self, report: &mut Report) {
        let Some(follower) = self
            .limit
            .as_ref()
            .and_then(|limit| limit.follower.as_ref())
        else {
            return;
        };
        let at_ns = now_ns();
        if report
            .samples
            .last()
            .is_some_and(|last| at_ns < last.at_ns + SAMPLE_NS)
        {
            return;
        }
        let (queue_bytes, queue_packets) = self.queues.first().line.held();
        report.samples.push(Sample {
            at_ns,
            queue_bytes,
            queue_packets,
            dropped: report.dropped,
            passed_bytes: report.bytes,
            passed_packets: report.packets,
            offered_bytes: follower.offered_bytes,
        });
    }

    fn is_following(&self) -> bool {
        let limit = self.limit.as_ref();
        limit.is_some_and(|limit| limit.follower.is_some())
    }

    /// The first packet's lateness, if it was due when the thread woke up.
    fn note_wake(&mut self, times: &mut Times) {
        let now_ns = now_ns();
        let due_ns = self.queues.next().map(|(due_ns, _)| due_ns);
        if let Some(due_ns) = due_ns.filter(|due_ns| *due_ns <= now_ns) {
            times.woken_late.saturating_record((now_ns - due_ns).max(1));
        }
    }

    /// Passes on the due packets.
    fn give(&mut self, report: &mut Report, times: &mut Times) -> io::Result<()> {
        if self.is_following() {
            return self.follow(report, times);
        }
        while let Some((due_ns, queue)) = self.queues.next() {
            let now_ns = now_ns();
            if due_ns > now_ns {
                break;
            }
            let Some(packet) = queue.line.first() else {
                break;
            };
            let before = report.packets;
            deliver(&self.to, packet, report)?;
            if report.packets > before {
                times.late.saturating_record((now_ns - due_ns).max(1));
                let took_ns = self::now_ns() - now_ns;
                times.write.saturating_record(took_ns.max(1));
            }
            queue.line.pop();
        }
        Ok(())
    }

    /// Takes in the packets waiting at the device; returns their number.
    fn take(&mut self, report: &mut Report) -> io::Result<usize> {
        for taken in 0..BATCH {
            let Some(room) = self.queues.first_mut().line.room() else {
                report.full += 1;
                return Ok(taken);
            };
            let len = match read(&self.from, room) {
                Ok(len) => len,
                Err(Errno::AGAIN | Errno::INTR | Errno::IO) => return Ok(taken),
                Err(error) => return Err(error.into()),
            };
            let waits = self.queues.first().line.held().0;
            let is_full = self.limit.as_ref().is_some_and(|limit| {
                limit.follower.is_some() && waits + len > limit.queue_bytes.max(HEADER + 1500)
            });
            if is_full {
                report.dropped += 1;
                continue;
            }
            match self.queues.take(len, now_ns()) {
                Fate::Taken => {}
                Fate::Lost => report.lost += 1,
                Fate::NoRoom => report.full += 1,
            }
        }
        Ok(BATCH)
    }

    /// Waits until a packet comes or is due. A full line takes none in, so it only waits for the first.
    fn wait(&mut self) -> io::Result<()> {
        let is_full = self.queues.first_mut().line.room().is_none();
        let due_ns = self.queues.next().map(|(due_ns, _)| due_ns);
        let follower = self
            .limit
            .as_ref()
            .and_then(|limit| limit.follower.as_ref());
        let first_ns = match (due_ns, follower) {
            (Some(_), Some(follower)) => follower.due_ns(),
            (due_ns, _) => due_ns.unwrap_or(u64::MAX),
        };
        let left_ns = first_ns.saturating_sub(now_ns()).min(LOOK_NS);
        let left = Timespec {
            tv_sec: 0,
            tv_nsec: left_ns as _,
        };
        let mut descriptors = [PollFd::new(&self.from, PollFlags::IN)];
        let watched = if is_full {
            &mut []
        } else {
            &mut descriptors[..]
        };
        match poll(watched, Some(&left)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Gives a packet to a device; counts it.
fn deliver(to: &OwnedFd, packet: &[u8], report: &mut Report) -> io::Result<()> {
    match write(to, packet) {
        Ok(_) => {
            report.packets += 1;
            report.bytes += wire_bytes(packet) as u64;
        }
        Err(Errno::BADFD | Errno::BADF) => return Err(Errno::BADF.into()),
        // The device is down, or its stack refuses the packet.
        Err(_) => report.refused += 1,
    }
    Ok(())
}

/// Bytes of a packet without the device's header before it.
fn wire_bytes(packet: &[u8]) -> usize {
    packet.len().saturating_sub(HEADER).max(1)
}

/// Time of CLOCK_MONOTONIC.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A descriptor for each direction of a device.
///
/// # Errors
/// When there are no more descriptors.
pub fn twice(fd: &OwnedFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(fd.as_fd(), 3)?)
}
