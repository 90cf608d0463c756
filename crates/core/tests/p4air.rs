//! P4air's published rules, step by step: each interval may move a flow to another group.

use proptest::prelude::*;
use tcpilot_abi::{
    TP_GROUP_ANT, TP_GROUP_DELAY, TP_GROUP_LOSS, TP_GROUP_LOSS_DELAY, TP_GROUP_MODEL,
    TP_GROUP_MOUSE, tp_p4air,
};
use tcpilot_core::watch::{p4air_bdp_packets, p4air_interval};

const NO_BDP: u32 = 0;

fn group(flow: &tp_p4air) -> u32 {
    u32::from(flow.group)
}

/// A flow after a slow start ended by a loss, at 100 packets and a queue of 10 ms.
fn delay_based() -> tp_p4air {
    let mut flow = tp_p4air::default();
    p4air_interval(&mut flow, 50, 0, 1000, NO_BDP);
    assert_eq!(group(&flow), TP_GROUP_MOUSE);
    p4air_interval(&mut flow, 100, 1, 10_000, NO_BDP);
    assert_eq!(group(&flow), TP_GROUP_DELAY);
    flow
}

/// Intervals in which the queue rises by 2 % and the rate stays, until the group changes.
fn rises_until_moved(flow: &mut tp_p4air, most: u32) -> Option<u32> {
    let before = flow.group;
    (1..=most).find(|_| {
        let queue_us = flow.queue_before_us + flow.queue_before_us / 50;
        p4air_interval(flow, flow.packets_before, 0, queue_us, NO_BDP);
        flow.group != before
    })
}

#[test]
fn few_packets_per_round_trip_are_an_ant() {
    let mut flow = tp_p4air::default();
    p4air_interval(&mut flow, 2, 0, 0, NO_BDP);
    assert_eq!(group(&flow), TP_GROUP_ANT);
    p4air_interval(&mut flow, 40, 0, 0, NO_BDP);
    assert_eq!(group(&flow), TP_GROUP_MOUSE);
}

#[test]
fn slow_start_continues_while_rounds_grow() {
    let mut flow = tp_p4air::default();
    for packets in [10, 20, 40, 41] {
        p4air_interval(&mut flow, packets, 0, 0, NO_BDP);
        assert_eq!(group(&flow), TP_GROUP_MOUSE, "{packets}");
    }
    p4air_interval(&mut flow, 41, 0, 0, NO_BDP);
    assert_eq!(group(&flow), TP_GROUP_DELAY);
}

#[test]
fn slow_start_ends_at_loss_or_share() {
    for (dropped, bdp_packets) in [(1, NO_BDP), (0, 80)] {
        let mut flow = tp_p4air::default();
        p4air_interval(&mut flow, 40, 0, 0, bdp_packets);
        p4air_interval(&mut flow, 80, dropped, 0, bdp_packets);
        assert_eq!(group(&flow), TP_GROUP_DELAY);
    }
}

#[test]
fn rises_mean_loss_delay_then_loss_based() {
    let mut flow = delay_based();
    assert_eq!(rises_until_moved(&mut flow, 100), Some(4));
    assert_eq!(group(&flow), TP_GROUP_LOSS_DELAY);
    assert_eq!(rises_until_moved(&mut flow, 100), Some(12));
    assert_eq!(group(&flow), TP_GROUP_LOSS);
    assert_eq!(rises_until_moved(&mut flow, 100), None);
}

#[test]
fn rises_below_one_percent_are_ignored() {
    let mut flow = delay_based();
    for step in 0..40u32 {
        p4air_interval(&mut flow, 100, 0, 20_000 + step * 100, NO_BDP);
    }
    assert_eq!(group(&flow), TP_GROUP_DELAY);
}

#[test]
fn a_reduced_rate_resets_the_count() {
    let mut flow = delay_based();
    for step in 1..40u32 {
        // After the loss the growth does not count as a probe.
        let (packets, dropped) = if step % 4 == 0 { (85, 1) } else { (100, 0) };
        p4air_interval(&mut flow, packets, dropped, 10_000 + step * 1000, NO_BDP);
    }
    assert_eq!(group(&flow), TP_GROUP_DELAY);
    for step in 1..10u32 {
        // An eighth less is a reduction, a tenth less is not.
        let packets = if step % 2 == 0 { 90 } else { 100 };
        p4air_interval(&mut flow, packets, 0, 60_000 + step * 1000, NO_BDP);
    }
    assert_eq!(group(&flow), TP_GROUP_LOSS_DELAY);
}

#[test]
fn four_rate_increases_mean_model_based() {
    let mut flow = delay_based();
    for step in 1..=4 {
        assert_eq!(group(&flow), TP_GROUP_DELAY, "{step}");
        p4air_interval(&mut flow, 113, 0, 5000, NO_BDP);
        p4air_interval(&mut flow, 100, 0, 5000, NO_BDP);
    }
    assert_eq!(group(&flow), TP_GROUP_MODEL);
}

#[test]
fn growth_out_of_a_loss_does_not_count() {
    let mut flow = delay_based();
    for _ in 0..20 {
        p4air_interval(&mut flow, 50, 10, 5000, NO_BDP);
        p4air_interval(&mut flow, 75, 0, 5000, NO_BDP);
        p4air_interval(&mut flow, 100, 0, 5000, NO_BDP);
    }
    assert_eq!(group(&flow), TP_GROUP_DELAY);
}

#[test]
fn share_is_link_rate_per_flow_times_rtt() {
    // 12 Mbit/s, 100 ms, packets of 1500 bytes.
    assert_eq!(p4air_bdp_packets(1_500_000, 1, 100_000, 1500), 100);
    assert_eq!(p4air_bdp_packets(1_500_000, 4, 100_000, 1500), 25);
    assert_eq!(p4air_bdp_packets(1_500_000, 0, 100_000, 1500), 100);
    assert_eq!(p4air_bdp_packets(1_500_000, 1, 100_000, 0), 0);
}

proptest! {
    #[test]
    fn a_flow_is_reclassified_four_times_at_most(
        intervals in prop::collection::vec((0u32..500, 0u32..2, 0u32..100_000), 0..600),
    ) {
        let mut flow = tp_p4air::default();
        for (packets, dropped, queue_us) in intervals {
            p4air_interval(&mut flow, packets, dropped, queue_us, NO_BDP);
            prop_assert!(flow.reclassified <= 4);
            prop_assert!(u32::from(flow.group) <= TP_GROUP_MODEL && flow.group > 0);
        }
    }
}
