//! The book of measures, from made-up records.

use proptest::prelude::*;
use tcpilot_abi::{
    TP_CONN_RESCUED, TP_LEVEL_NONE, TP_NO_ARM, TP_RECORD_FOREIGN, TP_RECORD_FORGOTTEN,
    TP_RECORD_RESCUED, TP_RECORD_SAMPLE, TP_RECORD_TIMED_OUT, TP_RECORD_TUNED, Why, tp_config,
    tp_record,
};
use tcpilot_learner::settings::RewardSettings;

use super::*;
use crate::{
    daemon::learning::{
        arms::Arms,
        clock::Clock,
        long::Before,
        translate::{Terms, Totals, lineage},
    },
    figures::AlgorithmView,
};

const WINDOWS: Windows = Windows {
    window_s: 300,
    ssthresh_s: 30,
    ssthresh_floor: 8,
};
const TICKS_PER_S: u32 = 250;
const SECOND_NS: u64 = 1_000_000_000;

/// A book with its clock: seconds since the start.
struct Tried {
    book: Book,
    arms: Arms,
    clock: Clock,
}

fn arms() -> Arms {
    let mut abi = tp_config::default();
    abi.policy[0].arms = 0b11;
    let names = ["cubic", "bbr"].map(str::to_owned);
    Arms::of_policy(&abi, 0, &names, &["cubic".to_owned()]).unwrap()
}

impl Tried {
    fn new() -> Tried {
        Tried {
            book: Book::new(2, WINDOWS),
            arms: arms(),
            clock: Clock::new(1_790_000_000.0),
        }
    }

    fn take(&mut self, record: &tp_record, before: &Before) {
        let reward = RewardSettings::default();
        let terms = Terms {
            arms: &self.arms,
            reward: &reward,
            rescue_cost: 0.1,
            ticks_per_s: TICKS_PER_S,
            clock: &self.clock,
        };
        if let Some(sample) = Sample::new(record, before, &terms) {
            let path = lineage(record).node(Level::Path);
            self.book.take(&path, &sample, record.bytes_acked > 100_000);
        }
    }

    fn told(&mut self, records: &[tp_record]) {
        let all = records.iter();
        all.for_each(|record| self.take(record, &Before::Nothing));
    }

    /// The view of the record's path at a second.
    fn view(&self, record: &tp_record, at: u64) -> PathView {
        let mut view = PathView {
            algorithms: vec![AlgorithmView::default(); 2],
            ..PathView::default()
        };
        let path = lineage(record).node(Level::Path);
        let now_s = self.clock.seconds(at * SECOND_NS);
        self.book.show(&path, now_s, &mut view);
        view
    }

    fn decisions(&self, record: &tp_record, at: u64) -> Vec<Decision> {
        let path = lineage(record).node(Level::Path);
        self.book
            .decisions(&path, self.clock.seconds(at * SECOND_NS))
    }
}

/// A megabyte in half a second, ending at this second.
fn record(host: u8, at: u64) -> tp_record {
    tp_record {
        remote: [
            0,
            0,
            0xffff_u32.to_be(),
            u32::from_be_bytes([10, 0, 0, host]).to_be(),
        ],
        at_ns: at * SECOND_NS,
        opened_ns: (at - 1) * SECOND_NS,
        bytes_acked: 1_000_000,
        busy_ticks: 124,
        srtt_us: 24_000,
        min_rtt_us: 20_000,
        segments: 700,
        retransmitted: 7,
        ssthresh_packets: 40,
        probability: 0xf000,
        weight: 1,
        arm: 1,
        why: Why::Drawn as u8,
        ..Default::default()
    }
}

#[test]
fn a_record_gives_all_measures() {
    let mut tried = Tried::new();
    let first = record(1, 1000);
    let second = tp_record {
        srtt_us: 32_000,
        min_rtt_us: 19_000,
        rate: 5000,
        ssthresh_packets: 60,
        ..record(1, 1001)
    };
    tried.told(&[first, second]);
    let view = tried.view(&first, 1002);
    assert_eq!(view.min_rtt_us.map(|us| us / 100), Some(190));
    assert_eq!(view.srtt_us, Some(25_000));
    assert!((view.loss_ratio.unwrap() - 0.01).abs() < 1e-9);
    assert_eq!((view.ssthresh, view.connections), (Some(60), 2));
    let near = |rate: Option<u64>, is: f64| (rate.unwrap() as f64 / is - 1.0).abs() < 1e-3;
    assert!(near(view.max_delivery_rate, 5e6), "{view:?}");
    let [cubic, bbr] = &view.algorithms[..] else {
        panic!("{view:?}")
    };
    assert_eq!((cubic.chosen, cubic.max_delivery_rate), (0, None));
    assert_eq!((bbr.chosen, bbr.samples, bbr.greedy), (2, 2, 2));
    assert!(near(bbr.max_delivery_rate, 5e6));
}

