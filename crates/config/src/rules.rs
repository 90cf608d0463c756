//! The rules for the kernel to find a connection's policy.
//!
//! The first match decides. A policy's lists multiply into rules, one for each combination of their entries;
//! `[leave_alone]` has one rule for each entry.

use crate::names;
use tcpilot_abi::{TP_MAX_RULES, tp_rule};
use tcpilot_core::Prefix;
use tcpilot_kernel::cc;

use super::policies::LEAVE_ALONE_ID;
use super::settings::Table;
use super::{Algorithm, Config, Match, Namespace, Network, Objective, Policy, PrefixOverrides};

/// The algorithms of all kernel versions, to recognize misspelt names.
const KNOWN_ALGORITHMS: [&str; 20] = [
    "bbr",
    "bbr3",
    "bic",
    "cdg",
    "copa",
    "cubic",
    "dctcp",
    "highspeed",
    "htcp",
    "hybla",
    "illinois",
    "ledbat",
    "lp",
    "nv",
    "prague",
    "reno",
    "scalable",
    "vegas",
    "westwood",
    "yeah",
];

/// A rule for the kernel, as far as it follows from the file alone.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleTemplate {
    /// The rule. If it depends on the name of a cgroup or a namespace, it is `disabled` and matches nothing.
    /// To resolve it, fill in `cgroup_id` or `netns_inum`, and clear `disabled`.
    pub rule: tp_rule,
    /// The path of the cgroup, relative to the cgroup root.
    pub cgroup: Option<String>,
    /// The name of the namespace under /run/netns; `host` is the daemon's own. A namespace given by inode
    /// number is in the rule.
    pub namespace: Option<String>,
}

impl Match {
    /// The number of rules needed, at most [`usize::MAX`].
    pub(super) fn combinations(&self) -> usize {
        [
            self.prefixes.len(),
            self.local_ports.len(),
            self.remote_ports.len(),
            self.cgroups.len(),
            self.namespaces.len(),
        ]
        .into_iter()
        .fold(1, |product, len| product.saturating_mul(len.max(1)))
    }

    /// One rule for each combination; at most one more than [`TP_MAX_RULES`].
    fn rules(&self, policy: u8) -> Vec<RuleTemplate> {
        let all = RuleTemplate {
            rule: tp_rule {
                policy,
                ..Default::default()
            },
            cgroup: None,
            namespace: None,
        };
        let mut rules = vec![all];
        rules = multiply(rules, &self.prefixes, |rule, prefix| {
            prefix.write_rule(&mut rule.rule)
        });
        rules = multiply(rules, &self.local_ports, |rule, ports| {
            (rule.rule.local_port_first, rule.rule.local_port_last) = (ports.first, ports.last);
        });
        rules = multiply(rules, &self.remote_ports, |rule, ports| {
            (rule.rule.remote_port_first, rule.rule.remote_port_last) = (ports.first, ports.last);
        });
        rules = multiply(rules, &self.cgroups, |rule, cgroup| {
            rule.cgroup = Some(cgroup.as_str().to_owned());
            rule.rule.disabled = 1;
        });
        multiply(rules, &self.namespaces, |rule, namespace| match namespace {
            Namespace::Inode(inode) => rule.rule.netns_inum = *inode,
            Namespace::Name(name) => {
                rule.namespace = Some(name.clone());
                rule.rule.disabled = 1;
            }
        })
    }

    /// One rule for each entry, for the policy of connections left alone.
    pub(super) fn separate_rules(&self) -> Vec<RuleTemplate> {
        let parts = [
            Match {
                prefixes: self.prefixes.clone(),
                ..Match::default()
            },
            Match {
                local_ports: self.local_ports.clone(),
                ..Match::default()
            },
            Match {
                remote_ports: self.remote_ports.clone(),
                ..Match::default()
            },
            Match {
                cgroups: self.cgroups.clone(),
                ..Match::default()
            },
            Match {
                namespaces: self.namespaces.clone(),
                ..Match::default()
            },
        ];
        // An empty list would match everything.
        let parts = parts.iter().filter(|part| **part != Match::default());
        parts.flat_map(|part| part.rules(LEAVE_ALONE_ID)).collect()
    }
}

