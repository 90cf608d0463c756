//! Address prefixes, as in paths and rules.
//!
//! Internally a prefix is 128 bits, with IPv4 written IPv4-mapped (RFC 4291, section 2.5.5.2), as in
//! `bpf/abi/abi.h`. People read and write `10.1.0.0/16`, `2001:db8::/32`, or an address alone for one host.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tcpilot_abi::{tp_path_key, tp_rule};

/// Bits of an IPv4-mapped address before the IPv4 address.
const MAPPED_BITS: u8 = 96;

/// An address prefix: no bit after its length is set. The default is the prefix of all addresses.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct Prefix {
    bits: u128,
    len: u8,
}

/// Why a text is no prefix. Each message is complete except for the place of the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// Neither an address nor an address, a slash and a length.
    #[error("`{0}` is not an address or prefix; write 10.1.0.0/16, 2001:db8::/32 or an address")]
    Malformed(String),
    /// The length exceeds the address family's.
    #[error("`{text}`: the length is at most {most}")]
    TooLong {
        /// The text as written.
        text: String,
        /// 32 or 128.
        most: u8,
    },
    /// Bits after the length are set, so either the address or the length is wrong.
    #[error("`{text}` has bits set beyond its length; did you mean {meant}?")]
    HostBits {
        /// The text as written.
        text: String,
        /// The prefix around this address.
        meant: Prefix,
    },
}

impl Prefix {
    /// The prefix of `len` bits around `addr`; `len` counts the family's own bits (24 for an IPv4
    /// /24) and is cut at 32 or 128.
    pub fn around(addr: IpAddr, len: u8) -> Prefix {
        match addr {
            IpAddr::V4(v4) => {
                Prefix::cut(u128::from(v4.to_ipv6_mapped()), MAPPED_BITS + len.min(32))
            }
            IpAddr::V6(v6) => Prefix::cut(u128::from(v6), len.min(128)),
        }
    }

    /// From the words and the length of `tp_path_key`. `None` if the length is above 128, or bits after it
    /// are set; the kernel side never writes such words.
    pub fn from_words(words: [u32; 4], prefix_len: u8) -> Option<Prefix> {
        let mut bytes = [0; 16];
        for (four, word) in bytes.chunks_exact_mut(4).zip(words) {
            four.copy_from_slice(&word.to_ne_bytes());
        }
        let bits = u128::from_be_bytes(bytes);
        let prefix = Prefix::cut(bits, prefix_len.min(128));
        (prefix_len <= 128 && prefix.bits == bits).then_some(prefix)
    }

    /// The prefix of a path, see [`Prefix::from_words`].
    pub fn from_key(key: &tp_path_key) -> Option<Prefix> {
        Prefix::from_words(key.prefix, key.prefix_len)
    }

    /// Writes this prefix into a path's key.
    pub fn write_key(&self, key: &mut tp_path_key) {
        key.prefix = self.words();
        key.prefix_len = self.len;
    }

    /// Writes this prefix and its mask into a rule.
    pub fn write_rule(&self, rule: &mut tp_rule) {
        rule.prefix = self.words();
        rule.mask = self.mask_words();
    }

    /// The 128 bits, as words in network byte order.
    pub fn words(&self) -> [u32; 4] {
        to_words(self.bits)
    }

    /// The netmask, as words in network byte order.
    pub fn mask_words(&self) -> [u32; 4] {
        to_words(mask(self.len))
    }

    /// The address, if the prefix is of one host.
    pub fn host(&self) -> Option<IpAddr> {
        (self.len == 128).then(|| IpAddr::from(Ipv6Addr::from(self.bits)).to_canonical())
    }

    /// The length in bits of the 128: an IPv4 /24 has 120.
    pub fn len128(&self) -> u8 {
        self.len
    }

    /// The length in bits of the family's own: an IPv4 /24 has 24.
    pub fn family_len(&self) -> u8 {
        if self.is_ipv4() {
            self.len - MAPPED_BITS
        } else {
            self.len
        }
    }

