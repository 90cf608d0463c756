//! `spread`: connections to many addresses of one prefix, some of them hot.
//!
//! The peer answers for the whole prefix by AnyIP (`ip route add local PREFIX dev lo`).

use crate::churn::{self, Exchange};
use crate::error::{Error, Result};
use crate::short::ShortReport;
use serde::Serialize;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;
use tcpilot_random::first;

/// Most hot addresses in a report.
const LISTED: u64 = 64;

/// An address prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    network: IpAddr,
    host_bits: u32,
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let form = || format!("'{text}' is not a prefix such as 10.64.0.0/14 or fd00:1::/96");
        let (address, length) = text.split_once('/').ok_or_else(form)?;
        let network: IpAddr = address.parse().map_err(|_| form())?;
        let length: u32 = length.parse().map_err(|_| form())?;
        let width = if network.is_ipv4() { 32 } else { 128 };
        let host_bits = width_check(width, length).ok_or_else(form)?;
        Ok(Self { network, host_bits })
    }
}

fn width_check(width: u32, length: u32) -> Option<u32> {
    // At least two host bits are needed for an address other than the first and the last.
    width
        .checked_sub(length)
        .filter(|&host_bits| host_bits >= 2)
}

impl Prefix {
    /// Host bits used to choose an address, at most 62.
    fn chosen_bits(self) -> u32 {
        self.host_bits.min(62)
    }

    /// Usable addresses: all but the first and the last.
    fn capacity(self) -> u64 {
        (1 << self.chosen_bits()) - 2
    }

    fn address(self, host: u64) -> IpAddr {
        let mask = u128::MAX.checked_shl(self.host_bits).unwrap_or(0);
        match self.network {
            IpAddr::V4(network) => {
                let network = u128::from(network.to_bits()) & mask;
                // Both parts fit 32 bits: the host has at most 32, the network is an IPv4 one.
                let bits = u32::try_from(network | u128::from(host)).unwrap_or(u32::MAX);
                IpAddr::V4(Ipv4Addr::from_bits(bits))
            }
            IpAddr::V6(network) => IpAddr::V6(Ipv6Addr::from_bits(
                network.to_bits() & mask | u128::from(host),
            )),
        }
    }
}

/// Bijection of the numbers below 2^bits: distinct addresses in a seeded order, without memory.
/// Odd multiplication and xor with a right shift are both invertible there.
fn permute(value: u64, bits: u32, seed: u64) -> u64 {
    let mask = (1 << bits) - 1;
    let mut value = value ^ (first(seed) & mask);
    for round in 1..=3 {
        value = value.wrapping_mul(first(seed ^ round) | 1) & mask;
        value ^= value >> (bits / 2).max(1);
    }
    value
}

/// Options of `spread`.
#[derive(Debug, Clone, Copy)]
pub struct SpreadOptions {
    /// Addresses to choose from.
    pub prefix: Prefix,
    /// The server's port.
    pub port: u16,
    /// Cold destinations, each visited.
    pub distinct: u64,
    /// Connections in all; `None` for one to each cold destination plus the hot share.
    pub count: Option<u64>,
    /// Hot destinations.
    pub hot: u64,
    /// Share of all connections going to hot destinations, 0 to 1.
    pub hot_share: f64,
    /// Connections at the same time.
    pub concurrency: usize,
    /// Bytes sent on each.
    pub bytes: u64,
    /// Chooses addresses and the order of the hot ones.
    pub seed: u64,
    /// Longest life of one connection.
    pub wait: Duration,
}

/// The result, as printed.
#[derive(Debug, Clone, Serialize)]
pub struct SpreadReport {
    /// Outcome of the connections.
    #[serde(flatten)]
    pub outcome: ShortReport,
    /// Payload bytes of the completed connections.
    pub bytes: u64,
    /// Cold destinations.
    pub distinct: u64,
    /// Connections started to cold destinations.
    pub cold_connections: u64,
    /// Connections started to hot destinations.
    pub hot_connections: u64,
    /// Hot destinations, the first 64.
    pub hot: Vec<IpAddr>,
    /// Hot destinations not listed.
    pub hot_unlisted: u64,
    /// Seed that repeats the same addresses in the same order.
    pub seed: u64,
}

