//! The meaning of an interval, in a word.

use serde::{Deserialize, Serialize};

use crate::{
    pairs::Pairs,
    sequence::{Interval, Sequence},
};

/// Whether a higher or a lower outcome is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Aim {
    /// More is better, such as goodput.
    Up,
    /// Less is better, such as time to complete or retransmissions.
    Down,
}

/// The result of the trial.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The interval lies on the good side of zero.
    Better,
    /// It lies on the bad side.
    Worse,
    /// The interval holds zero, and is narrow enough to show an effect worth having.
    NotShown,
    /// It holds zero, or there is none yet, and an effect worth having may still hide in it.
    Insufficient {
        /// About so many more pairs are needed.
        pairs_missing: u64,
    },
}

impl Verdict {
    /// The verdict on sums of pairs. `least_effect` is the least effect worth having, such as 0.05 for 5 %.
    #[must_use]
    pub fn of(pairs: &Pairs, sequence: &Sequence, aim: Aim, least_effect: f64) -> Verdict {
        let Some(Interval { low, high, .. }) = pairs.interval(sequence) else {
            return insufficient(pairs, sequence, least_effect);
        };
        match (low > 0.0, high < 0.0) {
            (true, _) if aim == Aim::Up => Verdict::Better,
            (_, true) if aim == Aim::Down => Verdict::Better,
            (false, false) if high - low <= 2.0 * least_effect => Verdict::NotShown,
            (false, false) => insufficient(pairs, sequence, least_effect),
            _ => Verdict::Worse,
        }
    }
}

/// Standard deviation of a pair's difference until there is a better guess, in least effects worth having: two blocks,
/// whose means of ln goodput vary by 0.3 each, and 5 % is worth having.
const GUESSED_SD: f64 = 0.42 / 0.05;

/// The guess counts as so many pairs.
const GUESS_PAIRS: f64 = 4.0;

/// Standard deviation of true effects over hosts, in least effects worth having. The effect so far is mostly luck while
/// its own deviation is larger.
const USUAL_EFFECT: f64 = 0.2 / 0.05;

/// How many pairs are missing if the effect stays as it was so far: until zero is outside of the interval, or the
/// interval is too narrow for an effect worth having.
fn insufficient(pairs: &Pairs, sequence: &Sequence, least_effect: f64) -> Verdict {
    let n = pairs.count as f64;
    let (mean, sd) = pairs.moments().unwrap_or_default();
    let guessed = (GUESSED_SD * least_effect).powi(2);
    let others = (n - 1.0).max(0.0);
    let variance = (GUESS_PAIRS * guessed + others * sd * sd) / (GUESS_PAIRS + others);
    let usual = (USUAL_EFFECT * least_effect).powi(2);
    let credible = usual / (usual + variance / n.max(1.0));
    let shown = (mean * credible).abs().max(least_effect);
    let needed = sequence.samples_for(shown, variance.sqrt());
    Verdict::Insufficient {
        pairs_missing: needed.saturating_sub(pairs.count).max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairs::Pair;

    /// Differences alternating around a mean.
    fn pairs(count: u64, mean: f64, swing: f64) -> Pairs {
        let mut pairs = Pairs::default();
        for i in 0..count {
            let difference = if i % 2 == 0 {
                mean + swing
            } else {
                mean - swing
            };
            pairs.add(Pair {
                difference,
                covariate: 0.0,
            });
        }
        pairs
    }

    fn verdict(pairs: &Pairs, aim: Aim) -> Verdict {
        Verdict::of(pairs, &Sequence::default(), aim, 0.05)
    }

    #[test]
    fn clear_effect_is_better_or_worse() {
        let gain = pairs(400, 0.2, 0.3);
        assert_eq!(verdict(&gain, Aim::Up), Verdict::Better);
        assert_eq!(verdict(&gain, Aim::Down), Verdict::Worse);
        let loss = pairs(400, -0.2, 0.3);
        assert_eq!(verdict(&loss, Aim::Up), Verdict::Worse);
        assert_eq!(verdict(&loss, Aim::Down), Verdict::Better);
    }

    #[test]
    fn no_effect_is_not_shown_with_enough_pairs() {
        assert_eq!(verdict(&pairs(4000, 0.0, 0.3), Aim::Up), Verdict::NotShown);
    }

    #[test]
    fn large_effect_so_far_needs_few_pairs_more() {
        let missing = |mean| match verdict(&pairs(27, mean, 0.5), Aim::Up) {
            Verdict::Insufficient { pairs_missing } => pairs_missing,
            verdict => panic!("{verdict:?}"),
        };
        // The least effect worth having takes hundreds of pairs at this deviation, +33 % takes some twenty more.
        assert!(missing(0.0) > 500, "{}", missing(0.0));
        assert!((5..60).contains(&missing(0.29)), "{}", missing(0.29));
    }

    #[test]
    fn shares_are_not_guessed_as_if_they_were_nats() {
        let known = Pairs::default();
        let of = |least| Verdict::of(&known, &Sequence::default(), Aim::Down, least);
        assert_eq!(of(0.005), of(0.05));
    }

    #[test]
    fn too_little_says_how_much_is_missing() {
        let Verdict::Insufficient { pairs_missing } = verdict(&pairs(100, 0.0, 0.3), Aim::Up)
        else {
            panic!("100 pairs cannot show 5 %");
        };
        // Measurements and simulation need some 500 pairs for 5 % at this deviation.
        assert!((200..700).contains(&pairs_missing), "{pairs_missing}");
        assert!(matches!(
            verdict(&Pairs::default(), Aim::Up),
            Verdict::Insufficient { .. }
        ));
    }
}
