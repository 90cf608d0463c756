//! `--ipfix`: flow records for a collector, by IPFIX (RFC 7011) over UDP.
//!
//! A record is what a flow sent since its last record, with the group and the algorithm of now in fields of an
//! enterprise. A record is due each minute, when a flow is gone, and at the end. Templates are sent before the
//! first records and each minute, as RFC 7011, section 8.4, wants it over UDP.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tcpilot_show::failure::{Failure, Kind};

use super::views::View;
use crate::link::FlowView;

/// The version of IPFIX in the head of a message (RFC 7011, section 3.1).
const VERSION: u16 = 10;
/// The set of templates (section 3.3.2).
const TEMPLATES: u16 = 2;
/// Our templates' numbers, for IPv4 and IPv6.
const OF_IPV4: u16 = 256;
const OF_IPV6: u16 = 257;
/// With its headers a message fits into the least MTU of IPv6: section 10.3.3 wants no fragments.
const MESSAGE_MAX: usize = 1232;
/// Bytes of a message's head, and of a set's.
const HEAD: usize = 16;
const SET_HEAD: usize = 4;
/// Interval of a flow's records, and of templates.
const EVERY: Duration = Duration::from_secs(60);
/// Bytes of a word; longer ones are cut.
const WORD_MAX: usize = 63;
/// A field whose length stands before it (section 7).
const VARIABLE: u16 = 0xffff;
/// The bit of a field's number that an enterprise follows (section 3.2).
const OF_ENTERPRISE: u16 = 0x8000;

/// Why a record was sent: `flowEndReason` of IANA's registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Reason {
    ActiveTimeout = 2,
    EndOfFlow = 3,
    ForcedEnd = 4,
}

/// The numbers of the addresses, of IPv4 and IPv6, and their length.
const ADDRESSES: [[(u16, u16); 2]; 2] = [[(8, 4), (12, 4)], [(27, 16), (28, 16)]];

/// The fields behind them: numbers in IANA's registry (RFC 7012), and lengths.
const FIELDS: [(u16, u16); 11] = [
    (7, 2),         // sourceTransportPort
    (11, 2),        // destinationTransportPort
    (4, 1),         // protocolIdentifier
    (136, 1),       // flowEndReason
    (148, 8),       // flowId
    (152, 8),       // flowStartMilliseconds
    (153, 8),       // flowEndMilliseconds
    (1, 8),         // octetDeltaCount
    (2, 8),         // packetDeltaCount: collectors show a record without it as 0 packets
    (133, 8),       // droppedPacketDeltaCount
    (82, VARIABLE), // interfaceName
];

/// The enterprise's fields. docs/use/watch.md lists them.
const OURS: [(u16, u16); 5] = [
    (1, VARIABLE), // group
    (2, VARIABLE), // algorithm
    (3, 1),        // confidence of the group, percent
    (4, 4),        // least round trip, microseconds
    (5, VARIABLE), // protocol: QUIC has no number of its own
];

/// A flow's last state, and its exported part.
struct ExportedFlow {
    flow: FlowView,
    bytes: u64,
    packets: u32,
    drops: u32,
    since: Instant,
}

/// Sends records.
pub struct Exporter {
    socket: UdpSocket,
    enterprise: u32,
    known: HashMap<(String, u32), ExportedFlow>,
    /// Records sent so far; the head of a message has it.
    sequence: u32,
    templates_due: Instant,
    has_failed: bool,
}