    /// Whether it is a prefix of IPv4 addresses.
    pub fn is_ipv4(&self) -> bool {
        self.len >= MAPPED_BITS && self.bits >> 32 == 0xffff
    }

    /// Whether `addr` lies in it. An IPv4 address and its IPv4-mapped form are the same.
    pub fn contains(&self, addr: IpAddr) -> bool {
        self.covers(&Prefix::around(addr, 128))
    }

    /// Whether all addresses of `other` lie in it.
    pub fn covers(&self, other: &Prefix) -> bool {
        self.len <= other.len && other.bits & mask(self.len) == self.bits
    }

    fn cut(bits: u128, len: u8) -> Prefix {
        Prefix {
            bits: bits & mask(len),
            len,
        }
    }
}

fn mask(len: u8) -> u128 {
    // A shift by all 128 bits is an overflow, not 0.
    u128::MAX
        .checked_shl(128 - u32::from(len.min(128)))
        .unwrap_or(0)
}

fn to_words(bits: u128) -> [u32; 4] {
    [96, 64, 32, 0].map(|shift| ((bits >> shift) as u32).to_be())
}

impl fmt::Display for Prefix {
    /// `10.1.0.0/16`, `2001:db8::/32`; one host's prefix is its address alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let v6 = Ipv6Addr::from(self.bits);
        match v6.to_ipv4_mapped().filter(|_| self.is_ipv4()) {
            Some(v4) => write!(f, "{v4}")?,
            None => write!(f, "{v6}")?,
        }
        if self.len == 128 {
            Ok(())
        } else {
            write!(f, "/{}", self.family_len())
        }
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Prefix, PrefixError> {
        let malformed = || PrefixError::Malformed(text.to_owned());
        let (addr, len) = match text.split_once('/') {
            Some((addr, len)) => (addr, Some(len)),
            None => (text, None),
        };
        let addr: IpAddr = addr.parse().map_err(|_| malformed())?;
        let most = if addr.is_ipv4() { 32 } else { 128 };
        let len = match len {
            None => most,
            // FromStr of an integer would take "+8" as well.
            Some(len) if len.bytes().all(|byte| byte.is_ascii_digit()) && !len.is_empty() => len
                .parse()
                .ok()
                .filter(|len| *len <= most)
                .ok_or_else(|| PrefixError::TooLong {
                    text: text.to_owned(),
                    most,
                })?,
            Some(_) => return Err(malformed()),
        };
        let prefix = Prefix::around(addr, len);
        if prefix.bits == Prefix::around(addr, most).bits {
            Ok(prefix)
        } else {
            Err(PrefixError::HostBits {
                text: text.to_owned(),
                meant: prefix,
            })
        }
    }
}

impl TryFrom<String> for Prefix {
    type Error = PrefixError;

    fn try_from(text: String) -> Result<Prefix, PrefixError> {
        text.parse()
    }
}

