//! The guard of the tunings: does a path lose more, or wait longer, with a tuning than without it?
//!
//! Each tuning is held out from some connections at random. The guard compares two shares with and without
//! the tuning: the lost packets, and the late connections. A late connection ended with more than twice the
//! path's least RTT.
//!
//! It looks every few seconds for as long as the daemon runs, so an ordinary test would be wrong sooner or
//! later. Its bounds hold at all looks together (`tcpilot_proof::Sequence`). A path changes, though, and a
//! good year would hide harm beginning today. So the guard's counts restart after [`WINDOW`] connections, and
//! each window has a part of the chance of being wrong: 1/2, 1/6, 1/12 and so on, with the sum 1.

use std::collections::{HashMap, HashSet};

use tcpilot_abi::tp_cohort;
use tcpilot_proof::Sequence;

/// The least connections on each side for a judgement: with fewer, one bad moment would decide.
const LEAST_CONNECTIONS: u64 = 20;
/// The chance that the guard ever calls a tuning without effect harmful, by one of the two shares. Bounds
/// have two sides, but only one side is harm.
const WRONG: f64 = 0.001;
/// Number of connections with the narrowest bounds, relative to an ordinary test's.
const BEST_AT: f64 = 500.0;
/// Connections, with and without the tuning together, per window; then the counts restart.
const WINDOW: u64 = 4096;
/// Smaller harm is ignored: loss up to a tenth higher, and a share of late connections up to 0.05 higher.
const LOSS_FACTOR: f64 = 1.1;
const LATE_MARGIN: f64 = 0.05;

/// The pilot halves a path's counts when one side has so many connections (`bpf/pilot/tune/end.h`).
const HALVED_AT: u32 = 1024;
/// After so many new connections, halved counts consist almost wholly of new ones.
const RENEWED: u64 = 2 * HALVED_AT as u64;

/// The guard's verdict on one tuning of one path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TuningVerdict {
    /// Too few connections on one side.
    TooFew,
    /// The tuning does no harm.
    Keep,
    /// More loss: the shares with and without.
    Loss {
        /// With the tuning, 0 to 1.
        with: f64,
        /// Without it.
        without: f64,
    },
    /// More late connections: the shares with and without.
    Late {
        /// With the tuning, 0 to 1.
        with: f64,
        /// Without it.
        without: f64,
    },
}

/// The pilot's counts of a path, as they are at a look.
#[derive(Clone, Copy, Debug, Default)]
pub struct CohortCounts {
    /// Connections ever opened on the path.
    pub opened: u64,
    /// Connections with the tuning.
    pub with: tp_cohort,
    /// Connections without the tuning, held out from it.
    pub without: tp_cohort,
}

/// A tuning of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TunedPath {
    /// The path's place in the table.
    pub slot: u32,
    /// The birth of the path, since another one may get the place.
    pub born_ns: u64,
    /// The tuning's number.
    pub tune: u32,
}

/// Compares connections with a tuning and those held out from it, look by look.
#[derive(Debug, Default)]
pub struct Guard(HashMap<TunedPath, Watched>);

/// The counts of a window.
#[derive(Clone, Copy, Debug, Default)]
struct Cohort {
    connections: u64,
    late: u64,
    sent_packets: u64,
    lost_packets: u64,
}

/// A tuning under comparison.
#[derive(Debug, Default)]
struct Watched {
    last: Option<CohortCounts>,
    /// `opened` when counts were last taken.
    taken: u64,
    with: Cohort,
    without: Cohort,
    /// Windows before this one.
    windows: u32,
}

impl Guard {
    /// Takes in the counts of a tuning, and judges it.
    pub fn look(&mut self, place: TunedPath, seen: CohortCounts) -> TuningVerdict {
        // Most tunings of most paths never have both sides.
        if seen.with.connections == 0 || seen.without.connections == 0 {
            return TuningVerdict::TooFew;
        }
        let watched = self.0.entry(place).or_default();
        watched.take(seen);
        watched.judge()
    }

    /// Restarts a tuning's counts after it was lowered or switched off: former counts do not predict the next
    /// try.
    pub fn begin_anew(&mut self, place: TunedPath) {
        if let Some(watched) = self.0.get_mut(&place) {
            watched.next_window();
        }
    }

    /// Forgets paths evicted from the table: their places and births are not among these.
    pub fn keep_known(&mut self, known: &HashSet<(u32, u64)>) {
        self.0
            .retain(|place, _| known.contains(&(place.slot, place.born_ns)));
    }
}

