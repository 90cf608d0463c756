//! Captures made by the tests: packets of TCP, and the formats of files.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test uses a part, and fails by panicking"
)]

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use tcpilot_abi::{TP_CLASSIFIER_TCPILOT, tp_watch_flow};
use tcpilot_capture::{Counts, End, Judge, Options, read};
use tcpilot_core::model::Model;

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const ACK: u8 = 16;
pub const SEGMENT: u32 = 1448;

/// A packet with its time.
#[derive(Clone, Debug)]
pub struct Packet {
    pub at_ns: u64,
    /// From the Ethernet header on.
    pub bytes: Vec<u8>,
    /// On the wire.
    pub length: usize,
}

/// A segment of TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct Segment {
    /// From the client, 10.0.0.1:1000, to the server, 10.0.0.2:2000.
    pub is_up: bool,
    pub flags: u8,
    pub seq: u32,
    pub ack: u32,
    pub payload: u32,
    /// Timestamps, unless 0.
    pub stamp: u32,
    pub echo: u32,
}

impl Segment {
    pub fn at(self, at_ns: u64) -> Packet {
        let mut options = Vec::new();
        if self.flags & SYN != 0 {
            options.extend([2, 4, 0x05, 0xb4, 3, 3, 7, 0]); // 1460 bytes, scale 7
        }
        if self.stamp != 0 {
            options.extend([1, 1, 8, 10]);
            options.extend(self.stamp.to_be_bytes());
            options.extend(self.echo.to_be_bytes());
        }
        let header = 20 + options.len();
        let total = 20 + header + self.payload as usize;
        let (mut from, mut to) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        let mut ports = [1000_u16, 2000];
        if !self.is_up {
            std::mem::swap(&mut from, &mut to);
            ports.reverse();
        }
        let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        bytes.extend([0x45, 0]);
        bytes.extend((total.min(65_535) as u16).to_be_bytes());
        bytes.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        bytes.extend(from);
        bytes.extend(to);
        bytes.extend(ports[0].to_be_bytes());
        bytes.extend(ports[1].to_be_bytes());
        bytes.extend(self.seq.to_be_bytes());
        bytes.extend(self.ack.to_be_bytes());
        bytes.extend([(header as u8 / 4) << 4, self.flags, 0xff, 0xff, 0, 0, 0, 0]);
        bytes.extend(options);
        bytes.resize(bytes.len() + (self.payload as usize).min(16), 0);
        Packet {
            at_ns,
            bytes,
            length: 14 + total,
        }
    }
}

/// The formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Pcap { is_big: bool, is_nano: bool },
    PcapNg { is_big: bool },
}

pub const FORMATS: [Format; 6] = [
    Format::Pcap {
        is_big: false,
        is_nano: false,
    },
    Format::Pcap {
        is_big: false,
        is_nano: true,
    },
    Format::Pcap {
        is_big: true,
        is_nano: false,
    },
    Format::Pcap {
        is_big: true,
        is_nano: true,
    },
    Format::PcapNg { is_big: false },
    Format::PcapNg { is_big: true },
];

struct File {
    bytes: Vec<u8>,
    is_big: bool,
}

impl File {
    fn u16(&mut self, number: u16) {
        let bytes = if self.is_big {
            number.to_be_bytes()
        } else {
            number.to_le_bytes()
        };
        self.bytes.extend(bytes);
    }

    fn u32(&mut self, number: u32) {
        let bytes = if self.is_big {
            number.to_be_bytes()
        } else {
            number.to_le_bytes()
        };
        self.bytes.extend(bytes);
    }

    fn block(&mut self, kind: u32, content: &[u8]) {
        let length = 12 + content.len().next_multiple_of(4);
        self.u32(kind);
        self.u32(length as u32);
        self.bytes.extend(content);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self.u32(length as u32);
    }
}

fn part(is_big: bool, fill: impl Fn(&mut File)) -> Vec<u8> {
    let mut file = File {
        bytes: vec![],
        is_big,
    };
    fill(&mut file);
    file.bytes
}