impl Exporter {
    /// Opens a socket to a collector, `HOST:PORT`.
    ///
    /// # Errors
    /// The name is not known, or there is no way to it.
    pub fn open(collector: &str, enterprise: u32) -> Result<Exporter, Failure> {
        let cannot = |why: String| {
            let message = format!("cannot send to the IPFIX collector {collector}: {why}");
            Failure::new(Kind::Usage, message, "write HOST:PORT: 192.0.2.1:4739")
        };
        let found = collector.to_socket_addrs();
        let mut found = found.map_err(|error| cannot(error.to_string()))?;
        let address = found
            .next()
            .ok_or_else(|| cannot("it has no address".to_owned()))?;
        let any = match address {
            SocketAddr::V4(_) => "0.0.0.0:0",
            SocketAddr::V6(_) => "[::]:0",
        };
        let socket = UdpSocket::bind(any).and_then(|socket| {
            socket.connect(address)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        Ok(Exporter {
            socket: socket.map_err(|error| cannot(error.to_string()))?,
            enterprise,
            known: HashMap::new(),
            sequence: 0,
            templates_due: Instant::now(),
            has_failed: false,
        })
    }

    /// Takes the flows of a look at all devices, and sends the due records.
    pub fn look(&mut self, views: &[View], now: Instant, is_last: bool) {
        let unix_ms = unix_ms();
        let mut before = std::mem::take(&mut self.known);
        let mut records = Records::default();
        for flow in views.iter().flat_map(|view| &view.flows) {
            let id = (flow.device.clone(), flow.id);
            let mut known = before.remove(&id).unwrap_or_else(|| ExportedFlow {
                flow: flow.clone(),
                bytes: 0,
                packets: 0,
                drops: 0,
                since: now,
            });
            known.flow = flow.clone();
            let is_due = now.duration_since(known.since) >= EVERY;
            if is_last || is_due {
                let reason = match is_last {
                    true => Reason::ForcedEnd,
                    false => Reason::ActiveTimeout,
                };
                records.add(&mut known, reason, unix_ms);
                known.since = now;
            }
            self.known.insert(id, known);
        }
        for known in before.values_mut() {
            records.add(known, Reason::EndOfFlow, unix_ms);
        }
        self.send(records, now, unix_ms);
    }

    fn send(&mut self, records: Records, now: Instant, unix_ms: u64) {
        let export_s = (unix_ms / 1000) as u32;
        if now >= self.templates_due {
            self.templates_due = now + EVERY;
            let set = set(TEMPLATES, &templates(self.enterprise));
            self.send_message(&set, 0, export_s);
        }
        for (template, of_family) in [(OF_IPV4, records.ipv4), (OF_IPV6, records.ipv6)] {
            let (mut body, mut count) = (Vec::new(), 0);
            for record in of_family {
                if HEAD + SET_HEAD + body.len() + record.len() > MESSAGE_MAX {
                    self.send_message(&set(template, &body), count, export_s);
                    (body, count) = (Vec::new(), 0);
                }
                body.extend(record);
                count += 1;
            }
            if count > 0 {
                self.send_message(&set(template, &body), count, export_s);
            }
        }
    }

    fn send_message(&mut self, set: &[u8], records: u32, export_s: u32) {
        let bytes = message(set, self.sequence, export_s);
        self.sequence = self.sequence.wrapping_add(records);
        match self.socket.send(&bytes) {
            Err(error) if !self.has_failed => {
                tracing::warn!("the IPFIX collector cannot be reached: {error}");
                self.has_failed = true;
            }
            Err(_) => {}
            Ok(_) => self.has_failed = false,
        }
    }
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| time.as_millis() as u64)
}

/// A message with one set. The domain of observation is 0: the whole host.
fn message(set: &[u8], sequence: u32, export_s: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD + set.len());
    out.extend(VERSION.to_be_bytes());
    out.extend(((HEAD + set.len()) as u16).to_be_bytes());
    out.extend(export_s.to_be_bytes());
    out.extend(sequence.to_be_bytes());
    out.extend(0u32.to_be_bytes());
    out.extend(set);
    out
}

fn set(id: u16, body: &[u8]) -> Vec<u8> {
    let mut out = id.to_be_bytes().to_vec();
    out.extend(((SET_HEAD + body.len()) as u16).to_be_bytes());
    out.extend(body);
    out
}

/// Both templates.
fn templates(enterprise: u32) -> Vec<u8> {
    let mut out = Vec::new();
    for (id, addresses) in [OF_IPV4, OF_IPV6].into_iter().zip(ADDRESSES) {
        let count = addresses.len() + FIELDS.len() + OURS.len();
        out.extend(id.to_be_bytes());
        out.extend((count as u16).to_be_bytes());
        for (number, length) in addresses.into_iter().chain(FIELDS) {
            out.extend(number.to_be_bytes());
            out.extend(length.to_be_bytes());
        }
        for (number, length) in OURS {
            out.extend((number | OF_ENTERPRISE).to_be_bytes());
            out.extend(length.to_be_bytes());
            out.extend(enterprise.to_be_bytes());
        }
    }
    out
}

/// Records by family.
#[derive(Default)]
struct Records {
    ipv4: Vec<Vec<u8>>,
    ipv6: Vec<Vec<u8>>,
}

