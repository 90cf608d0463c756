//! As much of rtnetlink's traffic control as tcpilot needs: qdiscs as the kernel tells them, HTB's
//! classes, FIFOs, and a BPF filter for `tcpilot watch --fair`, and prio for `ack_priority_devices`.
//!
//! Not by tc(8): its text does not bring every qdisc back as it was, the messages do; it does not give a
//! filter a program that is nowhere pinned; and it would be started for every change.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, recv, send, socket};

/// The root of a device's qdiscs.
pub const ROOT: u32 = 0xffff_ffff;
/// Parent of what is done at a clsact qdisc's ingress, and the qdisc's own parent.
pub const CLSACT_INGRESS: u32 = 0xffff_fff2;
const CLSACT: u32 = 0xffff_fff1;

const NEW_QDISC: u16 = 36;
const DEL_QDISC: u16 = 37;
const GET_QDISC: u16 = 38;
const NEW_CLASS: u16 = 40;
const DEL_CLASS: u16 = 41;
const GET_CLASS: u16 = 42;
const NEW_FILTER: u16 = 44;
const DEL_FILTER: u16 = 45;
const GET_FILTER: u16 = 46;

const REQUEST: u16 = 1;
const ACK: u16 = 4;
const DUMP: u16 = 0x300;
const REPLACE: u16 = 0x100;
const EXCLUSIVE: u16 = 0x200;
const CREATE: u16 = 0x400;
const MSG_ERROR: u16 = 2;
const MSG_DONE: u16 = 3;

const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const HTB_PARMS: u16 = 1;
const HTB_INIT: u16 = 2;
const HTB_RATE64: u16 = 6;
const HTB_CEIL64: u16 = 7;
const BPF_CLASSID: u16 = 3;
const BPF_FD: u16 = 6;
const BPF_NAME: u16 = 7;
const BPF_FLAGS: u16 = 8;
const ACT_DIRECT: u32 = 1;
const ETH_P_ALL: u16 = 3;
/// tc-prio(8): three bands, and the band of each priority of a socket.
const PRIO_BANDS: u32 = 3;
const PRIO_BAND_OF: [u8; 16] = [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];
const HEADER: usize = 16;
const TCMSG: usize = 20;
/// The kernel's unit of time for buckets, nanoseconds.
const TICK_NS: u64 = 64;

/// A qdisc as the kernel told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qdisc {
    /// Its kind: `pfifo`, `htb`, …
    pub kind: String,
    /// Its handle; 0: the kernel put it there by itself.
    pub handle: u32,
    /// What it hangs on.
    pub parent: u32,
    /// Its parameters, as the kernel wants them back.
    pub options: Option<Vec<u8>>,
}

/// A class's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassStats {
    /// Its number below the qdisc's handle.
    pub minor: u16,
    /// That left.
    pub bytes: u64,
    /// That left.
    pub packets: u64,
    /// That wait.
    pub backlog_packets: u32,
    /// Dropped because the queue was full.
    pub drops: u32,
}

/// A class of HTB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HtbClass {
    /// Qdisc's or class's number.
    pub parent: u32,
    /// Its own.
    pub id: u32,
    /// Bytes per second that it has to itself.
    pub rate: u64,
    /// Bytes per second at most.
    pub ceiling: u64,
    /// Bytes at once, of either.
    pub burst: u32,
    /// Bytes per turn.
    pub quantum: u32,
    /// 0 is served first.
    pub priority: u32,
}

/// Attributes under construction.
#[derive(Default)]
struct Attributes(Vec<u8>);

impl Attributes {
    fn add(mut self, kind: u16, value: &[u8]) -> Self {
        let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    fn text(self, kind: u16, value: &str) -> Self {
        self.add(kind, &[value.as_bytes(), b"\0"].concat())
    }
}

fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes([*bytes.first()?, *bytes.get(1)?]));
        let kind = u16::from_ne_bytes([*bytes.get(2)?, *bytes.get(3)?]) & 0x3fff;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn attribute(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes).find_map(|(kind, value)| (kind == wanted).then_some(value))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..at + 4).and_then(|b| b.try_into().ok());
    u32::from_ne_bytes(word.unwrap_or_default())
}

