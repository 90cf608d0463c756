//! Traffic control by rtnetlink: qdiscs as the kernel describes them, prio for `ack_priority_devices`, and the
//! counters of queues. `fair` has the classes, queues and filters of `tcpilot watch --fair`.
//!
//! tc(8) would not do: its text cannot restore every qdisc exactly, but the messages can. It cannot give a
//! filter an unpinned program. And each change would start a process.

use std::io;

use libc::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, RTM_DELQDISC, RTM_GETQDISC,
    RTM_GETTCLASS, RTM_NEWQDISC, TCA_KIND, TCA_OPTIONS, TCA_STATS2,
};

use crate::{Attributes, Question, Socket, Subsystem, attribute, text, u32_at, u64_at};

mod fair;
pub use fair::{CLSACT_INGRESS, HtbClass};

/// The root of a device's qdiscs.
pub const ROOT: u32 = 0xffff_ffff;

// linux/gen_stats.h; libc has none of these.
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_STATS_APP: u16 = 4;
/// tc-prio(8): three bands, and the band of each priority of a socket.
const PRIO_BANDS: u32 = 3;
const PRIO_BAND_OF: [u8; 16] = [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];
/// `struct tcmsg`.
const TCMSG_BYTES: usize = 20;

/// A qdisc as the kernel describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qdisc {
    /// Its kind: `pfifo`, `htb`, …
    pub kind: String,
    /// Its handle; 0: the kernel put it there itself.
    pub handle: u32,
    /// Its parent.
    pub parent: u32,
    /// Its parameters, in the kernel's form.
    pub options: Option<Vec<u8>>,
}

/// The counters of a qdisc or class since it was made, and its queue now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes out of it.
    pub bytes: u64,
    /// Packets out of it.
    pub packets: u32,
    /// Bytes waiting.
    pub backlog_bytes: u32,
    /// Packets waiting.
    pub backlog_packets: u32,
    /// Packets dropped.
    pub drops: u32,
    /// The counts of its kind (`struct tc_KIND_xstats`).
    pub own: Vec<u8>,
}

/// A class's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassStats {
    /// Its number below the qdisc's handle.
    pub minor: u16,
    /// Bytes out of it.
    pub bytes: u64,
    /// Packets out of it.
    pub packets: u64,
    /// Packets waiting.
    pub backlog_packets: u32,
    /// Packets dropped because the queue was full.
    pub drops: u32,
}

/// `struct tcmsg`.
#[derive(Clone, Copy, Default)]
struct TcMessage {
    ifindex: u32,
    handle: u32,
    parent: u32,
    info: u32,
}

impl TcMessage {
    fn bytes(self, ifindex: u32) -> [u8; TCMSG_BYTES] {
        let mut bytes = [0; TCMSG_BYTES]; // the first word: the family, and padding
        let words = [ifindex, self.handle, self.parent, self.info];
        for (to, word) in bytes[4..].chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    fn read(body: &[u8]) -> Option<TcMessage> {
        Some(TcMessage {
            ifindex: u32_at(body, 4)?,
            handle: u32_at(body, 8)?,
            parent: u32_at(body, 12)?,
            info: u32_at(body, 16)?,
        })
    }
}

/// One answer: its place, and its attributes.
type Answer = (TcMessage, Vec<u8>);

/// Traffic control of one device, in the network namespace of its making.
#[derive(Debug)]
pub struct Device {
    socket: Socket,
    ifindex: u32,
}

impl Device {
    /// The device with this index.
    ///
    /// # Errors
    /// No socket could be opened.
    pub fn new(ifindex: u32) -> io::Result<Device> {
        let socket = Socket::open(Subsystem::Route)?;
        Ok(Device { socket, ifindex })
    }

    /// Asks about this device, and returns the messages about it.
    fn ask(
        &self,
        kind: u16,
        flags: i32,
        place: TcMessage,
        attrs: &[u8],
    ) -> io::Result<Vec<Answer>> {
        let question = Question {
            kind,
            flags,
            fixed: &place.bytes(self.ifindex),
            attributes: attrs,
        };
        let mut found = Vec::new();
        self.socket.ask(&question, |body| {
            let attrs = body.get(TCMSG_BYTES..).unwrap_or_default();
            // The kernel dumps the qdiscs of all devices.
            if let Some(place) = TcMessage::read(body).filter(|at| at.ifindex == self.ifindex) {
                found.push((place, attrs.to_vec()));
            }
        })?;
        Ok(found)
    }

    fn tell(&self, kind: u16, flags: i32, place: TcMessage, attrs: &Attributes) -> io::Result<()> {
        self.ask(kind, flags | NLM_F_ACK, place, attrs.bytes())
            .map(drop)
    }

    fn at(parent: u32, handle: u32) -> TcMessage {
        TcMessage {
            parent,
            handle,
            ..TcMessage::default()
        }
    }

    /// All qdiscs of the device.
    ///
    /// # Errors
    /// The kernel's.
    pub fn qdiscs(&self) -> io::Result<Vec<Qdisc>> {
        let answers = self.ask(RTM_GETQDISC, NLM_F_DUMP, TcMessage::default(), &[])?;
        let read = |(place, attrs): &Answer| Qdisc {
            kind: attribute(attrs, TCA_KIND).map(text).unwrap_or_default(),
            handle: place.handle,
            parent: place.parent,
            options: attribute(attrs, TCA_OPTIONS).map(<[u8]>::to_vec),
        };
        Ok(answers.iter().map(read).collect())
    }

