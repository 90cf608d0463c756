//! What a learner says to a fleet, and what it makes of the other hosts' messages.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod common;

use common::{lineage, seen, teach};
use tcpilot_learner::learner::{Facts, Foreign, Heard};
use tcpilot_learner::lineage::Key;
use tcpilot_learner::sharing::Bouts;
use tcpilot_learner::{Learner as _, Level, Lineage, NodeKey, Settings, Thompson};

const RTT_US: u32 = 40_000;
const HALF_LIFE_S: f64 = 21_600.0;

fn learner() -> Thompson {
    Thompson::new(2, Settings::default()).unwrap()
}

/// A learner that uses what it hears.
fn listener() -> Thompson {
    let mut learner = learner();
    learner.use_foreign(true);
    learner
}

fn path(group: u8, host: u8) -> Lineage {
    lineage(group, host, RTT_US)
}

fn group(group: u8) -> Key {
    path(group, 1).group
}

/// What a host says of a group whose paths have taught it this advantage.
fn said(number: u8, advantage: f64) -> Vec<f32> {
    let mut host = learner();
    for one in 1..5 {
        teach(&mut host, path(number, one), &[0.0, advantage], 10, 0.0);
    }
    own(&mut host, number, 200.0)
}

/// What a learner says of a group; nothing is empty.
fn own(learner: &mut Thompson, number: u8, now_s: f64) -> Vec<f32> {
    let mut numbers = Vec::new();
    let next = learner.own_groups(0, usize::MAX, now_s, |of| {
        if *of.key == group(number) {
            numbers = of.numbers.to_vec();
        }
    });
    assert_eq!(next, None);
    numbers
}

const FACTS: Facts = Facts {
    paths_log2: 2,
    age_s: 900.0,
    bouts: Bouts {
        queued: 0.0,
        clear: 0.0,
    },
    is_held_back: false,
};

fn hear_some(learner: &mut Thompson, said: &[(u8, &[f32])], now_s: f64) -> Vec<Heard> {
    hear_with(learner, said, FACTS, now_s)
}

fn hear_with(
    learner: &mut Thompson,
    said: &[(u8, &[f32])],
    facts: Facts,
    now_s: f64,
) -> Vec<Heard> {
    learner.begin_hearing(now_s);
    let hear = |(number, numbers): &(u8, &[f32])| {
        learner.hear(&group(*number), numbers, 1.0, facts, now_s)
    };
    let heard = said.iter().map(hear).collect();
    learner.end_hearing();
    heard
}

fn hear(learner: &mut Thompson, number: u8, numbers: &[f32], now_s: f64) {
    assert_eq!(
        hear_some(learner, &[(number, numbers)], now_s),
        [Heard::Taken]
    );
}

fn share(learner: &mut Thompson, of: &Lineage, now_s: f64) -> f64 {
    learner.plan(of, now_s).shares[1]
}

fn foreign(learner: &mut Thompson, number: u8, now_s: f64) -> Option<Foreign> {
    let key = NodeKey {
        level: Level::Group,
        key: group(number),
    };
    learner.view(&key, now_s)?.foreign
}

fn close(a: &[f32], b: &[f32], part: f32) {
    assert_eq!(a.len(), b.len());
    for (x, y) in a.iter().zip(b) {
        assert!((x - y).abs() < part * (1.0 + y.abs()), "{a:?} {b:?}");
    }
}

#[test]
fn first_connections_follow_what_others_say() {
    // Of a lossy way nothing is known but that losses often come with a queue, so an algorithm has to bring much.
    let (good, bad) = (said(100, 1.6), said(101, -0.8));
    let mut newcomer = listener();
    let heard = hear_some(&mut newcomer, &[(100, &good), (101, &bad)], 0.0);
    assert_eq!(heard, [Heard::Taken; 2]);
    let shares = [100, 101].map(|number| share(&mut newcomer, &path(number, 9), 0.0));
    assert!(shares[0] > 0.9 && shares[1] < 0.1, "{shares:?}");
    // Another group of the site profits, too.
    let mut sites = listener();
    hear(&mut sites, 100, &good, 0.0);
    let sibling = share(&mut sites, &path(7, 1), 0.0);
    assert!(
        sibling > share(&mut learner(), &path(7, 1), 0.0) + 0.05,
        "{sibling}"
    );
}

