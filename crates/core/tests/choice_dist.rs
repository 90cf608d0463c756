//! Keys, classes, tags and assignments by the learner's choice distributions: the programs' text compared with the
//! learner's own.

use std::{
    array::from_fn,
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use proptest::prelude::*;
use tcpilot_abi::{
    TP_ASSIGNMENT_MS, TP_LEVEL_CLASS, TP_LEVEL_GLOBAL, TP_LEVEL_GROUP, TP_LEVEL_PATH,
    TP_LEVEL_SITE, TP_NO_ARM, TP_OPENED_SHIFT, TP_SEPARATE_ALL, TP_SEPARATE_NONE,
    TP_SEPARATE_PRIVATE, tp_assignment, tp_choice_dist, tp_choice_dist_bucket, tp_node_key,
};
use tcpilot_core::choice_dist::{
    DistPlace, Entries, Secrets, arm_at, assignment_bucket, assignment_holds, assignment_tag,
    class, default_probability, domain, draw_of, find_choice_dist, log2, node_key, probability,
    random, tag, unwrap_nat64, words,
};
use tcpilot_learner::{
    draw::ChoiceDist,
    lineage::{Class, Key, Lineage},
};

fn address(peer: IpAddr) -> [u32; 4] {
    let bytes = match peer {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    };
    from_fn(|word| u32::from_ne_bytes(from_fn(|byte| bytes[4 * word + byte])))
}

fn bits(prefix: [u32; 4]) -> u128 {
    let bytes: [u8; 16] = from_fn(|byte| prefix[byte / 4].to_ne_bytes()[byte % 4]);
    u128::from_be_bytes(bytes)
}

/// Any address, and often one of a special kind.
fn peers() -> impl Strategy<Value = IpAddr> {
    let v4 = any::<u32>().prop_map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)));
    let v6 = any::<u128>().prop_map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits)));
    let within = |first: u128, keep: u32| {
        any::<u128>().prop_map(move |bits| {
            IpAddr::V6(Ipv6Addr::from_bits(first << (128 - keep) | bits >> keep))
        })
    };
    prop_oneof![
        v4,
        v6,
        within(0xfc >> 1, 7),
        within(0xfe80 >> 6, 10),
        within(0x2001_0db8, 32),
        within(0xffff, 96),
    ]
}

fn classes() -> impl Strategy<Value = Class> {
    (0u8..32, any::<bool>(), 0u8..3, 0u8..64, any::<bool>()).prop_map(
        |(rtt_octave, small_window, ecn, interface, accepted)| Class {
            rtt_octave,
            small_window,
            ecn,
            interface,
            accepted,
        },
    )
}

fn places() -> impl Strategy<Value = DistPlace> {
    (any::<[u32; 4]>(), any::<u32>(), any::<u16>(), 0u8..16).prop_map(
        |(remote, domain, class, policy)| DistPlace {
            remote,
            domain,
            class,
            policy,
        },
    )
}

fn secrets() -> impl Strategy<Value = Secrets> {
    any::<Secrets>()
}

/// The probability of a draw, in parts of 0xffff.
fn count(entries: &Entries, wanted: impl Fn(u32) -> bool) -> u32 {
    (0..0xffff)
        .filter(|draw| wanted(arm_at(entries, *draw)))
        .count() as u32
}

