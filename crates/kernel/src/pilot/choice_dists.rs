//! The learner's choice distributions: this file writes them, and the programs read them through the same memory
//! (`bpf/core/choice_dist.h`).
//!
//! Only one thread writes. If a program reads a distribution during a write, it takes it for missing, and goes on
//! to the next level, but keeps no hint to that: the writer takes the tag away first and restores it last. A
//! version warns a reader if it missed both.

use std::{
    hash::{BuildHasher, RandomState},
    mem::offset_of,
    os::fd::BorrowedFd,
    sync::atomic::{AtomicU64, Ordering, fence},
};

use tcpilot_abi::{
    TP_CHOICE_DIST_WAYS, TP_CHOICE_DIST_WRITTEN, TP_LEVELS, TP_MAX_ARMS, TP_NODE_SECRETS,
    from_bytes, to_bytes, tp_choice_dist, tp_choice_dist_bucket, tp_learner_status, tp_node_key,
};

use super::records::LearnerStatus;
use crate::{Error, mapping::Mapping};

/// A choice distribution's entries, see `struct tp_choice_dist`.
pub type Entries = [u16; TP_MAX_ARMS as usize];

/// The secrets of a tag.
pub type NodeSecrets = [[u64; TP_NODE_SECRETS as usize]; 2];

const WAYS: usize = TP_CHOICE_DIST_WAYS as usize;
const DIST_WORDS: usize = size_of::<tp_choice_dist>() / 8;
type Words = [u64; DIST_WORDS];

/// The outcome of putting a choice distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The key had no choice distribution, and has one now.
    New,
    /// The key's choice distribution has other entries now.
    Changed,
    /// The key's choice distribution had these entries already; nothing was written.
    Same,
    /// The key has a choice distribution now, in the place of another distribution of its bucket: of the finest level
    /// there, the longest unchanged one.
    Replaced,
    /// The key has no distribution: its bucket is full of choice distributions of coarser levels. More
    /// connections need those.
    Full,
}

/// The choice distributions.
pub struct ChoiceDists {
    memory: Mapping,
    secrets: NodeSecrets,
    buckets: usize,
    /// The number of choice distributions of each level; the programs skip levels without distributions.
    counts: [usize; TP_LEVELS as usize],
    /// Another one after each new choice distribution: the programs' hints hold as long as it is the same.
    number: u64,
    status: LearnerStatus,
}

impl ChoiceDists {
    /// Maps the choice distributions of a pilot, and counts those of a former daemon.
    pub(super) fn new(
        map: BorrowedFd<'_>,
        buckets: u32,
        secrets: NodeSecrets,
        status: BorrowedFd<'_>,
    ) -> Result<ChoiceDists, Error> {
        let buckets = buckets as usize;
        let memory = Mapping::new(map, 0, buckets * size_of::<tp_choice_dist_bucket>(), true)?;
        let mut dists = ChoiceDists {
            memory,
            secrets,
            buckets,
            counts: [0; TP_LEVELS as usize],
            // A former daemon's hints may still be there, so this begins at another number.
            number: RandomState::new().hash_one("choice distributions") >> 32,
            status: LearnerStatus::new(status)?,
        };
        for at in 0..dists.capacity() {
            let dist = dist_of(dists.read(at));
            if !is_free(dist.tag) {
                dists.count(dist.level, 1);
            }
        }
        dists.publish_version();
        Ok(dists)
    }

    /// Sets the entries of a key's choice distribution to `upto`.
    pub fn put(&mut self, key: &tp_node_key, upto: Entries, generation: u32) -> Put {
        let tag = self.tag(key);
        let bucket = self.bucket(tag);
        let dist = tp_choice_dist {
            tag,
            upto,
            generation,
            level: key.level,
            ..tp_choice_dist::default()
        };
        if let Some(at) = bucket.clone().find(|at| self.read(*at)[0] == tag) {
            if dist_of(self.read(at)).upto == upto {
                return Put::Same;
            }
            self.write(at, dist);
            return Put::Changed;
        }
        if let Some(at) = bucket.clone().find(|at| is_free(self.read(*at)[0])) {
            self.count(key.level, 1);
            self.write(at, dist);
            self.publish_version();
            return Put::New;
        }
        let to_give_up = |at: &usize| {
            let dist = dist_of(self.read(*at));
            (dist.level, dist.generation)
        };
        match bucket.min_by_key(to_give_up) {
            Some(at) if dist_of(self.read(at)).level <= key.level => {
                self.count(key.level, 1);
                let level = dist_of(self.read(at)).level;
                self.write(at, dist);
                self.count(level, -1);
                self.publish_version();
                Put::Replaced
            }
            _ => Put::Full,
        }
    }

