//! The draw of an arm for one connection, by a keyed hash of path and epoch.
//!
//! Overlapping connections of one path get the same arm. Otherwise the learner would compare
//! arms while these fight for one queue, and the greedier one would win although all lose by it (Spang et al.,
//! IMC 2021). Because the number comes from a hash, the draw can be computed again at a connection's
//! end, and nothing has to be stored for it. The BPF programs take arms from the same choice distributions, but keep
//! a path's draw in a table (bpf/pilot/shares.h).

use tcpilot_random::{STEP, mix};

use crate::MAX_ARMS;
use crate::choice::Plan;

/// Shares as the kernel reads them: cumulative, 65535 for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChoiceDist(pub [u16; MAX_ARMS]);

impl ChoiceDist {
    /// The choice distribution of a plan, with the kernel's numbers of the arms. `numbers` has the kernel's number
    /// for each arm, or `None` for an unusable arm. The default gets the share of that arm;
    /// if the default cannot be used, all others get it in proportion. Returns `None` if no arm can be used.
    #[must_use]
    pub fn of(plan: &Plan, numbers: &[Option<u8>]) -> Option<Self> {
        let mut shares = [0.0; MAX_ARMS];
        let mut left: f64 = 0.0;
        let arms = plan.shares.iter().enumerate();
        for (arm, share) in arms {
            match numbers.get(arm).copied().flatten().map(usize::from) {
                Some(number) if number < MAX_ARMS => shares[number] += share,
                _ => left += share,
            }
        }
        let usable = |n: &Option<u8>| n.map(usize::from).filter(|n| *n < MAX_ARMS);
        let first = numbers.iter().find_map(usable)?;
        match numbers.first().and_then(usable) {
            Some(default) => shares[default] += left,
            None if left < 1.0 => shares.iter_mut().for_each(|x| *x /= 1.0 - left),
            None => shares[first] = 1.0,
        }
        Some(Self::new(&shares))
    }

    /// The choice distribution of these shares. The remainder of the rounding goes to the last arm with a share.
    #[must_use]
    pub fn new(shares: &[f64; MAX_ARMS]) -> Self {
        let mut dist = [u16::MAX; MAX_ARMS];
        let mut sum = 0.0;
        let last = shares.iter().rposition(|share| *share > 0.0).unwrap_or(0);
        for (cum, share) in dist.iter_mut().zip(shares).take(last) {
            sum += share;
            *cum = (sum * 65535.0).round().clamp(0.0, 65535.0) as u16;
        }
        Self(dist)
    }

    /// The arm at a uniform number: the first with a cumulative share above it.
    #[must_use]
    pub fn arm(&self, uniform: u16) -> usize {
        let number = uniform.min(u16::MAX - 1);
        self.0
            .iter()
            .take(MAX_ARMS - 1)
            .filter(|cum| **cum <= number)
            .count()
    }

    /// The probability that [`ChoiceDist::arm`] gives `arm`.
    #[must_use]
    pub fn probability(&self, arm: usize) -> f64 {
        let before = if arm == 0 { 0 } else { self.0[arm - 1] };
        f64::from(self.0[arm].saturating_sub(before)) / 65535.0
    }
}

/// The uniform number of a path in an epoch. `path` is the path's hash, `key` the learner's secret.
///
/// Two rounds of the 64-bit finaliser of SplitMix64 (Steele et al., OOPSLA 2014). A peer that does not
/// know the key cannot predict its draws, and one that did would learn only its own arm.
#[must_use]
pub fn uniform(key: u64, path: u64, epoch: u64) -> u16 {
    let mixed = mix(mix(key ^ path).wrapping_add(epoch.wrapping_mul(STEP)) ^ key);
    (mixed >> 48) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn path_draws_once_per_epoch() {
        assert_eq!(uniform(7, 42, 3), uniform(7, 42, 3));
        let different = (0..100)
            .filter(|e| uniform(7, 42, *e) != uniform(7, 42, e + 1))
            .count();
        assert!(different >= 99);
    }

    #[test]
    fn draws_are_uniform_over_epochs_and_over_paths() {
        for by_epoch in [true, false] {
            let mut counts = [0u32; 16];
            for i in 0..16_000 {
                let number = if by_epoch {
                    uniform(1, 9, i)
                } else {
                    uniform(1, i, 9)
                };
                counts[usize::from(number >> 12)] += 1;
            }
            // 1000 each, standard deviation 31
            assert!(counts.iter().all(|n| (850..1150).contains(n)), "{counts:?}");
        }
    }

    #[test]
    fn an_arm_without_a_share_is_never_drawn() {
        let dist = ChoiceDist::new(&[0.02, 0.0, 0.98, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert!((0..=u16::MAX).all(|u| [0, 2].contains(&dist.arm(u))));
        assert_eq!(
            ChoiceDist::new(&[1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]).arm(u16::MAX),
            0
        );
    }

    proptest! {
        #[test]
        fn arm_is_drawn_by_its_share(weights in prop::collection::vec(0.0f64..1.0, 8)) {
            let total: f64 = weights.iter().sum::<f64>() + 1e-3;
            let mut shares = [0.0; MAX_ARMS];
            for (share, weight) in shares.iter_mut().zip(&weights) {
                *share = weight / total;
            }
            shares[0] += 1.0 - shares.iter().sum::<f64>();
            let dist = ChoiceDist::new(&shares);
            let mut counts = [0u32; MAX_ARMS];
            for u in 0..=u16::MAX {
                counts[dist.arm(u)] += 1;
            }
            for arm in 0..MAX_ARMS {
                let drawn = f64::from(counts[arm]) / 65536.0;
                prop_assert!((drawn - shares[arm]).abs() < 4e-5);
                prop_assert!((dist.probability(arm) - shares[arm]).abs() < 4e-5);
            }
        }
    }
}
