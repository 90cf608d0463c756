//! Congestion controls by loss: vectors from their papers and RFCs.
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "every call is of a pure function with pointers to live values"
)]

use tcpilot_core::cc::*;

/// Every packet is marked.
const TP_ALPHA_ONE: u32 = 1 << TP_ALPHA_SHIFT;

fn window(packets: u32) -> tp_cwnd {
    tp_cwnd {
        packets,
        credit: 0,
        ssthresh: 2,
        clamp: u32::MAX,
    }
}

fn slow_start(packets: u32) -> tp_cwnd {
    tp_cwnd {
        ssthresh: TP_SSTHRESH_MAX,
        ..window(packets)
    }
}

fn ack(acked: u32) -> tp_ack {
    tp_ack {
        acked,
        srtt_us: 100_000,
        min_rtt_us: 100_000,
        ..Default::default()
    }
}

/// RFC 5681, section 3.1.
#[test]
fn reno_doubles_then_adds_one_packet_per_window() {
    let mut w = slow_start(10);
    unsafe { tp_reno_increase(&mut w, 10) };
    assert_eq!(w.packets, 20);
    let mut w = window(10);
    for _ in 0..10 {
        unsafe { tp_reno_increase(&mut w, 1) };
    }
    assert_eq!(w.packets, 11);
    let mut w = tp_cwnd {
        ssthresh: 12,
        ..window(10)
    };
    unsafe { tp_reno_increase(&mut w, 14) };
    assert_eq!(
        (w.packets, w.credit),
        (13, 0),
        "two to the threshold, twelve make one more"
    );
    assert_eq!(unsafe { (tp_half(11), tp_half(3)) }, (5, 2));
}

/// RFC 9438, section 4.2: K = cbrt((W_max - cwnd) / C).
#[test]
fn cubic_reaches_the_last_maximum_after_k() {
    for value in [0u64, 1, 7, 8, 26, 27, 1_000_000_000, (1 << 62) - 1] {
        let root = unsafe { tp_cube_root(value) } as u128;
        assert!(
            root.pow(3) <= value.into() && (root + 1).pow(3) > value.into(),
            "{value}"
        );
    }
    let k_ms = unsafe { tp_cubic_ms(30) }; // W_max 100, beta 0.7
    assert_eq!(k_ms, 4217, "cbrt(75) s");
    let at = |t_ms| unsafe { tp_cubic_parts(t_ms, k_ms, 100) as f64 } / TP_PARTS as f64;
    for (ours, theirs) in [(at(0), 70.0), (at(k_ms), 100.0), (at(2 * k_ms), 130.0)] {
        assert!((ours - theirs).abs() < 0.02, "{ours} {theirs}");
    }
    assert_eq!(unsafe { tp_cubic_parts(0, 1_000_000, 5) }, 0);
}

/// Sections 4.6 and 4.7.
#[test]
fn cubic_keeps_70_percent_with_fast_convergence() {
    let mut c = tp_cubic::default();
    assert_eq!(unsafe { cubic_threshold(&mut c, &window(1000)) }, 700);
    assert_eq!(c.now.max, 1000);
    assert_eq!(unsafe { cubic_threshold(&mut c, &window(800)) }, 560);
    assert_eq!(c.now.max, 680, "800 * 0.85");
}

/// Section 4.3: with a short RTT reno grows faster, and cubic follows it.
#[test]
fn cubic_is_never_slower_than_reno() {
    let mut c = tp_cubic::default();
    c.now.max = 20;
    let mut w = window(14);
    let mut now_us = 1_000_000;
    for _ in 0..20 {
        let a = tp_ack {
            now_us,
            min_rtt_us: 5000,
            ..ack(1)
        };
        for _ in 0..w.packets {
            unsafe { cubic_grow(&mut c, &mut w, &a) };
        }
        now_us += 5000;
    }
    assert!(
        (22..=26).contains(&w.packets),
        "{}: 14 + 20 * 0.53",
        w.packets
    );
}

