//! Whether connections that open now are held out, cell by cell: `enum tp_trial`.

use std::{mem::offset_of, os::fd::BorrowedFd, sync::atomic::Ordering};

use tcpilot_abi::{TP_CELLS, tp_pulse};

use super::records::Pulse;
use crate::{Error, mapping::Mapping};

/// The number of cells.
pub const CELLS: usize = TP_CELLS as usize;

/// The cells as the programs read them.
pub struct Cells {
    memory: Mapping,
    pulse: Pulse,
}

impl Cells {
    pub(super) fn new(cells: BorrowedFd<'_>, pulse: BorrowedFd<'_>) -> Result<Cells, Error> {
        Ok(Cells {
            memory: Mapping::new(cells, 0, CELLS, true)?,
            pulse: Pulse::new(pulse)?,
        })
    }

    /// Sets all cells, eight at a time: a connection that opens meanwhile gets the old or the new value
    /// of its cell.
    pub fn set(&mut self, all: &[u8; CELLS]) {
        let has_trials = all.iter().any(|cell| *cell != 0);
        for (number, eight) in all.chunks_exact(8).enumerate() {
            let value = u64::from_ne_bytes(eight.try_into().unwrap_or_default());
            let word = self.memory.word(number);
            if let Some(word) = word.filter(|word| word.load(Ordering::Relaxed) != value) {
                word.store(value, Ordering::Relaxed);
            }
        }
        if has_trials {
            // It is never reset: held-out connections may still be open.
            self.pulse.set(offset_of!(tp_pulse, trials), 1);
        }
    }
}
