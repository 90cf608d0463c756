//! The views of the learners' knowledge, for people.

use std::collections::HashSet;

use tcpilot_abi::{
    TP_CLASS_ACCEPTED, TP_CLASS_ECN, TP_CLASS_INTERFACE, TP_CLASS_RTT, TP_CLASS_SMALL_WINDOW,
};
use tcpilot_core::Prefix;
use tcpilot_kernel::Live;
use tcpilot_learner::{
    Level, Lineage, NodeKey,
    learner::{Estimate, Foreign, View},
    lineage::{Class, Key},
};

use super::{
    choice_dists::{place_of, prefix_of},
    learners::Learners,
    origin::SharedCounts,
    policy_learner::PolicyLearner,
};
use crate::figures::{
    AlgorithmView, ChangeView, DecisionView, DrawnAlgorithm, FleetView, LearningStatus, PathView,
    PolicyStatus,
};

/// Maximum number of changes in `status`.
const CHANGES: usize = 8;

/// The view of a path or node, without the names of its namespace and interface.
pub struct KnownPath {
    /// The view; `netns` is empty.
    pub view: PathView,
    /// Its namespace; `None` if all share it.
    pub netns: Option<Netns>,
    /// The number of its interface; 0 if all interfaces share it.
    pub egress: u16,
    /// Whether the connections of the path negotiate ECN; `None` for a node above the paths.
    pub has_ecn: Option<bool>,
    /// The last decisions on its connections, in an explanation.
    pub decisions: Vec<DecisionView>,
}

/// A namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Netns {
    /// The namespace's cookie.
    Cookie(u64),
    /// The domain number of its paths, if no record since the start has shown the cookie.
    Domain(u32),
}

/// The word for a level.
pub fn word(level: Level) -> &'static str {
    match level {
        Level::Path => "path",
        Level::Group => "group",
        Level::Site => "site",
        Level::Class => "class",
        Level::Global => "global",
    }
}

/// The octave of all round trips below 1024 us.
const LEAST_OCTAVE: u32 = Class::LEAST_OCTAVE as u32;

/// 2^octave microseconds, as text in milliseconds.
fn ms(octave: u32) -> String {
    match (1u64 << octave) as f64 / 1000.0 {
        few if few < 10.0 => format!("{few:.2}"),
        many => format!("{many:.0}"),
    }
}

/// The common properties of a class of handshakes, in words.
fn class_text(class: u16) -> String {
    let bits = |from: u32, count: u32| u32::from(class) >> from & ((1 << count) - 1);
    let rtt = match bits(TP_CLASS_RTT, 5) {
        0 => "RTT unknown".to_owned(),
        LEAST_OCTAVE => "under 1 ms".to_owned(),
        octave => format!("{} to {} ms", ms(octave), ms(octave + 1)),
    };
    let flags = [
        (bits(TP_CLASS_ACCEPTED, 1) == 1, "accept"),
        (bits(TP_CLASS_SMALL_WINDOW, 1) == 1, "small window"),
        (bits(TP_CLASS_ECN, 2) == 1, "ECN"),
        (bits(TP_CLASS_ECN, 2) == 2, "accurate ECN"),
        (bits(TP_CLASS_INTERFACE, 6) == 1, "wireless"),
    ];
    let flags = flags.iter().filter(|(on, _)| *on).map(|(_, word)| *word);
    std::iter::once(rtt.as_str())
        .chain(flags)
        .collect::<Vec<_>>()
        .join(", ")
}

impl Learners {
    /// At most `most` paths, from path number `from` of a policy on; and the place of the next page, if
    /// there is one.
    pub fn page(
        &mut self,
        (number, from): (usize, usize),
        most: usize,
        live: &Live,
    ) -> (Vec<KnownPath>, Option<(usize, usize)>) {
        let Some(policy) = self.policies.get(number) else {
            return (Vec::new(), None);
        };
        let keys: Vec<NodeKey> = policy.learner.paths().skip(from).take(most).collect();
        let next = match keys.len() == most {
            true => (number, from + most),
            false => (number + 1, 0),
        };
        let seen = keys
            .iter()
            .filter_map(|key| self.seen(number, key, live))
            .collect();
        (seen, (next.0 < self.policies.len()).then_some(next))
    }

