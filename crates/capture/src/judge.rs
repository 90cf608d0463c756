//! The programs of the watch, compiled for the host, as one object; only one exists at a time.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tcpilot_abi::{
    TP_FLOW_BUSY, TP_WATCH_ABI_VERSION, tp_model, tp_watch_config, tp_watch_flow, tp_watch_key,
    tp_watch_totals,
};
use tcpilot_core::model::Model;

use crate::{
    Error, Frame,
    link::{Network, Without, network},
};

/// The first packet's time, for the programs: 0 means "not known" to them in many places.
const BEGIN_NS: u64 = 1_000_000_000_000;
/// The link header is shorter than this in every frame whose link type is known.
const LINK_HEADER_MOST: usize = 64;
/// No packet is longer: a super-packet with the 32 bits of its own length field in the kernel.
const PACKET_MOST: usize = 1 << 24;

/// A packet, as capture.c has it.
#[repr(C)]
struct Captured {
    data: *const u8,
    at_ns: u64,
    bytes: u32,
    length: u32,
    network_at: u32,
    device: u32,
    protocol: u16,
    pad: [u16; 3],
}

// native/capture.c describes each.
unsafe extern "C" {
    fn tp_capture_start(
        config: *const tp_watch_config,
        tcp: *const tp_model,
        extrapolation: *const tp_model,
        quic: *const tp_model,
    ) -> i32;
    fn tp_capture_stop();
    fn tp_capture_packet(captured: *const Captured) -> i32;
    fn tp_capture_flow(place: u32) -> *const tp_watch_flow;
    fn tp_capture_totals(to: *mut tp_watch_totals);
    fn tp_capture_queue_us(key: *const tp_watch_key) -> u32;
}

/// The programs have their tables in global variables.
static ONLY: Mutex<()> = Mutex::new(());

/// The options of a judge.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// `TP_CLASSIFIER_…`
    pub classifier: u32,
    /// Also judge flows whose acknowledgements are not in the capture.
    pub one_way: bool,
    /// Also list other UDP than QUIC.
    pub udp: bool,
    /// Room for so many flows.
    pub flows_max: u32,
}

/// What became of the packets of a capture. Each counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All of them.
    pub packets: u64,
    /// Packets of TCP and UDP, taken by the programs.
    pub taken: u64,
    /// IP, but neither TCP nor UDP, or with contradictory headers.
    pub other: u64,
    /// Not IP: ARP, MPLS, control packets of PPPoE.
    pub not_ip: u64,
    /// Fragments behind the first.
    pub fragments: u64,
    /// Headers cut off by the capture.
    pub cut: u64,
    /// An unknown link type.
    pub other_link: u64,
    /// Without a time.
    pub timeless: u64,
    /// Copies of flows' packets at another device of the same capture.
    pub elsewhere: u64,
    /// Packets with a time before an earlier packet's. They are taken at its time.
    pub backward: u64,
}

/// The programs at work.
pub struct Judge {
    _only: MutexGuard<'static, ()>,
    places: u32,
    first_ns: Option<u64>,
    now_ns: u64,
    counts: Counts,
}

