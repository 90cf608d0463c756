//! Light tracking: rounds of settled flows are measured now and then (`bpf/core/watch/light_tracking.h`).

use tcpilot_abi::{TP_GROUP_DELAY, TP_GROUP_LOSS};
use tcpilot_core::watch::{light_us, may_track_lightly, shape_resumes};

use crate::flow::Flow;

/// Has more than 32 packets of its own in the queue, so the model says "loss".
fn fill(flow: &mut Flow, rounds: u32) {
    for _ in 0..rounds {
        flow.round(150, 90_000, 0);
    }
}

/// Has fewer: "delay".
fn yield_to(flow: &mut Flow, rounds: u32) {
    for _ in 0..rounds {
        flow.round(60, 4000, 0);
    }
}

fn is_due(flow: &Flow) -> bool {
    may_track_lightly(&flow.verdict, &flow.shape, &flow.round) != 0
}

/// A flow that was in its group for long.
fn settled() -> Flow {
    let mut flow = Flow::new();
    flow.start();
    fill(&mut flow, 100);
    assert_eq!(flow.group(), TP_GROUP_LOSS);
    flow
}

/// Light tracking for so many rounds, with a loss so many rounds before its end.
fn track_lightly(flow: &mut Flow, rounds: u32, lost: Option<u32>) {
    let rtt_us = flow.round.rtt_us;
    let lost_us = lost.map(|rounds| rounds * rtt_us);
    shape_resumes(
        &mut flow.shape,
        rounds * rtt_us,
        rtt_us,
        lost.is_some().into(),
        lost_us.unwrap_or_default(),
    );
}

#[test]
fn light_tracking_waits_for_group_and_name() {
    let mut flow = Flow::new();
    flow.start();
    let mut before = 0;
    while !is_due(&flow) {
        fill(&mut flow, 1);
        before += 1;
    }
    assert!((64..100).contains(&before), "{before}");
    flow.verdict.confidence = 127;
    assert!(!is_due(&flow), "its name has less than half of the votes");
    let entered = flow.verdict.since_round;
    flow.verdict.since_round = flow.round.number.wrapping_sub(512);
    assert!(is_due(&flow), "a name that is so late is not waited for");
    flow.verdict.since_round = entered;
    flow.verdict.confidence = 128;
    assert!(is_due(&flow));
    flow.verdict.group_confidence = 191;
    assert!(!is_due(&flow), "its group has less than three quarters");
    track_lightly(&mut flow, 100, None);
    fill(&mut flow, 40);
    for (confidence, expected) in [(169, false), (170, true)] {
        flow.verdict.group_confidence = confidence;
        assert_eq!(
            is_due(&flow),
            expected,
            "two thirds are enough after the first time"
        );
    }
}

#[test]
fn light_tracking_waits_for_loss_recovery() {
    let mut flow = settled();
    flow.round(150, 90_000, 1);
    assert!(!is_due(&flow));
    fill(&mut flow, 5);
    assert!(is_due(&flow));
}

#[test]
fn light_tracking_lasts_as_long_as_full_tracking() {
    let mut flow = settled();
    let rtt_us = flow.round.rtt_us;
    assert_eq!(
        light_us(&flow.shape, &flow.round),
        flow.shape.rounds * rtt_us
    );
    fill(&mut flow, 1000);
    assert_eq!(
        light_us(&flow.shape, &flow.round),
        60_000_000,
        "at most a minute"
    );
}

#[test]
fn forty_rounds_are_measured_between_two_times() {
    let mut flow = settled();
    track_lightly(&mut flow, 100, None);
    let mut measured = 0;
    while !is_due(&flow) {
        fill(&mut flow, 1);
        measured += 1;
    }
    assert_eq!(measured, 40);
    assert_eq!(flow.group(), TP_GROUP_LOSS);
}

#[test]
fn epochs_continue_through_light_tracking_without_a_loss() {
    let mut flow = settled();
    let before = flow.shape.since_loss;
    let losses = flow.shape.losses;
    track_lightly(&mut flow, 50, None);
    fill(&mut flow, 1);
    assert_eq!(flow.shape.since_loss, before + 51);
    assert_eq!(flow.shape.losses, losses);
    track_lightly(&mut flow, 50, Some(20));
    fill(&mut flow, 1);
    assert_eq!(flow.shape.since_loss, 20 + 3 + 1);
    assert_eq!(flow.shape.losses, losses + 1);
}

#[test]
fn a_step_across_light_tracking_is_no_growth() {
    let (mut without, mut with) = (settled(), settled());
    track_lightly(&mut with, 100, None);
    for flow in [&mut without, &mut with] {
        flow.round(50, 90_000, 0);
    }
    let growth = |flow: &Flow| flow.shape.mean[17];
    assert!(growth(&without) < -1000, "{}", growth(&without));
    assert_eq!(growth(&with), growth(&settled()));
}

#[test]
fn a_change_is_found_after_light_tracking() {
    let mut flow = settled();
    track_lightly(&mut flow, 400, None);
    yield_to(&mut flow, 16);
    assert_eq!(
        flow.group(),
        TP_GROUP_LOSS,
        "too few rounds are known to ask"
    );
    let mut rounds = 16;
    while flow.group() != TP_GROUP_DELAY {
        yield_to(&mut flow, 1);
        rounds += 1;
        assert!(rounds < 200);
        assert!(!is_due(&flow) || flow.group() == TP_GROUP_LOSS && rounds == 40);
    }
    assert!(rounds < 60, "{rounds}");
}
