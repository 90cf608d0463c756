//! The effect of made-up records, with assignment buckets in memory and a clock set by the test.

use std::sync::{Arc, Mutex};

use super::{saved::POLICY, *};
use crate::state::Knowledge;

/// Assignment buckets in memory.
#[derive(Clone)]
struct InMemory(Arc<Mutex<Vec<u8>>>);

impl AssignmentTable for InMemory {
    fn set(&mut self, all: &[u8; ASSIGNMENT_BUCKETS]) {
        *self.0.lock().unwrap() = all.to_vec();
    }
}

struct World {
    effect: Effect,
    buckets: InMemory,
    /// Whether the fleet says something of each place with harm.
    refuses: bool,
    /// Seconds the test's clock is ahead of the real one.
    now_s: u64,
}

const START: u64 = 1_795_003_200;

fn keys() -> Keys {
    Keys {
        hold_out: HoldOut::Block,
        block_s: 10,
        settle_s: 1,
        ..Keys::default()
    }
}

fn saved(store: &[Knowledge]) -> Saved {
    Saved::of(store.iter().flat_map(|k| k.rows.clone()))
}

impl World {
    fn open(keys: Keys, saved: Saved, now_s: u64) -> World {
        let buckets = InMemory(Arc::default());
        let clock = Clock::new(now_s as f64 + 0.5);
        World {
            effect: Effect::open(keys, saved, Box::new(buckets.clone()), clock),
            buckets,
            refuses: false,
            now_s,
        }
    }

    fn new(keys: Keys) -> World {
        World::open(keys, Saved::read(None, POLICY).unwrap(), START)
    }

    /// Moves the learner's clock on; no time passes.
    fn advance(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now_s += 1;
            self.effect.clock = Clock::new(self.now_s as f64 + 0.5);
            self.effect.turn();
            self.effect.react(|_| self.refuses);
        }
    }

    fn says(&self, host: u8) -> u8 {
        let bucket = assignment_bucket(&self.effect.secrets, &remote(host));
        self.buckets.0.lock().unwrap()[bucket as usize]
    }

    /// A connection to a host opens and ends now. Steered ones are faster by a gain.
    fn connect(&mut self, host: u8, gain: f64) {
        let trial = self.says(host);
        let is_steered = u32::from(trial) & TP_TRIAL_HELD_OUT == 0;
        let ticks = 1000.0 * (if is_steered { -gain } else { 0.0 }).exp();
        let now_ns = tcpilot_kernel::clock::monotonic_ns();
        let record = tp_record {
            remote: remote(host),
            opened_ns: now_ns,
            at_ns: now_ns,
            bytes_acked: 1_000_000,
            busy_ticks: ticks as u32 + u32::from(host % 7),
            segments: 700,
            srtt_us: 20_000,
            min_rtt_us: 20_000,
            trial,
            ..tp_record::default()
        };
        self.effect.take(&record, "default", Some("bbr"), 250);
    }

    /// Makes a connection per second to each of `hosts` hosts, each in a group of its own.
    fn run(&mut self, seconds: u64, hosts: u8, gain: impl Fn(u8) -> f64) {
        for _ in 0..seconds {
            for host in 0..hosts {
                self.connect(host, gain(host));
            }
            self.advance(1);
        }
    }

    fn goodput(&mut self) -> crate::figures::MeasureView {
        self.effect.report(0.0).measures.remove(0)
    }
}

fn bucket(world: &World, host: u8) -> u32 {
    assignment_bucket(&world.effect.secrets, &remote(host))
}

fn remote(host: u8) -> [u32; 4] {
    let address = u32::from_be_bytes([198, 51, host, 7]);
    [0, 0, 0xffff_u32.to_be(), address.to_be()]
}

#[test]
fn a_gain_is_shown_and_its_price_told() {
    let mut world = World::new(keys());
    world.effect.set_trial(3600);
    world.run(100, 8, |_| 0.2);
    let report = world.effect.report(0.0);
    let goodput = &report.measures[0];
    assert_eq!(goodput.verdict, "better", "{goodput:?}");
    assert!((goodput.change.unwrap() - 0.22).abs() < 0.02, "{goodput:?}");
    assert!(report.pairs >= 24 && report.groups == 8, "{report:?}");
    let share = report.connections_held_out as f64 / report.connections_all as f64;
    assert!((0.4..0.6).contains(&share), "{share}");
    assert!(report.hold_out_cost > 0.0 && report.policies.is_empty());
    assert!(report.trial_until_unix_s.is_some() && !report.history.is_empty());
    assert!(
        report.worst[0].group.ends_with(".0/24"),
        "{:?}",
        report.worst[0]
    );
    assert_eq!(report.choices[0].connections["bbr"], 800);
}

