//! Whether a shard is worth saying again.
//!
//! Logarithmically many messages suffice for a shared linear bandit (Fan et al., *FedSupLinUCB*, NeurIPS 2023). So a row is said
//! again when its certainty has changed by a fifth, a mean by a fifth of its deviation, or the share of losses with a queue by a
//! fifth of all.

use tcpilot_fleet::age::{OLDEST_S, left};
use tcpilot_fleet::message::VAGUE_SD;
use tcpilot_fleet::{Message, Row, State};
use tcpilot_learner::MAX_ADVANTAGES;
use tcpilot_learner::linalg::{cholesky, solve};

/// The part of a trace, and of a deviation.
const PART: f64 = 0.2;

/// Whether the new shard says something else than the old one, which has aged by `age_s` since. `None` for an old one means
/// that nothing was said.
#[must_use]
pub fn is_changed(old: Option<&State>, new: &State, age_s: f64) -> bool {
    let Some(old) = old else {
        return !new.rows().is_empty();
    };
    let is_alike = old.reward == new.reward
        && old.algorithms() == new.algorithms()
        && old.rows().len() == new.rows().len();
    // The engine deletes what nobody says for a day.
    let is_young = age_s < OLDEST_S / 2.0;
    let Some(left) = left(age_s).filter(|_| is_alike && is_young) else {
        return true;
    };
    let rows = old.rows().iter().zip(new.rows());
    let is_other = |(old, new): (&Row, &Row)| {
        old.group != new.group
            || old.doubt != new.doubt
            || old.losses.differ(new.losses)
            || differ(&old.said, &new.said, left)
    };
    rows.into_iter().any(is_other)
}

fn differ(old: &Message, new: &Message, left: f64) -> bool {
    let n = old.contrasts();
    let trace = |said: &Message| (0..n).map(|i| said.precision(i, i)).sum::<f64>();
    let (old_trace, new_trace) = (left * trace(old), trace(new));
    if (new_trace - old_trace).abs() > PART * old_trace {
        return true;
    }
    let both = means(old).zip(means(new));
    // The deviation with the other contrasts known, the smaller one.
    let deviation = |i| new.precision(i, i).max(VAGUE).sqrt().recip();
    let is_far =
        |i: usize| both.is_none_or(|(old, new)| (new[i] - old[i]).abs() > PART * deviation(i));
    (0..n).any(is_far)
}

/// A precision that is as good as none, in nats⁻².
const VAGUE: f64 = 1.0 / (VAGUE_SD * VAGUE_SD);

fn means(said: &Message) -> Option<[f64; MAX_ADVANTAGES]> {
    let n = said.contrasts();
    let mut factor = [0.0; MAX_ADVANTAGES * MAX_ADVANTAGES];
    let mut means = [0.0; MAX_ADVANTAGES];
    for i in 0..n {
        means[i] = said.shift(i);
        for j in 0..n {
            factor[i * n + j] = said.precision(i, j) + if i == j { VAGUE } else { 0.0 };
        }
    }
    cholesky(&mut factor, n, n).ok()?;
    solve(&factor, n, n, &mut means);
    Some(means)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpilot_fleet::age::HALF_LIFE_S;
    use tcpilot_fleet::{Group, Own};
    use tcpilot_learner::gaussian::Information;

    fn state(rows: &[(u32, f64, f64)]) -> State {
        let mut state = State::new(0, vec!["cubic".into(), "bbr".into()]).unwrap();
        for (i, mean, sd) in rows {
            let group = Group::new(0xffff_0800_0000 + (u128::from(*i) << 8), 0).unwrap();
            let mut own = Own::<1>::default();
            own.add_path(&Information::isotropic(*mean, *sd), 9);
            state.push(own.row(group, 0, 0.0).unwrap()).unwrap();
        }
        state
    }

    #[test]
    fn a_fifth_is_worth_saying() {
        let old = state(&[(1, 0.3, 0.2), (2, 0.1, 0.2)]);
        let changed = |rows: &[_]| is_changed(Some(&old), &state(rows), 0.0);
        assert!(!changed(&[(1, 0.3, 0.2), (2, 0.1, 0.2)]));
        assert!(!changed(&[(1, 0.33, 0.2), (2, 0.1, 0.2)]));
        assert!(changed(&[(1, 0.35, 0.2), (2, 0.1, 0.2)]));
        assert!(changed(&[(1, 0.3, 0.18), (2, 0.1, 0.2)]));
        assert!(changed(&[(1, 0.3, 0.2), (3, 0.1, 0.2)]));
        assert!(changed(&[(1, 0.3, 0.2)]));
    }

    #[test]
    fn ageing_alone_is_not_said() {
        let old = state(&[(1, 0.3, 0.2)]);
        let aged = state(&[(1, 0.3, 0.2 * 2f64.sqrt())]);
        assert!(!is_changed(Some(&old), &aged, HALF_LIFE_S));
        assert!(is_changed(Some(&old), &old, HALF_LIFE_S));
    }

    #[test]
    fn all_is_said_twice_a_day() {
        let old = state(&[(1, 0.3, 0.2)]);
        let aged = state(&[(1, 0.3, 0.4)]);
        assert!(!is_changed(Some(&old), &aged, OLDEST_S / 2.0 - 1.0));
        assert!(is_changed(Some(&old), &aged, OLDEST_S / 2.0));
    }

    #[test]
    fn nothing_is_not_said_at_first() {
        assert!(!is_changed(None, &state(&[]), 0.0));
        assert!(is_changed(None, &state(&[(1, 0.3, 0.2)]), 0.0));
    }
}
