//! The name of a group in a fleet: a public /24 or /48, and the class of its handshakes.

use std::net::{Ipv4Addr, Ipv6Addr};

use tcpilot_learner::lineage::{Key, Lineage};

use crate::Refusal;

/// Bits of an IPv4 group, counted as in an IPv6 address.
const LEN_V4: u8 = 120;
/// Bits of an IPv6 group.
const LEN_V6: u8 = 48;

/// A group of paths known by the same name to all hosts. Private prefixes cannot be one: each site
/// uses them for other machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group {
    prefix: u128,
    class: u16,
}

impl Group {
    /// The group with this key in the learner's tree.
    ///
    /// # Errors
    /// [`Refusal::Group`] if the key is none of a group, [`Refusal::Private`] if it means something only to
    /// this host.
    pub fn of(key: &Key) -> Result<Self, Refusal> {
        if key.domain != 0 {
            return Err(Refusal::Private);
        }
        let group = Self::new(key.prefix, key.class)?;
        (key.len == group.len())
            .then_some(group)
            .ok_or(Refusal::Group)
    }

    /// The group of a prefix, IPv4 mapped into IPv6, and of the bits of a class.
    ///
    /// # Errors
    /// As [`Group::of`].
    pub fn new(prefix: u128, class: u16) -> Result<Self, Refusal> {
        if !is_public(Ipv6Addr::from_bits(prefix)) {
            return Err(Refusal::Private);
        }
        let whole = Lineage::of_prefix(prefix, class, 0).group;
        (whole.prefix == prefix)
            .then_some(Self { prefix, class })
            .ok_or(Refusal::Group)
    }

    /// The key of this group in the learner's tree.
    #[must_use]
    pub fn key(&self) -> Key {
        Key {
            prefix: self.prefix,
            domain: 0,
            class: self.class,
            len: self.len(),
        }
    }

    /// The key of its site, the /16 or /32 with the same class.
    #[must_use]
    pub fn site(&self) -> Key {
        Lineage::of_key(&self.key()).site
    }

    /// Bits of a class.
    #[must_use]
    pub fn class(&self) -> u16 {
        self.class
    }

    /// IPv4 mapped into IPv6.
    #[must_use]
    pub fn prefix(&self) -> u128 {
        self.prefix
    }

    /// Whether it is of IPv4.
    #[must_use]
    pub fn is_v4(&self) -> bool {
        Ipv6Addr::from_bits(self.prefix).to_ipv4_mapped().is_some()
    }

    fn len(&self) -> u8 {
        if self.is_v4() { LEN_V4 } else { LEN_V6 }
    }
}

/// Whether an address can be one of the internet (RFC 6890, and RFC 4291 section 2.4: only 2000::/3 is
/// assigned). Prefixes for documentation pass: no host has them, and examples need some.
fn is_public(address: Ipv6Addr) -> bool {
    match address.to_ipv4_mapped() {
        Some(v4) => is_public_v4(v4),
        None => address.segments()[0] & 0xe000 == 0x2000,
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    let is_shared = first == 100 && second & 0xc0 == 64; // RFC 6598
    let is_benchmark = first == 198 && second & 0xfe == 18; // RFC 2544
    // 0.0.0.0/8, and everything from multicast on.
    let is_reserved = first == 0 || first >= 224;
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || is_shared
        || is_benchmark
        || is_reserved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;
    use tcpilot_learner::lineage::Class;

    fn group(peer: &str, domain: u32) -> Result<Group, Refusal> {
        let peer: IpAddr = peer.parse().unwrap();
        Group::of(&Lineage::of(peer, Class::default(), domain).group)
    }

    #[test]
    fn public_groups_keep_their_key() {
        for peer in ["203.0.113.9", "8.8.8.8", "2001:db8:1::9"] {
            let known = Lineage::of(peer.parse().unwrap(), Class::default(), 0).group;
            assert_eq!(Group::of(&known).unwrap().key(), known);
        }
    }

    #[test]
    fn private_and_reserved_prefixes_are_refused() {
        let peers = [
            "10.1.2.3",
            "172.20.0.1",
            "192.168.1.1",
            "127.0.0.1",
            "169.254.1.1",
            "100.64.9.9",
            "198.18.0.1",
            "0.1.2.3",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "fd00::1",
            "fe80::1",
            "ff02::1",
            "::",
        ];
        for peer in peers {
            assert_eq!(group(peer, 0), Err(Refusal::Private), "{peer}");
        }
        assert_eq!(group("8.8.8.8", 1), Err(Refusal::Private));
    }

    #[test]
    fn paths_and_sites_are_no_groups() {
        let lineage = Lineage::of("8.8.8.8".parse().unwrap(), Class::default(), 0);
        assert_eq!(Group::of(&lineage.path), Err(Refusal::Group));
        assert_eq!(Group::of(&lineage.site), Err(Refusal::Group));
    }
}
