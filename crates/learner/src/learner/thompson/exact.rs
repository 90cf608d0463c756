//! A learner of so many advantages, a constant: [`super::Thompson`] has one of them.

use std::collections::HashSet;

use super::{Learned, Observation, Outcome, Unusable, publish, view};
use crate::choice::{Plan, Points, plan};
use crate::empirical::{Noise, learn_widths};
use crate::gaussian::{Belief, Information};
use crate::linalg::NotPositive;
use crate::lineage::{Key, Level, NodeKey};
use crate::path::{Evidence, Expected, Widths};
use crate::regression::Regression;
use crate::reward::Reward;
use crate::settings::Settings;
use crate::tree::{Now, PathId, Tree};

/// After so many samples a path's next one counts half for the regression.
const PATH_SAMPLES: f64 = 4.0;

/// A reward is cut off for the regression at so many standard deviations of paths and samples.
const LEVEL_SD: f64 = 2.0;

/// A sample after clipping.
struct Sample {
    residual: f64,
    weight: f64,
    /// In standard deviations from the expectation.
    deviation: f64,
}

/// A learner of `C` advantages, so of one arm more.
#[derive(Clone, Debug)]
pub(super) struct Exact<const C: usize> {
    pub settings: Settings,
    pub tree: Tree<C>,
    pub regression: Regression,
    pub noise: Noise,
    points: Points,
    pub seen: u64,
    pub widths_at: u64,
    pub widths_at_s: f64,
    pub rebuilt: u64,
    pub queue: publish::Queue,
    /// Paths and nodes forgotten since the learner was last saved.
    pub forgotten: Vec<NodeKey>,
    pub alarms: view::Log,
}

impl<const C: usize> Exact<C> {
    pub fn new(settings: Settings) -> Self {
        Self {
            tree: Tree::new(&settings),
            regression: Regression::default(),
            noise: Noise::new(&settings.model),
            points: Points::new(),
            seen: 0,
            widths_at: settings.model.widths_after,
            widths_at_s: f64::NEG_INFINITY,
            rebuilt: 0,
            queue: publish::Queue::default(),
            forgotten: Vec::new(),
            alarms: view::Log::default(),
            settings,
        }
    }

    #[inline]
    pub fn plan_of_path(&mut self, id: PathId, now_s: f64) -> Plan {
        let (belief, now) = self.belief_and_now(id, now_s);
        self.plan_with(id, &belief, now.as_ref())
    }

    #[inline]
    pub(super) fn plan_with(&self, id: PathId, belief: &Belief<C>, now: Option<&Now<C>>) -> Plan {
        self.plan_if(id, belief, now, self.tree.queued_share(id))
    }

    /// The plan with this share of bouts with a queue.
    pub(super) fn plan_if(
        &self,
        id: PathId,
        belief: &Belief<C>,
        now: Option<&Now<C>>,
        queued: f64,
    ) -> Plan {
        let ledger = &self.tree.group(id).ledger;
        let own = || {
            let own = now.and_then(|now| self.tree.sceptic(now).ok());
            own.unwrap_or_else(|| self.tree.base())
        };
        let choice = self.settings.choice.with_queued_share(queued);
        plan(belief, own, ledger, &self.points, &choice)
    }

    pub(super) fn plan_below(&self, node: u32, belief: &Belief<C>) -> Plan {
        self.plan_below_if(node, belief, self.tree.queued_share_below(node))
    }

    /// The same with this share of bouts with a queue.
    pub(super) fn plan_below_if(&self, node: u32, belief: &Belief<C>, queued: f64) -> Plan {
        let ledger = self.tree.ledger_of(node);
        let own = || self.tree.alone().unwrap_or(*belief);
        let choice = self.settings.choice.with_queued_share(queued);
        plan(belief, own, &ledger, &self.points, &choice)
    }

    pub fn plan_of(&mut self, key: &NodeKey, now_s: f64) -> Option<Plan> {
        if key.level == Level::Path {
            let id = self.tree.find(&key.key)?;
            return Some(self.plan_of_path(id, now_s));
        }
        let node = self.tree.find_node(key)?;
        Some(self.plan_of_node(node, now_s))
    }

