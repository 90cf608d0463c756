//! Explains why algorithms that need ECN may not be chosen on a path, for people. The programs decide it for
//! each connection, by the same arithmetic (`bpf/core/eligible.h`).

use tcpilot_abi::{
    TP_ECN_DATA_CENTER, TP_ECN_NOT_NEGOTIATED, TP_ECN_PUBLIC, TP_SEPARATE_PRIVATE, tp_config,
};
use tcpilot_config::Config;
use tcpilot_core::{choice_dist, tune};

use crate::figures::PathView;

/// Marks the forbidden algorithms of a path, with the reason.
pub fn mark(view: &mut PathView, has_ecn: bool, abi: &tp_config, config: &Config, arms: &[String]) {
    let policy = config.policy_id(&view.policy).map_or(0, usize::from);
    let Some(policy) = abi.policy.get(policy) else {
        return;
    };
    let net = ecn_use(view, has_ecn, policy.net);
    for algorithm in &mut view.algorithms {
        let Some(arm) = arms.iter().position(|name| *name == algorithm.name) else {
            continue;
        };
        if abi.ecn_arms >> arm & 1 == 1 {
            let vouched = policy.ecn_vouched >> arm & 1 == 1;
            algorithm.not_eligible = barred(net, vouched).map(str::to_owned);
        }
    }
}

/// The use of ECN on a path (`enum tp_ecn_use`), by its least round trip. The variation is assumed to be half
/// of the round trip, as after a handshake (RFC 6298, section 2.2).
fn ecn_use(view: &PathView, has_ecn: bool, net: u8) -> u32 {
    if !has_ecn {
        return TP_ECN_NOT_NEGOTIATED;
    }
    let min_rtt_us = view.min_rtt_us.unwrap_or(0);
    let policy = tune::tp_policy_config {
        net,
        ..Default::default()
    };
    let measures = tune::tp_net_measures {
        min_rtt_us,
        rttvar_us: min_rtt_us / 2,
        ..Default::default()
    };
    let is_private = choice_dist::domain(TP_SEPARATE_PRIVATE, &view.prefix.words(), 1, 0) != 0;
    // SAFETY: the function only reads both structures.
    unsafe { tune::tp_ecn_use_of(&raw const policy, is_private.into(), &raw const measures) }
}

fn barred(ecn_use: u32, vouched: bool) -> Option<&'static str> {
    match ecn_use {
        TP_ECN_NOT_NEGOTIATED => {
            Some("it needs ECN, which the connections of this path did not negotiate")
        }
        TP_ECN_DATA_CENTER => None,
        _ if vouched => None,
        TP_ECN_PUBLIC => Some(
            "it is not for the public Internet (RFC 8257), and no policy lists it for these connections",
        ),
        _ => Some(
            "this path is not taken for a data center's, and no policy lists it for these connections",
        ),
    }
}