    /// The paths to addresses of a prefix. For a policy without such paths, the nodes that choose for new
    /// addresses there.
    pub fn explain(&mut self, remote: &Prefix, live: &Live) -> Vec<KnownPath> {
        let keys: Vec<(usize, Vec<NodeKey>)> = (0..)
            .zip(&self.policies)
            .map(|(number, policy)| (number, nearest(policy, remote)))
            .collect();
        let all = keys
            .iter()
            .flat_map(|(policy, keys)| keys.iter().map(|key| (*policy, key)));
        all.filter_map(|(policy, key)| {
            let decisions = self.decisions(policy, key);
            Some(KnownPath {
                decisions,
                ..self.seen(policy, key, live)?
            })
        })
        .collect()
    }

    /// The paths with the most connections, at most so many of each policy.
    pub fn busiest(&mut self, most: usize, live: &Live) -> Vec<KnownPath> {
        let busiest = |policy: &PolicyLearner| policy.learner.busiest(most);
        let keys: Vec<Vec<NodeKey>> = self.policies.iter().map(busiest).collect();
        let all = (0..)
            .zip(keys)
            .flat_map(|(policy, keys)| keys.into_iter().map(move |key| (policy, key)));
        all.filter_map(|(policy, key)| self.seen(policy, &key, live))
            .collect()
    }

    /// The last decisions of a path, the newest first.
    fn decisions(&self, policy: usize, key: &NodeKey) -> Vec<DecisionView> {
        let Some(policy) = self.policies.get(policy) else {
            return Vec::new();
        };
        let now_s = self.clock.now_s();
        let made = policy.measures.decisions(key, now_s).into_iter();
        let names = policy.settings.arms.names();
        let class = u32::from(key.key.class);
        let side = match class >> TP_CLASS_ACCEPTED & 1 {
            1 => "accept",
            _ => "connect",
        };
        made.map(|made| DecisionView {
            age_s: tenths(now_s - made.at_s as f64),
            algorithm: made.arm.and_then(|arm| names.get(arm).cloned()),
            why: made.why.word().to_owned(),
            because: made.why.sentence().to_owned(),
            side: side.to_owned(),
            dry_run: made.dry_run,
            end: made.end.word().to_owned(),
            goodput: made.goodput,
            loss_ratio: made.resent,
        })
        .collect()
    }

    fn seen(&mut self, policy: usize, key: &NodeKey, live: &Live) -> Option<KnownPath> {
        let now_s = self.clock.now_s();
        let policy = self.policies.get_mut(policy)?;
        let view = policy.learner.view(key, now_s)?;
        let origin = self.domains.get(&key.key.domain).map(|known| known.0);
        let netns = (key.key.domain != 0).then(|| {
            origin.map_or(Netns::Domain(key.key.domain), |origin| {
                Netns::Cookie(origin.netns_cookie)
            })
        });
        let egress = origin.map_or(0, |origin| origin.egress);
        let baseline = self.baselines.get(&key.key.domain).copied();
        let mut view = path_view(policy, &view, baseline, now_s);
        if key.level == Level::Path {
            view.live_flows = live.of(&place_of(key, policy.settings.policy));
            view.connections += u64::from(view.live_flows);
        }
        Some(KnownPath {
            view,
            netns,
            egress,
            has_ecn: (key.level == Level::Path)
                .then(|| u32::from(key.key.class) >> TP_CLASS_ECN & 3 != 0),
            decisions: Vec::new(),
        })
    }

