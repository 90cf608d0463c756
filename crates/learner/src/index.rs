//! An index from keys to numbers, with four bytes per entry: the named items keep the keys.
//!
//! Open addressing with linear probing (Knuth, *The Art of Computer Programming* 3, 6.4). A standard map
//! would hold each key a second time: 48 bytes for each of a million paths. The hash is keyed:
//! peers choose their addresses.

use std::hash::{BuildHasher as _, Hash, RandomState};

const EMPTY: u32 = u32::MAX;

/// Numbers, found by the hash of their keys; the caller compares the keys.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    slots: Vec<u32>,
    len: usize,
    hasher: RandomState,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            slots: vec![EMPTY; 16],
            len: 0,
            hasher: RandomState::new(),
        }
    }
}

impl Index {
    /// The count of numbers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn start(&self, key: &impl Hash) -> usize {
        self.hasher.hash_one(key) as usize & (self.slots.len() - 1)
    }

    /// The number under this key; `is` says whether a number's key is this one.
    pub fn find(&self, key: &impl Hash, is: impl Fn(u32) -> bool) -> Option<u32> {
        let mut at = self.start(key);
        while self.slots[at] != EMPTY {
            if is(self.slots[at]) {
                return Some(self.slots[at]);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
        None
    }

    /// Adds a number under a new key; `key_of` gives the keys of the others.
    pub fn insert<K: Hash>(&mut self, key: &K, number: u32, key_of: impl Fn(u32) -> K) {
        // Linear probing slows down when the table fills up: three in four places at most.
        if (self.len + 1) * 4 > self.slots.len() * 3 {
            let old = std::mem::take(&mut self.slots);
            self.slots = vec![EMPTY; 2 * old.len()];
            for number in old.into_iter().filter(|n| *n != EMPTY) {
                self.place(&key_of(number), number);
            }
        }
        self.place(key, number);
        self.len += 1;
    }

    fn place(&mut self, key: &impl Hash, number: u32) {
        let mut at = self.start(key);
        while self.slots[at] != EMPTY {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = number;
    }

    /// Keeps only these numbers. Entries are not removed one by one: a search would have to continue
    /// over the gaps.
    pub fn refill<K: Hash>(&mut self, all: impl Iterator<Item = (u32, K)>) {
        self.slots.fill(EMPTY);
        self.len = 0;
        for (number, key) in all {
            self.place(&key, number);
            self.len += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_inserted_keys_are_found() {
        let key = |n: u32| u64::from(n) * 7;
        let mut index = Index::default();
        for n in 0..5000 {
            index.insert(&key(n), n, key);
        }
        let find = |index: &Index, k: u64| index.find(&k, |n| key(n) == k);
        assert!((0..5000).all(|n| find(&index, key(n)) == Some(n)));
        assert_eq!(find(&index, 3), None);
        index.refill((0..5000).filter(|n| n % 3 == 0).map(|n| (n, key(n))));
        assert_eq!(index.len(), 1667);
        assert!((0..5000).all(|n| find(&index, key(n)).is_some() == (n % 3 == 0)));
    }
}
