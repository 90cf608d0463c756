//! Grieco, Mascolo 2004.

use super::near;
use tcpilot_core::{cc::tp_westwood, windows};

type Connection = windows::Connection<tp_westwood>;

/// Delivers so many packets per second for some time, one at a time.
fn deliver(c: &mut Connection, total: &mut u32, per_second: u32, seconds: u32, rtt_us: i32) {
    for _ in 0..per_second * seconds {
        c.ack.now_us += u64::from(1_000_000 / per_second);
        *total += 1;
        c.sample(rtt_us, *total);
    }
}

/// The window once a loss is repaired.
fn fitting(c: &mut Connection) -> u32 {
    c.repair();
    assert_eq!(c.w.ssthresh, c.w.packets);
    c.w.packets
}

#[test]
fn recovery_ends_at_measured_rate_times_min_rtt() {
    for window in [10, 100, 1000] {
        let (mut c, mut total) = (Connection::new(window), 0);
        deliver(&mut c, &mut total, 1000, 1, 40_000);
        deliver(&mut c, &mut total, 1000, 2, 90_000); // a queue has come
        let left = fitting(&mut c);
        assert!((39..=40).contains(&left), "{left}");
    }
}

#[test]
fn window_during_recovery_matches_reno() {
    let (mut c, mut total) = (Connection::new(100), 0);
    deliver(&mut c, &mut total, 1000, 1, 40_000);
    assert_eq!(c.threshold(), 50);
}

/// Two averages in a row: after n samples of half the rate, (7/8)^n (1 + n/8) of the difference is left.
#[test]
fn rate_follows_two_filters_of_seven_eighths() {
    let (mut c, mut total) = (Connection::new(10), 0);
    deliver(&mut c, &mut total, 1000, 4, 100_000);
    deliver(&mut c, &mut total, 500, 1, 100_000); // ten samples
    let expected = 100.0 * (0.5 + 0.5 * 0.875f64.powi(10) * 2.25);
    let left = f64::from(fitting(&mut c));
    assert!(near(left, expected, 0.03), "{left} {expected}");
}

#[test]
fn a_burst_is_not_taken_for_a_rate() {
    let (mut c, mut total) = (Connection::new(10), 0);
    deliver(&mut c, &mut total, 1000, 2, 10_000);
    let before = fitting(&mut c);
    for _ in 0..20 {
        total += 1;
        c.sample(10_000, total); // all at the same instant
    }
    assert_eq!(fitting(&mut c), before);
}

#[test]
fn timeout_restarts_slow_start_and_resets_min_rtt() {
    let (mut c, mut total) = (Connection::new(10), 0);
    deliver(&mut c, &mut total, 1000, 2, 40_000);
    c.time_out();
    assert_eq!(c.w.packets, 10);
    assert!((39..=40).contains(&c.w.ssthresh), "{}", c.w.ssthresh);
    deliver(&mut c, &mut total, 1000, 2, 80_000); // another path
    let left = fitting(&mut c);
    assert!((78..=80).contains(&left), "{left}");
}

#[test]
fn nothing_measured_leaves_two_packets() {
    assert_eq!(fitting(&mut Connection::new(100)), 2);
}

#[test]
fn growth_is_renos() {
    let mut c = Connection::new(20);
    c.round(40_000);
    assert_eq!(c.w.packets, 21);
}
