//! Values set from a path's figures: initial window, timers, receive window, kind of network, policers.

use proptest::prelude::*;
use tcpilot_core::tune::*;

/// The slides' thresholds and divisors as configured by default.
fn slides() -> tp_tuning {
    tp_tuning {
        iw_low_percent: 125,
        iw_mid_percent: 200,
        iw_low_divisor: 1,
        iw_mid_divisor: 2,
        iw_high_divisor: 4,
        iw_most_packets: 512,
        ..Default::default()
    }
}

fn careful() -> tp_tuning {
    tp_tuning {
        iw_careful: 1,
        ..slides()
    }
}

/// A path of 50 ms without a queue, with room for 400 packets and four live flows.
fn path() -> tp_iw {
    tp_iw {
        saved_packets: 400,
        flows: 4,
        rtt_us: 50_000,
        srtt_us: 52_000,
        min_rtt_us: 50_000,
        base_packets: 10,
        brake: 0,
    }
}

fn window(tuning: &tp_tuning, path: tp_iw) -> u32 {
    // SAFETY: both references are valid, and the function only reads.
    unsafe { tp_initial_window(tuning, &path) }
}

#[test]
fn the_slides_rule_divides_the_share_by_load() {
    assert_eq!(window(&slides(), path()), 100); // low: 400 / 4 / 1
    let mid = tp_iw {
        srtt_us: 80_000,
        ..path()
    };
    assert_eq!(window(&slides(), mid), 50);
    let high = tp_iw {
        srtt_us: 200_000,
        ..path()
    };
    assert_eq!(window(&slides(), high), 25);
}

#[test]
fn slides_rule_shrinks_kernel_window_only_when_congested() {
    let small = tp_iw {
        saved_packets: 20,
        ..path()
    };
    assert_eq!(window(&slides(), small), 10);
    let congested = tp_iw {
        srtt_us: 200_000,
        ..small
    };
    assert_eq!(window(&slides(), congested), 1);
}

#[test]
fn the_published_thresholds_can_be_configured() {
    let published = tp_tuning {
        iw_low_percent: 800,
        iw_mid_percent: 1600,
        ..slides()
    };
    let loaded = tp_iw {
        srtt_us: 7 * 50_000,
        ..path()
    };
    assert_eq!(window(&published, loaded), 100);
}

#[test]
fn careful_rule_jumps_to_half_the_share() {
    assert_eq!(window(&careful(), path()), 50);
}

#[test]
fn careful_rule_jumps_only_if_rtt_matches() {
    for rtt_us in [24_000, 62_500, 900_000] {
        assert_eq!(
            window(&careful(), tp_iw { rtt_us, ..path() }),
            10,
            "{rtt_us}"
        );
    }
    for rtt_us in [25_000, 50_000, 62_000] {
        assert_eq!(
            window(&careful(), tp_iw { rtt_us, ..path() }),
            50,
            "{rtt_us}"
        );
    }
    // On a short path it varies by the time that the ends add.
    let short = |rtt_us| tp_iw {
        rtt_us,
        min_rtt_us: 100,
        ..path()
    };
    assert_eq!(window(&careful(), short(1_100)), 50);
    assert_eq!(window(&careful(), short(1_101)), 10);
}

#[test]
fn missing_history_or_rtt_keeps_kernel_window() {
    for tuning in [slides(), careful()] {
        let none = tp_iw {
            saved_packets: 0,
            ..path()
        };
        assert_eq!(window(&tuning, none), 10);
        assert_eq!(
            window(
                &tuning,
                tp_iw {
                    rtt_us: 0,
                    ..path()
                }
            ),
            10
        );
        let new = tp_iw {
            min_rtt_us: 0,
            ..path()
        };
        assert_eq!(window(&tuning, new), 10);
    }
}

#[test]
fn each_step_of_the_brake_halves_the_excess() {
    let braked = |brake| window(&slides(), tp_iw { brake, ..path() });
    assert_eq!(
        [braked(0), braked(1), braked(3), braked(7)],
        [100, 55, 21, 10]
    );
}

