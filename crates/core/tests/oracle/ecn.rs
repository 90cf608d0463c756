//! Congestion controls that react to the fraction of marks: RFC 8257, and Prague's draft.

use tcpilot_core::cc::*;

use super::{Law, Point, growth, window};

/// alpha = (1 - g) alpha + g F, and cwnd (1 - alpha / 2), for 200 rounds: 50 without marks, as when the
/// application is the limit, then two marks a round (the equilibrium), an eighth, and all.
fn dctcp(p: Point) -> f64 {
    let mut e = tp_ecn {
        alpha: 1 << TP_ALPHA_SHIFT,
        ..Default::default()
    };
    let (mut alpha, mut delivered, mut marked) = (1.0, 0u32, 0u32);
    let (mut exact, mut ours) = (f64::from(p.window), p.window);
    let mut worst: f64 = 0.0;
    for round in 1..=200u32 {
        let marks = match round / 50 {
            0 => 0,
            1 => p.window.min(2),
            2 => p.window / 8,
            _ => p.window,
        };
        delivered = delivered.wrapping_add(p.window);
        marked = marked.wrapping_add(marks);
        unsafe { tp_ecn_update(&mut e, delivered, marked, round, round, 4) };
        alpha = alpha * 15.0 / 16.0 + f64::from(marks) / f64::from(p.window) / 16.0;
        if marks > 0 {
            let before = exact;
            exact = (exact * (1.0 - alpha / 2.0)).max(2.0);
            ours = unsafe { tp_ecn_threshold(&mut e, ours) };
            worst = worst.max(((f64::from(ours) - exact).abs() - 1.0).max(0.0) / before);
            // back to the start, so that each round is a test of its own
            if round % 10 == 0 {
                (exact, ours) = (f64::from(p.window), p.window);
                e.cut_rest = 0;
            }
        }
    }
    worst
}

/// draft-briscoe-iccrg-prague-congestion-control-04, 2.4.3 and 2.4.4.
fn prague(p: Point, rounds: u16, law: f64) -> f64 {
    let mut s = tp_prague {
        rounds,
        ..Default::default()
    };
    // the step grows the window by one in so many acknowledgements: hand these over at once
    growth(
        p,
        |w, a| unsafe { prague_increase(&mut s, w, a.acked, a.srtt_us) },
        |_, _| law,
    )
}

fn prague_first(p: Point) -> f64 {
    prague(p, 0, 1.0)
}

/// After 500 rounds: (RTT / 25 ms)^2 packets per round.  Slow growth is compared in parts of a packet.
fn prague_later(p: Point) -> f64 {
    let law = (p.rtt_s() / 0.025).min(1.0).powi(2);
    let mut s = tp_prague {
        rounds: PRAGUE_ROUNDS as u16,
        ..Default::default()
    };
    let mut w = window(p.window);
    let acks = 1000u32;
    for _ in 0..acks {
        unsafe { prague_increase(&mut s, &mut w, p.acked, p.rtt_us) };
        if w.packets > p.window {
            return prague(p, PRAGUE_ROUNDS as u16, law);
        }
    }
    let parts = s.rest as f64 / 2f64.powi(PRAGUE_PART_SHIFT as i32) / f64::from(p.window);
    let exact = f64::from(acks) * f64::from(p.acked) * law / f64::from(p.window);
    (parts - exact).abs() / exact
}

pub fn laws() -> Vec<Law> {
    vec![
        Law::new(
            "dctcp, prague",
            "RFC 8257, 3.3",
            "decrease by marks",
            dctcp,
            0.05,
        ),
        Law::new(
            "prague",
            "draft-briscoe-iccrg-prague-04, 2.4.3",
            "growth, first 500 rounds",
            prague_first,
            0.03,
        ),
        Law::new(
            "prague",
            "draft-briscoe-iccrg-prague-04, 2.4.4",
            "growth afterwards",
            prague_later,
            0.05,
        ),
    ]
}
