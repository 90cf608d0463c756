//! Saved knowledge is restored, row by row.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod common;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use common::{lineage, noise, seen, teach};
use proptest::prelude::*;
use tcpilot_learner::{
    Learner as _, Level, Lineage, Settings, Thompson, bytes::Writer, saved_domain,
};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

const ARMS: usize = 3;

fn save(learner: &mut Thompson, all: bool, rows: &mut Rows) {
    if all {
        rows.clear();
    }
    learner.save(all, |key, row| {
        match row {
            Some(row) => rows.insert(key.to_vec(), row.to_vec()),
            None => rows.remove(key),
        };
    });
}

fn restore(rows: &Rows, now_s: f64) -> (Thompson, tcpilot_learner::Restored) {
    Thompson::restore(ARMS, Settings::default(), rows, now_s).unwrap()
}

/// The shares of all paths, and of the nodes above them.
fn shares(learner: &mut Thompson, now_s: f64) -> Vec<[f64; 8]> {
    let mut all = Vec::new();
    for group in 0..5 {
        for host in 0..4 {
            let who = lineage(group, host, 40_000);
            all.push(learner.plan(&who, now_s).shares);
            let plans = Level::ALL.map(|level| learner.plan_of(&who.node(level), now_s));
            all.extend(plans.into_iter().flatten().map(|plan| plan.shares));
        }
    }
    all
}

fn assert_alike(a: &[[f64; 8]], b: &[[f64; 8]]) {
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().flatten().zip(b.iter().flatten()) {
        assert!((a - b).abs() < 0.02, "{a} {b}");
    }
}

fn taught(samples: &[(u8, u8, usize, f64, f64)], learner: &mut Thompson, from_s: f64) -> f64 {
    samples.iter().fold(from_s, |now_s, sample| {
        let (group, host, arm, nats, wait_s) = *sample;
        let who = lineage(group, host, 40_000);
        let at_s = now_s + wait_s;
        learner.observe(&seen(who, arm, 13.0 + nats, at_s)).unwrap();
        at_s
    })
}

fn samples() -> impl Strategy<Value = Vec<(u8, u8, usize, f64, f64)>> {
    let one = (0u8..5, 0u8..4, 0..ARMS, -2.0f64..2.0, 0.0f64..600.0);
    prop::collection::vec(one, 1..150)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A draw at the edge of two arms may fall to either: shares are counted over 64 points, so one
    /// of them (0.016) may differ.
    #[test]
    fn restored_learner_has_the_saved_plans(
        samples in samples(), later_s in 0.0f64..40_000.0,
    ) {
        let mut learner = Thompson::new(ARMS, Settings::default()).unwrap();
        let now_s = taught(&samples, &mut learner, 1e9);
        let mut rows = Rows::new();
        save(&mut learner, true, &mut rows);
        let (mut again, restored) = restore(&rows, now_s);
        prop_assert!(restored.head && restored.damaged == 0);
        prop_assert_eq!(restored.taken_up, rows.len() - 2);
        assert_alike(&shares(&mut learner, now_s), &shares(&mut again, now_s));
        // It goes on as the other would have, except for alarms of neighbours, which are not
        // saved: samples as calm as these raise none.
        let calm: Vec<_> = samples.iter().map(|s| (s.0, s.1, s.2, 0.2 * s.3, s.4)).collect();
        let now_s = now_s + later_s;
        let end_s = taught(&calm, &mut learner, now_s);
        taught(&calm, &mut again, now_s);
        assert_alike(&shares(&mut learner, end_s), &shares(&mut again, end_s));
    }

    #[test]
    fn incremental_rows_equal_a_full_save(
        first in samples(), second in samples(),
    ) {
        let mut learner = Thompson::new(ARMS, Settings::default()).unwrap();
        let mut rows = Rows::new();
        let now_s = taught(&first, &mut learner, 1e9);
        save(&mut learner, true, &mut rows);
        let now_s = taught(&second[..second.len() / 4 + 1], &mut learner, now_s);
        save(&mut learner, false, &mut rows);
        let (mut again, _) = restore(&rows, now_s);
        assert_alike(&shares(&mut learner, now_s), &shares(&mut again, now_s));
    }

    #[test]
    fn no_row_can_do_harm(key in prop::collection::vec(any::<u8>(), 0..40), row in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut learner = Thompson::new(ARMS, Settings::default()).unwrap();
        let now_s = taught(&[(1, 1, 0, 0.0, 0.0)], &mut learner, 1e9);
        let mut rows = Rows::new();
        save(&mut learner, true, &mut rows);
        let known = rows.len();
        rows.entry(key).or_insert(row);
        let (mut again, restored) = restore(&rows, now_s);
        prop_assert_eq!(restored.damaged, rows.len() - known);
        assert_alike(&shares(&mut learner, now_s), &shares(&mut again, now_s));
    }
}

