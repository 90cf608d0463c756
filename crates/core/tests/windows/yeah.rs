//! Baiocchi, Castellani, Vacirca 2007.

use tcpilot_core::{
    cc::tp_yeah,
    windows::{self},
};

type Connection = windows::Connection<tp_yeah>;

const BASE_MS: u32 = 100;

/// After so many rounds with so long an RTT, from this window.
fn after(window: u32, rtt_ms: u32, rounds: u32) -> Connection {
    let mut c = Connection::new(window);
    c.round(BASE_MS * 1000);
    c.w.packets = window;
    for _ in 0..rounds {
        c.round(rtt_ms * 1000);
    }
    c
}

#[test]
fn empty_queue_adds_a_hundredth_of_acked_packets() {
    let mut c = after(1000, BASE_MS, 0);
    for _ in 0..1000 {
        c.acknowledge(1);
    }
    assert_eq!(c.w.packets, 1010);
}

#[test]
fn small_windows_grow_as_renos() {
    assert_eq!(after(50, BASE_MS, 1).w.packets, 51);
}

#[test]
fn queue_of_an_eighth_rtt_slows_growth() {
    let grown = |rtt_ms| {
        let mut c = after(500, rtt_ms, 2);
        let before = c.w.packets;
        c.round(rtt_ms * 1000);
        c.w.packets - before
    };
    assert!(
        grown(BASE_MS * 9 / 8 - 1) >= 5,
        "{}",
        grown(BASE_MS * 9 / 8 - 1)
    );
    assert_eq!(grown(BASE_MS * 9 / 8 + 2), 1);
}

#[test]
fn queue_above_80_packets_is_drained() {
    // 100 of 1000 packets wait; the packet that ends the second round takes them out
    let mut c = after(1000, 112, 1);
    let before = c.w.packets;
    c.round(112_000);
    let queue = before * 12 / 112;
    assert!(
        queue > 80 && c.w.packets.abs_diff(before - queue) <= 10,
        "{before} {}",
        c.w.packets
    );
}

#[test]
fn a_queue_of_fewer_stays() {
    assert!(after(500, 110, 4).w.packets >= 500);
}

#[test]
fn it_never_goes_below_what_reno_would_have() {
    let mut windows = vec![];
    let mut c = after(1000, 300, 0);
    for _ in 0..60 {
        c.round(300_000); // another flow's standing queue
        windows.push(c.w.packets);
    }
    // half of the congested window, and from then on a packet a round
    let floor = *windows.iter().min().unwrap();
    assert!((240..=270).contains(&floor), "{windows:?}");
    assert!(
        (floor + 50..=floor + 60).contains(&windows[59]),
        "{windows:?}"
    );
}

#[test]
fn loss_removes_queue_at_least_an_eighth() {
    assert_eq!(after(80, BASE_MS, 2).threshold(), 82 - 82 / 8);
    let mut c = after(200, 140, 2); // 57 of 200 wait
    let left = c.threshold();
    assert!(
        (c.w.packets - left).abs_diff(57) <= 1,
        "{} {left}",
        c.w.packets
    );
}

#[test]
fn loss_takes_half_against_greedy_flows() {
    let mut c = after(200, 114, 18); // slow for more than 16 rounds, with 24 packets of its own
    let half = c.w.packets / 2;
    assert_eq!(c.threshold(), c.w.packets - half);
}
