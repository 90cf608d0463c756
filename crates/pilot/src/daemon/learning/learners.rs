//! The learners of all policies, and their choice distributions. The module knows neither threads nor the
//! kernel, so tests can give it made-up records.

use std::collections::{HashMap, HashSet};

use tcpilot_abi::{TP_RECORD_FOREIGN, TP_RECORD_FORGOTTEN, Why, tp_record};
use tcpilot_kernel::{MOVES, MoveRequest};

use super::{
    choice_dists::Table,
    clock::Clock,
    effect::{Effect, FIRST, FleetEffect},
    histogram::{self, Histogram},
    long::Long,
    origin::{Origin, SharedCounts},
    policy_learner::{PolicyLearner, Written},
    translate::{has, lineage, was_switched},
};
use crate::figures::{EffectReport, FleetReport};

/// Maximum number of origins; the least recently seen are evicted, and their paths are shown by number from then
/// on.
const DOMAINS_MAX: usize = 4096;

/// The learners and everything they share, see the module's comment.
pub struct Learners {
    /// The learner of each policy.
    pub policies: Vec<PolicyLearner>,
    pub(super) table: Box<dyn Table>,
    pub clock: Clock,
    long: Long,
    /// Jiffies per second; known once the programs are attached, and so before the first record.
    pub ticks_per_s: u32,
    generation: u32,
    /// The counts of former programs.
    pub before: SharedCounts,
    /// Received records.
    pub records: u64,
    /// Records lost because the ring was full.
    pub dropped: u64,
    /// Whether records stay in the ring, for the next program.
    pub is_resting: bool,
    /// Number of times choice distributions were written.
    pub publications: u64,
    crowded: u64,
    /// The comparison with held-out connections; `None` in a dry run.
    pub effect: Option<Effect>,
    /// The comparison of sites with the fleet and without it; `None` if none is held back.
    pub fleet: Option<FleetEffect>,
    /// The origin of each domain (a number in records), and the number of the domain's last record.
    pub(super) domains: HashMap<u32, (Origin, u64)>,
    /// The default algorithm of each domain's namespace, by the programs' number: its connections keep it unless an
    /// algorithm is set.
    pub(super) baselines: HashMap<u32, u8>,
    /// Long connections to move to another algorithm.
    pub requests: Vec<MoveRequest>,
    /// Times of the thread's turns.
    pub(super) turns: Histogram,
}

impl Learners {
    /// The learners of these policies, with the table for their choice distributions.
    pub fn new(policies: Vec<PolicyLearner>, table: Box<dyn Table>, clock: Clock) -> Learners {
        Learners {
            policies,
            table,
            clock,
            long: Long::default(),
            ticks_per_s: 0,
            generation: 0,
            before: SharedCounts::default(),
            records: 0,
            dropped: 0,
            is_resting: false,
            publications: 0,
            crowded: 0,
            effect: None,
            fleet: None,
            domains: HashMap::new(),
            baselines: HashMap::new(),
            requests: Vec::new(),
            turns: Histogram::new(histogram::TIMES),
        }
    }

    /// Notes the daemon's start. From now on it gets samples of all connections of `sample_bytes` or more.
    pub fn begin_now(&mut self, sample_bytes: u64) {
        self.long = Long::since(crate::clocks::monotonic_ns(), sample_bytes);
    }

    /// Learns from a record.
    pub fn take(&mut self, record: &tp_record) {
        self.records += 1;
        let before = self.long.follow(record);
        // Domain 0 has the paths shared by all namespaces.
        if record.domain != 0 {
            self.note_origin(record);
            self.note_baseline(record);
        }
        let of = |policy: &&mut PolicyLearner| policy.settings.policy == record.policy;
        // A former policy has no learner, but its last connections still end.
        if let Some(policy) = self.policies.iter_mut().find(of) {
            if let Some(effect) = &mut self.effect {
                let settings = &policy.settings;
                let arm = settings.arms.of_number(record.arm);
                let name = arm.and_then(|arm| settings.arms.names().get(arm));
                let name = name.map(String::as_str);
                effect.take(record, &settings.name, name, self.ticks_per_s);
            }
            if let Some(fleet) = &mut self.fleet {
                let of = lineage(record);
                if policy.learner.estimates().is_heard_of(&of.group) {
                    let is_first = policy.measures.connections(&of.path) < FIRST;
                    fleet.take(record, is_first, self.ticks_per_s);
                }
            }
            if policy.take(record, &before, &self.clock, self.ticks_per_s) {
                self.request_move(record);
            }
        }
    }

    /// Counts the blocks that are over, and reacts to harm. Call it often.
    pub fn turn_effects(&mut self) {
        let Learners {
            effect,
            fleet,
            policies,
            clock,
            ..
        } = self;
        if let Some(effect) = effect {
            effect.turn();
            effect.react(|is_of| {
                let refuse =
                    |policy: &mut PolicyLearner| policy.refuse_foreign(is_of, clock.now_s());
                policies
                    .iter_mut()
                    .map(refuse)
                    .fold(false, |any, one| any | one)
            });
        }
        if let Some(fleet) = fleet {
            fleet.turn();
        }
    }

    /// Forgets the paths whose knowledge has faded.
    pub fn forget_old(&mut self) {
        let now_s = self.clock.now_s();
        for policy in &mut self.policies {
            policy.learner.forget_old(now_s);
        }
    }

