//! The published rule of `bpf/core/rescue.h`: one rescue, at a bound of loss, whatever the cause.

use proptest::prelude::*;
use tcpilot_abi::{
    TP_RESCUE_KEPT, TP_RESCUE_TRIED, TP_RESCUE_WATCHED, TP_VERDICT_NONE, TP_VERDICT_SWITCH,
};
use tcpilot_core::rescue::{
    tp_loss_now, tp_rescue, tp_rescue_judge, tp_rescue_terms, tp_rescue_tried,
};

const TERMS: tp_rescue_terms = tp_rescue_terms {
    min_sent: 64,
    loss_shift: 6,
    ticks_per_s: 250,
    is_published: 1,
};

fn judge(terms: &tp_rescue_terms, rescue: &mut tp_rescue, now: &tp_loss_now) -> u32 {
    // SAFETY: all three point to whole structures, and nothing is kept.
    unsafe { tp_rescue_judge(rescue, now, terms) }
}

/// The first verdict about a connection.
fn first(now: &tp_loss_now) -> u32 {
    judge(&TERMS, &mut tp_rescue::default(), now)
}

fn lost(sent: u32, lost: u32) -> tp_loss_now {
    tp_loss_now {
        sent,
        lost,
        ..Default::default()
    }
}

#[test]
fn it_fires_above_one_in_64() {
    for (sent, at_bound) in [(64, 1), (128, 2), (6400, 100)] {
        assert_eq!(first(&lost(sent, at_bound)), TP_VERDICT_NONE, "{sent}");
        let above = lost(sent, at_bound + 1);
        assert_eq!(first(&above), TP_VERDICT_SWITCH, "{sent}");
    }
}

#[test]
fn it_waits_for_enough_segments() {
    assert_eq!(first(&lost(63, 63)), TP_VERDICT_NONE);
    assert_eq!(first(&lost(64, 63)), TP_VERDICT_SWITCH);
}

#[test]
fn a_queue_or_slow_start_changes_nothing() {
    let now = tp_loss_now {
        cwnd: 5,
        ssthresh: 10,
        rtt_us: 900_000,
        srtt_us: 900_000,
        min_rtt_us: 40_000,
        ..lost(6400, 101)
    };
    assert_eq!(first(&now), TP_VERDICT_SWITCH);
}

#[test]
fn one_rescue_is_all_and_never_undone() {
    let mut rescue = tp_rescue::default();
    let mut now = lost(6400, 101);
    assert_eq!(judge(&TERMS, &mut rescue, &now), TP_VERDICT_SWITCH);
    // SAFETY: both point to whole structures, and nothing is kept.
    unsafe { tp_rescue_tried(&mut rescue, &now) };
    for phase in [TP_RESCUE_TRIED, TP_RESCUE_KEPT] {
        rescue.phase = phase as u8;
        for _ in 0..20 {
            now.bout += 1;
            now.sent += 1000;
            now.lost += 900;
            now.busy_ticks += 1000;
            assert_eq!(judge(&TERMS, &mut rescue, &now), TP_VERDICT_NONE);
        }
    }
}

fn any_rescue() -> impl Strategy<Value = tp_rescue> {
    let counts = (any::<u64>(), any::<u32>(), any::<u32>(), any::<u32>());
    let bouts = (any::<u32>(), any::<u32>(), any::<u8>(), 0u8..3);
    (counts, bouts).prop_map(
        |((before, sent, lost, busy_ticks), (bout, ssthresh, bouts, phase))| tp_rescue {
            before,
            sent,
            lost,
            busy_ticks,
            bout,
            ssthresh,
            bouts,
            phase,
            ..Default::default()
        },
    )
}

proptest! {
    #[test]
    fn the_rule_is_the_ratio_of_all_segments(
        rescue in any_rescue(), sent in any::<u32>(), near in 0.0..3.0f64, lost in any::<u32>(),
        is_near: bool, times in (any::<u32>(), any::<u32>(), any::<u32>()), min_sent in 0u32..1000, loss_shift in 1u32..16,
    ) {
        let at_bound = (f64::from(sent) * near / f64::from(1u32 << loss_shift)) as u32;
        let (rtt_us, srtt_us, bout) = times;
        let now = tp_loss_now {
            sent, lost: if is_near { at_bound } else { lost }, rtt_us, srtt_us, bout, ..Default::default()
        };
        let terms = tp_rescue_terms { min_sent, loss_shift, ..TERMS };
        let is_above = u128::from(now.lost) << loss_shift > u128::from(sent);
        let is_due = u32::from(rescue.phase) == TP_RESCUE_WATCHED && sent >= min_sent && is_above;
        let verdict = if is_due { TP_VERDICT_SWITCH } else { TP_VERDICT_NONE };
        prop_assert_eq!(judge(&terms, &mut rescue.clone(), &now), verdict);
    }
}
