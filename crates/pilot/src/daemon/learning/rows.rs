//! The table of rows by which the BPF programs choose, and the keys of the learner's nodes in it.

use tcpilot_abi::tp_row_key;
use tcpilot_core::{Prefix, rows::RowPlace};
use tcpilot_kernel::{Put, Rows};
use tcpilot_learner::{NodeKey, lineage::Key};

use super::arms::Upto;

/// The table of rows; in tests a map in memory.
pub trait Table: Send {
    /// The content of a row.
    fn get(&self, key: &tp_row_key) -> Option<Upto>;
    /// Writes a row.
    fn put(&mut self, key: &tp_row_key, upto: Upto, generation: u32) -> Put;
    /// Removes a row.
    fn remove(&mut self, key: &tp_row_key);
    /// Removes all rows.
    fn clear(&mut self);
    /// The number of rows, and the room for rows.
    fn len(&self) -> (usize, usize);
}

impl Table for Rows {
    fn get(&self, key: &tp_row_key) -> Option<Upto> {
        Rows::get(self, key).map(|row| row.upto)
    }

    fn put(&mut self, key: &tp_row_key, upto: Upto, generation: u32) -> Put {
        Rows::put(self, key, upto, generation)
    }

    fn remove(&mut self, key: &tp_row_key) {
        Rows::remove(self, key);
    }

    fn clear(&mut self) {
        Rows::clear(self);
    }

    fn len(&self) -> (usize, usize) {
        (Rows::len(self), self.capacity())
    }
}

/// The key of a node's row. The BPF programs make the same key from an address (`tp_row_key_at`).
pub fn row_key(node: &NodeKey, policy: u8) -> tp_row_key {
    tp_row_key {
        prefix: words(&node.key),
        domain: node.key.domain,
        class: node.key.class,
        level: node.level as u8,
        policy,
    }
}

/// The place of a path, by which the notes of its open connections are found.
pub fn place_of(path: &NodeKey, policy: u8) -> RowPlace {
    RowPlace {
        remote: words(&path.key),
        domain: path.key.domain,
        class: path.key.class,
        policy,
    }
}

/// The addresses of a node.
pub fn prefix_of(key: &Key) -> Prefix {
    Prefix::from_words(words(key), key.len).unwrap_or_default()
}

fn words(key: &Key) -> [u32; 4] {
    [96, 64, 32, 0].map(|shift| ((key.prefix >> shift) as u32).to_be())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tcpilot_core::rows::{draw_tag, row_key as of_programs};
    use tcpilot_learner::{Level, Lineage};

    use super::*;

    proptest! {
        #[test]
        fn the_programs_look_where_the_learner_writes(
            bits: u128, kind in 0..4, domain: u32, class in 0u16..1 << 15, policy in 0u8..16,
            secrets: [[u64; 7]; 2],
        ) {
            let bits = match kind {
                0 => bits, // any
                1 => 0xffff << 32 | bits & 0xffff_ffff, // IPv4
                2 => 0xfd << 120 | bits >> 8, // unique local
                _ => 0xfe80 << 112 | bits >> 16, // link local
            };
            let remote = [96, 64, 32, 0].map(|shift| ((bits >> shift) as u32).to_be());
            let lineage = Lineage::of_prefix(bits, class, domain);
            for level in Level::ALL {
                let place = RowPlace { remote, domain, class, policy };
                prop_assert_eq!(
                    row_key(&lineage.node(level), policy),
                    of_programs(level as u32, &place)
                );
            }
            // A note of an open connection has the hash of its whole address.
            let place = RowPlace { remote, domain, class, policy };
            let path = place_of(&lineage.node(Level::Path), policy);
            prop_assert_eq!(draw_tag(&secrets, &place), draw_tag(&secrets, &path));
        }
    }
}
