//! Turns a record of the BPF programs into an observation for the learner. Pure: it depends only on the
//! record, the sums of the connection's last record, and the policy's terms.

use tcpilot_abi::{
    TP_CLASS_ECN, TP_CLASS_INTERFACE, TP_CLASS_SMALL_WINDOW, TP_CONN_MOVED, TP_CONN_RESCUED,
    TP_RECORD_FOREIGN, TP_RECORD_FORGOTTEN, TP_RECORD_MOVED, TP_RECORD_RESCUED,
    TP_RECORD_TIMED_OUT, TP_RECORD_TUNED, TP_TRIAL_HELD_OUT, Why, tp_record,
};
use tcpilot_learner::{
    Lineage, Observation, Outcome,
    regression::Features,
    reward::{Measures, NoSample, Reward},
    settings::RewardSettings,
    sharing::Bouts,
};

use super::{arms::Arms, clock::Clock};

const US_PER_S: u64 = 1_000_000;

/// Everything a policy's learner needs to understand a record.
pub struct Terms<'a> {
    /// The algorithms, to translate the record's numbers.
    pub arms: &'a Arms,
    /// The reward of connections.
    pub reward: &'a RewardSettings,
    /// Nats subtracted from the reward of a rescued connection.
    pub rescue_cost: f64,
    /// Jiffies per second.
    pub ticks_per_s: u32,
    /// Converts the kernel's clock to the learner's.
    pub clock: &'a Clock,
}

/// Why a record is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// Another connection overwrote the facts kept from its start, so its algorithm is unknown.
    Forgotten,
    /// Its application chose another algorithm in mid-life, so the rate belongs to no single algorithm.
    Foreign,
    /// Its algorithm was changed while it was open, and its sums until then are not known, so the sums are
    /// those of two algorithms.
    Switched,
    /// A former daemon may have learned from it, so the part already used is unknown.
    KnownInPart,
    /// A tuned window made its rate, and an untuned connection of the same algorithm would not reach it.
    Tuned,
    /// It was left alone. Somebody with more knowledge about it chose its algorithm, so it is not a fair
    /// sample of the algorithm.
    LeftAlone,
    /// Its algorithm is none of the policy's.
    NoArm,
    /// It was too short, or the network never limited it.
    NoSample(NoSample),
}

impl Rejected {
    /// The reason in a word, for views.
    pub fn word(self) -> &'static str {
        match self {
            Rejected::Forgotten => "forgotten",
            Rejected::Foreign => "foreign",
            Rejected::Switched => "switched",
            Rejected::KnownInPart => "known-in-part",
            Rejected::Tuned => "tuned",
            Rejected::LeftAlone => "left-alone",
            Rejected::NoArm => "no-algorithm",
            Rejected::NoSample(NoSample::Short) => "short",
            Rejected::NoSample(NoSample::NotBusy) => "not-busy",
            Rejected::NoSample(NoSample::Inconsistent) => "inconsistent",
        }
    }
}

/// The sums in a connection's last record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The time of the record, CLOCK_MONOTONIC.
    pub at_ns: u64,
    bytes_acked: u64,
    busy_ticks: u32,
    window_ticks: u32,
    buffer_ticks: u32,
    segments: u32,
    retransmitted: u32,
    queued_bouts: u16,
    clear_bouts: u16,
    /// Its algorithm was changed then, for a better one.
    is_switch: bool,
}

impl Totals {
    /// The sums in a record.
    pub fn of(record: &tp_record) -> Totals {
        Totals {
            at_ns: record.at_ns,
            bytes_acked: record.bytes_acked,
            busy_ticks: record.busy_ticks,
            window_ticks: record.window_ticks,
            buffer_ticks: record.buffer_ticks,
            segments: record.segments,
            retransmitted: record.retransmitted,
            queued_bouts: record.queued_bouts,
            clear_bouts: record.clear_bouts,
            is_switch: has(record, TP_RECORD_RESCUED | TP_RECORD_MOVED),
        }
    }
}

/// Whether a record has this flag (`enum tp_record_flags`).
pub fn has(record: &tp_record, flag: u32) -> bool {
    u32::from(record.flags) & flag != 0
}

/// Whether its connection was rescued or moved before this record, even if this was undone since.
pub fn was_switched(record: &tp_record) -> bool {
    u32::from(record.conn_flags) & (TP_CONN_RESCUED | TP_CONN_MOVED) != 0
}

/// Whether the connection of a record was held out: it got the default, and nothing was drawn.
pub fn is_held_out(record: &tp_record) -> bool {
    u32::from(record.trial) & TP_TRIAL_HELD_OUT != 0
}

/// The lineage of a record's connection: its nodes. IPv4 addresses in a record are IPv4-mapped, also those of
/// hosts behind NAT64 (RFC 6052).
pub fn lineage(record: &tp_record) -> Lineage {
    let bits = record.remote.iter().fold(0, |bits: u128, word| {
        bits << 32 | u128::from(u32::from_be(*word))
    });
    Lineage::of_prefix(bits, record.class, record.domain)
}