#[test]
fn client_of_two_octaves_is_one() {
    let mut learner = Thompson::new(ARMS, Settings::default()).unwrap();
    let mut now_s = 1e9;
    for i in 0..30 {
        let rtt_us = [16_300, 16_500][i % 2];
        let who = lineage(1, 1, rtt_us);
        let arm = i / 2 % ARMS;
        let mut seen = seen(who, arm, 13.0 + [0.0, 0.8, -0.5][arm], now_s);
        seen.features.handshake_rtt_us = rtt_us.into();
        learner.observe(&seen).unwrap();
        now_s += 20.0;
    }
    let mut rows = Rows::new();
    save(&mut learner, true, &mut rows);
    let (mut again, _) = restore(&rows, now_s);
    for rtt_us in [16_300, 16_500] {
        let who = lineage(1, 1, rtt_us);
        let [before, after] = [&mut learner, &mut again].map(|of| of.plan(&who, now_s).shares);
        assert_alike(&[before], &[after]);
    }
    // A row of an earlier version does not say where in its octave the path is.
    let key = rows.keys().find(|key| key[0] == 0).unwrap().clone();
    let former = former(&rows[&key]);
    rows.insert(key, former);
    let (_, restored) = restore(&rows, now_s);
    assert_eq!(restored.damaged, 0);
}

