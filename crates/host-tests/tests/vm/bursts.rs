//! How many packets a sender with offloads hands to a slow link at once.

use std::time::Duration;

use tcpilot_host_tests::{Bpffs, FAR, Lab, PORT, Place, Shape, Tap};

/// A frame of one packet; what is longer is a burst that the sender's device leaves in one piece.
const ONE_PACKET: usize = 1514;
const ACKNOWLEDGEMENT: usize = 200;
const FRAMES: usize = 400;

/// Of the frames with data that arrive long after slow start, those that are more than one packet.
fn bursts(cc: &str) -> usize {
    let lab = Lab::new();
    lab.net
        .shape(Shape::Of("netem rate 10mbit delay 20ms limit 60"));
    let _sender = lab.start(&format!("bulk --to {FAR}:{PORT} --seconds 8 --cc {cc}"));
    std::thread::sleep(Duration::from_secs(3));
    let tap = Tap::new(&lab.net.far, "eth0");
    let lengths = std::iter::from_fn(|| tap.next_within(Duration::from_secs(2)));
    let data: Vec<_> = lengths
        .map(|frame| frame.len())
        .filter(|length| *length > ACKNOWLEDGEMENT)
        .take(FRAMES)
        .collect();
    assert_eq!(data.len(), FRAMES, "{cc}");
    data.iter().filter(|length| **length > ONE_PACKET).count()
}

/// Section 2.4.1 of draft-briscoe-iccrg-prague-congestion-control-04: no bursts. The kernel alone sends two at once.
#[test]
fn prague_hands_single_packets_to_a_slow_link() {
    let bpffs = Bpffs::new();
    let mut load = Place::here().command("tcpilot");
    load.args(["cc", "load", "reno", "prague", "--bpffs"]);
    assert!(load.arg(bpffs.path()).status().unwrap().success());
    assert!(bursts("tp_reno") > FRAMES / 10);
    assert_eq!(bursts("tp_prague"), 0);
}