/// A file of these packets, whose link type is `link`.
pub fn file(format: Format, link: u16, packets: &[Packet]) -> Vec<u8> {
    match format {
        Format::Pcap { is_big, is_nano } => part(is_big, |file| {
            file.u32(if is_nano { 0xa1b2_3c4d } else { 0xa1b2_c3d4 });
            file.u16(2);
            file.u16(4);
            for number in [0, 0, 65_535, u32::from(link)] {
                file.u32(number);
            }
            for packet in packets {
                let rest = packet.at_ns % 1_000_000_000;
                file.u32((packet.at_ns / 1_000_000_000) as u32);
                file.u32(if is_nano { rest } else { rest / 1000 } as u32);
                file.u32(packet.bytes.len() as u32);
                file.u32(packet.length as u32);
                file.bytes.extend(&packet.bytes);
            }
        }),
        Format::PcapNg { is_big } => part(is_big, |file| {
            let section = part(is_big, |head| {
                head.u32(0x1a2b_3c4d);
                head.u16(1);
                head.u16(0);
                head.u32(u32::MAX);
                head.u32(u32::MAX);
            });
            file.block(0x0a0d_0d0a, &section);
            let device = part(is_big, |head| {
                head.u16(link);
                head.u16(0);
                head.u32(0);
                head.u16(9); // if_tsresol: nanoseconds
                head.u16(1);
                head.bytes.extend([9, 0, 0, 0]);
                head.u32(0);
            });
            file.block(1, &device);
            for packet in packets {
                let content = part(is_big, |block| {
                    block.u32(0);
                    block.u32((packet.at_ns >> 32) as u32);
                    block.u32(packet.at_ns as u32);
                    block.u32(packet.bytes.len() as u32);
                    block.u32(packet.length as u32);
                    block.bytes.extend(&packet.bytes);
                });
                file.block(6, &content);
            }
        }),
    }
}

/// The usual file.
pub fn pcap(packets: &[Packet]) -> Vec<u8> {
    file(FORMATS[0], 1, packets)
}

pub fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// What is known of a capture's flows.
pub struct Judged {
    pub flows: Vec<tp_watch_flow>,
    pub counts: Counts,
    pub end: End,
}

impl Judged {
    /// The flow from the client to the server.
    pub fn up(&self) -> &tp_watch_flow {
        self.flows
            .iter()
            .find(|flow| flow.key.source_port == 1000)
            .unwrap()
    }
}

pub fn options() -> Options {
    Options {
        classifier: TP_CLASSIFIER_TCPILOT,
        one_way: false,
        udp: false,
        flows_max: 64,
    }
}

/// Gives a judge all packets of a file.
pub fn take(judge: &mut Judge, bytes: &[u8]) -> Result<End, tcpilot_capture::Error> {
    read(bytes, |frame| {
        judge.take(frame);
        true
    })
}

/// A judge with a model without trees.
pub fn judge() -> Judge {
    let none = Model::without_trees();
    Judge::start(&options(), &none, &none, &none).unwrap()
}

/// Judges the bytes of a file, by a model without trees.
pub fn judged(bytes: &[u8]) -> Result<Judged, tcpilot_capture::Error> {
    judged_by(bytes, &Model::without_trees())
}

/// The same by a model.
pub fn judged_by(bytes: &[u8], model: &Model) -> Result<Judged, tcpilot_capture::Error> {
    let none = Model::without_trees();
    let mut judge = Judge::start(&options(), model, &none, &none)?;
    let end = take(&mut judge, bytes)?;
    Ok(Judged {
        flows: judge.flows().collect(),
        counts: judge.counts(),
        end,
    })
}

/// A path, and where its packets are captured.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    pub rtt_ns: u64,
    /// A packet takes so long at the bottleneck.
    pub packet_ns: u64,
    /// The most packets in the queue there.
    pub queue: u64,
    /// At the sender, before the queue; else at the receiver.
    pub is_near: bool,
}

const CLIENT: u32 = 1_000_000;
const SERVER: u32 = 9_000_000;

fn stamp(at_ns: u64) -> u32 {
    (at_ns / 1_000_000) as u32
}

/// An upload of so many packets. The sender adds a packet to its window each round trip, and halves it when
/// the queue overflows (RFC 5681). Times are the sender's until the end; then each packet gets its place's.
pub fn upload(path: Path, packets: usize) -> Vec<Packet> {
    upload_from(path, 10, packets)
}

/// The same of a sender that begins with a window of so many packets.
pub fn upload_from(path: Path, window: u32, packets: usize) -> Vec<Packet> {
    let mut sender = Sender::new(path);
    sender.window = f64::from(window);
    while sender.sent.len() < packets {
        sender.step();
    }
    sender.capture()
}

