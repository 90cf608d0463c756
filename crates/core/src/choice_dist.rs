//! `bpf/core/choice_dist.h`, `class.h` and `draw.h`: the learner's choice distributions as the programs read them.

use tcpilot_abi::{
    TP_MAX_ARMS, TP_NODE_SECRETS, tp_assignment, tp_choice_dist_bucket, tp_node_key,
};

/// The secrets of the two halves of a tag.
pub type Secrets = [[u64; TP_NODE_SECRETS as usize]; 2];

/// The secrets of the assignment buckets.
pub type AssignmentSecrets = [u64; TP_NODE_SECRETS as usize];

/// A choice distribution's entries, see `struct tp_choice_dist`.
pub type Entries = [u16; TP_MAX_ARMS as usize];

#[repr(C)]
#[derive(Default)]
struct Shares {
    upto: [u64; 2],
    tag: u64,
    level: u32,
    blurred: u32,
}

#[rustfmt::skip]
#[allow(missing_docs, reason = "described at their C originals")]
mod c {
    use super::*;

    unsafe extern "C" {
        pub safe fn native_node_key_at(of: &tp_node_key, level: u32, key: &mut tp_node_key);
        pub safe fn native_costs_key(of: &tp_node_key, key: &mut tp_node_key);
        pub safe fn native_node_tag(secrets: &Secrets, key: &tp_node_key) -> u64;
        pub safe fn native_choice_dist_bucket(tag: u64, buckets: u32) -> u32;
        pub safe fn native_assignment_tag(secrets: &[u64; TP_NODE_SECRETS as usize], place: &tp_node_key) -> u32;
        pub safe fn native_assignment_bucket(secrets: &AssignmentSecrets, addr: &[u32; 4]) -> u32;
        pub safe fn native_domain(separation: u32, addr: &[u32; 4], netns_cookie: u64, egress: u16) -> u32;
        pub safe fn native_unwrap(addr: &mut [u32; 4]);
        pub safe fn native_log2(x: u32) -> u32;
        pub safe fn native_class(rtt_us: u32, small_window: u8, ecn: u8, interface: u8, accepted: u8) -> u16;
        pub safe fn native_draw_of(random: u32) -> u32;
        pub safe fn native_random(secret: u64, seed: u64) -> u32;
        pub safe fn native_arm_at(upto: &[u64; 2], r: u32) -> u32;
        pub safe fn native_probability(upto: &[u64; 2], arm: u32) -> u32;
        pub safe fn native_default_probability(upto: &[u64; 2], eligible: u32, default_arm: u32) -> u32;
        pub safe fn native_assignment_holds(assignment: &tp_assignment, tag: u32, now: u32) -> i32;
        pub safe fn native_even_shares(arms: u32, to: &mut Shares);
        pub safe fn native_find_choice_dist(bucket: &tp_choice_dist_bucket, tag: u64, to: &mut Shares) -> i32;
    }
}

pub use c::{
    native_assignment_bucket as assignment_bucket, native_choice_dist_bucket as bucket,
    native_class as class, native_domain as domain, native_draw_of as draw_of, native_log2 as log2,
    native_node_tag as tag, native_random as random,
};

/// The parts of a choice distribution's key besides its level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DistPlace {
    /// The peer's address, as in a record.
    pub remote: [u32; 4],
    /// See [`domain`]; a record has it.
    pub domain: u32,
    /// See [`class`]; a record has it.
    pub class: u16,
    /// The policy's number.
    pub policy: u8,
}

impl DistPlace {
    fn key(&self) -> tp_node_key {
        tp_node_key {
            prefix: self.remote,
            domain: self.domain,
            class: self.class,
            policy: self.policy,
            ..tp_node_key::default()
        }
    }
}

/// The key of the node at this level (`enum tp_level`) above a place. The prefixes are those of
/// `tcpilot_learner::Lineage`.
pub fn node_key(level: u32, place: &DistPlace) -> tp_node_key {
    let mut key = tp_node_key::default();
    c::native_node_key_at(&place.key(), level, &mut key);
    key
}

/// `tp_assignment_tag`: the hash of a path without its class, as in the start of an open connection.
pub fn assignment_tag(secrets: &Secrets, place: &DistPlace) -> u32 {
    c::native_assignment_tag(&secrets[0], &place.key())
}

/// `tp_costs_key`: the key of epsilon-greedy's costs for a place.
pub fn costs_key(place: &DistPlace) -> tp_node_key {
    let of = tp_node_key {
        prefix: place.remote,
        domain: place.domain,
        policy: place.policy,
        ..tp_node_key::default()
    };
    let mut key = tp_node_key::default();
    c::native_costs_key(&of, &mut key);
    key
}

/// `tp_unwrap`: the IPv4 host behind an address of NAT64, or the address.
pub fn unwrap_nat64(mut addr: [u32; 4]) -> [u32; 4] {
    c::native_unwrap(&mut addr);
    addr
}

/// The entries as words, as the programs read them.
pub fn words(entries: &Entries) -> [u64; 2] {
    let mut words = [0; 2];
    for (word, four) in words.iter_mut().zip(entries.chunks_exact(4)) {
        let mut bytes = [0; 8];
        for (two, entry) in bytes.chunks_exact_mut(2).zip(four) {
            two.copy_from_slice(&entry.to_ne_bytes());
        }
        *word = u64::from_ne_bytes(bytes);
    }
    words
}

/// The entries of such words.
fn entries(words: &[u64; 2]) -> Entries {
    let mut entries = Entries::default();
    for (four, word) in entries.chunks_exact_mut(4).zip(words) {
        for (entry, two) in four.iter_mut().zip(word.to_ne_bytes().chunks_exact(2)) {
            *entry = two.try_into().map_or(0, u16::from_ne_bytes);
        }
    }
    entries
}

/// `tp_even_shares`: the entries of a path without a choice distribution; each of these arms has the same share.
pub fn even_shares(arms: u32) -> Entries {
    let mut shares = Shares::default();
    c::native_even_shares(arms, &mut shares);
    entries(&shares.upto)
}

/// `tp_arm_at`: the arm that a draw of 0 to 0xfffe gets.
pub fn arm_at(entries: &Entries, draw: u32) -> u32 {
    c::native_arm_at(&words(entries), draw)
}

/// `tp_probability`: the probability of an arm, in parts of 0xffff.
pub fn probability(entries: &Entries, arm: u32) -> u32 {
    c::native_probability(&words(entries), arm)
}

/// `tp_default_probability`: the probability that the default stays if only some arms are eligible, in
/// parts of 0xffff.
pub fn default_probability(entries: &Entries, eligible: u32, default_arm: u32) -> u32 {
    c::native_default_probability(&words(entries), eligible, default_arm)
}

/// `tp_assignment_holds`.
pub fn assignment_holds(assignment: &tp_assignment, tag: u32, now: u32) -> bool {
    c::native_assignment_holds(assignment, tag, now) != 0
}

/// `tp_find_choice_dist`: entries and level of the choice distribution with this tag, as a program would read them.
pub fn find_choice_dist(bucket: &tp_choice_dist_bucket, tag: u64) -> Option<([u64; 2], u32)> {
    let mut found = Shares::default();
    let is_there = c::native_find_choice_dist(bucket, tag, &mut found) != 0;
    is_there.then_some((found.upto, found.level))
}
