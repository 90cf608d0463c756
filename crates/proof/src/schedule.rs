//! Decides which group of paths is steered when.
//!
//! Two designs. *By prefix*: a share of all prefixes is held out for a week, then others. It needs many
//! prefixes without a common queue. *By time*: an hour is two blocks of half an hour, one steered and one
//! not, and a coin decides which comes first. Both follow from a keyed hash of group and time, so nothing is
//! stored, a restart changes nothing, and no peer can choose to be held out.

use serde::{Deserialize, Serialize};
use tcpilot_random::first;

/// The group of a connection starting now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arm {
    /// Steered, and no part of a trial.
    Free,
    /// Steered, in a block of a pair.
    Treated,
    /// Held out: no choice, no rescue, no tuning.
    Control,
    /// Treated or held out by its block, but too near the block's beginning or end to count: it shares queues
    /// with connections of the block before or after.
    Settling,
}

/// How groups are divided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    /// Length of a block in seconds; a pair is two blocks.
    pub block_s: u64,
    /// Uncounted seconds at the beginning and end of a block. A connection opened at the end mostly ends
    /// among connections of the next block. With an algorithm that takes from its neighbours, both ends of a
    /// block look like a gain.
    pub settle_s: u64,
    /// Share of hours with a pair, 0 to 1. Half of such an hour is not steered.
    pub paired: f64,
    /// Share of prefixes held out for a period, 0 to 1.
    pub held_out: f64,
    /// Seconds after which other prefixes are held out.
    pub period_s: u64,
    /// Secret of this host.
    pub secret: [u64; 2],
}

const WEEK_S: u64 = 7 * 24 * 3600;
/// A week may begin at any time; this one begins on a Monday (1970-01-05) at 0 h UTC.
const MONDAY_S: u64 = 4 * 24 * 3600;

/// Uses of the hash with independent results.
#[derive(Clone, Copy)]
enum Use {
    Paired = 1,
    Order = 2,
    HeldOut = 3,
    Lot = 4,
}

impl Schedule {
    /// A trial by time: `paired` hours in one have a pair. Its blocks are half an hour long, with two
    /// uncounted minutes at each end.
    #[must_use]
    pub fn by_time(paired: f64, secret: [u64; 2]) -> Schedule {
        Schedule {
            block_s: 1800,
            settle_s: 120,
            paired,
            held_out: 0.0,
            period_s: WEEK_S,
            secret,
        }
    }

    /// A trial by prefix.
    #[must_use]
    pub fn by_prefix(held_out: f64, secret: [u64; 2]) -> Schedule {
        Schedule {
            paired: 0.0,
            held_out,
            ..Schedule::by_time(0.0, secret)
        }
    }

    /// The treatment of a connection of a group at a time, in seconds since 1970 UTC.
    #[must_use]
    pub fn arm(&self, group: u64, at_s: u64) -> Arm {
        if self.is_by_prefix() {
            return match self.is_held_out(group, at_s) {
                _ if self.is_settling(since_monday_s(at_s), self.period_s) => Arm::Settling,
                true => Arm::Control,
                false => Arm::Treated,
            };
        }
        let Some(block) = self.block(group, at_s) else {
            return Arm::Free;
        };
        if self.is_settling(at_s, self.block_s) {
            Arm::Settling
        } else if block.treated {
            Arm::Treated
        } else {
            Arm::Control
        }
    }

    /// Whether a connection is steered, counted or not.
    #[must_use]
    pub fn steers(&self, group: u64, at_s: u64) -> bool {
        !self.is_held_out(group, at_s) && self.block(group, at_s).is_none_or(|b| b.treated)
    }

    /// Whether whole prefixes are held out.
    #[must_use]
    pub fn is_by_prefix(&self) -> bool {
        self.held_out > 0.0
    }

    /// The number of the pair or period at a time; compared blocks have the same number.
    #[must_use]
    pub fn number(&self, at_s: u64) -> u64 {
        if self.is_by_prefix() {
            since_monday_s(at_s) / self.period_s.max(1)
        } else {
            at_s / (2 * self.block_s.max(1))
        }
    }

    /// Numbers below this one are over, and so is a block's length after them: most of their connections have
    /// ended, and the others are ignored.
    #[must_use]
    pub fn over(&self, now_s: u64) -> u64 {
        self.number(now_s.saturating_sub(self.block_s))
    }

    /// Seconds until the blocks change, or begin or end to count.
    #[must_use]
    pub fn next_change_s(&self, now_s: u64) -> u64 {
        let (length_s, age_s) = if self.is_by_prefix() {
            (self.period_s.max(1), since_monday_s(now_s))
        } else {
            (self.block_s.max(1), now_s)
        };
        let age_s = age_s % length_s;
        let changes = [self.settle_s, length_s.saturating_sub(self.settle_s)];
        let next = changes
            .into_iter()
            .filter(|at_s| (age_s + 1..length_s).contains(at_s));
        next.min().unwrap_or(length_s) - age_s
    }

    /// The order in which groups are dealt out for comparison; each period has a new one.
    #[must_use]
    pub fn lot(&self, group: u64, number: u64) -> f64 {
        self.chance(Use::Lot, group, number)
    }

    /// Whether a time is near an end of a block, or period, of this length.
    fn is_settling(&self, at_s: u64, length_s: u64) -> bool {
        let age_s = at_s % length_s.max(1);
        age_s < self.settle_s || age_s + self.settle_s >= length_s.max(1)
    }

    fn is_held_out(&self, group: u64, at_s: u64) -> bool {
        self.is_by_prefix() && self.chance(Use::HeldOut, group, self.number(at_s)) < self.held_out
    }

