//! From rounds to a verdict: rules, votes, hysteresis, abstention.

use tcpilot_abi::{
    TP_FEATURES, TP_FLOW_ECT_SYN, TP_GROUP_ANT, TP_GROUP_DELAY, TP_GROUP_LOSS, TP_GROUP_MODEL,
    TP_GROUP_MOUSE, TP_GROUP_UNKNOWN, TP_NO_CLASS, TP_RANGE_RTT, TP_REASON_APPLICATION,
    TP_REASON_MODEL, TP_REASON_NO_QUEUE, TP_REASON_OUTSIDE, TP_REASON_RECEIVER, TP_REASON_RULE,
    TP_REASON_UNSURE, TP_RESPONSE, tp_model, tp_node, tp_round, tp_shape, tp_verdict,
};
use tcpilot_core::watch::{classify, features, mean_gap, shape_round};

const SEGMENT: u32 = 1000;
const OWN_QUEUE: u8 = 12;
const GROWTH_EPOCH: usize = 44;
const BACKLOG: usize = 89;

/// A flow under test: 50 ms of path, a queue of 100 ms at most.
struct Flow {
    shape: tp_shape,
    verdict: tp_verdict,
    model: Box<tp_model>,
    round: tp_round,
}

/// One tree: class 0 (loss) with more than 32 packets of its own in the queue, else class 1 (delay).
fn model(sure: u8) -> Box<tp_model> {
    let mut model = Box::<tp_model>::default();
    (model.trees, model.classes) = (1, 2);
    model.group[0] = TP_GROUP_LOSS as u8;
    model.group[1] = TP_GROUP_DELAY as u8;
    model.node[0] = tp_node {
        threshold: 32 * 16,
        child: 1,
        feature: OWN_QUEUE,
        is_leaf: 0,
    };
    for leaf in 0..2 {
        model.node[1 + leaf].is_leaf = 1;
        model.node[1 + leaf].child = leaf as u16;
    }
    (model.leaf[0][1], model.leaf[0][0]) = (sure, 255 - sure);
    (model.leaf[1][0], model.leaf[1][1]) = (sure, 255 - sure);
    model
}

impl Flow {
    fn new() -> Flow {
        Flow {
            shape: tp_shape::default(),
            verdict: tp_verdict {
                name: TP_NO_CLASS as u8,
                ..Default::default()
            },
            model: model(255),
            round: tp_round {
                min_rtt_us: 50_000,
                rtt_us: 50_000,
                duration_us: 50_000,
                segment_bytes: SEGMENT,
                link_queue_us: 100_000,
                acks: 10,
                in_packets: 20,
                ..Default::default()
            },
        }
    }

    /// A round with this window and queue.
    fn round(&mut self, window: u32, queue_us: u32, lost: u32) {
        let round = &mut self.round;
        round.number += 1;
        round.flight_max_bytes = window * SEGMENT;
        round.in_bytes = window * SEGMENT;
        round.sojourn_mean_us = queue_us;
        round.sojourn_max_us = queue_us;
        round.rtt_us = 50_000 + queue_us;
        round.dropped_packets = lost;
        round.again_packets = lost;
        shape_round(&mut self.shape, round);
        classify(&mut self.verdict, &self.shape, round, &self.model);
    }

    fn start(&mut self) {
        for window in [10, 20, 40, 80] {
            self.round(window, 10_000, 0);
            assert_eq!(self.group(), TP_GROUP_MOUSE, "{window}");
        }
        self.round(160, 90_000, 10);
    }

    fn features(&self) -> [i32; TP_FEATURES as usize] {
        let mut found = [0; TP_FEATURES as usize];
        features(&self.shape, &self.round, &mut found);
        found
    }

    fn group(&self) -> u32 {
        u32::from(self.verdict.group)
    }

    fn reason(&self) -> u32 {
        u32::from(self.verdict.reason)
    }
}