impl From<Prefix> for String {
    fn from(prefix: Prefix) -> String {
        prefix.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    fn error(text: &str) -> String {
        text.parse::<Prefix>().unwrap_err().to_string()
    }

    #[test]
    fn people_read_what_they_wrote() {
        for text in [
            "10.1.0.0/16",
            "2001:db8::/32",
            "192.0.2.7",
            "::1",
            "0.0.0.0/0",
            "::/0",
            "::",
        ] {
            assert_eq!(prefix(text).to_string(), text);
        }
        assert_eq!(prefix("192.0.2.7/32").to_string(), "192.0.2.7");
        assert_eq!(prefix("2001:DB8:0::/128").to_string(), "2001:db8::");
    }

    #[test]
    fn a_mapped_address_is_the_ipv4_one() {
        assert_eq!(prefix("::ffff:10.0.0.0/104"), prefix("10.0.0.0/8"));
        assert_eq!(prefix("::ffff:10.0.0.0/104").to_string(), "10.0.0.0/8");
        assert!(prefix("10.0.0.0/8").contains("::ffff:10.2.3.4".parse().unwrap()));
        assert!(!prefix("::fffe:0:0/95").is_ipv4());
        assert!(prefix("::fffe:0:0/95").covers(&prefix("0.0.0.0/0")));
    }

    #[test]
    fn error_for_host_bits_suggests_intended_prefix() {
        assert_eq!(
            error("10.1.2.3/16"),
            "`10.1.2.3/16` has bits set beyond its length; did you mean 10.1.0.0/16?"
        );
        assert_eq!(
            error("2001:db8::1/32"),
            "`2001:db8::1/32` has bits set beyond its length; did you mean 2001:db8::/32?"
        );
    }

    #[test]
    fn invalid_prefix_is_rejected() {
        assert_eq!(
            error("10.0.0.0/33"),
            "`10.0.0.0/33`: the length is at most 32"
        );
        assert_eq!(error("::/129"), "`::/129`: the length is at most 128");
        assert_eq!(error("::/99999"), "`::/99999`: the length is at most 128");
        for text in [
            "",
            "/",
            "10.0.0.0/",
            "10.0.0/8",
            "10.0.0.0/+8",
            "10.0.0.0/8/8",
            "fe80::1%eth0",
        ] {
            assert_eq!(
                error(text),
                format!(
                    "`{text}` is not an address or prefix; write 10.1.0.0/16, 2001:db8::/32 or an address"
                )
            );
        }
    }

    #[test]
    fn words_are_in_network_byte_order() {
        let mut key = tp_path_key::default();
        prefix("10.1.2.0/24").write_key(&mut key);
        assert_eq!(
            key.prefix.map(u32::to_ne_bytes)[2..],
            [[0, 0, 255, 255], [10, 1, 2, 0]]
        );
        assert_eq!(key.prefix_len, 120);
        let mut rule = tp_rule::default();
        prefix("10.1.2.0/24").write_rule(&mut rule);
        assert_eq!(rule.mask.map(u32::to_ne_bytes)[3], [255, 255, 255, 0]);
    }

    #[test]
    fn invalid_key_bits_or_length_give_none() {
        let mut key = tp_path_key::default();
        prefix("10.1.2.3").write_key(&mut key);
        key.prefix_len = 120;
        assert_eq!(Prefix::from_key(&key), None);
        key.prefix_len = 129;
        assert_eq!(Prefix::from_key(&key), None);
    }

    #[test]
    fn serde_writes_and_reads_text() {
        assert_eq!(
            serde_json::to_string(&prefix("10.0.0.0/8")).unwrap(),
            "\"10.0.0.0/8\""
        );
        assert!(serde_json::from_str::<Prefix>("\"10.0.0.1/8\"").is_err());
    }

    proptest! {
        #[test]
        fn text_words_and_prefix_are_the_same(bits: u128, len in 0u8..=128) {
            let prefix = Prefix::cut(bits, len);
            prop_assert_eq!(prefix.to_string().parse::<Prefix>().unwrap(), prefix);
            prop_assert_eq!(Prefix::from_words(prefix.words(), prefix.len128()), Some(prefix));
        }

        #[test]
        fn ipv4_text_is_the_same(bits: u32, len in 0u8..=32) {
            let prefix = Prefix::around(IpAddr::V4(bits.into()), len);
            prop_assert_eq!(prefix.family_len(), len);
            prop_assert!(!prefix.to_string().contains(':'));
            prop_assert_eq!(prefix.to_string().parse::<Prefix>().unwrap(), prefix);
        }

        #[test]
        fn a_prefix_contains_its_addresses_and_no_others(bits: u128, len in 1u8..=128, host: u128) {
            let prefix = Prefix::cut(bits, len);
            let inside = prefix.bits | host & !mask(len);
            prop_assert!(prefix.contains(IpAddr::V6(inside.into())));
            let outside = inside ^ 1 << (128 - len);
            prop_assert!(!prefix.contains(IpAddr::V6(outside.into())));
        }

        #[test]
        fn no_text_makes_parsing_panic(text in "[0-9a-f:./]{0,24}") {
            let _ = text.parse::<Prefix>();
        }
    }
}
