//! This crate's learners, which choose by choice distributions; and thompson with a tree for each path ("flat":
//! Thompson sampling that carries nothing over to neighbours).

use std::collections::HashMap;

use anyhow::Result;
use tcpilot_learner::draw::{ChoiceDist, uniform};
use tcpilot_learner::learner::Estimate;
use tcpilot_learner::regression::Features;
use tcpilot_learner::reward::Measures;
use tcpilot_learner::sharing::Bouts;
use tcpilot_learner::{Learner, Level, Observation, Outcome, Settings, learner};

use super::{Contender, THOMPSON, Who};
use crate::scene::Transfer;

/// Bytes per segment.
const MSS: f64 = 1448.0;

/// Seconds until a vanished peer's connection is given up.
const GIVEN_UP_S: f64 = 900.0;

/// A learner of the library, and what chooses by its distributions in the kernel.
pub struct Bayes {
    learner: Box<dyn Learner>,
    settings: Settings,
    key: u64,
    changes: u32,
    wide: u32,
}

impl Bayes {
    pub fn new(kind: &str, arms: usize, settings: &Settings, seed: u64) -> Result<Self> {
        Ok(Self {
            learner: learner::make(kind, arms, settings.clone())?,
            settings: settings.clone(),
            key: seed,
            changes: 0,
            wide: 0,
        })
    }

    fn observation(
        &self,
        who: &Who,
        arm: usize,
        transfer: &Transfer,
        at_s: f64,
    ) -> Option<Observation> {
        let outcome = match measures(transfer).reward(&self.settings.reward) {
            _ if transfer.vanished => Outcome::TimedOut,
            Ok(reward) => Outcome::Reward(reward),
            Err(_) => return None,
        };
        let features = Features {
            handshake_rtt_us: transfer.min_rtt_us,
            bytes: transfer.bytes,
            ..Features::default()
        };
        Some(Observation {
            lineage: who.lineage,
            arm,
            outcome,
            features,
            at_s,
            bouts: bouts(transfer),
            since_last_s: None,
            segments: (transfer.bytes / MSS) as u64,
            is_switched: false,
            beside: 1,
        })
    }
}

/// The connection's bouts of loss: two lost segments each, since some losses share a bout. A world without losses is
/// about something else: its paths count as lossy ones.
fn bouts(transfer: &Transfer) -> Bouts {
    let all = match transfer.retransmitted {
        0.0 => f64::from(Bouts::CLEAR.clear),
        share => transfer.bytes / MSS * share / 2.0,
    };
    Bouts {
        queued: (all * transfer.queued) as f32,
        clear: (all * (1.0 - transfer.queued)) as f32,
    }
}

/// The connection as the kernel would report it.
fn measures(transfer: &Transfer) -> Measures {
    // Segments are counted in thousandths: a small transfer's share is not rounded away.
    let delivered = transfer.bytes / MSS * 1e3;
    let segments = delivered / (1.0 - transfer.retransmitted);
    Measures {
        bytes_acked: transfer.bytes as u64,
        busy_us: (transfer.bytes / transfer.rate * 1e6) as u64,
        segments: segments as u64,
        retransmitted: (segments * transfer.retransmitted) as u64,
        srtt_us: (transfer.min_rtt_us * transfer.inflation) as u32,
        min_rtt_us: transfer.min_rtt_us as u32,
        bdp_bytes: transfer.bdp_bytes as u64,
        ..Measures::default()
    }
}

impl Contender for Bayes {
    fn choose(&mut self, who: &Who, now_s: f64, _: u32) -> usize {
        let plan = self.learner.plan(&who.lineage, now_s);
        let epoch_s = self.settings.choice.epoch_s;
        let epoch = if epoch_s > 0.0 {
            (now_s / epoch_s) as u64
        } else {
            who.number as u64
        };
        ChoiceDist::new(&plan.shares).arm(uniform(self.key, who.path as u64, epoch))
    }

    fn end(&mut self, who: &Who, arm: usize, transfer: &Transfer, at_s: f64) {
        let Some(seen) = self.observation(who, arm, transfer, at_s) else {
            return;
        };
        if let Ok(learned) = self.learner.observe(&seen) {
            self.changes += u32::from(learned.path_changed);
            self.wide += u32::from(learned.levels_changed > 0);
        }
    }

    fn covers(&mut self, who: &Who, now_s: f64, truth: &[f64]) -> Vec<bool> {
        let view = self.learner.view(&who.lineage.node(Level::Path), now_s);
        let estimates = view.map_or_else(Vec::new, |view| view.estimates);
        let holds = |(e, truth): (&Estimate, &f64)| (e.low..=e.high).contains(truth);
        estimates
            .iter()
            .zip(truth.iter().skip(1))
            .map(holds)
            .collect()
    }

    fn inside(&self) -> String {
        let estimates = self.learner.estimates();
        let widths = estimates.widths();
        let spread = estimates.spread().map(|s| format!("{s:.2}")).join(" ");
        format!(
            "noise {:.2} baseline {:.2} spread {spread} alarms {} wide {} rebuilt {}",
            widths.noise.sqrt(),
            widths.baseline.sqrt(),
            self.changes,
            self.wide,
            estimates.rebuilt()
        )
    }
}

/// A tree for each path.
pub struct Flat {
    arms: usize,
    settings: Settings,
    key: u64,
    paths: HashMap<usize, Bayes>,
}

impl Flat {
    pub fn new(arms: usize, settings: &Settings, seed: u64) -> Self {
        let mut settings = settings.clone();
        // One path has no neighbours to compare itself with: the widths stay as they are.
        settings.model.spread = [0.02; 4];
        settings.model.widths_after = u64::MAX;
        Self {
            arms,
            settings,
            key: seed,
            paths: HashMap::new(),
        }
    }
}

impl Contender for Flat {
    fn choose(&mut self, who: &Who, now_s: f64, random: u32) -> usize {
        if !self.paths.contains_key(&who.path) {
            if let Ok(bayes) = Bayes::new(THOMPSON, self.arms, &self.settings, self.key) {
                self.paths.insert(who.path, bayes);
            }
        }
        self.paths
            .get_mut(&who.path)
            .map_or(0, |bayes| bayes.choose(who, now_s, random))
    }

    fn end(&mut self, who: &Who, arm: usize, transfer: &Transfer, at_s: f64) {
        if let Some(bayes) = self.paths.get_mut(&who.path) {
            bayes.end(who, arm, transfer, at_s);
        }
    }
}

/// When a connection ends after its start.
pub fn lasts_s(transfer: &Transfer) -> f64 {
    if transfer.vanished {
        GIVEN_UP_S
    } else {
        transfer.bytes / transfer.rate
    }
}
