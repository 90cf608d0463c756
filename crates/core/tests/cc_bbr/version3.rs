//! Version 3, draft-ietf-ccwg-bbr-06.

use tcpilot_core::cc::*;

use super::{MSS, Path, bbr3, mbit};

/// draft-ietf-ccwg-bbr-06, section 5.3.1.3 and 5.5.10.
#[test]
fn bbr3_startup_ends_on_loss_and_bounds_inflight() {
    let mut path = Path::new(40_000);
    let mut b = bbr3(&mut path);
    for packets in [10, 20, 40, 80] {
        path.round(packets, 0, |c| unsafe { bbr3_ack(&mut b, c) });
    }
    assert_eq!(b.full(), 0);
    for _ in 0..8 {
        // within a round: acknowledgements with losses, 5 % in all
        path.round(20, 1, |c| {
            c.prior_delivered = b.round_end.wrapping_sub(1);
            unsafe { bbr3_ack(&mut b, c) }
        });
    }
    path.round(80, 1, |c| unsafe { bbr3_ack(&mut b, c) });
    assert_eq!(b.full(), 1);
    assert!(b.inflight_long < 400, "{}", b.inflight_long);
}

#[test]
fn bbr3_keeps_70_percent_after_loss_while_cruising() {
    let mut path = Path::new(40_000);
    let mut b = bbr3(&mut path);
    for _ in 0..40 {
        path.round(40, 0, |c| unsafe { bbr3_ack(&mut b, c) });
    }
    b.mode = BBR3_CRUISE as u8;
    (b.cycle_us, b.rounds_since) = (path.conn.now_us as u32, 0);
    let full = unsafe { bbr3_max_bw(&b) };
    for _ in 0..3 {
        path.round(20, 4, |c| unsafe { bbr3_ack(&mut b, c) });
    }
    let ratio = f64::from(unsafe { bbr3_bw(&b) }) / f64::from(full);
    assert!((0.49..0.71).contains(&ratio), "{ratio}");
    unsafe { bbr3_start_refill(&mut b, &path.conn) };
    assert_eq!(
        unsafe { bbr3_bw(&b) },
        full,
        "forgotten before the next probe"
    );
}

#[test]
fn version_3_leaves_headroom() {
    let b = tp_bbr3 {
        inflight_long: 100,
        ..Default::default()
    };
    assert_eq!(unsafe { bbr3_with_headroom(&b) }, 85);
}

/// A connection at 20 Mbit/s, then the same with an application that has only 1.5 Mbit/s to send.
fn full_then_talking(seconds: u32) -> (Path, tp_bbr3, u32) {
    let mut path = Path::new(40_000);
    let mut b = bbr3(&mut path);
    for _ in 0..150 {
        path.round(69, 0, |c| unsafe { bbr3_ack(&mut b, c) });
    }
    let full = unsafe { bbr3_max_bw(&b) };
    path.conn.cwnd_limited = 0;
    for _ in 0..seconds * 25 {
        path.round(5, 0, |c| {
            c.app_limited = 1;
            unsafe { bbr3_ack(&mut b, c) }
        });
        assert_eq!(unsafe { bbr3_max_bw(&b) }, full);
    }
    (path, b, full)
}

/// Section 5.5.6: IsInAProbeBWState() && !RS.is_app_limited.  The 60 s have several PROBE_RTTs.
#[test]
fn bbr3_keeps_bandwidth_while_application_limited() {
    let (mut path, mut b, full) = full_then_talking(60);
    assert!(mbit(path.conn.pacing_rate) > 18.0);
    path.conn.app_limited = 0;
    path.conn.cwnd_limited = 1;
    for _ in 0..400 {
        path.round(20, 0, |c| {
            c.app_limited = 0;
            unsafe { bbr3_ack(&mut b, c) }
        });
    }
    let now = unsafe { bbr3_max_bw(&b) };
    assert!(
        now < full / 2,
        "a path that got slower is noticed: {now} of {full}"
    );
}

/// In DOWN, with a bound of `inflight_long`; 40 packets a round.
fn cruising(inflight_long: u32) -> (Path, tp_bbr3) {
    let mut path = Path::new(40_000);
    let mut b = bbr3(&mut path);
    for _ in 0..30 {
        path.round(40, 0, |c| unsafe { bbr3_ack(&mut b, c) });
    }
    assert_eq!(b.full(), 1);
    unsafe { bbr3_start_down(&mut b, &path.conn) };
    b.inflight_long = inflight_long;
    (path, b)
}

/// Section 5.5.9: Wi-Fi acknowledges in bursts; the window has room for a burst.
#[test]
fn version_3_allows_for_aggregated_acknowledgements() {
    let (mut path, mut b) = cruising(u32::MAX);
    b.extra_now = 0;
    b.extra_before = 0;
    let bdp = unsafe { bbr3_bdp(&b, bbr3_bw(&b), TP_GAIN_UNIT) };
    for _ in 0..4 {
        // nothing for 40 ms, then 40 packets within 2 ms
        for n in 0..8u32 {
            path.conn.now_us += if n == 0 { 38_000 } else { 286 };
            let c = &mut path.conn;
            c.prior_delivered = c.delivered - 35.min(c.delivered);
            c.delivered += 5;
            (c.acked, c.sample_delivered) = (5, 40);
            (c.interval_us, c.rtt_us, c.losses) = (40_000, 40_000, 0);
            unsafe { bbr3_ack(&mut b, c) };
        }
    }
    let extra = u32::from(b.extra_now.max(b.extra_before));
    assert!((30..=80).contains(&extra), "{extra}");
    assert!(path.conn.cwnd > 2 * bdp + 20, "{} {bdp}", path.conn.cwnd);
}

