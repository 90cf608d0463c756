//! The measures of each path of a policy's learner, from the records of its connections: least and smoothed
//! RTT, highest rate, loss, slow-start threshold, connections by algorithm, the last decisions. They do not
//! depend on the learner.
//!
//! There may be a million paths, so each has only a few bytes: 96, and 20 for each algorithm. The place of a
//! path is found by a keyed hash of 64 bits: two of a million paths share one with probability 3 · 10⁻⁸.

mod decisions;
mod path;
mod window;

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
};

use tcpilot_learner::{
    Level, NodeKey,
    bytes::{Reader, Writer},
    learner::{KEY_BYTES, key_bytes},
    lineage::Key,
};

use crate::figures::PathView;
use decisions::Decision;
use path::{OfArm, OfPath};
pub use path::{Sample, Windows};

/// Spare paths, unknown to the learner, that are kept until the next sweep, in addition to an eighth of all.
const SPARE: usize = 1024;

/// The book of a policy.
#[derive(Debug)]
pub struct Book {
    windows: Windows,
    secret: RandomState,
    places: HashMap<u64, u32>,
    paths: Vec<OfPath>,
    /// Those of a path stand together, in the learner's order.
    arms: Vec<OfArm>,
    arms_each: usize,
    free: Vec<u32>,
}

impl Book {
    /// An empty book for so many algorithms.
    pub fn new(arms: usize, windows: Windows) -> Book {
        Book {
            windows,
            secret: RandomState::new(),
            places: HashMap::new(),
            paths: Vec::new(),
            arms: Vec::new(),
            arms_each: arms,
            free: Vec::new(),
        }
    }

    fn hash(&self, key: &[u8]) -> u64 {
        self.secret.hash_one(key)
    }

    fn place(&self, key: &[u8]) -> Option<usize> {
        let place = self.places.get(&self.hash(key))?;
        Some(*place as usize)
    }

    fn arms_of(&self, place: usize) -> &[OfArm] {
        let from = place * self.arms_each;
        &self.arms[from..from + self.arms_each]
    }

    /// The path's place, a new one if it has none.
    fn place_for(&mut self, key: &[u8]) -> usize {
        let hash = self.hash(key);
        if let Some(place) = self.places.get(&hash) {
            return *place as usize;
        }
        let place = match self.free.pop() {
            Some(place) => place as usize,
            None => {
                self.paths.push(OfPath::default());
                let arms = self.arms.len() + self.arms_each;
                self.arms.resize(arms, OfArm::default());
                self.paths.len() - 1
            }
        };
        self.places.insert(hash, place as u32);
        place
    }

    /// Takes in a record; `is_update`: the learner could judge by it.
    pub fn take(&mut self, path: &NodeKey, sample: &Sample, is_update: bool) {
        let place = self.place_for(&key_bytes(path));
        let windows = self.windows;
        let passed = self.paths[place].pass(sample.at_s(), &windows);
        self.paths[place].take(sample, &windows);
        let from = place * self.arms_each;
        let arms = &mut self.arms[from..from + self.arms_each];
        arms.iter_mut().for_each(|arm| arm.pass(passed));
        if let Some(arm) = sample.arm().and_then(|arm| arms.get_mut(arm)) {
            arm.take(sample, is_update);
        }
    }

    /// Ended connections of a path, also before the last restart.
    pub fn connections(&self, path: &Key) -> u32 {
        let key = NodeKey {
            level: Level::Path,
            key: *path,
        };
        let place = self.place(&key_bytes(&key));
        place.map_or(0, |place| self.paths[place].connections())
    }

    /// Puts the measures of a path into its view; those of its algorithms are in the learner's order there.
    pub fn show(&self, path: &NodeKey, now_s: f64, view: &mut PathView) {
        let Some(place) = self.place(&key_bytes(path)) else {
            return;
        };
        let mut measured = self.paths[place].clone();
        let passed = measured.pass(now_s, &self.windows);
        measured.show(view);
        for (arm, view) in self.arms_of(place).iter().zip(&mut view.algorithms) {
            let mut arm = *arm;
            arm.pass(passed);
            arm.show(view);
        }
    }

    /// The last decisions of a path, the newest first.
    pub fn decisions(&self, path: &NodeKey, now_s: f64) -> Vec<Decision> {
        let place = self.place(&key_bytes(path));
        place.map_or_else(Vec::new, |place| self.paths[place].decisions(now_s))
    }

    /// Whether enough paths are unknown to the learner (it has `known`) to make a sweep worth it.
    pub fn needs_sweep(&self, known: usize) -> bool {
        self.places.len() > known + known / 8 + SPARE
    }

    /// Forgets all paths but these.
    pub fn sweep(&mut self, known: impl Iterator<Item = NodeKey>) {
        let mut kept = HashMap::with_capacity(self.places.len());
        for key in known {
            let hash = self.hash(&key_bytes(&key));
            if let Some(place) = self.places.remove(&hash) {
                kept.insert(hash, place);
            }
        }
        for place in std::mem::replace(&mut self.places, kept).into_values() {
            let at = place as usize;
            self.paths[at] = OfPath::default();
            let from = at * self.arms_each;
            self.arms[from..from + self.arms_each].fill(OfArm::default());
            self.free.push(place);
        }
    }

    /// The row to save of the path with this key ([`key_bytes`]), if there are measures.
    pub fn row(&self, key: &[u8]) -> Option<Vec<u8>> {
        let place = self.place(key)?;
        let mut row = Writer::new();
        row.u16(self.arms_each as u16);
        self.paths[place].write(&mut row);
        self.arms_of(place)
            .iter()
            .for_each(|arm| arm.write(&mut row));
        Some(row.finish())
    }

    /// Takes up a saved row; false if it is damaged, or of another version.
    pub fn put(&mut self, key: &[u8], row: &[u8]) -> bool {
        let is_path = key.len() == KEY_BYTES && key.first() == Some(&(Level::Path as u8));
        let Some((path, arms)) = self.read(row).filter(|_| is_path) else {
            return false;
        };
        let place = self.place_for(key);
        self.paths[place] = path;
        let from = place * self.arms_each;
        self.arms[from..from + self.arms_each].copy_from_slice(&arms);
        true
    }

    fn read(&self, row: &[u8]) -> Option<(OfPath, Vec<OfArm>)> {
        let mut row = Reader::new(row)?;
        if usize::from(row.u16()?) != self.arms_each {
            return None;
        }
        let path = OfPath::read(&mut row)?;
        let arms = (0..self.arms_each).map(|_| OfArm::read(&mut row));
        let arms = arms.collect::<Option<Vec<OfArm>>>()?;
        row.done()?;
        Some((path, arms))
    }
}

#[cfg(test)]
mod tests;
