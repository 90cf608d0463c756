//! The learner's behaviour in cases when the published one reached the wrong conclusion.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod common;

use common::{lineage, noise, seen, teach};
use tcpilot_learner::draw::{ChoiceDist, uniform};
use tcpilot_learner::reward::Measures;
use tcpilot_learner::sharing::Bouts;
use tcpilot_learner::{Learner as _, Level, Lineage, Outcome, Settings, Thompson};

fn learner(arms: usize) -> Thompson {
    Thompson::new(arms, Settings::default()).unwrap()
}

#[test]
fn unseen_path_profits_from_its_neighbours() {
    let mut learner = learner(2);
    let unseen = lineage(100, 99, 40_000);
    let before = learner.plan(&unseen, 0.0).shares[1];
    let mut now_s = 0.0;
    for host in 1..8 {
        now_s = teach(
            &mut learner,
            lineage(100, host, 40_000),
            &[0.0, 0.8],
            8,
            now_s,
        );
    }
    let after = learner.plan(&unseen, now_s).shares[1];
    assert!(before < 0.5 && after > 0.95, "{before} {after}");
}

#[test]
fn each_rtt_class_learns_its_own() {
    let mut learner = learner(2);
    let (near, far) = (lineage(100, 1, 10_000), lineage(100, 2, 60_000));
    for i in 0..20u64 {
        let from_s = 100.0 * i as f64;
        teach(&mut learner, near, &[0.0, -0.5], 2, from_s);
        teach(&mut learner, far, &[0.0, 0.8], 2, from_s + 50.0);
    }
    let share = |learner: &mut Thompson, who| learner.plan(&who, 2000.0).shares[1];
    assert!(share(&mut learner, near) < 0.05);
    assert!(share(&mut learner, far) > 0.9);
}

#[test]
fn lone_path_learns_from_rare_connections() {
    let mut learner = learner(3);
    let path = lineage(100, 1, 40_000);
    for i in 0..60u64 {
        let arm = (i % 3) as usize;
        let nats = 13.0 + [0.0, 0.69, 0.0][arm] + 0.4 * noise(i);
        learner
            .observe(&seen(path, arm, nats, 700.0 * i as f64))
            .unwrap();
    }
    let plan = learner.plan(&path, 42_000.0);
    assert!(plan.shares[1] > 0.8, "{plan:?}");
}

#[test]
fn shallow_queue_goes_to_least_wasteful_arm() {
    let mut learner = learner(2);
    let path = lineage(100, 1, 120_000);
    let settings = Settings::default().reward;
    for i in 0..120u64 {
        let arm = (i % 2) as usize;
        // 5.54 Mbit/s with 5.2 % sent again, 5.61 with 23.4 %
        let (rate, again) = [(692_500.0, 52), (701_250.0, 234)][arm];
        let measures = Measures {
            bytes_acked: 1_000_000,
            busy_us: (1e12 / rate * (0.2 * noise(i)).exp()) as u64,
            segments: 1000,
            retransmitted: again,
            srtt_us: 120_000,
            min_rtt_us: 120_000,
            ..Measures::default()
        };
        let nats = measures.reward(&settings).unwrap().nats;
        learner
            .observe(&seen(path, arm, nats, 20.0 * i as f64))
            .unwrap();
    }
    assert!(learner.plan(&path, 2400.0).shares[0] > 0.95);
}

/// Connections by the learner's own shares, with these rewards and losses of the default. Returns arm 1's part of
/// the last hundred.
fn taken(
    learner: &mut Thompson,
    path: Lineage,
    rewards: [f64; 2],
    bouts: Bouts,
    from_s: f64,
) -> f64 {
    let mut late = 0;
    for i in 0..400u64 {
        let at_s = from_s + 20.0 * i as f64;
        let dist = ChoiceDist::new(&learner.plan(&path, at_s).shares);
        let arm = dist.arm(uniform(7, 1, i));
        let mut seen = seen(path, arm, 13.0 + rewards[arm] + 0.3 * noise(i), at_s);
        seen.bouts = bouts;
        learner.observe(&seen).unwrap();
        late += u64::from(i >= 300 && arm == 1);
    }
    late as f64 / 100.0
}

