//! The configuration in the form of the BPF programs.

use std::ffi::c_char;

use tcpilot_abi::{
    TP_ABI_VERSION, TP_CC_NAME_MAX, TP_MAX_ARMS, TP_MAX_DEFAULTS, TP_MAX_POLICIES, TP_NET_COUNT,
    TP_NO_ARM, TP_TUNE_ACK_PRIORITY, tp_config, tp_learner_config, tp_policy_config,
};

use super::policies::{LEAVE_ALONE_ID, RESERVED};
use super::{Algorithm, Config, Learner, LearnerKind, Network, Policy, PrefixOverrides};

const NS_PER_S: u64 = 1_000_000_000;

/// A mask: bit i is set if arm i needs ECN (`enum tp_ecn_use`).
fn ecn_arms(arms: &[String]) -> u8 {
    mask_of(arms, |name| name.needs_ecn())
}

fn mask_of(arms: &[String], is: impl Fn(&Algorithm) -> bool) -> u8 {
    let is = |name: &String| Algorithm::new(name).is_some_and(|name| is(&name));
    let bits = arms.iter().enumerate().filter(|(_, name)| is(name));
    bits.fold(0, |mask, (arm, _)| mask | 1 << arm)
}

impl Learner {
    /// A smaller connection updates no learner, so a report of one in sixteen is enough.
    fn least_bytes(&self) -> u64 {
        let estimates = self.estimates.bytes_min;
        match self.common.kind {
            LearnerKind::THOMPSON => estimates,
            _ => estimates.min(self.epsilon_greedy.min_flow_bytes),
        }
    }

    fn to_abi(&self, arms: &[String]) -> tp_learner_config {
        tp_learner_config {
            kind: self.common.kind.number(),
            epsilon: self.epsilon_greedy.epsilon,
            min_instances: self.epsilon_greedy.min_instances,
            learning_shift: self.epsilon_greedy.learning_shift,
            max_unpaid: self.epsilon_greedy.max_unpaid,
            arms: arms.len() as u32,
            min_flow_bytes: self.epsilon_greedy.min_flow_bytes,
        }
    }
}

impl Config {
    /// The structure for BPF. `arms` are the congestion controls available in the kernel, in the order of
    /// their numbers; those beyond [`TP_MAX_ARMS`] are ignored.
    ///
    /// The rescue's algorithm is copied as configured; the caller clears `rescue_cc` if the kernel lacks it.
    /// The field `rules` is the number of [`Config::rules`].
    pub fn to_abi(&self, arms: &[String]) -> tp_config {
        let arms = &arms[..arms.len().min(TP_MAX_ARMS as usize)];
        let rules = self.rules();
        let defaults = self.replace_defaults.len().min(TP_MAX_DEFAULTS as usize);
        let mut config = tp_config {
            abi_version: TP_ABI_VERSION,
            learner: self.learner.to_abi(arms),
            loss_shift: self.rescue.loss_shift,
            loss_min_segments: self.rescue.min_segments,
            window_ns: u64::from(self.learner.common.window_s) * NS_PER_S,
            ssthresh_window_ns: u64::from(self.ssthresh.window_s) * NS_PER_S,
            ssthresh_floor_packets: self.ssthresh.floor_packets,
            min_flow_bytes: self.learner.least_bytes(),
            sample_bytes: self.learner.estimates.sample_bytes,
            choice_dists: self.choice_dists(),
            arms: arms.len() as u8,
            policies: (RESERVED + self.policy_names().len()).min(TP_MAX_POLICIES as usize) as u8,
            rules: rules.len() as u8,
            rules_use_cgroups: rules.iter().any(|rule| rule.cgroup.is_some()).into(),
            dry_run: self.dry_run.into(),
            manage_loopback: self.manage_loopback.into(),
            ecn_arms: ecn_arms(arms),
            model_based: mask_of(arms, |name| name.is_model_based()),
            rescue_thin: self.rescue.thin_linear_timeouts.into(),
            defaults: defaults as u8,
            rules_use_netns: rules
                .iter()
                .any(|rule| rule.namespace.is_some() || rule.rule.netns_inum != 0)
                .into(),
            rescue_cc: c_name(self.rescue.algorithm.as_ref().map_or("", Algorithm::as_str)),
            rescue_arm: self.rescue_arm(arms),
            rescue_retry_s: self.rescue.retry_s,
            rescue_published: self.rescue.published.into(),
            ..Default::default()
        };
        for (field, name) in config
            .replace_defaults
            .iter_mut()
            .zip(&self.replace_defaults)
        {
            *field = c_name(name.as_str());
        }
        for (field, name) in config.arm.iter_mut().zip(arms) {
            *field = c_name(name);
        }
        self.write_policies(&mut config, arms);
        self.write_tunings(&mut config);
        config
    }

