//! A trial under way: blocks fill with connections, and pairs of full ones become effects.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::{
    outcome::{Effects, Outcome, Sums},
    schedule::{Arm, Schedule},
};

/// What a trial counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Connections that each block of a pair needs: the mean of fewer is mostly noise.
    pub least: u64,
    /// Groups that effects are kept for; of more the one that was seen longest ago goes. What it showed stays in
    /// the sums of the host.
    pub groups_max: usize,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms {
            least: 5,
            groups_max: 4096,
        }
    }
}

/// The two blocks of a group's pair that is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Blocks {
    pair: u64,
    treated: Sums,
    control: Sums,
}

/// What is known of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Group {
    blocks: Blocks,
    /// Its effects.
    pub effects: Effects,
}

/// A pair that is complete.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Completed {
    /// Whose.
    pub group: u64,
    /// Mean goodput while steered less that while not, in nats.
    pub goodput_nats: f64,
}

/// All groups of a policy, and their sums.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Trial {
    /// Over all groups, also those that are forgotten.
    pub host: Effects,
    groups: HashMap<u64, Group>,
}

impl Trial {
    /// Takes in a connection that *started* at this time, whenever it ended. Returns the pair that was completed
    /// by it, which is the one before its own.
    pub fn take(
        &mut self,
        group: u64,
        started_s: u64,
        seen: &Outcome,
        schedule: &Schedule,
        terms: &Terms,
    ) -> Option<Completed> {
        let treated = match schedule.arm(group, started_s) {
            Arm::Treated => true,
            Arm::Control => false,
            Arm::Free | Arm::Settling => return None,
        };
        let pair = schedule.pair(started_s);
        self.make_room(group, terms);
        let known = self.groups.entry(group).or_default();
        if pair < known.blocks.pair {
            return None; // it outlived the pair that it belongs to, which has been counted
        }
        let completed = (pair > known.blocks.pair)
            .then(|| self.complete(group, terms))
            .flatten();
        let blocks = &mut self.groups.entry(group).or_default().blocks;
        blocks.pair = pair;
        if treated {
            blocks.treated.add(seen);
        } else {
            blocks.control.add(seen);
        }
        completed
    }

    /// Counts all pairs that are over at this time, so that a report lacks none.
    pub fn complete_until(
        &mut self,
        now_s: u64,
        schedule: &Schedule,
        terms: &Terms,
    ) -> Vec<Completed> {
        let now = schedule.pair(now_s);
        let over = |(group, known): (&u64, &Group)| (known.blocks.pair < now).then_some(*group);
        let groups: Vec<u64> = self.groups.iter().filter_map(over).collect();
        groups
            .into_iter()
            .filter_map(|group| self.complete(group, terms))
            .collect()
    }

    fn complete(&mut self, group: u64, terms: &Terms) -> Option<Completed> {
        let known = self.groups.get_mut(&group)?;
        let Blocks {
            pair,
            treated,
            control,
        } = known.blocks;
        known.blocks = Blocks {
            pair,
            ..Blocks::default()
        };
        if treated.count.min(control.count) < terms.least {
            return None;
        }
        let mut effects = Effects::default();
        effects.add(&treated, &control, terms.least);
        known.effects.merge(&effects);
        self.host.merge(&effects);
        Some(Completed {
            group,
            goodput_nats: effects.goodput.total(),
        })
    }

    fn make_room(&mut self, group: u64, terms: &Terms) {
        if self.groups.len() < terms.groups_max || self.groups.contains_key(&group) {
            return;
        }
        let oldest = self
            .groups
            .iter()
            .min_by_key(|(_, known)| known.blocks.pair);
        if let Some(oldest) = oldest.map(|(group, _)| *group) {
            self.groups.remove(&oldest);
        }
    }

    /// The groups with what they showed.
    pub fn groups(&self) -> impl Iterator<Item = (u64, &Effects)> {
        self.groups
            .iter()
            .map(|(group, known)| (*group, &known.effects))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_795_003_200; // a whole hour

    fn outcome(goodput_nats: f64) -> Outcome {
        Outcome {
            bytes: 1 << 20,
            goodput_nats,
            duration_nats: 0.0,
            retransmitted: 0.0,
            inflation_nats: 0.0,
            expected_nats: 0.0,
        }
    }

    /// A connection a minute for so many hours, with this gain while steered.
    fn run(trial: &mut Trial, group: u64, from_s: u64, hours: u64, gain: f64) -> Vec<Completed> {
        let (schedule, terms) = (Schedule::by_time(1.0, [1, 2]), Terms::default());
        let steps = 0..60 * hours;
        steps
            .filter_map(|minute| {
                let at_s = from_s + 60 * minute;
                let steered = schedule.steers(group, at_s);
                let seen = outcome(if steered { gain } else { 0.0 });
                trial.take(group, at_s, &seen, &schedule, &terms)
            })
            .collect()
    }

    #[test]
    fn each_hour_is_a_pair_and_its_effect_the_gain() {
        let mut trial = Trial::default();
        let completed = run(&mut trial, 9, START, 30, 0.2);
        assert_eq!(completed.len(), 29); // the last hour is not over
        assert!(
            completed
                .iter()
                .all(|pair| (pair.goodput_nats - 0.2).abs() < 1e-12)
        );
        let (schedule, terms) = (Schedule::by_time(1.0, [1, 2]), Terms::default());
        let rest = trial.complete_until(START + 30 * 3600, &schedule, &terms);
        assert_eq!(rest.len(), 1);
        assert_eq!(trial.host.goodput.count, 30);
        // Two minutes of each half hour do not count.
        assert_eq!(trial.host.connections, 30 * 56);
    }

    #[test]
    fn a_pair_with_too_few_connections_on_one_side_is_none() {
        let mut trial = Trial::default();
        let schedule = Schedule::by_time(1.0, [1, 2]);
        for minute in 0..34 {
            let seen = outcome(0.0);
            trial.take(9, START + 60 * minute, &seen, &schedule, &Terms::default());
        }
        let rest = trial.complete_until(START + 7200, &schedule, &Terms::default());
        assert_eq!((rest.len(), trial.host.goodput.count), (0, 0));
    }

    #[test]
    fn a_connection_that_outlived_its_pair_changes_nothing() {
        let mut trial = Trial::default();
        run(&mut trial, 9, START, 3, 0.2);
        let before = trial.clone();
        let schedule = Schedule::by_time(1.0, [1, 2]);
        trial.take(9, START + 600, &outcome(9.0), &schedule, &Terms::default());
        assert_eq!(trial, before);
    }

    #[test]
    fn forgotten_groups_stay_in_the_sums_of_the_host() {
        let terms = Terms {
            groups_max: 4,
            ..Terms::default()
        };
        let (mut trial, schedule) = (Trial::default(), Schedule::by_time(1.0, [1, 2]));
        for group in 0..10 {
            for minute in 0..120 {
                let at_s = START + 7200 * group + 60 * minute;
                trial.take(group, at_s, &outcome(0.0), &schedule, &terms);
            }
        }
        assert_eq!(trial.groups().count(), 4);
        assert!(trial.host.goodput.count >= 10);
    }

    #[test]
    fn it_survives_being_written_and_read() {
        let mut trial = Trial::default();
        run(&mut trial, 9, START, 3, 0.2);
        let text = serde_json::to_string(&trial).unwrap();
        assert_eq!(serde_json::from_str::<Trial>(&text).unwrap(), trial);
    }
}
