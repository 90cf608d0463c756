//! Held-out connections: no choice, no rescue, no tuning, and a record marked as held out. There is no daemon
//! here: the test decides which assignment buckets are held out.

use tcpilot_abi::{
    TP_CONN_HELD_OUT, TP_LEVEL_GLOBAL, TP_TRIAL_COUNTS, TP_TRIAL_HELD_OUT, TP_WHY_DRAWN,
    TP_WHY_HELD_OUT, tp_config,
};
use tcpilot_core::{Prefix, choice_dist};
use tcpilot_kernel::ASSIGNMENT_BUCKETS;
use tcpilot_tests::{FAR, Lab, Sink};

use crate::{
    learner::{ALL_BBR, ALL_RENO, BBR, CERTAIN, Learner, RENO, config, connect},
    rescue,
};

const SECRETS: [u64; 7] = [
    0x9e37_79b9_7f4a_7c15,
    0xbf58_476d_1ce4_e5b9,
    0x94d0_49bb_1331_11eb,
    0x2545_f491_4f6c_dd1d,
    0xd6e8_feb8_6659_fd93,
    0xa076_1d64_78bd_642f,
    0xe703_7ed1_a0b4_28db,
];

/// Another group, on the same link.
const OTHER: &str = "10.78.0.2";

fn held_out_config() -> tp_config {
    tp_config {
        assignment_secrets: SECRETS,
        ..config()
    }
}

fn bucket_of(address: &str) -> usize {
    let prefix = Prefix::around(address.parse().unwrap(), 128);
    choice_dist::assignment_bucket(&SECRETS, &prefix.words()) as usize
}

/// Assignment buckets: all 0 except the address's own.
fn says(address: &str, trial: u32) -> Box<[u8; ASSIGNMENT_BUCKETS]> {
    let mut buckets = Box::new([0; ASSIGNMENT_BUCKETS]);
    buckets[bucket_of(address)] = trial as u8;
    buckets
}

fn to(address: &str) -> String {
    format!("{address}:5300")
}

fn lab() -> Lab {
    let lab = Lab::new();
    let (near, far) = (&lab.net.near, &lab.net.far);
    far.ip(&format!("address add {OTHER}/32 dev lo"));
    near.ip(&format!("route add {OTHER}/32 via {FAR}"));
    lab
}

/// Every connection that is not held out gets bbr.
fn all_bbr(learner: &mut Learner) {
    let place = choice_dist::DistPlace::default();
    learner.put(TP_LEVEL_GLOBAL, &place, ALL_BBR, 1);
}

#[test]
fn only_the_held_out_group_gets_the_default() {
    let lab = lab();
    let _sink = Sink::new(&lab.net.far, 5300);
    let mut learner = Learner::new(&lab, &held_out_config());
    all_bbr(&mut learner);
    let mut application = lab.actor();
    assert_eq!(connect(&mut application, &to(FAR)), "bbr");
    assert_eq!(learner.record().trial, 0);

    let both = TP_TRIAL_HELD_OUT | TP_TRIAL_COUNTS;
    learner.ends.assignment_buckets.set(&says(FAR, both));
    assert_eq!(connect(&mut application, &to(FAR)), "reno");
    let record = learner.record();
    assert_eq!((record.arm, record.probability), (RENO, CERTAIN));
    assert_eq!(
        (u32::from(record.why), u32::from(record.trial)),
        (TP_WHY_HELD_OUT, both)
    );
    assert_ne!(u32::from(record.conn_flags) & TP_CONN_HELD_OUT, 0);
    assert_eq!(connect(&mut application, &to(OTHER)), "bbr");
    let record = learner.record();
    assert_eq!(
        (record.arm, u32::from(record.why), record.trial),
        (BBR, TP_WHY_DRAWN, 0)
    );

    learner
        .ends
        .assignment_buckets
        .set(&says(FAR, TP_TRIAL_COUNTS));
    assert_eq!(connect(&mut application, &to(FAR)), "bbr");
    assert_eq!(u32::from(learner.record().trial), TP_TRIAL_COUNTS);
    let counters = learner.pilot.counters();
    assert_eq!(counters.connections[TP_WHY_HELD_OUT as usize], 1);
}

