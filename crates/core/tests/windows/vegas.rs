//! Brakmo, Peterson 1995.

use tcpilot_core::{
    cc::{self, tp_vegas},
    windows::{self, NO_SSTHRESH, RECOVERY},
};

type Connection = windows::Connection<tp_vegas>;

fn queued(packets: u32, rtt_us: u32, base_us: u32) -> u32 {
    // SAFETY: a pure function of numbers.
    unsafe { cc::tp_queued(packets, rtt_us, base_us) }
}

const BASE_US: u32 = 40_000;

/// The RTT at which so many packets of this window wait.
fn rtt_us(window: u32, waiting: u32) -> u32 {
    BASE_US * window / (window - waiting) + 1
}

/// A connection after a sample of its path without a queue.
fn connection(window: u32) -> Connection {
    let mut c = Connection::new(window);
    c.round(BASE_US - 1);
    c.w.packets = window;
    c
}

/// The window after rounds with so many waiting packets each.
fn after(window: u32, waiting: u32) -> u32 {
    let mut c = connection(window);
    c.round(rtt_us(window, waiting)); // its first packet ends the round before
    c.w.packets = window;
    c.round(rtt_us(window, waiting));
    c.w.packets
}

#[test]
fn queue_is_rate_difference_times_base_rtt() {
    // the paper, section III.B: (cwnd / base - cwnd / rtt) * base
    assert_eq!(queued(100, 50_000, 40_000), 20);
    assert_eq!(queued(100, 40_000, 40_000), 0);
    assert_eq!(queued(100, 39_000, 40_000), 0);
    assert_eq!(queued(100, 0, 40_000), 0);
    assert_eq!(queued(u32::MAX, u32::MAX - 1, 1), u32::MAX - 2); // no overflow
}

#[test]
fn between_alpha_and_beta_the_window_stays() {
    let windows: Vec<u32> = (0..8).map(|waiting| after(60, waiting)).collect();
    assert_eq!(windows, [61, 61, 60, 60, 60, 59, 59, 59]);
}

#[test]
fn lone_flow_queues_two_to_four_packets() {
    for (bdp, start) in [(50, 20), (50, 90), (200, 100)] {
        let mut c = connection(start);
        for _ in 0..200 {
            c.round(BASE_US.max(BASE_US * c.w.packets / bdp));
        }
        assert!(
            (bdp + 2..=bdp + 5).contains(&c.w.packets),
            "{bdp}: {}",
            c.w.packets
        );
    }
}

#[test]
fn slow_start_doubles_every_other_round() {
    let mut c = Connection::new(10);
    c.w.ssthresh = NO_SSTHRESH;
    let windows = [(); 4].map(|()| {
        c.round(BASE_US);
        c.w.packets
    });
    // the first packet of a round ends the one before: a packet or two of each belong to the other
    assert_eq!((windows[0], windows[1]), (20, 20));
    assert!(windows[2] >= 38 && windows[3] <= 40, "{windows:?}");
}

#[test]
fn slow_start_ends_at_path_capacity() {
    let mut c = connection(60);
    c.w.ssthresh = NO_SSTHRESH;
    for _ in 0..3 {
        c.round(rtt_us(60, 10));
    }
    assert!(
        c.w.packets >= c.w.ssthresh && c.w.packets < 120,
        "{:?}",
        c.w
    );
}

#[test]
fn while_loss_is_repaired_it_is_reno() {
    let mut c = connection(60);
    assert_eq!(c.threshold(), 30);
    c.enter(RECOVERY);
    for window in [61, 62] {
        c.round(rtt_us(60, 30));
        assert_eq!(c.w.packets, window);
    }
}

#[test]
fn rounds_of_few_samples_are_not_judged() {
    let mut c = connection(2);
    for _ in 0..4 {
        c.round(10 * BASE_US); // delayed acknowledgements
    }
    assert!(c.w.packets > 2);
}
