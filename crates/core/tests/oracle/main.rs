//! Each congestion control compared with its law in floating point, over the whole range of its inputs.
//!
//! The references are written from the RFCs and papers, and share nothing with `bpf/cc`. The largest error
//! of each is published in `docs/measured/congestion-controls-oracle.md`;
//! `TCPILOT_RENEW=1 cargo test -p tcpilot-core --test oracle` renews it.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "every call is of a pure function with pointers to live values"
)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "the papers' formulas, in floating point"
)]

mod coupled;
mod delay;
mod ecn;
mod loss;
mod model;
mod table;

use proptest::prelude::*;
use tcpilot_core::cc::{TP_SSTHRESH_MAX, tp_ack, tp_cwnd};

/// A connection: its window, the packets of each acknowledgement, and its RTT.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    window: u32,
    acked: u32,
    rtt_us: u32,
}

impl Point {
    fn rtt_s(self) -> f64 {
        f64::from(self.rtt_us) / 1e6
    }
}

/// Windows 2 to 100,000, 1 to 64 packets per acknowledgement, RTTs of 50 us to 600 ms.
fn grid() -> Vec<Point> {
    let mut points = vec![];
    for window in [
        2, 5, 14, 15, 38, 39, 100, 300, 1000, 4150, 10_000, 30_000, 100_000,
    ] {
        for acked in [1, 2, 22, 44, 64] {
            for rtt_us in [50, 1000, 10_000, 25_000, 28_000, 100_000, 600_000] {
                if acked <= window {
                    points.push(Point {
                        window,
                        acked,
                        rtt_us,
                    });
                }
            }
        }
    }
    points
}

fn window(packets: u32) -> tp_cwnd {
    tp_cwnd {
        packets,
        credit: 0,
        ssthresh: 2,
        clamp: u32::MAX,
    }
}

/// A run ends after so many acknowledgements, or so many gained packets.
const ACKS: u32 = 20_000;
const GAINED: f64 = 40.0;

/// Runs an algorithm and its law side by side; the law is in packets per round, at a window and a time in
/// seconds. Returns their difference beyond a packet of rounding, as a share of the law's gain.
fn growth(
    p: Point,
    mut ours: impl FnMut(&mut tp_cwnd, &tp_ack),
    mut law: impl FnMut(f64, f64) -> f64,
) -> f64 {
    let (mut w, mut exact, mut seconds) = (window(p.window), f64::from(p.window), 0.0);
    let start_us = 1_000_000_000;
    let mut una = 0u32;
    for _ in 0..ACKS {
        una = una.wrapping_add(p.acked);
        let ack = tp_ack {
            now_us: start_us + (seconds * 1e6) as u64,
            acked: p.acked,
            una,
            nxt: una.wrapping_add(w.packets),
            srtt_us: p.rtt_us,
            min_rtt_us: p.rtt_us,
        };
        ours(&mut w, &ack);
        exact += f64::from(p.acked) * law(exact, seconds) / exact;
        seconds += p.rtt_s() * f64::from(p.acked) / exact;
        if (exact - f64::from(p.window)).abs() > GAINED.max(f64::from(p.window) / 20.0) {
            break;
        }
    }
    let gained = (exact - f64::from(p.window)).abs().max(1.0);
    ((f64::from(w.packets) - exact).abs() - 1.0).max(0.0) / gained
}

/// Compares the growth of an algorithm in many acknowledgements at one window with its law in packets per
/// round.
fn rate(p: Point, mut ours: impl FnMut(&mut tp_cwnd, &tp_ack), law: f64) -> f64 {
    let (mut w, mut gained) = (window(p.window), 0);
    let acks = 2000;
    for _ in 0..acks {
        let ack = tp_ack {
            acked: p.acked,
            srtt_us: p.rtt_us,
            min_rtt_us: p.rtt_us,
            ..Default::default()
        };
        ours(&mut w, &ack);
        gained += w.packets - p.window;
        w.packets = p.window;
    }
    let exact = f64::from(acks) * f64::from(p.acked) * law / f64::from(p.window);
    ((f64::from(gained) - exact).abs() - 1.0).max(0.0) / exact.max(1.0)
}

/// Slow start: compares the growth by one acknowledgement with the law.
fn first_step(p: Point, ours: impl FnOnce(&mut tp_cwnd, &tp_ack), law: f64) -> f64 {
    let mut w = tp_cwnd {
        ssthresh: TP_SSTHRESH_MAX,
        ..window(p.window)
    };
    let ack = tp_ack {
        now_us: 1_000_000_000,
        acked: p.acked,
        una: 0,
        nxt: 1,
        srtt_us: p.rtt_us,
        min_rtt_us: p.rtt_us,
    };
    ours(&mut w, &ack);
    ((f64::from(w.packets - p.window) - law).abs() - 1.0).max(0.0) / law.max(1.0)
}

/// An algorithm and a part of its law.
pub struct Law {
    name: &'static str,
    source: &'static str,
    what: &'static str,
    /// The relative error at a point, beyond a packet of rounding.
    error: fn(Point) -> f64,
    /// A larger error is a fault.
    bound: f64,
}

impl Law {
    const fn new(
        name: &'static str,
        source: &'static str,
        what: &'static str,
        error: fn(Point) -> f64,
        bound: f64,
    ) -> Law {
        Law {
            name,
            source,
            what,
            error,
            bound,
        }
    }
}

fn laws() -> Vec<Law> {
    let mut all = loss::laws();
    all.extend(delay::laws());
    all.extend(ecn::laws());
    all.extend(model::laws());
    all.extend(coupled::laws());
    all
}

#[test]
fn every_algorithm_matches_its_law_over_full_range() {
    let points = grid();
    let laws = laws();
    let rows: Vec<table::Row> = laws
        .iter()
        .map(|law| {
            let (error, at) = points
                .iter()
                .map(|p| ((law.error)(*p), *p))
                .fold((-1.0, points[0]), |a, b| if b.0 > a.0 { b } else { a });
            table::Row { law, error, at }
        })
        .collect();
    let over: Vec<String> = rows
        .iter()
        .filter(|row| row.error > row.law.bound)
        .map(|row| {
            format!(
                "{} {}: {} at {:?}",
                row.law.name, row.law.what, row.error, row.at
            )
        })
        .collect();
    assert!(over.is_empty(), "{over:#?}");
    table::compare(&rows);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// The same at random points between those of the table.
    #[test]
    fn and_at_points_of_chance(
        exponent in 0.31f64..5.0, acked in 1u32..=64, rtt_exponent in 1.7f64..5.77,
    ) {
        let window = 10f64.powf(exponent) as u32;
        let p = Point {
            window,
            acked: acked.min(window),
            rtt_us: 10f64.powf(rtt_exponent) as u32,
        };
        for law in laws() {
            let error = (law.error)(p);
            prop_assert!(error <= law.bound, "{} {}: {error} at {p:?}", law.name, law.what);
        }
    }
}