#[test]
fn overlapping_held_out_connections_are_counted_together() {
    let lab = lab();
    let _sink = Sink::new(&lab.net.far, 5300);
    let mut learner = Learner::new(&lab, &held_out_config());
    all_bbr(&mut learner);
    learner
        .ends
        .assignment_buckets
        .set(&says(FAR, TP_TRIAL_HELD_OUT));
    let mut application = lab.actor();
    for _ in 0..4 {
        application.tell(&format!("hold {}", to(FAR)));
    }
    application.tell("feed 20000");
    application.tell("release");
    let beside = [(); 4].map(|()| learner.record().beside);
    assert_eq!(beside, [4; 4]);
    connect(&mut application, &to(FAR));
    assert_eq!(learner.record().beside, 1);
    // None of them has left an assignment behind.
    learner.ends.assignment_buckets.set(&says(FAR, 0));
    assert_eq!(connect(&mut application, &to(FAR)), "bbr");
}

#[test]
fn a_connection_keeps_its_assignment_from_its_start() {
    let lab = lab();
    let sink = Sink::new(&lab.net.far, 5300);
    let mut learner = Learner::new(&lab, &held_out_config());
    all_bbr(&mut learner);
    let both = TP_TRIAL_HELD_OUT | TP_TRIAL_COUNTS;
    learner.ends.assignment_buckets.set(&says(FAR, both));
    let mut application = lab.actor();
    application.tell(&format!("connect {}", to(FAR)));
    learner
        .ends
        .assignment_buckets
        .set(&says(FAR, TP_TRIAL_COUNTS));
    application.tell("send 300000");
    sink.wait_for(300_000);
    assert_eq!(application.tell("cc"), "reno");
    application.tell("close");
    assert_eq!(u32::from(learner.record().trial), both);
}

/// The algorithm of a connection after losses that would rescue it, and the number of rescues.
fn after_losses(trial: u32, most: u32) -> (String, u64) {
    let lab = Lab::new();
    let _way = rescue::lossy_way(&lab);
    let _sink = Sink::new(&lab.net.far, 5300);
    let config = tp_config {
        assignment_secrets: SECRETS,
        ..rescue::rescuing()
    };
    let mut learner = Learner::new(&lab, &config);
    learner.put(
        TP_LEVEL_GLOBAL,
        &choice_dist::DistPlace::default(),
        ALL_RENO,
        1,
    );
    learner
        .ends
        .assignment_buckets
        .set(&says(rescue::OTHER, trial));
    let mut application = lab.actor();
    application.tell(&format!("connect {}", to(rescue::OTHER)));
    let has = rescue::send_until(&learner, &mut application, "bbr", most);
    application.tell("close");
    (has, learner.pilot.counters().rescues)
}

#[test]
fn a_held_out_connection_is_not_rescued() {
    let steered = after_losses(TP_TRIAL_COUNTS, 40);
    assert_eq!(steered, ("bbr".to_owned(), 1));
    let held_out = after_losses(TP_TRIAL_HELD_OUT | TP_TRIAL_COUNTS, 3);
    assert_eq!(held_out, ("reno".to_owned(), 0));
}

#[test]
fn a_daemon_that_is_silent_holds_nobody_out() {
    let lab = lab();
    let _sink = Sink::new(&lab.net.far, 5300);
    let mut learner = Learner::new(&lab, &held_out_config());
    learner
        .ends
        .assignment_buckets
        .set(&says(FAR, TP_TRIAL_HELD_OUT | TP_TRIAL_COUNTS));
    learner.ends.heartbeat.stop();
    assert_eq!(connect(&mut lab.actor(), &to(FAR)), "reno");
    assert_eq!(learner.record().trial, 0, "it is no part of a comparison");
}
