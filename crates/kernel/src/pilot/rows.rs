//! The learner's rows: this file writes them, and the programs read them through the same memory
//! (`bpf/core/rows.h`).
//!
//! Only one thread writes. If a program reads a row during a write, it takes it for missing, and goes on
//! to the next level, but keeps no hint to that: the writer takes the tag away first and restores it last. A
//! version warns a reader that missed both.

use std::{
    hash::{BuildHasher, RandomState},
    mem::offset_of,
    os::fd::BorrowedFd,
    sync::atomic::{AtomicU64, Ordering, fence},
};

use tcpilot_abi::{
    TP_LEVELS, TP_MAX_ARMS, TP_ROW_SECRETS, TP_ROW_WAYS, TP_ROW_WRITTEN, from_bytes, to_bytes,
    tp_pulse, tp_row, tp_row_bucket, tp_row_key,
};

use super::records::Pulse;
use crate::{Error, mapping::Mapping};

/// A row's entries, see `struct tp_row`.
pub type Entries = [u16; TP_MAX_ARMS as usize];

/// The secrets of a tag.
pub type RowSecrets = [[u64; TP_ROW_SECRETS as usize]; 2];

const WAYS: usize = TP_ROW_WAYS as usize;
const ROW_WORDS: usize = size_of::<tp_row>() / 8;
type Words = [u64; ROW_WORDS];

/// The outcome for a row that was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The key had no row, and has one now.
    New,
    /// The key's row has other entries now.
    Changed,
    /// The key's row had these entries already; nothing was written.
    Same,
    /// The key has a row now, in the place of another row of its bucket: of the finest level there, the
    /// one that has not changed for longest.
    Replaced,
    /// The key has no row: its bucket is full of rows of coarser levels, which more connections need.
    Full,
}

/// The rows.
pub struct Rows {
    memory: Mapping,
    secrets: RowSecrets,
    buckets: usize,
    /// The number of rows of each level; the programs skip levels without rows.
    counts: [usize; TP_LEVELS as usize],
    /// Another one after each row that is new: the programs' hints hold as long as it is the same.
    number: u64,
    pulse: Pulse,
}

impl Rows {
    /// Maps the rows of a pilot, and counts those of a former daemon.
    pub(super) fn new(
        map: BorrowedFd<'_>,
        buckets: u32,
        secrets: RowSecrets,
        pulse: BorrowedFd<'_>,
    ) -> Result<Rows, Error> {
        let buckets = buckets as usize;
        let memory = Mapping::new(map, 0, buckets * size_of::<tp_row_bucket>(), true)?;
        let mut rows = Rows {
            memory,
            secrets,
            buckets,
            counts: [0; TP_LEVELS as usize],
            // A former daemon's hints may still be there, so this begins at another number.
            number: RandomState::new().hash_one("rows") >> 32,
            pulse: Pulse::new(pulse)?,
        };
        for at in 0..rows.capacity() {
            let row = row_of(rows.read(at));
            if !is_free(row.tag) {
                rows.count(row.level, 1);
            }
        }
        rows.tell_new();
        Ok(rows)
    }

    /// Sets the entries of a key's row to `upto`.
    pub fn put(&mut self, key: &tp_row_key, upto: Entries, generation: u32) -> Put {
        let tag = self.tag(key);
        let bucket = self.bucket(tag);
        let row = tp_row {
            tag,
            upto,
            generation,
            level: key.level,
            ..tp_row::default()
        };
        if let Some(at) = bucket.clone().find(|at| self.read(*at)[0] == tag) {
            if row_of(self.read(at)).upto == upto {
                return Put::Same;
            }
            self.write(at, row);
            return Put::Changed;
        }
        if let Some(at) = bucket.clone().find(|at| is_free(self.read(*at)[0])) {
            self.count(key.level, 1);
            self.write(at, row);
            self.tell_new();
            return Put::New;
        }
        let to_give_up = |at: &usize| {
            let row = row_of(self.read(*at));
            (row.level, row.generation)
        };
        match bucket.min_by_key(to_give_up) {
            Some(at) if row_of(self.read(at)).level <= key.level => {
                self.count(key.level, 1);
                let level = row_of(self.read(at)).level;
                self.write(at, row);
                self.count(level, -1);
                self.tell_new();
                Put::Replaced
            }
            _ => Put::Full,
        }
    }