    pub fn plan_of_node(&mut self, node: u32, now_s: f64) -> Plan {
        let found = self.tree.belief_below(node, now_s).or_else(|_| {
            self.rebuild();
            self.tree.belief_below(node, now_s)
        });
        match found {
            Ok(belief) => self.plan_below(node, &belief),
            Err(_) => Plan::DEFAULT,
        }
    }

    /// The belief about a path, and its own evidence. Sums with lost digits are recomputed;
    /// if even this does not help, the belief is the prior.
    #[inline]
    pub fn belief_and_now(&mut self, id: PathId, now_s: f64) -> (Belief<C>, Option<Now<C>>) {
        for _ in 0..2 {
            let found = self.tree.now_and_prior(id, now_s);
            let found = found.and_then(|(now, prior)| Ok((now.belief(&prior)?, now)));
            if let Ok((belief, now)) = found {
                return (belief, Some(now));
            }
            self.rebuild();
        }
        (self.tree.base(), None)
    }

    /// As [`Thompson::beliefs`], for a path's last state and its prior.
    fn now(&mut self, id: PathId, now_s: f64) -> Option<(Now<C>, Information<C>)> {
        if let Ok(found) = self.tree.now_and_prior(id, now_s) {
            return Some(found);
        }
        self.rebuild();
        self.tree.now_and_prior(id, now_s).ok()
    }

    pub fn rebuild(&mut self) {
        self.rebuilt += 1;
        // Samples are finite by `check`, so recomputed sums are too.
        let _ = self.tree.rebuild();
    }

    fn keep(&mut self, result: Result<(), NotPositive>) {
        if result.is_err() {
            self.rebuild();
        }
    }

    fn check(&self, seen: &Observation) -> Result<(), Unusable> {
        let numbers = match seen.outcome {
            Outcome::Reward(reward) => [reward.nats, reward.weight],
            Outcome::TimedOut => [0.0, 0.0],
        };
        let features = [
            seen.features.handshake_rtt_us,
            seen.features.bytes,
            seen.at_s,
            seen.since_last_s.unwrap_or(0.0),
        ];
        if seen.arm >= Tree::<C>::ARMS {
            Err(Unusable::Arm(seen.arm))
        } else if numbers.iter().chain(&features).all(|x| x.is_finite()) {
            Ok(())
        } else {
            Err(Unusable::NotFinite)
        }
    }

    pub fn count_connections(&mut self, path: &Key, connections: u32) {
        if let Some(id) = self.tree.find(path) {
            let path = &mut self.tree.paths[id.0 as usize];
            path.connections = path.connections.saturating_add(connections);
            path.unsaved = true; // whoever keeps more about a path saves it together with its row
        }
    }

    pub fn take_in(&mut self, seen: &Observation, steered: bool) -> Result<Learned, Unusable> {
        self.check(seen)?;
        self.make_room(seen);
        let id = self.tree.path(&seen.lineage, seen.at_s);
        if seen.since_last_s.is_none() {
            self.tree.note_rtt(id, seen.features.handshake_rtt_us);
        }
        let inherited = self.tree.inherit(id, seen.at_s);
        self.keep(inherited);
        self.turn(id, seen);
        let now = self.now(id, seen.at_s);
        if steered && seen.since_last_s.is_none() {
            self.book(id, now.as_ref());
        }
        // Other arms cause their losses in other ways.
        if seen.arm == 0 {
            self.tree.note_bouts(id, seen.bouts);
        }
        let expected = self.expected(seen, now.as_ref());
        let known = now.map_or(0.0, |(now, _)| now.evidence.weight);
        let (residual, weight) = match seen.outcome {
            Outcome::Reward(reward) => {
                let residual = self.residual(id, seen, reward, known);
                let weight = reward.weight * self.fresh(seen);
                let explained = reward.nats - residual;
                self.tree.note_typical(id, explained, weight, seen.at_s);
                (residual, reward.weight)
            }
            Outcome::TimedOut => (
                self.timed_out(id, &expected),
                self.settings.reward.weight_min,
            ),
        };
        let timed_out = seen.outcome == Outcome::TimedOut;
        if timed_out || seen.since_last_s.is_none() {
            self.tree.group_mut(id).time_outs.count(timed_out);
        }
        let sample = self.clip(&expected, residual, weight * self.fresh(seen));
        let learned = self.detect(id, seen, &expected, &sample, known);
        let Sample {
            residual,
            weight,
            deviation,
        } = sample;
        self.tree
            .note_cut(id, deviation.abs() >= self.settings.model.clip_sd);
        self.tree.agree(id);
        let updated = self.tree.update_both(id, seen.at_s, |e, share| {
            e.add(seen.arm, residual, share * weight);
        });
        self.keep(updated);
        self.learn_widths(seen.at_s);
        self.queue_path(id);
        Ok(learned)
    }

