//! What the rules say without trees: signs that are certain.

use tcpilot_abi::{
    TP_FLOW_QUIC, TP_FLOW_SPIN, TP_GROUP_DELAY, TP_GROUP_MODEL, TP_GROUP_UNKNOWN, TP_NO_CLASS,
    TP_REASON_APPLICATION, TP_REASON_RULE, TP_REASON_UNSURE,
};

use crate::flow::Flow;

/// A flow judged by the rules alone, without trees.
fn by_rules() -> Flow {
    let mut flow = Flow::new();
    flow.model = Box::default();
    flow.start();
    flow
}

#[test]
fn reno_is_left_to_the_trees() {
    // Reno does, and so does YeAH with fewer than 80 packets in the queue.
    let mut flow = by_rules();
    for _ in 0..3 {
        for window in 75..150 {
            flow.round(window, window * 600, 0);
        }
        flow.round(150, 90_000, 1);
        flow.round(225, 60_000, 1);
    }
    assert_eq!(
        (flow.group(), flow.reason()),
        (TP_GROUP_UNKNOWN, TP_REASON_UNSURE)
    );
    assert_eq!(flow.feature("growth_epoch"), 256, "a packet a round");
}

#[test]
fn yielding_to_others_queue_means_delay_based() {
    let mut flow = by_rules();
    for _ in 0..40 {
        flow.round(60, 4000, 0);
    }
    assert_ne!(flow.reason(), TP_REASON_RULE, "whoever is paced rests, too");
    // Another flow's queue grows by 2 ms per round; this flow takes a packet back each time.
    for step in 0..12 {
        flow.round(60 - step, 4000 + 2000 * step, 0);
    }
    for _ in 0..40 {
        flow.round(48, 28_000, 0);
    }
    assert_eq!(
        (flow.group(), flow.reason()),
        (TP_GROUP_DELAY, TP_REASON_RULE)
    );
    for _ in 0..120 {
        flow.round(48, 28_000, 0);
    }
    assert_ne!(flow.reason(), TP_REASON_RULE, "long ago");
}

/// Rounds at the queue of another flow, which fills it to 100 ms and halves it after its loss, in turns.
fn in_a_sawtooth_queue(flow: &mut Flow, mut round: impl FnMut(&mut Flow, u32)) {
    for step in 0..400 {
        round(flow, 50_000 + 1250 * (step % 40));
    }
}

/// Twenty packets in 50 ms, whatever the queue does; at most a few of them wait.
fn paced(flow: &mut Flow, queue_us: u32) {
    let rtt_us = 50_000 + queue_us;
    let packets = 20 * rtt_us / 50_000;
    flow.round.duration_us = rtt_us;
    flow.round.in_packets = packets;
    flow.round(packets, queue_us, 0);
}

#[test]
fn constant_rate_in_others_queue_means_application_limited() {
    let mut flow = by_rules();
    in_a_sawtooth_queue(&mut flow, |flow, queue_us| {
        paced(flow, queue_us);
        assert_ne!(flow.group(), TP_GROUP_DELAY, "{:?}", flow.verdict);
    });
    assert_eq!(
        (flow.group(), flow.reason()),
        (TP_GROUP_UNKNOWN, TP_REASON_APPLICATION)
    );
}

#[test]
fn draining_after_slow_start_is_not_application_limited() {
    // The link is full all the time, so the rate stays: Vegas alone, a packet less each round.
    let mut flow = by_rules();
    for step in 0..200 {
        paced(&mut flow, 70_000 - 1250 * step.min(52));
        assert_ne!(flow.reason(), TP_REASON_APPLICATION, "{step}");
    }
}

#[test]
fn a_constant_window_is_not_certainly_delay_based() {
    let mut flow = by_rules();
    in_a_sawtooth_queue(&mut flow, |flow, queue_us| {
        flow.round.duration_us = 50_000 + queue_us;
        flow.round(20, queue_us, 0);
        assert_ne!(flow.group(), TP_GROUP_DELAY, "{:?}", flow.verdict);
    });
}

/// So many seconds with a full window.
fn cruise(flow: &mut Flow, seconds: u32) {
    for _ in 0..seconds * 20 {
        flow.round(60, 10_000, 0);
    }
}

fn fall(flow: &mut Flow, windows: &[u32]) {
    for window in windows {
        flow.round(*window, 1000, 0);
    }
}

#[test]
fn probe_rtt_to_four_packets_means_model_based() {
    let mut flow = by_rules();
    cruise(&mut flow, 2);
    fall(&mut flow, &[4, 4, 4, 60]);
    assert_ne!(flow.group(), TP_GROUP_MODEL, "once is no period");
    cruise(&mut flow, 10);
    fall(&mut flow, &[4, 4, 4, 60]);
    let certain = (TP_GROUP_MODEL, TP_REASON_RULE);
    assert_eq!((flow.group(), flow.reason()), certain);
    cruise(&mut flow, 20);
    assert_eq!((flow.group(), flow.reason()), certain, "not yet forgotten");
    cruise(&mut flow, 10);
    assert_ne!((flow.group(), flow.reason()), certain, "it fades");
}