    fn block(&self, group: u64, at_s: u64) -> Option<Block> {
        let pair = self.number(at_s);
        if self.paired <= 0.0 || self.chance(Use::Paired, group, pair) >= self.paired {
            return None;
        }
        let second = at_s / self.block_s.max(1) % 2 == 1;
        let treated_first = self.chance(Use::Order, group, pair) < 0.5;
        Some(Block {
            treated: second != treated_first,
        })
    }

    /// A number from 0 to below 1.
    fn chance(&self, what: Use, group: u64, time: u64) -> f64 {
        let mut state = self.secret[0] ^ first(group ^ self.secret[1]);
        state = first(state ^ time);
        state = first(state ^ self.secret[1].wrapping_mul(what as u64));
        (state >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn since_monday_s(at_s: u64) -> u64 {
    at_s.saturating_sub(MONDAY_S)
}

struct Block {
    treated: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: [u64; 2] = [7, 11];
    const NOW: u64 = 1_795_000_000;

    #[test]
    fn pairs_have_both_kinds_in_both_orders() {
        let schedule = Schedule::by_time(1.0, SECRET);
        let mut treated_first = 0;
        for group in 0..1000 {
            let start = schedule.number(NOW) * 3600;
            let [one, two] = [start, start + 1800].map(|at| schedule.steers(group, at));
            assert_ne!(one, two);
            treated_first += u32::from(one);
            assert_eq!(schedule.number(start), schedule.number(start + 3599));
        }
        assert!((430..570).contains(&treated_first), "{treated_first}");
    }

    #[test]
    fn the_ends_of_a_block_do_not_count() {
        let schedule = Schedule::by_time(1.0, SECRET);
        let start = schedule.number(NOW) * 3600;
        for end in [0, 119, 1680, 1799, 1800, 1919, 3599] {
            assert_eq!(schedule.arm(1, start + end), Arm::Settling, "{end}");
        }
        for inside in [120, 1679, 1920, 3479] {
            assert_ne!(schedule.arm(1, start + inside), Arm::Settling, "{inside}");
        }
        let all = Schedule {
            settle_s: 0,
            ..schedule
        };
        for second in [0, 1799, 1800, 3599] {
            assert_ne!(all.arm(1, start + second), Arm::Settling, "{second}");
        }
    }

    #[test]
    fn the_price_is_what_was_asked_for() {
        // One hour in ten is a pair, half of it is not steered: 5 %.
        let schedule = Schedule::by_time(0.1, SECRET);
        let hours = (0..200u64).flat_map(|g| (0..100u64).map(move |h| (g, NOW + 1800 * h)));
        let free = hours.filter(|&(g, at)| !schedule.steers(g, at)).count() as f64 / 20_000.0;
        assert!((0.043..0.057).contains(&free), "{free}");
        let schedule = Schedule::by_prefix(0.05, SECRET);
        let held = (0..20_000).filter(|&g| !schedule.steers(g, NOW)).count() as f64 / 20_000.0;
        assert!((0.045..0.055).contains(&held), "{held}");
    }

    #[test]
    fn held_out_prefixes_change_each_week() {
        let schedule = Schedule::by_prefix(0.5, SECRET);
        let monday = (NOW - MONDAY_S) / WEEK_S * WEEK_S + MONDAY_S;
        let held = |at| {
            (0..256)
                .map(|g| !schedule.steers(g, at))
                .collect::<Vec<_>>()
        };
        assert_eq!(held(monday), held(monday + WEEK_S - 1));
        let (this, next) = (held(monday), held(monday + WEEK_S));
        let same = this.iter().zip(&next).filter(|(a, b)| a == b).count();
        assert!((90..166).contains(&same), "{same} of 256");
        assert!(!held(monday).iter().all(|held| *held));
        assert_eq!(schedule.arm(1, monday), Arm::Settling);
        assert_ne!(schedule.arm(1, monday + 120), Arm::Settling);
        assert_eq!(schedule.arm(1, monday + WEEK_S - 120), Arm::Settling);
    }

    #[test]
    fn it_says_when_the_next_change_comes() {
        let schedule = Schedule::by_time(1.0, SECRET);
        let start = schedule.number(NOW) * 3600;
        let ages = [0, 119, 120, 1679, 1680, 1799, 1800];
        let next = ages.map(|age| schedule.next_change_s(start + age));
        assert_eq!(next, [120, 1, 1560, 1, 120, 1, 120]);
        let all = Schedule {
            settle_s: 0,
            ..schedule
        };
        assert_eq!(
            [0, 1799].map(|age| all.next_change_s(start + age)),
            [1800, 1]
        );
        let schedule = Schedule::by_prefix(0.05, SECRET);
        let monday = (NOW - MONDAY_S) / WEEK_S * WEEK_S + MONDAY_S;
        let next = [0, 119, 120].map(|age| schedule.next_change_s(monday + age));
        assert_eq!(next, [120, 1, WEEK_S - 240]);
    }

    #[test]
    fn pair_closes_a_block_after_its_end() {
        let schedule = Schedule::by_time(1.0, SECRET);
        let number = schedule.number(NOW);
        let end = (number + 1) * 3600;
        let over = [0, 1799, 1800].map(|late| schedule.over(end + late));
        assert_eq!(over, [number, number, number + 1]);
    }

    #[test]
    fn groups_and_hosts_are_parted_independently() {
        let schedule = Schedule::by_time(1.0, SECRET);
        let other = Schedule::by_time(1.0, [8, 11]);
        let start = schedule.number(NOW) * 3600;
        let same = |a: &Schedule, b: &Schedule, shift: u64| {
            (0..1000)
                .filter(|&g| a.steers(g, start) == b.steers(g + shift, start))
                .count()
        };
        for same in [same(&schedule, &other, 0), same(&schedule, &schedule, 1)] {
            assert!((430..570).contains(&same), "{same}");
        }
    }
}