#[test]
fn a_host_never_says_what_it_heard() {
    // Also the widths are learned meanwhile, so the sums are computed anew.
    let (mut hearing, mut alone) = (listener(), learner());
    let message = said(100, 0.8);
    let mut now_s = 0.0;
    for round in 0..8 {
        hear(&mut hearing, 100, &message, now_s);
        let before_s = now_s;
        for learner in [&mut hearing, &mut alone] {
            for host in 1..4 {
                now_s = teach(learner, path(100, host), &[0.0, 0.2], 16, before_s);
            }
        }
        let (a, b) = (own(&mut hearing, 100, now_s), own(&mut alone, 100, now_s));
        // The widths are learned around all that is known, so they differ a little from the 256th sample on.
        close(&a, &b, if round < 5 { 1e-4 } else { 1e-2 });
        assert!(b[0] > 1.0, "{round}: {b:?}");
    }
    assert_eq!(own(&mut hearing, 101, now_s), [0.0; 0]);
}

#[test]
fn hearing_twice_equals_hearing_once() {
    let message = said(100, 0.4);
    let (mut once, mut often) = (listener(), listener());
    hear(&mut once, 100, &message, 50.0);
    for _ in 0..5 {
        hear(&mut often, 100, &message, 50.0);
    }
    let beliefs = [&mut once, &mut often].map(|learner| {
        let key = path(100, 1).node(Level::Group);
        learner.view(&key, 50.0).unwrap().estimates[0].mean
    });
    assert!((beliefs[0] - beliefs[1]).abs() < 1e-9, "{beliefs:?}");
}

#[test]
fn a_message_ages_by_the_groups_half_life() {
    let message = said(100, 0.8);
    let mut half = message.clone();
    half.iter_mut().for_each(|x| *x /= 2.0);
    let (mut old, mut young) = (listener(), listener());
    hear(&mut old, 100, &message, 0.0);
    hear(&mut young, 100, &half, HALF_LIFE_S);
    let [a, b] = [&mut old, &mut young].map(|it| foreign(it, 100, HALF_LIFE_S).unwrap());
    assert!(
        (a.connections / b.connections - 1.0).abs() < 1e-3,
        "{a:?} {b:?}"
    );
    assert!((a.age_s - 900.0 - HALF_LIFE_S).abs() < 1.0, "{a:?}");
    let beliefs = [&mut old, &mut young].map(|learner| {
        let key = path(100, 1).node(Level::Group);
        learner.view(&key, HALF_LIFE_S).unwrap().estimates[0].mean
    });
    assert!((beliefs[0] - beliefs[1]).abs() < 1e-3, "{beliefs:?}");
}

#[test]
fn a_changed_group_drops_its_message_for_a_half_life() {
    let message = said(100, 0.8);
    let mut learner = listener();
    let mut now_s = 0.0;
    for host in 1..6 {
        now_s = teach(&mut learner, path(100, host), &[0.0, 0.8], 20, 0.0);
    }
    hear(&mut learner, 100, &message, now_s);
    // Now bbr is the worse one, on all paths.
    let mut changed = false;
    for round in 0..60u64 {
        for host in 1..6 {
            let arm = (round % 2) as usize;
            let nats = 13.0 + [0.0, -2.0][arm];
            now_s += 2.0;
            let learned = learner.observe(&seen(path(100, host), arm, nats, now_s));
            changed |= learned.unwrap().levels_changed > 0;
        }
    }
    assert!(changed);
    assert_eq!(foreign(&mut learner, 100, now_s), None);
    let again = |learner: &mut Thompson, at_s| hear_some(learner, &[(100, &message)], at_s);
    assert_eq!(again(&mut learner, now_s), [Heard::Changed]);
    assert_eq!(foreign(&mut learner, 100, now_s), None);
    assert_eq!(again(&mut learner, now_s + HALF_LIFE_S), [Heard::Taken]);
}