/// The destination of each connection.
#[derive(Debug)]
struct Plan {
    hot: Vec<IpAddr>,
    cold: Vec<IpAddr>,
    hot_connections: u64,
    count: u64,
}

impl Plan {
    fn new(options: &SpreadOptions) -> Result<Self> {
        let SpreadOptions {
            prefix,
            distinct,
            hot,
            ..
        } = *options;
        let share = if hot == 0 { 0.0 } else { options.hot_share };
        if !(0.0..=1.0).contains(&share) || (share >= 1.0 && distinct > 0) {
            return Err(Error::Usage(
                "--hot-share must be between 0 and 1, and below 1 with cold destinations \
                 (--distinct 0 for none)"
                    .into(),
            ));
        }
        if hot.saturating_add(distinct) > prefix.capacity() {
            return Err(Error::Usage(format!(
                "the prefix has {} usable addresses, {distinct} cold and {hot} hot are wanted; \
                 use a shorter prefix",
                prefix.capacity()
            )));
        }
        let natural = if distinct == 0 {
            hot as f64
        } else {
            distinct as f64 / (1.0 - share)
        };
        let count = options.count.unwrap_or(natural.ceil() as u64);
        let hot_connections = (count as f64 * share).floor() as u64;
        if (distinct == 0 && hot_connections < count) || count - hot_connections < distinct {
            return Err(Error::Usage(format!(
                "{count} connections leave {} for {distinct} cold destinations; \
                 change --count, --distinct or --hot-share",
                count - hot_connections
            )));
        }
        let bits = prefix.chosen_bits();
        let hosts = (0..1 << bits).map(|i| permute(i, bits, options.seed));
        let mut addresses = hosts
            .filter(|&host| host != 0 && host != (1 << bits) - 1)
            .map(|host| prefix.address(host));
        let hot = addresses.by_ref().take(hot as usize).collect();
        let cold = addresses.take(distinct as usize).collect();
        Ok(Self {
            hot,
            cold,
            hot_connections,
            count,
        })
    }

    /// Destination of connection `index`. Hot ones are spaced evenly (as Bresenham's line is)
    /// and chosen at random; cold ones take turns.
    fn destination(&self, index: u64, seed: u64) -> IpAddr {
        let hot_before = |i: u64| {
            (u128::from(i) * u128::from(self.hot_connections) / u128::from(self.count)) as u64
        };
        let before = hot_before(index);
        if hot_before(index + 1) > before {
            return self.hot[(first(seed ^ first(index)) % self.hot.len() as u64) as usize];
        }
        self.cold[((index - before) % self.cold.len() as u64) as usize]
    }
}