#[test]
fn without_an_effect_nothing_is_shown() {
    let mut world = World::new(keys());
    world.effect.set_trial(3600);
    world.run(200, 8, |_| 0.0);
    let goodput = world.goodput();
    assert_eq!(goodput.verdict, "not shown", "{goodput:?}");
}

#[test]
fn half_hour_in_ten_is_held_out() {
    let mut world = World::new(keys());
    let mut held_out = |seconds: u64| {
        let mut count = 0;
        for _ in 0..seconds {
            let held = |host: &u8| u32::from(world.says(*host)) & TP_TRIAL_HELD_OUT != 0;
            count += (0..40).filter(held).count();
            world.advance(1);
        }
        count as f64 / (40 * seconds) as f64
    };
    let share = held_out(400);
    assert!((0.03..0.075).contains(&share), "{share}");
}

#[test]
fn zero_percent_holds_nothing_out_and_says_so() {
    let mut world = World::new(Keys {
        hold_out_percent: 0,
        ..keys()
    });
    world.run(60, 4, |_| 0.2);
    assert!(
        world
            .buckets
            .0
            .lock()
            .unwrap()
            .iter()
            .all(|bucket| *bucket == 0)
    );
    let unknown = world.effect.report(0.0).unknown.unwrap();
    assert!(unknown.contains("hold_out_percent"), "{unknown}");
}

#[test]
fn full_queue_holds_out_all_groups_together() {
    let mut world = World::new(Keys {
        hold_out: HoldOut::Auto,
        ..keys()
    });
    world.effect.set_trial(3600);
    world.advance(20);
    let states = |world: &World| (0..40).map(|host| world.says(host)).collect::<Vec<_>>();
    let differ = |all: Vec<u8>| all.iter().any(|one| *one != all[0]);
    assert!((0..20).any(|_| {
        world.advance(1);
        differ(states(&world))
    }));
    world.effect.set_full(Some(true));
    world.advance(20);
    for _ in 0..60 {
        world.advance(1);
        assert!(!differ(states(&world)), "{:?}", states(&world));
    }
    assert_eq!(world.effect.report(0.0).design, "host");
}

#[test]
fn prefixes_are_held_out_from_64_groups() {
    let mut world = World::new(Keys {
        hold_out: HoldOut::Auto,
        hold_out_percent: 20,
        rotation_s: 50,
        ..keys()
    });
    world.run(50, 100, |_| 0.0);
    assert_eq!(world.effect.report(0.0).design, "prefix");
    world.run(300, 100, |_| 0.2);
    let report = world.effect.report(0.0);
    assert!(report.pairs > 40, "{}", report.pairs);
    assert_eq!(
        report.measures[0].verdict, "better",
        "{:?}",
        report.measures[0]
    );
}

#[test]
fn guard_stops_group_then_host_then_retries() {
    let mut world = World::new(Keys {
        guard_pause_s: 100,
        ..keys()
    });
    world.effect.set_trial(36_000);
    let harm = |host: u8| if host == 3 { -0.5 } else { 0.0 };
    let mut stopped_at = None;
    for second in 0..900 {
        world.run(1, 12, harm);
        if world.says(3) == TP_TRIAL_HELD_OUT as u8 && world.says(4) != world.says(3) {
            let stop = world
                .effect
                .stopped(assignment_bucket(&world.effect.secrets, &remote(3)));
            if stop.is_some() {
                stopped_at = Some(second);
                break;
            }
        }
    }
    // Twenty pairs of twenty seconds each, and the length of a block.
    assert!((400..600).contains(&stopped_at.unwrap()), "{stopped_at:?}");
    let report = world.effect.report(0.0);
    let stop = report.stops.last().unwrap();
    assert!(stop.group == "198.51.3.0/24" && stop.active, "{stop:?}");
    assert!(
        stop.harm > 0.02 && stop.sentence.contains("tried again in 2 min"),
        "{stop:?}"
    );
    world.advance(101);
    assert!(
        world
            .effect
            .stopped(assignment_bucket(&world.effect.secrets, &remote(3)))
            .is_none()
    );
}