/// RFC 9406, section 4.2, with the constants of 4.3.
#[test]
fn hystart_leaves_slow_start_after_five_conservative_rounds() {
    let mut h = tp_hystart::default();
    unsafe { tp_hystart_begin(&mut h, 0) };
    let round = |h: &mut tp_hystart, seq: u32, rtt_us: i32| {
        for _ in 0..8 {
            unsafe { tp_hystart_sample(h, rtt_us, 1) };
        }
        unsafe { tp_hystart_check(h, 40_000) };
        unsafe { tp_hystart_round(h, seq, seq) }
    };
    assert_eq!(round(&mut h, 1, 40_000), 0);
    assert_eq!(round(&mut h, 2, 44_999), 0);
    assert_eq!(h.css_base_us, 0, "5 ms are needed: 40 / 8");
    let mut h2 = h;
    assert_eq!(round(&mut h2, 3, 51_000), 0);
    assert_eq!(h2.css_base_us, 51_000);
    assert_eq!(
        unsafe { tp_hystart_step(&mut h2, 8) },
        2,
        "a quarter of the growth"
    );
    let ends: Vec<i32> = (4..8).map(|seq| round(&mut h2, seq, 52_000)).collect();
    assert_eq!(ends, [0, 0, 0, 1], "the round in which it began counts");
    let mut h3 = h;
    round(&mut h3, 3, 51_000);
    round(&mut h3, 4, 45_000);
    assert_eq!(h3.css_base_us, 0, "the rise was an accident");
    assert_eq!(
        unsafe { tp_hystart_step(&mut h3, 44) },
        44,
        "an acknowledgement behind offloads counts whole"
    );
}

/// A queue of a path of 50 µs that grows by a millisecond a round: RFC 9406's 4 ms would see it after four rounds.
#[test]
fn hystart_follows_the_queue_of_a_short_path() {
    let ends_at = |rtt_us: &[i32], acked: u32| {
        let mut h = tp_hystart::default();
        unsafe { tp_hystart_begin(&mut h, 0) };
        let round = |(seq, rtt_us): (usize, &i32)| {
            let seq = 1 + seq as u32;
            for _ in 0..8_u32.div_ceil(acked.div_ceil(2)).max(2) {
                unsafe { tp_hystart_sample(&mut h, *rtt_us, acked) };
            }
            unsafe { tp_hystart_check(&mut h, 50) };
            unsafe { tp_hystart_round(&mut h, seq, seq) == 1 }
        };
        rtt_us.iter().enumerate().position(round)
    };
    let growing = [50, 60, 560, 1060, 1560];
    assert_eq!(ends_at(&growing, 1), Some(3), "a rise, and another");
    assert_eq!(ends_at(&growing, 44), Some(3), "two samples are eight");
    let noisy = [50, 60, 559, 300, 700, 350, 650, 300, 700];
    assert_eq!(
        ends_at(&noisy, 1),
        None,
        "rises of less than half a millisecond"
    );
    let steady = [50, 600, 650, 640, 660, 650, 650];
    assert_eq!(ends_at(&steady, 1), Some(5), "five rounds at one queue");
    let accident = [50, 600, 300, 300, 300, 300, 300, 300];
    assert_eq!(ends_at(&accident, 1), None, "back by half of the rise");
}

