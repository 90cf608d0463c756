//! RFC 3649.

use super::near;
use tcpilot_core::{
    cc::{self, tp_hstcp},
    windows::{self},
};

type Connection = windows::Connection<tp_hstcp>;

fn hstcp_a(packets: u32) -> u32 {
    // SAFETY: a pure function of numbers.
    unsafe { cc::hstcp_a(packets) }
}

/// b(w), section 5: from 0.5 at 38 packets to 0.1 at 83000, by the logarithm.
fn rfc_b(w: f64) -> f64 {
    (0.1 - 0.5) * (w.ln() - 38f64.ln()) / (83000f64.ln() - 38f64.ln()) + 0.5
}

/// a(w), appendix B, with the p(w) of its program.
fn rfc_a(w: f64) -> f64 {
    w.powi(2) * 2.0 * rfc_b(w) / ((2.0 - rfc_b(w)) * w.powf(1.2) * 12.8)
}

/// The table of appendix B, by the program printed there: (w, b(w)).
fn rfc_table() -> Vec<(u32, f64)> {
    let (mut rows, mut last_a) = (vec![(38, 0.5)], 1.0);
    for w in 38..100_000 {
        let a = rfc_a(f64::from(w));
        if a > last_a + 1.0 {
            rows.push((w, (rfc_b(f64::from(w)) * 100.0).round() / 100.0));
            last_a = a;
        }
    }
    rows
}

/// After a loss in congestion avoidance.
fn ssthresh(packets: u32) -> u32 {
    let mut c = Connection::new(packets);
    c.acknowledge(1);
    c.w.packets = packets;
    c.threshold()
}

#[test]
fn a_and_b_match_every_rfc_table_row() {
    let rows = rfc_table();
    assert_eq!(
        (rows.len(), rows[1], rows[72]),
        (73, (118, 0.44), (94717, 0.09))
    );
    for (n, (w, b)) in (1..).zip(rows) {
        assert_eq!((hstcp_a(w), hstcp_a(w + 1)), (n, 73.min(n + 1)), "w = {w}");
        assert_eq!(ssthresh(w), w - (f64::from(w) * b + 1e-6) as u32, "w = {w}");
    }
}

#[test]
fn up_to_38_packets_it_is_reno() {
    for packets in [4, 10, 38] {
        let mut c = Connection::new(packets);
        assert_eq!((hstcp_a(packets), c.threshold()), (1, packets / 2));
        c.round(40_000);
        assert_eq!(c.w.packets, packets + 1);
    }
}

#[test]
fn a_round_adds_a_packets() {
    let mut c = Connection::new(10_000);
    c.round(40_000);
    assert!((10_029..=10_030).contains(&c.w.packets), "{:?}", c.w); // a(9991 < w <= 10661) = 30
}

#[test]
fn growth_is_independent_of_packets_per_ack() {
    let grown = [1, 2, 22, 44].map(|packets| {
        let mut c = Connection::new(1000);
        c.round_by(40_000, packets);
        c.w.packets - 1000
    });
    assert!(grown.iter().all(|g| (7..=8).contains(g)), "{grown:?}"); // a(851 < w <= 1058) = 8
}

#[test]
fn a_loss_that_ends_slow_start_takes_half() {
    assert_eq!(Connection::new(10_000).threshold(), 5000);
}

#[test]
fn the_smallest_window_is_two() {
    assert_eq!((ssthresh(1), ssthresh(2), ssthresh(3)), (2, 2, 2));
}

/// The mean window over time, with a loss every so many packets.
fn mean_window(packets_per_loss: u32, start: u32) -> f64 {
    let mut c = Connection::new(start);
    let (mut packets, mut rounds) = (0.0, 0.0);
    for loss in 0..16 {
        for _ in 0..packets_per_loss {
            c.acknowledge(1);
            if loss >= 8 {
                packets += 1.0;
                rounds += 1.0 / f64::from(c.w.packets);
            }
        }
        c.lose();
    }
    packets / rounds
}

/// Section 5, table 2.
#[test]
fn the_response_function_is_the_rfcs() {
    for (packets_per_loss, window) in [(10_000, 263), (100_000, 1795), (1_000_000, 12279)] {
        let mean = mean_window(packets_per_loss, window);
        assert!(
            near(mean, f64::from(window), 0.2),
            "{packets_per_loss}: {mean} {window}"
        );
    }
    // the rounding up of a(w) shows most at the step above Reno's 1: 61 packets instead of 38
    assert!((38.0..65.0).contains(&mean_window(1000, 38)));
}
