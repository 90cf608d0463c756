//! Congestion controls by delay, and the coupled ones: vectors from their papers and RFCs.
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

/// A round is over: data up to 10 was acknowledged.
fn round_end() -> tp_ack {
    tp_ack {
        acked: 1,
        una: 10,
        nxt: 20,
        ..Default::default()
    }
}

/// Hock et al. 2017, section III: X(t) = (t / phi)^3, phi 35 ms; the queue and 0.973 of the rest.
#[test]
fn lola_share_queue_and_reduction_match_the_paper() {
    let share = |ms: u64| unsafe { lola_share(ms * 1000) };
    assert_eq!(
        (share(34), share(35), share(70), share(350)),
        (0, 1, 8, 1000)
    );
    let mut l = tp_lola {
        base_us: 40_000,
        now_us: 60_000,
        ..Default::default()
    };
    assert_eq!(
        unsafe { (lola_delay_us(&l), lola_queued(&l, 90)) },
        (20_000, 30 * u64::from(LOLA_PACKET))
    );
    let mut w = window(90);
    unsafe { lola_decongest(&mut l, &mut w, 1) };
    assert_eq!(
        (w.packets, u32::from(l.phase)),
        (57, LOLA_CUBIC),
        "60 * 973 / 1024"
    );
}

/// At an RTT of 43 ms with a base of 40, a window of 10 has less than a packet in the queue, one of
/// 30 has two.
#[test]
fn lola_grows_flow_with_smaller_queue_first() {
    let after = |cwnd: u32| {
        let mut l = tp_lola {
            base_us: 40_000,
            now_us: 43_000,
            phase: LOLA_FAIR as u8,
            ..Default::default()
        };
        let mut w = window(cwnd);
        let a = tp_ack {
            now_us: 500_000, // X(500 ms) is two packets
            ..round_end()
        };
        unsafe { lola_grow(&mut l, &mut w, &a) };
        w.packets
    };
    assert_eq!((after(10), after(30)), (11, 30));
}

/// Half of all connections begin above 2^31.
#[test]
fn lola_balances_wherever_sequence_numbers_are() {
    for una in [1_000, 0x8000_0000, 0xffff_f000] {
        let mut l = tp_lola {
            base_us: 40_000,
            now_us: 43_000,
            phase: LOLA_CUBIC as u8,
            ..Default::default()
        };
        let mut w = window(10);
        let at = |now_us: u64, una: u32| tp_ack {
            now_us,
            una,
            nxt: una.wrapping_add(14_480),
            ..round_end()
        };
        unsafe { lola_grow(&mut l, &mut w, &at(1, una)) };
        assert_eq!(u32::from(l.phase), LOLA_FAIR);
        unsafe { lola_grow(&mut l, &mut w, &at(500_001, una.wrapping_add(1_448))) };
        assert_eq!(w.packets, 11, "{una:#x}");
    }
}

#[test]
fn lola_holds_only_above_its_target() {
    let mut l = tp_lola {
        base_us: 40_000,
        phase: LOLA_FAIR as u8,
        ..Default::default()
    };
    let mut w = window(90);
    let a = tp_ack {
        now_us: 35_000,
        ..round_end()
    };
    l.now_us = 45_000;
    unsafe { lola_grow(&mut l, &mut w, &a) };
    assert_eq!(u32::from(l.phase), LOLA_FAIR);
    l.now_us = 45_001;
    unsafe { lola_grow(&mut l, &mut w, &a) };
    assert_eq!(u32::from(l.phase), LOLA_HOLD);
    let later = tp_ack {
        now_us: 35_000 + 250_000,
        ..a
    };
    unsafe { lola_grow(&mut l, &mut w, &later) };
    assert_eq!(u32::from(l.phase), LOLA_CUBIC);
}

fn connection(paths: &[(u32, u32)]) -> tp_coupled {
    let mut c = tp_coupled::default();
    for (at, (cwnd, rtt_us)) in paths.iter().enumerate() {
        c.sub[at] = tp_subflow {
            id: at as u64 + 1,
            extra: 0,
            acked_us: 0,
            cwnd: *cwnd,
            rtt_us: *rtt_us,
        };
    }
    c
}