#[test]
fn the_mean_rate_needs_five_ticks() {
    let rate = |busy_ticks, rate, flags: u32| {
        let mut tried = Tried::new();
        let one = tp_record {
            busy_ticks,
            rate,
            flags: flags as u8,
            ..record(1, 1000)
        };
        tried.told(&[one]);
        tried.view(&one, 1000).max_delivery_rate
    };
    assert_eq!(rate(4, 0, 0), None);
    let mean = rate(124, 0, 0).unwrap() as f64;
    assert!((mean / 2e6 - 1.0).abs() < 1e-3, "{mean}");
    assert!(rate(4, 3000, 0).is_some());
    assert_eq!(rate(124, 3000, TP_RECORD_TUNED), None);
}

#[test]
fn a_long_connection_counts_once() {
    let mut tried = Tried::new();
    let sample = tp_record {
        flags: TP_RECORD_SAMPLE as u8,
        cookie: 7,
        ..record(1, 1000)
    };
    let end = tp_record {
        bytes_acked: 1_500_000,
        segments: 1100,
        retransmitted: 7,
        cookie: 7,
        opened_ns: sample.opened_ns,
        ..record(1, 1010)
    };
    tried.take(&sample, &Before::Nothing);
    assert_eq!(tried.view(&sample, 1000).connections, 0);
    tried.take(&end, &Before::Told(Totals::of(&sample)));
    let view = tried.view(&sample, 1010);
    assert_eq!((view.connections, view.algorithms[1].chosen), (1, 1));
    assert!((view.loss_ratio.unwrap() - 7.0 / 1100.0).abs() < 1e-9);
    let ends: Vec<&str> = tried
        .decisions(&sample, 1010)
        .iter()
        .map(|made| made.end.word())
        .collect();
    assert_eq!(ends, ["closed"]);
    // The part known to a former daemon is unknown.
    tried.take(&end, &Before::Unknown);
    let view = tried.view(&sample, 1010);
    assert_eq!(view.connections, 2);
    assert!((view.loss_ratio.unwrap() - 7.0 / 1100.0).abs() < 1e-9);
}

#[test]
fn a_rescued_connection_belongs_to_its_first_algorithm() {
    let mut tried = Tried::new();
    let left = tp_record {
        flags: (TP_RECORD_SAMPLE | TP_RECORD_RESCUED) as u8,
        arm: 0,
        ..record(1, 1000)
    };
    let end = tp_record {
        bytes_acked: 9_000_000,
        conn_flags: TP_CONN_RESCUED as u8,
        why: Why::Rescued as u8,
        ..record(1, 1001)
    };
    tried.take(&left, &Before::Nothing);
    tried.take(&end, &Before::Told(Totals::of(&left)));
    let view = tried.view(&left, 1001);
    let chosen: Vec<u32> = view.algorithms.iter().map(|a| a.chosen).collect();
    assert_eq!((chosen, view.connections), (vec![1, 0], 1));
    let ends = tried.decisions(&left, 1001).into_iter();
    let ends: Vec<_> = ends.map(|made| (made.arm, made.end.word())).collect();
    assert_eq!(ends, [(Some(1), "closed"), (Some(0), "switched")]);
}

#[test]
fn a_favourite_needs_a_distribution_and_half() {
    let greedy = |probability, level: u32| {
        let mut tried = Tried::new();
        let one = tp_record {
            probability,
            level: level as u8,
            ..record(1, 1000)
        };
        tried.told(&[one]);
        tried.view(&one, 1000).algorithms[1].greedy
    };
    assert_eq!((greedy(0x8000, 0), greedy(0x7fff, 0)), (1, 0));
    assert_eq!(greedy(0xffff, TP_LEVEL_NONE), 0);
}

#[test]
fn applications_choice_measures_only_the_path() {
    let mut tried = Tried::new();
    let foreign = tp_record {
        flags: TP_RECORD_FOREIGN as u8,
        arm: TP_NO_ARM as u8,
        ..record(1, 1000)
    };
    let lost = tp_record {
        flags: TP_RECORD_FORGOTTEN as u8,
        ..record(2, 1000)
    };
    let ended = tp_record {
        flags: TP_RECORD_TIMED_OUT as u8,
        weight: 16,
        ..record(3, 1000)
    };
    tried.told(&[foreign, lost, ended]);
    let view = tried.view(&foreign, 1000);
    assert_eq!((view.connections, view.min_rtt_us.is_some()), (1, true));
    assert!(view.algorithms.iter().all(|a| a.chosen == 0));
    assert_eq!(tried.decisions(&foreign, 1000), []);
    assert_eq!(tried.view(&lost, 1000).connections, 0);
    assert_eq!(tried.view(&ended, 1000).connections, 16);
    let made = tried.decisions(&ended, 1000)[0];
    assert_eq!(made.end.word(), "timed-out");
}

