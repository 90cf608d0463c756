//! Functions shared by the learner's tests.
#![allow(dead_code, reason = "no test uses all of it")]

use std::net::Ipv4Addr;

use tcpilot_learner::lineage::{Class, Lineage};
use tcpilot_learner::regression::Features;
use tcpilot_learner::reward::Reward;
use tcpilot_learner::sharing::Bouts;
use tcpilot_learner::{Observation, Outcome, Thompson};

pub fn lineage(group: u8, host: u8, rtt_us: u32) -> Lineage {
    let class = Class {
        rtt_octave: Class::octave(rtt_us),
        ..Class::default()
    };
    Lineage::of(Ipv4Addr::new(198, 51, group, host).into(), class, 0)
}

/// A number around 0 with a variance of about 1, the same in each run.
pub fn noise(i: u64) -> f64 {
    let bits = i.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let uniform = |shift: u32| ((bits.rotate_left(shift) >> 40) as f64) / f64::from(1 << 24) - 0.5;
    2.0 * (uniform(0) + uniform(23) + uniform(41))
}

pub fn seen(lineage: Lineage, arm: usize, nats: f64, at_s: f64) -> Observation {
    let outcome = Outcome::Reward(Reward { nats, weight: 1.0 });
    let features = Features {
        handshake_rtt_us: 40_000.0,
        bytes: 1e6,
        ..Features::default()
    };
    Observation {
        lineage,
        arm,
        outcome,
        features,
        at_s,
        bouts: Bouts::CLEAR,
        since_last_s: None,
        segments: 0,
        is_switched: false,
        beside: 1,
    }
}

/// Connections of all arms in turn, one in 20 s, arm `a` with reward `effects[a]`.
pub fn teach(
    learner: &mut Thompson,
    lineage: Lineage,
    effects: &[f64],
    times: u64,
    from_s: f64,
) -> f64 {
    for i in 0..times {
        let arm = (i % effects.len() as u64) as usize;
        let nats = 13.0 + effects[arm] + 0.3 * noise(i);
        learner
            .observe(&seen(lineage, arm, nats, from_s + 20.0 * i as f64))
            .unwrap();
    }
    from_s + 20.0 * times as f64
}
