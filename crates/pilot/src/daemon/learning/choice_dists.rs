//! The table of the BPF programs' choice distributions, and its keys for the learner's nodes.

use tcpilot_abi::tp_node_key;
use tcpilot_core::{Prefix, choice_dist::DistPlace};
use tcpilot_kernel::{ChoiceDists, Put};
use tcpilot_learner::{NodeKey, lineage::Key};

use super::arms::Upto;

/// The table of choice distributions; in tests a map in memory.
pub trait Table: Send {
    /// The content of a choice distribution.
    fn get(&self, key: &tp_node_key) -> Option<Upto>;
    /// Writes a choice distribution.
    fn put(&mut self, key: &tp_node_key, upto: Upto, generation: u32) -> Put;
    /// Removes a choice distribution.
    fn remove(&mut self, key: &tp_node_key);
    /// Removes all choice distributions.
    fn clear(&mut self);
    /// The number of choice distributions, and the room for distributions.
    fn len(&self) -> (usize, usize);
}

impl Table for ChoiceDists {
    fn get(&self, key: &tp_node_key) -> Option<Upto> {
        ChoiceDists::get(self, key).map(|dist| dist.upto)
    }

    fn put(&mut self, key: &tp_node_key, upto: Upto, generation: u32) -> Put {
        ChoiceDists::put(self, key, upto, generation)
    }

    fn remove(&mut self, key: &tp_node_key) {
        ChoiceDists::remove(self, key);
    }

    fn clear(&mut self) {
        ChoiceDists::clear(self);
    }

    fn len(&self) -> (usize, usize) {
        (ChoiceDists::len(self), self.capacity())
    }
}

/// The key of a node's choice distribution. The BPF programs make the same key from an address (`tp_node_key_at`).
pub fn node_key(node: &NodeKey, policy: u8) -> tp_node_key {
    tp_node_key {
        prefix: words(&node.key),
        domain: node.key.domain,
        class: node.key.class,
        level: node.level as u8,
        policy,
    }
}

/// The place of a path, for finding the starts of its open connections.
pub fn place_of(path: &NodeKey, policy: u8) -> DistPlace {
    DistPlace {
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
    use tcpilot_core::choice_dist::{assignment_tag, node_key as of_programs};
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
                let place = DistPlace { remote, domain, class, policy };
                prop_assert_eq!(
                    node_key(&lineage.node(level), policy),
                    of_programs(level as u32, &place)
                );
            }
            // A connection start has the hash of its whole address.
            let place = DistPlace { remote, domain, class, policy };
            let path = place_of(&lineage.node(Level::Path), policy);
            prop_assert_eq!(assignment_tag(&secrets, &place), assignment_tag(&secrets, &path));
        }
    }
}