    /// The number of choice distributions; the loader makes room for twice as many. With thompson each path
    /// has a distribution, and half as many more are enough for the groups, sites and classes of most hosts.
    /// A table at most half full has few full buckets. epsilon-greedy has a distribution for each path and
    /// nothing above.
    fn choice_dists(&self) -> u32 {
        match self.learner.common.kind {
            LearnerKind::THOMPSON => self.paths_max.saturating_add(self.paths_max / 2),
            _ => self.paths_max.div_ceil(2),
        }
    }

    /// The number of the rescue's algorithm; `TP_NO_ARM` if it is not one to choose from.
    fn rescue_arm(&self, arms: &[String]) -> u8 {
        let name = self.rescue.algorithm.as_ref().map(Algorithm::as_str);
        let number = name.and_then(|name| arms.iter().position(|arm| arm == name));
        number.map_or(TP_NO_ARM as u8, |number| number as u8)
    }

    fn write_tunings(&self, config: &mut tp_config) {
        let by_number = self.by_number();
        for (id, nets) in config.tuning.iter_mut().enumerate() {
            let policy = match id.checked_sub(RESERVED).map(|own| by_number.get(own)) {
                None if id == usize::from(LEAVE_ALONE_ID) => continue,
                None => None,
                Some(Some(Some(policy))) => Some(*policy),
                Some(_) => continue,
            };
            for (net, tuning) in (0..TP_NET_COUNT).zip(nets) {
                *tuning = self.tuning.to_abi(policy, net);
                config.tunes |= tuning.features;
            }
        }
        if self.tuning.ack_priority {
            config.tunes |= 1 << TP_TUNE_ACK_PRIORITY;
        }
    }

    fn write_policies(&self, config: &mut tp_config, arms: &[String]) {
        let none = PrefixOverrides::default();
        config.policy[0] = self.policy_config(mask(arms, &self.algorithms), &none);
        config.policy[0].separation = self.separation(None);
        config.policy[usize::from(LEAVE_ALONE_ID)] = tp_policy_config {
            leave_alone: 1,
            ..self.policy_config(0, &none)
        };
        let fields = config.policy.iter_mut().skip(RESERVED);
        for (field, policy) in fields.zip(self.by_number()) {
            // No rule leads to a former policy.
            let Some(policy) = policy else { continue };
            let allowed = if policy.algorithms.is_empty() {
                &self.algorithms
            } else {
                &policy.algorithms
            };
            *field = tp_policy_config {
                leave_alone: policy.leave_alone.into(),
                net: policy.network.unwrap_or(self.tuning.network).number(),
                ecn_vouched: vouched(policy, arms),
                rescue: self.may_rescue(policy).into(),
                separation: self.separation(Some(policy)),
                ..self.policy_config(mask(arms, allowed), &policy.prefix)
            };
        }
    }

    /// Whether a policy allows the rescue. A policy with a list of arms excludes all others, and so the
    /// rescue's too, unless its `rescue` says otherwise.
    fn may_rescue(&self, policy: &Policy) -> bool {
        let listed = || match &self.rescue.algorithm {
            Some(name) => policy.algorithms.is_empty() || policy.algorithms.contains(name),
            None => false,
        };
        policy.rescue.unwrap_or_else(listed)
    }

    fn policy_config(&self, arms: u8, own: &PrefixOverrides) -> tp_policy_config {
        tp_policy_config {
            arms,
            leave_alone: 0,
            prefix_len_ipv4_private: own.ipv4_private.unwrap_or(self.prefix.ipv4_private),
            prefix_len_ipv4_public: own.ipv4_public.unwrap_or(self.prefix.ipv4_public),
            prefix_len_ipv6_private: own.ipv6_private.unwrap_or(self.prefix.ipv6_private),
            prefix_len_ipv6_public: own.ipv6_public.unwrap_or(self.prefix.ipv6_public),
            net: self.tuning.network.number(),
            rescue: 1,
            ..Default::default()
        }
    }
}

/// A mask of the arms that need ECN and have a policy's permission: the arms listed by the policy, or all of
/// them if its network is a data center. Only policies can permit such arms.
fn vouched(policy: &Policy, arms: &[String]) -> u8 {
    let listed = match policy.network {
        Some(Network::DataCenter) => u8::MAX,
        _ => mask(arms, &policy.algorithms),
    };
    listed & ecn_arms(arms)
}

/// A mask: bit i is set if arm i is allowed.
fn mask(arms: &[String], allowed: &[Algorithm]) -> u8 {
    let is_allowed = |name: &String| allowed.iter().any(|allowed| allowed.as_str() == name);
    arms.iter()
        .enumerate()
        .filter(|(_, name)| is_allowed(name))
        .fold(0, |mask, (i, _)| mask | 1 << i)
}

/// A name with its final NUL. A longer name is cut, and then names no algorithm.
fn c_name(name: &str) -> [c_char; TP_CC_NAME_MAX as usize] {
    let mut field = [0; TP_CC_NAME_MAX as usize];
    for (to, from) in field
        .iter_mut()
        .take(TP_CC_NAME_MAX as usize - 1)
        .zip(name.bytes())
    {
        *to = from as c_char;
    }
    field
}