/// Runs the connections.
///
/// # Errors
/// [`Error::Usage`] when the numbers contradict each other, [`Error::Io`] when epoll fails;
/// failed connections are counted, not returned.
pub fn run(options: &SpreadOptions) -> Result<SpreadReport> {
    let plan = Plan::new(options)?;
    let mut indices = 0..plan.count;
    let (mut hot_connections, mut cold_connections) = (0, 0);
    let hot_set: BTreeSet<IpAddr> = plan.hot.iter().copied().collect();
    let next = || {
        let address = plan.destination(indices.next()?, options.seed);
        let counter = if hot_set.contains(&address) {
            &mut hot_connections
        } else {
            &mut cold_connections
        };
        *counter += 1;
        Some(SocketAddr::new(address, options.port))
    };
    let exchange = Exchange::sink(options.bytes);
    let done = churn::run(next, &exchange, options.concurrency, options.wait)?;
    Ok(SpreadReport {
        outcome: ShortReport::from(&done),
        bytes: done.completed * options.bytes,
        distinct: plan.cold.len() as u64,
        cold_connections,
        hot_connections,
        hot: plan.hot.iter().take(LISTED as usize).copied().collect(),
        hot_unlisted: (plan.hot.len() as u64).saturating_sub(LISTED),
        seed: options.seed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn options(prefix: &str, distinct: u64, hot: u64) -> SpreadOptions {
        SpreadOptions {
            prefix: prefix.parse().unwrap(),
            port: 1,
            distinct,
            count: None,
            hot,
            hot_share: 0.5,
            concurrency: 1,
            bytes: 1,
            seed: 42,
            wait: Duration::from_secs(1),
        }
    }

    #[test]
    fn prefixes_are_checked() {
        for bad in [
            "10.0.0.0",
            "10.0.0.0/31",
            "10.0.0.0/33",
            "x/8",
            "fd00::/127",
        ] {
            assert!(bad.parse::<Prefix>().is_err(), "{bad}");
        }
        let prefix: Prefix = "10.67.9.9/14".parse().unwrap();
        assert_eq!(prefix.address(5), "10.64.0.5".parse::<IpAddr>().unwrap());
        let prefix: Prefix = "fd00:1::/64".parse().unwrap();
        assert_eq!(
            prefix.address(0xab),
            "fd00:1::ab".parse::<IpAddr>().unwrap()
        );
    }

    #[test]
    fn permutation_visits_everything_once() {
        for bits in [2, 3, 8, 13] {
            let seen: BTreeSet<u64> = (0..1 << bits).map(|i| permute(i, bits, 7)).collect();
            assert_eq!(seen.len(), 1 << bits);
            assert!(seen.iter().all(|&value| value < 1 << bits));
        }
    }

    #[test]
    fn every_cold_address_and_the_exact_hot_share() {
        let options = options("10.64.0.0/20", 3000, 10);
        let plan = Plan::new(&options).unwrap();
        assert_eq!((plan.count, plan.hot_connections), (6000, 3000));
        let mut visits = BTreeMap::new();
        for index in 0..plan.count {
            *visits
                .entry(plan.destination(index, options.seed))
                .or_insert(0) += 1;
        }
        assert!(plan.cold.iter().all(|address| visits[address] == 1));
        assert_eq!(
            plan.hot.iter().map(|address| visits[address]).sum::<u64>(),
            3000
        );
        assert_eq!(visits.len(), 3010);
    }

    #[test]
    fn no_hot_addresses_means_one_visit_each() {
        let plan = Plan::new(&options("10.64.0.0/14", 100, 0)).unwrap();
        assert_eq!((plan.count, plan.hot_connections), (100, 0));
    }

    #[test]
    fn contradictions_are_refused() {
        let full = options("10.64.0.0/24", 250, 10);
        assert!(matches!(Plan::new(&full), Err(Error::Usage(_))));
        let few = SpreadOptions {
            count: Some(100),
            ..options("10.64.0.0/16", 80, 10)
        };
        assert!(matches!(Plan::new(&few), Err(Error::Usage(_))));
        let share = SpreadOptions {
            hot_share: 1.0,
            ..options("10.64.0.0/16", 80, 10)
        };
        assert!(matches!(Plan::new(&share), Err(Error::Usage(_))));
        let none = SpreadOptions {
            count: Some(5),
            ..options("10.64.0.0/16", 0, 0)
        };
        assert!(matches!(Plan::new(&none), Err(Error::Usage(_))));
    }

    #[test]
    fn hot_only_is_possible() {
        let only = SpreadOptions {
            hot_share: 1.0,
            count: Some(9),
            ..options("10.64.0.0/16", 0, 3)
        };
        let plan = Plan::new(&only).unwrap();
        assert!((0..9).all(|index| plan.hot.contains(&plan.destination(index, 1))));
    }
}
