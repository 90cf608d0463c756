//! The measures of a finished connection and of its path: rates, windows, the loss rule.

mod common;

use std::sync::atomic::{AtomicU32, Ordering};

use common::{S, SCALE, config};
use proptest::prelude::*;
use tcpilot_abi::tp_path;
use tcpilot_core as native;
use tcpilot_core::Sample;

/// The bytes per second at which `tp_delivery_rate` saturates.
const RATE_MAX: u64 = u64::MAX / SCALE;

fn sample(delivery_rate: u64, min_rtt_us: u32) -> Sample {
    Sample {
        delivery_rate,
        min_rtt_us,
        srtt_us: min_rtt_us,
        ..Default::default()
    }
}

#[test]
fn slow_links_keep_their_rate() {
    // 1 Mbit/s: 10 packets of 1250 bytes in 100 ms.
    assert_eq!(native::delivery_rate(10, 100_000, 1250), 125_000);
    // One packet of 500 bytes in a minute.
    assert_eq!(native::delivery_rate(1, 60_000_000, 500), 8);
}

#[test]
fn an_interval_of_nothing_is_no_rate() {
    assert_eq!(native::delivery_rate(10, 0, 1250), 0);
}

#[test]
fn a_connections_rate_is_its_busy_mean() {
    // 1 MB in 99 ticks of 4 ms, counted as 100: 2.5 MB/s.
    assert_eq!(native::busy_rate(1_000_000, 99, 250), 2_500_000);
    assert_eq!(native::busy_rate(1_000_000, 99, 1000), 10_000_000);
}

#[test]
fn a_few_ticks_give_no_mean_rate() {
    assert_eq!(native::busy_rate(1_000_000, 4, 250), 0);
    assert_ne!(native::busy_rate(1_000_000, 5, 250), 0);
    assert_eq!(native::busy_rate(1_000_000, 99, 0), 0, "tick not known");
}

#[test]
fn an_unset_rtt_is_no_sample() {
    assert_eq!(native::valid_rtt_us(u32::MAX), 0);
    assert_eq!(native::valid_rtt_us(u32::MAX - 1), u32::MAX - 1);
    assert_eq!(native::valid_rtt_us(0), 0);
}

#[test]
fn a_connection_without_rtt_leaves_the_paths_rtt() {
    let (cfg, mut path) = (config(), tp_path::default());
    native::learn_path(&cfg, &mut path, &sample(1000, 50), S);
    native::learn_path(&cfg, &mut path, &sample(1000, 0), 2 * S);
    assert_eq!(native::window_min(&path.min_rtt_us), 50);
    assert_eq!(path.srtt_us, 50);
}

#[test]
fn a_paths_rate_is_forgotten_after_two_windows() {
    let (cfg, mut path) = (config(), tp_path::default());
    native::learn_path(&cfg, &mut path, &sample(1_000_000, 50), 10 * S);
    native::learn_path(&cfg, &mut path, &sample(1000, 70), 310 * S);
    assert_eq!(native::window_max(&path.max_delivery_rate), 1_000_000);
    assert_eq!(native::window_min(&path.min_rtt_us), 50);
    native::learn_path(&cfg, &mut path, &sample(1000, 70), 610 * S);
    assert_eq!(native::window_max(&path.max_delivery_rate), 1000);
    assert_eq!(native::window_min(&path.min_rtt_us), 70);
}

#[test]
fn a_silent_window_forgets_both_halves() {
    let (cfg, mut path) = (config(), tp_path::default());
    native::learn_path(&cfg, &mut path, &sample(1_000_000, 50), 10 * S);
    native::learn_path(&cfg, &mut path, &sample(1000, 70), 610 * S);
    assert_eq!(native::window_max(&path.max_delivery_rate), 1000);
}

#[test]
fn ssthresh_has_a_shorter_window_and_a_floor() {
    let (cfg, mut path) = (config(), tp_path::default());
    let mut with = |ssthresh_packets, now_s| {
        let s = Sample {
            ssthresh_packets,
            ..sample(1000, 50)
        };
        native::learn_path(&cfg, &mut path, &s, now_s * S);
        native::window_min(&path.ssthresh_packets).max(path.ssthresh_packets.current)
    };
    assert_eq!(with(9, 1), 0);
    assert_eq!(with(10, 2), 10);
    assert_eq!(with(80, 3), 80);
    assert_eq!(with(20, 100), 20);
}

