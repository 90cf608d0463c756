//! Moves of long connections, by made-up records.

use tcpilot_abi::{TP_CONN_DRY_RUN, TP_RECORD_MOVED, TP_RECORD_SAMPLE, TP_TRIAL_HELD_OUT};

use super::{
    tests::{learners_of, record, settings, update},
    *,
};
use crate::daemon::learning::policy_learner::{MoveTerms, PolicySettings};

const BBR: u8 = 0;
const CUBIC: u8 = 1;
const HERE: &str = "198.51.100.7";

fn moving() -> PolicySettings {
    PolicySettings {
        moves: Some(MoveTerms {
            gain: 0.1,
            every_ns: 300_000_000_000,
        }),
        ..settings(100)
    }
}

/// Takes the samples of a long connection on cubic, ten seconds apart, and returns the request after each.
/// `change` may alter a sample.
fn requests(
    learners: &mut Learners,
    count: u64,
    change: impl Fn(u64, &mut tp_record),
) -> Vec<Option<MoveRequest>> {
    let of_sample = |number: u64| {
        let mut record = record(HERE, CUBIC, 500);
        record.cookie = 77;
        record.flags = TP_RECORD_SAMPLE as u8;
        record.at_ns += number * 10_000_000_000;
        record.bytes_acked *= number + 1;
        record.busy_ticks *= number as u32 + 1;
        record.segments *= number as u32 + 1;
        record.clear_bouts *= number as u16 + 1;
        change(number, &mut record);
        learners.take(&record);
        learners.requests.pop()
    };
    (0..count).map(of_sample).collect()
}

fn trained(settings: PolicySettings) -> Learners {
    let (mut learners, _) = learners_of(settings, &[]);
    update(&mut learners, &[HERE], 60);
    learners
}

#[test]
fn long_connection_moves_to_surely_better_arm() {
    let request = MoveRequest {
        cookie: 77,
        from: CUBIC,
        to: BBR,
    };
    let seen = requests(&mut trained(moving()), 3, |_, _| {});
    // After the first sample the connection does not count as long yet.
    assert_eq!(seen, [None, Some(request), Some(request)]);
    let on_bbr = requests(&mut trained(moving()), 3, |_, record| record.arm = BBR);
    assert_eq!(on_bbr, [None; 3]);
}

#[test]
fn moves_need_the_setting_and_enough_gain() {
    assert_eq!(
        requests(&mut trained(settings(100)), 3, |_, _| {}),
        [None; 3]
    );
    let mut settings = moving();
    if let Some(terms) = &mut settings.moves {
        terms.gain = 2.0; // bbr takes half as long: 0.7
    }
    assert_eq!(requests(&mut trained(settings), 3, |_, _| {}), [None; 3]);
}

#[test]
fn nobody_is_moved_by_a_guess() {
    let (mut learners, _) = learners_of(moving(), &[]);
    update(&mut learners, &[HERE], 3);
    assert_eq!(requests(&mut learners, 4, |_, _| {}), [None; 4]);
    // If both algorithms do equally well, much knowledge changes nothing.
    let (mut learners, _) = learners_of(moving(), &[]);
    for number in 0..200 {
        learners.take(&record(HERE, (number % 2) as u8, 250 + number % 7));
    }
    assert_eq!(requests(&mut learners, 4, |_, _| {}), [None; 4]);
}

#[test]
fn held_out_connections_are_not_moved() {
    let held_out = |_, record: &mut tp_record| record.trial = TP_TRIAL_HELD_OUT as u8;
    assert_eq!(requests(&mut trained(moving()), 3, held_out), [None; 3]);
    let dry_run = |_, record: &mut tp_record| record.conn_flags = TP_CONN_DRY_RUN as u8;
    assert_eq!(requests(&mut trained(moving()), 3, dry_run), [None; 3]);
    let canary = PolicySettings {
        steer_percent: 0,
        ..moving()
    };
    assert_eq!(requests(&mut trained(canary), 3, |_, _| {}), [None; 3]);
}

#[test]
fn moved_connection_stays_for_a_while() {
    // At its second sample the connection leaves bbr. From then on it has cubic.
    let moved = |number: u64, record: &mut tp_record| match number {
        0 => record.arm = BBR,
        1 => {
            record.arm = BBR;
            record.flags = (TP_RECORD_SAMPLE | TP_RECORD_MOVED) as u8;
        }
        _ => {}
    };
    let seen = requests(&mut trained(moving()), 33, moved);
    let first = seen.iter().position(Option::is_some);
    assert_eq!(first, Some(31), "300 s after the move at 10 s");
}
