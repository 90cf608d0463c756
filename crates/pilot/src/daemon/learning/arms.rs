//! Translates between the learner's numbers of a policy's algorithms and those of the BPF programs, and
//! between the learner's shares and choice distributions.

use tcpilot_abi::{TP_CLASS_ECN, TP_MAX_ARMS, tp_config};
use tcpilot_learner::{Level, MAX_ARMS};

/// The running sums of the shares in a choice distribution, see `struct tp_choice_dist`.
pub type Upto = [u16; TP_MAX_ARMS as usize];

/// Smaller differences of a share do not count: a choice distribution is not rewritten for them.
const SAME_SHARE: f64 = 1.0 / 256.0;

/// A policy's algorithms. The learner compares all of them with the first, the default. The default is the
/// host's own, if it may be replaced and the policy has it; connections with another default are left alone.
/// Otherwise it is the policy's first replaceable default, another namespace's. Otherwise it is the policy's
/// first algorithm: the learner needs a baseline, and a user who leaves all defaults out does not want them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arms {
    /// The BPF programs' numbers, in the learner's order.
    numbers: Vec<u8>,
    names: Vec<String>,
    /// A mask: bit i is set if the learner's arm i needs ECN.
    needs_ecn: u8,
}

impl Arms {
    /// The algorithms of a policy; `None` if it has none. `names` are in the order of the programs' numbers.
    /// `defaults` are the replaceable defaults, the preferred one first.
    pub fn of_policy(
        abi: &tp_config,
        policy: u8,
        names: &[String],
        defaults: &[String],
    ) -> Option<Arms> {
        let allowed = abi.policy.get(usize::from(policy))?;
        let mut numbers: Vec<u8> = (0..names.len().min(MAX_ARMS) as u8)
            .filter(|arm| allowed.leave_alone == 0 && allowed.arms >> arm & 1 == 1)
            .collect();
        let name = |number: &u8| names[usize::from(*number)].as_str();
        let is_there = |default: &&String| numbers.iter().any(|number| name(number) == *default);
        let default = defaults.iter().find(is_there).map(String::as_str);
        // The sort is stable, so the others keep their order.
        numbers.sort_by_key(|number| Some(name(number)) != default);
        let needs_ecn = (0..).zip(&numbers).fold(0, |bits, (arm, number)| {
            bits | (abi.ecn_arms >> number & 1) << arm
        });
        (!numbers.is_empty()).then(|| Arms {
            names: numbers.iter().map(|n| name(n).to_owned()).collect(),
            numbers,
            needs_ecn,
        })
    }

    /// The number of algorithms.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Their names, in the learner's order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The learner's number of an arm, from the programs' number.
    pub fn of_number(&self, number: u8) -> Option<usize> {
        self.numbers.iter().position(|own| *own == number)
    }

    /// The programs' number of an arm, from the learner's number.
    pub fn number(&self, arm: usize) -> u8 {
        self.numbers[arm]
    }

    /// The shares to draw by at a node. If the class of a node did not negotiate ECN, or the node has no
    /// class, algorithms that need ECN are not drawn: the default gets their share.
    pub fn drawable(&self, shares: &[f64; MAX_ARMS], level: Level, class: u16) -> Vec<f64> {
        let has_ecn = level != Level::Global && u32::from(class) >> TP_CLASS_ECN & 3 != 0;
        let mut drawable = shares[..self.len()].to_vec();
        for arm in 1..self.len() {
            if self.needs_ecn >> arm & 1 == 1 && !has_ecn {
                drawable[0] += std::mem::take(&mut drawable[arm]);
            }
        }
        drawable
    }

    /// A choice distribution's sums, from shares in the learner's order.
    pub fn upto(&self, shares: &[f64]) -> Upto {
        let mut by_number = [0.0; TP_MAX_ARMS as usize];
        for (number, share) in self.numbers.iter().zip(shares) {
            by_number[usize::from(*number)] = *share;
        }
        let last = by_number.iter().rposition(|share| *share > 0.0);
        let mut upto = [u16::MAX; TP_MAX_ARMS as usize];
        let mut sum = 0.0;
        for (entry, share) in upto.iter_mut().zip(by_number).take(last.unwrap_or(0)) {
            sum += share;
            *entry = (sum * f64::from(u16::MAX))
                .round()
                .clamp(0.0, f64::from(u16::MAX)) as u16;
        }
        upto
    }

    /// Shares in the learner's order, from a choice distribution's sums.
    pub fn shares(&self, upto: &Upto) -> Vec<f64> {
        let part = |number: &u8| {
            let at = usize::from(*number);
            let below = at.checked_sub(1).map_or(0, |before| upto[before]);
            f64::from(upto[at].saturating_sub(below)) / f64::from(u16::MAX)
        };
        self.numbers.iter().map(part).collect()
    }