const ONE: f64 = (1u32 << TP_STEP_SHIFT) as f64;

/// RFC 6356, section 3.
#[test]
fn lia_paths_together_grow_as_one_tcp() {
    assert_eq!(
        unsafe { lia_per(&connection(&[(20, 40_000)]), 20) },
        20,
        "alone: reno"
    );
    let per = unsafe { lia_per(&connection(&[(20, 40_000), (20, 40_000)]), 20) };
    assert!((79..=81).contains(&per), "{per}: 1 / 4w on each");
    // w 10 and 40, rtt 10 and 40 ms: (1 + 1)^2 / (10 / 100) = 40 packets
    let unequal = connection(&[(10, 10_000), (40, 40_000)]);
    let per = unsafe { lia_per(&unequal, 10) };
    assert!((39..=41).contains(&per), "{per}");
    assert!(
        unsafe { lia_per(&unequal, 100) } >= 100,
        "never faster than reno"
    );
}

/// Khalili et al. 2012, section 4.
#[test]
fn olia_moves_window_to_the_best_path() {
    let mut c = connection(&[(20, 40_000), (20, 40_000)]);
    let step = unsafe { olia_step(&c, &c.sub[0], 20) } as f64 / ONE;
    assert!(
        (step - 1.0 / 80.0).abs() < 1e-4,
        "{step}: equal paths, alpha 0"
    );
    c = connection(&[(10, 40_000), (20, 40_000)]);
    (c.sub[0].extra, c.sub[1].extra) = (5000, 100);
    let alpha = |at: usize| unsafe { olia_alpha(&c, &c.sub[at]) } as f64 / ONE;
    assert_eq!(
        (alpha(0), alpha(1)),
        (0.5, -0.5),
        "the best has not the largest window"
    );
}

/// Peng et al. 2016, section V.
#[test]
fn balia_is_reno_alone_and_cuts_three_quarters() {
    let alone = connection(&[(20, 40_000)]);
    let step = unsafe { balia_step(&alone, &alone.sub[0]) } as f64 / ONE;
    assert!((step - 1.0 / 20.0).abs() < 1e-3, "{step}");
    assert_eq!(unsafe { balia_kept(&alone, &alone.sub[0], 20) }, 10);
    let two = connection(&[(20, 40_000), (40, 40_000)]);
    assert_eq!(
        unsafe { balia_kept(&two, &two.sub[0], 20) },
        5,
        "alpha 2, so 1.5 / 2"
    );
    let step = unsafe { balia_step(&two, &two.sub[0]) } as f64 / ONE;
    // x / rtt / (sum x)^2 = 20 / 60^2, times (1 + 2) / 2 and (4 + 2) / 5
    assert!((step - 20.0 / 3600.0 * 1.5 * 1.2).abs() < 1e-4, "{step}");
}

/// Cao, Xu, Fu 2012, section IV: ten packets, shared by rate.
#[test]
fn wvegas_shares_ten_packets_by_rate() {
    let mut c = connection(&[(20, 40_000), (60, 40_000)]);
    (c.sub[0].extra, c.sub[1].extra) = (25, 75);
    let alpha = |at: usize| unsafe { wvegas_alpha(&c, &c.sub[at]) };
    assert_eq!((alpha(0), alpha(1)), (2, 7));
}

#[test]
fn wvegas_drains_queue_only_above_twice_its_share() {
    let mut v = tp_wvegas {
        rtt: tp_rtt {
            base_us: 10_000,
            min_us: 12_000,
            ..Default::default()
        },
        alpha: 5,
        queue_us: 500,
        ..Default::default()
    };
    let mut w = window(20);
    unsafe { wvegas_drain(&mut v, &mut w, 10) };
    assert_eq!(
        (w.packets, v.queue_us),
        (20, 500),
        "four times the shortest, but about its own"
    );
    unsafe { wvegas_drain(&mut v, &mut w, 11) };
    assert_eq!((w.packets, v.queue_us), (8, 0), "half of 20 * 10 / 12");
}