#[test]
fn what_is_only_shown_changes_no_choice() {
    let message = said(100, 0.8);
    let (mut shown, mut alone) = (learner(), learner());
    shown.use_foreign(false);
    for learner in [&mut shown, &mut alone] {
        teach(learner, path(100, 1), &[0.0, 0.0], 6, 0.0);
    }
    let heard = hear_some(&mut shown, &[(100, &message), (101, &message)], 120.0);
    assert_eq!(heard, [Heard::Taken; 2]);
    assert_eq!(shown.node_count(), alone.node_count());
    for of in [path(100, 1), path(100, 2), path(101, 1), path(7, 1)] {
        assert_eq!(shown.plan(&of, 130.0), alone.plan(&of, 130.0), "{of:?}");
    }
    for number in [100, 101] {
        let foreign = foreign(&mut shown, number, 130.0).unwrap();
        let (now, then) = (
            share(&mut shown, &path(number, 9), 130.0),
            foreign.otherwise.shares[1],
        );
        assert!(
            !foreign.is_used && then > now + 0.2,
            "{number}: {now} {then}"
        );
    }
    teach(&mut shown, path(100, 2), &[0.0, 0.0], 6, 130.0);
    teach(&mut alone, path(100, 2), &[0.0, 0.0], 6, 130.0);
    assert_eq!(
        shown.plan(&path(100, 2), 300.0),
        alone.plan(&path(100, 2), 300.0)
    );
}

#[test]
fn a_held_back_group_is_chosen_for_as_without_fleet() {
    let mut message = said(100, 0.8);
    let (mut hearing, mut alone) = (listener(), learner());
    for learner in [&mut hearing, &mut alone] {
        teach(learner, path(100, 1), &[0.0, 0.0], 6, 0.0);
    }
    let held_back = Facts {
        is_held_back: true,
        bouts: Bouts {
            queued: 1.0,
            clear: 0.0,
        },
        ..FACTS
    };
    // It was used before, as in the week before.
    hear_some(&mut hearing, &[(100, &message), (101, &message)], 120.0);
    assert!(share(&mut hearing, &path(100, 2), 120.0) > 0.6);
    let both = [(100, &message[..]), (101, &message[..])];
    assert_eq!(
        hear_with(&mut hearing, &both, held_back, 120.0),
        [Heard::Taken; 2]
    );
    let is_alone = |hearing: &mut Thompson, alone: &mut Thompson, at_s| {
        for of in [path(100, 1), path(100, 2), path(7, 1)] {
            let [hearing, alone] = [&mut *hearing, &mut *alone].map(|it| share(it, &of, at_s));
            assert!((hearing - alone).abs() < 1e-3, "{of:?} {hearing} {alone}");
        }
    };
    is_alone(&mut hearing, &mut alone, 130.0);
    let queued = |learner: &mut Thompson| {
        let key = path(100, 1).node(Level::Path);
        learner.view(&key, 130.0).unwrap().queued_share
    };
    assert_eq!(queued(&mut hearing), queued(&mut alone));
    let shown = foreign(&mut hearing, 100, 130.0).unwrap();
    assert!(shown.is_held_back && !shown.is_used, "{shown:?}");
    assert!(shown.otherwise.shares[1] > 0.6, "{shown:?}");
    // A new one needs no room among the nodes.
    let mut new = listener();
    hear_with(&mut new, &both, held_back, 0.0);
    assert_eq!(new.node_count(), listener().node_count());
    // Own samples do not bring it in, and own words are still said.
    for learner in [&mut hearing, &mut alone] {
        teach(learner, path(100, 2), &[0.0, 0.0], 6, 130.0);
    }
    is_alone(&mut hearing, &mut alone, 300.0);
    let words = own(&mut hearing, 100, 300.0);
    close(&words, &own(&mut alone, 100, 300.0), 1e-3);
    assert!(!words.is_empty());
    // Next week it is used again.
    message.iter_mut().for_each(|number| *number *= 2.0);
    hear(&mut hearing, 100, &message, 300.0);
    assert!(foreign(&mut hearing, 100, 300.0).unwrap().is_used);
}

#[test]
fn shares_without_the_fleet_are_those_of_a_host_alone() {
    let message = said(100, 0.8);
    let (mut hearing, mut alone) = (listener(), learner());
    for learner in [&mut hearing, &mut alone] {
        teach(learner, path(100, 1), &[0.0, 0.1], 6, 0.0);
    }
    hear(&mut hearing, 100, &message, 120.0);
    for of in [
        path(100, 1).node(Level::Path),
        path(100, 1).node(Level::Group),
    ] {
        let foreign = hearing.view(&of, 120.0).unwrap().foreign.unwrap();
        let alone = alone.view(&of, 120.0).unwrap().plan.shares[1];
        assert!(foreign.is_used && foreign.believed > 0.9, "{foreign:?}");
        assert!((foreign.otherwise.shares[1] - alone).abs() < 1e-3, "{of:?}");
    }
}