    /// The row of a key.
    pub fn get(&self, key: &tp_row_key) -> Option<tp_row> {
        let tag = self.tag(key);
        let mut rows = self.bucket(tag).map(|at| row_of(self.read(at)));
        rows.find(|row| row.tag == tag)
    }

    /// Removes a key's row; says whether it had one.
    pub fn remove(&mut self, key: &tp_row_key) -> bool {
        let tag = self.tag(key);
        let Some(at) = self.bucket(tag).find(|at| self.read(*at)[0] == tag) else {
            return false;
        };
        self.word(at, 0).store(0, Ordering::Release);
        self.count(key.level, -1);
        true
    }

    /// Removes all rows.
    pub fn clear(&mut self) {
        for at in 0..self.capacity() {
            self.word(at, 0).store(0, Ordering::Release);
        }
        self.counts.fill(0);
        self.tell_levels();
    }

    /// The number of rows, also if a program writes them.
    pub fn len(&self) -> usize {
        let taken =
            (0..self.capacity()).filter(|at| !is_free(self.word(*at, 0).load(Ordering::Relaxed)));
        taken.count()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of rows that there is room for. Some buckets are full well before that: with half as
    /// many rows one in 27 is pushed out, with a quarter one in 230.
    pub fn capacity(&self) -> usize {
        self.buckets * WAYS
    }

    fn count(&mut self, level: u8, change: isize) {
        if let Some(count) = self.counts.get_mut(usize::from(level)) {
            *count = count.saturating_add_signed(change);
        }
        self.tell_levels();
    }

    /// From now on programs look for the nearest row again.
    fn tell_new(&mut self) {
        self.number += 1;
        self.pulse.set(offset_of!(tp_pulse, rows), self.number);
    }

    fn tell_levels(&self) {
        let bits = self.counts.iter().zip(0..);
        let levels = bits.fold(0, |levels, (count, bit)| {
            levels | u64::from(*count > 0) << bit
        });
        self.pulse.set(offset_of!(tp_pulse, levels), levels);
    }

    fn tag(&self, key: &tp_row_key) -> u64 {
        tcpilot_core::rows::tag(&self.secrets, key)
    }

    /// The indices of a bucket's rows.
    fn bucket(&self, tag: u64) -> std::ops::Range<usize> {
        let first = tcpilot_core::rows::bucket(tag, self.buckets as u32) as usize * WAYS;
        first..first + WAYS
    }

    fn word(&self, row: usize, number: usize) -> &AtomicU64 {
        static NONE: AtomicU64 = AtomicU64::new(0);
        self.memory.word(row * ROW_WORDS + number).unwrap_or(&NONE)
    }

    fn read(&self, row: usize) -> Words {
        std::array::from_fn(|number| self.word(row, number).load(Ordering::Relaxed))
    }

    fn write(&self, at: usize, mut row: tp_row) {
        row.version = row_of(self.read(at)).version.wrapping_add(1);
        let words = words_of(&row);
        self.word(at, 0)
            .store(u64::from(TP_ROW_WRITTEN), Ordering::Relaxed);
        fence(Ordering::SeqCst);
        for (number, word) in words.iter().enumerate().skip(1) {
            self.word(at, number).store(*word, Ordering::Relaxed);
        }
        self.word(at, 0).store(row.tag, Ordering::Release);
    }
}

/// Whether a place has no row. A former daemon may have died while it wrote one.
fn is_free(tag: u64) -> bool {
    tag <= u64::from(TP_ROW_WRITTEN)
}

fn row_of(words: Words) -> tp_row {
    let mut bytes = [0; size_of::<tp_row>()];
    for (eight, word) in bytes.chunks_exact_mut(8).zip(words) {
        eight.copy_from_slice(&word.to_ne_bytes());
    }
    from_bytes(&bytes).unwrap_or_default()
}

fn words_of(row: &tp_row) -> Words {
    let mut words = Words::default();
    for (word, eight) in words.iter_mut().zip(to_bytes(row).chunks_exact(8)) {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(eight);
        *word = u64::from_ne_bytes(bytes);
    }
    words
}

#[cfg(test)]
mod tests {
    use std::{
        os::fd::{AsFd, OwnedFd},
        sync::atomic::{AtomicBool, AtomicU32},
        thread,
        time::Instant,
    };

    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use tcpilot_abi::{TP_LEVEL_CLASS, TP_LEVEL_GROUP, TP_LEVEL_PATH, TP_LEVEL_SITE};
    use tcpilot_core::rows::{find_row, random, words};

