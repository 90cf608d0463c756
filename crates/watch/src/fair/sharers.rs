//! The units that share the link: each flow, or all flows of a subscriber together (`--share`). A subscriber is
//! a prefix of source or destination addresses.

use std::collections::{HashMap, HashSet};

use tcpilot_abi::tp_watch_key;

use crate::args::Share;

/// Numbers for sharers.
#[derive(Debug)]
pub struct Sharers {
    by: Share,
    numbers: HashMap<[u32; 4], u32>,
    next: u32,
}

impl Sharers {
    /// No sharer is known yet.
    pub fn new(by: Share) -> Sharers {
        Sharers {
            by,
            numbers: HashMap::new(),
            next: 0,
        }
    }

    /// Whether each flow is a sharer of its own.
    pub fn are_flows(&self) -> bool {
        self.by == Share::Flow
    }

    /// The number of a flow's sharer; `flow` is the flow's.
    pub fn of(&mut self, key: &tp_watch_key, flow: u32) -> u32 {
        let (address, lengths) = match self.by {
            Share::Flow => return flow,
            Share::Source(lengths) => (&key.source, lengths),
            Share::Destination(lengths) => (&key.destination, lengths),
        };
        let prefix = cut(address, lengths.ipv4, lengths.ipv6);
        *self.numbers.entry(prefix).or_insert_with(|| {
            self.next = self.next.wrapping_add(1);
            self.next
        })
    }

    /// Forgets all sharers but these.
    pub fn keep(&mut self, wanted: &HashSet<u32>) {
        self.numbers.retain(|_, number| wanted.contains(number));
    }
}

/// The first bits of an address; IPv4 addresses are written as IPv6 ones, in network byte order.
fn cut(address: &[u32; 4], ipv4: u8, ipv6: u8) -> [u32; 4] {
    let is_ipv4 = address[0] == 0 && address[1] == 0 && address[2] == u32::to_be(0xffff);
    let bits = if is_ipv4 {
        96 + u32::from(ipv4)
    } else {
        ipv6.into()
    };
    let mut at = 0;
    address.map(|word| {
        let kept = bits.saturating_sub(at).min(32);
        at += 32;
        word & u32::to_be(u32::MAX.checked_shl(32 - kept).unwrap_or(0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(source: &str, destination: &str) -> tp_watch_key {
        let words = |text: &str| {
            let address: std::net::IpAddr = text.parse().unwrap();
            let bytes = match address {
                std::net::IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
                std::net::IpAddr::V6(v6) => v6.octets(),
            };
            let mut words = [0; 4];
            for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
                *word = u32::from_ne_bytes(bytes.try_into().unwrap());
            }
            words
        };
        tp_watch_key {
            source: words(source),
            destination: words(destination),
            ..tp_watch_key::default()
        }
    }

    #[test]
    fn flows_of_one_prefix_have_one_number() {
        let mut sharers = Sharers::new("destination/24/48".parse().unwrap());
        let mut to = |destination| sharers.of(&key("192.0.2.1", destination), 77);
        let first = to("198.51.100.1");
        assert_eq!(to("198.51.100.200"), first);
        assert_ne!(to("198.51.101.1"), first);
        let sixth = to("2001:db8:1:2::1");
        assert_eq!(to("2001:db8:1:ffff::1"), sixth);
        assert_ne!(to("2001:db8:2::1"), sixth);
        sharers.keep(&HashSet::from([sixth]));
        assert_eq!(sharers.of(&key("::1", "2001:db8:1::9"), 1), sixth);
        assert_eq!(sharers.numbers.len(), 1);
    }

    #[test]
    fn by_default_each_flow_is_its_own() {
        let mut sharers = Sharers::new(Share::Flow);
        assert_eq!(sharers.of(&key("192.0.2.1", "192.0.2.2"), 5), 5);
        let mut sharers = Sharers::new("source".parse().unwrap());
        let one = sharers.of(&key("192.0.2.1", "192.0.2.2"), 5);
        assert_eq!(sharers.of(&key("192.0.2.1", "192.0.2.9"), 6), one);
        assert_ne!(sharers.of(&key("192.0.2.3", "192.0.2.2"), 7), one);
    }
}
