//! The learners that the simulator compares.

mod bayes;
mod kernel;

use std::collections::HashMap;

use anyhow::{Result, bail};
use tcpilot_learner::learner::KINDS;
use tcpilot_learner::{Lineage, Settings};

pub use bayes::{Bayes, Flat, lasts_s};
pub use kernel::EpsilonGreedy;

use crate::scene::Transfer;

/// The name of thompson here, since worlds compare it with one without a tree.
const TREE: &str = "tree";

const THOMPSON: &str = "thompson";

/// The path of a connection.
pub struct Who {
    /// Number of the path, and of its group.
    pub path: usize,
    pub group: usize,
    pub lineage: Lineage,
    /// The connection's number on its path.
    pub number: usize,
}

/// A learner among the connections of a world.
pub trait Contender {
    /// The arm for a connection that opens now; `random` is uniform.
    fn choose(&mut self, who: &Who, now_s: f64, random: u32) -> usize;
    /// Takes in a connection that ended at `at_s`.
    fn end(&mut self, who: &Who, arm: usize, transfer: &Transfer, at_s: f64);
    /// Which of its 95 % intervals for this path hold the truth, one for each arm but the default; empty if it
    /// has none. `truth` has the mean rewards against the default's.
    fn covers(&mut self, _who: &Who, _now_s: f64, _truth: &[f64]) -> Vec<bool> {
        Vec::new()
    }
    /// One line about its state at the end of a run.
    fn inside(&self) -> String {
        String::new()
    }
}

/// Always the same arm.
pub struct Static(pub usize);

impl Contender for Static {
    fn choose(&mut self, _: &Who, _: f64, _: u32) -> usize {
        self.0
    }

    fn end(&mut self, _: &Who, _: usize, _: &Transfer, _: f64) {}
}

/// A learner of its own for each path: a host that talks to one peer only.
pub struct Lone {
    name: String,
    arms: Vec<String>,
    settings: Settings,
    seed: u64,
    each: HashMap<usize, Box<dyn Contender>>,
}

impl Lone {
    /// Fails if there is no learner of this name.
    pub fn new(name: &str, arms: &[String], settings: &Settings, seed: u64) -> Result<Self> {
        make(name, arms, settings, seed)?;
        let (name, arms) = (name.to_owned(), arms.to_vec());
        Ok(Self {
            name,
            arms,
            settings: settings.clone(),
            seed,
            each: HashMap::new(),
        })
    }
}

impl Contender for Lone {
    fn choose(&mut self, who: &Who, now_s: f64, random: u32) -> usize {
        if !self.each.contains_key(&who.path) {
            if let Ok(learner) = make(&self.name, &self.arms, &self.settings, self.seed) {
                self.each.insert(who.path, learner);
            }
        }
        self.each
            .get_mut(&who.path)
            .map_or(0, |learner| learner.choose(who, now_s, random))
    }

    fn end(&mut self, who: &Who, arm: usize, transfer: &Transfer, at_s: f64) {
        if let Some(learner) = self.each.get_mut(&who.path) {
            learner.end(who, arm, transfer, at_s);
        }
    }

    fn covers(&mut self, who: &Who, now_s: f64, truth: &[f64]) -> Vec<bool> {
        self.each
            .get_mut(&who.path)
            .map_or_else(Vec::new, |learner| learner.covers(who, now_s, truth))
    }
}

/// The names of all learners for these arms.
pub fn names(arms: &[String]) -> Vec<String> {
    let fixed = ["epsilon", "epsilon24", "flat", TREE].into_iter();
    let others = KINDS
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| *name != THOMPSON);
    arms.iter()
        .cloned()
        .chain(fixed.chain(others).map(String::from))
        .collect()
}

/// The learner of this name.
pub fn make(
    name: &str,
    arms: &[String],
    settings: &Settings,
    seed: u64,
) -> Result<Box<dyn Contender>> {
    if let Some(arm) = arms.iter().position(|arm| arm == name) {
        return Ok(Box::new(Static(arm)));
    }
    let arms = arms.len();
    Ok(match name {
        "epsilon" => Box::new(EpsilonGreedy::new(arms, false)),
        "epsilon24" => Box::new(EpsilonGreedy::new(arms, true)),
        "flat" => Box::new(Flat::new(arms, settings, seed)),
        TREE => Box::new(Bayes::new(THOMPSON, arms, settings, seed)?),
        _ if KINDS.iter().any(|(known, _)| *known == name) => {
            Box::new(Bayes::new(name, arms, settings, seed)?)
        }
        _ => bail!("no learner {name}; there are {}", names(&[]).join(", ")),
    })
}