#[test]
fn a_flow_that_doubles_is_a_mouse_until_its_first_loss() {
    let mut flow = Flow::new();
    flow.start();
    assert_eq!(flow.features()[17], 512, "doubling, x256");
    assert_eq!(flow.features()[19], 1, "it ended with a loss");
}

#[test]
fn the_response_to_a_loss_is_the_window_after_over_the_window_before() {
    for (after, expected) in [(50, 128), (70, 179), (100, 256)] {
        let mut flow = Flow::new();
        flow.start();
        for _ in 0..6 {
            flow.round(100, 90_000, 0);
        }
        flow.shape.known[TP_RESPONSE as usize] = 0; // the start's own loss
        flow.shape.mean[TP_RESPONSE as usize] = 0;
        flow.round(180, 90_000, 1); // in flight beyond the gap: no part of the window
        flow.round(120, 90_000, 1);
        flow.round(after, 40_000, 0);
        flow.round(after, 40_000, 0);
        assert_eq!(flow.features()[0], expected);
        assert_eq!(flow.shape.losses, 2);
    }
}

#[test]
fn growth_is_told_by_the_phase_of_its_epoch() {
    let mut flow = Flow::new();
    flow.start();
    for step in 0..12 {
        // One packet a round at first, three later.
        let window = if step < 6 {
            80 + step
        } else {
            86 + 3 * (step - 6)
        };
        flow.round(window, 20_000, 0);
    }
    let found = flow.features();
    assert_eq!(found[3], 256, "in rounds 2 and 3 of the epoch");
    assert!(found[5] > 500, "in rounds 8 to 15: {}", found[5]);
}

#[test]
fn a_group_is_entered_after_rounds_that_agree_and_left_when_they_do_not() {
    let mut flow = Flow::new();
    flow.start();
    let mut entered = 0;
    for round in 1..40 {
        flow.round(100, 90_000, 0);
        if flow.group() == TP_GROUP_LOSS && entered == 0 {
            entered = round;
        }
    }
    assert!((5..20).contains(&entered), "{entered}");
    assert_eq!(flow.reason(), TP_REASON_MODEL);
    flow.round(60, 1000, 0);
    assert_eq!(flow.group(), TP_GROUP_LOSS, "one round changes nothing");
    for _ in 0..60 {
        flow.round(52, 1000, 0);
    }
    assert_eq!(flow.group(), TP_GROUP_DELAY, "demoted");
}

/// How often the trees were asked in so many rounds: the votes move each time.
fn asked(flow: &mut Flow, rounds: u32) -> u32 {
    let votes = |flow: &Flow| (flow.verdict.votes[0], flow.verdict.votes[1]);
    let mut times = 0;
    for round in 0..rounds {
        // The votes' strength alternates, so that no two rounds in a row vote the same.
        let sure = if round % 2 == 0 { 250 } else { 230 };
        flow.model.leaf[0] = Default::default();
        flow.model.leaf[1] = Default::default();
        (flow.model.leaf[0][1], flow.model.leaf[0][0]) = (sure, 255 - sure);
        (flow.model.leaf[1][0], flow.model.leaf[1][1]) = (sure, 255 - sure);
        let before = votes(flow);
        flow.round(100, 90_000, 0);
        times += u32::from(votes(flow) != before);
    }
    times
}

#[test]
fn a_settled_flow_is_judged_now_and_then_and_behind_a_loss() {
    let mut flow = Flow::new();
    flow.start();
    assert!(asked(&mut flow, 30) > 20, "not settled yet");
    assert_eq!(flow.group(), TP_GROUP_LOSS);
    asked(&mut flow, 20);
    assert_eq!(asked(&mut flow, 80), 10);
    flow.round(100, 90_000, 1);
    assert!(asked(&mut flow, 3) >= 2, "a loss says most");
    assert_eq!(asked(&mut flow, 80), 10);
    // A flow that is judged less often is still recognised when it changes.
    for _ in 0..100 {
        flow.round(52, 1000, 0);
    }
    assert_eq!(flow.group(), TP_GROUP_DELAY);
}