proptest! {
    #[test]
    fn connection_nodes_match_learner_lineage(
        peer in peers(), of in classes(), domain in any::<u32>(), policy in 0u8..16,
    ) {
        let lineage = Lineage::of(peer, of, domain);
        let place = DistPlace { remote: address(peer), domain, class: of.bits(), policy };
        for (level, node) in [
            (TP_LEVEL_PATH, lineage.path),
            (TP_LEVEL_GROUP, lineage.group),
            (TP_LEVEL_SITE, lineage.site),
        ] {
            let key = node_key(level, &place);
            let Key { prefix, domain, class, .. } = node;
            prop_assert_eq!(
                (bits(key.prefix), key.domain, key.class), (prefix, domain, class), "{}", level
            );
            prop_assert_eq!((u32::from(key.level), key.policy), (level, policy));
        }
        let above = tp_node_key { policy, level: TP_LEVEL_CLASS as u8, class: of.bits(), ..tp_node_key::default() };
        prop_assert_eq!(node_key(TP_LEVEL_CLASS, &place), above);
        let global = tp_node_key { policy, level: TP_LEVEL_GLOBAL as u8, ..tp_node_key::default() };
        prop_assert_eq!(node_key(TP_LEVEL_GLOBAL, &place), global);
    }

    /// The short way for IPv4 included.
    #[test]
    fn assignment_tags_ignore_the_class(
        peer in peers(), secrets in secrets(), place in places(), class in any::<u16>(),
    ) {
        let place = DistPlace { remote: address(peer), ..place };
        let key = node_key(TP_LEVEL_PATH, &DistPlace { class: 0, ..place });
        prop_assert_eq!(assignment_tag(&secrets, &place), tag(&secrets, &key) as u32 | 1);
        prop_assert_eq!(assignment_tag(&secrets, &place), assignment_tag(&secrets, &DistPlace { class, ..place }));
    }

    #[test]
    fn a_class_has_the_learners_bits(rtt_us in any::<u32>(), shift in 0u32..32, of in classes()) {
        let rtt_us = rtt_us >> shift;
        let of = Class { rtt_octave: Class::octave(rtt_us), ..of };
        let is = class(rtt_us, of.small_window.into(), of.ecn, of.interface, of.accepted.into());
        prop_assert_eq!(is, of.bits());
    }

    #[test]
    fn draw_picks_same_arm_as_learner(entries in any::<Entries>(), draw in 0u32..0xffff) {
        let mut entries = entries;
        entries.sort_unstable();
        entries[7] = 0xffff;
        prop_assert_eq!(arm_at(&entries, draw) as usize, ChoiceDist(entries).arm(draw as u16));
    }

    #[test]
    fn tag_matches_sum_of_products_formula(of in places(), a in secrets(), level in 0u32..5) {
        let key = node_key(level, &of);
        let last = u32::from(key.class) | u32::from(key.level) << 16 | u32::from(key.policy) << 24;
        let [p0, p1, p2, p3] = key.prefix;
        let x = [p0, p1, p2, p3, key.domain, last].map(u64::from);
        let half = |a: &[u64; 7]| {
            let products = [0, 2, 4].map(|i| {
                u128::from(a[i].wrapping_add(x[i + 1])) * u128::from(a[i + 1].wrapping_add(x[i]))
            });
            let sum = products.iter().fold(u128::from(a[6]), |sum, product| sum.wrapping_add(*product));
            sum as u64 >> 32
        };
        prop_assert_eq!(tag(&a, &key), (half(&a[1]) << 32 | half(&a[0])).max(1));
    }

    #[test]
    fn keys_that_differ_have_tags_that_differ(of in places(), other in places(), a in secrets(), level in 0u32..5) {
        // In 256 cases two tags agree by chance with probability 2^-56.
        let (key, other) = (node_key(level, &of), node_key(level, &other));
        prop_assert_eq!(key == other, tag(&a, &key) == tag(&a, &other));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn each_arm_is_drawn_with_its_probability(entries in any::<Entries>(), last in 0usize..8, eligible in 0u32..256, default in 0u32..9) {
        let mut entries = entries;
        entries.sort_unstable();
        entries[last..].fill(0xffff);
        for arm in 0..8 {
            prop_assert_eq!(probability(&entries, arm), count(&entries, |drawn| drawn == arm));
        }
        let default = if default < 8 { default } else { TP_NO_ARM };
        let stays = |arm: u32| eligible >> arm & 1 == 0 || arm == default;
        prop_assert_eq!(default_probability(&entries, eligible, default), count(&entries, stays));
    }
}

#[test]
fn classes_split_rtt_at_octaves_from_1024_us() {
    let of = |rtt_us| class(rtt_us, 0, 0, 0, 0);
    let (unknown, lan) = (of(0), of(1));
    assert_ne!(unknown, lan);
    assert!((1..1024).all(|rtt_us| of(rtt_us) == lan));
    for octave in 10..32 {
        let least = 1u32 << octave;
        assert_eq!(of(least), octave);
        assert_eq!(of(least | (least - 1)), octave);
    }
    assert_eq!(of(1024), lan + 1);
}

#[test]
fn octave_is_position_of_highest_set_bit() {
    assert_eq!(log2(0), 0);
    for bit in 0..32 {
        let least = 1u32 << bit;
        assert_eq!((log2(least), log2(least | (least - 1))), (bit, bit));
    }
}

#[test]
fn private_prefix_is_per_namespace_public_is_shared() {
    let private = address("10.1.2.3".parse().unwrap());
    let public = address("198.51.100.7".parse().unwrap());
    let cookie = 0x1_0000_1234;
    let of = |separation, peer, egress| domain(separation, peer, cookie, egress);
    assert_eq!(of(TP_SEPARATE_PRIVATE, &private, 0), 0x1234);
    assert_eq!(of(TP_SEPARATE_PRIVATE, &public, 0), 0);
    assert_eq!(of(TP_SEPARATE_ALL, &public, 0), 0x1234);
    assert_eq!(of(TP_SEPARATE_NONE, &private, 0), 0);
}

#[test]
fn each_egress_interface_has_its_own_domain() {
    let public = address("198.51.100.7".parse().unwrap());
    let of = |egress| domain(TP_SEPARATE_NONE, &public, 0x1234, egress);
    assert_eq!(of(0), 0);
    let all: std::collections::HashSet<u32> = (0..=u16::MAX).map(of).collect();
    assert_eq!(all.len(), 1 << 16);
}

#[test]
fn nat64_address_maps_to_its_ipv4_host() {
    let behind = address("64:ff9b::198.51.100.7".parse().unwrap());
    assert_eq!(
        unwrap_nat64(behind),
        address("198.51.100.7".parse().unwrap())
    );
    for other in [
        "64:ff9b:1::198.51.100.7",
        "64:ff9b::1:c633:6407",
        "2001:db8::1",
    ] {
        let other = address(other.parse().unwrap());
        assert_eq!(unwrap_nat64(other), other);
    }
}

#[test]
fn draws_are_uniform_and_never_the_last_number() {
    let mut counts = [0u32; 16];
    for seed in 0..16_000 {
        let draw = draw_of(random(0x5bd1_e995, seed));
        assert!(draw < 0xffff);
        counts[draw as usize >> 12] += 1;
    }
    // 1000 each, standard deviation 31
    assert!(counts.iter().all(|n| (850..1150).contains(n)), "{counts:?}");
    assert_eq!((draw_of(0), draw_of(u32::MAX)), (0, 0xfffe));
}

#[test]
fn an_assignment_lasts_half_a_minute_at_most() {
    let assignment = tp_assignment {
        tag: 7,
        live: 1,
        since: u32::MAX - 5,
        ..tp_assignment::default()
    };
    let most = ((u64::from(TP_ASSIGNMENT_MS) * 1_000_000) >> TP_OPENED_SHIFT) as u32;
    assert!(assignment_holds(&assignment, 7, assignment.since));
    assert!(assignment_holds(
        &assignment,
        7,
        assignment.since.wrapping_add(most)
    ));
    assert!(!assignment_holds(
        &assignment,
        7,
        assignment.since.wrapping_add(most + 1)
    ));
    assert!(!assignment_holds(&assignment, 9, assignment.since));
    assert!(!assignment_holds(
        &tp_assignment {
            live: 0,
            ..assignment
        },
        7,
        assignment.since
    ));
}

#[test]
fn a_distribution_is_found_anywhere_in_its_bucket() {
    let mut bucket = tp_choice_dist_bucket::default();
    for (number, dist) in (1..).zip(&mut bucket.dist) {
        *dist = tp_choice_dist {
            tag: number,
            upto: [number as u16; 8],
            level: TP_LEVEL_GROUP as u8,
            ..tp_choice_dist::default()
        };
    }
    for tag in 1..=4 {
        let expected = (words(&[tag as u16; 8]), TP_LEVEL_GROUP);
        assert_eq!(find_choice_dist(&bucket, tag), Some(expected));
    }
    assert_eq!(find_choice_dist(&bucket, 5), None);
}

#[test]
fn neighbouring_prefixes_fall_into_separate_buckets() {
    let remote = |prefix| address(IpAddr::V4(Ipv4Addr::new(198, 51, prefix, 7)));
    // With these secrets the hashes of such prefixes differ in their upper 16 bits only.
    let mut secrets = from_fn(|i| 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(i as u64 + 1));
    secrets[3] = (1 << 32) - u64::from(remote(0)[2]);
    let buckets: BTreeSet<u32> = (0..100)
        .map(|prefix| assignment_bucket(&secrets, &remote(prefix)))
        .collect();
    assert!(buckets.len() > 95, "{}", buckets.len());
}