impl Records {
    /// Adds a record of a flow's changes since its last one.
    fn add(&mut self, known: &mut ExportedFlow, reason: Reason, unix_ms: u64) {
        let flow = &known.flow;
        let Some((from, to)) = endpoints(&flow.flow) else {
            return;
        };
        let mut out = Vec::with_capacity(128);
        for address in [from, to] {
            match address.ip() {
                IpAddr::V4(v4) => out.extend(v4.octets()),
                IpAddr::V6(v6) => out.extend(v6.octets()),
            }
        }
        out.extend(from.port().to_be_bytes());
        out.extend(to.port().to_be_bytes());
        out.extend([flow.protocol.number(), reason as u8]);
        out.extend(u64::from(flow.id).to_be_bytes());
        let age_ms = (flow.age_s * 1000.0) as u64;
        out.extend(unix_ms.saturating_sub(age_ms).to_be_bytes());
        out.extend(unix_ms.to_be_bytes());
        out.extend(flow.bytes.saturating_sub(known.bytes).to_be_bytes());
        let packets = flow.packets.wrapping_sub(known.packets);
        out.extend(u64::from(packets).to_be_bytes());
        let drops = flow.drops.saturating_sub(known.drops);
        out.extend(u64::from(drops).to_be_bytes());
        add_word(&mut out, &flow.device);
        add_word(&mut out, flow.group.word());
        add_word(&mut out, flow.algorithm.as_deref().unwrap_or_default());
        out.push((flow.group_confidence.unwrap_or(0.0) * 100.0).round() as u8);
        out.extend(flow.min_rtt_us.unwrap_or(0).to_be_bytes());
        add_word(&mut out, flow.protocol.word());
        (known.bytes, known.packets, known.drops) = (flow.bytes, flow.packets, flow.drops);
        match from.is_ipv4() {
            true => self.ipv4.push(out),
            false => self.ipv6.push(out),
        }
    }
}

/// A field of variable length: its length, and its bytes.
fn add_word(out: &mut Vec<u8>, word: &str) {
    let bytes = word.as_bytes();
    let bytes = bytes.get(..WORD_MAX).unwrap_or(bytes);
    out.push(bytes.len() as u8);
    out.extend(bytes);
}

/// The ends of a flow, from its name.
fn endpoints(flow: &str) -> Option<(SocketAddr, SocketAddr)> {
    let (from, to) = flow.split_once(" > ")?;
    Some((from.parse().ok()?, to.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Protocol;

    fn receiver() -> (UdpSocket, Exporter) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let address = socket.local_addr().unwrap().to_string();
        (socket, Exporter::open(&address, 32473).unwrap())
    }

    fn next(socket: &UdpSocket) -> Vec<u8> {
        let mut bytes = [0; 2000];
        let count = socket.recv(&mut bytes).unwrap();
        bytes[..count].to_vec()
    }

    fn number(bytes: &[u8]) -> u64 {
        bytes
            .iter()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    }

    /// Sequence number, number of the set, and its body.
    fn opened(message: &[u8]) -> (u64, u64, Vec<u8>) {
        assert_eq!(number(&message[..2]), 10);
        assert_eq!(number(&message[2..4]) as usize, message.len());
        assert_eq!(
            number(&message[18..20]) as usize,
            message.len() - HEAD,
            "one set"
        );
        (
            number(&message[8..12]),
            number(&message[16..18]),
            message[20..].to_vec(),
        )
    }

    fn flow(id: u32, bytes: u64) -> FlowView {
        FlowView {
            bytes,
            packets: (bytes / 100) as u32,
            protocol: Protocol::Quic,
            ..FlowView::example(id)
        }
    }

    #[test]
    fn records_have_increments_and_templates_come_first() {
        let (socket, mut exporter) = receiver();
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        exporter.look(&[View::example(vec![flow(1, 500)])], at(0), false);
        let (_, set, templates) = opened(&next(&socket));
        assert_eq!((set, number(&templates[..4])), (2, 256 << 16 | 18));
        exporter.look(&[View::example(vec![flow(1, 700)])], at(60), false);
        let (sequence, set, _) = opened(&next(&socket));
        assert_eq!((sequence, set), (0, 2), "again after a minute");
        let (sequence, set, record) = opened(&next(&socket));
        assert_eq!((sequence, set), (0, 256));
        assert_eq!(record[..4], [192, 0, 2, 1]);
        assert_eq!((record[12], record[13]), (17, Reason::ActiveTimeout as u8));
        assert_eq!(number(&record[38..46]), 700);
        assert_eq!(number(&record[46..54]), 7, "packets");
        exporter.look(&[View::example(vec![])], at(61), false);
        let (sequence, _, record) = opened(&next(&socket));
        assert_eq!((sequence, record[13]), (1, Reason::EndOfFlow as u8));
        assert_eq!(number(&record[38..46]), 0);
        assert_eq!(&record[62..67], b"\x04eth0");
        assert_eq!(&record[record.len() - 5..], b"\x04quic");
    }

    #[test]
    fn many_records_are_divided_into_messages_that_fit() {
        let (socket, mut exporter) = receiver();
        let flows = (1..=40).map(|id| flow(id, 1)).collect();
        exporter.look(&[View::example(flows)], Instant::now(), true);
        next(&socket);
        let (mut records, mut messages) = (0, 0);
        while records < 40 {
            let message = next(&socket);
            assert!(message.len() <= MESSAGE_MAX);
            let (sequence, _, body) = opened(&message);
            assert_eq!(sequence, records);
            records += (body.len() / 85) as u64;
            messages += 1;
        }
        assert!((2..5).contains(&messages), "{messages}");
    }
}
