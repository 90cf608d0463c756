//! The guard with made-up connections.

use tcpilot_random::Random;

use super::*;

const HERE: TunedPath = TunedPath {
    slot: 1,
    born_ns: 10,
    tune: 0,
};

fn group(connections: u32, late: u32, lost_packets: u32) -> tp_cohort {
    tp_cohort {
        connections,
        late,
        sent_packets: connections * 100,
        lost_packets,
    }
}

fn judge(with: tp_cohort, without: tp_cohort) -> TuningVerdict {
    let opened = u64::from(with.connections + without.connections);
    let seen = CohortCounts {
        opened,
        with,
        without,
    };
    Guard::default().look(HERE, seen)
}

#[test]
fn few_connections_say_nothing() {
    let bad = group(900, 900, 45_000);
    assert_eq!(judge(bad, group(19, 0, 0)), TuningVerdict::TooFew);
    assert_eq!(
        judge(group(19, 19, 900), group(900, 0, 0)),
        TuningVerdict::TooFew
    );
}

#[test]
fn alike_is_kept() {
    let same = group(200, 20, 200);
    assert_eq!(judge(same, group(20, 2, 20)), TuningVerdict::Keep);
}

#[test]
fn more_loss_is_noticed() {
    let (with, without) = (0.3, 0.01);
    assert_eq!(
        judge(group(300, 0, 9000), group(100, 0, 100)),
        TuningVerdict::Loss { with, without }
    );
}

#[test]
fn more_late_connections_are_noticed() {
    let (with, without) = (0.5, 0.1);
    assert_eq!(
        judge(group(300, 150, 0), group(100, 10, 0)),
        TuningVerdict::Late { with, without }
    );
    // As many as the behaviour test has.
    let (with, without) = (1.0, 0.0);
    assert_eq!(
        judge(group(24, 24, 0), group(24, 0, 0)),
        TuningVerdict::Late { with, without }
    );
}

#[test]
fn a_difference_that_chance_explains_is_kept() {
    assert_eq!(
        judge(group(100, 12, 0), group(20, 1, 0)),
        TuningVerdict::Keep
    );
}

#[test]
fn a_new_try_is_judged_by_itself() {
    let mut guard = Guard::default();
    let mut seen = CohortCounts {
        opened: 400,
        with: group(300, 150, 0),
        without: group(100, 10, 0),
    };
    assert!(matches!(guard.look(HERE, seen), TuningVerdict::Late { .. }));
    guard.begin_anew(HERE);
    assert_eq!(guard.look(HERE, seen), TuningVerdict::TooFew);
    seen.opened += 160;
    seen.with = group(400, 155, 0);
    seen.without = group(160, 13, 0);
    assert_eq!(guard.look(HERE, seen), TuningVerdict::Keep);
    guard.keep_known(&HashSet::from([(1, 11)]));
    assert!(guard.0.is_empty(), "another path has its place");
}

/// A path whose connections end late, and lose packets, with some probability.
#[derive(Clone, Copy)]
struct Truth {
    /// One in so many is held out.
    one_in: f64,
    /// The probability to end late, with and without the tuning.
    late: [f64; 2],
    /// The share of packets lost on a connection. It varies by a factor of up to two.
    loss: [f64; 2],
}

/// A connection ends, and the pilot counts it, as `count_group` in bpf/pilot/tune/end.h.
fn end(seen: &mut CohortCounts, truth: &Truth, random: &mut Random) {
    let held_out = usize::from(random.uniform() * truth.one_in < 1.0);
    if [&seen.with, &seen.without][held_out].connections >= HALVED_AT {
        for side in [&mut seen.with, &mut seen.without] {
            side.connections >>= 1;
            side.late >>= 1;
            side.sent_packets >>= 1;
            side.lost_packets >>= 1;
        }
    }
    let side = if held_out == 1 {
        &mut seen.without
    } else {
        &mut seen.with
    };
    let packets = 10.0 * (1.0 / (1.0 - random.uniform())).min(100.0);
    let loss = truth.loss[held_out] * 2.0 * random.uniform();
    side.connections += 1;
    side.late += u32::from(random.uniform() < truth.late[held_out]);
    side.sent_packets += packets as u32;
    side.lost_packets += (packets * loss + random.uniform()) as u32;
    seen.opened += 1;
}

/// Connections until the guard finds harm, within so many looks; `each` end between two looks.
fn until_harm(truth: &Truth, seed: u64, looks: u64, each: u64) -> Option<u64> {
    let (mut guard, mut seen) = (Guard::default(), CohortCounts::default());
    let mut random = Random(seed);
    (0..looks).find_map(|_| {
        (0..each).for_each(|_| end(&mut seen, truth, &mut random));
        match guard.look(HERE, seen) {
            TuningVerdict::TooFew | TuningVerdict::Keep => None,
            TuningVerdict::Loss { .. } | TuningVerdict::Late { .. } => Some(seen.opened),
        }
    })
}

const HARMLESS: [(f64, f64); 4] = [(0.02, 0.01), (0.1, 0.05), (0.3, 0.2), (0.5, 0.0)];

/// At most two tunings in a thousand, over 10,000 looks. One path in eight has hundreds of connections between two
/// looks, the others two.
#[test]
fn without_an_effect_hardly_ever_an_alarm() {
    let tunings: u64 = 1000;
    let wrong = (0..tunings).filter(|seed| {
        let (late, loss) = HARMLESS[*seed as usize % HARMLESS.len()];
        let truth = Truth {
            one_in: [2.0, 16.0][*seed as usize / 4 % 2],
            late: [late; 2],
            loss: [loss; 2],
        };
        let (looks, each) = match seed % 8 {
            7 => (400, 300),
            _ => (10_000, 2),
        };
        until_harm(&truth, 7_000_000 + seed, looks, each).is_some()
    });
    let wrong = wrong.count();
    assert!(wrong <= 2, "{wrong} of {tunings}");
}

/// The median number of connections until harm is found.
fn median(truth: &Truth) -> u64 {
    let mut all: Vec<u64> = (0..101)
        .map(|seed| until_harm(truth, 8_000_000 + seed, 5000, 2).unwrap_or(u64::MAX))
        .collect();
    all.sort_unstable();
    all[all.len() / 2]
}

#[test]
fn harm_is_found_within_some_hundred_connections() {
    let of = |one_in, late, loss| median(&Truth { one_in, late, loss });
    let same = [0.0; 2];
    let (late, loss) = ([0.5, 0.1], [0.3, 0.01]);
    assert!(of(2.0, late, same) <= 120);
    assert!(of(16.0, late, same) <= 700);
    assert!(of(2.0, same, loss) <= 250);
    assert!(of(16.0, same, loss) <= 1200);
}

/// A path with a tuning, good for long and then harmful.
#[test]
fn harm_that_begins_late_is_found() {
    let good = Truth {
        one_in: 16.0,
        late: [0.1; 2],
        loss: [0.0; 2],
    };
    let bad = Truth {
        late: [0.6, 0.1],
        ..good
    };
    let (mut guard, mut seen, mut random) = (Guard::default(), CohortCounts::default(), Random(9));
    let mut after = |truth: &Truth, connections: u64| {
        for number in 0..connections {
            end(&mut seen, truth, &mut random);
            if number % 4 == 0 && matches!(guard.look(HERE, seen), TuningVerdict::Late { .. }) {
                return Some(number);
            }
        }
        None
    };
    assert_eq!(after(&good, 50_000), None);
    let found = after(&bad, 20_000);
    assert!(
        found.is_some_and(|connections| connections < 6000),
        "{found:?}"
    );
}
