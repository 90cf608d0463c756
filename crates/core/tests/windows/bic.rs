//! Xu, Harfoush, Rhee 2004.

use tcpilot_core::{
    cc::{self, tp_bic},
    windows::{self, LOSS},
};

type Connection = windows::Connection<tp_bic>;

/// Packets added by a round.
fn bic_step(max: u32, packets: u32) -> f64 {
    // SAFETY: a pure function, and a pointer to a live value.
    unsafe { cc::bic_step(&tp_bic { max }, packets) as f64 / f64::from(cc::BIC_PARTS) }
}

/// A connection after a loss at this window.
fn after_loss(window: u32) -> Connection {
    let mut c = Connection::new(window);
    c.lose();
    c
}

#[test]
fn loss_keeps_four_fifths_half_in_small_windows() {
    let left = [1000, 15, 14, 2].map(|w| Connection::new(w).threshold());
    assert_eq!(left, [1000 * 819 / 1024, 11, 7, 2]);
}

/// The kernel's module multiplies growth by the packets of an acknowledgement: by 44 behind offloads.
#[test]
fn growth_is_independent_of_packets_per_ack() {
    let grown = |packets: u32| {
        let mut c = after_loss(1000);
        let before = c.w.packets;
        c.round_by(40_000, packets);
        c.w.packets - before
    };
    let grown = [1, 2, 22, 44].map(grown);
    assert!(grown.iter().all(|g| (15..=16).contains(g)), "{grown:?}");
}

#[test]
fn up_to_14_packets_it_is_reno() {
    let mut c = Connection::new(13);
    c.round(40_000);
    assert_eq!(c.w.packets, 14);
    assert!((bic_step(100, 14) - 1.0).abs() < 1e-9);
}

#[test]
fn far_from_the_maximum_a_round_adds_smax() {
    let mut c = after_loss(1000);
    c.round(40_000);
    assert!((799 + 15..=799 + 17).contains(&c.w.packets), "{:?}", c.w);
}

/// The search: steps of a quarter of the rest, so the distance shrinks to three quarters per round.
#[test]
fn near_maximum_each_round_closes_a_quarter() {
    let mut c = after_loss(1000);
    c.w.packets = 960;
    let mut rest = 40.0f64;
    while rest > 10.0 {
        c.round(40_000);
        rest *= 0.75;
        let ours = f64::from(1000 - c.w.packets);
        assert!((ours - rest).abs() <= 5.0, "{ours} {rest}");
    }
}

#[test]
fn four_packets_around_maximum_take_20_rounds() {
    for start in [996, 1000] {
        let mut c = after_loss(1000);
        c.w.packets = start;
        for _ in 0..20 {
            c.round(40_000);
        }
        assert!(
            c.w.packets.abs_diff(start + 4) <= 1,
            "{start}: {}",
            c.w.packets
        );
    }
}

#[test]
fn beyond_maximum_steps_grow_up_to_smax() {
    let steps = [1004, 1016, 1030, 1047, 1100].map(|w| bic_step(1000, w));
    for (ours, law) in steps
        .iter()
        .zip([4.0 / 3.0, 16.0 / 3.0, 10.0, 47.0 / 3.0, 16.0])
    {
        assert!((ours - law).abs() < 0.01, "{steps:?}");
    }
}

#[test]
fn growth_never_exceeds_smax_with_known_maximum() {
    for max in [15, 100, 5000] {
        for w in 15..6000 {
            assert!(bic_step(max, w) <= 16.0, "{max} {w}");
        }
    }
}

#[test]
fn loss_below_last_maximum_lowers_new_maximum() {
    let mut c = after_loss(1000);
    c.w.packets = 900;
    c.threshold();
    // the new maximum is (1 + 819/1024) / 2 of 900, 809: steps are tiny there, and not at 900
    assert!(bic_step(809, 808) < 0.21 && bic_step(809, 900) > 15.9);
    c.w.packets = 808;
    c.w.ssthresh = 2;
    c.round(40_000);
    assert!(c.w.packets <= 809, "{:?}", c.w);
}

#[test]
fn after_a_time_out_the_search_starts_again() {
    let mut c = after_loss(1000);
    c.enter(LOSS);
    let before = c.w.packets;
    c.round(40_000);
    // 5 % per round if no maximum is known, at most Smax more than once
    assert!(
        c.w.packets - before >= before / 20,
        "{before} {}",
        c.w.packets
    );
}
