//! Grieco, Mascolo 2004.

use super::near;
use tcpilot_native_tests::{
    cc::tp_westwood,
    windows::{self, LOSS},
};

type Connection = windows::Connection<tp_westwood>;

/// Delivers so many packets a second for some time, one at a time.
fn deliver(c: &mut Connection, total: &mut u32, per_second: u32, seconds: u32, rtt_us: i32) {
    for _ in 0..per_second * seconds {
        c.ack.now_us += u64::from(1_000_000 / per_second);
        *total += 1;
        c.sample(rtt_us, *total);
    }
}

#[test]
fn a_loss_leaves_the_measured_rate_times_the_least_rtt() {
    for window in [10, 100, 1000] {
        let (mut c, mut total) = (Connection::new(window), 0);
        deliver(&mut c, &mut total, 1000, 1, 40_000);
        deliver(&mut c, &mut total, 1000, 2, 90_000); // a queue has come
        assert!((39..=40).contains(&c.threshold()), "{}", c.threshold());
    }
}

#[test]
fn the_rate_follows_as_a_filter_of_seven_eighths_does() {
    let (mut c, mut total) = (Connection::new(10), 0);
    deliver(&mut c, &mut total, 1000, 4, 100_000);
    deliver(&mut c, &mut total, 500, 1, 100_000); // ten samples
    let expected = 100.0 * (0.5 + 0.5 * 0.875f64.powi(10));
    assert!(
        near(f64::from(c.threshold()), expected, 0.03),
        "{} {expected}",
        c.threshold()
    );
}

#[test]
fn a_burst_is_not_taken_for_a_rate() {
    let (mut c, mut total) = (Connection::new(10), 0);
    deliver(&mut c, &mut total, 1000, 2, 10_000);
    let before = c.threshold();
    for _ in 0..20 {
        total += 1;
        c.sample(10_000, total); // all at the same instant
    }
    assert_eq!(c.threshold(), before);
}

#[test]
fn after_a_time_out_the_least_rtt_is_taken_anew() {
    let (mut c, mut total) = (Connection::new(10), 0);
    deliver(&mut c, &mut total, 1000, 2, 40_000);
    c.enter(LOSS);
    deliver(&mut c, &mut total, 1000, 2, 80_000); // another path
    assert!((78..=80).contains(&c.threshold()), "{}", c.threshold());
}

#[test]
fn nothing_measured_leaves_two_packets() {
    assert_eq!(Connection::new(100).threshold(), 2);
}

#[test]
fn growth_is_renos() {
    let mut c = Connection::new(20);
    c.round(40_000);
    assert_eq!(c.w.packets, 21);
}
