//! Reads a capture packet by packet: pcap in both byte orders, with microseconds or nanoseconds, and pcapng, each also
//! compressed by gzip. The crate pcap-parser knows the formats.

use std::io::{Cursor, Read};

use flate2::read::MultiGzDecoder;
use pcap_parser::{
    Block, PcapBlockOwned, PcapError, create_reader,
    pcapng::InterfaceDescriptionBlock,
    traits::{PcapNGPacketBlock as _, PcapReaderIterator},
};

use crate::Error;

/// Most of what begins a file is shorter. It is read in one piece, however a pipe cuts it.
const HEAD_BYTES: u64 = 1 << 16;
/// All tools write shorter records of packets; if one claims to be longer, the file is damaged.
const RECORD_MOST: usize = 1 << 24;
const GZIP: [u8; 2] = [0x1f, 0x8b];
const NS_PER_S: u64 = 1_000_000_000;

/// A packet of a capture.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Nanoseconds since 1970; `None` if the format has no time for it.
    pub at_ns: Option<u64>,
    /// Bytes on the wire.
    pub length: usize,
    /// The captured bytes, from the link header on.
    pub data: &'a [u8],
    /// The link type, by the registry of pcap.
    pub link_type: i32,
    /// The number of the device, if the capture has several.
    pub device: u32,
}

/// How a capture ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With a packet.
    Whole,
    /// Within a packet, as after a killed capture, or the reader wanted no more.
    Cut,
    /// With other bytes than a packet's.
    Damaged,
}

/// A device of a pcapng file.
struct Device {
    link_type: i32,
    /// Units of its times in a second.
    units: u64,
    snap_length: u32,
}

impl Device {
    fn of(block: &InterfaceDescriptionBlock<'_>) -> Device {
        let power = u32::from(block.if_tsresol & 0x7f);
        let units = match block.if_tsresol & 0x80 {
            0 => 10_u64.checked_pow(power),
            _ => 1_u64.checked_shl(power),
        };
        Device {
            link_type: block.linktype.0,
            units: units.unwrap_or(NS_PER_S),
            snap_length: block.snaplen,
        }
    }

    fn ns(&self, high: u32, low: u32) -> u64 {
        let units = u128::from(u64::from(high) << 32 | u64::from(low));
        let ns = units * u128::from(NS_PER_S) / u128::from(self.units);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

/// The state of a file between two blocks.
#[derive(Default)]
struct Context {
    link_type: i32,
    /// Nanoseconds of a unit of a pcap's second part.
    unit_ns: u64,
    devices: Vec<Device>,
}

impl Context {
    /// The packet of a block; `None` if it has none.
    fn frame<'a>(&mut self, block: &'a PcapBlockOwned<'a>) -> Option<Frame<'a>> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                // The upper bits of the field say whether a checksum of Ethernet follows.
                self.link_type = header.network.0 & 0xffff;
                self.unit_ns = if header.is_nanosecond_precision() {
                    1
                } else {
                    1000
                };
                None
            }
            PcapBlockOwned::Legacy(packet) => Some(Frame {
                at_ns: Some(
                    u64::from(packet.ts_sec) * NS_PER_S + u64::from(packet.ts_usec) * self.unit_ns,
                ),
                length: packet.origlen as usize,
                data: packet.data,
                link_type: self.link_type,
                device: 0,
            }),
            PcapBlockOwned::NG(block) => self.of_ng(block),
        }
    }

    fn of_ng<'a>(&mut self, block: &'a Block<'a>) -> Option<Frame<'a>> {
        match block {
            Block::SectionHeader(_) => self.devices.clear(),
            Block::InterfaceDescription(block) => self.devices.push(Device::of(block)),
            Block::EnhancedPacket(packet) => {
                let device = self.devices.get(packet.if_id as usize)?;
                return Some(Frame {
                    at_ns: Some(device.ns(packet.ts_high, packet.ts_low)),
                    length: packet.origlen as usize,
                    data: packet.packet_data(),
                    link_type: device.link_type,
                    device: packet.if_id,
                });
            }
            Block::SimplePacket(packet) => {
                let device = self.devices.first()?;
                let most = match device.snap_length {
                    0 => packet.origlen,
                    snap => snap.min(packet.origlen),
                };
                return Some(Frame {
                    at_ns: None,
                    length: packet.origlen as usize,
                    data: packet.data.get(..most as usize).unwrap_or(packet.data),
                    link_type: device.link_type,
                    device: 0,
                });
            }
            _ => {}
        }
        None
    }
}

/// Calls `each` with the packets of a capture, in their order, as long as it returns true.
///
/// # Errors
/// The file cannot be read, or is no capture.
pub fn read(
    mut input: impl Read + Send,
    mut each: impl FnMut(&Frame<'_>) -> bool,
) -> Result<End, Error> {
    let mut head = Vec::new();
    input.by_ref().take(HEAD_BYTES).read_to_end(&mut head)?;
    if head.is_empty() {
        return Err(Error::Empty);
    }
    if head.starts_with(&GZIP) {
        let mut content = MultiGzDecoder::new(Cursor::new(head).chain(input));
        let mut head = Vec::new();
        content.by_ref().take(HEAD_BYTES).read_to_end(&mut head)?;
        return read_plain(head, content, &mut each);
    }
    read_plain(head, input, &mut each)
}

fn read_plain(
    head: Vec<u8>,
    input: impl Read + Send,
    each: &mut impl FnMut(&Frame<'_>) -> bool,
) -> Result<End, Error> {
    let room = head.len().max(HEAD_BYTES as usize) * 2;
    let whole = Cursor::new(head).chain(input);
    let mut reader = create_reader(room, whole).map_err(|error| match error {
        PcapError::Eof => Error::Empty,
        PcapError::Incomplete(_) => Error::Header,
        _ => Error::Format,
    })?;
    go_through(&mut *reader, room, each)
}

fn go_through(
    reader: &mut (dyn PcapReaderIterator + Send),
    mut room: usize,
    each: &mut impl FnMut(&Frame<'_>) -> bool,
) -> Result<End, Error> {
    let mut context = Context::default();
    let mut has_begun = false;
    loop {
        let step = match reader.next() {
            Ok((bytes, block)) => {
                has_begun = true;
                if context.frame(&block).is_some_and(|frame| !each(&frame)) {
                    return Ok(End::Cut);
                }
                Step::Consume(bytes)
            }
            Err(PcapError::Eof) => return Ok(End::Whole),
            Err(PcapError::UnexpectedEof) if has_begun => return Ok(End::Cut),
            Err(PcapError::UnexpectedEof) => return Err(Error::Header),
            Err(PcapError::Incomplete(_)) => Step::Refill,
            Err(PcapError::BufferTooSmall) => Step::Grow,
            Err(_) if has_begun => return Ok(End::Damaged),
            Err(_) => return Err(Error::Format),
        };
        match step {
            Step::Consume(bytes) => reader.consume(bytes),
            Step::Grow if room >= RECORD_MOST => return Ok(End::Damaged),
            step => {
                if step == Step::Grow {
                    room *= 2;
                    reader.grow(room);
                }
                reader.refill().map_err(|_| unreadable())?;
            }
        }
    }
}

/// What the reader needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Consume(usize),
    Refill,
    Grow,
}

/// pcap-parser does not say why.
fn unreadable() -> Error {
    Error::Input(std::io::Error::other("it cannot be read to its end"))
}