    use super::*;

    /// The same numbers in each run.
    fn secrets() -> RowSecrets {
        let mut seed = 0;
        [(); 2].map(|()| {
            [(); TP_ROW_SECRETS as usize].map(|()| {
                seed += 1;
                u64::from(random(1, seed)) << 32 | u64::from(random(2, seed))
            })
        })
    }

    /// Memory like that of a map with so many buckets.
    fn memory(buckets: u32) -> OwnedFd {
        let fd = memfd_create("rows", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&fd, u64::from(buckets) * 128).unwrap();
        fd
    }

    fn rows(buckets: u32) -> Rows {
        Rows::new(
            memory(buckets).as_fd(),
            buckets,
            secrets(),
            memory(1).as_fd(),
        )
        .unwrap()
    }

    fn key(level: u32, number: u32) -> tp_row_key {
        tp_row_key {
            prefix: [number, 0, 0, 0],
            level: level as u8,
            ..tp_row_key::default()
        }
    }

    fn path(number: u32) -> tp_row_key {
        key(TP_LEVEL_PATH, number)
    }

    #[test]
    fn a_row_is_found_by_its_key_until_it_is_removed() {
        let mut rows = rows(64);
        assert_eq!(rows.put(&path(1), [5; 8], 1), Put::New);
        assert_eq!(rows.put(&path(1), [5; 8], 2), Put::Same);
        assert_eq!(rows.get(&path(1)).unwrap().generation, 1);
        assert_eq!(rows.put(&path(1), [6; 8], 3), Put::Changed);
        let row = rows.get(&path(1)).unwrap();
        assert_eq!((row.upto, row.generation, row.version), ([6; 8], 3, 2));
        assert!(rows.get(&path(2)).is_none());
        assert_eq!((rows.len(), rows.capacity()), (1, 256));
        assert!(!rows.remove(&path(2)) && rows.remove(&path(1)));
        assert!(rows.get(&path(1)).is_none() && rows.is_empty());
    }

    #[test]
    fn a_full_bucket_gives_up_the_finest_row_that_has_not_changed_for_longest() {
        let mut rows = rows(1);
        assert_eq!(rows.put(&key(TP_LEVEL_CLASS, 1), [1; 8], 1), Put::New);
        assert_eq!(rows.put(&path(2), [2; 8], 9), Put::New);
        assert_eq!(rows.put(&path(3), [3; 8], 7), Put::New);
        assert_eq!(rows.put(&key(TP_LEVEL_GROUP, 4), [4; 8], 2), Put::New);
        assert_eq!(rows.put(&path(5), [5; 8], 10), Put::Replaced);
        assert!(rows.get(&path(3)).is_none() && rows.get(&path(2)).is_some());
        for number in [6, 7] {
            assert_eq!(
                rows.put(&key(TP_LEVEL_SITE, number), [1; 8], 11),
                Put::Replaced
            );
        }
        assert_eq!(rows.put(&path(8), [1; 8], 12), Put::Full);
        assert_eq!(rows.put(&key(TP_LEVEL_GROUP, 9), [1; 8], 12), Put::Replaced);
        assert!(rows.get(&key(TP_LEVEL_CLASS, 1)).is_some());
        assert!(rows.get(&key(TP_LEVEL_GROUP, 4)).is_none());
        assert_eq!(rows.len(), 4);
        rows.clear();
        assert!(rows.is_empty() && rows.get(&key(TP_LEVEL_CLASS, 1)).is_none());
    }

    #[test]
    fn the_programs_are_told_which_levels_have_a_row() {
        let mut rows = rows(16);
        let levels = |rows: &Rows| rows.pulse.word(offset_of!(tp_pulse, levels));
        assert_eq!(levels(&rows), 0);
        rows.put(&path(1), [1; 8], 1);
        rows.put(&path(2), [1; 8], 1);
        rows.put(&key(TP_LEVEL_CLASS, 1), [1; 8], 1);
        assert_eq!(levels(&rows), 1 << TP_LEVEL_PATH | 1 << TP_LEVEL_CLASS);
        rows.remove(&path(1));
        rows.remove(&key(TP_LEVEL_CLASS, 1));
        assert_eq!(levels(&rows), 1 << TP_LEVEL_PATH);
        rows.clear();
        assert_eq!(levels(&rows), 0);
    }

