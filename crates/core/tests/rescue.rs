//! `bpf/core/rescue.h`: did the connection cause its losses, and did the other algorithm help?

use proptest::prelude::*;
use tcpilot_abi::{
    TP_RESCUE_KEPT, TP_RESCUE_TRIED, TP_VERDICT_EARLY, TP_VERDICT_HELPED, TP_VERDICT_NONE,
    TP_VERDICT_OWN, TP_VERDICT_SWITCH, TP_VERDICT_UNDO,
};
use tcpilot_core::rescue::{
    TP_RESCUE_ROUNDS, tp_loss_now, tp_refusal, tp_refusal_holds, tp_refusal_note, tp_rescue,
    tp_rescue_begin, tp_rescue_judge, tp_rescue_terms, tp_rescue_tried, tp_rescue_utility,
    tp_trial_ticks,
};

const TERMS: tp_rescue_terms = tp_rescue_terms {
    min_sent: 64,
    loss_shift: 6,
    ticks_per_s: 250,
    is_published: 0,
};

const PUBLISHED: tp_rescue_terms = tp_rescue_terms {
    is_published: 1,
    ..TERMS
};

fn judge(rescue: &mut tp_rescue, now: &tp_loss_now, terms: &tp_rescue_terms) -> u32 {
    // SAFETY: all point to whole structures, and nothing is kept.
    unsafe { tp_rescue_judge(rescue, now, terms) }
}

fn utility(rescue: &tp_rescue, now: &tp_loss_now) -> u64 {
    // SAFETY: as above.
    unsafe { tp_rescue_utility(rescue, now) }
}

/// A connection at 40 ms after its slow start.
struct Connection {
    rescue: tp_rescue,
    now: tp_loss_now,
}

impl Connection {
    fn new() -> Self {
        let now = tp_loss_now {
            bytes_acked: 100_000,
            sent: 80,
            lost: 10,
            busy_ticks: 30,
            bout: 1,
            ssthresh: 10,
            cwnd: 20,
            rtt_us: 41_000,
            srtt_us: 42_000,
            min_rtt_us: 40_000,
        };
        let mut rescue = tp_rescue {
            bout: now.bout,
            ssthresh: now.ssthresh,
            ..Default::default()
        };
        // SAFETY: as above.
        unsafe { tp_rescue_begin(&mut rescue, &now) };
        Self { rescue, now }
    }

    /// The next bout, after so many segments and ticks; one segment is lost.
    fn bout(&mut self, sent: u32, ticks: u32) -> u32 {
        self.now.bout += 1;
        self.sends(sent, 1, ticks)
    }

    fn sends(&mut self, sent: u32, lost: u32, ticks: u32) -> u32 {
        self.now.sent += sent;
        self.now.lost += lost;
        self.now.bytes_acked += u64::from(sent - lost) * 1448;
        self.now.busy_ticks += ticks;
        judge(&mut self.rescue, &self.now, &TERMS)
    }

    fn bouts(&mut self, count: usize, sent: u32) -> Vec<u32> {
        (0..count).map(|_| self.bout(sent, 50)).collect()
    }

    fn is_tried(&mut self) {
        // SAFETY: as above.
        unsafe { tp_rescue_tried(&mut self.rescue, &self.now) };
    }
}

#[test]
fn third_bout_of_heavy_loss_without_queue_switches() {
    let (none, early) = (TP_VERDICT_NONE, TP_VERDICT_EARLY);
    let mut heavy = Connection::new();
    assert_eq!(heavy.bouts(3, 50), [early, early, TP_VERDICT_SWITCH]);
    let mut rare = Connection::new();
    assert_eq!(rare.bouts(16, 600), [none; 16]);
    // After a long time of rare loss, later losses are judged by themselves.
    assert!(rare.bouts(7, 30).contains(&TP_VERDICT_SWITCH));
}

#[test]
fn one_heavy_bout_without_queue_is_enough_for_an_early_rescue() {
    let (none, early) = (TP_VERDICT_NONE, TP_VERDICT_EARLY);
    assert_eq!(Connection::new().bout(63, 50), early);
    assert_eq!(Connection::new().bout(31, 50), none, "too few segments");
    assert_eq!(Connection::new().bout(64, 50), none, "not heavy");
    assert_eq!(Connection::new().bout(63, 4), none, "too short a time");
    let mut queued = Connection::new();
    queued.now.srtt_us = 48_000;
    assert_ne!(queued.bout(63, 50), early);
    let mut restarted = Connection::new();
    restarted.bout(70, 50);
    restarted.now.cwnd = restarted.now.ssthresh - 1;
    restarted.bout(30, 50);
    restarted.now.cwnd = restarted.now.ssthresh;
    assert_eq!(
        restarted.sends(20, 4, 50),
        none,
        "a slow start ended within it"
    );
}