    /// The choice distribution of a key.
    pub fn get(&self, key: &tp_node_key) -> Option<tp_choice_dist> {
        let tag = self.tag(key);
        let mut dists = self.bucket(tag).map(|at| dist_of(self.read(at)));
        dists.find(|dist| dist.tag == tag)
    }

    /// Removes a key's choice distribution; says whether it had one.
    pub fn remove(&mut self, key: &tp_node_key) -> bool {
        let tag = self.tag(key);
        let Some(at) = self.bucket(tag).find(|at| self.read(*at)[0] == tag) else {
            return false;
        };
        self.word(at, 0).store(0, Ordering::Release);
        self.count(key.level, -1);
        true
    }

    /// Removes all choice distributions.
    pub fn clear(&mut self) {
        for at in 0..self.capacity() {
            self.word(at, 0).store(0, Ordering::Release);
        }
        self.counts.fill(0);
        self.publish_levels();
    }

    /// The number of choice distributions, also if a program writes them.
    pub fn len(&self) -> usize {
        let taken =
            (0..self.capacity()).filter(|at| !is_free(self.word(*at, 0).load(Ordering::Relaxed)));
        taken.count()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of choice distributions that there is room for. Some buckets are full well before: with half
    /// as many distributions one in 27 is pushed out, with a quarter one in 230.
    pub fn capacity(&self) -> usize {
        self.buckets * WAYS
    }

    fn count(&mut self, level: u8, change: isize) {
        if let Some(count) = self.counts.get_mut(usize::from(level)) {
            *count = count.saturating_add_signed(change);
        }
        self.publish_levels();
    }

    /// From now on programs look for the nearest choice distribution again.
    fn publish_version(&mut self) {
        self.number += 1;
        self.status
            .set(offset_of!(tp_learner_status, dists_version), self.number);
    }

    fn publish_levels(&self) {
        let bits = self.counts.iter().zip(0..);
        let levels = bits.fold(0, |levels, (count, bit)| {
            levels | u64::from(*count > 0) << bit
        });
        self.status
            .set(offset_of!(tp_learner_status, levels), levels);
    }

    fn tag(&self, key: &tp_node_key) -> u64 {
        tcpilot_core::choice_dist::tag(&self.secrets, key)
    }

    /// The indices of a bucket's choice distributions.
    fn bucket(&self, tag: u64) -> std::ops::Range<usize> {
        let first = tcpilot_core::choice_dist::bucket(tag, self.buckets as u32) as usize * WAYS;
        first..first + WAYS
    }

    fn word(&self, dist: usize, number: usize) -> &AtomicU64 {
        static NONE: AtomicU64 = AtomicU64::new(0);
        self.memory
            .word(dist * DIST_WORDS + number)
            .unwrap_or(&NONE)
    }

    fn read(&self, dist: usize) -> Words {
        std::array::from_fn(|number| self.word(dist, number).load(Ordering::Relaxed))
    }

    fn write(&self, at: usize, mut dist: tp_choice_dist) {
        dist.version = dist_of(self.read(at)).version.wrapping_add(1);
        let words = words_of(&dist);
        self.word(at, 0)
            .store(u64::from(TP_CHOICE_DIST_WRITTEN), Ordering::Relaxed);
        fence(Ordering::SeqCst);
        for (number, word) in words.iter().enumerate().skip(1) {
            self.word(at, number).store(*word, Ordering::Relaxed);
        }
        self.word(at, 0).store(dist.tag, Ordering::Release);
    }
}

/// Whether a place has no choice distribution. A former daemon may have died while it wrote one.
fn is_free(tag: u64) -> bool {
    tag <= u64::from(TP_CHOICE_DIST_WRITTEN)
}

fn dist_of(words: Words) -> tp_choice_dist {
    let mut bytes = [0; size_of::<tp_choice_dist>()];
    for (eight, word) in bytes.chunks_exact_mut(8).zip(words) {
        eight.copy_from_slice(&word.to_ne_bytes());
    }
    from_bytes(&bytes).unwrap_or_default()
}

fn words_of(dist: &tp_choice_dist) -> Words {
    let mut words = Words::default();
    for (word, eight) in words.iter_mut().zip(to_bytes(dist).chunks_exact(8)) {
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
    use tcpilot_core::choice_dist::{find_choice_dist, random, words};

    use super::*;

    /// The same numbers in each run.
    fn secrets() -> NodeSecrets {
        let mut seed = 0;
        [(); 2].map(|()| {
            [(); TP_NODE_SECRETS as usize].map(|()| {
                seed += 1;
                u64::from(random(1, seed)) << 32 | u64::from(random(2, seed))
            })
        })
    }

    /// Memory like that of a map with so many buckets.
    fn memory(buckets: u32) -> OwnedFd {
        let fd = memfd_create("choice distributions", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&fd, u64::from(buckets) * 128).unwrap();
        fd
    }

    fn dists(buckets: u32) -> ChoiceDists {
        ChoiceDists::new(
            memory(buckets).as_fd(),
            buckets,
            secrets(),
            memory(1).as_fd(),
        )
        .unwrap()
    }

    fn key(level: u32, number: u32) -> tp_node_key {
        tp_node_key {
            prefix: [number, 0, 0, 0],
            level: level as u8,
            ..tp_node_key::default()
        }
    }

    fn path(number: u32) -> tp_node_key {
        key(TP_LEVEL_PATH, number)
    }

    #[test]
    fn a_distribution_is_found_until_it_is_removed() {
        let mut dists = dists(64);
        assert_eq!(dists.put(&path(1), [5; 8], 1), Put::New);
        assert_eq!(dists.put(&path(1), [5; 8], 2), Put::Same);
        assert_eq!(dists.get(&path(1)).unwrap().generation, 1);
        assert_eq!(dists.put(&path(1), [6; 8], 3), Put::Changed);
        let dist = dists.get(&path(1)).unwrap();
        assert_eq!((dist.upto, dist.generation, dist.version), ([6; 8], 3, 2));
        assert!(dists.get(&path(2)).is_none());
        assert_eq!((dists.len(), dists.capacity()), (1, 256));
        assert!(!dists.remove(&path(2)) && dists.remove(&path(1)));
        assert!(dists.get(&path(1)).is_none() && dists.is_empty());
    }

    #[test]
    fn a_full_bucket_evicts_the_finest_oldest_distribution() {
        let mut dists = dists(1);
        assert_eq!(dists.put(&key(TP_LEVEL_CLASS, 1), [1; 8], 1), Put::New);
        assert_eq!(dists.put(&path(2), [2; 8], 9), Put::New);
        assert_eq!(dists.put(&path(3), [3; 8], 7), Put::New);
        assert_eq!(dists.put(&key(TP_LEVEL_GROUP, 4), [4; 8], 2), Put::New);
        assert_eq!(dists.put(&path(5), [5; 8], 10), Put::Replaced);
        assert!(dists.get(&path(3)).is_none() && dists.get(&path(2)).is_some());
        for number in [6, 7] {
            assert_eq!(
                dists.put(&key(TP_LEVEL_SITE, number), [1; 8], 11),
                Put::Replaced
            );
        }
        assert_eq!(dists.put(&path(8), [1; 8], 12), Put::Full);
        assert_eq!(
            dists.put(&key(TP_LEVEL_GROUP, 9), [1; 8], 12),
            Put::Replaced
        );
        assert!(dists.get(&key(TP_LEVEL_CLASS, 1)).is_some());
        assert!(dists.get(&key(TP_LEVEL_GROUP, 4)).is_none());
        assert_eq!(dists.len(), 4);
        dists.clear();
        assert!(dists.is_empty() && dists.get(&key(TP_LEVEL_CLASS, 1)).is_none());
    }

    #[test]
    fn levels_with_distributions_are_published() {
        let mut dists = dists(16);
        let levels = |dists: &ChoiceDists| dists.status.word(offset_of!(tp_learner_status, levels));
        assert_eq!(levels(&dists), 0);
        dists.put(&path(1), [1; 8], 1);
        dists.put(&path(2), [1; 8], 1);
        dists.put(&key(TP_LEVEL_CLASS, 1), [1; 8], 1);
        assert_eq!(levels(&dists), 1 << TP_LEVEL_PATH | 1 << TP_LEVEL_CLASS);
        dists.remove(&path(1));
        dists.remove(&key(TP_LEVEL_CLASS, 1));
        assert_eq!(levels(&dists), 1 << TP_LEVEL_PATH);
        dists.clear();
        assert_eq!(levels(&dists), 0);
    }

    #[test]
    fn only_a_new_distribution_makes_hints_stale() {
        let mut dists = dists(1);
        let number = |dists: &ChoiceDists| {
            dists
                .status
                .word(offset_of!(tp_learner_status, dists_version))
        };
        let mut before = number(&dists);
        assert_ne!(before, 0);
        let mut is_other =
            |dists: &ChoiceDists| std::mem::replace(&mut before, number(dists)) != number(dists);
        for path_number in 1..=4 {
            dists.put(&path(path_number), [1; 8], path_number);
            assert!(is_other(&dists), "New");
        }
        dists.put(&path(1), [2; 8], 5);
        assert!(!is_other(&dists), "Changed");
        dists.put(&path(1), [2; 8], 6);
        assert!(!is_other(&dists), "Same");
        assert_eq!(dists.put(&path(5), [1; 8], 7), Put::Replaced);
        assert!(is_other(&dists), "Replaced");
        dists.remove(&path(5));
        assert!(!is_other(&dists), "its hint finds nothing");
    }

    #[test]
    fn a_half_written_distribution_counts_as_none() {
        let (memory, status) = (memory(1), memory(1));
        let mut former = ChoiceDists::new(memory.as_fd(), 1, secrets(), status.as_fd()).unwrap();
        former.put(&path(1), [1; 8], 1);
        former
            .word(0, 0)
            .store(u64::from(TP_CHOICE_DIST_WRITTEN), Ordering::Relaxed);
        let mut dists = ChoiceDists::new(memory.as_fd(), 1, secrets(), status.as_fd()).unwrap();
        assert!(dists.is_empty());
        assert_eq!(dists.put(&path(2), [2; 8], 2), Put::New);
        assert_eq!(dist_of(dists.read(0)).tag, dists.tag(&path(2)));
    }

    #[test]
    fn distributions_of_a_former_daemon_are_kept() {
        let (memory, status) = (memory(16), memory(1));
        let mut former = ChoiceDists::new(memory.as_fd(), 16, secrets(), status.as_fd()).unwrap();
        for number in 0..9 {
            former.put(&path(number), [1; 8], 1);
        }
        drop(former);
        let dists = ChoiceDists::new(memory.as_fd(), 16, secrets(), status.as_fd()).unwrap();
        assert_eq!(dists.len(), 9);
        assert!((0..9).all(|number| dists.get(&path(number)).is_some()));
    }

    /// If buckets of four get two keys on average (Poisson), 3.7 % find no place: 306 of 8192, with a
    /// standard deviation of about 20.
    #[test]
    fn at_half_load_one_of_27_is_evicted() {
        let mut dists = dists(4096);
        let put = |number| dists.put(&path(random(9, number)), [1; 8], 1);
        let lost = (0..8192).map(put).filter(|put| *put == Put::Replaced);
        let lost = lost.count();
        assert!((200..400).contains(&lost), "{lost}");
        assert_eq!(dists.len(), 8192 - lost);
    }

    #[test]
    fn a_program_never_reads_half_a_distribution() {
        let (memory, status) = (memory(1), memory(1));
        let mut dists = ChoiceDists::new(memory.as_fd(), 1, secrets(), status.as_fd()).unwrap();
        let tag = dists.tag(&path(1));
        let (done, seen) = (AtomicBool::new(false), AtomicU32::new(0));
        dists.put(&path(1), [0; 8], 0);
        thread::scope(|scope| {
            scope.spawn(|| {
                let shared = Mapping::new(memory.as_fd(), 0, 128, true).unwrap();
                let at = std::ptr::from_ref(shared.word(0).unwrap());
                while !done.load(Ordering::Relaxed) {
                    // SAFETY: as long as a bucket; the C function reads it word by word, volatile.
                    let bucket = unsafe { &*at.cast::<tp_choice_dist_bucket>() };
                    if let Some((upto, _)) = find_choice_dist(bucket, tag) {
                        assert!(upto[0] == upto[1] && upto == words(&[upto[0] as u16; 8]));
                        seen.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
            // On a busy host the reader may begin late.
            let begun = Instant::now();
            let has_read = || seen.load(Ordering::Relaxed) >= 1000;
            for generation in 1.. {
                dists.put(&path(1), [generation as u16; 8], generation);
                if generation >= 300_000 && (has_read() || begun.elapsed().as_secs() >= 60) {
                    break;
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        assert!(seen.into_inner() >= 1000);
    }
}