#[test]
fn steps_add_up_to_packets() {
    let (mut w, mut rest) = (window(10), 0);
    let half = i64::from(1 << (TP_STEP_SHIFT - 1));
    for _ in 0..4 {
        unsafe { tp_add_step(&mut w, &mut rest, half) };
    }
    assert_eq!((w.packets, rest), (12, 0));
    for _ in 0..4 {
        unsafe { tp_add_step(&mut w, &mut rest, -half) };
    }
    assert_eq!((w.packets, rest), (10, 0));
}

/// Wi-Fi with 100 packets at 20 ms, and LTE with 20 packets at 60 ms; Wi-Fi is silent for `us`.
fn wifi_silent_for(us: u64) -> tp_coupled {
    let mut c = connection(&[(100, 20_000), (20, 60_000)]);
    (c.sub[0].extra, c.sub[1].extra) = (5000, 100);
    c.now_us = 10_000_000;
    c.sub[1].acked_us = c.now_us;
    c.sub[0].acked_us = c.now_us - us;
    c
}

/// Four RTOs of 220 ms: the surviving path grows, and shrinks, as if it were alone.
#[test]
fn unacknowledged_path_leaves_the_coupling() {
    let both = wifi_silent_for(100_000);
    assert!(unsafe { lia_per(&both, 20) } > 100, "coupled while alive");
    let alone = wifi_silent_for(4 * 220_000 + 1);
    assert!((20..=21).contains(&unsafe { lia_per(&alone, 20) }));
    let reno = ONE / 20.0;
    for step in [unsafe { balia_step(&alone, &alone.sub[1]) }, unsafe {
        olia_step(&alone, &alone.sub[1], 20)
    }] {
        assert!((step as f64 / reno - 1.0).abs() < 0.1, "{step} of {reno}");
    }
    assert_eq!(unsafe { balia_kept(&alone, &alone.sub[1], 20) }, 10);
    assert_eq!(
        unsafe { wvegas_alpha(&alone, &alone.sub[1]) },
        WVEGAS_TOTAL_ALPHA
    );
}

#[test]
fn a_path_that_comes_back_is_coupled_again() {
    let mut c = wifi_silent_for(5_000_000);
    let mut own = c.sub[0];
    unsafe { tp_refresh(&mut c, &mut own, 10_000_000, 100, 20_000) };
    c.sub[0] = own;
    assert!(unsafe { lia_per(&c, 20) } > 100);
    c.now_us -= 1_000; // a CPU with a clock that is a little behind
    assert!(unsafe { lia_per(&c, 20) } > 100);
}

/// A subflow beyond eight is coupled by the sums, but not counted in them.
#[test]
fn a_ninth_subflow_changes_nothing_for_the_others() {
    let mut c = connection(&[(20, 40_000); 8]);
    let before = unsafe { lia_per(&c, 20) };
    let mut guest = c.guest;
    unsafe { tp_refresh(&mut c, &mut guest, 0, 1000, 40_000) };
    c.guest = guest;
    assert_eq!(unsafe { lia_per(&c, 20) }, before);
    assert!(unsafe { balia_step(&c, &c.guest) } > 0, "but it grows");
}

/// Small windows on long paths: x / rtt has few bits there.
#[test]
fn coupled_steps_are_right_on_long_paths() {
    for (cwnd, rtt_us) in [(2, 600_000), (10, 100_000), (10, 40_000), (5000, 50)] {
        let c = connection(&[(cwnd, rtt_us), (cwnd, rtt_us)]);
        let step = unsafe { olia_step(&c, &c.sub[0], cwnd) } as f64 / ONE;
        let law = 1.0 / (4.0 * f64::from(cwnd));
        assert!(
            (step / law - 1.0).abs() < 0.04,
            "{cwnd} {rtt_us}: {step} {law}"
        );
    }
}
