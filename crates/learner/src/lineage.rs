//! The nodes above a path: its group, its site and its class.
//!
//! | | IPv4 | IPv6 | private IPv4 | unique local IPv6 |
//! |---|---|---|---|---|
//! | path | /32 | /64 | /32 | /128 |
//! | group | /24 | /48 | /24 | /64 |
//! | site | /16 | /32 | /16 | /48 |
//!
//! Each node below the class is keyed by (prefix, class). Otherwise a /16 with clients of several
//! classes would have several parents, and clients with unlike RTTs would share one row.

use std::net::{IpAddr, Ipv6Addr};

/// The properties of a connection's way before its arm is chosen, in few steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Class {
    /// [`Class::octave`] of the handshake's RTT.
    pub rtt_octave: u8,
    /// The peer's receive window keeps the connection small.
    pub small_window: bool,
    /// 0 none, 1 classic (RFC 3168), 2 accurate.
    pub ecn: u8,
    /// Kind of the egress interface, in the caller's numbering (at most 63).
    pub interface: u8,
    /// The connection was accepted, and not opened.
    pub accepted: bool,
}

impl Class {
    /// The octave of all RTTs below 1024 us. On a LAN the time to wake a process differs from one
    /// handshake to the next by more than an octave.
    pub const LEAST_OCTAVE: u8 = 9;

    /// The octave of an RTT: floor(log2) of microseconds, but at least [`Class::LEAST_OCTAVE`]; 0 for an
    /// unknown one. It equals `tp_rtt_octave` in bpf/core/class.h.
    #[must_use]
    pub fn octave(rtt_us: u32) -> u8 {
        let octave = rtt_us.checked_ilog2().map(|octave| octave as u8);
        octave.map_or(0, |octave| octave.max(Self::LEAST_OCTAVE))
    }

    /// The octave in the bits of a class.
    #[must_use]
    pub fn octave_of_bits(class: u16) -> u8 {
        (class & 31) as u8
    }

    /// The class as one number.
    #[must_use]
    pub fn bits(self) -> u16 {
        u16::from(self.rtt_octave & 31)
            | u16::from(self.small_window) << 5
            | u16::from(self.ecn & 3) << 6
            | u16::from(self.interface & 63) << 8
            | u16::from(self.accepted) << 14
    }
}

impl Key {
    /// The same prefix in the octave of round trips below, and in the one above; `None` if there is none. An
    /// unknown round trip has no neighbour.
    #[must_use]
    pub fn beside(&self) -> [Option<Self>; 2] {
        let octave = Class::octave_of_bits(self.class);
        let known = octave >= Class::LEAST_OCTAVE;
        let at = |class| Self { class, ..*self };
        [
            (octave > Class::LEAST_OCTAVE).then(|| at(self.class.wrapping_sub(1))),
            (known && octave < 31).then(|| at(self.class + 1)),
        ]
    }
}

/// The levels of the tree, the lowest first; numbered as `enum tp_level` of bpf/abi/choices.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Level {
    /// One peer, or its /64.
    Path = 0,
    /// /24 or /48.
    Group = 1,
    /// /16 or /32.
    Site = 2,
    /// No prefix.
    Class = 3,
    /// Neither prefix nor class.
    Global = 4,
}

impl Level {
    /// All of them, the lowest first.
    pub const ALL: [Self; 5] = [
        Self::Path,
        Self::Group,
        Self::Site,
        Self::Class,
        Self::Global,
    ];

    /// The level of this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// A node of the tree, or a path: each has a published row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeKey {
    /// How far up it is.
    pub level: Level,
    /// Its prefix, domain and class; 0 if its level has none.
    pub key: Key,
}

/// The key of a prefix within a class (and within anything else by which the caller separates paths).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Key {
    /// The prefix, IPv4 mapped into IPv6, bits beyond its length 0.
    pub prefix: u128,
    /// Policy, namespace of a private prefix, egress: opaque here, equal within a lineage.
    pub domain: u32,
    /// [`Class::bits`].
    pub class: u16,
    /// Length of the prefix in bits of IPv6.
    pub len: u8,
}

/// A path and its nodes, from the bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lineage {
    /// The path itself.
    pub path: Key,
    /// /24 or /48.
    pub group: Key,
    /// /16 or /32.
    pub site: Key,
    /// The class. Domains learn from each other from here upwards, and not below.
    pub class: u16,
}