#[test]
fn measures_age_by_windows_and_counts_stay() {
    let mut tried = Tried::new();
    let one = record(1, 1000);
    tried.told(&[one]);
    let later = tried.view(&one, 1000 + 2 * 300);
    assert_eq!((later.min_rtt_us, later.max_delivery_rate), (None, None));
    assert_eq!((later.loss_ratio, later.ssthresh), (None, None));
    assert_eq!((later.connections, later.srtt_us), (1, Some(24_000)));
    let arm = &later.algorithms[1];
    assert_eq!((arm.chosen, arm.min_rtt_us), (1, None));
    let soon = tried.view(&one, 1000 + 61);
    assert_eq!((soon.min_rtt_us.is_some(), soon.ssthresh), (true, None));
    let small = tp_record {
        ssthresh_packets: 7,
        ..record(2, 1000)
    };
    tried.told(&[small]);
    assert_eq!(tried.view(&small, 1000).ssthresh, None);
}

#[test]
fn paths_that_the_learner_forgot_are_forgotten() {
    let mut tried = Tried::new();
    let hosts: Vec<tp_record> = (1..=20).map(|host| record(host, 1000)).collect();
    tried.told(&hosts);
    let kept = |host: &tp_record| lineage(host).node(Level::Path);
    assert!(!tried.book.needs_sweep(20));
    tried.book.sweep(hosts.iter().take(5).map(kept));
    let counts = |tried: &Tried| -> Vec<u64> {
        let all = hosts.iter();
        all.map(|host| tried.view(host, 1000).connections).collect()
    };
    assert_eq!(counts(&tried).iter().sum::<u64>(), 5);
    // Their places are used again, and are empty.
    let fresh: Vec<tp_record> = (101..=115).map(|host| record(host, 1000)).collect();
    tried.told(&fresh);
    assert_eq!(tried.book.paths.len(), 20);
    let of_new = |host: &tp_record| tried.view(host, 1000).connections;
    assert!(fresh.iter().all(|host| of_new(host) == 1));
}

/// The hash table is counted with its free places: a power of two, at most seven eighths of it in use, with
/// an entry and a byte each.
#[test]
fn a_path_costs_at_most_160_bytes() {
    const PATHS: usize = 100_000;
    let mut tried = Tried::new();
    for number in 0..PATHS as u32 {
        let mut one = record(1, 1000);
        one.remote[3] = (0x0a00_0000 + number).to_be();
        tried.told(&[one]);
    }
    let book = &tried.book;
    assert_eq!(book.places.len(), PATHS);
    let buckets = (book.places.capacity() * 8 / 7).next_power_of_two();
    let bytes = buckets * (size_of::<(u64, u32)>() + 1)
        + size_of_val(&book.paths[..])
        + size_of_val(&book.arms[..])
        + size_of_val(&book.free[..]);
    assert!(bytes <= 160 * PATHS, "{}", bytes as f64 / PATHS as f64);
}

proptest! {
    #[test]
    fn a_saved_row_gives_the_same_book(
        many in prop::collection::vec((1u8..4, 0u64..2000, 0u8..2, 1u32..100_000, 0u32..90), 1..60),
    ) {
        let mut tried = Tried::new();
        let mut at = 1000;
        for (host, step, arm, rtt, retransmitted) in many {
            at += step;
            let one = tp_record { arm, min_rtt_us: rtt, srtt_us: rtt, retransmitted, ..record(host, at) };
            tried.told(&[one]);
        }
        let mut next = Book::new(2, WINDOWS);
        for host in 1..4 {
            let key = lineage(&record(host, at)).node(Level::Path);
            let bytes = key_bytes(&key);
            let row = tried.book.row(&bytes);
            prop_assert_eq!(row.as_ref().is_none_or(|row| next.put(&bytes, row)), true);
            let Some(row) = row else { continue };
            let mut damaged = row.clone();
            damaged[9] ^= 4;
            prop_assert!(!next.put(&bytes, &damaged) && !next.put(&bytes[1..], &row));
            prop_assert!(!Book::new(3, WINDOWS).put(&bytes, &row));
        }
        let shown = |tried: &Tried| -> Vec<(PathView, Vec<Decision>)> {
            let hosts = (1..4).map(|host| record(host, at));
            hosts.map(|host| (tried.view(&host, at + 1), tried.decisions(&host, at + 1))).collect()
        };
        let before = shown(&tried);
        tried.book = next;
        prop_assert_eq!(shown(&tried), before);
    }
}