#[test]
fn probe_rtt_to_a_half_means_model_based() {
    let mut flow = by_rules();
    cruise(&mut flow, 2);
    for times in 1..=3 {
        assert_ne!(flow.group(), TP_GROUP_MODEL, "{times}");
        fall(&mut flow, &[35, 30, 30, 55]);
        cruise(&mut flow, 5);
    }
    assert_eq!(
        (flow.group(), flow.reason()),
        (TP_GROUP_MODEL, TP_REASON_RULE)
    );
}

#[test]
fn quic_without_spin_bit_needs_deep_falls() {
    let falls = |flags, windows: &[u32], apart_s| {
        let mut flow = by_rules();
        flow.round.flags |= flags;
        cruise(&mut flow, 2);
        for _ in 0..3 {
            fall(&mut flow, windows);
            cruise(&mut flow, apart_s);
        }
        flow.group()
    };
    let (half, four) = ([35, 30, 30, 55], [4, 4, 4, 60]);
    let model = TP_GROUP_MODEL;
    assert_ne!(falls(TP_FLOW_QUIC, &half, 5), model);
    assert_eq!(falls(TP_FLOW_QUIC | TP_FLOW_SPIN, &half, 5), model);
    assert_eq!(falls(TP_FLOW_QUIC, &four, 10), model);
}

#[test]
fn slow_recovery_is_not_model_based() {
    let mut flow = by_rules();
    for _ in 0..4 {
        cruise(&mut flow, 10);
        fall(&mut flow, &[4, 4, 5, 6, 7, 20, 40]);
    }
    assert_ne!(flow.group(), TP_GROUP_MODEL);
}

/// A chunk of so many rounds, then nothing for a while: the round spans the pause.
fn chunk(flow: &mut Flow, rounds: u32, pause_us: u32) {
    for _ in 0..rounds {
        flow.round(60, 20_000, 0);
    }
    flow.round.gap_max_us = pause_us;
    flow.round.duration_us = pause_us + 50_000;
    flow.round(4, 1000, 0);
    flow.round.gap_max_us = 1000;
    flow.round.duration_us = 70_000;
}

#[test]
fn pauses_are_not_called_model_based() {
    // 1.5 MB at 20 Mbit/s, with pauses of 100 to 600 ms; and a segment of video every ten seconds.
    for (rounds, pause_us) in [(9, 100_000), (9, 300_000), (9, 600_000), (140, 300_000)] {
        let mut flow = by_rules();
        for _ in 0..8 {
            chunk(&mut flow, rounds, pause_us);
            assert_ne!(flow.group(), TP_GROUP_MODEL, "{rounds} {pause_us}");
        }
    }
}

/// The forest says delay, and a rule says model: the name is one of the rule's group, or there is none.
#[test]
fn a_name_is_one_of_its_group() {
    let mut flow = Flow::new();
    flow.model.classes = 3;
    flow.model.group[2] = TP_GROUP_MODEL as u8;
    (flow.model.leaf[0][1], flow.model.leaf[0][2]) = (215, 40);
    flow.start();
    for _ in 0..3 {
        cruise(&mut flow, 10);
        assert_eq!((flow.group(), flow.verdict.name), (TP_GROUP_DELAY, 1));
        fall(&mut flow, &[4, 4, 4, 60]);
        if flow.reason() == TP_REASON_RULE {
            break;
        }
    }
    assert_eq!((flow.group(), flow.verdict.name), (TP_GROUP_MODEL, 2));
    assert_eq!(flow.verdict.confidence, 255, "the group's only one");
    flow.model.group[2] = TP_GROUP_DELAY as u8;
    fall(&mut flow, &[60]);
    assert_eq!(u32::from(flow.verdict.name), TP_NO_CLASS);
}

/// The group of a steady flow that the trees take for BBR.
fn steady_model(flags: u32, link_used: u32) -> u32 {
    let mut flow = Flow::new();
    flow.model.group[1] = TP_GROUP_MODEL as u8;
    flow.round.flags = flags;
    flow.round.link_used = link_used;
    flow.start();
    for _ in 0..40 {
        flow.round(100, 5000, 0);
    }
    flow.group()
}

#[test]
fn paced_quic_with_spare_capacity_is_not_bbr() {
    assert_eq!(steady_model(TP_FLOW_QUIC, 100), TP_GROUP_UNKNOWN);
    assert_eq!(steady_model(TP_FLOW_QUIC, 250), TP_GROUP_MODEL);
    assert_eq!(
        steady_model(0, 100),
        TP_GROUP_MODEL,
        "a policer may be its bottleneck"
    );
}