#[test]
fn eighth_bout_of_light_loss_without_queue_switches() {
    for sent in [70, 100, 300, 500] {
        let mut light = Connection::new();
        assert_eq!(light.bouts(7, sent), [TP_VERDICT_NONE; 7], "{sent}");
        assert_eq!(light.bout(sent, 50), TP_VERDICT_SWITCH, "{sent}");
    }
    let mut queued = Connection::new();
    queued.bouts(7, 100);
    let calm_us = queued.now.srtt_us;
    queued.now.srtt_us = 48_000;
    assert_eq!(queued.bout(100, 50), TP_VERDICT_NONE);
    queued.now.srtt_us = calm_us;
    assert_eq!(queued.bouts(7, 100), [TP_VERDICT_NONE; 7], "it begins anew");
}

#[test]
fn light_loss_is_seen_across_pauses() {
    let mut connection = Connection::new();
    let restart = |connection: &mut Connection| {
        connection.now.cwnd = connection.now.ssthresh - 1;
        let verdict = connection.bout(100, 50);
        connection.now.cwnd = connection.now.ssthresh;
        verdict
    };
    let mut verdicts = Vec::new();
    for _ in 0..3 {
        verdicts.push(restart(&mut connection));
        verdicts.extend(connection.bouts(3, 50)); // after a restart three heavy ones are not enough
    }
    let heavy = verdicts.iter().position(|v| *v == TP_VERDICT_SWITCH);
    assert_eq!(heavy, Some(3), "the first restart begins a stretch");
    let mut light = Connection::new();
    let mut verdicts = Vec::new();
    for _ in 0..4 {
        verdicts.push(restart(&mut light));
        verdicts.extend(light.bouts(2, 20));
    }
    let switch = verdicts.iter().position(|v| *v == TP_VERDICT_SWITCH);
    assert_eq!(switch, Some(11), "{verdicts:?}");
}

#[test]
fn retransmissions_of_one_bout_count_as_one() {
    let mut connection = Connection::new();
    for _ in 0..50 {
        assert_eq!(connection.sends(20, 2, 10), TP_VERDICT_NONE);
    }
}

#[test]
fn a_queue_means_that_the_loss_is_congestion() {
    for (rtt_us, srtt_us) in [(48_000, 41_000), (41_000, 48_000)] {
        let mut connection = Connection::new();
        connection.bouts(2, 50);
        let calm = connection.now;
        connection.now.rtt_us = rtt_us;
        connection.now.srtt_us = srtt_us;
        assert_eq!(connection.bout(50, 50), TP_VERDICT_OWN);
        (connection.now.rtt_us, connection.now.srtt_us) = (calm.rtt_us, calm.srtt_us);
        assert_eq!(
            connection.bouts(2, 50),
            [TP_VERDICT_EARLY; 2],
            "it begins anew"
        );
        assert_eq!(connection.bout(50, 50), TP_VERDICT_SWITCH);
    }
}

#[test]
fn packets_of_a_small_window_wait_for_each_other() {
    for (rtt_us, srtt_us, verdict) in [
        (48_000, 41_000, TP_VERDICT_SWITCH),
        (41_000, 48_000, TP_VERDICT_SWITCH),
        (48_000, 48_000, TP_VERDICT_NONE),
    ] {
        let mut connection = Connection::new();
        (connection.now.cwnd, connection.now.ssthresh) = (4, 4);
        connection.rescue.ssthresh = 4;
        (connection.now.rtt_us, connection.now.srtt_us) = (rtt_us, srtt_us);
        let last = connection.bouts(3, 50)[2];
        assert_eq!(
            last == TP_VERDICT_SWITCH,
            verdict == TP_VERDICT_SWITCH,
            "{rtt_us} {srtt_us}"
        );
    }
}