#[test]
fn own_samples_overrule_a_lie() {
    // The most that a fleet of two lets through: a precision of 1/0.3².
    let lie = [11.0, 33.0];
    let (mut misled, mut alone) = (listener(), learner());
    hear(&mut misled, 100, &lie, 0.0);
    for learner in [&mut misled, &mut alone] {
        for host in 1..4 {
            teach(learner, path(100, host), &[0.0, -0.7], 8, 0.0);
        }
    }
    let believed = foreign(&mut misled, 100, 200.0).unwrap().believed;
    let shares = [&mut misled, &mut alone].map(|it| share(it, &path(100, 9), 200.0));
    assert_eq!(believed, 0.0);
    assert!((shares[0] - shares[1]).abs() < 0.02, "{shares:?}");
}

#[test]
fn a_message_that_is_not_said_again_leaves_no_trace() {
    let message = said(100, 0.8);
    let (mut hearing, mut alone) = (listener(), learner());
    for learner in [&mut hearing, &mut alone] {
        teach(learner, path(100, 1), &[0.0, 0.1], 6, 0.0);
    }
    hear_some(&mut hearing, &[(100, &message), (101, &message)], 120.0);
    assert_eq!(hearing.node_count(), alone.node_count() + 1);
    hear_some(&mut hearing, &[], 120.0);
    assert_eq!(hearing.foreign_groups().count(), 0);
    assert_eq!(hearing.node_count(), alone.node_count());
    for of in [path(100, 1), path(100, 9), path(7, 1)] {
        let shares = [&mut hearing, &mut alone].map(|it| share(it, &of, 120.0));
        assert!((shares[0] - shares[1]).abs() < 1e-3, "{shares:?}");
    }
}

#[test]
fn unknown_groups_take_half_of_the_room() {
    let mut settings = Settings::default();
    settings.memory.paths_max = 64;
    let mut learner = Thompson::new(2, settings).unwrap();
    learner.use_foreign(true);
    let message = said(0, 0.8);
    let all: Vec<(u8, &[f32])> = (0..200).map(|number| (number, &message[..])).collect();
    let heard = hear_some(&mut learner, &all, 0.0);
    let taken = heard.iter().filter(|heard| **heard == Heard::Taken).count();
    assert!((10..=18).contains(&taken), "{taken}");
    assert!(learner.node_count() <= 20, "{}", learner.node_count());
    // A group that is known is heard nevertheless.
    teach(&mut learner, path(250, 1), &[0.0, 0.1], 2, 0.0);
    hear(&mut learner, 250, &message, 60.0);
}

#[test]
fn messages_survive_a_restart_and_end_with_the_fleet() {
    let message = said(100, 0.8);
    let (mut hearing, mut alone) = (listener(), learner());
    for learner in [&mut hearing, &mut alone] {
        teach(learner, path(100, 1), &[0.0, 0.1], 6, 0.0);
    }
    hear(&mut hearing, 100, &message, 120.0);
    let restored = |learner: &mut Thompson| {
        let mut rows = Vec::new();
        learner.save(true, |key, row| {
            rows.push((key.to_vec(), row.unwrap().to_vec()))
        });
        let (learner, read) = Thompson::restore(2, Settings::default(), rows, 120.0).unwrap();
        assert_eq!(read.damaged, 0);
        learner
    };
    let (mut same, before) = (
        restored(&mut hearing),
        foreign(&mut hearing, 100, 120.0).unwrap(),
    );
    same.use_foreign(true);
    let after = foreign(&mut same, 100, 120.0).unwrap();
    assert!(
        (after.connections / before.connections - 1.0).abs() < 1e-3,
        "{before:?} {after:?}"
    );
    assert_eq!((after.paths, after.is_used), (4, true));
    close(
        &own(&mut same, 100, 120.0),
        &own(&mut alone, 100, 120.0),
        1e-4,
    );
    let shares = [&mut same, &mut hearing].map(|it| share(it, &path(100, 9), 120.0));
    assert!((shares[0] - shares[1]).abs() < 1e-3, "{shares:?}");

    let mut without = restored(&mut hearing);
    without.use_foreign(false);
    for of in [path(100, 9), path(7, 1)] {
        let shares = [&mut without, &mut alone].map(|it| share(it, &of, 120.0));
        assert!((shares[0] - shares[1]).abs() < 1e-3, "{shares:?}");
    }
}