/// The observation of a record. `before` has the sums of the connection's last record, if there was one: they
/// are subtracted, so nothing counts twice.
///
/// # Errors
/// [`Rejected`], with the reason.
pub fn observation(
    record: &tp_record,
    lineage: Lineage,
    before: Option<&Totals>,
    terms: &Terms<'_>,
) -> Result<Observation, Rejected> {
    let rejected = [
        (TP_RECORD_FORGOTTEN, Rejected::Forgotten),
        (TP_RECORD_FOREIGN, Rejected::Foreign),
        (TP_RECORD_TUNED, Rejected::Tuned),
    ];
    if let Some((_, why)) = rejected.iter().find(|(flag, _)| has(record, *flag)) {
        return Err(*why);
    }
    if was_switched(record) && before.is_none() {
        return Err(Rejected::Switched);
    }
    if Why::from_number(record.why).is_left_alone() {
        return Err(Rejected::LeftAlone);
    }
    // The arm in force is charged. In a dry run this is the default, not the drawn arm.
    let arm = terms.arms.of_number(record.arm).ok_or(Rejected::NoArm)?;
    // A vanished peer leaves a long wait instead of a rate.
    let outcome = if has(record, TP_RECORD_TIMED_OUT) {
        Outcome::TimedOut
    } else {
        Outcome::Reward(reward(record, before, terms).map_err(Rejected::NoSample)?)
    };
    Ok(Observation {
        lineage,
        arm,
        outcome,
        bouts: bouts(record, before),
        segments: segments(record, before),
        features: features(record),
        at_s: terms.clock.seconds(record.at_ns),
        since_last_s: before.map(|told| record.at_ns.saturating_sub(told.at_ns) as f64 / 1e9),
        is_switched: before.is_some_and(|told| told.is_switch),
        beside: record.beside.into(),
    })
}

/// The bouts of loss since `before`, or since the connection's start.
fn bouts(record: &tp_record, before: Option<&Totals>) -> Bouts {
    let none = Totals::default();
    let (now, before) = (Totals::of(record), before.unwrap_or(&none));
    Bouts {
        queued: now.queued_bouts.saturating_sub(before.queued_bouts).into(),
        clear: now.clear_bouts.saturating_sub(before.clear_bouts).into(),
    }
}

/// Segments sent since `before`, or since the connection's start.
fn segments(record: &tp_record, before: Option<&Totals>) -> u64 {
    let before = before.map_or(0, |before| before.segments);
    record.segments.saturating_sub(before).into()
}

fn reward(
    record: &tp_record,
    before: Option<&Totals>,
    terms: &Terms<'_>,
) -> Result<Reward, NoSample> {
    let measures = measures(record, before, terms.ticks_per_s);
    let mut reward = measures.reward(terms.reward)?;
    if has(record, TP_RECORD_RESCUED) {
        reward.nats -= terms.rescue_cost;
    }
    Ok(reward)
}

/// The measures since `before`, or since the connection's start.
pub(super) fn measures(record: &tp_record, before: Option<&Totals>, ticks_per_s: u32) -> Measures {
    let none = Totals::default();
    let (now, before) = (Totals::of(record), before.unwrap_or(&none));
    let us = |now: u32, before: u32| {
        let ticks = u64::from(now.saturating_sub(before));
        (ticks * US_PER_S)
            .checked_div(ticks_per_s.into())
            .unwrap_or(0)
    };
    let bytes_acked = now.bytes_acked.saturating_sub(before.bytes_acked);
    let window_limited_us = us(now.window_ticks, before.window_ticks);
    let buffer_limited_us = us(now.buffer_ticks, before.buffer_ticks);
    let ticks = now.busy_ticks.saturating_sub(before.busy_ticks);
    let net_us = net_us(ticks, us(1, 0), by_rate_us(bytes_acked, record.rate));
    Measures {
        bytes_acked,
        busy_us: net_us + window_limited_us + buffer_limited_us,
        window_limited_us,
        buffer_limited_us,
        segments: segments(record, Some(before)),
        retransmitted: now
            .retransmitted
            .saturating_sub(before.retransmitted)
            .into(),
        srtt_us: record.srtt_us,
        min_rtt_us: record.min_rtt_us,
        bdp_bytes: bdp_bytes(record, bytes_acked, net_us),
    }
}

/// Minimum number of ticks to measure a time well enough: `TP_BUSY_TICKS` of bpf/core/sample.h.
pub(super) const BUSY_TICKS_MIN: u32 = 5;

/// The time of this many ticks, in microseconds. A few ticks give only bounds; within these the rate of the
/// last sample decides, if there is one.
fn net_us(ticks: u32, tick_us: u64, by_rate_us: Option<u64>) -> u64 {
    let ticks_us = |ticks: u32| u64::from(ticks) * tick_us;
    match by_rate_us {
        Some(us) if ticks < BUSY_TICKS_MIN => {
            us.clamp(ticks_us(ticks.saturating_sub(1)), ticks_us(ticks + 1))
        }
        _ => ticks_us(ticks),
    }
}

/// Time in microseconds to send these bytes at the last sample's rate (kbyte/s).
fn by_rate_us(bytes: u64, rate: u32) -> Option<u64> {
    bytes.saturating_mul(1000).checked_div(rate.into())
}

/// The path's bandwidth-delay product in bytes; 0 if it is not known. The rate is the higher of the
/// connection's mean and its last sample, because in slow start the mean is far below the path's rate.
fn bdp_bytes(record: &tp_record, bytes: u64, net_us: u64) -> u64 {
    let mean = bytes
        .saturating_mul(US_PER_S)
        .checked_div(net_us)
        .unwrap_or(0);
    let rate = mean.max(u64::from(record.rate) * 1000);
    rate.saturating_mul(record.min_rtt_us.into()) / US_PER_S
}

pub(super) fn features(record: &tp_record) -> Features {
    let class = u32::from(record.class);
    let rtt_us = match record.handshake_us {
        0 => record.min_rtt_us,
        known => known,
    };
    Features {
        handshake_rtt_us: rtt_us.into(),
        // All bytes of the connection: an interval of a long connection is not a short connection.
        bytes: record.bytes_acked as f64,
        small_window: class >> TP_CLASS_SMALL_WINDOW & 1 == 1,
        ecn: (class >> TP_CLASS_ECN & 3) as u8,
        interface: (class >> TP_CLASS_INTERFACE & 63) as u8,
    }
}

#[cfg(test)]
mod tests;
