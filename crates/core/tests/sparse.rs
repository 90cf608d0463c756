//! Packets sent first, of a flow with a queue of its own: none may overtake another of its flow.

use proptest::prelude::*;
use tcpilot_abi::tp_sparse;
use tcpilot_core::watch::is_sparse;

const FULL: u32 = 1514;
const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;

/// A flow's real queue: it is served at the flow's share, after at most one turn of the others.
struct Queue {
    share: u64,
    turn: u32,
    /// When its last packet has left, in nanoseconds.
    empty_at: u64,
    /// It was full, so the reckoned queue, which cannot know that, is longer.
    has_dropped: bool,
}

impl Queue {
    fn put(&mut self, bytes: u32, at: u64) {
        let ns = |bytes: u64| (u128::from(bytes) * u128::from(S) / u128::from(self.share)) as u64;
        let waited = self.empty_at.saturating_sub(at);
        let full = ns(8 * u64::from(self.turn)).max(100 * MS);
        if waited > full {
            self.has_dropped = true;
            return;
        }
        let turn = if waited == 0 { ns(self.turn.into()) } else { 0 };
        self.empty_at = self.empty_at.max(at) + turn + ns(bytes.into());
    }
}

/// Whether each of these packets, a time and a number of bytes, goes first, and how long the flow's last
/// waiting packet has yet to wait then; 0 if the queue was full since a packet went first.
fn go(sends: &[(u64, u32)], share: u64, turn: u32) -> Vec<(bool, u64)> {
    let mut sparse = tp_sparse::default();
    let mut queue = Queue {
        share,
        turn,
        empty_at: 0,
        has_dropped: false,
    };
    let mut each = |(at, bytes): &(u64, u32)| {
        let waits = queue.empty_at.saturating_sub(*at);
        let first = is_sparse(&mut sparse, share / 2, turn, 1, *bytes, *at) != 0;
        let is_known = !queue.has_dropped;
        if first {
            queue.has_dropped &= waits > 0;
        } else {
            queue.put(*bytes, *at);
        }
        (first, if is_known { waits } else { 0 })
    };
    sends.iter().map(&mut each).collect()
}

/// `count` packets of `bytes`, `gap` nanoseconds apart.
fn steady(count: u64, bytes: u32, gap: u64) -> Vec<(u64, u32)> {
    (0..count).map(|i| (S + i * gap, bytes)).collect()
}

fn firsts(sends: &[(u64, u32)], share: u64, turn: u32) -> usize {
    let gone = go(sends, share, turn);
    gone.iter().filter(|(first, _)| *first).count()
}

#[test]
fn senders_below_half_their_share_go_first() {
    let share = 156_250; // an eighth of 10 Mbit/s
    let gap = |part: f64| (f64::from(FULL) / (share as f64 * part) * S as f64) as u64;
    assert_eq!(firsts(&steady(1000, FULL, gap(0.45)), share, FULL), 1000);
    assert!(firsts(&steady(1000, FULL, gap(0.9)), share, FULL) <= 3);
    // A request of 64 bytes every 81 ms.
    assert_eq!(firsts(&steady(1000, 130, 81 * MS), share, FULL), 1000);
}

#[test]
fn only_the_first_packet_of_bursts_is_favoured() {
    let burst = [(S, FULL), (S, FULL), (S, FULL)];
    let gone = go(&burst, 156_250, FULL);
    let firsts: Vec<bool> = gone.iter().map(|(first, _)| *first).collect();
    assert_eq!(firsts, [true, false, false]);
}

/// Its first packet met a full reckoned queue, of super-packets.
#[test]
fn a_delayed_trickle_goes_first_again() {
    let share = 357_000;
    let mut sends = vec![(S, 65_000), (S, 65_000)];
    sends.extend((1..500).map(|i| (S + i * 10 * MS, 566)));
    let gone = go(&sends, share, 65_536);
    assert!(gone[200..].iter().all(|(first, _)| *first));
}

#[test]
fn shared_queues_favour_none_while_packets_wait() {
    let mut sparse = tp_sparse::default();
    let mut goes_first = |at| is_sparse(&mut sparse, 78_125, FULL, 0, FULL, at) != 0;
    assert!(goes_first(2 * S));
    assert!(!goes_first(2 * S));
    assert!(!goes_first(2 * S + 900 * MS));
    assert!(goes_first(4 * S));
    assert!(goes_first(4 * S + 100 * MS));
}

#[test]
fn without_a_rate_nobody_goes_first() {
    let mut sparse = tp_sparse::default();
    assert_eq!(is_sparse(&mut sparse, 0, FULL, 1, 64, S), 0);
}

proptest! {
    /// Shares from 10 kbit/s to 10 Gbit/s, even numbers, as half of them is reckoned with; packets to 64 KiB, pauses to seconds.
    #[test]
    fn no_packet_overtakes_another_of_its_flow(
        share in (9.3_f64..29.2).prop_map(|log2| 2 * 2_f64.powf(log2) as u64),
        turn in FULL..=131_072,
        packets in prop::collection::vec((0_f64..1.0, 0_f64..1.0), 1..400),
    ) {
        let mut at = S;
        let sends: Vec<(u64, u32)> = packets
            .iter()
            .map(|(gap, size)| {
                // Mostly bursts, some pauses, around the time of a turn.
                let turn_ns = f64::from(turn) / share as f64 * S as f64;
                at += (turn_ns * gap.powi(6) * 30.0) as u64;
                (at, (64.0 + size.powi(3) * f64::from(turn - 64)) as u32)
            })
            .collect();
        for (first, waits) in go(&sends, share, turn) {
            prop_assert!(!first || waits <= 2000, "overtook by {waits} ns");
        }
    }

    /// However it sends, it cannot take more than half its share by going first.
    #[test]
    fn at_most_half_a_share_goes_first(
        share in 10_000_u64..1_250_000_000,
        gaps in prop::collection::vec(0_f64..1.0, 50..400),
        bytes in 64_u32..=1514,
    ) {
        let mut at = S;
        let mut sends = Vec::new();
        for gap in &gaps {
            at += (gap.powi(3) * 4.0 * f64::from(bytes) / share as f64 * S as f64) as u64;
            sends.push((at, bytes));
        }
        let gone = go(&sends, share, FULL);
        let first = gone.iter().filter(|(first, _)| *first).count() as u64 * u64::from(bytes);
        let passed = (at - S) as f64 / S as f64;
        let most = share as f64 / 2.0 * passed + 2.0 * f64::from(FULL);
        prop_assert!(first as f64 <= most, "{first} of {most}");
    }
}
