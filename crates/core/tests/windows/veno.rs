//! Fu, Liew 2003.

use tcpilot_core::{
    cc::tp_veno,
    windows::{self},
};

type Connection = windows::Connection<tp_veno>;

/// A connection with so many waiting packets in its last round.
fn after(window: u32, waiting: u32) -> Connection {
    let mut c = Connection::new(window);
    c.sample(39_999, 1);
    c.ack.srtt_us = 40_000 * window / (window - waiting) + 1;
    c.acknowledge(1);
    c
}

#[test]
fn loss_costs_a_fifth_below_beta_then_half() {
    let thresholds: Vec<u32> = (0..6).map(|n| after(100, n).threshold()).collect();
    assert_eq!(thresholds, [80, 80, 80, 50, 50, 50]);
}

#[test]
fn queued_flow_grows_one_packet_per_two_rounds() {
    for (waiting, windows) in [(0, [101, 102, 103, 104]), (10, [100, 101, 101, 102])] {
        let mut c = after(100, waiting);
        let rtt_us = c.ack.srtt_us;
        let grown = [(); 4].map(|()| {
            c.round(rtt_us);
            c.w.packets
        });
        assert_eq!(grown, windows, "{waiting}");
    }
}

#[test]
fn the_smallest_window_is_two() {
    assert_eq!(after(2, 0).threshold(), 2);
}