#[test]
fn a_first_vote_that_was_wrong_is_outvoted_soon() {
    let mut flow = Flow::new();
    flow.start();
    let (delay, loss) = (flow.model.leaf[0], flow.model.leaf[1]);
    (flow.model.leaf[0], flow.model.leaf[1]) = (delay, delay);
    while flow.verdict.voted_rounds == 0 {
        flow.round(100, 90_000, 0);
    }
    (flow.model.leaf[0], flow.model.leaf[1]) = (loss, loss);
    let rounds = (1..100).find(|_| {
        flow.round(100, 90_000, 0);
        flow.group() == TP_GROUP_LOSS
    });
    // With a sixteenth from the first vote on it would take 12 rounds and those of the candidate.
    assert!(rounds.is_some_and(|n| n <= 6), "{rounds:?}");
}

#[test]
fn trees_that_do_not_agree_give_unknown() {
    let mut flow = Flow::new();
    flow.model = model(128);
    flow.start();
    for _ in 0..40 {
        flow.round(100, 90_000, 0);
    }
    assert_eq!(
        (flow.group(), flow.reason()),
        (TP_GROUP_UNKNOWN, TP_REASON_UNSURE)
    );
}

#[test]
fn what_the_receivers_window_limits_is_unknown() {
    let mut flow = Flow::new();
    flow.round.receiver_window_bytes = 100 * SEGMENT;
    flow.start();
    for _ in 0..40 {
        flow.round(100, 5000, 0);
    }
    assert_eq!(
        (flow.group(), flow.reason()),
        (TP_GROUP_UNKNOWN, TP_REASON_RECEIVER)
    );
}

#[test]
fn a_path_without_a_queue_tells_nothing() {
    let mut flow = Flow::new();
    flow.round.link_queue_us = 100;
    for window in [10, 20, 40, 80] {
        flow.round(window, 20, 0);
    }
    for _ in 0..40 {
        flow.round(80, 20, 0);
    }
    assert_eq!(
        (flow.group(), flow.reason()),
        (TP_GROUP_UNKNOWN, TP_REASON_NO_QUEUE)
    );
}

#[test]
fn few_packets_with_pauses_are_an_ant() {
    let mut flow = Flow::new();
    flow.round.gap_max_us = 45_000;
    for _ in 0..20 {
        flow.round(2, 100, 0);
    }
    assert_ne!(
        flow.group(),
        TP_GROUP_ANT,
        "starved: it sends in every round"
    );
    flow.round.duration_us = 150_000;
    for _ in 0..20 {
        flow.round(2, 100, 0);
    }
    assert_eq!(flow.group(), TP_GROUP_ANT);
}

/// A flow judged by the rules alone, without trees.
fn by_rules() -> Flow {
    let mut flow = Flow::new();
    flow.model = Box::default();
    flow.start();
    flow
}

#[test]
fn who_halves_and_grows_by_a_packet_is_left_to_the_trees() {
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
    let found = flow.features();
    assert_eq!(found[GROWTH_EPOCH], 256, "a packet a round");
}