#[test]
fn the_fleets_knowledge_goes_before_steering_stops() {
    let mut world = World::new(keys());
    world.effect.set_trial(36_000);
    world.refuses = true;
    let harm = |host: u8| if host == 3 { -0.5 } else { 0.0 };
    let stopped = |world: &World| world.effect.stopped(bucket(world, 3)).is_some();
    let mut found = Vec::new();
    for second in 0..1800 {
        world.run(1, 40, harm); // so many that the whole host does well
        let stops = world.effect.past.stops.iter();
        found = stops
            .filter(|stop| stop.group.starts_with("198.51.3."))
            .cloned()
            .collect();
        if found.len() == 1 {
            assert!(!stopped(&world), "after {second} s");
            // Nothing more is said there.
            world.refuses = false;
        }
        if found.len() == 2 {
            break;
        }
    }
    // The harm goes on without it: steering stops, for the time of a second stop.
    let pauses: Vec<(bool, u64)> = found
        .iter()
        .map(|s| (s.fleet, s.until_s - s.at_s))
        .collect();
    assert_eq!(pauses, [(true, 0), (false, 12 * 3600)], "{found:?}");
    assert!(stopped(&world));
    let sentence = found[0].sentence(world.now_s);
    assert!(sentence.ends_with("and steering goes on"), "{sentence}");
}

#[test]
fn harm_everywhere_stops_the_host() {
    let mut world = World::new(keys());
    world.effect.set_trial(36_000);
    world.run(200, 12, |_| -0.3);
    let report = world.effect.report(0.0);
    assert!(
        report
            .stops
            .iter()
            .any(|stop| stop.group.is_empty() && stop.active)
    );
    assert!(
        world
            .buckets
            .0
            .lock()
            .unwrap()
            .iter()
            .all(|c| u32::from(*c) == TP_TRIAL_HELD_OUT)
    );
    assert!(world.effect.stopped(7).is_some());
}

#[test]
fn stop_of_a_trial_outlasts_it() {
    let mut world = World::new(Keys {
        hold_out_percent: 0,
        guard_pause_s: 1000,
        ..keys()
    });
    let held_out = |world: &World| {
        let buckets = world.buckets.0.lock().unwrap();
        let count = |say: u32| {
            buckets
                .iter()
                .filter(|bucket| u32::from(**bucket) == say)
                .count()
        };
        (count(TP_TRIAL_HELD_OUT), count(0))
    };
    assert_eq!(held_out(&world), (0, ASSIGNMENT_BUCKETS));
    world.effect.set_trial(36_000);
    world.run(200, 12, |_| -0.3);
    world.effect.set_trial(0);
    assert_eq!(held_out(&world), (ASSIGNMENT_BUCKETS, 0));
    world.advance(1001);
    assert_eq!(held_out(&world), (0, ASSIGNMENT_BUCKETS));
    assert!(world.effect.stopped(7).is_none());
}

/// The host's guard has seen the gain of former blocks, so the only group's guard stops steering first.
#[test]
fn joint_stop_applies_to_each_address() {
    let mut world = World::new(Keys {
        hold_out: HoldOut::Auto,
        ..keys()
    });
    world.effect.set_trial(36_000);
    world.run(600, 12, |_| 0.3);
    world.effect.set_full(Some(true));
    for _ in 0..900 {
        world.run(1, 12, |_| -0.3);
        if !world.effect.past.stops.is_empty() {
            break;
        }
    }
    let stop = world.effect.report(0.0).stops.remove(0);
    assert!(stop.group == "all groups" && stop.active, "{stop:?}");
    world.advance(1);
    for host in 0..12 {
        assert_eq!(u32::from(world.says(host)), TP_TRIAL_HELD_OUT);
        let bucket = assignment_bucket(&world.effect.secrets, &remote(host));
        let told = world.effect.stopped(bucket).unwrap();
        assert!(told.starts_with("all groups: steering costs"), "{told}");
    }
}