/// `struct tcmsg`.
#[derive(Clone, Copy, Default)]
struct Place {
    ifindex: u32,
    handle: u32,
    parent: u32,
    info: u32,
}

/// One answer: its place, and its attributes.
type Answer = (Place, Vec<u8>);

/// Traffic control of one device, in the namespace that this was made in.
pub struct Device {
    socket: OwnedFd,
    ifindex: u32,
}

impl Device {
    /// The device of this index.
    ///
    /// # Errors
    /// No socket.
    pub fn new(ifindex: u32) -> io::Result<Device> {
        let kind = SocketType::RAW;
        let socket = socket(AddressFamily::NETLINK, kind, None)?; // NETLINK_ROUTE is 0
        Ok(Device { socket, ifindex })
    }

    /// Sends a message, and gives what comes back until its end.
    fn ask(&self, kind: u16, flags: u16, place: Place, attrs: &[u8]) -> io::Result<Vec<Answer>> {
        let length = u32::try_from(HEADER + TCMSG + attrs.len()).unwrap_or(0);
        let mut message = Vec::from(length.to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend((flags | REQUEST).to_ne_bytes());
        message.extend([0; 12]); // sequence and port; family
        for word in [self.ifindex, place.handle, place.parent, place.info] {
            message.extend(word.to_ne_bytes());
        }
        message.extend(attrs);
        send(&self.socket, &message, SendFlags::empty())?;
        let mut found = Vec::new();
        let mut buffer = vec![0u8; 1 << 16];
        loop {
            let (_, got) = recv(&self.socket, buffer.as_mut_slice(), RecvFlags::TRUNC)?;
            if got > buffer.len() {
                return Err(io::ErrorKind::InvalidData.into());
            }
            if take(buffer.get(..got).unwrap_or_default(), &mut found)? {
                found.retain(|(place, _)| place.ifindex == self.ifindex);
                return Ok(found);
            }
        }
    }

    fn tell(&self, kind: u16, flags: u16, place: Place, attrs: Attributes) -> io::Result<()> {
        self.ask(kind, flags | ACK, place, &attrs.0).map(|_| ())
    }

    fn at(parent: u32, handle: u32) -> Place {
        Place {
            parent,
            handle,
            ..Place::default()
        }
    }

    /// All of the device's.
    ///
    /// # Errors
    /// The kernel's.
    pub fn qdiscs(&self) -> io::Result<Vec<Qdisc>> {
        let answers = self.ask(GET_QDISC, DUMP, Place::default(), &[])?;
        let read = |(place, attrs): &Answer| Qdisc {
            kind: attribute(attrs, TCA_KIND).map(text).unwrap_or_default(),
            handle: place.handle,
            parent: place.parent,
            options: attribute(attrs, TCA_OPTIONS).map(<[u8]>::to_vec),
        };
        Ok(answers.iter().map(read).collect())
    }

    /// Puts a qdisc where it was told from, in place of what is there now.
    ///
    /// # Errors
    /// The kernel's.
    pub fn put(&self, qdisc: &Qdisc) -> io::Result<()> {
        let mut attrs = Attributes::default().text(TCA_KIND, &qdisc.kind);
        if let Some(options) = &qdisc.options {
            attrs = attrs.add(TCA_OPTIONS, options);
        }
        let place = Device::at(qdisc.parent, qdisc.handle);
        self.tell(NEW_QDISC, CREATE | REPLACE, place, attrs)
    }

    /// A prio at the root, as tc(8) makes it, unless somebody has put a qdisc there.
    ///
    /// # Errors
    /// The kernel's; EEXIST if there is one.
    pub fn add_prio(&self, handle: u32) -> io::Result<()> {
        let mut options = Vec::from(PRIO_BANDS.to_ne_bytes());
        options.extend(PRIO_BAND_OF);
        let attrs = Attributes::default()
            .text(TCA_KIND, "prio")
            .add(TCA_OPTIONS, &options);
        let place = Device::at(ROOT, handle);
        self.tell(NEW_QDISC, CREATE | EXCLUSIVE, place, attrs)
    }

    /// Takes the qdisc at `parent` away; at the root the kernel puts its default there.
    ///
    /// # Errors
    /// The kernel's.
    pub fn delete(&self, parent: u32) -> io::Result<()> {
        let place = Device::at(parent, 0);
        self.tell(DEL_QDISC, 0, place, Attributes::default())
    }

    /// An HTB at the root; what no filter takes goes to `default_minor`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn put_htb(&self, handle: u32, default_minor: u16) -> io::Result<()> {
        let words: [u32; 5] = [3, 10, default_minor.into(), 0, 0];
        let glob: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
        let options = Attributes::default().add(HTB_INIT, &glob).0;
        self.put(&Qdisc {
            kind: "htb".into(),
            handle,
            parent: ROOT,
            options: Some(options),
        })
    }

