//! `[learner]`: the learner in force, and the keys of each learner.
//!
//! Keys of other learners are refused. A file with `epsilon` was written for epsilon-greedy, so another
//! learner must not ignore the key in silence.

use tcpilot_learner::settings as defaults;

use super::settings::{Key, Section, Table, settings};
use super::{LearnerKind, Objective, SeparateByInterface, SeparateByNamespace};

settings! {
    /// The keys common to all learners.
    Common {
        /// How tcpilot chooses. "thompson" draws each algorithm as often as it may be the best. "epsilon-greedy"
        /// takes the algorithm of least cost, except for one connection in `epsilon` (docs/use/learner.md).
        kind: LearnerKind = LearnerKind::THOMPSON;
        /// Seconds until tcpilot forgets the best rate and RTT of a path, at the latest after twice as many.
        /// "thompson" learns without them.
        window_s: u32 = 300, 1..=86400;
    }
}

settings! {
    /// The keys of epsilon-greedy.
    EpsilonGreedy {
        /// One connection in this many draws among all algorithms; 0 is never. One in 20 costs little, and tries
        /// each within about 80 connections.
        epsilon: u32 = 20, 0..=1000;
        /// Connections on a path before the first choice.
        min_instances: u32 = 3, 0..=100000;
        /// A new sample moves the cost by 1/2^shift of the difference. A quarter follows a change within a few
        /// connections.
        learning_shift: u32 = 2, 0..=16;
        /// Acknowledged bytes before tcpilot learns from a connection. Below 64 KiB it seldom leaves slow start.
        min_flow_bytes: u64 = 65536, 0..=1099511627776;
        /// Connections without a sample before tcpilot no longer tries an algorithm first.
        max_unpaid: u32 = 3, 1..=1000;
    }
}

settings! {
    /// The keys of the estimates. tcpilot makes and shows them with every learner. A percent of the reward is
    /// a hundredth of a nat: one percent more goodput.
    Estimates {
        /// Weight of retransmissions in the reward, in percent. At 100 a byte sent twice counts as undelivered.
        retransmission_weight_percent: u32 = parts(defaults::RewardSettings::default().gamma, 100), 0..=1000;
        /// Weight of a connection's own queueing delay in the reward, in percent. Left out, it follows from the
        /// objective: 0 for "throughput", 10 for "none", 50 for "latency", 100 for "real-time".
        delay_weight_percent: Option<u32> = None, 0..=1000;
        /// Growth of the round-trip time, in microseconds, before it counts as a queue. Timers and interrupts can
        /// add this much.
        delay_dead_zone_us: u32 = parts(defaults::RewardSettings::default().dead_zone_us, 1), 1..=1000000;
        /// Acknowledged bytes before tcpilot learns from a connection. Fewer are only the first round trips of a
        /// slow start.
        bytes_min: u64 = defaults::RewardSettings::default().bytes_min, 1..=1099511627776;
        /// Charge for a rescue after lasting loss, in percent of the reward, to the algorithm before.
        rescue_cost_percent: u32 = 10, 0..=1000;
        /// Half-life of the knowledge from a path, in seconds.
        path_half_life_s: u32 = parts(defaults::Memory::default().path_s, 1), 60..=31536000;
        /// Half-life of a path's contribution to its group, in seconds.
        group_half_life_s: u32 = parts(defaults::Memory::default().group_s, 1), 60..=31536000;
        /// Half-life of a group's contribution to its site and all others, in seconds.
        site_half_life_s: u32 = parts(defaults::Memory::default().above_s, 1), 60..=31536000;
        /// Which paths are separate in each network namespace: "private" addresses, "all", or "none", as for
        /// containers in one network. The former name is `part_namespaces`.
        separate_by_namespace: SeparateByNamespace = SeparateByNamespace::Private;
        /// Whether the host's outgoing interface separates paths. "auto": with default routes by several
        /// interfaces. "always": also under policy routing. "never". The former name is `part_interfaces`.
        separate_by_interface: SeparateByInterface = SeparateByInterface::Auto;
        /// Seconds between two samples of a long connection; 0 is never. Sampling uses at most 1 % of a
        /// processor.
        sample_s: u32 = 10, 0..=3600;
        /// Acknowledged bytes of an open connection before its first sample.
        sample_bytes: u64 = 1048576, 1..=1099511627776;
    }
}