#[test]
fn bouts_are_counted_by_their_queue() {
    let mut connection = Connection::new();
    connection.bouts(3, 50);
    connection.sends(20, 2, 10); // more of the same bout
    connection.now.srtt_us = 48_000;
    connection.bouts(2, 50);
    connection.now.cwnd = connection.now.ssthresh - 1;
    connection.bouts(4, 50); // ends of slow starts
    assert_eq!((connection.rescue.queued, connection.rescue.clear), (2, 3));
    connection.now.cwnd = connection.now.ssthresh;
    connection.rescue.queued = u16::MAX;
    connection.bout(50, 50);
    assert_eq!(connection.rescue.queued, u16::MAX);
}

#[test]
fn end_of_slow_start_is_not_path_loss() {
    let mut connection = Connection::new();
    connection.now.cwnd = connection.now.ssthresh - 1;
    assert_eq!(connection.sends(50, 40, 50), TP_VERDICT_NONE);
    assert_eq!(connection.bouts(6, 50), [TP_VERDICT_NONE; 6]);
    connection.now.cwnd = connection.now.ssthresh;
    assert_eq!(connection.bouts(2, 50), [TP_VERDICT_EARLY; 2]);
    assert_eq!(connection.bout(50, 50), TP_VERDICT_SWITCH);
}

#[test]
fn spurious_loss_is_subtracted_without_wrapping() {
    let mut connection = Connection::new();
    connection.now.lost = 5; // duplicates were reported
    connection.rescue.bouts = 200;
    connection.now.bout += 1;
    connection.now.sent += 1000;
    connection.now.busy_ticks += 100;
    assert_eq!(
        judge(&mut connection.rescue, &connection.now, &TERMS),
        TP_VERDICT_NONE
    );
}

#[test]
fn trial_is_undone_unless_goodput_grows_an_eighth() {
    for (percent, verdict) in [
        (90, TP_VERDICT_UNDO),
        (110, TP_VERDICT_UNDO),
        (116, TP_VERDICT_HELPED),
        (300, TP_VERDICT_HELPED),
    ] {
        let mut connection = Connection::new();
        connection.bouts(3, 50);
        connection.is_tried();
        assert_eq!(u32::from(connection.rescue.phase), TP_RESCUE_TRIED);
        assert_eq!(connection.sends(100, 2, 50), TP_VERDICT_NONE, "too early");
        // 64 round trips of 40 ms are 640 ticks; the loss stays 2 %.
        let ticks = 1000;
        assert_eq!(
            connection.sends(
                ticks * percent / 100 - 100,
                ticks * percent / 5000,
                ticks - 50
            ),
            verdict
        );
    }
}

#[test]
fn successful_rescue_is_not_judged_again() {
    let mut connection = Connection::new();
    connection.rescue.phase = TP_RESCUE_KEPT as u8;
    assert_eq!(connection.bouts(20, 20), [TP_VERDICT_NONE; 20]);
}

#[test]
fn the_published_rule_switches_above_its_bound() {
    let verdict = |sent, lost| {
        let now = tp_loss_now {
            sent,
            lost,
            ..Connection::new().now
        };
        judge(&mut tp_rescue::default(), &now, &PUBLISHED)
    };
    for (sent, lost, expected) in [
        (63, 63, TP_VERDICT_NONE), // too few segments
        (64, 1, TP_VERDICT_NONE),
        (64, 2, TP_VERDICT_SWITCH),
        (6400, 100, TP_VERDICT_NONE),
        (6400, 101, TP_VERDICT_SWITCH),
    ] {
        assert_eq!(verdict(sent, lost), expected, "{lost} of {sent}");
    }
}

#[test]
fn the_published_rule_switches_only_once() {
    for phase in [TP_RESCUE_KEPT, TP_RESCUE_TRIED] {
        let mut connection = Connection::new();
        connection.now.lost = connection.now.sent;
        let first = judge(&mut connection.rescue, &connection.now, &PUBLISHED);
        assert_eq!(first, TP_VERDICT_SWITCH);
        connection.rescue.phase = phase as u8;
        for _ in 0..20 {
            connection.now.sent += 1000;
            connection.now.lost += 500;
            connection.now.busy_ticks += 1000;
            connection.now.bout += 1;
            let verdict = judge(&mut connection.rescue, &connection.now, &PUBLISHED);
            assert_eq!(verdict, TP_VERDICT_NONE);
        }
    }
}

