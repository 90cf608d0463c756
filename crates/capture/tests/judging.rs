//! The programs' measures of a capture: the same as at a device, from either end of a path.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{
    ACK, FORMATS, Packet, Path, SEGMENT, SYN, Segment, file, gzipped, judged, judged_by, pcap,
    upload,
};
use tcpilot_abi::{
    TP_FLOW_HANDSHAKE, TP_FLOW_SHARE, TP_GROUP_LOSS, TP_REASON_SHARE, tp_watch_flow,
};
use tcpilot_core::model::Model;

const MS: u64 = 1_000_000;

/// 12 Mbit/s, 40 ms, and a queue of 60 ms.
const PATH: Path = Path {
    rtt_ns: 40 * MS,
    packet_ns: MS,
    queue: 60,
    is_near: true,
};

fn queue_us(flow: &tp_watch_flow) -> u64 {
    flow.now.sojourn_sum_us / u64::from(flow.now.sojourn_samples.max(1))
}

#[test]
fn a_capture_at_the_sender_shows_the_queue() {
    let judged = judged(&pcap(&upload(PATH, 30_000))).unwrap();
    let flow = judged.up();
    assert!(flow.flags & TP_FLOW_HANDSHAKE != 0 && flow.flags & TP_FLOW_SHARE != 0);
    assert_eq!(flow.min_rtt_us / 1000, 40);
    assert!((60_000..110_000).contains(&flow.rtt_us), "{}", flow.rtt_us);
    assert!(
        (15_000..60_000).contains(&queue_us(flow)),
        "{}",
        queue_us(flow)
    );
    assert_eq!(flow.segment_bytes, SEGMENT);
    assert!(flow.rounds > 80, "{}", flow.rounds);
    assert!(flow.shape.losses >= 3, "{}", flow.shape.losses);
    // A window is halved.
    let response = flow.shape.response_last;
    assert!((110..160).contains(&response), "{response} of 256");
}

#[test]
fn a_capture_at_the_receiver_shows_the_same() {
    let near = judged(&pcap(&upload(PATH, 30_000))).unwrap();
    let far = Path {
        is_near: false,
        ..PATH
    };
    let far = judged(&pcap(&upload(far, 30_000))).unwrap();
    let (near, far) = (near.up(), far.up());
    assert!(
        near.rounds.abs_diff(far.rounds) * 10 <= near.rounds,
        "{} {}",
        near.rounds,
        far.rounds
    );
    assert!(far.min_rtt_us.abs_diff(40_000) < 3000, "{}", far.min_rtt_us);
    let (here, there) = (queue_us(near), queue_us(far));
    assert!(here.abs_diff(there) * 4 < here, "{here} {there}");
    assert_eq!(near.shape.losses, far.shape.losses);
    let response = far.shape.response_last;
    assert!((110..160).contains(&response), "{response} of 256");
}

#[test]
fn a_sawtooth_is_loss_based_from_either_end() {
    let bytes = std::fs::read("../../bpf/watch/model.json.gz").unwrap();
    let model = Model::read(&bytes).unwrap();
    for is_near in [true, false] {
        let packets = upload(Path { is_near, ..PATH }, 60_000);
        let judged = judged_by(&pcap(&packets), &model).unwrap();
        assert_eq!(
            u32::from(judged.up().verdict.group),
            TP_GROUP_LOSS,
            "near: {is_near}"
        );
    }
}

#[test]
fn every_format_gives_the_same_flow() {
    let packets = upload(PATH, 3000);
    let of = |bytes: &[u8]| {
        let judged = judged(bytes).unwrap();
        let flow = judged.up();
        (
            judged.counts,
            flow.rounds,
            flow.bytes,
            flow.rtt_us,
            flow.min_rtt_us,
            flow.shape.losses,
        )
    };
    let first = of(&pcap(&packets));
    for format in FORMATS {
        let bytes = file(format, 1, &packets);
        assert_eq!(of(&bytes), first, "{format:?}");
        assert_eq!(of(&gzipped(&bytes)), first, "{format:?}, gzipped");
    }
}

#[test]
fn super_packets_count_as_the_segments_they_become() {
    let mut packets = vec![
        Segment {
            is_up: true,
            flags: SYN,
            seq: 9,
            ..Segment::default()
        }
        .at(MS),
        Segment {
            flags: SYN | ACK,
            seq: 99,
            ack: 10,
            ..Segment::default()
        }
        .at(2 * MS),
        Segment {
            is_up: true,
            flags: ACK,
            seq: 10,
            ack: 100,
            ..Segment::default()
        }
        .at(3 * MS),
    ];
    for nth in 0..10 {
        let (seq, at_ns) = (10 + nth * 14_600, 4 * MS + u64::from(nth) * 10 * MS);
        let data = Segment {
            is_up: true,
            flags: ACK,
            seq,
            ack: 100,
            payload: 14_600,
            ..Segment::default()
        };
        packets.push(data.at(at_ns));
        let answer = Segment {
            flags: ACK,
            seq: 100,
            ack: seq + 14_600,
            ..Segment::default()
        };
        packets.push(answer.at(at_ns + MS));
    }
    let judged = judged(&pcap(&packets)).unwrap();
    // The first proves the flow, and is not counted.
    assert_eq!(judged.up().now.in_packets, 90);
    assert_eq!(judged.up().segment_bytes, 1460);
}

#[test]
fn without_timestamps_a_far_sender_is_not_judged() {
    let mut packets = upload(
        Path {
            is_near: false,
            ..PATH
        },
        3000,
    );
    for packet in &mut packets {
        // Padding takes the place of the option.
        if let Some(at) = packet.bytes.windows(2).position(|two| two == [8, 10]) {
            packet.bytes[at..at + 10].fill(1);
        }
    }
    let judged = judged(&pcap(&packets)).unwrap();
    assert_eq!(u32::from(judged.up().verdict.reason), TP_REASON_SHARE);
    assert_eq!(judged.up().flags & TP_FLOW_SHARE, 0);
}

/// The packets of a capture of all devices (Linux cooked, version 2): each passes two.
fn cooked(packets: &[Packet]) -> Vec<Packet> {
    let at_device = |packet: &Packet, device: u8| {
        let mut bytes = vec![
            8, 0, 0, 0, 0, 0, 0, device, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        bytes.extend(&packet.bytes[14..]);
        Packet {
            at_ns: packet.at_ns + u64::from(device) * 1000,
            length: packet.length + 6,
            bytes,
        }
    };
    let both = packets
        .iter()
        .flat_map(|packet| [2, 3].map(|device| at_device(packet, device)));
    let mut both: Vec<Packet> = both.collect();
    both.sort_by_key(|packet| packet.at_ns);
    both
}

#[test]
fn a_packet_at_two_devices_counts_once() {
    let packets = upload(PATH, 3000);
    let once = judged(&pcap(&packets)).unwrap();
    let twice = judged(&file(FORMATS[0], 276, &cooked(&packets))).unwrap();
    assert_eq!(twice.counts.elsewhere, packets.len() as u64);
    let (once, twice) = (once.up(), twice.up());
    assert_eq!(once.now.in_packets, twice.now.in_packets);
    assert_eq!(
        (once.rounds, once.shape.losses),
        (twice.rounds, twice.shape.losses)
    );
}