#[test]
fn report_and_stops_survive_a_restart() {
    let mut world = World::new(keys());
    world.effect.set_trial(36_000);
    world.run(200, 8, |_| -0.3);
    let before = world.effect.report(0.0);
    assert!(before.pairs > 20 && before.stops[0].active);
    let rows = [world.effect.unsaved(true)];
    assert_eq!(rows[0].policy, POLICY);
    let mut restarted = World::open(keys(), saved(&rows), world.now_s);
    let after = restarted.effect.report(0.0);
    assert_eq!(
        (
            after.pairs,
            &after.stops,
            &after.choices,
            after.since_unix_s
        ),
        (
            before.pairs,
            &before.stops,
            &before.choices,
            before.since_unix_s
        )
    );
    // The last digit of a sum may differ.
    let same = |a: Option<f64>, b: Option<f64>| (a.unwrap() - b.unwrap()).abs() < 1e-9;
    assert!(same(after.measures[0].low, before.measures[0].low));
    assert!((after.worst[0].change - before.worst[0].change).abs() < 1e-9);
    let all = |world: &World| world.buckets.0.lock().unwrap().clone();
    assert_eq!(all(&restarted), all(&world));
    // Nothing is written again, except for the rows always written.
    let again = restarted.effect.unsaved(false);
    assert!(
        !again.is_all && again.rows.len() <= 4,
        "{}",
        again.rows.len()
    );
}

#[test]
fn half_full_blocks_survive_a_restart() {
    let mut first = World::new(keys());
    first.effect.set_trial(36_000);
    let rows = [first.effect.unsaved(true)];
    let mut whole = World::open(keys(), saved(&rows), START);
    whole.run(65, 8, |_| 0.2);
    let mut parted = World::open(keys(), saved(&rows), START);
    parted.run(33, 8, |_| 0.2);
    let rows = [parted.effect.unsaved(true)];
    let mut parted = World::open(keys(), saved(&rows), parted.now_s);
    parted.run(32, 8, |_| 0.2);
    let pairs = whole.effect.report(0.0).pairs;
    assert!(pairs >= 16, "{pairs}");
    assert_eq!(parted.effect.report(0.0).pairs, pairs);
}

#[test]
fn wrong_clock_stops_nothing_for_ever() {
    let mut world = World::new(keys());
    world.effect.set_trial(36_000);
    world.run(200, 8, |_| -0.3);
    let rows = [world.effect.unsaved(true)];
    let year_s = 365 * 86_400;
    let mut earlier = World::open(keys(), saved(&rows), START - year_s);
    assert!(
        !earlier
            .effect
            .is_trial(START - year_s + super::super::LONGEST_TRIAL_S)
    );
    earlier.advance(1);
    let until_s = earlier.effect.report(0.0).stops[0].until_unix_s;
    assert!(until_s > START - year_s);
    let guard = earlier.effect.whole.host.guard;
    assert!(guard.allows(START - year_s + 8 * 86_400));
}

#[test]
fn damaged_row_is_skipped_other_secrets_reset() {
    let mut world = World::new(keys());
    world.effect.set_trial(3600);
    world.run(100, 8, |_| 0.2);
    let mut rows = world.effect.unsaved(true).rows;
    let at = rows.iter().position(|(key, _)| key[0] == b'g').unwrap();
    *rows[at].1.last_mut().unwrap() ^= 1;
    let mut damaged = World::open(keys(), Saved::of(rows.clone()), world.now_s);
    assert_eq!(
        damaged.effect.report(0.0).pairs,
        world.effect.report(0.0).pairs
    );
    assert_eq!(damaged.effect.whole.groups().count(), 7);
    let other = Saved::of(rows).with_secrets([1; 7]);
    let mut other = World::open(keys(), other, world.now_s);
    assert_eq!(other.effect.report(0.0).pairs, 0);
}

#[test]
fn connection_of_another_bucket_value_is_left_out() {
    let mut world = World::new(keys());
    world.effect.set_trial(3600);
    world.run(45, 8, |_| 0.0);
    let before = world.effect.past.counts;
    let now_ns = tcpilot_kernel::clock::monotonic_ns();
    for host in 0..8 {
        let wrong = tp_record {
            remote: remote(host),
            opened_ns: now_ns,
            bytes_acked: 1_000_000,
            busy_ticks: 100,
            segments: 700,
            srtt_us: 20_000,
            min_rtt_us: 20_000,
            trial: world.says(host) ^ TP_TRIAL_HELD_OUT as u8 | TP_TRIAL_COUNTS as u8,
            ..tp_record::default()
        };
        world.effect.take(&wrong, "default", None, 250);
    }
    let after = world.effect.past.counts;
    assert_eq!(
        (after.compared, after.all),
        (before.compared, before.all + 8)
    );
}