#[test]
fn gain_from_a_queue_of_others_is_left() {
    let path = lineage(100, 1, 80_000);
    let [queued, clear] = [(4.0, 1.0), (1.0, 4.0)].map(|(queued, clear)| Bouts { queued, clear });
    let share = |rewards, bouts| taken(&mut learner(2), path, rewards, bouts, 0.0);
    // Measured: bbr beside a flow of cubic, at random loss, and beside a flow of bbr.
    assert!(share([0.0, 0.28], queued) < 0.1);
    assert!(share([0.0, 0.28], clear) > 0.8);
    assert!(share([0.0, 2.2], queued) > 0.9, "the default is starved");
}

#[test]
fn others_queue_is_known_after_a_restart() {
    let path = lineage(100, 1, 80_000);
    let mut before = learner(2);
    let queued = Bouts {
        queued: 4.0,
        clear: 0.0,
    };
    taken(&mut before, path, [0.0, 0.28], queued, 1e9);
    let mut rows = Vec::new();
    before.save(true, |key, row| {
        rows.extend(row.map(|row| (key.to_vec(), row.to_vec())));
    });
    let now_s = 1e9 + 8000.0;
    let (mut after, _) = Thompson::restore(2, Settings::default(), rows, now_s).unwrap();
    for level in [Level::Path, Level::Group, Level::Global] {
        let share =
            |learner: &mut Thompson| learner.view(&path.node(level), now_s).unwrap().queued_share;
        let (had, has) = (share(&mut before), share(&mut after));
        assert!(
            (had - has).abs() < 1e-3 && has > 0.9,
            "{level:?}: {had} {has}"
        );
    }
}

#[test]
fn vanished_peers_are_not_charged() {
    let mut learner = learner(2);
    let path = lineage(100, 1, 40_000);
    let now_s = teach(&mut learner, path, &[0.0, 0.5], 60, 0.0);
    for i in 0..60u64 {
        let at_s = now_s + 20.0 * i as f64;
        let mut one = seen(path, 1, 13.5 + 0.3 * noise(i), at_s);
        if i % 20 == 0 {
            one.outcome = Outcome::TimedOut;
        }
        learner.observe(&one).unwrap();
    }
    assert!(learner.plan(&path, now_s + 1200.0).shares[1] > 0.9);
}

#[test]
fn changed_path_returns_to_the_default() {
    let mut learner = learner(2);
    let path = lineage(100, 1, 40_000);
    let now_s = teach(&mut learner, path, &[0.0, 1.0], 60, 0.0);
    assert!(learner.plan(&path, now_s).shares[1] > 0.95);
    // The favourite falls by two nats; the default is as before. The learner's own draws decide.
    let mut changed = 0;
    for i in 0..50u64 {
        let at_s = now_s + 20.0 * i as f64;
        let arm = ChoiceDist::new(&learner.plan(&path, at_s).shares).arm(uniform(7, 1, i));
        let nats = [13.0, 12.0][arm];
        let one = seen(path, arm, nats + 0.3 * noise(i), at_s);
        changed += u32::from(learner.observe(&one).unwrap().path_changed);
    }
    assert!(changed > 0);
    let plan = learner.plan(&path, now_s + 1000.0);
    assert!(plan.shares[1] < 0.5, "{changed} {plan:?}");
}

#[test]
fn unusable_observation_changes_nothing() {
    let mut learner = learner(2);
    let path = lineage(100, 1, 40_000);
    assert!(learner.observe(&seen(path, 2, 13.0, 0.0)).is_err());
    assert!(learner.observe(&seen(path, 1, f64::NAN, 0.0)).is_err());
    assert_eq!(learner.path_count(), 0);
    assert!(Thompson::new(9, Settings::default()).is_err());
}

#[test]
fn extreme_rewards_leave_shares_that_are_probabilities() {
    let mut learner = learner(8);
    for i in 0..2000u64 {
        let nats = [1e6, -1e6, 0.0, 700.0][(i % 4) as usize];
        let who = lineage((i % 5) as u8, (i % 7) as u8, 40_000);
        learner
            .observe(&seen(who, (i % 8) as usize, nats, (i * i) as f64))
            .unwrap();
        let plan = learner.plan(&who, (i * i) as f64);
        assert!(
            (plan.shares.iter().sum::<f64>() - 1.0).abs() < 1e-9,
            "{plan:?}"
        );
    }
}
