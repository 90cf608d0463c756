//! The BPF qdisc of `tcpilot watch --fair` (bpf/fair/qdisc.bpf.c): registers it by a link, and sets and reads its
//! queues.

use std::{os::fd::AsFd, process};

use libbpf_rs::{Link, MapCore, MapFlags, ProgramMut, btf::types::Struct, skel::OpenSkel};
use tcpilot_abi::{
    TP_FAIR_MINORS, from_bytes, to_bytes, tp_fair_control, tp_fair_counts, tp_fair_queue,
    tp_fair_turn, tp_watch_config,
};
use tcpilot_netlink::tc::ClassStats;

use super::{Watch, skeleton::WatchSkel};
use crate::{
    Error,
    object::{bytes_of, map_error, no_section, open_object, skeleton_module, write_plain},
};

skeleton_module!("qdisc.skel.rs");
use skeleton::{OpenQdiscSkel, QdiscSkel, QdiscSkelBuilder};

/// Its name in `struct Qdisc_ops` of bpf/fair/qdisc.bpf.c.
const ID: std::ops::Range<usize> = 0..16;

/// Whether this kernel has BPF qdiscs: 6.16 with `CONFIG_NET_SCH_BPF`.
pub fn has_bpf_qdiscs() -> bool {
    let btf = libbpf_rs::btf::Btf::from_vmlinux();
    btf.is_ok_and(|btf| {
        let wrapper: Option<Struct<'_>> = btf.type_by_name("bpf_struct_ops_Qdisc_ops");
        wrapper.is_some()
    })
}

/// The kernel knows the qdisc as long as this lives; qdiscs at a device stay longer.
pub struct Registration {
    _link: Link,
}

/// The loaded object of the qdisc.
pub(super) struct Qdisc {
    skel: QdiscSkel<'static>,
}

impl Qdisc {
    /// Loads it with room for so many packets.
    pub fn load(
        watch: &WatchSkel<'_>,
        config: &tp_watch_config,
        packets: u32,
    ) -> Result<Qdisc, Error> {
        if !has_bpf_qdiscs() {
            return Err(Error::NoQdiscs);
        }
        let mut open = open_object::<QdiscSkelBuilder>()?;
        let rodata = open
            .maps
            .rodata_data
            .as_deref_mut()
            .ok_or_else(no_section)?;
        write_plain(&raw mut rodata.cfg, config);
        share(&mut open, watch).map_err(Error::Load)?;
        let maps = &mut open.maps;
        // Slot 0 is never used.
        maps.fair_slots
            .set_max_entries(packets.saturating_add(1))
            .map_err(Error::Load)?;
        let value = maps.fair_qdisc.initial_value_mut();
        let id = value.and_then(|v| v.get_mut(ID)).ok_or_else(no_section)?;
        let kind = Watch::qdisc_kind();
        id.fill(0);
        id.iter_mut()
            .zip(kind.as_bytes().iter().take(ID.end - 1))
            .for_each(|(to, from)| *to = *from);
        let skel = open.load().map_err(Error::of_load)?;
        Ok(Qdisc { skel })
    }

    pub fn set_device(&mut self, ifindex: u32) {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            if bss.link.ifindex != ifindex {
                bss.link.ifindex = ifindex;
                bss.link.device = 0;
            }
        }
    }

    pub fn control(&mut self, control: &tp_fair_control) {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            write_plain(&raw mut bss.fair_control, control);
        }
    }

    pub fn counts(&self) -> tp_fair_counts {
        let bss = self.skel.maps.bss_data.as_deref();
        bss.and_then(|bss| from_bytes(bytes_of(&bss.fair_counts)))
            .unwrap_or_default()
    }

    pub fn programs(&self) -> [(&'static str, &ProgramMut<'static>); 2] {
        let progs = &self.skel.progs;
        [
            ("enqueue", &progs.fair_enqueue),
            ("dequeue", &progs.fair_dequeue),
        ]
    }
}

/// Makes the qdisc's object use the watch's maps if both have them: the classifiers are loaded there.
fn share(open: &mut OpenQdiscSkel<'_>, watch: &WatchSkel<'_>) -> libbpf_rs::Result<()> {
    let (ours, its) = (&mut open.maps, &watch.maps);
    for (map, shared) in [
        (&mut ours.flows, &its.flows),
        (&mut ours.candidates, &its.candidates),
        (&mut ours.handshakes, &its.handshakes),
        (&mut ours.quic_handshakes, &its.quic_handshakes),
        (&mut ours.flow_buckets, &its.flow_buckets),
        (&mut ours.records, &its.records),
        (&mut ours.fair_orders, &its.fair_orders),
        (&mut ours.fair_states, &its.fair_states),
    ] {
        map.reuse_fd(shared.as_fd())?;
    }
    open.progs.fair_class.set_autoload(false);
    open.progs.fair_window.set_autoload(false);
    Ok(())
}

impl Watch {
    /// Makes the qdisc known to the kernel, if it was loaded.
    ///
    /// # Errors
    /// [`Error::Map`], most likely because the name is taken.
    pub fn register_qdisc(&mut self) -> Option<Result<Registration, Error>> {
        let link = self
            .qdisc
            .as_mut()?
            .skel
            .maps
            .fair_qdisc
            .attach_struct_ops();
        Some(
            link.map(|link| Registration { _link: link })
                .map_err(map_error("register the qdisc")),
        )
    }

    /// The kind by which it can then be put at a device. Names are shared by the whole host, and two devices may
    /// be made fair at the same time.
    pub fn qdisc_kind() -> String {
        format!("tcpilot_{}", process::id())
    }

    /// Sets how many bytes a queue of the qdisc sends in its turn, and how many packets wait there at most.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn set_turn(&self, minor: u16, quantum: u32, limit: u32) -> Result<(), Error> {
        let turn = tp_fair_turn { quantum, limit };
        let key = u32::from(minor).to_ne_bytes();
        let qdisc = self.qdisc.as_ref().ok_or(Error::NoQdiscs)?;
        qdisc
            .skel
            .maps
            .fair_turns
            .update(&key, to_bytes(&turn), MapFlags::ANY)
            .map_err(map_error("set a queue's turn"))
    }

    /// The counts of its queues.
    pub fn queue_stats(&self) -> Vec<ClassStats> {
        let Some(qdisc) = &self.qdisc else {
            return Vec::new();
        };
        let queues = &qdisc.skel.maps.fair_queues;
        let read = |minor: u32| {
            let found = queues.lookup(&minor.to_ne_bytes(), MapFlags::ANY).ok()??;
            let queue: tp_fair_queue = from_bytes(&found)?;
            Some(ClassStats {
                minor: minor as u16,
                bytes: queue.sent_bytes,
                packets: queue.sent_packets,
                backlog_packets: queue.waiting,
                drops: u32::try_from(queue.overflows).unwrap_or(u32::MAX),
            })
        };
        (0..TP_FAIR_MINORS).filter_map(read).collect()
    }
}
