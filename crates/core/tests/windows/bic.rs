//! Xu, Harfoush, Rhee 2004.

use tcpilot_core::{
    cc::{self, tp_bic},
    windows::{self, LOSS},
};

type Connection = windows::Connection<tp_bic>;

fn bic_per(max: u32, packets: u32) -> u32 {
    // SAFETY: a pure function, and a pointer to a live value.
    unsafe { cc::bic_per(&tp_bic { max, ratio: 256 }, packets) }
}

/// One after a loss at this window, whose receiver acknowledges each packet.
fn after_loss(window: u32) -> Connection {
    let mut c = Connection::new(window);
    (0..100).for_each(|_| c.sample(-1, 1));
    c.lose();
    c
}

#[test]
fn a_loss_leaves_four_fifths_and_in_small_windows_a_half() {
    let left = [1000, 15, 14, 2].map(|w| Connection::new(w).threshold());
    assert_eq!(left, [1000 * 819 / 1024, 11, 7, 2]);
}

#[test]
fn growth_is_multiplied_by_the_packets_of_an_acknowledgement() {
    let grown = |packets: u32| {
        let mut c = after_loss(1000);
        (0..100).for_each(|_| c.sample(-1, packets));
        let before = c.w.packets;
        for _ in 0..before / packets {
            c.sample(-1, packets);
            c.acknowledge(packets);
        }
        c.w.packets - before
    };
    let grown = [1, 2, 4].map(grown);
    assert!((15..=17).contains(&grown[0]), "{grown:?}");
    assert!(
        (30..=35).contains(&grown[1]) && (60..=75).contains(&grown[2]),
        "{grown:?}"
    );
}

#[test]
fn up_to_14_packets_it_is_reno() {
    let mut c = Connection::new(13);
    (0..100).for_each(|_| c.sample(-1, 1));
    c.round(40_000);
    assert_eq!((c.w.packets, bic_per(100, 14)), (14, 14));
}

#[test]
fn far_from_the_maximum_a_round_adds_smax() {
    let mut c = after_loss(1000);
    c.round(40_000);
    assert!((799 + 15..=799 + 17).contains(&c.w.packets), "{:?}", c.w);
}

/// The search: steps of a quarter of the rest, so the distance shrinks to three quarters a round.
#[test]
fn near_the_maximum_each_round_goes_a_quarter_of_the_way() {
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
fn the_last_four_packets_before_the_maximum_take_twenty_rounds_and_so_do_the_next() {
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
fn beyond_the_maximum_steps_grow_again_up_to_smax() {
    let steps: Vec<u32> = [1004, 1016, 1030, 1047, 1100]
        .map(|w| w / bic_per(1000, w))
        .to_vec();
    assert_eq!(steps, [1, 5, 10, 15, 16]);
}

#[test]
fn a_window_never_grows_faster_than_smax_once_a_maximum_is_known() {
    for max in [15, 100, 5000] {
        for w in 15..6000 {
            // rounded down: the step is at most a packet more where the window is small
            assert!(bic_per(max, w) >= w / 16, "{max} {w}");
        }
    }
}

#[test]
fn who_loses_before_the_last_maximum_makes_room() {
    let mut c = after_loss(1000);
    c.w.packets = 900;
    c.threshold();
    // the new maximum is (1 + 819/1024) / 2 of 900, 809: steps are tiny there, and not at 900
    assert_eq!((bic_per(809, 808), bic_per(809, 900)), (808 * 5, 900 / 16));
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
    // 5 % a round where no maximum is known, at most Smax more than once
    assert!(
        c.w.packets - before >= before / 20,
        "{before} {}",
        c.w.packets
    );
}
