//! Whether the fleet helps: some sites are held back from it, and connections to other sites are compared with those there.
//!
//! A site is a /16 or a /32, because what others say of a group moves up to its site. Only groups that others say something
//! of count, on both sides. The first connections of a path are compared apart from later ones: a host that has met a path
//! needs the others less. All compared connections are steered, so this has no guard, and costs what the fleet is worth.
//!
//! Sites are held back like prefixes are held out ([`Schedule::by_prefix`]): so many percent of them, for as long, by the
//! same secret. Hosts with one secret hold the same sites back.

use tcpilot_abi::{TP_TRIAL_HELD_OUT, tp_record};
use tcpilot_config::{Effect as Keys, HoldOut};
use tcpilot_core::choice_dist::AssignmentSecrets;
use tcpilot_learner::{Lineage, lineage::Key};
use tcpilot_proof::{Pace, Schedule, Trial, trial::Terms};

use super::{Past, Saved, design::Activity, outcome::outcome, saved::rows, view::measures};
use crate::{
    daemon::learning::{clock::Clock, translate::lineage},
    figures::{FleetComparison, FleetReport},
    state::Knowledge,
};

/// Stands for the name of a policy in the table of the learner's rows. An older version leaves these rows alone.
pub const POLICY: &str = "/fleet";

/// So many connections of a path are its first ones.
pub const FIRST: u32 = 10;

/// The comparisons, by the names of their rows.
const TRIALS: [&str; 2] = ["first", "later"];

/// The comparison of sites with the fleet and without it, see the module's comment.
pub struct FleetEffect {
    percent: u32,
    schedule: Schedule,
    secrets: AssignmentSecrets,
    terms: Terms,
    clock: Clock,
    past: Past,
    /// Of the first connections of paths, and of later ones.
    trials: [Trial; 2],
    active: [Activity; 2],
    started_s: u64,
    unsaved_all: bool,
}

/// A site's number in the schedule: without its class, and equal on all hosts.
fn number_of(site: &Key) -> u64 {
    let half = |shift: u32| (site.prefix >> shift) as u64;
    tcpilot_random::first(half(64) ^ tcpilot_random::first(half(0)))
}

impl FleetEffect {
    /// Goes on from the saved state.
    pub fn open(keys: &Keys, mut saved: Saved, clock: Clock) -> FleetEffect {
        let schedule = Schedule {
            block_s: u64::from(keys.block_s).max(1),
            settle_s: keys.settle_s.into(),
            period_s: keys.rotation_s.into(),
            ..Schedule::by_prefix(
                f64::from(keys.hold_out_percent) / 100.0,
                [saved.secrets[4], saved.secrets[6]],
            )
        };
        let now_s = clock.now_s().max(0.0) as u64;
        let number = schedule.number(now_s);
        let mut effect = FleetEffect {
            percent: keys.hold_out_percent,
            secrets: saved.secrets,
            terms: Terms {
                least: keys.connections_min.into(),
                limits: None,
                ..Terms::default()
            },
            trials: TRIALS.map(|name| saved.trial(name, number)),
            unsaved_all: saved.is_new,
            past: saved.past,
            schedule,
            clock,
            active: Default::default(),
            started_s: now_s,
        };
        let design = [keys.rotation_s, keys.hold_out_percent].map(u64::from);
        if effect.past.lengths_s != design {
            // Other sites are held back from now on.
            effect.trials.iter_mut().for_each(Trial::break_off);
            effect.past.lengths_s = design;
        }
        effect.past.since_s = match effect.past.since_s {
            0 => now_s,
            since_s => since_s.min(now_s),
        };
        effect
    }

    fn now_s(&self) -> u64 {
        self.clock.now_s().max(0.0) as u64
    }

    /// A number that changes with the held-back sites.
    pub fn period(&self) -> u64 {
        self.schedule.number(self.now_s())
    }

    /// Whether a group, or another key below its site, is held back now.
    pub fn is_held_back(&self, key: &Key) -> bool {
        let site = number_of(&Lineage::of_key(key).site);
        !self.schedule.steers(site, self.now_s())
    }

    /// Takes the record of a connection whose group others say something of.
    pub fn take(&mut self, record: &tp_record, is_first: bool, ticks_per_s: u32) {
        if u32::from(record.trial) & TP_TRIAL_HELD_OUT != 0 {
            return; // it is not steered, so it hears nothing anywhere
        }
        let Some(seen) = outcome(record, ticks_per_s) else {
            return;
        };
        let started_s = self.clock.seconds(record.opened_ns).max(0.0) as u64;
        let site = number_of(&lineage(record).site);
        let of = usize::from(!is_first);
        if self.trials[of].take(site, started_s, &seen, &self.schedule, &self.terms) {
            let now_s = self.now_s();
            self.active[of].note(site, now_s);
        }
    }

    /// Counts what is over. Call it often.
    pub fn turn(&mut self) {
        let now_s = self.now_s();
        for trial in &mut self.trials {
            trial.close_until(now_s, &self.schedule, &self.terms);
        }
    }

    /// Forgets all results.
    pub fn reset(&mut self) {
        self.past.since_s = self.now_s();
        self.trials = Default::default();
        self.unsaved_all = true;
    }

    /// The rows to save: all, or those changed since the last call.
    pub fn unsaved(&mut self, all: bool) -> Knowledge {
        let all = all || std::mem::take(&mut self.unsaved_all);
        let trials = TRIALS.into_iter().zip(&mut self.trials);
        rows(POLICY, (&self.secrets, &self.past), trials, None, all)
    }

    /// The report.
    pub fn report(&self) -> FleetReport {
        let now_s = self.now_s();
        let [first, later] = [0, 1].map(|of| self.comparison(of, now_s));
        FleetReport {
            unknown: None,
            since_unix_s: self.past.since_s,
            now_unix_s: now_s,
            held_back_percent: self.percent,
            rotation_s: self.schedule.period_s,
            first,
            later,
        }
    }

    fn comparison(&self, of: usize, now_s: u64) -> FleetComparison {
        let effects = &self.trials[of].host.effects;
        let rates = self.active[of].per_s(HoldOut::Prefix, now_s.saturating_sub(self.started_s));
        let elapsed_s = now_s.saturating_sub(self.past.since_s);
        let (least, pairs) = (self.terms.least, effects.goodput.count);
        let pace = Pace::of(&self.schedule, least, rates, pairs, elapsed_s);
        FleetComparison {
            pairs,
            connections: effects.connections,
            measures: measures(effects, pace),
        }
    }
}

#[cfg(test)]
#[path = "fleet_tests.rs"]
mod tests;
