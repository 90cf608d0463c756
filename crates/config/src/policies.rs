//! Policies: connections treated differently or left alone, and the rules to match them.

use tcpilot_abi::{TP_MAX_POLICIES, TP_MAX_RULES};
use tcpilot_core::Prefix;
use toml::de::DeValue;

use super::settings::{Section, Table, settings};
use super::{
    Algorithm, CgroupPath, Config, Feature, Namespace, Network, Objective, Ports,
    SeparateByInterface, SeparateByNamespace,
};

/// The policy of connections without a matching rule; its number is 0.
pub const DEFAULT_POLICY: &str = "default";
/// The name of the policy of `[leave_alone]`; its number is 1.
pub const LEAVE_ALONE_POLICY: &str = "leave-alone";

/// The number of built-in policies.
pub(super) const RESERVED: usize = 2;
pub(super) const LEAVE_ALONE_ID: u8 = 1;
/// Maximum number of policies in a file.
const MOST_POLICIES: usize = TP_MAX_POLICIES as usize - RESERVED;

settings! {
    /// Conditions on a connection. Within a list one entry must match; an empty list matches all.
    Match {
        /// Remote addresses, such as "10.1.0.0/16", "2001:db8::/32" or "192.0.2.7".
        prefixes: Vec<Prefix> = Vec::new();
        /// Ports on this side: numbers, or ranges such as "8000-8100".
        local_ports: Vec<Ports> = Vec::new();
        /// Ports on the other side.
        remote_ports: Vec<Ports> = Vec::new();
        /// Control groups, as paths relative to the cgroup root. Those below them are included.
        cgroups: Vec<CgroupPath> = Vec::new();
        /// Network namespaces: names under /run/netns, "host" for the daemon's own, or inode numbers.
        namespaces: Vec<Namespace> = Vec::new();
    }
}

/// `[leave_alone]`: a match of any entry leaves a connection alone.
pub type LeaveAlone = Match;

settings! {
    /// `[policy.prefix]`: prefix lengths in bits, in place of those of `[prefix]`.
    PrefixOverrides {
        /// In place of `ipv4_private`.
        ipv4_private: Option<u8> = None, 0..=32;
        /// In place of `ipv4_public`.
        ipv4_public: Option<u8> = None, 0..=32;
        /// In place of `ipv6_private`.
        ipv6_private: Option<u8> = None, 0..=128;
        /// In place of `ipv6_public`.
        ipv6_public: Option<u8> = None, 0..=128;
    }
}

settings! {
    /// `[[policy]]`: connections with a treatment of their own.
    Policy {
        /// Its name in reports. Under a new name tcpilot learns from the beginning.
        name: String = String::new();
        /// Whether tcpilot never touches its connections.
        leave_alone: bool = false;
        /// Its algorithms, out of those of the top level; left out: all. dctcp or prague may be chosen on public
        /// addresses, too, if listed here.
        algorithms: Vec<Algorithm> = Vec::new(), 1..=8;
        /// Whether lasting loss switches its connections. Left out: only if it lists the algorithm of `[rescue]`, or
        /// lists none.
        rescue: Option<bool> = None;
        /// In place of `separate_by_namespace` of `[learner]`.
        separate_by_namespace: Option<SeparateByNamespace> = None;
        /// In place of `separate_by_interface` of `[learner]`.
        separate_by_interface: Option<SeparateByInterface> = None;
        /// In place of the one of `[tuning]`.
        objective: Option<Objective> = None;
        /// In place of the one of `[tuning]`.
        network: Option<Network> = None;
        /// Its tunings, in place of those of objective and network.
        features: Vec<Feature> = Vec::new();
    }
    with {
        /// Its connections: each non-empty list must match.
        matches: Match;
        /// Prefix lengths of its own.
        prefix: PrefixOverrides;
    }
}

/// Reads all `[[policy]]` tables.
pub(super) fn read(top: &Table<'_>, algorithms: &[Algorithm]) -> Vec<Policy> {
    let mut policies: Vec<Policy> = Vec::new();
    let Some(value) = top.get("policy") else {
        return policies;
    };
    let DeValue::Array(tables) = value.get_ref() else {
        top.report(
            "policy",
            "policies are written [[policy]], with two brackets",
        );
        return policies;
    };
    for entry in tables.iter() {
        let DeValue::Table(entries) = entry.get_ref() else {
            top.source.report(
                entry.span().start,
                "policies are tables, written [[policy]]",
            );
            continue;
        };
        let table = Table::new(top.source, " in [[policy]]", entry.span().start, entries);
        let policy = read_one(&table, algorithms);
        if policies.iter().any(|earlier| earlier.name == policy.name) && !policy.name.is_empty() {
            table.report(
                "name",
                format!("there is a policy `{}` already", policy.name),
            );
        }
        if policies.len() == MOST_POLICIES {
            table.report(
                "name",
                format!(
                    "policy `{}` is one too many: {MOST_POLICIES} are possible",
                    policy.name
                ),
            );
            break;
        }
        policies.push(policy);
    }
    policies
}

