//! Traffic control by rtnetlink: qdiscs as the kernel describes them, HTB's classes, FIFOs, and a BPF filter for
//! `tcpilot watch --fair`, prio for `ack_priority_devices`, and the counters of queues.
//!
//! tc(8) would not do: its text cannot restore every qdisc exactly, but the messages can. It cannot give a
//! filter a program that is not pinned. And each change would start a process.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

use libc::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, RTM_DELQDISC, RTM_DELTCLASS,
    RTM_DELTFILTER, RTM_GETQDISC, RTM_GETTCLASS, RTM_GETTFILTER, RTM_NEWQDISC, RTM_NEWTCLASS,
    RTM_NEWTFILTER, TCA_KIND, TCA_OPTIONS, TCA_STATS2,
};

use crate::{Attributes, Question, Socket, Subsystem, attribute, text, u32_at, u64_at};

/// The root of a device's qdiscs.
pub const ROOT: u32 = 0xffff_ffff;
/// Parent of filters at a clsact qdisc's ingress, and the qdisc's own parent.
pub const CLSACT_INGRESS: u32 = 0xffff_fff2;
const CLSACT: u32 = 0xffff_fff1;

// linux/gen_stats.h, linux/pkt_sched.h, linux/pkt_cls.h; libc has none of these.
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_STATS_APP: u16 = 4;
const HTB_PARMS: u16 = 1;
const HTB_INIT: u16 = 2;
const HTB_RATE64: u16 = 6;
const HTB_CEIL64: u16 = 7;
const BPF_CLASSID: u16 = 3;
const BPF_FD: u16 = 6;
const BPF_NAME: u16 = 7;
const BPF_FLAGS: u16 = 8;
const ACT_DIRECT: u32 = 1;
/// tc-prio(8): three bands, and the band of each priority of a socket.
const PRIO_BANDS: u32 = 3;
const PRIO_BAND_OF: [u8; 16] = [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];
/// `struct tcmsg`.
const TCMSG_BYTES: usize = 20;
/// The kernel's unit of time for buckets, nanoseconds.
const TICK_NS: u64 = 64;

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
    /// Bytes that left it.
    pub bytes: u64,
    /// Packets that left it.
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
    /// Bytes that left it.
    pub bytes: u64,
    /// Packets that left it.
    pub packets: u64,
    /// Packets waiting.
    pub backlog_packets: u32,
    /// Packets dropped because the queue was full.
    pub drops: u32,
}

/// A class of HTB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HtbClass {
    /// The number of the parent, a qdisc or class.
    pub parent: u32,
    /// Its own number.
    pub id: u32,
    /// Bytes per second that it is guaranteed.
    pub rate: u64,
    /// Bytes per second at most.
    pub ceiling: u64,
    /// Bytes at once, at either rate.
    pub burst: u32,
    /// Bytes per turn.
    pub quantum: u32,
    /// 0 is served first.
    pub priority: u32,
}

/// `struct tcmsg`.
#[derive(Clone, Copy, Default)]
struct Place {
    ifindex: u32,
    handle: u32,
    parent: u32,
    info: u32,
}