    /// The kind and the counters of the qdisc with this handle; `None` if there is none.
    ///
    /// # Errors
    /// The kernel's.
    pub fn qdisc_stats(&self, handle: u32) -> io::Result<Option<(String, Stats)>> {
        let answers = self.ask(RTM_GETQDISC, NLM_F_DUMP, TcMessage::default(), &[])?;
        let wanted = |(place, attrs): &Answer| {
            let kind = text(attribute(attrs, TCA_KIND)?);
            (place.handle == handle).then_some((kind, stats(attrs)?))
        };
        Ok(answers.iter().find_map(wanted))
    }

    /// Kind, handle and counters of the root qdisc; `None` if there is none.
    ///
    /// # Errors
    /// The kernel's.
    pub fn root_stats(&self) -> io::Result<Option<(String, u32, Stats)>> {
        let answers = self.ask(RTM_GETQDISC, NLM_F_DUMP, TcMessage::default(), &[])?;
        let wanted = |(place, attrs): &Answer| {
            let kind = text(attribute(attrs, TCA_KIND)?);
            (place.parent == ROOT).then_some((kind, place.handle, stats(attrs)?))
        };
        Ok(answers.iter().find_map(wanted))
    }

    /// Puts a qdisc back at its former place, instead of the present one.
    ///
    /// # Errors
    /// The kernel's.
    pub fn put(&self, qdisc: &Qdisc) -> io::Result<()> {
        let mut attrs = Attributes::default().text(TCA_KIND, &qdisc.kind);
        if let Some(options) = &qdisc.options {
            attrs = attrs.add(TCA_OPTIONS, options);
        }
        let place = Device::at(qdisc.parent, qdisc.handle);
        self.tell(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, place, &attrs)
    }

    /// Adds a prio at the root, as tc(8) makes it, unless somebody has put a qdisc there.
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
        self.tell(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, place, &attrs)
    }

    /// Removes the qdisc at `parent`; at the root the kernel puts its default there.
    ///
    /// # Errors
    /// The kernel's.
    pub fn delete(&self, parent: u32) -> io::Result<()> {
        let place = Device::at(parent, 0);
        self.tell(RTM_DELQDISC, 0, place, &Attributes::default())
    }

    /// The counters of the classes of the root qdisc.
    ///
    /// # Errors
    /// The kernel's.
    pub fn class_stats(&self) -> io::Result<Vec<ClassStats>> {
        let answers = self.ask(RTM_GETTCLASS, NLM_F_DUMP, TcMessage::default(), &[])?;
        Ok(answers.iter().filter_map(class_stats).collect())
    }
}

/// The counters of a message about a qdisc or class (linux/gen_stats.h).
fn stats(attrs: &[u8]) -> Option<Stats> {
    let stats = attribute(attrs, TCA_STATS2)?;
    let basic = attribute(stats, TCA_STATS_BASIC)?;
    let queue = attribute(stats, TCA_STATS_QUEUE)?;
    Some(Stats {
        bytes: u64_at(basic, 0)?,
        packets: u32_at(basic, 8)?,
        backlog_packets: u32_at(queue, 0)?,
        backlog_bytes: u32_at(queue, 4)?,
        drops: u32_at(queue, 8)?,
        own: attribute(stats, TCA_STATS_APP).unwrap_or_default().into(),
    })
}

fn class_stats((place, attrs): &Answer) -> Option<ClassStats> {
    let stats = stats(attrs)?;
    Some(ClassStats {
        minor: (place.handle & 0xffff) as u16,
        bytes: stats.bytes,
        packets: stats.packets.into(),
        backlog_packets: stats.backlog_packets,
        drops: stats.drops,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(values: &[u32]) -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_ne_bytes())
            .collect()
    }

    fn described() -> Attributes {
        let basic = [&9000u64.to_ne_bytes()[..], &words(&[6, 0])].concat();
        let stats = Attributes::default()
            .add(TCA_STATS_BASIC, &basic)
            .add(TCA_STATS_QUEUE, &words(&[2, 3000, 5, 0, 0]))
            .add(TCA_STATS_APP, &words(&[0, 1514, 0, 7]));
        Attributes::default()
            .text(TCA_KIND, "fq_codel")
            .add(TCA_STATS2, stats.bytes())
    }

    #[test]
    fn qdisc_counters_match_kernel_layout() {
        let expected = Stats {
            bytes: 9000,
            packets: 6,
            backlog_bytes: 3000,
            backlog_packets: 2,
            drops: 5,
            own: words(&[0, 1514, 0, 7]),
        };
        assert_eq!(stats(described().bytes()), Some(expected));
    }

    #[test]
    fn counters_that_are_cut_short_are_none() {
        let whole = described();
        for length in 0..whole.bytes().len() {
            assert_eq!(stats(&whole.bytes()[..length]), None, "{length}");
        }
    }

    #[test]
    fn the_kernel_describes_the_loopback_devices_qdisc() {
        let device = Device::new(1).unwrap();
        let found = device.qdiscs().unwrap();
        assert!(found.iter().any(|qdisc| qdisc.parent == ROOT), "{found:?}");
        let root = found.iter().find(|qdisc| qdisc.parent == ROOT).unwrap();
        assert!(device.qdisc_stats(root.handle).unwrap().is_some());
    }
}
