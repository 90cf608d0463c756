//! What is left of a large window's growth is worth a packet at most in a small one. Found by `make prove`.
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "every call is of a pure function with pointers to live values"
)]

use tcpilot_core::cc::*;

/// A window after two time-outs, in congestion avoidance.
fn small() -> tp_cwnd {
    tp_cwnd {
        packets: 2,
        credit: 0,
        ssthresh: 2,
        clamp: u32::MAX,
    }
}

fn ack() -> tp_ack {
    tp_ack {
        acked: 1,
        srtt_us: 100_000,
        min_rtt_us: 100_000,
        ..Default::default()
    }
}

/// The largest rest that a window of 10,000 packets leaves, in parts of a packet.
fn rest(parts: u64) -> u64 {
    10_000 * parts - 1
}

#[test]
fn htcp_forgets_a_large_windows_rest() {
    let mut h = tp_htcp {
        alpha: 128,
        beta: 64,
        rest: rest(128),
        ..Default::default()
    };
    let mut w = small();
    unsafe { htcp_grow(&mut h, &mut w, &ack()) };
    assert!(w.packets <= 4, "{} packets", w.packets);
}

#[test]
fn hybla_forgets_a_large_windows_rest() {
    let mut s = tp_hybla {
        rtt_us: 50_000,
        saved: rest(128 * 128),
        ..Default::default()
    };
    let mut w = small();
    unsafe { hybla_grow(&mut s, &mut w, &ack()) };
    assert!(w.packets <= 5, "{} packets", w.packets);
}

#[test]
fn prague_forgets_a_large_windows_rest() {
    let mut p = tp_prague {
        rest: rest(1 << 32),
        ..Default::default()
    };
    let mut w = small();
    unsafe { prague_grow(&mut p, &mut w, &ack(), 0) };
    assert!(w.packets <= 4, "{} packets", w.packets);
}

/// The kernel keeps snd_cwnd_cnt when a connection's algorithm changes, here from bic's parts to packets.
#[test]
fn another_algorithms_credit_is_one_packet() {
    let mut w = tp_cwnd {
        packets: 30,
        credit: 30 * 1024 - 1,
        ..small()
    };
    unsafe { hstcp_grow(&mut tp_hstcp::default(), &mut w, &ack()) };
    assert!(w.packets <= 31, "{} packets", w.packets);
}
