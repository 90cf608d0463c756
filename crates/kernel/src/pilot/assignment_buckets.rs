//! Whether new connections are held out, bucket by bucket: `enum tp_trial`.

use std::{mem::offset_of, os::fd::BorrowedFd, sync::atomic::Ordering};

use tcpilot_abi::{TP_ASSIGNMENT_BUCKETS, tp_learner_status};

use super::records::LearnerStatus;
use crate::{Error, mapping::Mapping};

/// The number of assignment buckets.
pub const ASSIGNMENT_BUCKETS: usize = TP_ASSIGNMENT_BUCKETS as usize;

/// The assignment buckets as the programs read them.
pub struct AssignmentBuckets {
    memory: Mapping,
    status: LearnerStatus,
}

impl AssignmentBuckets {
    pub(super) fn new(
        buckets: BorrowedFd<'_>,
        status: BorrowedFd<'_>,
    ) -> Result<AssignmentBuckets, Error> {
        Ok(AssignmentBuckets {
            memory: Mapping::new(buckets, 0, ASSIGNMENT_BUCKETS, true)?,
            status: LearnerStatus::new(status)?,
        })
    }

    /// Sets all assignment buckets, eight at a time: a connection opening meanwhile gets the old or the
    /// new value of its bucket.
    pub fn set(&mut self, all: &[u8; ASSIGNMENT_BUCKETS]) {
        let has_trials = all.iter().any(|bucket| *bucket != 0);
        for (number, eight) in all.chunks_exact(8).enumerate() {
            let value = u64::from_ne_bytes(eight.try_into().unwrap_or_default());
            let word = self.memory.word(number);
            if let Some(word) = word.filter(|word| word.load(Ordering::Relaxed) != value) {
                word.store(value, Ordering::Relaxed);
            }
        }
        if has_trials {
            // It is never reset: held-out connections may still be open.
            self.status.set(offset_of!(tp_learner_status, trials), 1);
        }
    }
}
