use proptest::prelude::*;
use tcpilot_abi::{TP_NO_ARM, TP_RECORD_SAMPLE, TP_WHY_APPLICATION, TP_WHY_ROUTE, tp_config};
use tcpilot_learner::lineage::Class;

use super::*;

const S: u64 = 1_000_000_000;

fn arms() -> Arms {
    let mut abi = tp_config::default();
    abi.policy[0].arms = 0b011; // the third arm belongs to another policy
    let names = ["bbr", "cubic", "reno"].map(str::to_owned);
    Arms::of_policy(&abi, 0, &names, &["cubic".to_owned()]).unwrap()
}

/// The record of a megabyte in a second, at 250 ticks a second.
fn record() -> tp_record {
    tp_record {
        at_ns: 101 * S,
        opened_ns: 99 * S,
        bytes_acked: 1_000_000,
        busy_ticks: 250,
        handshake_us: 19_000,
        srtt_us: 20_000,
        min_rtt_us: 20_000,
        segments: 700,
        rate: 1000,
        probability: 0x8000,
        weight: 1,
        arm: 0,
        ..Default::default()
    }
}

fn told(record: &tp_record, before: Option<&Totals>) -> Result<Observation, Rejected> {
    let peer = "198.51.100.7".parse().unwrap();
    let terms = Terms {
        arms: &arms(),
        reward: &RewardSettings::default(),
        rescue_cost: 0.1,
        ticks_per_s: 250,
        clock: &Clock::new(0.0),
    };
    observation(
        record,
        Lineage::of(peer, Class::default(), 0),
        before,
        &terms,
    )
}

fn reward_of(record: &tp_record, before: Option<&Totals>) -> Reward {
    match told(record, before).unwrap().outcome {
        Outcome::Reward(reward) => reward,
        Outcome::TimedOut => panic!("it timed out"),
    }
}

#[test]
fn reward_is_goodput_over_busy_time() {
    let end = record();
    assert_eq!(
        told(&end, None).unwrap().arm,
        1,
        "the learner's number, cubic being 0"
    );
    assert!((reward_of(&end, None).nats - 1e6f64.ln()).abs() < 1e-9);
    assert_eq!(reward_of(&end, None).weight, 1.0);
    // The peer's window or our own buffer was the limit for half of the time, so the rate is twice the mean.
    let limited = tp_record {
        busy_ticks: 125,
        window_ticks: 100,
        buffer_ticks: 25,
        ..end
    };
    assert!((reward_of(&limited, None).nats - 2e6f64.ln()).abs() < 1e-9);
}

#[test]
fn records_without_an_owner_are_rejected() {
    for (flag, why) in [
        (TP_RECORD_FORGOTTEN, Rejected::Forgotten),
        (TP_RECORD_FOREIGN, Rejected::Foreign),
        (TP_RECORD_TUNED, Rejected::Tuned),
    ] {
        let flags = (flag | TP_RECORD_TIMED_OUT) as u8;
        assert_eq!(told(&tp_record { flags, ..record() }, None), Err(why));
    }
    for why in [TP_WHY_APPLICATION, TP_WHY_ROUTE] {
        let why = why as u8;
        assert_eq!(
            told(&tp_record { why, ..record() }, None),
            Err(Rejected::LeftAlone)
        );
    }
    for arm in [2, TP_NO_ARM as u8] {
        assert_eq!(
            told(&tp_record { arm, ..record() }, None),
            Err(Rejected::NoArm)
        );
    }
    let short = tp_record {
        bytes_acked: 1000,
        ..record()
    };
    assert_eq!(told(&short, None), Err(Rejected::NoSample(NoSample::Short)));
}

#[test]
fn timeout_is_reported_whatever_its_measures() {
    for bytes_acked in [0, 1_000_000] {
        let record = tp_record {
            flags: TP_RECORD_TIMED_OUT as u8,
            bytes_acked,
            ..record()
        };
        assert_eq!(told(&record, None).unwrap().outcome, Outcome::TimedOut);
    }
}

#[test]
fn rescue_is_reported_at_once_with_cost() {
    let flags = (TP_RECORD_SAMPLE | TP_RECORD_RESCUED) as u8;
    let left = reward_of(&tp_record { flags, ..record() }, None);
    assert!((reward_of(&record(), None).nats - left.nats - 0.1).abs() < 1e-12);
}

