//! One place's knowledge of one group, from its hosts (step 5 of the merge rule).

use tcpilot_learner::gaussian::Information;

use crate::vote::{Vote, Votes};

/// Tukey's biweight rejects from so many standard deviations on. At this value it is 95 % as efficient as the mean if
/// all are normal (Beaton and Tukey, *Technometrics* 16, 1974).
pub const REJECT_SD: f64 = 4.685;

/// Standard deviation within a place that no number of hosts averages out, in nats.
pub const PLACE_SD: f64 = 0.05;

/// The part by which a host counts: 1 at the place's middle, 0 if one contrast is [`REJECT_SD`] away. `width` is the
/// host's (`Pairs::host`).
#[must_use]
pub fn biweight<const C: usize>(
    votes: &[Option<Vote>; C],
    centre: &[Option<Vote>; C],
    width: f64,
) -> f64 {
    let far = votes.iter().zip(centre).filter_map(|(vote, centre)| {
        let (vote, centre) = ((*vote)?, (*centre)?);
        Some((vote.mean - centre.mean).abs() / (vote.variance + width * width).sqrt())
    });
    let ratio = far.fold(0.0, f64::max) / REJECT_SD;
    (1.0 - ratio * ratio).max(0.0).powi(2)
}

/// What a place says of a group: `T(Σ weight · T(L, width), 0.05)`. `heard` has each host's message, clipped, its number
/// in `votes`, and its width.
#[must_use]
pub fn merged<const C: usize>(
    heard: &[(&Information<C>, usize, f64)],
    votes: &Votes<C>,
) -> Information<C> {
    let mut sum = Information::NONE;
    for (said, number, width) in heard {
        let Some(own) = votes.of.get(*number) else {
            continue;
        };
        // A message that cannot pass a spread is no knowledge.
        if let Ok(told) = said.through(*width) {
            sum.add(&told, biweight(own, &votes.centre, *width));
        }
    }
    sum.through(PLACE_SD).unwrap_or(Information::NONE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vote::votes;

    fn vote(mean: f64, variance: f64) -> [Option<Vote>; 1] {
        [Some(Vote { mean, variance })]
    }

    #[test]
    fn biweight_falls_from_one_to_zero() {
        let centre = vote(0.0, 0.01);
        assert_eq!(biweight(&vote(0.0, 0.1), &centre, 0.1), 1.0);
        let sd = (0.1f64 + 0.01).sqrt();
        let half = biweight(&vote(REJECT_SD * sd / 2.0, 0.1), &centre, 0.1);
        assert!((half - 0.5625).abs() < 1e-9, "{half}");
        assert_eq!(biweight(&vote(5.0, 0.1), &centre, 0.1), 0.0);
        assert_eq!(biweight(&vote(5.0, 0.1), &[None], 0.1), 1.0);
    }

    #[test]
    fn many_hosts_leave_the_places_width() {
        let hosts = vec![Information::<1>::isotropic(0.4, 0.2); 1000];
        let all = votes(&hosts);
        let heard: Vec<_> = hosts
            .iter()
            .enumerate()
            .map(|(i, x)| (x, i, 0.03))
            .collect();
        let belief = merged(&heard, &all).belief().unwrap();
        assert!((belief.mean[0] - 0.4).abs() < 1e-9);
        let variance = PLACE_SD * PLACE_SD + (0.04 + 0.0009) / 1000.0;
        assert!((belief.variance(0) - variance).abs() < 1e-9);
    }
}
