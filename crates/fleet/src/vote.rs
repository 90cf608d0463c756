//! What each host of a place believes about a group, and the place's middle (step 3 of the merge rule).
//!
//! If only a few hosts have tried an algorithm, liars can be the majority of those. So if fewer than half have tried
//! it, every host votes, and a host without experience votes for the learner's prior.

use tcpilot_learner::gaussian::Information;

use crate::clip::{MEDIAN_MIN, TRIED, median};
use crate::message::VAGUE_SD;

/// Mean of the learner's prior, in nats (`Model::prior_mean`).
pub const PRIOR_MEAN: f64 = -0.1;

/// Standard deviation of the learner's prior, in nats (`Model::prior_sd`).
pub const PRIOR_SD: f64 = 0.5;

/// A vote's variance is below it, in nats²: a vaguer one says no more than the prior.
pub const VARIANCE_MAX: f64 = PRIOR_SD * PRIOR_SD;

/// The part of the hosts that must have tried an algorithm, or all of them vote.
pub const QUORUM: f64 = 0.5;

/// Variance of the median of normal numbers against that of their mean, for many of them (Kendall and Stuart,
/// *The Advanced Theory of Statistics* 1, 14.12).
const MEDIAN_LOSS: f64 = std::f64::consts::FRAC_PI_2;

/// A mean and its variance, in nats and nats².
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Vote {
    /// Nats.
    pub mean: f64,
    /// Nats squared.
    pub variance: f64,
}

impl Vote {
    /// Whether it is surer than the prior: its host has tried the algorithm.
    #[must_use]
    pub fn is_tried(&self) -> bool {
        self.variance < VARIANCE_MAX
    }

    /// Whether it is sure enough to tell something of its host: a vaguer one shows the vague prior.
    #[must_use]
    pub fn is_witness(&self) -> bool {
        self.variance < 1.0 / TRIED
    }
}

/// The votes of a place's hosts about one group.
#[derive(Clone, Debug)]
pub struct Votes<const C: usize> {
    /// What each host is judged by, for each contrast, in the hosts' order. Even a vague claim is here: if it were not
    /// judged, a liar would count in full by claiming little.
    pub of: Vec<[Option<Vote>; C]>,
    /// The unweighted median by contrast, with its variance; `None` with fewer than [`MEDIAN_MIN`] votes.
    pub centre: [Option<Vote>; C],
}

/// Means and variances of knowledge together with a prior.
fn with_prior<const C: usize>(known: &Information<C>, mean: f64, sd: f64) -> [Option<Vote>; C] {
    let mut all = Information::isotropic(mean, sd);
    all.add(known, 1.0);
    let belief = all.belief().ok();
    std::array::from_fn(|c| {
        let belief = belief.as_ref()?;
        let (mean, variance) = (belief.mean[c], belief.variance(c));
        Some(Vote { mean, variance })
    })
}

/// A message's means and variances by itself.
fn alone<const C: usize>(said: &Information<C>) -> [Option<Vote>; C] {
    with_prior(said, 0.0, VAGUE_SD)
}

/// A message's means and variances by itself, for the contrasts that it says anything of.
#[must_use]
pub fn known<const C: usize>(said: &Information<C>) -> [Option<Vote>; C] {
    alone(said).map(|vote| vote.filter(Vote::is_witness))
}

/// The hosts' votes. All of `hosts` have some knowledge of the group.
#[must_use]
pub fn votes<const C: usize>(hosts: &[Information<C>]) -> Votes<C> {
    let alone: Vec<_> = hosts.iter().map(alone).collect();
    let prior = |host| with_prior(host, PRIOR_MEAN, PRIOR_SD);
    let prior: Vec<_> = hosts.iter().map(prior).collect();
    let mut votes = Votes {
        of: vec![[None; C]; hosts.len()],
        centre: [None; C],
    };
    for c in 0..C {
        let tried = |of: &[Option<Vote>; C]| of[c].filter(Vote::is_tried);
        let count = alone.iter().filter_map(tried).count();
        let has_quorum = count as f64 >= QUORUM * hosts.len() as f64;
        for (host, of) in votes.of.iter_mut().enumerate() {
            of[c] = if has_quorum {
                alone[host][c]
            } else {
                prior[host][c].map(capped)
            };
        }
        let counted: Vec<Vote> = if has_quorum {
            alone.iter().filter_map(tried).collect()
        } else {
            votes.of.iter().filter_map(|of| of[c]).collect()
        };
        votes.centre[c] = middle(counted);
    }
    votes
}

fn capped(vote: Vote) -> Vote {
    Vote {
        variance: vote.variance.min(VARIANCE_MAX),
        ..vote
    }
}

/// Median of the votes, each counting once: a claimed certainty has no weight here.
fn middle(votes: Vec<Vote>) -> Option<Vote> {
    if votes.len() < MEDIAN_MIN {
        return None;
    }
    let count = votes.len() as f64;
    let variance = median(votes.iter().map(|vote| vote.variance).collect())?;
    Some(Vote {
        mean: median(votes.iter().map(|vote| vote.mean).collect())?,
        variance: MEDIAN_LOSS * variance / count,
    })
}

/// Whether a host has any knowledge of a group.
#[must_use]
pub fn is_known<const C: usize>(said: &Information<C>) -> bool {
    (0..C).any(|c| said.precision[c][c] >= TRIED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpilot_learner::Settings;

    #[test]
    fn the_prior_is_the_learners() {
        let model = Settings::default().model;
        assert_eq!((PRIOR_MEAN, PRIOR_SD), (model.prior_mean, model.prior_sd));
    }

    /// Ten hosts: `tried` of them say this mean of the second contrast, and all know the first.
    fn hosts(tried: usize, mean: f64) -> Vec<Information<2>> {
        let host = |i: usize| {
            let mut known = Information::isotropic(0.3, 0.2);
            known.precision[1][1] = if i < tried { 100.0 } else { 0.0 };
            known.shift[1] = mean * known.precision[1][1];
            known
        };
        (0..10).map(host).collect()
    }

    #[test]
    fn below_the_quorum_all_hosts_vote() {
        let few = votes(&hosts(4, 3.0));
        assert!(
            few.of
                .iter()
                .all(|of| of[1].unwrap().variance <= VARIANCE_MAX)
        );
        assert!((few.centre[1].unwrap().mean - PRIOR_MEAN).abs() < 1e-9);
        let half = votes(&hosts(5, 3.0));
        let tried = half.of.iter().filter(|of| of[1].unwrap().is_tried());
        assert_eq!(tried.count(), 5);
        assert!((half.centre[1].unwrap().mean - 3.0).abs() < 0.01);
    }

    #[test]
    fn two_hosts_have_no_middle() {
        let two = &hosts(10, 0.5)[..2];
        assert_eq!(votes(two).centre, [None; 2]);
    }

    #[test]
    fn certainty_does_not_move_the_middle() {
        let mut some = hosts(10, 0.5);
        some[0] = Information::isotropic(3.0, 0.001);
        let centre = votes(&some).centre;
        assert!((centre[0].unwrap().mean - 0.3).abs() < 0.01);
        assert!((centre[1].unwrap().mean - 0.5).abs() < 0.01);
    }
}