impl Judge {
    /// Begins with empty tables. If another judge works in this process, waits for its end.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn start(
        options: &Options,
        tcp: &Model,
        extrapolation: &Model,
        quic: &Model,
    ) -> Result<Judge, Error> {
        let only = ONLY.lock().unwrap_or_else(PoisonError::into_inner);
        let config = configuration(options);
        // SAFETY: the pointers are those of live values, and this is the only judge.
        let result = unsafe {
            tp_capture_start(
                &raw const config,
                &raw const *tcp.in_kernel,
                &raw const *extrapolation.in_kernel,
                &raw const *quic.in_kernel,
            )
        };
        if result != 0 {
            return Err(Error::Memory);
        }
        Ok(Judge {
            _only: only,
            places: options.flows_max,
            first_ns: None,
            now_ns: BEGIN_NS,
            counts: Counts::default(),
        })
    }

    /// Takes a packet, unless it comes so long after the first; then false.
    pub fn take_until(&mut self, frame: &Frame<'_>, most_ns: u64) -> bool {
        let first_ns = self.first_ns.or(frame.at_ns);
        let passed_ns = frame
            .at_ns
            .zip(first_ns)
            .map(|(now, first)| now.saturating_sub(first));
        if passed_ns.is_some_and(|passed_ns| passed_ns > most_ns) {
            return false;
        }
        self.take(frame);
        true
    }

    /// Takes a packet.
    pub fn take(&mut self, frame: &Frame<'_>) {
        self.counts.packets += 1;
        let found = network(frame.link_type, frame.data);
        let Some(at_ns) = frame.at_ns else {
            self.counts.timeless += 1;
            return;
        };
        self.follow(at_ns);
        match found {
            Err(Without::LinkType) => self.counts.other_link += 1,
            Err(Without::OtherProtocol) => self.counts.not_ip += 1,
            Err(Without::Cut) => self.counts.cut += 1,
            Ok(network) if network.is_fragment => self.counts.fragments += 1,
            Ok(network) => self.give(frame, &network),
        }
    }

    /// The time goes on, and never back.
    fn follow(&mut self, at_ns: u64) {
        let first_ns = *self.first_ns.get_or_insert(at_ns);
        let now_ns = at_ns.saturating_sub(first_ns).saturating_add(BEGIN_NS);
        // A few years are enough, and far from where sums would wrap.
        let now_ns = now_ns.min(u64::MAX / 8);
        if now_ns < self.now_ns || at_ns < first_ns {
            self.counts.backward += 1;
        }
        self.now_ns = self.now_ns.max(now_ns);
    }

    fn give(&mut self, frame: &Frame<'_>, network: &Network) {
        // A trailer of the link is no part of the packet. A super-packet may be too long for its own length field.
        let whole = frame.length.max(frame.data.len());
        let length = network.length.filter(|end| *end <= whole).unwrap_or(whole);
        if network.at > LINK_HEADER_MOST || length > PACKET_MOST || length < network.at {
            self.counts.other += 1;
            return;
        }
        let data = frame.data.get(..length).unwrap_or(frame.data);
        let captured = Captured {
            data: data.as_ptr(),
            at_ns: self.now_ns,
            bytes: data.len() as u32,
            length: length as u32,
            network_at: network.at as u32,
            device: network.device.unwrap_or(frame.device),
            protocol: network.protocol,
            pad: [0; 3],
        };
        // SAFETY: `data` outlives the call, and the guard makes this the only one.
        match unsafe { tp_capture_packet(&raw const captured) } {
            0 => self.counts.taken += 1,
            2 => self.counts.cut += 1,
            3 => self.counts.elsewhere += 1,
            _ => self.counts.other += 1,
        }
    }

    /// What became of the packets.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The programs' own counts.
    pub fn totals(&self) -> tp_watch_totals {
        let mut totals = tp_watch_totals::default();
        // SAFETY: `totals` is writable, and nothing else runs the programs.
        unsafe { tp_capture_totals(&raw mut totals) };
        totals
    }

    /// The present, as the programs have it in `seen_ns` and other fields of a flow.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// The time from the first packet to the last one.
    pub fn passed_ns(&self) -> u64 {
        self.now_ns - BEGIN_NS
    }

    /// Every flow in the table.
    pub fn flows(&self) -> impl Iterator<Item = tp_watch_flow> + '_ {
        (0..self.places).filter_map(|place| {
            // SAFETY: the programs bound the place, and no packet comes while this is borrowed.
            let flow = unsafe { tp_capture_flow(place).as_ref() }?;
            (![0, TP_FLOW_BUSY].contains(&flow.id)).then_some(*flow)
        })
    }

    /// The longest recent wait of flows to this one's destination, in microseconds.
    pub fn queue_us(&self, key: &tp_watch_key) -> u32 {
        // SAFETY: the key outlives the call.
        unsafe { tp_capture_queue_us(key) }
    }
}

impl Drop for Judge {
    fn drop(&mut self) {
        // SAFETY: nothing points into the tables any more, and the guard is still held.
        unsafe { tp_capture_stop() };
    }
}