#[test]
fn sums_after_a_rescue_belong_to_next() {
    let switch = tp_record {
        flags: (TP_RECORD_SAMPLE | TP_RECORD_RESCUED) as u8,
        ..record()
    };
    let end = tp_record {
        arm: 1,
        conn_flags: TP_CONN_RESCUED as u8,
        bytes_acked: 3_000_000,
        busy_ticks: 500,
        segments: 2100,
        ..record()
    };
    let before = Totals::of(&switch);
    assert_eq!(
        told(&switch, None).unwrap().arm,
        1,
        "bbr by the learner's number"
    );
    assert_eq!(told(&end, Some(&before)).unwrap().arm, 0);
    assert!((reward_of(&end, Some(&before)).nats - 2e6f64.ln()).abs() < 1e-9);
    // A daemon without the record of the switch has only the sums of both algorithms.
    assert_eq!(told(&end, None), Err(Rejected::Switched));
}

#[test]
fn a_long_connection_counts_each_byte_once() {
    let first = tp_record {
        flags: TP_RECORD_SAMPLE as u8,
        ..record()
    };
    // Ten seconds later it has twice the data, and the second half took a quarter of the time.
    let second = tp_record {
        at_ns: first.at_ns + 10 * S,
        bytes_acked: 2_000_000,
        busy_ticks: 250 + 62,
        segments: 1400,
        retransmitted: 70,
        ..first
    };
    let reward = reward_of(&second, Some(&Totals::of(&first)));
    let nats = (1e6f64 / 0.248).ln() + (1.0f64 - 0.1).ln();
    assert!((reward.nats - nats).abs() < 1e-9, "{}", reward.nats);
    let since = |before| told(&second, before).unwrap().since_last_s;
    assert_eq!(
        (since(None), since(Some(&Totals::of(&first)))),
        (None, Some(10.0))
    );
    let again = told(&second, Some(&Totals::of(&second)));
    assert_eq!(again, Err(Rejected::NoSample(NoSample::Short)));
}

#[test]
fn short_busy_time_uses_the_last_sample() {
    // A megabyte at 1 GB/s takes a millisecond, a quarter of a tick.
    let quick = |busy_ticks, rate| tp_record {
        busy_ticks,
        rate,
        ..record()
    };
    let rate = |record: &tp_record| reward_of(record, None).nats.exp().round();
    assert_eq!(rate(&quick(0, 1_000_000)), 1e9);
    assert_eq!(rate(&quick(1, 1_000_000)), 1e9);
    assert_eq!(
        rate(&quick(1, 100_000)),
        1.25e8,
        "not longer than two ticks of 4 ms"
    );
    assert_eq!(
        rate(&quick(4, 1_000_000)),
        8.3333333e7f64.round(),
        "not shorter than three"
    );
    assert_eq!(rate(&quick(5, 1_000_000)), 5e7);
    assert_eq!(rate(&quick(1, 0)), 2.5e8);
    let unknown = told(&quick(0, 0), None);
    assert_eq!(unknown, Err(Rejected::NoSample(NoSample::NotBusy)));
}

#[test]
fn few_round_trips_count_less() {
    // 1 MB/s over 20 ms is 20 kB in flight: 20 kB are a quarter of four times as much.
    let short = tp_record {
        bytes_acked: 20_000,
        busy_ticks: 5,
        ..record()
    };
    assert_eq!(reward_of(&short, None).weight, 0.25);
}

#[test]
fn features_are_known_before_the_choice() {
    let class = 1 << TP_CLASS_SMALL_WINDOW | 2 << TP_CLASS_ECN | 1 << TP_CLASS_INTERFACE;
    let record = tp_record {
        class: class as u16,
        ..record()
    };
    let known = told(&record, None).unwrap().features;
    assert_eq!(
        (known.small_window, known.ecn, known.interface),
        (true, 2, 1)
    );
    assert_eq!((known.handshake_rtt_us, known.bytes), (19_000.0, 1e6));
    let unseen = tp_record {
        handshake_us: 0,
        ..record
    };
    assert_eq!(
        told(&unseen, None).unwrap().features.handshake_rtt_us,
        20_000.0
    );
}

proptest! {
    #[test]
    fn rewards_are_finite_with_weights_below_one(
        bytes_acked: u64, busy_ticks: u32, window_ticks: u32, buffer_ticks: u32, segments: u32,
        retransmitted: u32, srtt_us: u32, min_rtt_us: u32, rate: u32, at_ns: u64, opened_ns: u64,
        flags: u8, conn_flags: u8,
    ) {
        let record = tp_record {
            bytes_acked, busy_ticks, window_ticks, buffer_ticks, segments, retransmitted, srtt_us,
            min_rtt_us, rate, at_ns, opened_ns, flags, conn_flags, ..record()
        };
        let half = Totals { busy_ticks: busy_ticks / 2, ..Totals::default() };
        for before in [None, Some(&half)] {
            if let Ok(Observation { outcome: Outcome::Reward(reward), .. }) = told(&record, before) {
                prop_assert!(reward.nats.is_finite() && (0.0..=1.0).contains(&reward.weight));
            }
        }
    }
}
