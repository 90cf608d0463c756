//! The classes, queues and filters of `tcpilot watch --fair` at a device: HTB, FIFOs, and BPF programs.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

use libc::{
    NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, RTM_DELQDISC, RTM_DELTFILTER, RTM_GETTFILTER,
    RTM_NEWQDISC, RTM_NEWTCLASS, RTM_NEWTFILTER, TCA_KIND, TCA_OPTIONS,
};

use super::{Device, Qdisc, ROOT, TcMessage};
use crate::Attributes;

/// Parent of filters at a clsact qdisc's ingress.
pub const CLSACT_INGRESS: u32 = 0xffff_fff2;
/// The parent of a clsact qdisc.
const CLSACT: u32 = 0xffff_fff1;

// linux/pkt_sched.h, linux/pkt_cls.h; libc has none of these.
const HTB_PARMS: u16 = 1;
const HTB_INIT: u16 = 2;
const HTB_RATE64: u16 = 6;
const HTB_CEIL64: u16 = 7;
const BPF_CLASSID: u16 = 3;
const BPF_FD: u16 = 6;
const BPF_NAME: u16 = 7;
const BPF_FLAGS: u16 = 8;
const ACT_DIRECT: u32 = 1;
/// The kernel's unit of time for buckets, nanoseconds.
const TICK_NS: u64 = 64;

/// A class of HTB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HtbClass {
    /// The number of the parent, a qdisc or class.
    pub parent: u32,
    /// Its own number.
    pub id: u32,
    /// Its guaranteed bytes per second.
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

impl Device {
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

fn filter_place(parent: u32, priority: u16) -> TcMessage {
    TcMessage {
        parent,
        handle: 1,
        info: u32::from(priority) << 16 | u32::from((libc::ETH_P_ALL as u16).to_be()),
        ..TcMessage::default()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::TCMSG_BYTES, *};

    #[test]
    fn a_place_is_read_as_it_was_written() {
        let place = filter_place(CLSACT_INGRESS, 7);
        let body = place.bytes(3);
        let read = TcMessage::read(&body).unwrap();
        assert_eq!(
            (read.ifindex, read.parent, read.info),
            (3, CLSACT_INGRESS, place.info)
        );
        assert!(TcMessage::read(&body[..TCMSG_BYTES - 1]).is_none());
    }
}