/// AdaptLongTermModel: a volume in flight without loss is safe.
#[test]
fn bbr3_raises_bound_to_safe_inflight() {
    let (mut path, mut b) = cruising(30);
    path.round(36, 0, |c| unsafe { bbr3_ack(&mut b, c) });
    assert_eq!(b.inflight_long, 36);
    path.round(50, 5, |c| unsafe { bbr3_ack(&mut b, c) });
    assert_eq!(b.inflight_long, 36, "a tenth was lost");
}

/// Losses of UP are reported a round later, in DOWN.
#[test]
fn bbr3_counts_late_losses_of_finished_probe() {
    let (mut path, mut b) = cruising(100);
    unsafe { bbr3_start_up(&mut b, &path.conn) };
    unsafe { bbr3_start_down(&mut b, &path.conn) };
    let late = |path: &mut Path, b: &mut tp_bbr3| {
        path.round(40, 4, |c| {
            c.prior_delivered = b.round_end.wrapping_sub(1);
            unsafe { bbr3_ack(b, c) }
        });
    };
    late(&mut path, &mut b);
    assert_eq!((b.inflight_long, b.too_high()), (44, 1));
    b.inflight_long = 100;
    late(&mut path, &mut b);
    assert_eq!(b.inflight_long, 100, "once per probe");
    let (mut path, mut b) = cruising(100);
    path.round(40, 0, |c| unsafe { bbr3_ack(&mut b, c) });
    late(&mut path, &mut b);
    assert_eq!(b.inflight_long, 100, "and not when there was none");
}

/// Section 5.3.3.4: after a probe that lost too much, the next one stops at the bound.
#[test]
fn bbr3_probes_cautiously_after_lossy_probe() {
    let (mut path, mut b) = cruising(40);
    b.set_too_high(1);
    unsafe { bbr3_start_up(&mut b, &path.conn) };
    path.round(40, 0, |c| {
        c.prior_delivered = b.round_end.wrapping_sub(1);
        unsafe { bbr3_ack(&mut b, c) }
    });
    assert_eq!(
        (u32::from(b.mode), b.precautionary(), b.too_high()),
        (BBR3_DOWN, 1, 0)
    );
    path.round(40, 0, |c| unsafe { bbr3_ack(&mut b, c) });
    assert_eq!(
        u32::from(b.mode),
        BBR3_REFILL,
        "all went well: at once again"
    );
}

/// HandleSpuriousLossDetection.
#[test]
fn bbr3_undoes_effects_of_spurious_loss() {
    let (mut path, mut b) = cruising(100);
    b.bw_short = 5_000_000;
    let mut undo = tp_bbr3_undo::default();
    path.conn.cwnd = 90;
    unsafe { bbr3_start_up(&mut b, &path.conn) };
    unsafe { bbr3_save(&mut b, &mut undo, 90) };
    path.round(40, 4, |c| unsafe { bbr3_ack(&mut b, c) });
    assert_eq!((u32::from(b.mode), b.inflight_long), (BBR3_DOWN, 44));
    path.conn.cwnd = 20;
    (b.bw_short, b.inflight_short) = (1000, 10);
    unsafe { bbr3_undo(&mut b, &mut path.conn, &undo) };
    assert_eq!((path.conn.cwnd, b.inflight_long), (90, 100));
    assert_eq!(
        u32::from(b.mode),
        BBR3_REFILL,
        "the probe that it ended begins again"
    );
    let mut path = Path::new(40_000);
    let mut b = bbr3(&mut path);
    unsafe { bbr3_save(&mut b, &mut undo, 10) };
    b.set_full(1);
    b.set_undo_startup(1);
    b.mode = BBR3_DRAIN as u8;
    unsafe { bbr3_undo(&mut b, &mut path.conn, &undo) };
    assert_eq!((u32::from(b.mode), b.full()), (BBR3_STARTUP, 0));
}

/// Section 5.6.4.2: with a BDP of two packets and offloads, three bursts stay in flight.
#[test]
fn bbr3_leaves_offload_room_at_tiny_bdp() {
    let c = tp_bbr_conn {
        pacing_rate: 125_000_000, // 1 Gbit/s: 45 packets a burst
        pacing_shift: 10,
        mss: MSS,
        ..Path::new(100).conn
    };
    let b = tp_bbr3 {
        mode: BBR3_CRUISE as u8,
        ..Default::default()
    };
    let burst = unsafe { tp_burst(c.pacing_rate, 10, MSS) };
    assert_eq!(unsafe { bbr3_quantize(&b, &c, 8) }, 3 * burst);
    assert_eq!(unsafe { bbr3_quantize(&b, &c, 1000) }, 1000);
}

#[test]
fn bbr3_round_includes_sample_ending_previous_round() {
    let (mut path, mut b) = cruising(100);
    path.round(33, 0, |c| unsafe { bbr3_ack(&mut b, c) });
    assert_eq!(b.inflight_latest, 33);
}