fn configuration(options: &Options) -> tp_watch_config {
    tp_watch_config {
        abi_version: TP_WATCH_ABI_VERSION,
        classifier: options.classifier,
        one_way: options.one_way.into(),
        udp: options.udp.into(),
        sojourns: options.flows_max.next_power_of_two(),
        flows: options.flows_max,
        buckets: options.flows_max.div_ceil(2).next_power_of_two(),
        processors: 1,
        // The same at each reading. A capture aimed at one bucket loses only flows of its own.
        secrets: std::array::from_fn(|number| {
            (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        }),
        ..tp_watch_config::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a parser makes of a packet, as capture.c has it.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    struct Parsed {
        result: u32,
        payload: u32,
        packets: u32,
        bytes: u32,
        version: u32,
        ports: [u16; 2],
        protocol: u8,
        flags: u8,
        id_length: u8,
        pad: u8,
    }

    unsafe extern "C" {
        fn tp_capture_parse(captured: *const Captured, is_by_pieces: u32, to: *mut Parsed);
    }

    const ETHERNET: usize = 14;
    const PPPOE: usize = 8;
    const TCP: u8 = 6;
    const UDP: u8 = 17;
    const OTHER: u32 = 1;

    /// A frame with so many bytes from the IP header on, whose own length field is another one.
    struct Frame {
        version: u8,
        protocol: u8,
        field: u16,
        bytes: usize,
    }

    /// protocol: of Ethernet.
    fn parsed(data: &[u8], length: usize, protocol: u16, is_by_pieces: bool) -> Parsed {
        let mut parsed = Parsed::default();
        let captured = Captured {
            data: data.as_ptr(),
            at_ns: 0,
            bytes: data.len() as u32,
            length: length as u32,
            network_at: ETHERNET as u32,
            device: 1,
            protocol,
            pad: [0; 3],
        };
        let _only = ONLY.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: both outlive the call, and the guard makes this the only one.
        unsafe { tp_capture_parse(&raw const captured, is_by_pieces.into(), &raw mut parsed) };
        parsed
    }

    impl Frame {
        fn ip_header(&self) -> usize {
            if self.version == 4 { 20 } else { 40 }
        }

        fn written(&self) -> Vec<u8> {
            let [high, low] = self.field.to_be_bytes();
            let mut bytes = vec![0; ETHERNET];
            if self.version == 4 {
                bytes.extend([0x45, 0, high, low, 0, 0, 0x40, 0, 64, self.protocol, 0, 0]);
                bytes.extend([10, 0, 0, 1, 10, 0, 0, 2]);
            } else {
                bytes.extend([0x60, 0, 0, 0, high, low, self.protocol, 64]);
                bytes.extend((1..=32).collect::<Vec<u8>>());
            }
            bytes.extend([3, 232, 7, 208]); // ports 1000 and 2000
            bytes.extend([0xc1, 2, 3, 4, 5, 6, 7, 8, 0x50, 0x10, 9, 9, 9, 9, 0, 0]);
            bytes.resize(ETHERNET + self.bytes.max(self.ip_header() + 20), 0xee);
            bytes
        }

        fn parsed(&self, is_by_pieces: bool) -> Parsed {
            let protocol = if self.version == 4 { 0x0800 } else { 0x86dd };
            let length = ETHERNET + self.bytes;
            parsed(&self.written(), length, protocol, is_by_pieces)
        }

        /// The same in a session of PPPoE.
        fn parsed_in_pppoe(&self, code: u8) -> Parsed {
            let (mut data, length) = (self.written(), ETHERNET + PPPOE + self.bytes);
            let of_ppp = if self.version == 4 { 0x21 } else { 0x57 };
            let header = [0x11, code, 0, 7, 0, 0, 0, of_ppp];
            data.splice(ETHERNET..ETHERNET, header);
            parsed(&data, length, 0x8864, false)
        }

        /// The payload by the length fields; `None`: there is no whole header.
        fn payload(&self) -> Option<u32> {
            let field = usize::from(self.field);
            let above = match (self.version, field) {
                (_, 0) => usize::MAX, // not given
                (4, _) => field.saturating_sub(20),
                _ => field,
            };
            let in_frame = self.bytes.checked_sub(self.ip_header())?;
            // Only a short frame is padded.
            let length = if in_frame < 64 {
                above.min(in_frame)
            } else {
                in_frame
            };
            let header = if self.protocol == TCP { 20 } else { 8 };
            length.checked_sub(header).map(|bytes| bytes as u32)
        }
    }

    #[test]
    fn parsers_agree_at_every_short_length() {
        for (version, protocol) in [(4, TCP), (4, UDP), (6, TCP), (6, UDP)] {
            for field in 0..=100 {
                for bytes in 0..=130 {
                    let frame = Frame {
                        version,
                        protocol,
                        field,
                        bytes,
                    };
                    let what = format!("IPv{version}, {protocol}, {field} in {bytes}");
                    let (usual, pieces) = (frame.parsed(false), frame.parsed(true));
                    assert_eq!(usual, pieces, "{what}");
                    match frame.payload() {
                        Some(payload) => {
                            assert_eq!((usual.result, usual.payload), (0, payload), "{what}");
                        }
                        None => assert_eq!(usual.result, OTHER, "{what}"),
                    }
                }
            }
        }
    }

    #[test]
    fn pppoe_sessions_are_parsed_as_ip() {
        for (version, protocol) in [(4, TCP), (4, UDP), (6, TCP), (6, UDP)] {
            let frame = Frame {
                version,
                protocol,
                field: 1400,
                bytes: 1400 + if version == 4 { 0 } else { 40 },
            };
            let (plain, inside) = (frame.parsed(false), frame.parsed_in_pppoe(0));
            let expected = Parsed {
                bytes: plain.bytes + PPPOE as u32,
                ..plain
            };
            assert_eq!((plain.result, inside), (0, expected));
            // Discovery (RFC 2516, section 5) carries no IP.
            assert_eq!(frame.parsed_in_pppoe(0x65).result, OTHER);
        }
    }
}
