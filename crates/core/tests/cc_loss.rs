//! Congestion controls by loss: vectors from their papers and RFCs.
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "every call is of a pure function with pointers to live values"
)]

use tcpilot_core::cc::*;

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
fn reno_doubles_in_slow_start_and_then_adds_one_a_window() {
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
    let at = |t_ms| unsafe { tp_cubic_window(t_ms, k_ms, 100) };
    assert_eq!((at(0), at(k_ms), at(2 * k_ms)), (71, 100, 129));
    assert_eq!(unsafe { tp_cubic_window(0, 1_000_000, 5) }, 0);
}

/// Sections 4.6 and 4.7.
#[test]
fn cubic_keeps_seven_tenths_and_yields_below_the_last_maximum() {
    let mut c = tp_cubic::default();
    assert_eq!(unsafe { cubic_threshold(&mut c, &window(1000)) }, 700);
    assert_eq!(c.max, 1000);
    assert_eq!(unsafe { cubic_threshold(&mut c, &window(800)) }, 560);
    assert_eq!(c.max, 680, "800 * 0.85");
}

/// Section 4.3: with a short RTT reno grows faster, and cubic follows it.
#[test]
fn cubic_is_never_slower_than_reno() {
    let mut c = tp_cubic {
        max: 20,
        ..Default::default()
    };
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
            unsafe { tp_hystart_sample(h, rtt_us) };
        }
        unsafe { tp_hystart_check(h) };
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
    assert_eq!(unsafe { tp_hystart_step(&mut h3, 20) }, 8, "L");
}

/// draft-leith-tcp-htcp-06, sections 3.1 and 3.2.
#[test]
fn htcp_grows_with_the_time_since_congestion() {
    let increase = |ms| unsafe { htcp_increase(ms) };
    assert_eq!((increase(0), increase(1000)), (1, 1));
    assert_eq!(
        (increase(2000), increase(3000), increase(11_000)),
        (11, 22, 126)
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
fn dctcp_reduces_by_half_the_fraction_that_was_marked() {
    let mut e = tp_ecn {
        alpha: 1024,
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
    assert_eq!(e.alpha, 960, "(1 - 1/16)");
    rounds(&mut e, 200, 25);
    assert!((256..272).contains(&e.alpha), "{}: a quarter", e.alpha);
    assert_eq!(
        unsafe { tp_ecn_threshold(&e, 1000) },
        1000 - 1000 * e.alpha / 2048
    );
    rounds(&mut e, 200, 100);
    assert!(e.alpha > 1000 && unsafe { tp_ecn_threshold(&e, 1000) } <= 512);
    rounds(&mut e, 300, 0);
    assert_eq!(e.alpha, 0);
}

/// draft-briscoe-iccrg-prague-congestion-control-04, sections 2.4.2 and 2.4.3.
#[test]
fn prague_grows_as_with_an_rtt_of_25_ms_and_cuts_by_half_of_alpha() {
    let grown = |srtt_us: u32| {
        let (mut p, mut w) = (tp_prague::default(), window(100));
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
    p.ecn.alpha = 512;
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