    /// The learner's part of `status`.
    pub fn status(&mut self) -> LearningStatus {
        let (choice_dists, choice_dists_max) = self.table.len();
        let SharedCounts {
            records,
            dropped,
            publications,
        } = self.counted();
        let mut status = LearningStatus {
            choice_dists: choice_dists as u64,
            choice_dists_max: choice_dists_max as u64,
            publications,
            records,
            dropped,
            turns: self.turns.view(),
            ..LearningStatus::default()
        };
        let now_s = self.clock.now_s();
        for policy in &self.policies {
            policy.add_to(&mut status, now_s);
        }
        // The newest come first. Ages are finite, so `total_cmp` orders them well.
        status.changes.sort_by(|a, b| a.age_s.total_cmp(&b.age_s));
        status.changes.truncate(CHANGES);
        status
    }
}

impl PolicyLearner {
    fn add_to(&self, status: &mut LearningStatus, now_s: f64) {
        status.paths += self.learner.path_count() as u64;
        status.nodes += self.learner.node_count() as u64;
        status.updates += self.updates;
        status.explored += self.learner.spent();
        status.steer_percent = self.settings.steer_percent;
        for (why, count) in &self.rejected {
            *status.rejected.entry(why.to_string()).or_default() += count;
        }
        let names = self.settings.arms.names();
        status.policies.push(PolicyStatus {
            policy: self.settings.name.clone(),
            default: names[0].clone(),
            algorithms: names
                .iter()
                .zip(&self.drawn)
                .enumerate()
                .map(|(arm, (name, drawn))| DrawnAlgorithm {
                    shown: self.shown(arm),
                    name: name.clone(),
                    connections: drawn.connections,
                    probability: drawn.probability,
                })
                .collect(),
        });
        status
            .changes
            .extend(self.learner.alarms().map(|alarm| ChangeView {
                level: word(alarm.key.level).to_owned(),
                prefix: prefix_of(&alarm.key.key).to_string(),
                policy: self.settings.name.clone(),
                age_s: tenths(now_s - alarm.at_s),
            }));
    }
}

/// The paths of a prefix. If there are none, its groups; if there are none, its sites; else the global node.
fn nearest(policy: &PolicyLearner, remote: &Prefix) -> Vec<NodeKey> {
    for level in [Level::Path, Level::Group, Level::Site] {
        let mut met = HashSet::new();
        let nodes = policy
            .learner
            .paths()
            .map(|path| Lineage::of_key(&path.key).node(level));
        // Groups that only other hosts know have no paths.
        let heard = policy.learner.estimates().foreign_groups();
        let nodes = nodes.chain(heard.filter(|node| node.level == level));
        let is_there = |node: &NodeKey| {
            let prefix = prefix_of(&node.key);
            prefix.covers(remote) || remote.covers(&prefix)
        };
        let found: Vec<NodeKey> = nodes
            .filter(is_there)
            .filter(|node| met.insert(*node))
            .collect();
        if !found.is_empty() {
            return found;
        }
    }
    vec![NodeKey {
        level: Level::Global,
        key: Key::default(),
    }]
}

/// The view of a path or node. `baseline` is the programs' number of its namespace's default, if it is known.
fn path_view(
    policy: &mut PolicyLearner,
    view: &View,
    baseline: Option<u8>,
    now_s: f64,
) -> PathView {
    let level = view.key.level;
    let arms = &policy.settings.arms;
    let baseline = match baseline {
        Some(number) => arms.of_number(number),
        None => Some(0),
    };
    let baseline_name = baseline.map(|arm| arms.names()[arm].clone());
    let algorithms = algorithms(policy, view, baseline, now_s);
    let switched = policy.switches.of(&view.key);
    let mut seen = PathView {
        prefix: prefix_of(&view.key.key),
        policy: policy.settings.name.clone(),
        age_s: view.seen_s.map_or(0.0, |seen_s| tenths(now_s - seen_s)),
        level: word(level).to_owned(),
        class: (level != Level::Global).then(|| class_text(view.key.key.class)),
        experience: tenths(view.own_weight),
        explored: view.spent,
        budget: view.credit,
        queued_losses: view.queued_share,
        gain_needed: view.bonus.exp_m1(),
        rescued: switched.rescued,
        undone: switched.undone,
        moved: switched.moved,
        changed_age_s: view.changed_s.map(|changed_s| tenths(now_s - changed_s)),
        fleet: view
            .foreign
            .as_ref()
            .map(|foreign| fleet_view(policy, view, foreign)),
        baseline: baseline_name,
        algorithms,
        ..PathView::default()
    };
    policy.measures.show(&view.key, now_s, &mut seen);
    seen
}

