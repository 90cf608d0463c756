//! The design of the comparison: whole prefixes are held out, or each group for blocks of time, or all
//! groups at once.

use std::collections::HashMap;

use tcpilot_config::{Effect as Keys, HoldOut};
use tcpilot_kernel::ASSIGNMENT_BUCKETS;
use tcpilot_proof::Schedule;

/// Whole prefixes are held out from this many groups on.
const PREFIXES: usize = 64;
/// With fewer groups, prefixes are no longer held out. The gap keeps a host from going back and forth.
const PREFIXES_LEFT: usize = 48;
/// Time after its last connection during which a group counts as active.
pub const ACTIVE_S: u64 = 24 * 3600;
/// The number of the group with all addresses.
pub const ALL: u64 = u64::MAX;

/// The groups with recent connections, each with the time of its last connection, and their number.
#[derive(Clone, Debug, Default)]
pub struct Activity(HashMap<u64, (u64, u64)>);

impl Activity {
    /// Notes the end of a connection of this group.
    pub fn note(&mut self, group: u64, now_s: u64) {
        // There are at most as many groups as assignment buckets.
        let (last_s, connections) = self.0.entry(group).or_default();
        *last_s = now_s;
        *connections += 1;
    }

    /// The rate of each group's connections, if they were noted for this long. A host with one design counts all groups
    /// as one.
    pub fn per_s(&self, design: HoldOut, noted_s: u64) -> Vec<f64> {
        // A rate from less than this is mostly luck.
        let noted_s = noted_s.max(60) as f64;
        let rates = self.0.values().map(|(_, count)| *count as f64 / noted_s);
        match design {
            HoldOut::Host => vec![rates.sum()],
            _ => rates.collect(),
        }
    }

    /// The number of active groups.
    pub fn count(&mut self, now_s: u64) -> usize {
        self.0
            .retain(|_, (last_s, _)| now_s.saturating_sub(*last_s) < ACTIVE_S);
        self.0.len()
    }
}

/// Facts about this host. They are known a while after a start; the former design goes on meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostFacts {
    /// Whether a queue is often full, so that all connections compete there; `None` if not known yet.
    pub is_full: Option<bool>,
    /// Groups active within a day, or since the start.
    pub groups: usize,
    /// Whether the daemon started less than a day ago.
    pub is_young: bool,
}

/// Chooses the design: never `HoldOut::Auto`.
pub fn choose(keys: &Keys, before: HoldOut, is_trial: bool, known: &HostFacts) -> HoldOut {
    let least = match before {
        HoldOut::Prefix if known.is_young => 0,
        HoldOut::Prefix => PREFIXES_LEFT,
        _ => PREFIXES,
    };
    let (groups, is_full) = (
        known.groups,
        known.is_full.unwrap_or(before == HoldOut::Host),
    );
    match keys.hold_out {
        HoldOut::Auto if is_full => HoldOut::Host,
        HoldOut::Auto if is_trial || groups < least => HoldOut::Block,
        HoldOut::Auto => HoldOut::Prefix,
        // A trial shall give an answer in a day, and the comparison of prefixes takes weeks.
        HoldOut::Prefix if is_trial => HoldOut::Block,
        chosen => chosen,
    }
}

/// The schedule of a design. Half of a pair's time is held out, so pairs take twice the held-out share.
pub fn schedule(keys: &Keys, design: HoldOut, is_trial: bool, secret: [u64; 2]) -> Schedule {
    let held_out = f64::from(keys.hold_out_percent) / 100.0;
    let paired = match is_trial {
        true => 1.0,
        false => (2.0 * held_out).min(1.0),
    };
    let is_by_prefix = design == HoldOut::Prefix;
    Schedule {
        block_s: u64::from(keys.block_s).max(1),
        settle_s: keys.settle_s.into(),
        paired: if is_by_prefix { 0.0 } else { paired },
        held_out: if is_by_prefix { held_out } else { 0.0 },
        period_s: keys.rotation_s.into(),
        secret,
    }
}

/// The group of an assignment bucket.
pub fn group_of(design: HoldOut, bucket: u32) -> u64 {
    match design {
        HoldOut::Host => ALL,
        _ => bucket.into(),
    }
}

/// The groups of all assignment buckets.
pub fn groups(design: HoldOut) -> impl Iterator<Item = u64> {
    (0..ASSIGNMENT_BUCKETS as u32).map(move |bucket| group_of(design, bucket))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_facts_decide_the_auto_design() {
        let chosen = |hold_out, before, is_trial, is_full, groups| {
            let keys = Keys {
                hold_out,
                ..Keys::default()
            };
            let known = HostFacts {
                is_full: Some(is_full),
                groups,
                is_young: false,
            };
            choose(&keys, before, is_trial, &known)
        };
        use HoldOut::{Auto, Block, Host, Prefix};
        assert_eq!(Keys::default().hold_out, Auto);
        for (said, before, is_trial, is_full, groups, expected) in [
            (Auto, Block, false, false, 63, Block),
            (Auto, Block, false, false, 64, Prefix),
            (Auto, Prefix, false, false, 48, Prefix),
            (Auto, Prefix, false, false, 47, Block),
            (Auto, Prefix, true, false, 99, Block),
            (Auto, Prefix, false, true, 99, Host),
            (Prefix, Block, false, true, 1, Prefix),
        ] {
            let found = chosen(said, before, is_trial, is_full, groups);
            assert_eq!(
                found, expected,
                "{said:?} {before:?} {is_trial} {is_full} {groups}"
            );
        }
    }

    #[test]
    fn design_survives_restart_until_facts_are_known() {
        let young = HostFacts {
            is_young: true,
            ..HostFacts::default()
        };
        for before in [HoldOut::Prefix, HoldOut::Host, HoldOut::Block] {
            assert_eq!(choose(&Keys::default(), before, false, &young), before);
        }
        let known = HostFacts {
            is_full: Some(false),
            ..HostFacts::default()
        };
        for before in [HoldOut::Prefix, HoldOut::Host] {
            assert_eq!(
                choose(&Keys::default(), before, false, &known),
                HoldOut::Block
            );
        }
    }

    #[test]
    fn price_is_as_set_trial_has_no_pause() {
        let keys = Keys {
            hold_out_percent: 4,
            ..Keys::default()
        };
        let block = schedule(&keys, HoldOut::Block, false, [1, 2]);
        assert!((block.paired - 0.08).abs() < 1e-12 && !block.is_by_prefix());
        assert!((schedule(&keys, HoldOut::Host, true, [1, 2]).paired - 1.0).abs() < 1e-12);
        let prefix = schedule(&keys, HoldOut::Prefix, false, [1, 2]);
        assert!((prefix.held_out - 0.04).abs() < 1e-12 && prefix.paired == 0.0);
    }

    #[test]
    fn a_group_is_active_for_a_day() {
        let mut activity = Activity::default();
        activity.note(1, 0);
        activity.note(1, 50);
        activity.note(2, 100);
        assert_eq!(activity.count(ACTIVE_S), 2);
        assert_eq!(activity.count(ACTIVE_S + 60), 1);
    }
}
