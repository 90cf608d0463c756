//! The maps and the two classifiers of `tcpilot watch --fair` (bpf/fair/fair.h).

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

use libbpf_rs::{
    MapCore, MapFlags,
    libbpf_sys::{BPF_TCX_EGRESS, BPF_TCX_INGRESS, bpf_link_create},
};
use tcpilot_abi::{
    from_bytes, to_bytes, tp_fair_control, tp_fair_counts, tp_fair_order, tp_fair_state,
    tp_watch_key,
};

use super::Watch;
use crate::{
    Error,
    object::{bytes_of, map_error, write_plain},
};

impl Watch {
    /// The filter: it gives packets their class.
    pub fn classifier(&self) -> BorrowedFd<'_> {
        self.skel.progs.fair_class.as_fd()
    }

    /// The program to shrink windows.
    pub fn window_program(&self) -> BorrowedFd<'_> {
        self.skel.progs.fair_window.as_fd()
    }

    /// Attaches the window-shrinking program to the device's ingress, as long as the returned value
    /// lives; needs kernel 6.6.
    ///
    /// # Errors
    /// The kernel's; EINVAL if it does not have these links.
    pub fn link_window(&self, ifindex: u32) -> io::Result<OwnedFd> {
        link_tcx(self.window_program(), ifindex, BPF_TCX_INGRESS)
    }

    /// Attaches the packet-marking program to the device's egress, as long as the returned value lives;
    /// needs kernel 6.6.
    ///
    /// # Errors
    /// As [`Watch::link_window`].
    pub fn link_mark(&self, ifindex: u32) -> io::Result<OwnedFd> {
        link_tcx(self.skel.progs.fair_mark.as_fd(), ifindex, BPF_TCX_EGRESS)
    }

    /// Writes the order for a flow, and makes its state.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn give_order(&self, key: &tp_watch_key, order: &tp_fair_order) -> Result<(), Error> {
        let maps = &self.skel.maps;
        let fresh = tp_fair_state::default();
        // An existing state stays.
        let _ = maps
            .fair_states
            .update(to_bytes(key), to_bytes(&fresh), MapFlags::NO_EXIST);
        maps.fair_orders
            .update(to_bytes(key), to_bytes(order), MapFlags::ANY)
            .map_err(map_error("give a flow its queue"))
    }

    /// Removes a flow's order.
    pub fn take_order(&self, key: &tp_watch_key) {
        let _ = self.skel.maps.fair_orders.delete(to_bytes(key));
        let _ = self.skel.maps.fair_states.delete(to_bytes(key));
    }

    /// The programs' state of a flow.
    pub fn fair_state(&self, key: &tp_watch_key) -> Option<tp_fair_state> {
        let found = self
            .skel
            .maps
            .fair_states
            .lookup(to_bytes(key), MapFlags::ANY);
        from_bytes(&found.ok()??)
    }

    /// Writes how long the orders hold, and who else goes first.
    pub fn control_fair(&mut self, control: &tp_fair_control) {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            write_plain(&raw mut bss.fair_control, control);
        }
        if let Some(qdisc) = &mut self.qdisc {
            qdisc.control(control);
        }
    }

    /// The counts of the qdisc and of its programs.
    pub fn fair_counts(&self) -> tp_fair_counts {
        let bss = self.skel.maps.bss_data.as_deref();
        let counts = bss
            .and_then(|bss| from_bytes(bytes_of(&bss.fair_counts)))
            .unwrap_or_default();
        match &self.qdisc {
            Some(qdisc) => add(counts, &qdisc.counts()),
            None => counts,
        }
    }
}

pub(super) fn link_tcx(program: BorrowedFd<'_>, ifindex: u32, place: u32) -> io::Result<OwnedFd> {
    let device = i32::try_from(ifindex).unwrap_or_default();
    // SAFETY: a plain system call; without options the pointer may be null.
    let fd = unsafe { bpf_link_create(program.as_raw_fd(), device, place, std::ptr::null()) };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: a descriptor just opened here, without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn add(mut counts: tp_fair_counts, more: &tp_fair_counts) -> tp_fair_counts {
    let acted = more.acted.as_flattened();
    for (sum, count) in counts.acted.as_flattened_mut().iter_mut().zip(acted) {
        *sum += count;
    }
    counts.classified += more.classified;
    counts.without_order += more.without_order;
    counts.largest_bytes = counts.largest_bytes.max(more.largest_bytes);
    counts
}