settings! {
    /// The keys of thompson. A percent of the reward is the same as above.
    Thompson {
        /// Percent of gain over the default before tcpilot prefers another algorithm.
        bonus_percent: u32 = parts(defaults::Choice::default().bonus, 100), 0..=100;
        /// The same where losses come with a queue, perhaps shared with strangers. 100 is 2.7 times the default's
        /// goodput. 0: `bonus_percent` counts there, too.
        shared_bonus_percent: u32 = parts(defaults::Choice::default().shared_bonus, 100), 0..=1000;
        /// Least share of the default, in thousandths, for comparison.
        default_floor_permille: u32 = parts(defaults::Choice::default().floor_default, 1000), 1..=500;
        /// Least share of each other algorithm, in thousandths, as long as it may be the best.
        other_floor_permille: u32 = parts(defaults::Choice::default().floor_other, 1000), 0..=500;
        /// Exploration budget of a new group of neighbours: the reward it may lose by trying algorithms, in
        /// percent, added up over its connections. 100 is ten connections with a loss of 10 % each.
        budget_percent: u32 = parts(defaults::Choice::default().ledger_start, 100), 0..=10000;
        /// Maximum saved budget of a group, in the same unit.
        budget_most_percent: u32 = parts(defaults::Choice::default().ledger_max, 100), 0..=100000;
        /// Income of this budget from each connection, in thousandths: the lasting price of exploring.
        budget_income_permille: u32 = parts(defaults::Choice::default().ledger_income, 1000), 1..=1000;
        /// Percent of the groups of neighbours under steering, for a trial. tcpilot learns from the others, and
        /// they keep the default.
        steer_percent: u32 = 100, 0..=100;
        /// Whether tcpilot may move a long open connection to a surely better algorithm.
        move_long: bool = false;
        /// Percent of gain before a move, at the lower end of an interval of three standard deviations.
        move_gain_percent: u32 = 10, 0..=1000;
        /// Seconds between two moves of a connection, or between a rescue and a move.
        move_every_s: u32 = 300, 10..=86400;
    }
}

/// A constant of the learner as a whole number of parts: the default lives only in the learner.
fn parts(value: f64, per_unit: u32) -> u32 {
    (value * f64::from(per_unit)).round() as u32
}

/// `[learner]`: how an algorithm is chosen and judged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Learner {
    /// The kind, and the window of measures.
    pub common: Common,
    /// The keys of the estimates.
    pub estimates: Estimates,
    /// In force if `common.kind` is epsilon-greedy.
    pub epsilon_greedy: EpsilonGreedy,
    /// In force if `common.kind` is thompson.
    pub thompson: Thompson,
}

impl Learner {
    /// Each kind with its own keys.
    pub(super) fn kinds(&self) -> [(LearnerKind, &dyn Section); 2] {
        [
            (LearnerKind::EPSILON_GREEDY, &self.epsilon_greedy),
            (LearnerKind::THOMPSON, &self.thompson),
        ]
    }

    fn kinds_mut(&mut self) -> [(LearnerKind, &mut dyn Section); 2] {
        [
            (LearnerKind::EPSILON_GREEDY, &mut self.epsilon_greedy),
            (LearnerKind::THOMPSON, &mut self.thompson),
        ]
    }

    /// The names of all keys of one kind only.
    pub(super) fn keys_of_kinds() -> Vec<&'static str> {
        let default = Learner::default();
        let keys = default.kinds().map(|(_, section)| section.keys());
        keys.iter().flatten().map(|key| key.name).collect()
    }
}

