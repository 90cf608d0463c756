//! How many packets a sender with offloads hands to a slow link at once.

use std::{fs, iter, thread, time::Duration};

use tcpilot_tests::{Bpffs, Lab, Place, Tap, serve_with};

use crate::rescue::{OTHER, way};

/// A longer packet is a burst, left in one piece by the sender's device.
const ONE_PACKET: usize = 1514;
/// 10 Mbit/s.
const FIVE_PACKETS_IN_6_MS: &str = "1\n2\n3\n4\n6\n";
const ACKNOWLEDGEMENT: usize = 200;
const FRAMES: usize = 400;
const AT: u16 = 5301;

/// The number of frames with more than one packet, among those with data that leave long after slow start.
fn bursts(cc: &str) -> usize {
    let lab = Lab::new();
    // The limit is behind the sender: one before its own device would hold its bursts back.
    let trace = lab.dir.path().join("10mbit");
    fs::write(&trace, FIVE_PACKETS_IN_6_MS).unwrap();
    let luck = format!(",trace={},queue_bytes=75000", trace.display());
    let relay = way(&lab, &luck, "pfifo limit 1000");
    relay.signal(libc::SIGUSR1);
    lab.net.near.ip("link set lossy gso_max_segs 64");
    // The receiver's algorithm is the same: only so prague has ECN.
    let far = Place::new(&lab.net.far, &lab.cgroup);
    let _receiver = serve_with(far, AT, &["--cc", cc]);
    let _sender = lab.start(&format!("bulk --to {OTHER}:{AT} --seconds 8 --cc {cc}"));
    thread::sleep(Duration::from_secs(3));
    let tap = Tap::new(&lab.net.near, "lossy");
    let frames = iter::from_fn(|| tap.next_within(Duration::from_secs(2)));
    let data: Vec<_> = frames
        .map(|frame| frame.len())
        .filter(|length| *length > ACKNOWLEDGEMENT)
        .take(FRAMES)
        .collect();
    assert_eq!(data.len(), FRAMES, "{cc}");
    data.iter().filter(|length| **length > ONE_PACKET).count()
}

/// Section 2.4.1 of draft-briscoe-iccrg-prague-congestion-control-04: no bursts. The kernel's own least burst is two
/// packets.
#[test]
fn prague_hands_single_packets_to_a_slow_link() {
    let bpffs = Bpffs::new();
    let mut load = Place::here().command("tcpilot");
    load.args(["cc", "load", "reno", "prague", "--bpffs"]);
    assert!(load.arg(bpffs.path()).status().unwrap().success());
    let (reno, prague) = (bursts("tp_reno"), bursts("tp_prague"));
    assert!(
        reno > FRAMES / 10 && prague < FRAMES / 40,
        "of {FRAMES} frames {reno} with reno and {prague} with prague"
    );
}
