//! Published choice distributions, views, and samples of long connections.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod common;

use std::collections::HashMap;

use common::{lineage, noise, seen, teach};
use tcpilot_learner::draw::ChoiceDist;
use tcpilot_learner::{Learner as _, Level, NodeKey, Plan, Settings, Thompson};

fn published(learner: &mut Thompson, now_s: f64, budget: usize) -> HashMap<NodeKey, Plan> {
    let mut dists = HashMap::new();
    learner.publish(now_s, budget, |key, plan| {
        dists.insert(*key, *plan.unwrap());
    });
    dists
}

#[test]
fn sample_publishes_path_and_nodes_above() {
    let mut learner = Thompson::new(2, Settings::default()).unwrap();
    let who = lineage(1, 1, 40_000);
    learner.observe(&seen(who, 0, 13.0, 0.0)).unwrap();
    let dists = published(&mut learner, 0.0, 1000);
    for level in Level::ALL {
        let plan = learner.plan_of(&who.node(level), 0.0).unwrap();
        assert_eq!(dists[&who.node(level)], plan);
    }
    assert!(published(&mut learner, 0.0, 1000).is_empty());
}

#[test]
fn neighbours_are_published_within_the_budget() {
    let mut learner = Thompson::new(2, Settings::default()).unwrap();
    let mut now_s = 0.0;
    for host in 0..20 {
        learner
            .observe(&seen(lineage(1, host, 40_000), 0, 13.0, now_s))
            .unwrap();
    }
    published(&mut learner, now_s, 1000);
    for host in 20..26 {
        now_s = teach(
            &mut learner,
            lineage(1, host, 40_000),
            &[0.0, 0.8],
            8,
            now_s,
        );
    }
    let mut dists: HashMap<NodeKey, Plan> = HashMap::new();
    for _ in 0..200 {
        let some = published(&mut learner, now_s, 5);
        assert!(some.len() <= 5);
        dists.extend(some);
    }
    for host in 0..20 {
        let key = lineage(1, host, 40_000).node(Level::Path);
        assert_eq!(dists[&key], learner.plan_of(&key, now_s).unwrap());
        assert!(dists[&key].shares[1] > 0.8);
    }
}

#[test]
fn each_path_is_published_once_per_round() {
    let mut learner = Thompson::new(2, Settings::default()).unwrap();
    for host in 0..50 {
        learner
            .observe(&seen(lineage(1, host, 40_000), 0, 13.0, 0.0))
            .unwrap();
    }
    published(&mut learner, 0.0, 1000);
    let round_s = Settings::default().memory.round_s;
    let mut dists = HashMap::new();
    for minute in 1..=60 {
        let some = published(&mut learner, round_s * f64::from(minute) / 60.0, 1000);
        assert!(some.len() <= 2);
        dists.extend(some);
    }
    assert_eq!(dists.len(), 50);
}

#[test]
fn an_unseen_path_gets_its_nearest_nodes_shares() {
    let mut learner = Thompson::new(2, Settings::default()).unwrap();
    let mut now_s = 0.0;
    for host in 0..8 {
        now_s = teach(
            &mut learner,
            lineage(1, host, 40_000),
            &[0.0, 0.8],
            8,
            now_s,
        );
    }
    let (near, far) = (lineage(1, 99, 40_000), lineage(9, 9, 40_000));
    assert!(learner.plan_of(&near.node(Level::Path), now_s).is_none());
    assert!(learner.plan_of(&far.node(Level::Group), now_s).is_none());
    let group = learner.plan_of(&near.node(Level::Group), now_s).unwrap();
    let site = learner.plan_of(&far.node(Level::Site), now_s).unwrap();
    assert_eq!(group, learner.plan(&near, now_s));
    assert_eq!(site, learner.plan(&far, now_s));
    let global = NodeKey {
        level: Level::Global,
        ..near.node(Level::Global)
    };
    assert!(learner.plan_of(&global, now_s).is_some());
}

