//! The score of a run, from mean rewards, free of the world's noise.

use serde::Serialize;

use crate::scene::{Arrival, Scene};
use crate::world::World;

/// Connections per bin of the curves.
pub const BIN: usize = 5;

/// Connections of a path after which its intervals are held against the truth.
pub const INTERVALS_AFTER: [usize; 4] = [5, 10, 20, 50];

/// Connections of a path after which its learner should know the best arm.
const LATE: usize = 25;

/// One connection, as it is scored.
pub struct Met {
    path: usize,
    kind: usize,
    number: usize,
    of: usize,
    /// Connections of its path since the last change, if there was one.
    since_change: Option<f64>,
    hostile: bool,
    near_hostile: bool,
    /// Mean reward of the chosen arm, and of the best, against the default's.
    got: f64,
    best: f64,
}

/// Sums over connections.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Cell {
    pub connections: f64,
    pub got: f64,
    pub best: f64,
    /// Connections that had the best arm, or one within 0.01 nats of it.
    pub on_best: f64,
}

/// One run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Score {
    /// Per kind.
    pub kinds: Vec<Cell>,
    /// The same from the 26th connection of each path on.
    pub late: Vec<Cell>,
    /// The same, per path; empty for a path without so late a connection.
    #[serde(skip)]
    pub late_paths: Vec<Cell>,
    pub all: Cell,
    pub last_quarter: Cell,
    pub near_hostile: Cell,
    pub elsewhere: Cell,
    /// By the connection's number on its path, in bins of [`BIN`].
    pub curve: Vec<Cell>,
    /// The same, counted from the change.
    pub after_change: Vec<Cell>,
    /// Intervals after [`INTERVALS_AFTER`] connections that hold the truth, and their number.
    pub intervals: [[f64; 2]; 4],
    pub inside: String,
}

impl Met {
    pub fn new(scene: &Scene, arrival: &Arrival, arm: usize, means: Vec<f64>) -> Self {
        let path = &scene.paths[arrival.path];
        let world = scene.world;
        let last = world
            .change
            .iter()
            .filter(|c| c.at_s <= arrival.at_s)
            .map(|c| c.at_s);
        // A path's connections come at a mean interval: so many came since the change.
        let since_change = last
            .reduce(f64::max)
            .map(|at| (arrival.at_s - at) / world.arrivals.interval_s);
        Self {
            path: arrival.path,
            kind: path.face(arrival.number).kind,
            number: arrival.number,
            of: arrival.of,
            since_change,
            hostile: path.hostile,
            near_hostile: path.near_hostile,
            got: means[arm],
            best: means.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

impl Cell {
    fn add(&mut self, met: &Met) {
        self.connections += 1.0;
        self.got += met.got;
        self.best += met.best;
        self.on_best += f64::from(u8::from(met.best - met.got < 0.01));
    }

    /// Mean nats below the best arm.
    pub fn regret(&self) -> f64 {
        (self.best - self.got) / self.connections
    }

    /// Mean nats above the default.
    pub fn gain(&self) -> f64 {
        self.got / self.connections
    }

    /// Mean advantage of the best arm over the default, in nats.
    pub fn possible(&self) -> f64 {
        self.best / self.connections
    }

    /// Share of connections with the best arm.
    pub fn share_of_best(&self) -> f64 {
        self.on_best / self.connections
    }
}

fn bin(curve: &mut Vec<Cell>, index: usize, met: &Met) {
    if curve.len() <= index {
        curve.resize(index + 1, Cell::default());
    }
    curve[index].add(met);
}

impl Score {
    pub fn new(world: &World) -> Self {
        Self {
            kinds: vec![Cell::default(); world.kind.len()],
            late: vec![Cell::default(); world.kind.len()],
            ..Self::default()
        }
    }

    /// Counts the intervals of a path after so many connections.
    pub fn add_intervals(&mut self, connections: usize, covers: &[bool]) {
        let at = INTERVALS_AFTER.iter().position(|n| *n == connections);
        if let Some([covered, all]) = at.and_then(|at| self.intervals.get_mut(at)) {
            *covered += covers.iter().filter(|holds| **holds).count() as f64;
            *all += covers.len() as f64;
        }
    }

    /// Counts a connection; those of hostile peers do not count.
    pub fn add(&mut self, met: &Met) {
        if met.hostile {
            return;
        }
        self.all.add(met);
        self.kinds[met.kind].add(met);
        if met.number >= LATE {
            self.late[met.kind].add(met);
            bin(&mut self.late_paths, met.path, met);
        }
        let near = if met.near_hostile {
            &mut self.near_hostile
        } else {
            &mut self.elsewhere
        };
        near.add(met);
        if 4 * met.number >= 3 * met.of {
            self.last_quarter.add(met);
        }
        bin(&mut self.curve, met.number / BIN, met);
        if let Some(since) = met.since_change {
            bin(&mut self.after_change, since as usize / BIN, met);
        }
    }
}
