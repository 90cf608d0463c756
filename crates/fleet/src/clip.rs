//! Bounds on claimed certainty: no host is surer than its place makes likely (step 2 of the merge rule).

use tcpilot_learner::gaussian::Information;

/// A precision is at most this many times the median of those who tried the algorithm. Honest hosts with equal
/// traffic differ less; without a bound one liar outweighs a place.
pub const TIMES_MEDIAN: f64 = 2.0;

/// From so many hosts on there is a median.
pub const MEDIAN_MIN: usize = 3;

/// Without a median a precision is at most 1/0.3², in nats⁻²: the usual difference between algorithms is known no
/// better than itself.
pub const PRECISION_ALONE: f64 = 1.0 / (0.3 * 0.3);

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

/// The highest precision of each contrast for the hosts of one place about one group.
#[must_use]
pub fn bounds<const C: usize>(hosts: &[Information<C>]) -> [f64; C] {
    std::array::from_fn(|c| {
        let precisions = hosts.iter().map(|host| host.precision[c][c]);
        let tried: Vec<f64> = precisions.filter(|x| *x >= TRIED).collect();
        if tried.len() < MEDIAN_MIN {
            return PRECISION_ALONE;
        }
        median(tried).map_or(PRECISION_ALONE, |middle| TIMES_MEDIAN * middle)
    })
}

/// Shrinks a message to these precisions contrast by contrast, `DΛD`, and keeps its means. Clipping the trace instead
/// would let a liar speak of algorithms that honest hosts seldom try.
#[must_use]
pub fn clipped<const C: usize>(said: &Information<C>, most: &[f64; C]) -> Information<C> {
    let shrink: [f64; C] = std::array::from_fn(|c| {
        let precision = said.precision[c][c];
        if precision > most[c] {
            (most[c] / precision).sqrt()
        } else {
            1.0
        }
    });
    let mut ridged = *said;
    let ridge = RIDGE * said.trace() + f64::MIN_POSITIVE;
    (0..C).for_each(|c| ridged.precision[c][c] += ridge);
    let is_within = shrink.iter().all(|d| *d == 1.0);
    let Some(belief) = ridged.belief().ok().filter(|_| !is_within) else {
        // Nothing to shrink; what is no knowledge at all counts as none.
        return if is_within { *said } else { Information::NONE };
    };
    let mut out = Information::NONE;
    for i in 0..C {
        for j in 0..C {
            out.precision[i][j] = shrink[i] * said.precision[i][j] * shrink[j];
            out.shift[i] += out.precision[i][j] * belief.mean[j];
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
        assert!((most[0] - 2.0 * (4.0 + 6.25) / 2.0).abs() < 1e-9);
        let liar = clipped(&hosts[3], &most);
        assert!((liar.precision[0][0] - most[0]).abs() < 1e-9);
        assert!((liar.shift[0] / liar.precision[0][0] - 3.0).abs() < 1e-3);
        assert_eq!(clipped(&hosts[0], &most), hosts[0]);
    }

    #[test]
    fn an_algorithm_tried_by_few_is_bounded() {
        let hosts = [
            Information::<1>::isotropic(3.0, 0.01),
            Information::isotropic(0.2, 0.5),
        ];
        assert_eq!(bounds(&hosts), [PRECISION_ALONE]);
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
            let clipped = clipped(&said, &most);
            let belief = clipped.belief().unwrap();
            for i in 0..3 {
                prop_assert!(clipped.precision[i][i] <= most[i] * (1.0 + 1e-9));
                prop_assert!((belief.mean[i] - mean[i]).abs() < 0.03, "{belief:?} {mean:?}");
            }
        }
    }
}
