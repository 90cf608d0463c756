//! Properties to separate paths to the same addresses: network namespace and outgoing interface.

use std::{collections::HashSet, fs};

use tcpilot_abi::{TP_SEPARATE_ALL, TP_SEPARATE_EGRESS, TP_SEPARATE_NONE, TP_SEPARATE_PRIVATE};

use super::{Config, Policy};

/// Paths with separate knowledge in each network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeparateByNamespace {
    /// Paths to private addresses.
    Private,
    /// All paths.
    All,
    /// No paths.
    None,
}

impl SeparateByNamespace {
    pub(super) const ALL: [SeparateByNamespace; 3] = [
        SeparateByNamespace::Private,
        SeparateByNamespace::All,
        SeparateByNamespace::None,
    ];

    /// Its name in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            SeparateByNamespace::Private => "private",
            SeparateByNamespace::All => "all",
            SeparateByNamespace::None => "none",
        }
    }
}

/// Whether paths have separate knowledge for each outgoing interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeparateByInterface {
    /// If the host has default routes by several interfaces.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl SeparateByInterface {
    pub(super) const ALL: [SeparateByInterface; 3] = [
        SeparateByInterface::Auto,
        SeparateByInterface::Always,
        SeparateByInterface::Never,
    ];

    /// Its name in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            SeparateByInterface::Auto => "auto",
            SeparateByInterface::Always => "always",
            SeparateByInterface::Never => "never",
        }
    }
}

impl Config {
    /// Replaces "auto" by "always" on a host with several ways out, else by "never".
    pub fn decide_interfaces(&mut self, has_several: bool) {
        let decided = match has_several {
            true => SeparateByInterface::Always,
            false => SeparateByInterface::Never,
        };
        let of_policies = self
            .policies
            .iter_mut()
            .filter_map(|p| p.separate_by_interface.as_mut());
        let all = of_policies.chain([&mut self.learner.estimates.separate_by_interface]);
        for interfaces in all.filter(|known| **known == SeparateByInterface::Auto) {
            *interfaces = decided;
        }
    }

    /// The `enum tp_separation` of a policy; `None` means the connections without a matching rule.
    pub(super) fn separation(&self, policy: Option<&Policy>) -> u8 {
        let default = &self.learner.estimates;
        let namespaces = policy.and_then(|policy| policy.separate_by_namespace);
        let interfaces = policy.and_then(|policy| policy.separate_by_interface);
        let by = match namespaces.unwrap_or(default.separate_by_namespace) {
            SeparateByNamespace::Private => TP_SEPARATE_PRIVATE,
            SeparateByNamespace::All => TP_SEPARATE_ALL,
            SeparateByNamespace::None => TP_SEPARATE_NONE,
        };
        let egress = match interfaces.unwrap_or(default.separate_by_interface) {
            SeparateByInterface::Always => TP_SEPARATE_EGRESS,
            SeparateByInterface::Auto | SeparateByInterface::Never => 0,
        };
        (by | egress) as u8
    }
}

/// Whether this network namespace has default routes by several interfaces, for IPv4 or for IPv6.
pub fn has_several_ways_out() -> bool {
    let read = |name| fs::read_to_string(name).unwrap_or_default();
    are_several(&read("/proc/net/route"), &read("/proc/net/ipv6_route"))
}

/// The flag of a rejecting route (RTF_REJECT of linux/route.h).
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
    fn two_default_interfaces_are_several_ways_out() {
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

    fn separation(text: &str) -> [u32; 2] {
        let mut config = Config::from_toml(text, "").unwrap();
        config.decide_interfaces(true);
        let policy = config.policies.first();
        [config.separation(None), config.separation(policy)].map(u32::from)
    }

    #[test]
    fn a_policy_may_separate_paths_otherwise() {
        const THOMPSON: &str = "[learner]\nkind = \"thompson\"\n";
        let several = TP_SEPARATE_PRIVATE | TP_SEPARATE_EGRESS;
        assert_eq!(separation(THOMPSON), [several, several]);
        let joined = format!(
            "{THOMPSON}separate_by_interface = \"never\"\n[[policy]]\nname = \"a\"\nseparate_by_namespace = \"none\""
        );
        assert_eq!(separation(&joined), [TP_SEPARATE_PRIVATE, TP_SEPARATE_NONE]);
        let apart = format!(
            "{THOMPSON}separate_by_namespace = \"none\"\n[[policy]]\nname = \"a\"\nseparate_by_namespace = \"all\"\n\
             separate_by_interface = \"never\""
        );
        assert_eq!(
            separation(&apart),
            [TP_SEPARATE_NONE | TP_SEPARATE_EGRESS, TP_SEPARATE_ALL]
        );
    }

    #[test]
    fn one_way_out_does_not_separate_paths() {
        let mut config = Config::from_toml("[learner]\nkind = \"thompson\"", "").unwrap();
        config.decide_interfaces(false);
        assert_eq!(u32::from(config.separation(None)), TP_SEPARATE_PRIVATE);
    }

    #[test]
    fn the_former_names_are_still_read() {
        let keys = "separate_by_namespace = \"all\"\nseparate_by_interface = \"never\"\n";
        let text = format!("[learner]\n{keys}[[policy]]\nname = \"a\"\n{keys}");
        let former = text.replace("separate_by_namespace", "part_namespaces");
        let former = former.replace("separate_by_interface", "part_interfaces");
        let read = |text: &str| Config::from_toml(text, "").unwrap();
        assert_eq!(read(&former), read(&text));
        assert_eq!(separation(&former), [TP_SEPARATE_ALL; 2]);
    }
}