impl Lineage {
    /// The lineage of a peer's address.
    #[must_use]
    pub fn of(peer: IpAddr, class: Class, domain: u32) -> Self {
        let bits = match peer {
            IpAddr::V4(v4) => u128::from(v4.to_ipv6_mapped()),
            IpAddr::V6(v6) => u128::from(v6),
        };
        Self::of_prefix(bits, class.bits(), domain)
    }

    /// The lineage of an address, or of a prefix long enough to show its kind (a site's is).
    /// `class` is [`Class::bits`].
    #[must_use]
    pub fn of_prefix(bits: u128, class: u16, domain: u32) -> Self {
        let [path, group, site] = lengths(bits).map(|len: u8| Key {
            prefix: bits & (u128::MAX << (128 - len)),
            domain,
            class,
            len,
        });
        Self {
            path,
            group,
            site,
            class,
        }
    }

    /// The lineage of the path, group or site with this key.
    #[must_use]
    pub fn of_key(key: &Key) -> Self {
        Self::of_prefix(key.prefix, key.class, key.domain)
    }

    /// The key of the path or of one of the nodes above it.
    #[must_use]
    pub fn node(&self, level: Level) -> NodeKey {
        let key = match level {
            Level::Path => self.path,
            Level::Group => self.group,
            Level::Site => self.site,
            Level::Class => Key {
                class: self.class,
                ..Key::default()
            },
            Level::Global => Key::default(),
        };
        NodeKey { level, key }
    }
}

/// Lengths of the prefixes of path, group and site.
fn lengths(bits: u128) -> [u8; 3] {
    let v6 = Ipv6Addr::from_bits(bits);
    if v6.to_ipv4_mapped().is_some() {
        [128, 120, 112]
    } else if is_local(v6) {
        [128, 64, 48]
    } else {
        [64, 48, 32]
    }
}

/// The length of the prefixes of the paths in a group.
#[must_use]
pub(crate) fn path_len(group: &Key) -> u8 {
    lengths(group.prefix)[0]
}

/// Unique local (RFC 4193) or link local (RFC 4291): each host is its own path.
fn is_local(address: Ipv6Addr) -> bool {
    address.is_unique_local() || address.is_unicast_link_local()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lineage(peer: &str) -> Lineage {
        Lineage::of(peer.parse().unwrap(), Class::default(), 0)
    }

    #[test]
    fn neighbours_share_their_group_and_site() {
        let (a, b, c) = (
            lineage("198.51.100.7"),
            lineage("198.51.100.9"),
            lineage("198.51.7.7"),
        );
        assert_ne!(a.path, b.path);
        assert_eq!(a.group, b.group);
        assert_ne!(a.group, c.group);
        assert_eq!(a.site, c.site);
        assert_eq!(lineage("::ffff:198.51.100.7"), a);
    }

    #[test]
    fn ipv6_site_is_48_bits_local_64() {
        assert_eq!(
            lineage("2001:db8:1:2::1").path,
            lineage("2001:db8:1:2::9").path
        );
        assert_eq!(
            lineage("2001:db8:1:2::1").group,
            lineage("2001:db8:1:3::1").group
        );
        assert_ne!(lineage("fd00::1").path, lineage("fd00::2").path);
        assert_eq!(lineage("fd00::1").group, lineage("fd00::2").group);
    }

    #[test]
    fn lineage_follows_from_any_of_its_keys() {
        for peer in ["198.51.100.7", "2001:db8:1:2::1", "fd00:1:2:3::4", "::1"] {
            let whole = lineage(peer);
            assert_eq!(Lineage::of_key(&whole.path), whole);
            assert_eq!(Lineage::of_key(&whole.group).site, whole.site);
            assert_eq!(Lineage::of_key(&whole.group).group, whole.group);
            assert_eq!(Lineage::of_key(&whole.site).site, whole.site);
            assert_eq!(path_len(&whole.group), whole.path.len);
        }
    }

    #[test]
    fn a_lan_is_one_octave_and_unknown_apart() {
        let octaves = [0, 1, 511, 1023, 1024, 2047, 2048].map(Class::octave);
        assert_eq!(octaves, [0, 9, 9, 9, 10, 10, 11]);
        assert_eq!(Class::octave(u32::MAX), 31);
    }

    #[test]
    fn clients_with_unlike_rtts_have_separate_paths() {
        let near = Class {
            rtt_octave: Class::octave(10_000),
            ..Class::default()
        };
        let far = Class {
            rtt_octave: Class::octave(60_000),
            ..Class::default()
        };
        let peer = "198.51.100.7".parse().unwrap();
        assert_ne!(
            Lineage::of(peer, near, 0).group,
            Lineage::of(peer, far, 0).group
        );
    }
}