#[test]
fn losses_are_summed_over_the_window() {
    let (cfg, mut path) = (config(), tp_path::default());
    let s = Sample {
        sent_packets: 100,
        lost_packets: 3,
        ..sample(1000, 50)
    };
    native::learn_path(&cfg, &mut path, &s, S);
    native::learn_path(&cfg, &mut path, &s, 2 * S);
    assert_eq!(
        (path.sent_packets.current, path.lost_packets.current),
        (200, 6)
    );
}

/// A CPU reads the clock, and others move the windows on before it gets the path.
#[test]
fn a_late_sample_forgets_nothing() {
    let (cfg, mut path) = (config(), tp_path::default());
    let full = |rate, rtt| Sample {
        ssthresh_packets: 40,
        sent_packets: 100,
        ..sample(rate, rtt)
    };
    native::learn_path(&cfg, &mut path, &full(9000, 50), 599 * S);
    native::learn_path(&cfg, &mut path, &full(5000, 70), 600 * S);
    native::learn_path(&cfg, &mut path, &full(100, 90), 599 * S);
    let (rate, rtt) = (&path.max_delivery_rate, &path.min_rtt_us);
    assert_eq!((rate.current, rate.previous), (5000, 9000));
    assert_eq!((rtt.current, rtt.previous), (70, 50));
    let sent = &path.sent_packets;
    assert_eq!((sent.current, sent.previous), (200, 100));
    assert_eq!(path.ssthresh_packets.previous, 40);
    // A clock that is far behind starts anew.
    native::learn_path(&cfg, &mut path, &full(7, 80), S);
    assert_eq!(native::window_max(&path.max_delivery_rate), 7);
}

#[test]
fn the_loss_rule_never_fires_under_64_segments() {
    for sent in 0..64 {
        assert!(!native::loss_is_heavy(sent, sent, 64, 6));
    }
}

#[test]
fn the_loss_rule_fires_above_one_in_64() {
    assert!(!native::loss_is_heavy(1, 64, 64, 6));
    assert!(native::loss_is_heavy(2, 64, 64, 6));
    assert!(!native::loss_is_heavy(100, 6400, 64, 6));
    assert!(native::loss_is_heavy(101, 6400, 64, 6));
    assert!(native::loss_is_heavy(u32::MAX, u32::MAX, 64, 6));
}

proptest! {
    #[test]
    fn rates_are_packets_times_mss_over_time(packets in 1u32..=1 << 20, us in 1u32..60_000_000, mss in 1u32..=65535) {
        let reference = u128::from(packets) * u128::from(mss) * 1_000_000 / u128::from(us);
        prop_assert_eq!(u128::from(native::delivery_rate(packets, us, mss)), reference);
    }

    #[test]
    fn impossible_rate_samples_saturate(packets: u32, us in 1u32..1000, mss: u32) {
        let reference = u128::from(packets) * u128::from(mss) * 1_000_000 / u128::from(us);
        let rate = u128::from(native::delivery_rate(packets, us, mss));
        let bytes = u128::from(packets) * u128::from(mss);
        if bytes <= u128::from(RATE_MAX) {
            prop_assert_eq!(rate, reference.min(u128::from(RATE_MAX)));
        } else {
            prop_assert_eq!(rate, u128::from(RATE_MAX));
        }
    }

    #[test]
    fn the_loss_rule_is_the_ratio(retransmitted: u32, sent in 64u32.., shift in 1u32..16) {
        let reference = f64::from(retransmitted) * f64::from(1u32 << shift) > f64::from(sent);
        prop_assert_eq!(native::loss_is_heavy(retransmitted, sent, 64, shift), reference);
    }

}

/// Two CPUs count the same last one down, again and again: that must not make the count wrap.
#[test]
fn counting_down_never_goes_below_nothing() {
    let count = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let take = || {
            for _ in 0..100_000_000 {
                // SAFETY: the C side uses the word by atomic operations only.
                unsafe { native::decrement(count.as_ptr()) };
            }
        };
        let takers = [scope.spawn(take), scope.spawn(take)];
        while takers.iter().any(|taker| !taker.is_finished()) {
            let _ = count.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed);
        }
    });
    assert!(count.load(Ordering::Relaxed) <= 1, "{count:?}");
}
