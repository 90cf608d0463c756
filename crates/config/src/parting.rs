//! Properties that separate paths to the same addresses: the network namespace, and the interface that the
//! host sends by.

use std::{collections::HashSet, fs};

use tcpilot_abi::{TP_PART_ALL, TP_PART_EGRESS, TP_PART_NONE, TP_PART_PRIVATE};

use super::{Config, Policy};

/// The paths that are learned separately in each network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartNamespaces {
    /// Paths to private addresses.
    Private,
    /// All paths.
    All,
    /// No paths.
    None,
}

impl PartNamespaces {
    pub(super) const ALL: [PartNamespaces; 3] = [
        PartNamespaces::Private,
        PartNamespaces::All,
        PartNamespaces::None,
    ];

    /// Its name in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            PartNamespaces::Private => "private",
            PartNamespaces::All => "all",
            PartNamespaces::None => "none",
        }
    }
}

/// Whether paths are learned separately for each interface that the host sends by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartInterfaces {
    /// If the host has default routes by several interfaces.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl PartInterfaces {
    pub(super) const ALL: [PartInterfaces; 3] = [
        PartInterfaces::Auto,
        PartInterfaces::Always,
        PartInterfaces::Never,
    ];

    /// Its name in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            PartInterfaces::Auto => "auto",
            PartInterfaces::Always => "always",
            PartInterfaces::Never => "never",
        }
    }
}

impl Config {
    /// Replaces "auto" by "always" on a host with several ways out, else by "never".
    pub fn decide_interfaces(&mut self, has_several: bool) {
        let decided = match has_several {
            true => PartInterfaces::Always,
            false => PartInterfaces::Never,
        };
        let of_policies = self
            .policies
            .iter_mut()
            .filter_map(|p| p.part_interfaces.as_mut());
        let all = of_policies.chain([&mut self.learner.estimates.part_interfaces]);
        for interfaces in all.filter(|known| **known == PartInterfaces::Auto) {
            *interfaces = decided;
        }
    }

    /// The `enum tp_parting` of a policy; `None` means the connections that no rule matches.
    pub(super) fn parting(&self, policy: Option<&Policy>) -> u8 {
        let default = &self.learner.estimates;
        let namespaces = policy.and_then(|policy| policy.part_namespaces);
        let interfaces = policy.and_then(|policy| policy.part_interfaces);
        let by = match namespaces.unwrap_or(default.part_namespaces) {
            PartNamespaces::Private => TP_PART_PRIVATE,
            PartNamespaces::All => TP_PART_ALL,
            PartNamespaces::None => TP_PART_NONE,
        };
        let egress = match interfaces.unwrap_or(default.part_interfaces) {
            PartInterfaces::Always => TP_PART_EGRESS,
            PartInterfaces::Auto | PartInterfaces::Never => 0,
        };
        (by | egress) as u8
    }
}

/// Whether this network namespace has default routes by several interfaces, for IPv4 or for IPv6.
pub fn has_several_ways_out() -> bool {
    let read = |name| fs::read_to_string(name).unwrap_or_default();
    are_several(&read("/proc/net/route"), &read("/proc/net/ipv6_route"))
}

/// The flag of a route that rejects packets (RTF_REJECT of linux/route.h).
const REJECT: u32 = 0x200;

fn are_several(ipv4: &str, ipv6: &str) -> bool {
    let is_default4 = |line: &Vec<&str>| {
        line.len() > 7 && line[1] == "00000000" && line[7] == "00000000" && leads(line[3])
    };
    let is_default6 = |line: &Vec<&str>| {
        line.len() > 9 && line[1] == "00" && line[0] == line[2] && leads(line[8])
    };
    let of4: HashSet<&str> = ipv4
        .lines()
        .map(words)
        .filter(is_default4)
        .map(|line| line[0])
        .collect();
    let of6: HashSet<&str> = ipv6
        .lines()
        .map(words)
        .filter(is_default6)
        .map(|line| line[9])
        .collect();
    of4.len() > 1 || of6.len() > 1
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

fn leads(flags: &str) -> bool {
    u32::from_str_radix(flags, 16).is_ok_and(|flags| flags & REJECT == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";

    fn ipv4(interface: &str, destination: &str, flags: &str) -> String {
        format!("{interface}\t{destination}\t010010AC\t{flags}\t0\t0\t0\t{destination}\t0\t0\t0\n")
    }

    fn ipv6(interface: &str, length: &str, flags: &str) -> String {
        let none = "0".repeat(32);
        format!(
            "{none} {length} {none} 00 fe80{} 00000400 00000001 00000000 {flags} {interface:>8}\n",
            "0".repeat(28)
        )
    }

    #[test]
    fn default_routes_by_two_interfaces_are_several_ways_out() {
        let wired = HEAD.to_owned() + &ipv4("eth0", "00000000", "0003");
        assert!(!are_several(&wired, ""));
        assert!(!are_several(
            &(wired.clone() + &ipv4("eth0", "00000000", "0003")),
            ""
        ));
        assert!(!are_several(
            &(wired.clone() + &ipv4("wlan0", "0000FEA9", "0001")),
            ""
        ));
        assert!(!are_several(
            &(wired.clone() + &ipv4("lo", "00000000", "0201")),
            ""
        ));
        assert!(are_several(
            &(wired.clone() + &ipv4("wlan0", "00000000", "0003")),
            ""
        ));
    }

    #[test]
    fn each_family_counts_for_itself() {
        let wired = HEAD.to_owned() + &ipv4("eth0", "00000000", "0003");
        let tunnel = ipv6("tun0", "00", "00000003");
        assert!(!are_several(&wired, &tunnel), "an address has one way out");
        assert!(!are_several(
            "",
            &(tunnel.clone() + &ipv6("eth0", "40", "00000003"))
        ));
        assert!(!are_several(
            "",
            &(tunnel.clone() + &ipv6("lo", "00", "00200200"))
        ));
        assert!(are_several("", &(tunnel + &ipv6("eth0", "00", "00000003"))));
    }

    fn parting(text: &str) -> [u32; 2] {
        let mut config = Config::from_toml(text, "").unwrap();
        config.decide_interfaces(true);
        let policy = config.policies.first();
        [config.parting(None), config.parting(policy)].map(u32::from)
    }

    #[test]
    fn a_policy_parts_and_joins_paths_otherwise_than_the_rest() {
        const THOMPSON: &str = "[learner]\nkind = \"thompson\"\n";
        let several = TP_PART_PRIVATE | TP_PART_EGRESS;
        assert_eq!(parting(THOMPSON), [several, several]);
        let joined = format!(
            "{THOMPSON}part_interfaces = \"never\"\n[[policy]]\nname = \"a\"\npart_namespaces = \"none\""
        );
        assert_eq!(parting(&joined), [TP_PART_PRIVATE, TP_PART_NONE]);
        let apart = format!(
            "{THOMPSON}part_namespaces = \"none\"\n[[policy]]\nname = \"a\"\npart_namespaces = \"all\"\n\
             part_interfaces = \"never\""
        );
        assert_eq!(
            parting(&apart),
            [TP_PART_NONE | TP_PART_EGRESS, TP_PART_ALL]
        );
    }

    #[test]
    fn a_host_with_one_way_out_does_not_part_by_it_unless_told_to() {
        let mut config = Config::from_toml("[learner]\nkind = \"thompson\"", "").unwrap();
        config.decide_interfaces(false);
        assert_eq!(u32::from(config.parting(None)), TP_PART_PRIVATE);
    }
}