/// draft-leith-tcp-htcp-06, sections 3.1 and 3.2.
#[test]
fn htcp_grows_with_the_time_since_congestion() {
    let increase = |ms| unsafe { htcp_increase(ms) };
    assert_eq!((increase(0), increase(1000)), (128, 128));
    assert_eq!(
        (increase(2000), increase(3000), increase(11_000)),
        (1440, 22 * 128, 126 * 128),
        "11.25, 22 and 126, times 2^7"
    );
    let mut h = tp_htcp {
        beta: 64,
        min_rtt_us: 100_000,
        ..Default::default()
    };
    unsafe { htcp_set_alpha(&mut h, 3000) };
    assert_eq!(h.alpha, 2 * 22 * 64, "2 (1 - beta) alpha");
    h.beta = 102;
    unsafe { htcp_set_alpha(&mut h, 500) };
    assert_eq!(
        h.alpha,
        2 * (128 - 102),
        "less than reno where it backs off less"
    );
    h.adaptive = 1;
    h.max_rtt_us = 150_000;
    (h.rate_most, h.rate_before) = (1000, 1000);
    unsafe { htcp_set_beta(&mut h) };
    assert_eq!(h.beta, 85, "100 / 150");
    h.rate_most = 1300;
    unsafe { htcp_set_beta(&mut h) };
    assert_eq!(
        (h.beta, h.adaptive),
        (64, 0),
        "a change of more than a fifth"
    );
}

/// RFC 8257, section 3.3.
#[test]
fn dctcp_cuts_by_half_the_marked_fraction() {
    let mut e = tp_ecn {
        alpha: TP_ALPHA_ONE,
        ..Default::default()
    };
    let mut seq = 0;
    let mut rounds = |e: &mut tp_ecn, n: u32, marked: u32| {
        for _ in 0..n {
            seq += 1;
            let (d, m) = (e.delivered + 100, e.marked + marked);
            assert_eq!(unsafe { tp_ecn_update(e, d, m, seq, seq, 4) }, 1);
        }
    };
    rounds(&mut e, 1, 0);
    assert_eq!(e.alpha, TP_ALPHA_ONE / 16 * 15, "(1 - 1/16)");
    rounds(&mut e, 200, 25);
    assert!(
        e.alpha.abs_diff(TP_ALPHA_ONE / 4) <= TP_ALPHA_ONE / 10_000,
        "{}: a quarter",
        e.alpha
    );
    assert_eq!(unsafe { tp_ecn_threshold(&mut e, 1000) }, 875);
    rounds(&mut e, 200, 100);
    assert!(e.alpha > TP_ALPHA_ONE / 100 * 99);
    assert!(unsafe { tp_ecn_threshold(&mut e, 1000) } <= 501);
    rounds(&mut e, 300, 0);
    assert_eq!(e.alpha, 0);
}

/// draft-briscoe-iccrg-prague-congestion-control-04, sections 2.4.2 and 2.4.3.
#[test]
fn prague_emulates_25_ms_rtt_cuts_half_alpha() {
    let grown = |srtt_us: u32| {
        let (mut p, mut w) = (tp_prague::default(), window(100));
        p.rounds = PRAGUE_ROUNDS as u16;
        for _ in 0..1000 {
            unsafe { prague_increase(&mut p, &mut w, 1, srtt_us) };
        }
        w.packets - 100
    };
    assert!(
        (9..=10).contains(&grown(50_000)),
        "one a window: {}",
        grown(50_000)
    );
    assert!(
        (2..=3).contains(&grown(12_500)),
        "a quarter: {}",
        grown(12_500)
    );
    let mut p = tp_prague::default();
    p.ecn.alpha = TP_ALPHA_ONE / 2;
    let mut w = window(100);
    let a = tp_ack {
        now_us: 1_000_000,
        ..ack(1)
    };
    unsafe { prague_reduce(&mut p, &mut w, &a) };
    assert_eq!(w.packets, 75);
    unsafe { prague_reduce(&mut p, &mut w, &a) };
    assert_eq!(w.packets, 75, "once a round");
}

/// Two marks a round are the equilibrium: alpha of a window of 10,000 packets is 0.0002, and each
/// round the marks take away its growth of two packets.
#[test]
fn small_mark_fraction_still_reduces_large_window() {
    let mut e = tp_ecn::default();
    let (mut delivered, mut marked, mut window) = (0, 0, 10_000u32);
    for seq in 1..=400 {
        delivered += window;
        marked += 2;
        unsafe { tp_ecn_update(&mut e, delivered, marked, seq, seq, 4) };
        window = unsafe { tp_ecn_threshold(&mut e, window) } + 1;
    }
    assert!(
        (9_995..=10_030).contains(&window),
        "{window}: alpha / 2 of it is a packet"
    );
}