impl Place {
    fn bytes(self, ifindex: u32) -> [u8; TCMSG_BYTES] {
        let mut bytes = [0; TCMSG_BYTES]; // the first word: the family, and padding
        let words = [ifindex, self.handle, self.parent, self.info];
        for (to, word) in bytes[4..].chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    fn read(body: &[u8]) -> Option<Place> {
        Some(Place {
            ifindex: u32_at(body, 4)?,
            handle: u32_at(body, 8)?,
            parent: u32_at(body, 12)?,
            info: u32_at(body, 16)?,
        })
    }
}

/// One answer: its place, and its attributes.
type Answer = (Place, Vec<u8>);

/// Traffic control of one device, in the namespace in which this was made.
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
    fn ask(&self, kind: u16, flags: i32, place: Place, attrs: &[u8]) -> io::Result<Vec<Answer>> {
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
            if let Some(place) = Place::read(body).filter(|at| at.ifindex == self.ifindex) {
                found.push((place, attrs.to_vec()));
            }
        })?;
        Ok(found)
    }

    fn tell(&self, kind: u16, flags: i32, place: Place, attrs: &Attributes) -> io::Result<()> {
        self.ask(kind, flags | NLM_F_ACK, place, attrs.bytes())
            .map(drop)
    }

    fn at(parent: u32, handle: u32) -> Place {
        Place {
            parent,
            handle,
            ..Place::default()
        }
    }

    /// All qdiscs of the device.
    ///
    /// # Errors
    /// The kernel's.
    pub fn qdiscs(&self) -> io::Result<Vec<Qdisc>> {
        let answers = self.ask(RTM_GETQDISC, NLM_F_DUMP, Place::default(), &[])?;
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
        let answers = self.ask(RTM_GETQDISC, NLM_F_DUMP, Place::default(), &[])?;
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
        let answers = self.ask(RTM_GETQDISC, NLM_F_DUMP, Place::default(), &[])?;
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

    /// Puts an HTB at the root; packets that no filter takes go to `default_minor`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn put_htb(&self, handle: u32, default_minor: u16) -> io::Result<()> {
        let words: [u32; 5] = [3, 10, default_minor.into(), 0, 0];
        let glob: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
        let options = Attributes::default().add(HTB_INIT, &glob);
        self.put(&Qdisc {
            kind: "htb".into(),
            handle,
            parent: ROOT,
            options: Some(options.bytes().to_vec()),
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
            parms.extend([0u8, 1, 0, 0, 0, 0, 0, 0]); // linklayer Ethernet: needs no table
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
            .add(TCA_OPTIONS, options.bytes());
        let place = Device::at(class.parent, class.id);
        self.tell(RTM_NEWTCLASS, NLM_F_CREATE, place, &attrs)
    }

    /// Removes a class, with its queue.
    ///
    /// # Errors
    /// The kernel's.
    pub fn delete_class(&self, id: u32) -> io::Result<()> {
        let place = Device::at(0, id);
        self.tell(RTM_DELTCLASS, 0, place, &Attributes::default())
    }

    /// Puts a FIFO of so many packets below a class, or changes its length.
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
        let answers = self.ask(RTM_GETTCLASS, NLM_F_DUMP, Place::default(), &[])?;
        Ok(answers.iter().filter_map(class_stats).collect())
    }

    /// Adds a BPF filter with direct action, at this priority; `classid`: the major of its classes.
    ///
    /// # Errors
    /// The kernel's; EEXIST if there is a filter of this priority already.
    pub fn put_filter(
        &self,
        parent: u32,
        priority: u16,
        program: BorrowedFd<'_>,
        classid: u32,
    ) -> io::Result<()> {
        let options = Attributes::default()
            .add(BPF_FD, &program.as_raw_fd().to_ne_bytes())
            .text(BPF_NAME, "tcpilot")
            .add(BPF_CLASSID, &classid.to_ne_bytes())
            .add(BPF_FLAGS, &ACT_DIRECT.to_ne_bytes());
        let attrs = Attributes::default()
            .text(TCA_KIND, "bpf")
            .add(TCA_OPTIONS, options.bytes());
        let place = filter_place(parent, priority);
        self.tell(RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL, place, &attrs)
    }

    /// Removes the filter of this priority.
    ///
    /// # Errors
    /// The kernel's.
    pub fn delete_filter(&self, parent: u32, priority: u16) -> io::Result<()> {
        let place = filter_place(parent, priority);
        self.tell(RTM_DELTFILTER, 0, place, &Attributes::default())
    }

    /// The number of filters at `parent`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn count_filters(&self, parent: u32) -> io::Result<usize> {
        let place = Device::at(parent, 0);
        Ok(self.ask(RTM_GETTFILTER, NLM_F_DUMP, place, &[])?.len())
    }

    /// Adds a clsact qdisc.
    ///
    /// # Errors
    /// The kernel's.
    pub fn put_clsact(&self) -> io::Result<()> {
        let attrs = Attributes::default().text(TCA_KIND, "clsact");
        let place = Device::at(CLSACT, 0xffff_0000);
        self.tell(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, place, &attrs)
    }

    /// Removes the clsact qdisc.
    ///
    /// # Errors
    /// The kernel's.
    pub fn delete_clsact(&self) -> io::Result<()> {
        let place = Device::at(CLSACT, 0xffff_0000);
        self.tell(RTM_DELQDISC, 0, place, &Attributes::default())
    }
}

fn filter_place(parent: u32, priority: u16) -> Place {
    Place {
        parent,
        handle: 1,
        info: u32::from(priority) << 16 | u32::from((libc::ETH_P_ALL as u16).to_be()),
        ..Place::default()
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
    fn counters_are_read_from_where_the_kernel_puts_them() {
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
    fn a_place_is_read_as_it_was_written() {
        let place = filter_place(CLSACT_INGRESS, 7);
        let body = place.bytes(3);
        let read = Place::read(&body).unwrap();
        assert_eq!(
            (read.ifindex, read.parent, read.info),
            (3, CLSACT_INGRESS, place.info)
        );
        assert!(Place::read(&body[..TCMSG_BYTES - 1]).is_none());
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
