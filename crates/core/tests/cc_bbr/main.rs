//! BBR, both versions: a bottleneck in a few lines, and the model expected of it.
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "every call is of a pure function with pointers to live values"
)]

mod version3;

use proptest::prelude::*;
use tcpilot_core::cc::*;

const MSS: u32 = 1448;

/// A connection delivering `packets` in each round of `rtt_us`.
struct Path {
    conn: tp_bbr_conn,
    rtt_us: u32,
}

impl Path {
    fn new(rtt_us: u32) -> Path {
        let conn = tp_bbr_conn {
            now_us: 1_000_000_000,
            mss: MSS,
            clamp: u32::MAX,
            cwnd: 10,
            ssthresh: TP_SSTHRESH_MAX,
            srtt_us: rtt_us,
            pacing_shift: 10,
            random: 3,
            cwnd_limited: 1,
            ..Default::default()
        };
        Path { conn, rtt_us }
    }

    /// One acknowledgement for a whole round.
    fn round(&mut self, packets: u32, losses: u32, mut ack: impl FnMut(&mut tp_bbr_conn)) {
        let c = &mut self.conn;
        c.now_us += u64::from(self.rtt_us);
        c.prior_delivered = c.delivered;
        c.delivered += packets;
        c.lost += losses;
        c.losses = losses;
        (c.acked, c.sample_delivered) = (packets, packets as i32);
        (c.prior_in_flight, c.in_flight) = (packets, packets);
        (c.rtt_us, c.interval_us) = (self.rtt_us as i32, i64::from(self.rtt_us));
        ack(c);
    }
}

fn bbr(path: &mut Path) -> tp_bbr {
    let mut b = tp_bbr::default();
    unsafe { bbr_start(&mut b, &mut path.conn, path.rtt_us) };
    b
}

/// Mbit/s of a pacing rate in bytes per second.
fn mbit(rate: u64) -> f64 {
    rate as f64 * 8.0 / 1e6
}

/// draft-cardwell-iccrg-bbr-congestion-control-00, section 4.3.2: gain 2/ln 2, three rounds without
/// a quarter more, then the inverse gain.
#[test]
fn startup_ends_after_three_flat_rounds_then_drain() {
    let mut path = Path::new(40_000);
    let mut b = bbr(&mut path);
    assert_eq!(unsafe { bbr_pacing_gain(&b) }, 739, "2.885 * 256");
    let mut modes = Vec::new();
    for packets in [10, 20, 40, 33, 33, 33, 33] {
        path.round(packets, 0, |c| unsafe { bbr_ack(&mut b, c) });
        modes.push(u32::from(b.mode));
    }
    assert_eq!(modes[..5], [BBR_STARTUP; 5]);
    assert_eq!(b.full(), 1);
    assert!(
        modes[6] == BBR_PROBE_BW || modes[6] == BBR_DRAIN,
        "{modes:?}"
    );
}

/// Once the pipe is known: pacing at the bandwidth less 1 %, a window of two BDPs and bursts.
#[test]
fn probe_bw_paces_at_bandwidth_with_two_bdps() {
    let mut path = Path::new(40_000);
    let mut b = bbr(&mut path);
    for _ in 0..40 {
        path.round(40, 0, |c| unsafe { bbr_ack(&mut b, c) });
    }
    assert_eq!(u32::from(b.mode), BBR_PROBE_BW);
    let gain = f64::from(unsafe { bbr_pacing_gain(&b) }) / 256.0;
    let rate = 40.0 * f64::from(MSS) * 8.0 / 0.04 / 1e6;
    let paced = mbit(path.conn.pacing_rate);
    assert!(
        (paced / (rate * gain * 0.99) - 1.0).abs() < 0.01,
        "{paced} of {rate} at {gain}"
    );
    // and extra room for one acknowledgement of a whole round
    assert!((80..=136).contains(&path.conn.cwnd), "{}", path.conn.cwnd);
}