/// RFC 9438, section 4.3: 0.53 packets per round, for any window and any acknowledgements.
#[test]
fn cubics_reno_friendly_window_carries_its_remainder() {
    for (cwnd, acked) in [
        (300, 1),
        (600, 2),
        (1000, 1),
        (4150, 1),
        (8000, 1),
        (83_000, 44),
    ] {
        let mut c = tp_cubic::default();
        c.now.reno = 100;
        let rounds = 40;
        for _ in 0..rounds * cwnd / acked {
            unsafe { cubic_friendly(&mut c, cwnd, acked) };
        }
        let grown = f64::from(c.now.reno - 100) / f64::from(rounds);
        assert!((0.49..=0.54).contains(&grown), "{cwnd} {acked}: {grown}");
    }
}

/// The clock of another processor may be a little behind.
#[test]
fn a_step_back_in_time_is_no_step_of_cubic() {
    let mut c = tp_cubic::default();
    let mut w = window(1000);
    unsafe { cubic_threshold(&mut c, &w) };
    w.packets = 700;
    for now_us in [50_000_000, 49_999_999] {
        let a = tp_ack {
            now_us,
            min_rtt_us: !0, // none: the time is not ahead by it
            ..ack(44)
        };
        unsafe { cubic_grow(&mut c, &mut w, &a) };
        assert!(w.packets <= 701, "{}", w.packets);
    }
}

/// RFC 9438, section 4.9.
#[test]
fn spurious_loss_restores_cubic_epoch() {
    let mut c = tp_cubic::default();
    let mut w = window(1000);
    unsafe { cubic_threshold(&mut c, &w) };
    w.packets = 700;
    unsafe { cubic_grow(&mut c, &mut w, &ack(1)) };
    let before = c.now;
    assert!(before.k_ms > 0 && before.start_us > 0);
    unsafe { cubic_threshold(&mut c, &w) };
    unsafe { cubic_enter(&mut c, &ack(0), TP_STATE_LOSS as u8, &w) };
    assert_eq!((c.now.max, c.now.start_us), (0, 0));
    unsafe { cubic_restore(&mut c) };
    let parts = |e: &tp_cubic_epoch| (e.start_us, e.max, e.origin, e.k_ms, e.reno, e.prior);
    assert_eq!(parts(&c.now), parts(&before));
}

/// Section 2.4.3, and 2.4.4: independent of the RTT after 500 rounds.
#[test]
fn prague_grows_on_short_fast_paths() {
    for (srtt_us, packets) in [
        (100, 16),
        (100, 1000),
        (500, 5000),
        (1000, 20_000),
        (25_000, 2000),
    ] {
        let law = (f64::from(srtt_us) / 25_000.0).powi(2).min(1.0);
        let per_round = |rounds| {
            let (mut p, mut w) = (
                tp_prague {
                    rounds,
                    ..Default::default()
                },
                window(packets),
            );
            let (mut acked, chunk) = (0u64, (packets / 16).clamp(1, 64));
            while w.packets < packets + 4 && acked < 1 << 30 {
                unsafe { prague_increase(&mut p, &mut w, chunk, srtt_us) };
                acked += u64::from(chunk);
            }
            4.0 * f64::from(packets) / acked as f64
        };
        let (first, later) = (per_round(0), per_round(500));
        assert!(
            (later / law - 1.0).abs() < if packets < 100 { 0.15 } else { 0.05 },
            "{srtt_us} us, {packets}: {later} of {law}"
        );
        assert!(
            (0.85..1.05).contains(&first),
            "{srtt_us} us, {packets}: {first} at first"
        );
    }
}

