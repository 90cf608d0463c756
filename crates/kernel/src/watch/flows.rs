//! The table of flows (bpf/watch/flows.h), as user space reads it: mapped, place by place.

use std::{mem::offset_of, os::fd::BorrowedFd, sync::atomic::Ordering};

use tcpilot_abi::{TP_FLOW_BUSY, tp_watch_flow};

use crate::{Error, mapping::Mapping};

/// The slot of a flow in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowSlot {
    number: usize,
    id: u32,
}

/// The mapped table.
pub(super) struct Table {
    memory: Mapping,
    places: usize,
}

impl Table {
    /// Maps the table of so many places.
    pub fn new(map: BorrowedFd<'_>, places: u32) -> Result<Table, Error> {
        let places = places as usize;
        let memory = Mapping::new(map, 0, places * size_of::<tp_watch_flow>(), true)?;
        Ok(Table { memory, places })
    }

    /// Every flow in the table. `taken`: so many places were taken, again or not.
    pub fn flows(&self, taken: u64) -> impl Iterator<Item = (FlowSlot, tp_watch_flow)> + '_ {
        let used = usize::try_from(taken).unwrap_or(usize::MAX);
        (0..used.min(self.places)).filter_map(|number| {
            let id = self.id(number)?.load(Ordering::Acquire);
            if [0, TP_FLOW_BUSY].contains(&id) {
                return None;
            }
            let flow: tp_watch_flow = self.memory.value(number)?;
            // It was replaced meanwhile; the next reading finds the new one.
            (flow.id == id).then_some((FlowSlot { number, id }, flow))
        })
    }

    /// Frees a slot, unless another flow has taken it.
    pub fn forget(&self, slot: FlowSlot) {
        if let Some(id) = self.id(slot.number) {
            // If this fails, the flow is gone already.
            let _ = id.compare_exchange(slot.id, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    fn id(&self, number: usize) -> Option<&std::sync::atomic::AtomicU32> {
        let at = number * size_of::<tp_watch_flow>() + offset_of!(tp_watch_flow, id);
        self.memory.half(at / size_of::<u32>())
    }
}

/// Bytes of a flow that have left the queue, or still wait in it; dropped bytes do not count.
pub fn left_bytes(flow: &tp_watch_flow) -> u64 {
    flow.bytes.saturating_sub(flow.dropped_bytes)
}