#[test]
fn the_brake_is_released_with_time() {
    // SAFETY: pure functions of integers.
    let now = |brake, s: u64| unsafe { tp_brake_now(brake, 0, s * 1_000_000_000) };
    assert_eq!(
        [
            now(3, 0),
            now(3, 9),
            now(3, 10),
            now(3, 29),
            now(3, 30),
            now(3, 999)
        ],
        [3, 3, 2, 1, 0, 0]
    );
}

#[test]
fn window_is_paced_within_half_an_rtt() {
    // SAFETY: a pure function of integers.
    let rate = unsafe { tp_window_rate(100, 1448, 50_000) };
    assert_eq!(rate, 5_792_000);
}

#[test]
fn shown_window_is_ssthresh_or_half_used_cwnd() {
    // SAFETY: a pure function of integers.
    let shown = |ssthresh, cwnd, sent| unsafe { tp_window_shown(ssthresh, cwnd, sent) };
    assert_eq!(shown(120, 100, 5000), 120);
    assert_eq!(shown(0, 320, 400), 160);
    assert_eq!(shown(0, 100, 12), 6); // an unused window shows nothing
}

#[test]
fn rate_is_credited_after_sixteen_initial_windows() {
    // SAFETY: a pure function of integers.
    let credit = |sent, iw| unsafe { tp_is_creditable(sent, iw) };
    assert_eq!((credit(799, 50), credit(800, 50)), (0, 1));
}

#[test]
fn timers_follow_rtt_but_never_exceed_kernel_values() {
    // SAFETY: pure functions of integers.
    let (syn, least) = unsafe {
        (
            |srtt, var, floor| tp_syn_rto_us(srtt, var, floor),
            |srtt, var, floor| tp_min_rto_us(srtt, var, floor),
        )
    };
    assert_eq!(syn(50_000, 5_000, 10_000), 140_000);
    assert_eq!(syn(500, 100, 10_000), 10_000);
    assert_eq!(syn(400_000, 100_000, 10_000), 0); // above 1 s: the kernel's
    assert_eq!(least(50_000, 5_000, 40_000), 40_000);
    assert_eq!(least(50_000, 20_000, 40_000), 92_500);
    assert_eq!(least(50_000, 60_000, 40_000), 0); // jitter: the kernel's 200 ms
    assert_eq!((syn(0, 1, 1), least(0, 1, 1)), (0, 0));
}

#[test]
fn ticks_are_rounded_up_and_two_at_least() {
    // SAFETY: a pure function of integers.
    let ticks = |us, hz| unsafe { tp_ticks(us, hz) };
    assert_eq!(
        [ticks(1000, 250), ticks(10_000, 250), ticks(140_000, 1000)],
        [2, 3, 140]
    );
}

#[test]
fn receive_window_is_bdp_share_minimum_four() {
    // SAFETY: a pure function of integers.
    let window = |bdp, flows| unsafe { tp_receive_window(bdp, 16, 1460, flows) };
    assert_eq!(window(125_000, 1), 171);
    assert_eq!(window(125_000, 10), 17);
    assert_eq!(window(125_000, 80), 4);
    assert_eq!(window(0, 1), 0);
}

#[test]
fn receive_window_shrinks_among_flows_grows_with_room() {
    let reply = |least, packets, others, room| {
        let bounds = tp_tuning {
            rwnd_least_bytes: least,
            rwnd_most_bytes: 1 << 20,
            ..slides()
        };
        // SAFETY: a pure function of integers and a valid pointer.
        unsafe { tp_receive_reply(&bounds, packets, 1460, others, room) }
    };
    assert_eq!(reply(1024, 17, 9, 0), 17);
    assert_eq!(reply(1024, 17, 0, 0), 0); // nobody to share with
    assert_eq!(reply(29_200, 17, 9, 0), 20);
    assert_eq!(reply(65_536, 17, 9, 0), 0);
    assert_eq!(reply(65_536, 44, 9, 3 << 20), 0); // the kernel's own
    assert_eq!(reply(65_536, 400, 0, 3 << 20), 400);
    assert_eq!(reply(65_536, 4000, 4, 3 << 20), 718);
    assert_eq!(reply(65_536, 400, 4, 292_000), 200); // little tcp_rmem
    assert_eq!(reply(65_536, 400, 4, 0), 0); // on connect
    assert_eq!(reply(65_536, 0, 4, 3 << 20), 0); // nothing is known
}