#[test]
fn the_gain_cycle_has_each_phase_once() {
    let mut path = Path::new(40_000);
    let mut b = bbr(&mut path);
    for _ in 0..40 {
        path.round(40, 0, |c| unsafe { bbr_ack(&mut b, c) });
    }
    let mut seen = std::collections::BTreeMap::new();
    for _ in 0..160 {
        // more in flight than the gain asks for: probing may end
        path.rtt_us = 40_100;
        path.round(60, 0, |c| {
            c.sample_delivered = 40;
            unsafe { bbr_ack(&mut b, c) }
        });
        *seen.entry(unsafe { bbr_pacing_gain(&b) }).or_insert(0) += 1;
    }
    assert!(
        seen[&320] > 5 && seen[&192] > 5 && seen[&256] > 60,
        "{seen:?}"
    );
}

/// Section 4.3.4: four packets for 200 ms when the least RTT is ten seconds old; the window returns.
#[test]
fn probe_rtt_after_ten_seconds_restores_window() {
    let mut path = Path::new(40_000);
    let mut b = bbr(&mut path);
    for _ in 0..40 {
        path.round(40, 0, |c| unsafe { bbr_ack(&mut b, c) });
    }
    let before = path.conn.cwnd;
    path.rtt_us = 41_000; // never as low again
    let mut least = u32::MAX;
    let mut rounds = 0;
    while u32::from(b.mode) != BBR_PROBE_RTT {
        path.round(40, 0, |c| unsafe { bbr_ack(&mut b, c) });
        rounds += 1;
        assert!(rounds < 300);
    }
    // 10 s from the first sample: 40 rounds of 40 ms, and then of 41 ms
    assert!((200..=210).contains(&rounds), "{rounds}");
    while u32::from(b.mode) == BBR_PROBE_RTT {
        path.round(4, 0, |c| unsafe { bbr_ack(&mut b, c) });
        least = least.min(path.conn.cwnd);
    }
    assert_eq!(least, 4);
    assert!(
        path.conn.cwnd.abs_diff(before) <= 6,
        "{} {before}",
        path.conn.cwnd
    );
    let bw = unsafe { tp_max_value(&b.bw) };
    assert!(
        bw > 10_000,
        "what was sent meanwhile does not lower the estimate: {bw}"
    );
}

/// Application-limited samples count only when they are higher.
#[test]
fn an_idle_application_does_not_lower_the_estimate() {
    let mut path = Path::new(40_000);
    let mut b = bbr(&mut path);
    for _ in 0..20 {
        path.round(40, 0, |c| unsafe { bbr_ack(&mut b, c) });
    }
    let bw = unsafe { tp_max_value(&b.bw) };
    path.conn.app_limited = 1;
    for _ in 0..30 {
        path.round(5, 0, |c| unsafe { bbr_ack(&mut b, c) });
    }
    assert_eq!(unsafe { tp_max_value(&b.bw) }, bw);
    path.round(80, 0, |c| unsafe { bbr_ack(&mut b, c) });
    assert!(unsafe { tp_max_value(&b.bw) } > bw);
}

/// Flach et al. 2016: a policer's rate is found after two intervals with a fifth lost, and used.
#[test]
fn a_policer_is_recognised_and_paced_to() {
    let mut path = Path::new(40_000);
    let mut b = bbr(&mut path);
    for _ in 0..10 {
        path.round(40, 0, |c| unsafe { bbr_ack(&mut b, c) });
    }
    for _ in 0..14 {
        path.round(20, 8, |c| unsafe { bbr_ack(&mut b, c) });
    }
    assert_eq!(b.lt_use(), 1);
    let rate = 20.0 * f64::from(MSS) * 8.0 / 0.04 / 1e6;
    let paced = mbit(path.conn.pacing_rate);
    assert!(
        (paced / (rate * 0.99) - 1.0).abs() < 0.05,
        "{paced} of {rate}"
    );
    for _ in 0..50 {
        path.round(20, 0, |c| unsafe { bbr_ack(&mut b, c) });
    }
    assert_eq!(b.lt_use(), 0, "tried again after 48 rounds");
}