/// An event at the sender: data leave, or an acknowledgement comes. The receiver sees both half a round trip apart.
struct Sender {
    path: Path,
    sent: Vec<Packet>,
    now_ns: u64,
    /// When the bottleneck has worked off what was sent.
    free_ns: u64,
    window: f64,
    next: u32,
    acked: u32,
    /// Acknowledgements on their way: when they come, what they acknowledge, when the receiver sent them.
    coming: std::collections::VecDeque<(u64, u32)>,
    /// The first lost packet.
    hole: Option<u32>,
    is_sent_again: bool,
    echo: u32,
}

impl Sender {
    fn new(path: Path) -> Sender {
        let mut sender = Sender {
            path,
            sent: Vec::new(),
            now_ns: 1_700_000_000_000_000_000,
            free_ns: 0,
            window: 10.0,
            next: CLIENT + 1,
            acked: CLIENT + 1,
            coming: std::collections::VecDeque::new(),
            hole: None,
            is_sent_again: false,
            echo: 0,
        };
        let begin_ns = sender.now_ns;
        sender.note(begin_ns, true, SYN, CLIENT, 0, 0);
        sender.now_ns += path.rtt_ns;
        let now_ns = sender.now_ns;
        sender.echo = stamp(now_ns - path.rtt_ns / 2);
        sender.note(now_ns, false, SYN | ACK, SERVER, CLIENT + 1, 0);
        sender.note(now_ns, true, ACK, CLIENT + 1, SERVER + 1, 0);
        sender
    }

    /// A packet by its time at the sender.
    fn note(&mut self, at_ns: u64, is_up: bool, flags: u8, seq: u32, ack: u32, payload: u32) {
        let half_ns = self.path.rtt_ns / 2;
        let segment = Segment {
            is_up,
            flags,
            seq,
            ack,
            payload,
            stamp: stamp(if is_up { at_ns } else { at_ns - half_ns }),
            echo: if is_up { self.echo } else { 1 },
        };
        // At the receiver data come when they have passed the queue, and acknowledgements leave before.
        let at_ns = match (self.path.is_near, is_up) {
            (true, _) => at_ns,
            (false, true) => self.free_ns.max(at_ns) + half_ns,
            (false, false) => at_ns - half_ns,
        };
        self.sent.push(segment.at(at_ns));
    }

    fn send(&mut self, seq: u32) -> bool {
        let waits = self.free_ns.saturating_sub(self.now_ns) / self.path.packet_ns;
        // One packet is lost at a time.
        let is_lost = waits > self.path.queue && self.hole.is_none();
        if !is_lost {
            self.free_ns = self.free_ns.max(self.now_ns) + self.path.packet_ns;
        }
        if !is_lost || self.path.is_near {
            self.note(self.now_ns, true, ACK, seq, SERVER + 1, SEGMENT);
        }
        !is_lost
    }

    /// Sends what the window allows, then takes the next acknowledgement.
    fn step(&mut self) {
        while self.coming.len() < self.window as usize {
            let seq = self.next;
            self.next += SEGMENT;
            if self.send(seq) {
                let acked = self.hole.unwrap_or(self.next);
                self.coming
                    .push_back((self.free_ns + self.path.rtt_ns, acked));
            } else {
                self.hole = Some(seq);
            }
        }
        let (at_ns, acked) = self.coming.pop_front().unwrap();
        self.now_ns = self.now_ns.max(at_ns);
        self.echo = stamp(self.now_ns - self.path.rtt_ns / 2);
        let is_new = acked > self.acked;
        self.acked = self.acked.max(acked);
        self.note(self.now_ns, false, ACK, SERVER + 1, self.acked, 0);
        if is_new {
            self.window += 1.0 / self.window;
        } else if self.hole == Some(self.acked) && !self.is_sent_again {
            self.send_again();
        }
        if self.hole.is_some_and(|hole| self.acked > hole) {
            self.hole = None;
            self.is_sent_again = false;
        }
    }

    /// At the first duplicate acknowledgement.
    fn send_again(&mut self) {
        self.is_sent_again = true;
        self.window = (self.window / 2.0).max(2.0);
        self.free_ns = self.free_ns.max(self.now_ns) + self.path.packet_ns;
        self.note(self.now_ns, true, ACK, self.acked, SERVER + 1, SEGMENT);
        self.coming
            .push_back((self.free_ns + self.path.rtt_ns, self.next));
    }

    fn capture(mut self) -> Vec<Packet> {
        self.sent.sort_by_key(|packet| packet.at_ns);
        self.sent
    }
}
