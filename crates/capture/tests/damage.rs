//! What is not a whole capture: refused or counted, and never the end of the program.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use common::{
    ACK, FORMATS, Format, Packet, Path, Segment, file, gzipped, judge, judged, pcap, take, upload,
};
use tcpilot_capture::{Counts, End, Error};

fn few() -> Vec<Packet> {
    let path = Path {
        rtt_ns: 10_000_000,
        packet_ns: 100_000,
        queue: 10,
        is_near: true,
    };
    upload(path, 40)
}

#[test]
fn each_prefix_of_a_capture_is_handled() {
    let mut judge = judge();
    for format in FORMATS {
        let whole = file(format, 1, &few());
        for length in 0..whole.len() {
            match take(&mut judge, &whole[..length]) {
                Ok(End::Whole | End::Cut) => {}
                Ok(End::Damaged) => panic!("{format:?}, {length}: only its end is missing"),
                Err(Error::Empty) => assert_eq!(length, 0),
                Err(error) => assert!(length < 64, "{length}: {error}"),
            }
        }
    }
    let zipped = gzipped(&pcap(&few()));
    for length in 0..zipped.len() {
        let _ = take(&mut judge, &zipped[..length]);
    }
}

/// A generator of Lehmer's kind: any sequence does, but the same each time.
struct Luck(u64);

impl Luck {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(0xda94_2042_e4dd_58b5).wrapping_add(1);
        (self.0 >> 33) as usize % most
    }
}

#[test]
fn flipped_bytes_never_panic() {
    let (mut luck, mut judge) = (Luck(47), judge());
    for format in FORMATS {
        let whole = file(format, 1, &few());
        for _ in 0..2000 {
            let mut bytes = whole.clone();
            for _ in 0..=luck.below(8) {
                let at = luck.below(bytes.len());
                bytes[at] = luck.below(256) as u8;
            }
            let _ = take(&mut judge, &bytes);
        }
    }
}

#[test]
fn headers_of_chance_never_panic() {
    let mut luck = Luck(11);
    for link in [0, 1, 12, 101, 108, 113, 228, 229, 276, 105] {
        let packets: Vec<Packet> = (0..2000)
            .map(|nth| {
                let length = luck.below(120);
                let mut bytes: Vec<u8> = (0..length).map(|_| luck.below(256) as u8).collect();
                for (at, byte) in [(12, 8), (13, 0), (14, 0x45), (23, 6)] {
                    if luck.below(2) == 0 && at < length {
                        bytes[at] = byte;
                    }
                }
                Packet {
                    at_ns: nth * 1000,
                    length: bytes.len() + luck.below(3) * 700,
                    bytes,
                }
            })
            .collect();
        let judged = judged(&file(FORMATS[0], link, &packets)).unwrap();
        assert_eq!(judged.counts.packets, 2000);
    }
}

#[test]
fn a_file_cut_within_a_packet_is_judged() {
    for format in FORMATS {
        let whole = file(format, 1, &few());
        let judged = judged(&whole[..whole.len() - 5]).unwrap();
        assert_eq!(judged.end, End::Cut, "{format:?}");
        assert_eq!(judged.counts.packets, few().len() as u64 - 1);
    }
}

#[test]
fn other_files_than_captures_are_refused() {
    assert!(matches!(judged(&[]), Err(Error::Empty)));
    assert!(matches!(
        judged(b"once upon a time, there was a text"),
        Err(Error::Format)
    ));
    assert!(matches!(
        judged(&pcap(&[])[..12]),
        Err(Error::Header | Error::Format)
    ));
    assert_eq!(judged(&pcap(&[])).unwrap().counts, Counts::default());
}

fn one(bytes: &[u8]) -> Packet {
    Packet {
        at_ns: 1,
        length: bytes.len().max(60),
        bytes: bytes.to_vec(),
    }
}

#[test]
fn packets_without_verdict_are_counted() {
    let data = Segment {
        is_up: true,
        flags: ACK,
        seq: 1,
        ack: 1,
        payload: 100,
        ..Segment::default()
    };
    let whole = data.at(1);
    let mut ping = whole.bytes.clone();
    ping[23] = 1;
    let mut fragment = whole.bytes.clone();
    fragment[21] = 4;
    let mut arp = whole.bytes.clone();
    arp[13] = 6;
    let packets = [
        whole.clone(),
        one(&ping),
        one(&fragment),
        one(&arp),
        one(&whole.bytes[..20]),
        one(&whole.bytes[..40]),
    ];
    let counts = judged(&pcap(&packets)).unwrap().counts;
    let expected = Counts {
        packets: 6,
        taken: 1,
        other: 1,
        not_ip: 1,
        fragments: 1,
        cut: 2,
        ..Counts::default()
    };
    assert_eq!(counts, expected);
    let wireless = judged(&file(FORMATS[0], 105, &packets)).unwrap().counts;
    assert_eq!(wireless.other_link, 6);
}

#[test]
fn time_never_runs_backwards() {
    let mut packets = few();
    let last = packets.len() - 1;
    packets[last].at_ns = 5;
    for format in [FORMATS[0], Format::PcapNg { is_big: false }] {
        let judged = judged(&file(format, 1, &packets)).unwrap();
        assert_eq!(judged.counts.backward, 1);
    }
}