/// Repeats each rule for each entry; returns the rules unchanged if there is no entry.
fn multiply<T>(
    rules: Vec<RuleTemplate>,
    entries: &[T],
    narrow: impl Fn(&mut RuleTemplate, &T),
) -> Vec<RuleTemplate> {
    if entries.is_empty() {
        return rules;
    }
    let narrowed = |rule: &RuleTemplate, entry: &T| {
        let mut rule = rule.clone();
        narrow(&mut rule, entry);
        rule
    };
    let all = rules
        .iter()
        .flat_map(|rule| entries.iter().map(move |entry| narrowed(rule, entry)));
    all.take(TP_MAX_RULES as usize + 1).collect()
}

impl Config {
    /// The rules in matching order: `[leave_alone]`, then the policies of the file.
    pub fn rules(&self) -> Vec<RuleTemplate> {
        let mut rules = self.leave_alone.separate_rules();
        for (policy, id) in self.numbered() {
            rules.extend(policy.matches.rules(id));
        }
        rules.truncate(TP_MAX_RULES as usize);
        rules
    }

    /// Warnings: allowed settings that are probably a mistake.
    pub fn warnings(&self) -> Vec<String> {
        let rules = self.rules();
        let mut warnings = self.misspelt();
        for (policy, id) in self.numbered() {
            warnings.extend(self.unreached(&rules, policy, id));
            let ineffective =
                !policy.algorithms.is_empty() || policy.prefix != PrefixOverrides::default();
            if policy.leave_alone && ineffective {
                warnings.push(format!(
                    "policy {}: `algorithms` and `prefix` have no effect with leave_alone",
                    policy.name
                ));
            }
            warnings.extend(self.untuned(policy));
            warnings.extend(self.unrescued(policy));
        }
        warnings
    }

    /// The warning for a policy with an impossible rescue: the rescue's algorithm must be one of those to
    /// choose from.
    fn unrescued(&self, policy: &Policy) -> Option<String> {
        let rescue = self.rescue.algorithm.as_ref()?;
        let allowed = match policy.algorithms.is_empty() {
            true => &self.algorithms,
            false => &policy.algorithms,
        };
        let is_asked = policy.rescue == Some(true) && !policy.leave_alone;
        (is_asked && !allowed.contains(rescue)).then(|| {
            let name = &policy.name;
            format!(
                "policy {name}: `rescue` has no effect: `{rescue}` must be one of its `algorithms`"
            )
        })
    }

    /// The warning for a policy with ineffective tunings.
    fn untuned(&self, policy: &Policy) -> Option<String> {
        let objective = policy.objective.unwrap_or(self.tuning.objective);
        // The network "data-center" has an effect without tunings: it allows arms that need ECN.
        let network = policy.network.filter(|n| *n != Network::DataCenter);
        let asked = !policy.features.is_empty() || network.is_some();
        let why = if policy.leave_alone && (asked || policy.objective.is_some()) {
            "leave_alone"
        } else if asked && objective == Objective::None {
            "the objective \"none\""
        } else {
            return None;
        };
        let name = &policy.name;
        Some(format!(
            "policy {name}: its tunings have no effect with {why}"
        ))
    }

    /// Reports configured algorithms unknown to all kernels, to tcpilot and to this host.
    pub(super) fn refuse_unknown(&self, top: &Table<'_>, hosts: &[String]) {
        let own: Vec<String> = cc::ours().collect();
        let here = || own.iter().chain(hosts).map(String::as_str);
        let names = || KNOWN_ALGORITHMS.into_iter().chain(here());
        let message = |name: &Algorithm| {
            let hint = names::hint(name.as_str(), names());
            let end = if hint.is_empty() { "." } else { &hint };
            format!(
                "no congestion control is known as `{name}`{end} Load one of your own before tcpilot \
                 starts (tcpilot cc load)"
            )
        };
        let is_unknown = |name: &Algorithm| !names().any(|known| name == known);
        for (index, name) in self
            .algorithms
            .iter()
            .enumerate()
            .filter(|(_, n)| is_unknown(n))
        {
            top.report_entry("algorithms", index, message(name));
        }
        if let Some(name) = self.rescue.algorithm.as_ref().filter(|n| is_unknown(n)) {
            if let Some(rescue) = top.sub("rescue", "") {
                rescue.report("algorithm", message(name));
            }
        }
    }

