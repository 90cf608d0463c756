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
        let sd = pairs.moments().map_or(GUESSED_SD, |(_, sd)| sd);
        let Some(found) = pairs.interval(sequence) else {
            return insufficient(pairs, sequence, least_effect, GUESSED_SD.max(sd));
        };
        let Interval { low, high, .. } = found;
        match (low > 0.0, high < 0.0) {
            (true, _) if aim == Aim::Up => Verdict::Better,
            (_, true) if aim == Aim::Down => Verdict::Better,
            (false, false) if high - low <= 2.0 * least_effect => Verdict::NotShown,
            (false, false) => insufficient(pairs, sequence, least_effect, sd),
            _ => Verdict::Worse,
        }
    }
}

/// Standard deviation of a pair's difference in nats, until there is a better guess: two blocks, whose means vary
/// by 0.3 each.
const GUESSED_SD: f64 = 0.42;

fn insufficient(pairs: &Pairs, sequence: &Sequence, least_effect: f64, sd: f64) -> Verdict {
    let needed = sequence.samples_for(least_effect, sd);
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