    /// The cookies of the namespaces with paths of their own. If no record since the start has shown a cookie, it is
    /// taken for its domain, which has half of it.
    pub fn known_netns(&self) -> HashSet<u64> {
        let paths = self
            .policies
            .iter()
            .flat_map(|policy| policy.learner.paths());
        let domains: HashSet<u32> = paths.map(|path| path.key.domain).collect();
        let cookie = |domain: u32| match self.domains.get(&domain) {
            Some((origin, _)) => origin.netns_cookie,
            None => domain.into(),
        };
        let of_their_own = domains.into_iter().filter(|domain| *domain != 0);
        of_their_own.map(cookie).collect()
    }

    /// Forgets the paths of ended namespaces; returns their number.
    pub fn forget_netns(&mut self, cookies: &HashSet<u64>) -> usize {
        let seen = self.domains.iter();
        let seen = seen.filter(|(_, (origin, _))| cookies.contains(&origin.netns_cookie));
        // Paths of an earlier daemon may have shown no record since.
        let unseen = cookies.iter().map(|cookie| *cookie as u32);
        let mut ended: HashSet<u32> = seen.map(|(domain, _)| *domain).chain(unseen).collect();
        ended.remove(&0); // it is everybody's
        self.domains.retain(|domain, _| !ended.contains(domain));
        self.baselines.retain(|domain, _| !ended.contains(domain));
        let policies = self.policies.iter_mut();
        let paths: usize = policies.map(|policy| policy.forget_domains(&ended)).sum();
        let greedy = self
            .policies
            .iter()
            .find_map(|policy| policy.settings.greedy.as_ref());
        if let Some(greedy) = greedy.filter(|_| paths > 0) {
            let forgotten = greedy.memory.forget(&ended);
            forgotten.iter().for_each(|key| self.table.remove(key));
        }
        paths
    }

    /// Notes the origin of a record's domain.
    fn note_origin(&mut self, record: &tp_record) {
        let origin = Origin {
            netns_cookie: record.netns_cookie,
            egress: record.egress,
        };
        self.domains.insert(record.domain, (origin, self.records));
        if self.domains.len() > DOMAINS_MAX {
            // A quarter at once: then the search costs next to nothing for each record.
            let mut all: Vec<u64> = self.domains.values().map(|(_, seen)| *seen).collect();
            let (_, oldest, _) = all.select_nth_unstable(DOMAINS_MAX / 4);
            self.domains.retain(|_, (_, seen)| *seen > *oldest);
            self.baselines
                .retain(|domain, _| self.domains.contains_key(domain));
        }
    }

    /// Notes the default of a namespace, from a connection that kept it.
    fn note_baseline(&mut self, record: &tp_record) {
        let kept = matches!(
            Why::from_number(record.why),
            Why::HeldOut | Why::NoChoiceDist | Why::Kept | Why::Stale
        );
        if kept && !has(record, TP_RECORD_FOREIGN | TP_RECORD_FORGOTTEN) && !was_switched(record) {
            self.baselines.insert(record.domain, record.arm);
        }
    }

    /// Requests the move of a long connection, if it is worth it.
    fn request_move(&mut self, record: &tp_record) {
        let of = |policy: &&mut PolicyLearner| policy.settings.policy == record.policy;
        let Some(policy) = self.policies.iter_mut().find(of) else {
            return;
        };
        let Some(terms) = policy.settings.moves else {
            return;
        };
        if self.requests.len() < MOVES && self.long.is_settled(record, terms.every_ns) {
            let now_s = self.clock.now_s();
            self.requests.extend(policy.move_request(record, now_s));
        }
    }

    /// The report on whether steering helps.
    pub fn effect_report(&mut self) -> Option<EffectReport> {
        let explored = self
            .policies
            .iter()
            .map(|policy| policy.learner.spent())
            .fold(0.0, |sum, spent| sum + spent);
        self.effect.as_mut().map(|effect| effect.report(explored))
    }

    /// The report on whether the fleet helps; `None` if no site is held back.
    pub fn fleet_report(&self) -> Option<FleetReport> {
        self.fleet.as_ref().map(FleetEffect::report)
    }

    /// Writes at most `budget` choice distributions for each policy; true if none is left to write.
    pub fn publish(&mut self, budget: usize) -> bool {
        let now_s = self.clock.now_s();
        // Never 0: no distribution has generation 0.
        let generation = self.generation.wrapping_add(1).max(1);
        let mut all = Written::default();
        for policy in &mut self.policies {
            let written = policy.publish(self.table.as_mut(), now_s, budget, generation);
            all.dists += written.dists;
            all.crowded += written.crowded;
            all.looked_at = all.looked_at.max(written.looked_at);
        }
        self.note_crowded(all.crowded);
        if all.dists > 0 {
            self.generation = generation;
            self.publications += 1;
        }
        all.looked_at < budget
    }

    fn note_crowded(&mut self, crowded: u64) {
        if self.crowded == 0 && crowded > 0 {
            tracing::warn!(
                "there is not room for the choice distributions of all paths: some choose by their group's; raise paths_max"
            );
        }
        self.crowded += crowded;
    }

    /// The present problems, a sentence each.
    pub fn limits(&self) -> Vec<String> {
        let crowded = (self.crowded > 0).then(|| {
            "there is not room for the choice distributions of all paths: some choose by their group's; raise paths_max"
                .to_owned()
        });
        let lost = self.counted().dropped;
        let dropped = (lost > 0)
            .then(|| format!("{lost} records of connections came too fast and were lost"));
        crowded.into_iter().chain(dropped).collect()
    }
}

#[cfg(test)]
mod moves_tests;
#[cfg(test)]
mod netns_tests;
#[cfg(test)]
pub mod tests;
#[cfg(test)]
mod wrong_clock_tests;
