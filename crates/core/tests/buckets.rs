//! The path of a full bucket chosen to give way to a new one.

mod common;

use common::S;
use tcpilot_abi::{TP_WAYS, tp_bucket, tp_path_key};
use tcpilot_core as native;

const DAY: u64 = 24 * 3600;

/// A full bucket, now a week after the host's start; the path of slot n was used n + 1 seconds ago.
fn full() -> (tp_bucket, u64) {
    let now_ns = 7 * DAY * S;
    let mut bucket = tp_bucket::default();
    for (ago_s, (tag, slot)) in (1..).zip(bucket.tag.iter_mut().zip(&mut bucket.slot)) {
        *tag = 1;
        slot.path.updated_ns = now_ns - ago_s * S;
    }
    (bucket, now_ns)
}

#[test]
fn the_path_unused_for_longest_goes() {
    let (mut bucket, now_ns) = full();
    assert_eq!(native::victim(&bucket, now_ns), TP_WAYS - 1);
    bucket.slot[3].path.updated_ns = S;
    assert_eq!(native::victim(&bucket, now_ns), 3);
}

#[test]
fn an_empty_slot_is_taken_first() {
    let (mut bucket, now_ns) = full();
    bucket.tag[5] = 0;
    assert_eq!(native::victim(&bucket, now_ns), 5);
}

#[test]
fn live_path_is_evicted_only_after_silent_day() {
    let (mut bucket, now_ns) = full();
    for slot in &mut bucket.slot {
        slot.path.live_flows = 1;
    }
    assert_eq!(native::victim(&bucket, now_ns), TP_WAYS);
    bucket.slot[2].path.updated_ns = now_ns - (DAY + 1) * S;
    assert_eq!(native::victim(&bucket, now_ns), 2);
    // A path without live connections goes first, however recent its last use.
    bucket.slot[6].path.live_flows = 0;
    assert_eq!(native::victim(&bucket, now_ns), 6);
}

/// Another CPU may look for a slot before the first connection of a new path is counted.
#[test]
fn new_path_is_not_evicted_next() {
    let (mut bucket, now_ns) = full();
    let key = tp_path_key {
        netns_cookie: 9,
        ..Default::default()
    };
    let mut gone = Vec::new();
    for after_ns in 0..u64::from(TP_WAYS) {
        let way = native::victim(&bucket, now_ns + after_ns);
        let slot = &mut bucket.slot[way as usize];
        slot.path.connections = 5;
        native::begin_slot(slot, &key, now_ns + after_ns);
        assert_eq!(
            (slot.key, slot.path.connections, slot.path.born_ns),
            (key, 0, 0)
        );
        gone.push(way);
    }
    gone.sort_unstable();
    assert_eq!(gone, (0..TP_WAYS).collect::<Vec<_>>());
}