    #[test]
    fn hints_are_void_after_a_row_that_is_new_and_only_then() {
        let mut rows = rows(1);
        let number = |rows: &Rows| rows.pulse.word(offset_of!(tp_pulse, rows));
        let mut before = number(&rows);
        assert_ne!(before, 0);
        let mut is_other =
            |rows: &Rows| std::mem::replace(&mut before, number(rows)) != number(rows);
        for path_number in 1..=4 {
            rows.put(&path(path_number), [1; 8], path_number);
            assert!(is_other(&rows), "New");
        }
        rows.put(&path(1), [2; 8], 5);
        assert!(!is_other(&rows), "Changed");
        rows.put(&path(1), [2; 8], 6);
        assert!(!is_other(&rows), "Same");
        assert_eq!(rows.put(&path(5), [1; 8], 7), Put::Replaced);
        assert!(is_other(&rows), "Replaced");
        rows.remove(&path(5));
        assert!(!is_other(&rows), "its hint finds nothing");
    }

    #[test]
    fn a_row_that_a_killed_daemon_was_writing_is_no_row() {
        let (memory, pulse) = (memory(1), memory(1));
        let mut former = Rows::new(memory.as_fd(), 1, secrets(), pulse.as_fd()).unwrap();
        former.put(&path(1), [1; 8], 1);
        former
            .word(0, 0)
            .store(u64::from(TP_ROW_WRITTEN), Ordering::Relaxed);
        let mut rows = Rows::new(memory.as_fd(), 1, secrets(), pulse.as_fd()).unwrap();
        assert!(rows.is_empty());
        assert_eq!(rows.put(&path(2), [2; 8], 2), Put::New);
        assert_eq!(row_of(rows.read(0)).tag, rows.tag(&path(2)));
    }

    #[test]
    fn rows_of_a_former_daemon_are_there() {
        let (memory, pulse) = (memory(16), memory(1));
        let mut former = Rows::new(memory.as_fd(), 16, secrets(), pulse.as_fd()).unwrap();
        for number in 0..9 {
            former.put(&path(number), [1; 8], 1);
        }
        drop(former);
        let rows = Rows::new(memory.as_fd(), 16, secrets(), pulse.as_fd()).unwrap();
        assert_eq!(rows.len(), 9);
        assert!((0..9).all(|number| rows.get(&path(number)).is_some()));
    }

    /// If buckets of four get two keys on average (Poisson), 3.7 % find no place: 306 of 8192, with a
    /// standard deviation of about 20.
    #[test]
    fn half_as_many_rows_as_there_is_room_for_push_one_of_27_out() {
        let mut rows = rows(4096);
        let put = |number| rows.put(&path(random(9, number)), [1; 8], 1);
        let lost = (0..8192).map(put).filter(|put| *put == Put::Replaced);
        let lost = lost.count();
        assert!((200..400).contains(&lost), "{lost}");
        assert_eq!(rows.len(), 8192 - lost);
    }

    #[test]
    fn a_program_never_reads_half_of_a_row() {
        let (memory, pulse) = (memory(1), memory(1));
        let mut rows = Rows::new(memory.as_fd(), 1, secrets(), pulse.as_fd()).unwrap();
        let tag = rows.tag(&path(1));
        let (done, seen) = (AtomicBool::new(false), AtomicU32::new(0));
        rows.put(&path(1), [0; 8], 0);
        thread::scope(|scope| {
            scope.spawn(|| {
                let shared = Mapping::new(memory.as_fd(), 0, 128, true).unwrap();
                let at = std::ptr::from_ref(shared.word(0).unwrap());
                while !done.load(Ordering::Relaxed) {
                    // SAFETY: as long as a bucket; the C function reads it word by word, volatile.
                    let bucket = unsafe { &*at.cast::<tp_row_bucket>() };
                    if let Some((upto, _)) = find_row(bucket, tag) {
                        assert!(upto[0] == upto[1] && upto == words(&[upto[0] as u16; 8]));
                        seen.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
            // On a busy host the reader may begin late.
            let begun = Instant::now();
            let has_read = || seen.load(Ordering::Relaxed) >= 1000;
            for generation in 1.. {
                rows.put(&path(1), [generation as u16; 8], generation);
                if generation >= 300_000 && (has_read() || begun.elapsed().as_secs() >= 60) {
                    break;
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        assert!(seen.into_inner() >= 1000);
    }
}