#[test]
fn tuning_unneeded_for_128_connections_is_unused() {
    // SAFETY: a pure function of integers.
    let unused = |used, connections| unsafe { tp_is_unused(used, connections) } != 0;
    assert!(!unused(7, 7));
    assert!(!unused(7, 134));
    assert!(unused(7, 135));
    assert!(unused(7, 60_000));
    assert!(!unused(65_530, 65_600)); // the number is kept modulo 2^16
}

#[test]
fn hold_out_share_is_independent_per_tuning() {
    for (shift, expected) in [(4, 1.0 / 16.0), (2, 0.25), (1, 0.5)] {
        let mut held = [0u32; 8];
        let mut both = 0;
        for port in 32_768..60_999_u32 {
            // SAFETY: pure functions of integers.
            let mask = unsafe { tp_hold_out(port << 16 | 443, 12_345, shift) };
            for (tune, count) in (0..8).zip(&mut held) {
                // SAFETY: a pure function of integers.
                *count += unsafe { tp_is_withheld(mask, tune) } as u32;
            }
            both += u32::from(mask & 0x11 == 0x11);
        }
        let n = 28_231.0;
        for count in held {
            let share = f64::from(count) / n;
            assert!(
                (share - expected).abs() < 0.2 * expected,
                "{shift}: {share}"
            );
        }
        let share = f64::from(both) / n;
        assert!(
            (share - expected * expected).abs() < 0.4 * expected * expected,
            "{share}"
        );
    }
    // SAFETY: a pure function of integers.
    assert_eq!(unsafe { tp_hold_out(1, 2, 0) }, 0);
}

#[test]
fn ecn_arms_need_data_center_or_vouching_policy() {
    let short = tp_net_measures {
        min_rtt_us: 200,
        rttvar_us: 50,
        rate: 0,
        wireless: 0,
    };
    let long = tp_net_measures {
        min_rtt_us: 20_000,
        ..short
    };
    let use_of = |net: u32, is_private, m: &tp_net_measures| {
        let policy = tp_policy_config {
            net: net as u8,
            ..Default::default()
        };
        // SAFETY: valid references, only read.
        unsafe { tp_ecn_use_of(&policy, is_private, m) }
    };
    assert_eq!(use_of(TP_NET_UNKNOWN, 1, &short), TP_ECN_DATA_CENTER);
    assert_eq!(use_of(TP_NET_UNKNOWN, 1, &long), TP_ECN_OTHER_NET);
    assert_eq!(use_of(TP_NET_DATA_CENTER, 1, &long), TP_ECN_DATA_CENTER);
    assert_eq!(use_of(TP_NET_WIFI, 1, &short), TP_ECN_OTHER_NET);
    // However near it is, and whatever the rest of the file says about this host's network.
    assert_eq!(use_of(TP_NET_UNKNOWN, 0, &short), TP_ECN_PUBLIC);
    assert_eq!(use_of(TP_NET_DATA_CENTER, 0, &short), TP_ECN_PUBLIC);
    // Nothing was measured yet.
    let none = tp_net_measures {
        min_rtt_us: 0,
        ..short
    };
    assert_eq!(use_of(TP_NET_UNKNOWN, 1, &none), TP_ECN_OTHER_NET);

    let eligible = |ecn_vouched, ecn_use| {
        let policy = tp_policy_config {
            arms: 0b0111,
            ecn_vouched,
            ..Default::default()
        };
        // SAFETY: a valid reference, only read.
        unsafe { tp_eligible(&policy, 0b1110, ecn_use) }
    };
    assert_eq!(eligible(0, TP_ECN_DATA_CENTER), 0b0111);
    assert_eq!(eligible(0b0100, TP_ECN_NOT_NEGOTIATED), 0b0001);
    for ecn_use in [TP_ECN_PUBLIC, TP_ECN_OTHER_NET] {
        assert_eq!(eligible(0, ecn_use), 0b0001);
        assert_eq!(eligible(0b1100, ecn_use), 0b0101);
    }
}

