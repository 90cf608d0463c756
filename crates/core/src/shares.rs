//! How often each arm would be drawn now: the learner's choice as probabilities, for people to see.
//!
//! The same rule as `tp_choose` in `bpf/core/learn.h`, which decides; `crates/core` holds the
//! two together.

use tcpilot_abi::{TP_MAX_ARMS, tp_arm, tp_config, tp_path};

/// Number of arms that a path has room for.
pub const MAX_ARMS: usize = TP_MAX_ARMS as usize;

/// The probability, 0 to 1, with which the next connection on this path gets each arm.
///
/// `eligible` has bit i set where arm i may be chosen. Without ECN or under another policy fewer are
/// eligible, so this is the share among connections that are alike. The sum is 1, or less where the
/// kernel's default stays: it is 0 while there were too few connections to learn from.
pub fn shares(config: &tp_config, path: &tp_path, eligible: u8) -> [f64; MAX_ARMS] {
    let mut share = [0.0; MAX_ARMS];
    if eligible == 0 || path.instances < config.min_instances {
        return share;
    }
    let explore = if config.epsilon == 0 {
        0.0
    } else {
        1.0 / f64::from(config.epsilon)
    };
    spread(&mut share, eligible, explore);
    spread(&mut share, best(config, path, eligible), 1.0 - explore);
    share
}

/// The arms among which all but one in epsilon connections draw, as bits: those without a sample that
/// are still hopeful, else those of least cost; 0 where none has any evidence.
pub fn best(config: &tp_config, path: &tp_path, eligible: u8) -> u8 {
    let hopeful = |arm: &tp_arm| arm.samples == 0 && arm.unpaid < config.max_unpaid;
    let untried = select(path, eligible, hopeful);
    if untried != 0 {
        return untried;
    }
    let sampled = select(path, eligible, |arm| arm.samples > 0);
    let least = members(sampled).map(|i| path.arms[i].cost).min();
    select(path, sampled, |arm| Some(arm.cost) == least)
}

fn select(path: &tp_path, among: u8, wanted: impl Fn(&tp_arm) -> bool) -> u8 {
    members(among)
        .filter(|i| wanted(&path.arms[*i]))
        .fold(0, |mask, i| mask | 1 << i)
}

fn members(mask: u8) -> impl Iterator<Item = usize> {
    (0..MAX_ARMS).filter(move |i| mask >> i & 1 == 1)
}

fn spread(share: &mut [f64; MAX_ARMS], among: u8, probability: f64) {
    for i in members(among) {
        share[i] += probability / f64::from(among.count_ones());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> tp_config {
        tp_config {
            epsilon: 20,
            min_instances: 3,
            max_unpaid: 3,
            ..Default::default()
        }
    }

    fn path(costs: [u64; 4]) -> tp_path {
        let mut path = tp_path {
            instances: 10,
            ..Default::default()
        };
        for (arm, cost) in path.arms.iter_mut().zip(costs) {
            arm.cost = cost;
            arm.samples = 1;
        }
        path
    }

    #[test]
    fn the_cheapest_gets_all_but_epsilon() {
        let share = shares(&config(), &path([5, 1, 9, 7]), 0b1111);
        assert!((share[1] - (0.95 + 0.0125)).abs() < 1e-12);
        assert!((share[0] - 0.0125).abs() < 1e-12);
        assert!((share.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!(share[4].abs() < 1e-12);
    }

    #[test]
    fn untried_arms_share_what_is_not_exploration() {
        let mut path = path([5, 1, 9, 7]);
        path.arms[0].samples = 0;
        path.arms[3].samples = 0;
        let share = shares(&config(), &path, 0b1111);
        assert!((share[0] - (0.475 + 0.0125)).abs() < 1e-12);
        assert!((share[0] - share[3]).abs() < 1e-12);
    }

    #[test]
    fn few_instances_leave_everything_to_the_kernels_default() {
        let mut path = path([5, 1, 9, 7]);
        path.instances = 2;
        assert!(
            shares(&config(), &path, 0b1111)
                .iter()
                .all(|share| *share == 0.0)
        );
    }

    #[test]
    fn an_ineligible_arm_has_no_share() {
        let share = shares(&config(), &path([5, 1, 9, 7]), 0b0101);
        assert!(share[1] == 0.0 && share[0] > 0.9);
    }

    #[test]
    fn without_evidence_only_exploration_remains() {
        let mut path = path([0; 4]);
        for arm in &mut path.arms {
            arm.samples = 0;
            arm.unpaid = 3;
        }
        assert!((shares(&config(), &path, 0b1111).iter().sum::<f64>() - 0.05).abs() < 1e-12);
    }
}