    /// Goes on with the evidence of the path's other state if its link began or ceased to drop packets at random.
    fn turn(&mut self, id: PathId, seen: &Observation) {
        let is_first = seen.since_last_s.is_none();
        let segments = seen.segments as f64;
        let turned = self
            .tree
            .note_loss(id, seen.arm, seen.bouts, segments, is_first, seen.at_s);
        match turned {
            Ok(true) => self.tree.doubt_bouts(id, self.settings.change.keep),
            Ok(false) => {}
            Err(_) => self.rebuild(),
        }
    }

    /// The new part of a sample, 0 to 1. A connection's samples are an autoregressive series: their
    /// correlation decays with the time between them. With a correlation of r from one to the next, n of them
    /// are worth `1 + (n − 1)(1 − r)/(1 + r)` independent ones (Bayley and Hammersley 1946). The first sample with
    /// another arm is as new as the connection's first one.
    fn fresh(&self, seen: &Observation) -> f64 {
        let elapsed_s = seen.since_last_s.filter(|_| !seen.is_switched);
        let new = elapsed_s.map_or(1.0, |elapsed_s| {
            let memory_s = self.settings.reward.interval_memory_s;
            let r = (-elapsed_s.max(0.0) / memory_s).exp();
            ((1.0 - r) / (1.0 + r)).max(1e-3)
        });
        new / f64::from(seen.beside.max(1))
    }

    /// Forgets the paths with the least samples if there is no room for a new one.
    fn make_room(&mut self, seen: &Observation) {
        let memory = &self.settings.memory;
        if self.tree.len() < memory.paths_max.max(1) || self.tree.find(&seen.lineage.path).is_some()
        {
            return;
        }
        // Many at once, since lists and index are rebuilt each time.
        let count = memory.paths_max / 16 + 1;
        let forgotten = self.tree.forget_least(count, self.nodes_max(), seen.at_s);
        self.note_or_rebuild(forgotten);
    }

    pub(super) fn forget_old(&mut self, now_s: f64) {
        let forgotten = self.tree.forget_old(self.nodes_max(), now_s);
        self.note_or_rebuild(forgotten);
    }

    /// Returns the number of paths.
    pub(super) fn forget_domains(&mut self, domains: &HashSet<u32>) -> usize {
        let before = self.tree.len();
        let forgotten = self.tree.forget_domains(domains, self.nodes_max());
        self.note_or_rebuild(forgotten);
        before - self.tree.len()
    }

    pub(super) fn nodes_max(&self) -> usize {
        self.settings.memory.paths_max / 2 + 4
    }

    pub(super) fn note_or_rebuild(&mut self, forgotten: Result<Vec<NodeKey>, NotPositive>) {
        match forgotten {
            Ok(keys) => self.note_forgotten(keys),
            Err(_) => self.rebuild(),
        }
    }

    fn book(&mut self, id: PathId, now: Option<&(Now<C>, Information<C>)>) {
        let Some((now, prior)) = now else { return };
        let Ok(belief) = now.belief(prior) else {
            return;
        };
        let plan = self.plan_with(id, &belief, Some(now));
        let choice = &self.settings.choice;
        self.tree
            .group_mut(id)
            .ledger
            .book(plan.allowed, plan.loss, plan.win, choice);
    }