#[test]
fn impossible_messages_are_not_taken() {
    let mut learner = listener();
    for numbers in [&[-9.0, 1.0][..], &[1.0, 0.0, 1.0, 0.0, 0.0], &[]] {
        let heard = hear_some(&mut learner, &[(100, numbers)], 0.0);
        assert_eq!(heard, [Heard::Unusable], "{numbers:?}");
    }
    assert_eq!(learner.foreign_groups().count(), 0);
}

/// What others say of one group, with these bouts of loss.
fn hear_losses(learner: &mut Thompson, numbers: &[f32], queued: f32, clear: f32, now_s: f64) {
    let bouts = Bouts { queued, clear };
    let facts = Facts { bouts, ..FACTS };
    hear_with(learner, &[(1, numbers)], facts, now_s);
}

#[test]
fn losses_of_others_decide_what_must_be_gained() {
    let better = said(1, 0.5);
    let mut shares = Vec::new();
    for (queued, clear) in [(4.0, 0.0), (0.0, 0.0), (0.0, 4.0)] {
        let mut learner = listener();
        hear_losses(&mut learner, &better, queued, clear, 0.0);
        shares.push(share(&mut learner, &path(1, 9), 0.0));
    }
    assert!(shares[0] < 0.1 && shares[0] < shares[1], "{shares:?}");
    assert!(shares[1] < 0.5 && shares[2] > 0.8, "{shares:?}");
}

#[test]
fn own_losses_overrule_those_of_others() {
    let mut learner = listener();
    hear_losses(&mut learner, &said(1, 0.5), 0.0, 4.0, 0.0);
    let at = |learner: &mut Thompson, of: &Lineage| {
        let node = of.node(Level::Path);
        learner.view(&node, 1.0).unwrap().queued_share
    };
    let mut one = seen(path(1, 9), 0, 0.0, 1.0);
    one.bouts = Bouts {
        queued: 5.0,
        clear: 0.0,
    };
    learner.observe(&one).unwrap();
    assert!(at(&mut learner, &path(1, 9)) > 0.89);
}

#[test]
fn losses_that_are_only_shown_count_in_what_would_be() {
    let better = said(1, 0.5);
    let (mut shown, mut used) = (learner(), listener());
    for learner in [&mut shown, &mut used] {
        hear_losses(learner, &better, 0.0, 4.0, 0.0);
    }
    let before = share(&mut learner(), &path(1, 9), 0.0);
    assert_eq!(share(&mut shown, &path(1, 9), 0.0), before);
    let would = foreign(&mut shown, 1, 0.0).unwrap().otherwise.shares[1];
    let does = share(&mut used, &path(1, 9), 0.0);
    assert!((would - does).abs() < 0.05, "{would} {does}");
    let without = foreign(&mut used, 1, 0.0).unwrap().otherwise.shares[1];
    assert!((without - before).abs() < 0.05, "{without} {before}");
}

#[test]
fn losses_of_others_are_saved_and_fade() {
    let mut learner = listener();
    hear_losses(&mut learner, &said(1, 0.5), 0.0, 4.0, 0.0);
    let share_of = |learner: &mut Thompson, now_s: f64| {
        let node = path(1, 9).node(Level::Group);
        learner.view(&node, now_s).unwrap().queued_share
    };
    let fresh = share_of(&mut learner, 0.0);
    let mut rows = Vec::new();
    learner.save(true, |key, row| {
        rows.push((key.to_vec(), row.unwrap().to_vec()))
    });
    let mut again = listener();
    let mut each = |take: &mut dyn FnMut(&[u8], &[u8])| {
        rows.iter().for_each(|(key, row)| take(key, row));
    };
    assert_eq!(again.take_up(&mut each, 0.0).damaged, 0);
    assert!((share_of(&mut again, 0.0) - fresh).abs() < 1e-6);
    let later = share_of(&mut learner, 6.0 * HALF_LIFE_S);
    assert!(fresh < 0.71 && later > 0.74, "{fresh} {later}");
}