impl Section for Learner {
    fn read(&mut self, table: &Table<'_>) {
        self.common.read(table);
        self.estimates.read(table);
        let written = table.get("kind").map(|value| value.get_ref().as_str());
        let kind = self.common.kind;
        // An unknown kind has been reported. Further messages would only confuse.
        let is_clear = written.is_none_or(|name| name == Some(kind.name()));
        for (other, section) in self.kinds_mut() {
            if other == kind {
                section.read(table);
                continue;
            }
            for key in section
                .keys()
                .iter()
                .filter(|key| table.get(key.name).is_some())
            {
                if is_clear {
                    table.report(key.name, of_other_kind(key, other, written.is_some()));
                }
            }
        }
    }

    fn keys(&self) -> Vec<Key> {
        let mut keys = self.common.keys();
        keys.extend(self.estimates.keys());
        let in_force = self
            .kinds()
            .into_iter()
            .filter(|(kind, _)| *kind == self.common.kind);
        keys.extend(in_force.flat_map(|(_, section)| section.keys()));
        keys
    }
}

fn of_other_kind(key: &Key, kind: LearnerKind, is_written: bool) -> String {
    let (key, kind) = (key.name, kind.name());
    let verb = if is_written { "set" } else { "add the line" };
    format!(
        "`{key}` in [learner] is a key of the learner {kind}: {verb} `kind = \"{kind}\"`, or remove `{key}`"
    )
}

impl Learner {
    /// The learner's constants, for connections with this objective.
    pub fn settings(&self, objective: Objective) -> defaults::Settings {
        let of = |parts: u32, per_unit: u32| f64::from(parts) / f64::from(per_unit);
        let (chooses, estimates) = (&self.thompson, &self.estimates);
        let mut all = defaults::Settings::default();
        all.choice.bonus = of(chooses.bonus_percent, 100);
        all.choice.shared_bonus = of(chooses.shared_bonus_percent, 100);
        all.choice.floor_default = of(chooses.default_floor_permille, 1000);
        all.choice.floor_other = of(chooses.other_floor_permille, 1000);
        all.choice.ledger_start = of(chooses.budget_percent, 100);
        all.choice.ledger_max = of(chooses.budget_most_percent, 100);
        all.choice.ledger_income = of(chooses.budget_income_permille, 1000);
        all.reward.gamma = of(estimates.retransmission_weight_percent, 100);
        all.reward.beta = match estimates.delay_weight_percent {
            Some(percent) => of(percent, 100),
            None => delay_weight(objective),
        };
        all.reward.dead_zone_us = of(estimates.delay_dead_zone_us, 1);
        all.reward.bytes_min = estimates.bytes_min;
        all.memory.path_s = of(estimates.path_half_life_s, 1);
        all.memory.group_s = of(estimates.group_half_life_s, 1);
        all.memory.above_s = of(estimates.site_half_life_s, 1);
        all
    }
}

/// The weight of a queue's delay in the reward: 0 if only the rate counts, 1 for as much as the rate.
fn delay_weight(objective: Objective) -> f64 {
    match objective {
        Objective::Throughput => 0.0,
        Objective::None => defaults::RewardSettings::default().beta,
        Objective::Latency => 0.5,
        Objective::RealTime => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_keys_the_learner_has_its_own_constants() {
        let settings = Learner::default().settings(Objective::None);
        assert_eq!(settings, defaults::Settings::default());
    }

    #[test]
    fn an_objective_weighs_delay_unless_a_key_does() {
        let mut keys = Learner::default();
        let weights = |keys: &Learner| {
            [
                Objective::Throughput,
                Objective::None,
                Objective::Latency,
                Objective::RealTime,
            ]
            .map(|objective| keys.settings(objective).reward.beta)
        };
        assert_eq!(weights(&keys), [0.0, 0.1, 0.5, 1.0]);
        keys.estimates.delay_weight_percent = Some(30);
        assert_eq!(weights(&keys), [0.3; 4]);
    }
}