    /// The reward less the part explained by size and RTT.
    fn residual(&mut self, id: PathId, seen: &Observation, reward: Reward, known: f64) -> f64 {
        let explained = |regression: &Regression| reward.nats - regression.expected(&seen.features);
        let residual = explained(&self.regression);
        let settings = &self.settings.regression;
        let weight = reward.weight * self.tree.calm(id) * self.fresh(seen);
        // A path's samples share its baseline: the more there are, the less each says about all paths.
        let weight = weight / (1.0 + known / PATH_SAMPLES);
        let (arm, x) = (seen.arm, &seen.features);
        let Widths {
            noise,
            baseline,
            swing,
            ..
        } = self.tree.widths();
        let most = LEVEL_SD * (noise + baseline + swing).sqrt();
        let nats = self.regression.clipped(x, arm, reward.nats, most);
        self.regression
            .observe(x, arm, nats, weight, seen.at_s, settings);
        // The very first sample sets the scale, so it does not deviate from it.
        if self.seen == 0 {
            explained(&self.regression)
        } else {
            residual
        }
    }

    /// The expectation for a sample of the path's arm.
    fn expected(&self, seen: &Observation, now: Option<&(Now<C>, Information<C>)>) -> Expected {
        let widths = self.tree.widths();
        let expected = |(now, prior): &(Now<C>, Information<C>)| {
            let evidence = &now.evidence;
            evidence.expected(seen.arm, prior, &widths).ok()
        };
        now.and_then(expected).unwrap_or(Expected {
            mean: 0.0,
            variance: 1.0,
        })
    }

    /// A time-out counts as the usual reward of the path's arm, less the cost of a time-out.
    fn timed_out(&self, id: PathId, expected: &Expected) -> f64 {
        expected.mean - self.tree.group(id).time_outs.cost(&self.settings.reward)
    }

    /// Cuts extreme residuals off: rates have heavy tails.
    fn clip(&self, expected: &Expected, residual: f64, weight: f64) -> Sample {
        let sd = (self.tree.widths().noise / weight + expected.variance).sqrt();
        let most = self.settings.model.clip_sd;
        let deviation = ((residual - expected.mean) / sd).clamp(-most, most);
        Sample {
            residual: expected.mean + deviation * sd,
            weight,
            deviation,
        }
    }

    /// Learns the noise from the deviation and looks for a change.
    fn detect(
        &mut self,
        id: PathId,
        seen: &Observation,
        expected: &Expected,
        sample: &Sample,
        known: f64,
    ) -> Learned {
        let mut learned = Learned::default();
        if known < 1.0 {
            return learned;
        }
        // The weight of an interval, or of one of several connections, shows how new it is, and not how noisy.
        if seen.since_last_s.is_none() && seen.beside <= 1 {
            self.noise.observe(
                sample.residual - expected.mean,
                sample.weight,
                expected.variance,
                self.tree.calm(id),
            );
        }
        let settings = self.settings.change.clone();
        if known <= settings.weight_min {
            return learned;
        }
        learned.path_changed =
            self.tree
                .sums_mut(id)
                .observe(sample.deviation, settings.drift, settings.alarm);
        if learned.path_changed {
            let relative = self.tree.relative(id).map(|(other, _)| other);
            for id in std::iter::once(id).chain(relative) {
                self.tree.doubt_bouts(id, settings.keep);
                let memory = self.tree.doubt_memory(id, settings.keep);
                self.keep(memory);
            }
            let keep = |e: &mut Evidence<C>, share: f64| e.scale(settings.keep.powf(share));
            let doubted = self.tree.update_both(id, seen.at_s, keep);
            self.keep(doubted);
            match self.tree.note_change(id, seen.at_s, &settings) {
                Ok(levels) => learned.levels_changed = levels,
                Err(_) => self.rebuild(),
            }
        }
        match self
            .tree
            .pool(id, sample.deviation * self.tree.calm(id), &settings)
        {
            Ok(levels) => learned.levels_changed = learned.levels_changed.max(levels),
            Err(_) => self.rebuild(),
        }
        self.note_alarm(id, &learned, seen);
        learned
    }

    fn learn_widths(&mut self, now_s: f64) {
        self.seen += 1;
        let model = &self.settings.model;
        let hourly =
            now_s - self.widths_at_s >= model.widths_every_s && self.widths_at_s.is_finite();
        if self.seen < self.widths_at && !hourly {
            return;
        }
        let learned = learn_widths(&mut self.tree, &self.noise, model, now_s);
        self.widths_at = self.seen.saturating_mul(2);
        self.widths_at_s = now_s;
        self.keep(learned);
    }
}