#[test]
fn arms_keep_their_shares_under_the_kernels_numbers() {
    let plan = |shares: &[f64]| {
        let mut plan = Thompson::new(2, Settings::default())
            .unwrap()
            .plan(&lineage(1, 1, 0), 0.0);
        plan.shares = [0.0; 8];
        plan.shares[..shares.len()].copy_from_slice(shares);
        plan
    };
    let three = plan(&[0.25, 0.0, 0.75]);
    let dist = ChoiceDist::of(&three, &[Some(5), Some(0), Some(2)]).unwrap();
    assert_eq!(dist.0, [0, 0, 49151, 49151, 49151, 65535, 65535, 65535]);
    assert!((0..=u16::MAX).all(|u| [2, 5].contains(&dist.arm(u))));
    // An unusable arm gives its share to the default.
    let dist = ChoiceDist::of(&three, &[Some(1), Some(0), None]).unwrap();
    assert!((0..=u16::MAX).all(|u| dist.arm(u) == 1));
    // Without the default the others share it.
    let dist = ChoiceDist::of(&plan(&[0.5, 0.1, 0.4]), &[None, Some(0), Some(1)]).unwrap();
    assert!((dist.probability(0) - 0.2).abs() < 1e-4 && (dist.probability(1) - 0.8).abs() < 1e-4);
    let dist = ChoiceDist::of(&plan(&[1.0]), &[None, Some(3)]).unwrap();
    assert!((dist.probability(3) - 1.0).abs() < 1e-9);
    assert_eq!(ChoiceDist::of(&three, &[None, None, None]), None);
    assert_eq!(ChoiceDist::of(&three, &[Some(8)]), None);
}

#[test]
fn view_contains_truth_and_names_its_source() {
    let mut learner = Thompson::new(2, Settings::default()).unwrap();
    let busy = lineage(1, 1, 40_000);
    let assumed = learner.view(&busy.node(Level::Global), 0.0).unwrap();
    assert_eq!(assumed.estimates[0].from, None);
    let mut now_s = teach(&mut learner, busy, &[0.0, 0.5], 400, 0.0);
    let own = learner.view(&busy.node(Level::Path), now_s).unwrap();
    let [estimate] = own.estimates[..] else {
        panic!("{own:?}")
    };
    assert_eq!(estimate.from, Some(Level::Path));
    assert!(estimate.low < 0.5 && 0.5 < estimate.high && estimate.high < 0.65);
    let [_, low, high] = estimate.percent();
    assert!(low > 30.0 && low < 65.0 && high > 65.0 && high < 90.0);
    assert!(own.own_weight > 250.0 && own.spent > 0.0 && own.seen_s.is_some());
    for host in 2..30 {
        now_s = teach(
            &mut learner,
            lineage(1, host, 40_000),
            &[0.0, 0.5],
            10,
            now_s,
        );
    }
    let quiet = lineage(1, 99, 40_000);
    learner.observe(&seen(quiet, 0, 13.0, now_s)).unwrap();
    let told = learner.view(&quiet.node(Level::Path), now_s).unwrap();
    assert_eq!(told.estimates[0].from, Some(Level::Group));
    assert!(told.estimates[0].low > 0.0 && told.own_weight <= 1.0);
    assert_eq!(learner.paths().count(), 30);
    assert!(learner.spent() >= own.spent);
}

#[test]
fn a_change_is_remembered_with_its_time() {
    let mut learner = Thompson::new(2, Settings::default()).unwrap();
    let who = lineage(1, 1, 40_000);
    let now_s = teach(&mut learner, who, &[0.0, 0.8], 100, 0.0);
    assert_eq!(
        learner
            .view(&who.node(Level::Path), now_s)
            .unwrap()
            .changed_s,
        None
    );
    let then_s = teach(&mut learner, who, &[-2.0, -2.8], 20, now_s);
    let changed_s = learner
        .view(&who.node(Level::Path), then_s)
        .unwrap()
        .changed_s
        .unwrap();
    assert!(changed_s >= now_s && changed_s <= then_s);
    assert!(learner.alarms().any(|a| a.key == who.node(Level::Path)));
}

/// Samples of one long connection count less than as many connections, and the less the closer
/// they are in time.
#[test]
fn samples_of_one_connection_count_less_than_connections() {
    let weight = |interval_s: f64, one: bool| {
        let mut learner = Thompson::new(2, Settings::default()).unwrap();
        let who = lineage(1, 1, 40_000);
        for i in 0..20u64 {
            let mut sample = seen(who, 0, 13.0 + 0.3 * noise(i), interval_s * i as f64);
            sample.since_last_s = (one && i > 0).then_some(interval_s);
            learner.observe(&sample).unwrap();
        }
        let key = who.node(Level::Path);
        learner.view(&key, 20.0 * interval_s).unwrap().own_weight
    };
    assert!(weight(10.0, false) > 19.0);
    let (close, apart) = (weight(10.0, true), weight(60.0, true));
    assert!(close > 2.0 && close < 6.0, "{close}");
    assert!(apart > 12.0 && apart < 18.0, "{apart}");
}

#[test]
fn new_learner_has_spent_nothing() {
    let learner = Thompson::new(2, Settings::default()).unwrap();
    assert_eq!(format!("{:.1}", learner.spent()), "0.0");
}
