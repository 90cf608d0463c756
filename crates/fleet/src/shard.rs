//! A state in parts: the engine's values are bounded, and only changed parts travel.
//!
//! All groups of a site are in one shard. A shard is a state by itself.

use crate::format::check_sum;
use crate::{Group, Refusal, State};

/// Shards of a state; twice as many if one of them is too large for the engine.
pub const SHARDS: u16 = 64;

/// Shards of the largest state: 65,536 rows of eight algorithms need 128.
pub const SHARDS_MAX: u16 = 4096;

/// Whether a state may have so many shards.
#[must_use]
pub fn is_count(shards: u16) -> bool {
    shards.is_power_of_two() && (SHARDS..=SHARDS_MAX).contains(&shards)
}

/// The shard of a group, by a hash of its site's prefix (/16, /32).
#[must_use]
pub fn shard_of(group: &Group, shards: u16) -> u16 {
    let site = group.site().prefix.to_be_bytes();
    (check_sum(&site) % u64::from(shards.max(1))) as u16
}

/// The part of [`SHARDS`] that has a shard of any number of shards: their numbers are powers of two.
#[must_use]
pub fn part_of(number: u16) -> u16 {
    number % SHARDS
}

/// A state's shards, each with the state's own head.
#[must_use]
pub fn split(state: &State, shards: u16) -> Vec<State> {
    let mut all = vec![state.empty(); usize::from(shards.max(1))];
    for row in state.rows() {
        if let Some(shard) = all.get_mut(usize::from(shard_of(&row.group, shards))) {
            // Neither can fail: the rows come in order, and are of this state's algorithms.
            let _ = shard.push(*row);
        }
    }
    all
}

/// Checks that all rows of a shard belong to it. Otherwise one host could say a group twice.
///
/// # Errors
/// [`Refusal::Misplaced`].
pub fn check(shard: &State, number: u16, shards: u16) -> Result<(), Refusal> {
    let is_here = |row: &crate::Row| shard_of(&row.group, shards) == number;
    let is_right = shard.rows().iter().all(is_here);
    is_right.then_some(()).ok_or(Refusal::Misplaced)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Own;
    use tcpilot_learner::gaussian::Information;

    fn state(groups: u32) -> State {
        let mut own = Own::<1>::default();
        own.add_path(&Information::isotropic(0.2, 0.3), 5);
        let mut state = State::new(7, vec!["cubic".into(), "bbr".into()]).unwrap();
        (state.boot, state.sequence) = (3, 9);
        for i in 0..groups {
            let prefix = 0xffff_0100_0000 + (u128::from(i) << 8);
            let group = Group::new(prefix, 0).unwrap();
            state.push(own.row(group, 0, 0.0).unwrap()).unwrap();
        }
        state
    }

    #[test]
    fn shards_have_each_row_once() {
        let state = state(3000);
        let shards = split(&state, SHARDS);
        let mut groups: Vec<Group> = Vec::new();
        for (number, shard) in shards.iter().enumerate() {
            assert_eq!((shard.boot, shard.sequence, shard.reward), (3, 9, 7));
            assert_eq!(check(shard, number as u16, SHARDS), Ok(()));
            groups.extend(shard.rows().iter().map(|row| row.group));
        }
        groups.sort();
        let all: Vec<Group> = state.rows().iter().map(|row| row.group).collect();
        assert_eq!(groups, all);
    }

    #[test]
    fn groups_of_a_site_share_a_shard() {
        let shards = split(&state(256), SHARDS);
        let used = shards.iter().filter(|shard| !shard.rows().is_empty());
        assert_eq!(used.count(), 1);
    }

    #[test]
    fn sites_spread_over_shards() {
        let shards = split(&state(256 * 640), SHARDS);
        let most = shards.iter().map(|shard| shard.rows().len()).max();
        assert!(most.unwrap() < 256 * 25, "{most:?}"); // ten sites on average
    }

    #[test]
    fn rows_of_another_shard_are_refused() {
        let shards = split(&state(3000), SHARDS);
        let full = shards.iter().position(|shard| !shard.rows().is_empty());
        let number = full.unwrap() as u16;
        let other = (number + 1) % SHARDS;
        assert_eq!(
            check(&shards[usize::from(number)], other, SHARDS),
            Err(Refusal::Misplaced)
        );
    }
}