/// Recovery: packet conservation for a round, then the window from before.
#[test]
fn recovery_conserves_packets_and_then_restores_the_window() {
    let mut path = Path::new(40_000);
    let mut b = bbr(&mut path);
    for _ in 0..40 {
        path.round(40, 0, |c| unsafe { bbr_ack(&mut b, c) });
    }
    let before = path.conn.cwnd;
    unsafe { bbr_save_cwnd(&mut b, before) };
    path.conn.state = BBR_RECOVERY as u8;
    path.round(20, 2, |c| {
        c.prior_delivered -= 60; // sent before the last round: not a new one
        c.in_flight = 18;
        unsafe { bbr_ack(&mut b, c) }
    });
    assert_eq!(path.conn.cwnd, 38, "in flight and acknowledged");
    path.conn.state = 0;
    path.round(40, 0, |c| unsafe { bbr_ack(&mut b, c) });
    assert!(
        path.conn.cwnd >= before.min(80),
        "{} of {before}",
        path.conn.cwnd
    );
}

fn bbr3(path: &mut Path) -> tp_bbr3 {
    let mut b = tp_bbr3::default();
    unsafe { bbr3_start(&mut b, &mut path.conn, path.rtt_us) };
    b
}

/// A socket switching after 3 TB has delivered more than 2^31 packets.
#[test]
fn rounds_begin_also_in_mid_connection() {
    let mut path = Path::new(40_000);
    path.conn.delivered = 0x9000_0000;
    let mut b = bbr(&mut path);
    for _ in 0..20 {
        path.round(40, 0, |c| unsafe { bbr_ack(&mut b, c) });
    }
    assert!(b.rounds >= 19 && b.full() == 1, "{} rounds", b.rounds);
    let mut path = Path::new(40_000);
    path.conn.delivered = 0x9000_0000;
    let mut b = bbr3(&mut path);
    for _ in 0..20 {
        path.round(40, 0, |c| unsafe { bbr3_ack(&mut b, c) });
    }
    assert_eq!(b.full(), 1);
}

/// The rate in force determines the bursts.
#[test]
fn a_maximum_pacing_rate_bounds_the_bursts_too() {
    let mut path = Path::new(40_000);
    path.conn.max_pacing_rate = 100_000;
    let (mut one, mut three) = (bbr(&mut path), bbr3(&mut path));
    for _ in 0..20 {
        path.round(4000, 0, |c| unsafe { bbr_ack(&mut one, c) });
        assert!(path.conn.pacing_rate <= 100_000);
        path.round(4000, 0, |c| unsafe { bbr3_ack(&mut three, c) });
        assert!(path.conn.pacing_rate <= 100_000);
    }
}

proptest! {
    /// The filter may forget a maximum early in its window's last quarter, but never exceeds the true
    /// one, and never falls below the newest value.
    #[test]
    fn windowed_maximum_lies_between_newest_and_true_maximum(values in prop::collection::vec(1u32..1000, 1..200)) {
        let mut m = tp_max::default();
        for (t, v) in values.iter().enumerate() {
            unsafe { tp_max_update(&mut m, 10, t as u32, *v) };
            let kept = unsafe { tp_max_value(&m) };
            let true_max = *values[t.saturating_sub(10)..=t].iter().max().unwrap();
            prop_assert!(kept >= *v && kept <= true_max, "{kept} {v} {true_max}");
        }
    }

    #[test]
    fn arithmetic_does_not_overflow(packets in 1u32..1_000_000, us in 1u32..10_000_000, mss in 500u32..9000) {
        let bw = unsafe { tp_bandwidth(packets.into(), us.into()) };
        let back = unsafe { tp_delivers(bw, us.into()) };
        prop_assert!(back <= packets.into() && back + 1 >= u64::from(packets) - u64::from(us) / (1 << 24));
        let rate = unsafe { tp_pacing_rate(bw.min(u64::from(u32::MAX)), mss, 256, 0) } as f64;
        let exact = (bw.min(u64::from(u32::MAX)) as f64) / 16_777_216.0 * f64::from(mss) * 1e6;
        prop_assert!((rate - exact).abs() <= exact * 1e-6 + 2.0, "{rate} {exact}");
    }
}