#[test]
fn path_wait_doubles_after_each_failed_rescue() {
    let mut refusal = tp_refusal::default();
    // Units of 2^20 ns.
    let units = |s: f64| (s * 1e9 / f64::from(1 << 20)) as u32;
    // SAFETY: a whole structure, and nothing is kept.
    let holds = |r: &tp_refusal, tag, now| unsafe { tp_refusal_holds(r, tag, now, 600) != 0 };
    let note = |r: &mut tp_refusal, tag, now, helped| {
        // SAFETY: as above.
        unsafe { tp_refusal_note(r, tag, now, helped) }
    };
    // The clock of units wraps in between.
    let start = u32::MAX - units(300.0);
    for (failures, wait_s) in [
        (1, 600.0),
        (2, 1200.0),
        (3, 2400.0),
        (7, 38_400.0),
        (12, 38_400.0),
    ] {
        while refusal.times < failures.min(7) {
            note(&mut refusal, 9, start, 0);
        }
        note(&mut refusal, 7, start, 1); // another path's success takes nothing away
        assert!(
            holds(&refusal, 9, start.wrapping_add(units(wait_s - 1.0))),
            "{failures}"
        );
        assert!(
            !holds(&refusal, 9, start.wrapping_add(units(wait_s + 1.0))),
            "{failures}"
        );
        assert!(!holds(&refusal, 7, start));
    }
    note(&mut refusal, 9, start, 0);
    assert_eq!(refusal.times, 7);
    note(&mut refusal, 9, start, 1);
    assert!(!holds(&refusal, 9, start), "it helped");
}

proptest! {
    /// Against floating point, up to 400 Gbit/s for an hour.
    #[test]
    fn utility_is_goodput_less_retransmissions(
        bytes in 1_000u64..1 << 47, ticks in 1u32..1 << 22, sent in 1u32..u32::MAX, share in 0.0..1.2f64,
    ) {
        prop_assume!(bytes / u64::from(ticks) < 1 << 39);
        let lost = (f64::from(sent) * share).min(f64::from(u32::MAX >> 1)) as u32;
        let before = tp_rescue { busy_ticks: u32::MAX - 5, sent: u32::MAX - 9, ..Default::default() };
        let now = tp_loss_now {
            bytes_acked: bytes,
            busy_ticks: before.busy_ticks.wrapping_add(ticks),
            sent: before.sent.wrapping_add(sent),
            lost,
            ..Default::default()
        };
        let good = (1.0 - f64::from(lost) / f64::from(sent)).max(0.0);
        let expected = bytes as f64 / f64::from(ticks) * 256.0 * good;
        let found = utility(&before, &now) as f64;
        // The share has 16 bits, and a tick's bytes eight after the point.
        let rate = bytes as f64 / f64::from(ticks) * 256.0;
        prop_assert!((found - expected).abs() <= rate / 65_536.0 + 2.0, "{found} {expected}");
    }

    /// Exactly more than 1 / 2^shift of all segments, whatever the queue, the bout and the slow start.
    #[test]
    fn the_published_rule_is_the_ratio(
        sent in prop_oneof![0u32..200, any::<u32>()], share in 0.0..1.0f64, at_bound: bool,
        shift in 0u32..16, min_sent in 0u32..128, queue_us in 0u32..100_000,
        cwnd in 0u32..100, is_new_bout: bool,
    ) {
        let lost = if at_bound { sent >> shift } else { (f64::from(sent) * share) as u32 };
        for lost in [lost, lost.saturating_add(1)] {
            let mut connection = Connection::new();
            let now = tp_loss_now {
                sent, lost, cwnd,
                rtt_us: connection.now.min_rtt_us + queue_us,
                srtt_us: connection.now.min_rtt_us + queue_us,
                bout: connection.now.bout + u32::from(is_new_bout),
                ..connection.now
            };
            let terms = tp_rescue_terms { min_sent, loss_shift: shift, ..PUBLISHED };
            let is_heavy = sent >= min_sent && u64::from(lost) * (1 << shift) > u64::from(sent);
            let expected = if is_heavy { TP_VERDICT_SWITCH } else { TP_VERDICT_NONE };
            prop_assert_eq!(judge(&mut connection.rescue, &now, &terms), expected);
        }
    }

    #[test]
    fn a_trial_lasts_its_round_trips(min_rtt_us in 1u32..=u32::MAX, hz in prop::sample::select(vec![100u32, 250, 300, 1000])) {
        // SAFETY: plain numbers.
        let ticks = unsafe { tp_trial_ticks(min_rtt_us, hz) } as f64;
        let rounds = f64::from(TP_RESCUE_ROUNDS) * f64::from(min_rtt_us) * f64::from(hz) / 1e6;
        prop_assert!((ticks - rounds.max(f64::from(hz) / 2.0)).abs() <= 1.0);
    }
}
