//! Turns a record into the outcome of its connection, for a trial.

use tcpilot_abi::{
    TP_RECORD_FOREIGN, TP_RECORD_FORGOTTEN, TP_RECORD_SAMPLE, TP_RECORD_TIMED_OUT, Why, tp_record,
};
use tcpilot_proof::Outcome;

use crate::daemon::learning::translate::{has, measures};

/// The outcome of a connection. `None` if it has not ended, if it was left alone, or if its record does not
/// show the outcome. A rescued or tuned connection counts as it ended, because rescue and tuning are judged
/// too.
pub fn outcome(record: &tp_record, ticks_per_s: u32) -> Option<Outcome> {
    // A vanished peer leaves a long wait with any algorithm.
    let excluded = TP_RECORD_SAMPLE | TP_RECORD_FORGOTTEN | TP_RECORD_FOREIGN | TP_RECORD_TIMED_OUT;
    if has(record, excluded) || Why::from_number(record.why).is_left_alone() {
        return None;
    }
    let seen = measures(record, None, ticks_per_s);
    let limited_us = seen
        .window_limited_us
        .saturating_add(seen.buffer_limited_us);
    let net_us = seen.busy_us.saturating_sub(limited_us);
    if net_us == 0 || seen.segments == 0 || seen.min_rtt_us == 0 {
        return None;
    }
    let bytes = seen.bytes_acked as f64;
    let rtt_us = seen.srtt_us.max(seen.min_rtt_us);
    Some(Outcome {
        bytes: seen.bytes_acked,
        goodput_nats: (bytes * 1e6 / net_us as f64).ln(),
        duration_nats: (seen.busy_us as f64 / 1e6).ln(),
        retransmitted: seen.retransmitted as f64 / seen.segments as f64,
        inflation_nats: (f64::from(rtt_us) / f64::from(seen.min_rtt_us)).ln(),
        expected_nats: tcpilot_proof::outcome::expected(seen.bytes_acked),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpilot_abi::{TP_RECORD_RESCUED, TP_RECORD_TUNED};

    fn record() -> tp_record {
        tp_record {
            bytes_acked: 1_000_000,
            busy_ticks: 250,
            window_ticks: 250,
            srtt_us: 40_000,
            min_rtt_us: 20_000,
            segments: 700,
            retransmitted: 7,
            ..tp_record::default()
        }
    }

    #[test]
    fn peer_limited_time_counts_only_for_completion() {
        let seen = outcome(&record(), 250).unwrap();
        assert!((seen.goodput_nats - 1e6f64.ln()).abs() < 1e-9);
        assert!((seen.duration_nats - 2f64.ln()).abs() < 1e-9);
        assert!((seen.inflation_nats - 2f64.ln()).abs() < 1e-9);
        assert!((seen.retransmitted - 0.01).abs() < 1e-9 && seen.bytes == 1_000_000);
        assert!((seen.expected_nats - tcpilot_proof::outcome::expected(1_000_000)).abs() < 1e-9);
        // The round trip of the handshake includes the queue made by the connection's block.
        let queued = tp_record {
            handshake_us: 180_000,
            ..record()
        };
        assert_eq!(outcome(&queued, 250), Some(seen));
    }

    #[test]
    fn whole_connections_count_unjudgeable_ones_do_not() {
        let flagged = |flag: u32| {
            let mut record = record();
            record.flags = flag as u8;
            outcome(&record, 250).is_some()
        };
        assert!(flagged(TP_RECORD_RESCUED) && flagged(TP_RECORD_TUNED));
        let excluded = [
            TP_RECORD_SAMPLE,
            TP_RECORD_FORGOTTEN,
            TP_RECORD_FOREIGN,
            TP_RECORD_TIMED_OUT,
        ];
        assert!(!excluded.into_iter().any(flagged));
        let application = tp_record {
            why: Why::Application as u8,
            ..record()
        };
        assert!(outcome(&application, 250).is_none());
    }
}
