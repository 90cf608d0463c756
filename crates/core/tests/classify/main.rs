//! From rounds to a verdict: rules, votes, hysteresis, abstention.

mod flow;
mod light_tracking;
mod rules;

use tcpilot_abi::{
    TP_FLOW_ECT_SYN, TP_GROUP_ANT, TP_GROUP_DELAY, TP_GROUP_LOSS, TP_GROUP_UNKNOWN, TP_NO_CLASS,
    TP_RANGE_RTT, TP_REASON_APPLICATION, TP_REASON_MODEL, TP_REASON_NO_QUEUE, TP_REASON_OUTSIDE,
    TP_REASON_RECEIVER, TP_REASON_UNSURE, TP_RESPONSE,
};
use tcpilot_core::watch::mean_gap;

use flow::{Flow, SEGMENT, model};

#[test]
fn doubling_flows_are_mice_until_the_first_loss() {
    let mut flow = Flow::new();
    flow.start();
    assert_eq!(flow.shape.slow_start_rounds, 4);
    assert_eq!(flow.shape.start_over, 1, "it ended with a loss");
}

#[test]
fn loss_response_is_the_ratio_of_windows() {
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
fn growth_is_measured_by_phase_of_epoch() {
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
fn groups_are_entered_and_left_by_several_rounds() {
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
        // The votes' strength alternates: no two rounds in a row vote the same.
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
fn settled_flows_are_judged_rarely_and_after_losses() {
    let mut flow = Flow::new();
    flow.start();
    assert!(asked(&mut flow, 30) > 20, "not settled yet");
    assert_eq!(flow.group(), TP_GROUP_LOSS);
    asked(&mut flow, 20);
    assert_eq!(asked(&mut flow, 80), 10);
    flow.round(100, 90_000, 1);
    assert!(asked(&mut flow, 3) >= 2, "a loss says most");
    assert_eq!(asked(&mut flow, 80), 10);
    // Rarely judged by now, a flow is still recognised after a change.
    for _ in 0..100 {
        flow.round(52, 1000, 0);
    }
    assert_eq!(flow.group(), TP_GROUP_DELAY);
}

#[test]
fn a_wrong_first_vote_is_outvoted_soon() {
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
fn flows_limited_by_the_receivers_window_are_unknown() {
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

/// A flow judged delay-based by the trees. `link_used`: the used part of the link, of 256.
fn at_rest(link_used: u32) -> Flow {
    let mut flow = Flow::new();
    flow.round.link_used = link_used;
    flow.start();
    for _ in 0..40 {
        flow.round(100, 5000, 0);
    }
    flow
}

#[test]
fn steady_flows_with_spare_capacity_are_application_limited() {
    for (link_used, expected) in [
        (0, TP_GROUP_DELAY), // not known
        (256, TP_GROUP_DELAY),
        (215, TP_GROUP_DELAY),
        (214, TP_GROUP_UNKNOWN),
        (1, TP_GROUP_UNKNOWN),
    ] {
        assert_eq!(at_rest(link_used).group(), expected, "{link_used}");
    }
    let flow = at_rest(100);
    assert_eq!(flow.reason(), TP_REASON_APPLICATION);
    assert_eq!(u32::from(flow.verdict.name), TP_NO_CLASS);
}

#[test]
fn a_steady_flow_is_classified_on_full_links() {
    let mut flow = at_rest(100);
    flow.round.link_used = 250;
    for _ in 0..8 {
        flow.round(100, 5000, 0);
    }
    assert_eq!(flow.group(), TP_GROUP_DELAY);
}

/// Vegas needs minutes to fill a fast path, by a packet a round trip.
#[test]
fn a_flow_that_grows_takes_the_links_room() {
    let mut flow = Flow::new();
    flow.round.link_used = 100;
    flow.start();
    for window in 100..140 {
        flow.round(window, 5000, 0);
    }
    assert_eq!(flow.group(), TP_GROUP_DELAY);
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

#[test]
fn mean_gaps_do_not_depend_on_super_packets() {
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
    assert_eq!(flow.feature("ect_syn"), 1);
}

#[test]
fn confidence_is_capped_on_unseen_paths() {
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
fn a_class_without_group_means_application_limited() {
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
fn own_queue_follows_littles_law() {
    let mut flow = Flow::new();
    flow.start();
    for _ in 0..60 {
        flow.round.duration_us = 80_000;
        flow.round(100, 40_000, 0); // 100 packets in 80 ms, each waits for 40 ms
    }
    let own = flow.shape.backlog;
    assert!((49 * 16..=50 * 16).contains(&own), "{own}");
}