/// A path's row as earlier versions wrote it: fourteen bytes shorter, with a check sum of its own.
fn former(row: &[u8]) -> Vec<u8> {
    let body = &row[..row.len() - 18];
    let step = |h: u32, byte: &u8| (h ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    let sum = body.iter().fold(0x811c_9dc5, step);
    [body, &sum.to_le_bytes()].concat()
}

/// A row with a right check sum, all of whose numbers from this byte on are these bytes.
fn filled(row: &[u8], from: usize, bytes: &[u8]) -> Vec<u8> {
    let body = &row[1..row.len() - 4];
    let (kept, rest) = body.split_at(from.min(body.len()));
    let filled: Vec<u8> = bytes.iter().copied().cycle().take(rest.len()).collect();
    let mut again = Writer::new();
    for two in [kept, &filled].concat().chunks(2) {
        again.u16(u16::from_le_bytes([two[0], two[1]]));
    }
    again.finish()
}

#[test]
fn an_impossible_row_costs_only_itself() {
    let (mut learner, now_s) = two_groups();
    let mut rows = Rows::new();
    save(&mut learner, true, &mut rows);
    let numbers = [
        f32::MAX,
        f32::MIN,
        f32::INFINITY,
        f32::NAN,
        1e30,
        1e15,
        -1.0,
    ]
    .map(f32::to_le_bytes);
    let long = [f64::MAX, f64::MIN, 1e200, -1.0].map(f64::to_le_bytes);
    let all: Vec<&[u8]> = numbers
        .iter()
        .map(|x| &x[..])
        .chain(long.iter().map(|x| &x[..]))
        .collect();
    for (key, row) in &rows {
        // From the first number, after the times, after a path's counts, and the last ones.
        for from in [0, 24, 34, row.len() - 9] {
            for bytes in &all {
                let mut spoiled = rows.clone();
                spoiled.insert(key.clone(), filled(row, from, bytes));
                let (mut again, restored) = restore(&spoiled, now_s);
                let told = format!("{key:?} from {from}: {bytes:?} {restored:?}");
                assert!(restored.taken_up + 1 >= rows.len() - 2, "{told}");
                assert!(restored.damaged <= 1 && again.path_count() >= 7, "{told}");
                for share in shares(&mut again, now_s + 60.0).iter().flatten() {
                    assert!((0.0..=1.0).contains(share), "{told}");
                }
                let who = lineage(1, 1, 40_000);
                again.observe(&seen(who, 0, 13.0, now_s + 60.0)).unwrap();
            }
        }
    }
}

/// Two groups of four paths, arm 1 better by 0.8 in the first and worse in the second.
fn two_groups() -> (Thompson, f64) {
    let mut learner = Thompson::new(ARMS, Settings::default()).unwrap();
    let mut now_s = 1e9;
    for host in 0..4 {
        now_s = teach(
            &mut learner,
            lineage(0, host, 40_000),
            &[0.0, 0.8, -0.5],
            30,
            now_s,
        );
        now_s = teach(
            &mut learner,
            lineage(1, host, 40_000),
            &[0.0, -0.8, -0.5],
            30,
            now_s,
        );
    }
    (learner, now_s)
}

#[test]
fn partial_saves_give_changed_rows_again() {
    let (mut learner, now_s) = two_groups();
    let mut whole = Rows::new();
    save(&mut learner, true, &mut whole);
    learner.begin_anew();
    let (mut parts, mut given) = (Rows::new(), 0);
    let mut is_done = false;
    while !is_done {
        is_done = learner.save_some(3, |key, row| {
            given += usize::from(key[0] < 0xff); // each part comes with heads
            parts.insert(key.to_vec(), row.unwrap().to_vec());
        });
    }
    assert_eq!((given, &parts), (whole.len() - 2, &whole));
    let who = lineage(0, 0, 40_000);
    learner.observe(&seen(who, 1, 13.0, now_s + 1.0)).unwrap();
    let mut changed = 0;
    assert!(learner.save_some(usize::MAX, |key, _| changed += usize::from(key[0] < 0xff)));
    assert_eq!(changed, 5, "the path, and the nodes above it");
}

#[test]
fn a_damaged_row_loses_only_itself() {
    let (mut learner, now_s) = two_groups();
    let mut rows = Rows::new();
    save(&mut learner, true, &mut rows);
    for victim in rows.keys().cloned().collect::<Vec<_>>() {
        let mut damaged = rows.clone();
        damaged.get_mut(&victim).unwrap()[9] ^= 4;
        let (mut again, restored) = restore(&damaged, now_s);
        assert!(restored.head && restored.damaged == 1);
        for host in 0..4 {
            assert!(again.plan(&lineage(0, host, 40_000), now_s).shares[1] > 0.9);
            assert!(again.plan(&lineage(1, host, 40_000), now_s).shares[1] < 0.1);
        }
    }
}

#[test]
fn missing_head_or_other_arms_reset_learning() {
    let (mut learner, now_s) = two_groups();
    let mut rows = Rows::new();
    save(&mut learner, true, &mut rows);
    let (again, restored) = Thompson::restore(ARMS + 1, Settings::default(), &rows, now_s).unwrap();
    assert!(!restored.head && again.path_count() == 0);
    rows.retain(|key, _| key[0] != 0xff);
    let (again, restored) = restore(&rows, now_s);
    assert!(!restored.head && restored.taken_up == 0 && again.path_count() == 0);
}

#[test]
fn knowledge_older_than_its_memory_is_dropped() {
    let (mut learner, now_s) = two_groups();
    let mut rows = Rows::new();
    save(&mut learner, true, &mut rows);
    for (later_s, left) in [(30.0 * 86_400.0, 0), (3600.0, 8)] {
        let (mut again, restored) = restore(&rows, now_s + later_s);
        assert!(restored.head && again.path_count() == 8);
        again.forget_old(now_s + later_s);
        assert_eq!(again.path_count(), left);
    }
}

#[test]
fn ended_domains_go_and_their_class_remembers() {
    let mut learner = Thompson::new(ARMS, Settings::default()).unwrap();
    let of = |domain: u32, group: u8| {
        let who = lineage(group, 1, 40_000);
        Lineage::of_prefix(who.path.prefix, who.class, domain)
    };
    let mut now_s = 1e9;
    for domain in [0, 7, 8, 9] {
        for group in 0..3 {
            now_s = teach(
                &mut learner,
                of(domain, group),
                &[0.0, 0.8, -0.5],
                20,
                now_s,
            );
        }
    }
    let mut rows = Rows::new();
    save(&mut learner, true, &mut rows);
    let domains = |rows: &Rows| -> BTreeSet<u32> {
        rows.keys().filter_map(|key| saved_domain(key)).collect()
    };
    assert_eq!(domains(&rows), BTreeSet::from([0, 7, 8, 9]));
    let kept = [
        of(0, 1).node(Level::Path),
        of(8, 1).node(Level::Path),
        of(8, 1).node(Level::Site),
        of(8, 1).node(Level::Class),
        of(8, 1).node(Level::Global),
    ];
    let plans = |learner: &mut Thompson| {
        kept.iter()
            .map(|key| learner.plan_of(key, now_s).unwrap().shares)
            .collect::<Vec<_>>()
    };
    let before = plans(&mut learner);
    let nodes = learner.node_count();
    assert_eq!(learner.forget_domains(&HashSet::from([7, 9, 1000])), 6);
    assert_alike(&before, &plans(&mut learner));
    assert_eq!(learner.path_count(), 6);
    assert_eq!(
        nodes - learner.node_count(),
        2 * 4,
        "three groups and a site of each"
    );
    save(&mut learner, false, &mut rows);
    assert_eq!(domains(&rows), BTreeSet::from([0, 8]));
    let (mut again, restored) = restore(&rows, now_s);
    assert_eq!((restored.damaged, again.path_count()), (0, 6));
    assert_alike(&before, &plans(&mut again));
    // A path of an ended domain is new again, with the class's knowledge.
    assert!(
        learner
            .plan_of(&of(7, 1).node(Level::Site), now_s)
            .is_none()
    );
    assert!(learner.plan(&of(7, 1), now_s).shares[1] > 0.5);
    assert_eq!(learner.forget_domains(&HashSet::from([7, 9])), 0);
}

#[test]
fn least_sampled_paths_are_forgotten_first() {
    let mut settings = Settings::default();
    settings.memory.paths_max = 64;
    let mut learner = Thompson::new(ARMS, settings).unwrap();
    let mut rows = Rows::new();
    let mut now_s = teach(
        &mut learner,
        lineage(0, 1, 40_000),
        &[0.0, 0.8, -0.5],
        60,
        1e9,
    );
    save(&mut learner, true, &mut rows);
    let favourite = lineage(0, 1, 40_000).node(Level::Path);
    for i in 0..4000u64 {
        // Unknown paths of a hundred groups, one connection each.
        let who = lineage((i % 100) as u8, (2 + i / 100) as u8, 40_000);
        learner
            .observe(&seen(who, 1, 13.8 + 0.3 * noise(i), now_s))
            .unwrap();
        now_s += 1.0;
        assert!(learner.path_count() <= 64);
    }
    assert!(learner.plan_of(&favourite, now_s).is_some());
    assert!(learner.plan(&lineage(0, 250, 40_000), now_s).shares[1] > 0.5);
    // Rows of forgotten paths and nodes are removed from the saved ones and from the published ones.
    save(&mut learner, false, &mut rows);
    let mut whole = Rows::new();
    save(&mut learner, true, &mut whole);
    assert_eq!(
        rows.keys().collect::<Vec<_>>(),
        whole.keys().collect::<Vec<_>>()
    );
    let mut published = std::collections::HashSet::new();
    learner.publish_all();
    learner.publish(now_s, usize::MAX, |key, plan| {
        if plan.is_some() {
            published.insert(*key);
        }
    });
    assert_eq!(published.len(), learner.path_count() + learner.node_count());
}

#[test]
fn rows_of_former_classes_are_removed() {
    let mut learner = Thompson::new(2, Settings::default()).unwrap();
    let now = lineage(1, 1, 700);
    let former = Lineage::of_prefix(now.path.prefix, 6, 0);
    teach(&mut learner, former, &[0.0, 0.8], 40, 1e9);
    let now_s = teach(&mut learner, now, &[0.0, 0.8], 40, 1e9 + 800.0);
    let mut rows = Rows::new();
    save(&mut learner, true, &mut rows);
    let (mut again, restored) = Thompson::restore(2, Settings::default(), &rows, now_s).unwrap();
    // The path, its group, its site and its class; the global node is of all classes.
    assert_eq!(
        (restored.outdated, restored.damaged, restored.taken_up),
        (4, 0, 5)
    );
    assert!(again.plan(&now, now_s).shares[1] > 0.9);
    let mut removed = Vec::new();
    again.publish(now_s, 0, |key, plan| {
        removed.extend(plan.is_none().then_some(key.key.class))
    });
    assert_eq!(removed, [6; 4]);
    save(&mut again, false, &mut rows);
    let (_, restored) = Thompson::restore(2, Settings::default(), &rows, now_s).unwrap();
    assert_eq!((restored.outdated, restored.taken_up), (0, 5));
}

#[test]
fn age_alone_forgets_nothing_unasked() {
    let mut learner = Thompson::new(ARMS, Settings::default()).unwrap();
    let now_s = taught(
        &[(1, 1, 0, 0.0, 0.0), (2, 1, 1, 0.5, 60.0)],
        &mut learner,
        1e9,
    );
    let mut rows = Rows::new();
    save(&mut learner, true, &mut rows);
    for years in [-50.0, -3.0, 2.0, 60.0] {
        let later_s = now_s + years * 365.0 * 86_400.0;
        let (mut again, restored) = restore(&rows, later_s);
        assert_eq!(restored.taken_up, rows.len() - 2, "{years}");
        assert_eq!(again.path_count(), 2);
        again.forget_old(later_s);
        assert_eq!(again.path_count(), if years < 0.0 { 2 } else { 0 });
        let mut left = rows.clone();
        save(&mut again, false, &mut left);
        assert_eq!(restore(&left, later_s).0.path_count(), again.path_count());
    }
}

/// Two paths whose rates and sizes differ: each has its own figures, and keeps them over a restart.
#[test]
fn typical_rewards_are_the_paths_own_and_are_saved() {
    let mut learner = Thompson::new(ARMS, Settings::default()).unwrap();
    let paths = [
        (lineage(1, 1, 40_000), 13.0, 1e5),
        (lineage(2, 1, 40_000), 16.0, 1e8),
    ];
    let mut now_s = 1000.0;
    for i in 0..80 {
        let arm = (i % 2) as usize;
        now_s += 20.0;
        for (path, nats, bytes) in paths {
            let nats = nats + 0.5 * arm as f64 + 0.3 * noise(i);
            let mut one = seen(path, arm, nats, now_s);
            one.features.bytes = bytes;
            learner.observe(&one).unwrap();
        }
    }
    let typical = |learner: &mut Thompson, path: &Lineage, now_s| {
        learner
            .view(&path.node(Level::Path), now_s)
            .unwrap()
            .typical
    };
    let before = paths.map(|(path, nats, _)| {
        let typical = typical(&mut learner, &path, now_s);
        for (arm, truth) in [nats, nats + 0.5].into_iter().enumerate() {
            let found = typical[arm];
            assert!((found.mean - truth).abs() < 0.3, "{truth}: {found:?}");
            assert!(
                (found.low..=found.high).contains(&truth),
                "{truth}: {found:?}"
            );
            assert!(found.high - found.low < 1.5, "{found:?}");
        }
        typical
    });
    let group = paths[0].0.node(Level::Group);
    assert!(learner.view(&group, now_s).unwrap().typical.is_empty());
    let mut rows = Rows::new();
    save(&mut learner, true, &mut rows);
    let (mut again, _) = restore(&rows, now_s);
    for ((path, ..), before) in paths.iter().zip(before) {
        let after = typical(&mut again, path, now_s);
        for (a, b) in before.iter().zip(&after) {
            assert!((a.mean - b.mean).abs() < 0.05, "{a:?} {b:?}");
        }
    }
}