/// RFC 8257, section 3.3: alpha follows the marks even while the application is the limit.
#[test]
fn prague_initial_alpha_decays_while_application_limited() {
    let mut p = tp_prague::default();
    unsafe { prague_begin(&mut p, 0, 0, 0) };
    let mut w = window(10);
    for round in 1..=100u32 {
        let a = tp_ack {
            now_us: u64::from(round) * 30_000,
            una: round,
            nxt: round + 1,
            ..ack(1)
        };
        unsafe {
            prague_observe(
                &mut p,
                &w,
                &tp_ack {
                    srtt_us: 25_000,
                    ..a
                },
                round,
                0,
            )
        };
    }
    assert!(p.ecn.alpha < TP_ALPHA_ONE / 100, "{}", p.ecn.alpha);
    let a = tp_ack {
        now_us: 4_000_000,
        ..ack(1)
    };
    unsafe { prague_grow(&mut p, &mut w, &a, 1) };
    assert_eq!(w.packets, 10, "one mark after minutes without any");
}

/// The mean window of a flow long after its first 500 rounds, if each twentieth packet is marked.
fn prague_window_at_one_mark_in_twenty(srtt_us: u32) -> f64 {
    let mut p = tp_prague::default();
    unsafe { prague_begin(&mut p, 0, 0, 0) };
    p.rounds = PRAGUE_ROUNDS as u16;
    let mut w = window(50);
    let (mut now_us, mut sum, acks) = (1e6, 0.0, 200_000u32);
    for delivered in 1..=acks {
        now_us += f64::from(srtt_us) / f64::from(w.packets);
        let a = tp_ack {
            now_us: now_us as u64,
            srtt_us,
            una: delivered,
            nxt: delivered + w.packets,
            ..ack(1)
        };
        let marked = delivered / 20;
        unsafe { prague_observe(&mut p, &w, &a, delivered, marked) };
        unsafe { prague_grow(&mut p, &mut w, &a, marked) };
        if delivered > acks / 2 {
            sum += f64::from(w.packets);
        }
    }
    sum / f64::from(acks / 2)
}

/// Section 2.4.4: a flow with a short RTT has the rate of one with 25 ms.  Growth is (RTT / 25 ms)^2 a
/// round for that, and cuts must come no more often than that flow's.
#[test]
fn prague_rate_at_equal_marks_ignores_short_rtt() {
    let window = prague_window_at_one_mark_in_twenty;
    let rate = |srtt_us: u32| window(srtt_us) / f64::from(srtt_us);
    let balance = 2.0 * 19.0; // 2 (1 - F) / F
    assert!((window(25_000) / balance - 1.0).abs() < 0.1);
    for srtt_us in [5_000, 10_000, 15_000] {
        let ratio = rate(srtt_us) / rate(25_000);
        assert!((0.9..1.35).contains(&ratio), "{srtt_us} us: {ratio}");
    }
}

/// The kernel leaves the window to an algorithm with `cong_control`, also while a loss is repaired.  One packet
/// in `acked` acknowledgements of a whole flight: the window is the threshold when the last has arrived.
#[test]
fn prague_halves_window_by_end_of_recovery() {
    for acked in [1, 2, 3, 8] {
        let mut p = tp_prague::default();
        let mut w = window(96);
        w.ssthresh = 48;
        // A packet is lost: the three behind it show the gap.
        let (mut in_flight, mut arrived) = (96 - 4, 4);
        while arrived < 96 {
            let now = acked.min(96 - arrived);
            arrived += now;
            in_flight -= now;
            unsafe { prague_recover(&mut p, &mut w, in_flight, now) };
            assert!(w.packets >= 48, "{w:?}");
            in_flight = in_flight.max(w.packets);
        }
        assert!((48..=50).contains(&w.packets), "{acked}: {w:?}");
    }
}

/// The value comes from the kernel's stack: it had skipped the callbacks for setting the threshold.
#[test]
fn prague_recovery_ignores_ssthresh_above_window() {
    let mut p = tp_prague::default();
    let mut w = window(27);
    w.ssthresh = 0x8220_28e5;
    unsafe { prague_recover(&mut p, &mut w, 24, 1) };
    assert_eq!((w.packets, w.ssthresh), (24, 13));
}
