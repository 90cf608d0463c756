//! Bounds on claimed certainty: no host is surer than its place makes likely (step 2 of the merge rule).

use tcpilot_learner::gaussian::Information;

use crate::message::MEAN_MAX;
use crate::place::PLACE_SD;

/// A precision is at most this many times the median of those who tried the algorithm. Honest hosts with equal
/// traffic differ less; without a bound one liar outweighs a place.
pub const TIMES_MEDIAN: f64 = 2.0;

/// From so many hosts on there is a median.
pub const MEDIAN_MIN: usize = 3;

/// Without a median a precision is at most 1, in nats⁻², a quarter of the prior's: own connections soon outweigh the
/// claims of one or two hosts, which nobody can check.
pub const PRECISION_ALONE: f64 = 1.0;

/// Without a median a claim in nats is at most this. Good algorithms gain up to 1.3.
pub const GAIN_ALONE: f64 = 1.0;

/// Without a median a warning in nats is at least this. An algorithm that is tried proves a wrong recommendation soon,
/// but one that is never tried proves no wrong warning.
pub const LOSS_ALONE: f64 = -0.3;

/// From this precision on a host has tried an algorithm, in nats⁻²: one connection of each of two algorithms gives
/// about 1.8 with the learner's first guesses of noise, load and spread (1/(2·0.5² + 0.15²)).
pub const TRIED: f64 = 1.0;

/// Part of the trace added before a mean is computed: means are kept where nothing is known in some direction.
const RIDGE: f64 = 1e-4;

/// The middle of some numbers, and the mean of the two middle ones if their count is even; `None` without numbers.
#[must_use]
pub fn median(mut all: Vec<f64>) -> Option<f64> {
    all.sort_by(f64::total_cmp);
    let upper = *all.get(all.len() / 2)?;
    let lower = *all.get((all.len() - 1) / 2)?;
    Some((lower + upper) / 2.0)
}

/// Bounds of the claims about one contrast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// The highest precision, in nats⁻².
    pub precision: f64,
    /// The lowest and the highest mean, in nats.
    pub mean: [f64; 2],
}

impl Bound {
    /// The bound of claims without a median.
    pub const ALONE: Self = Self {
        precision: PRECISION_ALONE,
        mean: [LOSS_ALONE, GAIN_ALONE],
    };

    /// The bound of what a place says: its own width, which no number of hosts averages out.
    pub const OF_PLACE: Self = Self {
        precision: 1.0 / (PLACE_SD * PLACE_SD),
        mean: [-MEAN_MAX, MEAN_MAX],
    };

    fn of_median(middle: f64) -> Self {
        Self {
            precision: TIMES_MEDIAN * middle,
            mean: [-MEAN_MAX, MEAN_MAX],
        }
    }
}

/// The bounds of each contrast for the hosts of one place about one group.
#[must_use]
pub fn bounds<const C: usize>(hosts: &[Information<C>]) -> [Bound; C] {
    std::array::from_fn(|c| {
        let precisions = hosts.iter().map(|host| host.precision[c][c]);
        let tried: Vec<f64> = precisions.filter(|x| *x >= TRIED).collect();
        if tried.len() < MEDIAN_MIN {
            return Bound::ALONE;
        }
        median(tried).map_or(Bound::ALONE, Bound::of_median)
    })
}

/// Shrinks a message to these precisions contrast by contrast, `DΛD`, and keeps its means within theirs. Clipping the
/// trace instead would let a liar speak of algorithms that honest hosts seldom try.
#[must_use]
pub fn clipped<const C: usize>(said: &Information<C>, most: &[Bound; C]) -> Information<C> {
    let shrink: [f64; C] = std::array::from_fn(|c| {
        let (precision, most) = (said.precision[c][c], most[c].precision);
        if precision > most {
            (most / precision).sqrt()
        } else {
            1.0
        }
    });
    let mut ridged = *said;
    let ridge = RIDGE * said.trace() + f64::MIN_POSITIVE;
    (0..C).for_each(|c| ridged.precision[c][c] += ridge);
    let Ok(belief) = ridged.belief() else {
        return Information::NONE; // what is no knowledge at all counts as none
    };
    let mean: [f64; C] = std::array::from_fn(|c| {
        let [lowest, highest] = most[c].mean;
        belief.mean[c].clamp(lowest, highest)
    });
    if shrink.iter().all(|d| *d == 1.0) && mean == belief.mean {
        return *said;
    }
    let mut out = Information::NONE;
    for i in 0..C {
        for j in 0..C {
            out.precision[i][j] = shrink[i] * said.precision[i][j] * shrink[j];
            out.shift[i] += out.precision[i][j] * mean[j];
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn median_of_few_and_of_many() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0]), Some(2.0));
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
    }

    #[test]
    fn a_claim_is_cut_to_twice_the_median() {
        let mut hosts: Vec<_> = [0.5, 0.4, 0.5]
            .map(|sd| Information::<1>::isotropic(0.2, sd))
            .to_vec();
        hosts.push(Information::isotropic(3.0, 0.01));
        let most = bounds(&hosts);
        let most_precision = most[0].precision;
        assert!((most_precision - 2.0 * (4.0 + 6.25) / 2.0).abs() < 1e-9);
        let liar = clipped(&hosts[3], &most);
        assert!((liar.precision[0][0] - most_precision).abs() < 1e-9);
        assert!((liar.shift[0] / liar.precision[0][0] - 3.0).abs() < 1e-3);
        assert_eq!(clipped(&hosts[0], &most), hosts[0]);
    }

    #[test]
    fn an_algorithm_tried_by_few_is_bounded() {
        let hosts = [
            Information::<1>::isotropic(3.0, 0.01),
            Information::isotropic(0.2, 0.5),
        ];
        assert_eq!(bounds(&hosts), [Bound::ALONE]);
    }

    #[test]
    fn without_a_median_warnings_are_weaker_than_praise() {
        for (mean, left) in [(3.0, GAIN_ALONE), (-3.0, LOSS_ALONE), (0.5, 0.5)] {
            let claim = clipped(&Information::<1>::isotropic(mean, 0.01), &[Bound::ALONE]);
            assert!((claim.precision[0][0] - PRECISION_ALONE).abs() < 1e-9);
            assert!((claim.shift[0] - left).abs() < 1e-3, "{mean}: {claim:?}");
        }
    }

    proptest! {
        #[test]
        fn clipping_keeps_means_and_bounds_precision(
            root in prop::array::uniform9(-3.0f64..3.0),
            mean in prop::array::uniform3(-3.0f64..3.0),
            most in prop::array::uniform3(0.5f64..20.0),
        ) {
            let mut said = Information::<3>::NONE;
            for i in 0..3 {
                for j in 0..3 {
                    let dot: f64 = (0..3).map(|k| root[3 * i + k] * root[3 * j + k]).sum();
                    said.precision[i][j] = dot + if i == j { 0.5 } else { 0.0 };
                }
            }
            for i in 0..3 {
                said.shift[i] = (0..3).map(|j| said.precision[i][j] * mean[j]).sum();
            }
            let mean_of = [-MEAN_MAX, MEAN_MAX];
            let bounds = most.map(|precision| Bound { precision, mean: mean_of });
            let clipped = clipped(&said, &bounds);
            let belief = clipped.belief().unwrap();
            for i in 0..3 {
                prop_assert!(clipped.precision[i][i] <= most[i] * (1.0 + 1e-9));
                prop_assert!((belief.mean[i] - mean[i]).abs() < 0.03, "{belief:?} {mean:?}");
            }
        }
    }
}