    /// Adds or changes a class.
    ///
    /// # Errors
    /// The kernel's.
    pub fn put_class(&self, class: &HtbClass) -> io::Result<()> {
        let mut parms = Vec::new();
        for rate in [class.rate, class.ceiling] {
            let short = u32::try_from(rate).unwrap_or(u32::MAX);
            parms.extend([0u8, 1, 0, 0, 0, 0, 0, 0]); // linklayer Ethernet: no table is wanted
            parms.extend(short.to_ne_bytes());
        }
        let ticks = |rate: u64| {
            let ns = u64::from(class.burst) * 1_000_000_000 / rate.max(1);
            u32::try_from(ns / TICK_NS).unwrap_or(u32::MAX).max(1)
        };
        let (own, most) = (ticks(class.rate), ticks(class.ceiling));
        for value in [own, most, class.quantum, 0, class.priority] {
            parms.extend(value.to_ne_bytes());
        }
        let mut options = Attributes::default().add(HTB_PARMS, &parms);
        for (kind, rate) in [(HTB_RATE64, class.rate), (HTB_CEIL64, class.ceiling)] {
            if rate > u64::from(u32::MAX) {
                options = options.add(kind, &rate.to_ne_bytes());
            }
        }
        let attrs = Attributes::default()
            .text(TCA_KIND, "htb")
            .add(TCA_OPTIONS, &options.0);
        let place = Device::at(class.parent, class.id);
        self.tell(NEW_CLASS, CREATE, place, attrs)
    }

    /// Takes a class away, with its queue.
    ///
    /// # Errors
    /// The kernel's.
    pub fn delete_class(&self, id: u32) -> io::Result<()> {
        let place = Device::at(0, id);
        self.tell(DEL_CLASS, 0, place, Attributes::default())
    }

    /// A FIFO of so many packets below a class, or its new length.
    ///
    /// # Errors
    /// The kernel's.
    pub fn put_fifo(&self, class: u32, handle: u32, packets: u32) -> io::Result<()> {
        self.put(&Qdisc {
            kind: "pfifo".into(),
            handle,
            parent: class,
            options: Some(packets.to_ne_bytes().into()),
        })
    }

    /// The counters of the classes of the root qdisc.
    ///
    /// # Errors
    /// The kernel's.
    pub fn class_stats(&self) -> io::Result<Vec<ClassStats>> {
        let answers = self.ask(GET_CLASS, DUMP, Place::default(), &[])?;
        Ok(answers.iter().filter_map(class_stats).collect())
    }

    /// A BPF filter that decides by itself, as the first one; `classid`: the major of its classes.
    ///
    /// # Errors
    /// The kernel's; EEXIST where somebody has a filter of this priority.
    pub fn put_filter(
        &self,
        parent: u32,
        priority: u16,
        program: BorrowedFd<'_>,
        classid: u32,
    ) -> io::Result<()> {
        let fd = std::os::fd::AsRawFd::as_raw_fd(&program.as_fd());
        let options = Attributes::default()
            .add(BPF_FD, &fd.to_ne_bytes())
            .text(BPF_NAME, "tcpilot")
            .add(BPF_CLASSID, &classid.to_ne_bytes())
            .add(BPF_FLAGS, &ACT_DIRECT.to_ne_bytes());
        let attrs = Attributes::default()
            .text(TCA_KIND, "bpf")
            .add(TCA_OPTIONS, &options.0);
        let place = filter_place(parent, priority);
        self.tell(NEW_FILTER, CREATE | EXCLUSIVE, place, attrs)
    }