#[test]
fn who_gives_way_to_the_queue_of_others_and_rests_is_delay_based() {
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
fn beside_a_sawtooth(flow: &mut Flow, mut round: impl FnMut(&mut Flow, u32)) {
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
fn who_keeps_its_rate_beside_the_queue_of_others_is_limited_by_its_application() {
    let mut flow = by_rules();
    beside_a_sawtooth(&mut flow, |flow, queue_us| {
        paced(flow, queue_us);
        assert_ne!(flow.group(), TP_GROUP_DELAY, "{:?}", flow.verdict);
    });
    assert_eq!(
        (flow.group(), flow.reason()),
        (TP_GROUP_UNKNOWN, TP_REASON_APPLICATION)
    );
}

#[test]
fn who_drains_the_queue_that_slow_start_left_is_not_limited_by_its_application() {
    // The link is full all the time, so the rate stays: Vegas alone, a packet less each round.
    let mut flow = by_rules();
    for step in 0..200 {
        paced(&mut flow, 70_000 - 1250 * step.min(52));
        assert_ne!(flow.reason(), TP_REASON_APPLICATION, "{step}");
    }
}

#[test]
fn who_keeps_its_window_beside_the_queue_of_others_is_not_called_delay_based_with_certainty() {
    let mut flow = by_rules();
    beside_a_sawtooth(&mut flow, |flow, queue_us| {
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
fn who_falls_to_four_packets_every_ten_seconds_is_model_based() {
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
fn who_falls_to_a_half_every_five_seconds_is_model_based() {
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
fn who_climbs_by_and_by_after_a_fall_is_not_model_based() {
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
fn who_pauses_is_not_called_model_based() {
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

#[test]
fn the_mean_gap_is_that_between_packets_with_super_packets_and_without() {
    for packets in [1, 2, 7, 16, 44] {
        let (mut mean, each) = (0, 20_000);
        for _ in 0..200 {
            mean = mean_gap(mean, each * packets, packets);
        }
        assert!(mean.abs_diff(each) <= 16, "{packets}: {mean}");
    }
    // A pause of three gaps after packets with gaps of 20 us.
    assert_eq!(mean_gap(20_000, 60_000, 1), 22_500);
}

#[test]
fn ect_on_a_syn_is_a_feature() {
    let mut flow = Flow::new();
    flow.round.flags = TP_FLOW_ECT_SYN;
    flow.start();
    assert_eq!(flow.features()[31], 1);
}

#[test]
fn beyond_the_paths_that_the_trees_learned_from_confidence_is_capped() {
    for (least, most, is_outside) in [
        (40_000, 60_000, false),
        (60_000, 90_000, true),
        (1, 40_000, true),
        (0, 0, false), // not known
    ] {
        let mut flow = Flow::new();
        let range = &mut flow.model.range[TP_RANGE_RTT as usize];
        (range.least, range.most) = (least, most);
        flow.start();
        for _ in 0..60 {
            flow.round(100, 90_000, 0);
        }
        let reason = [TP_REASON_MODEL, TP_REASON_OUTSIDE][usize::from(is_outside)];
        assert_eq!((flow.group(), flow.reason()), (TP_GROUP_LOSS, reason));
        for confidence in [flow.verdict.confidence, flow.verdict.group_confidence] {
            assert_eq!(confidence <= 127, is_outside, "{confidence}");
        }
    }
}

#[test]
fn a_class_of_no_group_is_a_flow_that_its_application_limits() {
    let mut flow = Flow::new();
    flow.model.group[0] = TP_GROUP_UNKNOWN as u8;
    flow.start();
    for _ in 0..40 {
        flow.round(100, 90_000, 0);
    }
    assert_eq!(
        (flow.group(), flow.reason()),
        (TP_GROUP_UNKNOWN, TP_REASON_APPLICATION)
    );
    assert_eq!(u32::from(flow.verdict.name), TP_NO_CLASS);
    // The other class has the votes when the flow has less of its own in the queue.
    for _ in 0..60 {
        flow.round(52, 1000, 0);
    }
    assert_eq!(flow.group(), TP_GROUP_DELAY);
}

#[test]
fn the_flows_own_queue_is_its_rate_times_the_time_that_packets_wait() {
    let mut flow = Flow::new();
    flow.start();
    for _ in 0..60 {
        flow.round.duration_us = 80_000;
        flow.round(100, 40_000, 0); // 100 packets in 80 ms, each of which waits for 40 ms
    }
    let own = flow.features()[BACKLOG];
    assert!((49 * 16..=50 * 16).contains(&own), "{own}");
}