fn algorithms(
    policy: &mut PolicyLearner,
    view: &View,
    baseline: Option<usize>,
    now_s: f64,
) -> Vec<AlgorithmView> {
    let shares = policy.settings.shares(&view.key, &view.plan);
    let switched = policy.switches.of(&view.key);
    let names = policy.settings.arms.names().to_vec();
    let counted = shares.into_iter().zip(&view.costs);
    let counted = counted.zip(switched.rescued_from);
    let all = names.into_iter().zip(counted).enumerate();
    all.map(|(arm, (name, ((share, cost), rescued)))| AlgorithmView {
        name,
        share,
        cost: *cost,
        rescued,
        ..compared(policy, view, arm, baseline, now_s)
    })
    .collect()
}

/// What other hosts say of a path's group.
fn fleet_view(policy: &PolicyLearner, view: &View, foreign: &Foreign) -> FleetView {
    let settings = &policy.settings;
    let names = settings.arms.names().iter().cloned();
    let shares = settings.shares(&view.key, &foreign.otherwise);
    FleetView {
        connections: tenths(foreign.connections),
        believed: foreign.believed,
        paths: foreign.paths,
        age_s: tenths(foreign.age_s),
        used: foreign.is_used,
        held_back: foreign.is_held_back,
        shares_otherwise: names.zip(shares).collect(),
    }
}

/// The rate of an algorithm, and its effect against the baseline: of the namespace's default, which may be another than
/// the learner's own.
fn compared(
    policy: &mut PolicyLearner,
    view: &View,
    arm: usize,
    baseline: Option<usize>,
    now_s: f64,
) -> AlgorithmView {
    let rate = |nats: f64| Some(nats.exp().round() as u64);
    let typical = view.typical.get(arm);
    let own = arm.checked_sub(1).and_then(|arm| view.estimates.get(arm));
    let estimate = match baseline {
        Some(0) => own.copied(),
        Some(baseline) if baseline != arm => {
            let gain = policy.learner.gain(&view.key.key, baseline, arm, now_s);
            let from = own.and_then(|own| own.from);
            gain.map(|(mean, sd)| Estimate::new(mean, sd, from))
        }
        _ => None,
    };
    let effect = |part: usize| estimate.map(|estimate| estimate.percent()[part] / 100.0);
    AlgorithmView {
        expected_rate: typical.and_then(|typical| rate(typical.mean)),
        expected_rate_low: typical.and_then(|typical| rate(typical.low)),
        expected_rate_high: typical.and_then(|typical| rate(typical.high)),
        effect: effect(0),
        effect_low: effect(1),
        effect_high: effect(2),
        learned_from: estimate
            .and_then(|estimate| estimate.from)
            .map(|level| word(level).to_owned()),
        ..AlgorithmView::default()
    }
}

fn tenths(x: f64) -> f64 {
    (x.max(0.0) * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_told_in_words() {
        let class = 14 << TP_CLASS_RTT | 1 << TP_CLASS_ECN | 1 << TP_CLASS_ACCEPTED;
        assert_eq!(class_text(class as u16), "16 to 33 ms, accept, ECN");
        assert_eq!(class_text(0), "RTT unknown");
        let of_rtt = |rtt_us| class_text(u16::from(Class::octave(rtt_us)));
        assert_eq!([1, 1023].map(of_rtt), ["under 1 ms"; 2]);
        assert_eq!(of_rtt(1024), "1.02 to 2.05 ms");
    }
}