impl CohortCounts {
    /// Counts since `before`; `None` if the pilot may have halved the counts meanwhile. A halved side has fewer
    /// connections than before, unless at least half of [`HALVED_AT`] were opened since.
    fn since(&self, before: &CohortCounts) -> Option<[Cohort; 2]> {
        let opened = self.opened.saturating_sub(before.opened);
        if opened >= u64::from(HALVED_AT / 2) {
            return None;
        }
        let with = Cohort::between(&before.with, &self.with)?;
        let without = Cohort::between(&before.without, &self.without)?;
        Some([with, without])
    }
}

impl From<&tp_cohort> for Cohort {
    fn from(counted: &tp_cohort) -> Cohort {
        Cohort {
            connections: counted.connections.into(),
            late: counted.late.into(),
            sent_packets: counted.sent_packets.into(),
            lost_packets: counted.lost_packets.into(),
        }
    }
}

impl Cohort {
    /// The difference of two counts; `None` if one of them fell.
    fn between(before: &tp_cohort, now: &tp_cohort) -> Option<Cohort> {
        let grown = |before: u32, now: u32| now.checked_sub(before).map(u64::from);
        Some(Cohort {
            connections: grown(before.connections, now.connections)?,
            late: grown(before.late, now.late)?,
            sent_packets: grown(before.sent_packets, now.sent_packets)?,
            lost_packets: grown(before.lost_packets, now.lost_packets)?,
        })
    }

    fn add(&mut self, more: &Cohort) {
        self.connections += more.connections;
        self.late += more.late;
        self.sent_packets += more.sent_packets;
        self.lost_packets += more.lost_packets;
    }
}

impl Watched {
    fn take(&mut self, seen: CohortCounts) {
        let more = self.last.and_then(|last| seen.since(&last));
        let renewed = self.last.is_none() || seen.opened.saturating_sub(self.taken) >= RENEWED;
        let all = || [&seen.with, &seen.without].map(Cohort::from);
        if let Some([with, without]) = more.or_else(|| renewed.then(all)) {
            if self.with.connections + self.without.connections >= WINDOW {
                self.next_window();
            }
            self.with.add(&with);
            self.without.add(&without);
            self.taken = seen.opened;
        }
        self.last = Some(seen);
    }

    fn next_window(&mut self) {
        self.windows = self.windows.saturating_add(1);
        (self.with, self.without) = Default::default();
    }

    fn judge(&self) -> TuningVerdict {
        let (with, without) = (&self.with, &self.without);
        if with.connections.min(without.connections) < LEAST_CONNECTIONS {
            return TuningVerdict::TooFew;
        }
        let window = f64::from(self.windows) + 1.0;
        let bounds = Sequence::new(2.0 * WRONG / (window * (window + 1.0)), BEST_AT);
        // Packets of a connection are lost together, so only connections count as independent.
        let loss = Shares::of(
            (with.lost_packets, with.sent_packets, with.connections),
            (
                without.lost_packets,
                without.sent_packets,
                without.connections,
            ),
        );
        if loss.with > LOSS_FACTOR * loss.without && loss.differ(&bounds) {
            return TuningVerdict::Loss {
                with: loss.with,
                without: loss.without,
            };
        }
        let late = Shares::of(
            (with.late, with.connections, with.connections),
            (without.late, without.connections, without.connections),
        );
        if late.with > late.without + LATE_MARGIN && late.differ(&bounds) {
            return TuningVerdict::Late {
                with: late.with,
                without: late.without,
            };
        }
        TuningVerdict::Keep
    }
}

/// A share with the tuning and one without it, each with its number of independent observations.
struct Shares {
    with: f64,
    without: f64,
    observations: (u64, u64),
}

impl Shares {
    /// The shares of two triples (part, whole, observations).
    fn of(with: (u64, u64, u64), without: (u64, u64, u64)) -> Shares {
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        Shares {
            with: share(with.0, with.1),
            without: share(without.0, without.1),
            observations: (with.2, without.2),
        }
    }

    /// Whether the share with the tuning is higher, valid at every look. Each connection is an estimate of
    /// the difference: its share divided by the chance of its side, negative without the tuning (the inverse
    /// probability weights of Waudby-Smith et al., section 4). The variance is the pooled share's, with one
    /// observation of each kind added to avoid a variance of 0 (Agresti and Caffo, *The American
    /// Statistician* 54, 2000).
    fn differ(&self, bounds: &Sequence) -> bool {
        let (n, m) = (self.observations.0 as f64, self.observations.1 as f64);
        let all = n + m;
        let pooled = (self.with * n + self.without * m + 1.0) / (all + 2.0);
        let sd = (pooled * (1.0 - pooled) * (all / n + all / m)).sqrt();
        let samples = self.observations.0 + self.observations.1;
        self.with - self.without > bounds.half_width(samples) * sd
    }
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