    /// Takes the filter of this priority away.
    ///
    /// # Errors
    /// The kernel's.
    pub fn delete_filter(&self, parent: u32, priority: u16) -> io::Result<()> {
        let place = filter_place(parent, priority);
        self.tell(DEL_FILTER, 0, place, Attributes::default())
    }

    /// How many filters there are at `parent`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn count_filters(&self, parent: u32) -> io::Result<usize> {
        let place = Device::at(parent, 0);
        Ok(self.ask(GET_FILTER, DUMP, place, &[])?.len())
    }

    /// A clsact qdisc.
    ///
    /// # Errors
    /// The kernel's.
    pub fn put_clsact(&self) -> io::Result<()> {
        let attrs = Attributes::default().text(TCA_KIND, "clsact");
        let place = Device::at(CLSACT, 0xffff_0000);
        self.tell(NEW_QDISC, CREATE | EXCLUSIVE, place, attrs)
    }

    /// Takes the clsact qdisc away.
    ///
    /// # Errors
    /// The kernel's.
    pub fn delete_clsact(&self) -> io::Result<()> {
        let place = Device::at(CLSACT, 0xffff_0000);
        self.tell(DEL_QDISC, 0, place, Attributes::default())
    }
}

fn filter_place(parent: u32, priority: u16) -> Place {
    Place {
        parent,
        handle: 1,
        info: u32::from(priority) << 16 | u32::from(ETH_P_ALL.to_be()),
        ..Place::default()
    }
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}

fn class_stats((place, attrs): &Answer) -> Option<ClassStats> {
    let stats = attribute(attrs, TCA_STATS2)?;
    let basic = attribute(stats, TCA_STATS_BASIC)?;
    let queue = attribute(stats, TCA_STATS_QUEUE)?;
    Some(ClassStats {
        minor: (place.handle & 0xffff) as u16,
        bytes: u64::from(word(basic, 0)) | u64::from(word(basic, 4)) << 32,
        packets: word(basic, 8).into(),
        backlog_packets: word(queue, 0),
        drops: word(queue, 8),
    })
}

/// Takes the messages of one datagram; true at the end of the answer.
fn take(mut bytes: &[u8], found: &mut Vec<Answer>) -> io::Result<bool> {
    while bytes.len() >= HEADER {
        let length = word(bytes, 0) as usize;
        let message = bytes
            .get(HEADER..length)
            .ok_or(io::ErrorKind::InvalidData)?;
        match (word(bytes, 4) & 0xffff) as u16 {
            MSG_DONE => return Ok(true),
            MSG_ERROR => match word(message, 0) as i32 {
                0 => return Ok(true),
                code => return Err(io::Error::from_raw_os_error(-code)),
            },
            _ => {
                let place = Place {
                    ifindex: word(message, 4),
                    handle: word(message, 8),
                    parent: word(message, 12),
                    info: word(message, 16),
                };
                found.push((place, message.get(TCMSG..).unwrap_or_default().to_vec()));
            }
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_as_they_were_written() {
        let bytes = Attributes::default()
            .text(1, "htb")
            .add(7, &[1, 2, 3, 4, 5]);
        assert_eq!(bytes.0.len() % 4, 0);
        assert_eq!(attribute(&bytes.0, 1).map(text).as_deref(), Some("htb"));
        assert_eq!(attribute(&bytes.0, 7), Some(&[1, 2, 3, 4, 5][..]));
        assert_eq!(attribute(&bytes.0, 2), None);
    }

    #[test]
    fn a_short_attribute_ends_the_list() {
        let mut bytes = Attributes::default().add(1, &[9; 8]).0;
        bytes.truncate(10);
        assert_eq!(attribute(&bytes, 1), None);
    }

    #[test]
    fn an_error_of_the_kernel_is_one_of_ours() {
        let mut message = Vec::new();
        for word in [20u32, u32::from(MSG_ERROR), 0, 0, (-17i32) as u32] {
            message.extend(word.to_ne_bytes());
        }
        let error = take(&message, &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    }
}
