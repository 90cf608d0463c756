//! The rescue with the learner in the daemon, with netem's losses.

use tcpilot_abi::{TP_LEVEL_GLOBAL, TP_RECORD_RESCUED, TP_RECORD_SAMPLE, TP_WITHHELD_ALREADY};
use tcpilot_core::choice_dist::{DistPlace, Entries};
use tcpilot_tests::{FAR, Lab, Sink};

use crate::{
    impair,
    learner::{ALL_BBR, ALL_RENO, BBR, Learner, RENO, config, name},
};

/// Uploads two megabytes on a connection under this choice distribution.
fn upload(lab: &Lab, dist: Entries) -> Learner {
    let _sink = Sink::new(&lab.net.far, 5300);
    let mut config = config();
    config.policy[0].rescue = 1;
    config.rescue_cc = name("bbr");
    config.rescue_arm = BBR;
    config.rescue_retry_s = 600;
    let mut learner = Learner::new(lab, &config);
    learner.put(TP_LEVEL_GLOBAL, &DistPlace::default(), dist, 1);
    let mut application = lab.actor();
    application.tell(&format!("connect {FAR}:5300"));
    for _ in 0..8 {
        learner.ends.heartbeat.renew();
        application.tell("send 500000");
    }
    application.tell("close");
    learner
}

#[test]
fn random_loss_is_rescued_with_daemon_learner() {
    let lab = Lab::new();
    impair(&lab, "netem delay 20ms loss 2%");
    let mut learner = upload(&lab, ALL_RENO);
    let left = learner.record();
    assert_eq!(
        (u32::from(left.flags), left.arm),
        (TP_RECORD_SAMPLE | TP_RECORD_RESCUED, RENO)
    );
    assert_eq!(learner.record().arm, BBR);
    let counters = learner.pilot.counters();
    assert_eq!((counters.rescues, counters.rescues_undone), (1, 0));
}

#[test]
fn connection_using_rescue_algorithm_needs_no_rescue() {
    let lab = Lab::new();
    impair(&lab, "netem delay 20ms loss 2%");
    let mut learner = upload(&lab, ALL_BBR);
    assert_eq!(learner.record().arm, BBR);
    let counters = learner.pilot.counters();
    let already = counters.withheld[TP_WITHHELD_ALREADY as usize];
    assert!(counters.rescues == 0 && already <= 1, "{counters:?}");
}