fn read_one(table: &Table<'_>, algorithms: &[Algorithm]) -> Policy {
    let mut policy = Policy::default();
    policy.read(table);
    policy.matches.read(table);
    if let Some(prefix) = table.sub("prefix", " in [policy.prefix]") {
        policy.prefix.read(&prefix);
        prefix.refuse_others(|_| None);
    }
    table.refuse_others(|_| None);
    let printable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if policy.name.is_empty() || !policy.name.chars().all(printable) {
        let wanted = "a `name` of letters, digits, `-`, `_` and `.`";
        table.report("name", format!("a policy needs {wanted}"));
    }
    if [DEFAULT_POLICY, LEAVE_ALONE_POLICY].contains(&policy.name.as_str()) {
        table.report(
            "name",
            format!("the name `{}` is taken by tcpilot itself", policy.name),
        );
    }
    for name in policy
        .algorithms
        .iter()
        .filter(|name| !algorithms.contains(name))
    {
        let hint = crate::names::hint(name.as_str(), algorithms.iter().map(Algorithm::as_str));
        let hint = if hint.is_empty() {
            "; add it there".to_owned()
        } else {
            hint
        };
        table.report(
            "algorithms",
            format!(
                "`{name}` of policy `{}` is not among the top level's algorithms{hint}",
                policy.name
            ),
        );
    }
    policy
}

impl Config {
    /// Reports `[leave_alone]` or the first policy that needs more rules than are left.
    pub(super) fn refuse_too_many(&self, top: &Table<'_>) {
        let most = TP_MAX_RULES as usize;
        let why = "lists multiply: one rule for each combination of their entries";
        let mut sum = self.leave_alone.separate_rules().len();
        if sum > most {
            top.report(
                "leave_alone",
                format!("[leave_alone] has {sum} entries, {most} are possible"),
            );
        }
        for (index, policy) in self.policies.iter().enumerate() {
            let own = policy.matches.combinations();
            let before = sum <= most;
            sum = sum.saturating_add(own);
            if before && sum > most {
                let message = format!(
                    "policy `{}` needs {own} rules, {sum} with those before it; {most} are possible ({why})",
                    policy.name
                );
                top.report_entry("policy", index, message);
            }
        }
    }

    /// Numbers the policies as a running tcpilot does, because its paths and connections refer to them by
    /// number. `names` are the names of its policies in the order of their numbers. New policies get further
    /// numbers. Policies missing in this configuration keep their numbers, because their knowledge stays.
    ///
    /// # Errors
    /// There are too many policies; the error is the number of those too many.
    pub fn number_as(&mut self, names: &[String]) -> Result<(), usize> {
        self.numbers = names.to_vec();
        for policy in &self.policies {
            if !self.numbers.contains(&policy.name) {
                self.numbers.push(policy.name.clone());
            }
        }
        match self.numbers.len().checked_sub(MOST_POLICIES) {
            None | Some(0) => Ok(()),
            Some(more) => Err(more),
        }
    }

    /// The names of the policies by their numbers, including policies of earlier configurations.
    pub fn policy_names(&self) -> Vec<&str> {
        if self.numbers.is_empty() {
            self.policies
                .iter()
                .map(|policy| policy.name.as_str())
                .collect()
        } else {
            self.numbers.iter().map(String::as_str).collect()
        }
    }

    /// The policies by their numbers, from [`RESERVED`] on; `None` for a former policy.
    pub(super) fn by_number(&self) -> Vec<Option<&Policy>> {
        let find = |name: &str| self.policies.iter().find(|policy| policy.name == name);
        self.policy_names().into_iter().map(find).collect()
    }

    /// The policies in the order of the file, with their numbers.
    pub(super) fn numbered(&self) -> Vec<(&Policy, u8)> {
        let number = |policy: &Policy| self.policy_id(&policy.name).unwrap_or_default();
        self.policies
            .iter()
            .map(|policy| (policy, number(policy)))
            .collect()
    }

    /// The number of a policy, by its name.
    pub fn policy_id(&self, name: &str) -> Option<u8> {
        let names = [DEFAULT_POLICY, LEAVE_ALONE_POLICY].into_iter();
        let mut names = names.chain(self.policy_names());
        names
            .position(|known| known == name)
            .and_then(|id| u8::try_from(id).ok())
    }

    /// The name of a policy, by its number.
    pub fn policy_name(&self, id: u8) -> Option<&str> {
        match usize::from(id) {
            0 => Some(DEFAULT_POLICY),
            1 => Some(LEAVE_ALONE_POLICY),
            id => self.policy_names().get(id - RESERVED).copied(),
        }
    }
}