    /// Warnings for unknown names in `replace_defaults` close to a known one. They are no errors: another
    /// host may have them.
    fn misspelt(&self) -> Vec<String> {
        let unknown = self
            .replace_defaults
            .iter()
            .filter(|name| !KNOWN_ALGORITHMS.contains(&name.as_str()));
        unknown
            .filter_map(|name| Some((name, names::suggest(name.as_str(), KNOWN_ALGORITHMS)?)))
            .map(|(name, known)| {
                format!("no congestion control is known as `{name}`; did you mean `{known}`?")
            })
            .collect()
    }

    /// Warnings for parts of a policy without effect, because an earlier rule always matches first.
    fn unreached(&self, rules: &[RuleTemplate], policy: &Policy, id: u8) -> Vec<String> {
        let own: Vec<usize> = (0..rules.len())
            .filter(|i| rules[*i].rule.policy == id)
            .collect();
        let hidden: Vec<(usize, usize)> = own
            .iter()
            .filter_map(|i| Some((*i, covered_by(rules, *i)?)))
            .collect();
        let who = |i: usize| match rules[i].rule.policy {
            LEAVE_ALONE_ID => "[leave_alone]".to_owned(),
            other => format!("policy {}", self.policy_name(other).unwrap_or("?")),
        };
        if hidden.len() < own.len() || own.is_empty() {
            let part = |(i, by): &(usize, usize)| {
                let what = rules[*i].describe();
                format!(
                    "policy {}: {what} is never reached: {} covers it",
                    policy.name,
                    who(*by)
                )
            };
            return hidden.iter().map(part).collect();
        }
        let mut by: Vec<String> = hidden.iter().map(|(_, i)| who(*i)).collect();
        by.dedup();
        let verb = if by.len() == 1 { "covers" } else { "cover" };
        vec![format!(
            "policy {} is never reached: {} {verb} it",
            policy.name,
            by.join(" and ")
        )]
    }
}

/// The first earlier rule of another policy that matches all connections of this rule.
fn covered_by(rules: &[RuleTemplate], index: usize) -> Option<usize> {
    let rule = &rules[index];
    (0..index).find(|i| rules[*i].rule.policy != rule.rule.policy && rules[*i].covers(rule))
}

impl RuleTemplate {
    fn covers(&self, other: &RuleTemplate) -> bool {
        let (a, b) = (&self.rule, &other.rule);
        let ports = |first: u16, last: u16, other_first: u16, other_last: u16| {
            first == 0 || (first <= other_first && other_last <= last)
        };
        let prefix = (0..4)
            .all(|i| a.mask[i] & b.mask[i] == a.mask[i] && b.prefix[i] & a.mask[i] == a.prefix[i]);
        let cgroup = match (&self.cgroup, &other.cgroup) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(a), Some(b)) => b
                .strip_prefix(a.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
        };
        let any_namespace = self.namespace.is_none() && a.netns_inum == 0;
        prefix
            && cgroup
            && (any_namespace
                || (self.namespace == other.namespace && a.netns_inum == b.netns_inum))
            && ports(
                a.local_port_first,
                a.local_port_last,
                b.local_port_first,
                b.local_port_last,
            )
            && ports(
                a.remote_port_first,
                a.remote_port_last,
                b.remote_port_first,
                b.remote_port_last,
            )
    }

    /// The matched connections, in words.
    fn describe(&self) -> String {
        let rule = &self.rule;
        let mut words = Vec::new();
        let bits: u32 = rule.mask.iter().map(|word| word.count_ones()).sum();
        if let Some(prefix) = Prefix::from_words(rule.prefix, bits as u8).filter(|_| bits > 0) {
            words.push(format!("prefix {prefix}"));
        }
        for (side, first, last) in [
            ("local", rule.local_port_first, rule.local_port_last),
            ("remote", rule.remote_port_first, rule.remote_port_last),
        ] {
            match first {
                0 => (),
                _ if first == last => words.push(format!("{side} port {first}")),
                _ => words.push(format!("{side} ports {first}-{last}")),
            }
        }
        words.extend(self.cgroup.iter().map(|cgroup| format!("cgroup {cgroup}")));
        words.extend(
            self.namespace
                .iter()
                .map(|name| format!("namespace {name}")),
        );
        if rule.netns_inum != 0 {
            words.push(format!("namespace {}", rule.netns_inum));
        }
        words.join(", ")
    }
}