#[test]
fn network_type_follows_interface_rtt_jitter_and_bdp() {
    let infer = |min_rtt_us, rttvar_us, mbit: u64, wireless| {
        let m = tp_net_measures {
            min_rtt_us,
            rttvar_us,
            rate: mbit * 125_000,
            wireless,
        };
        // SAFETY: a valid reference, only read.
        let found = unsafe { tp_infer_net(&m) };
        (u32::from(found.net), u32::from(found.why))
    };
    assert_eq!(infer(0, 0, 0, 0), (TP_NET_UNKNOWN, TP_NET_WHY_FEW));
    assert_eq!(
        infer(3000, 500, 100, 1),
        (TP_NET_WIFI, TP_NET_WHY_INTERFACE)
    );
    assert_eq!(
        infer(200, 50, 9000, 0),
        (TP_NET_DATA_CENTER, TP_NET_WHY_RTT)
    );
    assert_eq!(
        infer(40_000, 20_000, 30, 0),
        (TP_NET_CELLULAR, TP_NET_WHY_JITTER)
    );
    assert_eq!(
        infer(80_000, 1000, 500, 0),
        (TP_NET_LONG_FAT, TP_NET_WHY_BDP)
    );
    assert_eq!(
        infer(20_000, 1000, 20, 0),
        (TP_NET_UNKNOWN, TP_NET_WHY_NONE)
    );
}

/// A policed transfer: so many bytes per second get through; lossy every `each_ms`.
fn transfer(rates: &[u64], share_lost: f64, srtt_us: u32) -> Option<u64> {
    let mut p = tp_police::default();
    let mut now = tp_police_now {
        srtt_us,
        min_rtt_us: 50_000,
        ..Default::default()
    };
    for rate in rates {
        // SAFETY: valid references, written by this thread only.
        let found = unsafe { tp_police_loss(&mut p, &now) };
        if found > 0 {
            return Some(found);
        }
        for _ in 0..5 {
            // SAFETY: as above.
            unsafe { tp_police_round_trip(&mut p) };
        }
        let us = 250_000;
        now.now_us += us;
        now.bytes_acked += rate * us / 1_000_000;
        let packets = (rate * us / 1_000_000 / 1448) as u32;
        now.sent_packets += packets;
        now.lost_packets += (f64::from(packets) * share_lost) as u32;
    }
    None
}

#[test]
fn two_lossy_intervals_at_one_rate_reveal_policer() {
    assert_eq!(transfer(&[625_000; 4], 0.1, 51_000), Some(625_000));
}

#[test]
fn queue_unequal_rates_or_little_loss_exclude_policer() {
    assert_eq!(transfer(&[625_000; 8], 0.1, 90_000), None);
    assert_eq!(
        transfer(&[625_000, 300_000, 900_000, 400_000, 800_000], 0.1, 51_000),
        None
    );
    assert_eq!(transfer(&[625_000; 8], 0.005, 51_000), None);
}

#[test]
fn policer_interval_expires_after_16_lossless_rtts() {
    let mut p = tp_police {
        sampling: 1,
        rate: 1,
        ..Default::default()
    };
    for _ in 0..17 {
        // SAFETY: a valid reference, written by this thread only.
        unsafe { tp_police_round_trip(&mut p) };
    }
    assert_eq!((p.sampling, p.rate), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_window_leaves_its_bounds(saved in any::<u32>(), flows in any::<u32>(), rtt in any::<u32>(),
        srtt in any::<u32>(), min in any::<u32>(), base in 1u32..100, brake in 0u32..8, rule in 0u8..2) {
        let tuning = tp_tuning { iw_careful: rule, ..slides() };
        let iw = window(&tuning, tp_iw { saved_packets: saved, flows, rtt_us: rtt, srtt_us: srtt,
            min_rtt_us: min, base_packets: base, brake });
        prop_assert!(iw >= 1 && iw <= 512.max(base));
        prop_assert!(rule == 0 || iw >= base);
    }

    #[test]
    fn variation_goes_up_at_once_and_down_slowly(old in 0u32..10_000_000, sample in 0u32..10_000_000) {
        // SAFETY: a pure function of integers.
        let new = unsafe { tp_rttvar(old, sample) };
        prop_assert!(new >= sample.saturating_sub(1) || new >= old - old / 8);
        prop_assert!(new <= old.max(sample));
    }
}
