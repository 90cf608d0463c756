//! The programs' reports of connections, through the kernel's ring buffer, and the daemon's sign of
//! life to them.

use std::{
    mem::offset_of,
    os::fd::BorrowedFd,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    thread::sleep,
    time::{Duration, Instant},
};

use tcpilot_abi::{from_bytes, tp_learner_status, tp_record};

use crate::{
    Error,
    clock::monotonic_ns,
    mapping::{Mapping, page},
};

/// The programs do not wake the daemon, since this would cost more than the record. So the daemon reads
/// the ring this often: at 50,000 records a second it has room for twelve times as long.
const LOOK: Duration = Duration::from_millis(100);

/// BPF_RINGBUF_BUSY_BIT, BPF_RINGBUF_DISCARD_BIT and BPF_RINGBUF_HDR_SZ of linux/bpf.h.
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
const HEADER: usize = 8;

/// The reading end of the ring.
///
/// The kernel maps three parts: a page with the reader's position, a page with the writers' position, and
/// the data, twice in a row, to keep every record contiguous.
pub struct Records {
    read: Mapping,
    written: Mapping,
    mask: usize,
    status: LearnerStatus,
}

impl Records {
    pub(super) fn new(
        ring: BorrowedFd<'_>,
        bytes: usize,
        status: BorrowedFd<'_>,
    ) -> Result<Records, Error> {
        Ok(Records {
            read: Mapping::new(ring, 0, page(), true)?,
            written: Mapping::new(ring, page(), page() + 2 * bytes, false)?,
            mask: bytes - 1,
            status: LearnerStatus::new(status)?,
        })
    }

    /// Calls `each` with every record in the ring; if there is none, waits for one, at most so long.
    /// Returns the number of records.
    ///
    /// # Errors
    /// [`Error::System`] if something was not a record; the others are delivered nevertheless.
    pub fn poll(
        &mut self,
        timeout: Duration,
        mut each: impl FnMut(&tp_record),
    ) -> Result<usize, Error> {
        let until = Instant::now() + timeout;
        loop {
            let count = self.take(&mut each)?;
            let left = until.saturating_duration_since(Instant::now());
            if count > 0 || left.is_zero() {
                return Ok(count);
            }
            sleep(left.min(LOOK));
        }
    }

    /// The number of records lost for lack of room in the ring, since the programs were loaded.
    pub fn dropped(&self) -> u64 {
        self.status.word(offset_of!(tp_learner_status, dropped))
    }

    /// Takes the records now in the ring.
    fn take(&mut self, each: &mut impl FnMut(&tp_record)) -> Result<usize, Error> {
        let (Some(read), Some(written)) = (self.read.word(0), self.written.word(0)) else {
            return Err(no_record());
        };
        let mut at = read.load(Ordering::Relaxed);
        let end = written.load(Ordering::Acquire);
        let (mut count, mut others) = (0, 0);
        while at < end {
            let place = page() + (at as usize & self.mask);
            let length = self.length_at(place);
            if length & BUSY != 0 {
                break; // another CPU is writing it
            }
            let bytes = (length & !DISCARDED) as usize;
            match self.record_at(place + HEADER, bytes) {
                _ if length & DISCARDED != 0 => {}
                Some(record) => {
                    each(&record);
                    count += 1;
                }
                None => others += 1,
            }
            at += (HEADER + bytes).next_multiple_of(8) as u64;
            read.store(at, Ordering::Release);
        }
        if others == 0 {
            Ok(count)
        } else {
            Err(no_record())
        }
    }

    fn length_at(&self, place: usize) -> u32 {
        let half = self.written.half(place / 4);
        half.map_or(BUSY, |length| length.load(Ordering::Acquire))
    }

    /// Reads a record; `None` if the data are no record of this layout.
    fn record_at(&self, place: usize, bytes: usize) -> Option<tp_record> {
        if bytes != size_of::<tp_record>() {
            return None;
        }
        let mut copy = [0; size_of::<tp_record>()];
        for (number, eight) in copy.chunks_exact_mut(8).enumerate() {
            let word = self.written.word(place / 8 + number)?;
            eight.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        from_bytes(&copy)
    }
}

fn no_record() -> Error {
    Error::System {
        action: "read the connections' records",
        source: std::io::ErrorKind::InvalidData.into(),
    }
}

/// The words of `struct tp_learner_status`.
pub(super) struct LearnerStatus(Mapping);

impl LearnerStatus {
    pub(super) fn new(map: BorrowedFd<'_>) -> Result<LearnerStatus, Error> {
        Mapping::new(map, 0, size_of::<tp_learner_status>(), true).map(LearnerStatus)
    }

    fn at(&self, offset: usize) -> Option<&AtomicU64> {
        self.0.word(offset / 8)
    }

    pub(super) fn set(&self, offset: usize, value: u64) {
        if let Some(word) = self.at(offset) {
            word.store(value, Ordering::Relaxed);
        }
    }

    pub(super) fn word(&self, offset: usize) -> u64 {
        self.at(offset)
            .map_or(0, |word| word.load(Ordering::Relaxed))
    }
}

/// The daemon's heartbeat: without one for `TP_CHOICE_DISTS_STALE_NS` no choice distribution is valid.
pub struct Heartbeat(LearnerStatus);

impl Heartbeat {
    pub(super) fn new(status: BorrowedFd<'_>) -> Result<Heartbeat, Error> {
        LearnerStatus::new(status).map(Heartbeat)
    }

    /// Marks the daemon as alive.
    pub fn renew(&self) {
        // Without this part of the kernel, or its module, no device is a wireless one.
        let knows_wireless = Path::new("/sys/module/cfg80211").exists();
        self.0.set(
            offset_of!(tp_learner_status, wireless),
            u64::from(knows_wireless),
        );
        self.set(monotonic_ns());
    }

    /// Marks it as dead: from now on no choice distribution is valid.
    pub fn stop(&self) {
        self.set(0);
    }

    fn set(&self, at_ns: u64) {
        self.0
            .set(offset_of!(tp_learner_status, heartbeat_ns), at_ns);
    }
}