    /// Whether a choice distribution need not be rewritten. Any change of a share to or from 0 counts, even a small
    /// one.
    pub fn is_same(&self, dist: &Upto, other: &Upto) -> bool {
        let same = |(a, b): (f64, f64)| (a - b).abs() < SAME_SHARE && (a > 0.0) == (b > 0.0);
        self.shares(dist)
            .into_iter()
            .zip(self.shares(other))
            .all(same)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn arms(mask: u8, defaults: &str) -> Arms {
        let names = ["cubic", "dctcp", "reno", "bbr"].map(str::to_owned);
        let mut abi = tp_config {
            ecn_arms: 0b0010,
            ..Default::default()
        };
        abi.policy[2].arms = mask;
        let defaults: Vec<String> = defaults.split(' ').map(str::to_owned).collect();
        Arms::of_policy(&abi, 2, &names, &defaults).unwrap()
    }

    /// The rule of the BPF programs: the drawn arm's number is the count of entries up to the draw.
    fn drawn(upto: &Upto, draw: u16) -> u8 {
        upto.iter().filter(|entry| **entry <= draw).count() as u8
    }

    #[test]
    fn first_arm_is_the_preferred_default() {
        assert_eq!(arms(0b1001, "reno cubic").names(), ["cubic", "bbr"]);
        assert_eq!(
            arms(0b1111, "reno").names(),
            ["reno", "cubic", "dctcp", "bbr"]
        );
        assert_eq!(arms(0b1010, "reno").names(), ["dctcp", "bbr"]);
        assert_eq!(arms(0b1111, "reno").of_number(3), Some(3));
        assert_eq!(arms(0b1111, "reno").of_number(2), Some(0));
        assert_eq!(arms(0b1010, "reno").of_number(2), None);
        assert_eq!(
            arms(0b1010, "reno").of_number(tcpilot_abi::TP_NO_ARM as u8),
            None
        );
    }

    #[test]
    fn a_policy_without_algorithms_has_no_learner() {
        let abi = tp_config::default();
        assert_eq!(Arms::of_policy(&abi, 2, &["cubic".to_owned()], &[]), None);
        assert_eq!(Arms::of_policy(&abi, 200, &[], &[]), None);
    }

    #[test]
    fn ecn_arms_need_negotiated_ecn() {
        let arms = arms(0b1111, "cubic"); // cubic, dctcp, reno, bbr
        let mut shares = [0.0; MAX_ARMS];
        shares[..4].copy_from_slice(&[0.1, 0.4, 0.2, 0.3]);
        let classic = 1 << TP_CLASS_ECN;
        assert_eq!(
            arms.drawable(&shares, Level::Path, classic),
            [0.1, 0.4, 0.2, 0.3]
        );
        assert_eq!(arms.drawable(&shares, Level::Path, 0), [0.5, 0.0, 0.2, 0.3]);
        assert_eq!(
            arms.drawable(&shares, Level::Global, classic),
            [0.5, 0.0, 0.2, 0.3]
        );
    }

    #[test]
    fn vanished_share_is_a_change() {
        let arms = arms(0b1101, "cubic");
        let dist = |shares: [f64; 3]| arms.upto(&shares);
        let is_same = |a, b| arms.is_same(&dist(a), &dist(b));
        assert!(is_same([0.5, 0.2, 0.3], [0.502, 0.2, 0.298]));
        assert!(!is_same([0.5, 0.2, 0.3], [0.51, 0.2, 0.29]));
        assert!(!is_same([0.998, 0.002, 0.0], [1.0, 0.0, 0.0]));
    }

    proptest! {
        #[test]
        fn each_arm_is_drawn_by_its_share(
            mask in 1u8..16, weights in prop::collection::vec(0u32..100, 4), default in 0usize..4,
        ) {
            let arms = arms(mask, ["cubic", "dctcp", "reno", "bbr"][default]);
            let mut shares: Vec<f64> = weights[..arms.len()].iter().map(|w| f64::from(*w)).collect();
            let sum: f64 = shares.iter().sum();
            prop_assume!(sum > 0.0);
            shares.iter_mut().for_each(|share| *share /= sum);
            let upto = arms.upto(&shares);
            prop_assert!(upto.is_sorted());
            let mut counts = vec![0u32; arms.len()];
            for draw in 0..u16::MAX {
                let arm = arms.of_number(drawn(&upto, draw));
                prop_assert!(arm.is_some(), "{upto:?} {draw}");
                counts[arm.unwrap()] += 1;
            }
            for (count, share) in counts.iter().zip(&shares) {
                prop_assert!((f64::from(*count) / 65535.0 - share).abs() < 2.0 / 65535.0);
                prop_assert!((*count > 0) == (*share > 0.0));
            }
            for (read, share) in arms.shares(&upto).iter().zip(&shares) {
                prop_assert!((read - share).abs() < 2.0 / 65535.0);
            }
        }
    }
}
