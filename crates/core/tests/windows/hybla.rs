//! Caini, Firrincieli 2004.

use super::near;
use tcpilot_core::{
    cc::{self, tp_hybla},
    windows::{self, NO_SSTHRESH, RECOVERY},
};

type Connection = windows::Connection<tp_hybla>;

fn hybla_exp2(x: u32) -> u32 {
    // SAFETY: a pure function of numbers.
    unsafe { cc::hybla_exp2(x) }
}

fn hybla_rho(rtt_us: u32) -> u32 {
    // SAFETY: a pure function of numbers.
    unsafe { cc::hybla_rho(rtt_us) }
}

const UNIT: u32 = 128;

#[test]
fn rho_is_rtt_over_25_ms_clamped() {
    assert_eq!(
        [1, 25_000, 28_000, 28_125, 100_000].map(hybla_rho),
        [UNIT, UNIT, UNIT * 28 / 25, UNIT * 9 / 8, 4 * UNIT]
    );
    assert_eq!(hybla_rho(u32::MAX), 16 * UNIT);
}

#[test]
fn powers_of_two_are_accurate_to_half_percent() {
    for x in UNIT..=16 * UNIT {
        let exact = (f64::from(x) / f64::from(UNIT)).exp2() * f64::from(UNIT);
        assert!(
            near(f64::from(hybla_exp2(x)), exact, 0.005),
            "{x}: {exact} {}",
            hybla_exp2(x)
        );
    }
}

#[test]
fn slow_start_adds_two_to_rho_minus_one() {
    let mut c = Connection::new(10);
    c.w.ssthresh = NO_SSTHRESH;
    c.ack.srtt_us = 100_000;
    c.acknowledge(1);
    assert_eq!(c.w.packets, 10 + 15);
}

#[test]
fn slow_start_stops_at_the_threshold() {
    let mut c = Connection::new(10);
    c.w.ssthresh = 20;
    c.ack.srtt_us = 250_000;
    c.acknowledge(1);
    assert_eq!(c.w.packets, 20);
}

/// Section 3: the rate grows as fast per second as with the reference RTT: by one packet per RTT0,
/// every RTT0.
#[test]
fn the_rate_grows_independently_of_the_rtt() {
    for rtt_ms in [25, 50, 100, 250] {
        let start = 40 * rtt_ms / 25;
        let mut c = Connection::new(start);
        for _ in 0..10_000 / rtt_ms {
            c.round(rtt_ms * 1000);
        }
        let rate_gained = f64::from(c.w.packets - start) / f64::from(rtt_ms) * 25.0;
        assert!(near(rate_gained, 400.0, 0.03), "{rtt_ms} ms: {rate_gained}");
    }
}

#[test]
fn own_queue_does_not_speed_up_growth() {
    let (mut short, mut long) = (Connection::new(50), Connection::new(50));
    short.round(50_000);
    long.round(50_000);
    short.round(50_000);
    long.round(500_000);
    assert_eq!(short.w.packets, long.w.packets);
}

#[test]
fn short_rtt_or_recovery_falls_back_to_reno() {
    let mut c = Connection::new(50);
    c.round(10_000);
    assert_eq!(c.w.packets, 51);
    let mut c = Connection::new(50);
    c.enter(RECOVERY);
    c.round(250_000);
    assert_eq!((c.w.packets, c.threshold()), (51, 25));
}

#[test]
fn a_vast_window_grows_by_rho_squared_too() {
    let mut c = Connection::new(1_000_000);
    for _ in 0..4 {
        c.round(50_000);
    }
    assert!(c.w.packets.abs_diff(1_000_016) <= 1, "{:?}", c.w);
}

#[test]
fn growth_is_independent_of_packets_per_ack() {
    let grown = [1, 2, 22, 44].map(|packets| {
        let mut c = Connection::new(1000);
        c.round_by(100_000, packets);
        c.w.packets - 1000
    });
    assert!(grown.iter().all(|g| (15..=16).contains(g)), "{grown:?}");
}
