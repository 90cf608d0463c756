use std::sync::{Arc, Mutex};

use tcpilot_abi::{TP_TRIAL_HELD_OUT, tp_record};
use tcpilot_config::{Effect as Keys, HoldOut};
use tcpilot_kernel::{ASSIGNMENT_BUCKETS, Live};
use tcpilot_learner::{Level, Lineage};

use super::*;
use crate::{
    daemon::learning::{
        choice_dists::{Table, node_key},
        effect::{AssignmentTable, Effect, FLEET, FleetEffect, POLICY, Saved},
        learners::tests::{ChoiceDists, learners_of, record, settings, update},
        policy_learner::PolicySettings,
    },
    figures::FleetView,
};

const ADDRESS: &str = "198.51.100.9";

fn listening() -> PolicySettings {
    PolicySettings {
        uses_fleet: true,
        ..settings(100)
    }
}

/// What a host says whose connections to these addresses were twice as fast with bbr.
fn said_of(addresses: &[&str]) -> Vec<Row> {
    let (mut learners, _) = learners_of(settings(100), &[]);
    update(&mut learners, addresses, 40);
    learners.own_rows(0, 0, 100).0
}

fn bbr_of_group(dists: &ChoiceDists, learners: &Learners) -> Option<f64> {
    let row = said_of(&["198.51.100.7", "198.51.100.8"]).remove(0);
    let node = Lineage::of_key(&row.group.key()).node(Level::Group);
    let upto = dists.get(&node_key(&node, learners.policies[0].settings.policy))?;
    Some(f64::from(upto[0]) / 65535.0)
}

fn explained(learners: &mut Learners) -> (String, Option<FleetView>, f64) {
    let found = learners.explain(&ADDRESS.parse().unwrap(), &Live::default());
    let view = &found[0].view;
    let bbr = view.algorithms.iter().find(|one| one.name == "bbr");
    (view.level.clone(), view.fleet.clone(), bbr.unwrap().share)
}

#[test]
fn a_first_connection_begins_with_others_knowledge() {
    let rows = said_of(&["198.51.100.7", "198.51.100.8"]);
    assert_eq!(rows.len(), 1);
    let (mut newcomer, dists) = learners_of(listening(), &[]);
    assert_eq!(bbr_of_group(&dists, &newcomer), None);
    let heard = newcomer.hear(0, &rows, 1.0, (true, true));
    assert_eq!(heard.taken, 1);
    newcomer.publish(usize::MAX);
    let share = bbr_of_group(&dists, &newcomer).unwrap();
    let (level, fleet, shown) = explained(&mut newcomer);
    let fleet = fleet.unwrap();
    assert_eq!(
        (level.as_str(), fleet.used, fleet.paths),
        ("group", true, 2)
    );
    assert!((share - shown).abs() < 0.01, "{share} {shown}");
    assert!(
        share > fleet.shares_otherwise["bbr"] + 0.1,
        "{share} {fleet:?}"
    );
    assert!(
        newcomer.own_rows(0, 0, 100).0.is_empty(),
        "it says what it heard"
    );
    // The next state does not have the group any more.
    newcomer.hear(0, &[], 1.0, (true, true));
    newcomer.publish(usize::MAX);
    assert_eq!(bbr_of_group(&dists, &newcomer), None);
}

#[test]
fn what_is_shown_only_is_explained_and_not_used() {
    let rows = said_of(&["198.51.100.7", "198.51.100.8"]);
    let (mut newcomer, dists) = learners_of(settings(100), &[]);
    let before = dists.len();
    newcomer.hear(0, &rows, 1.0, (true, true));
    newcomer.publish(usize::MAX);
    assert_eq!(dists.len(), before);
    let (level, fleet, shown) = explained(&mut newcomer);
    let fleet = fleet.unwrap();
    assert_eq!((level.as_str(), fleet.used), ("group", false));
    assert!(
        fleet.shares_otherwise["bbr"] > shown + 0.1,
        "{shown} {fleet:?}"
    );
    assert!(fleet.text().contains("not used"), "{}", fleet.text());
}

#[test]
fn what_does_harm_is_not_heard_for_six_hours() {
    let rows = said_of(&["198.51.100.7", "198.51.100.8", "198.51.7.7", "198.51.7.8"]);
    let (mut newcomer, dists) = learners_of(listening(), &[]);
    newcomer.hear(0, &rows, 1.0, (true, true));
    newcomer.publish(usize::MAX);
    assert!(bbr_of_group(&dists, &newcomer).unwrap() > 0.6);
    let group = Lineage::of(ADDRESS.parse().unwrap(), Default::default(), 0)
        .group
        .prefix;
    let refuse = |learners: &mut Learners| {
        let now_s = learners.clock.now_s();
        learners.policies[0].refuse_foreign(&|key| key.prefix == group, now_s)
    };
    assert!(refuse(&mut newcomer));
    newcomer.publish(usize::MAX);
    assert_eq!(explained(&mut newcomer).1, None);
    let heard = |learners: &mut Learners| {
        let heard = learners.hear(0, &rows, 1.0, (true, true));
        (heard.taken, heard.changed)
    };
    assert_eq!(heard(&mut newcomer), (1, 1));
    newcomer
        .clock
        .catch_up(newcomer.clock.now_s() + 6.1 * 3600.0);
    assert_eq!(heard(&mut newcomer), (2, 0));
    // What is held back is dropped, too, and does no harm.
    let (mut shown, _) = learners_of(settings(100), &[]);
    shown.hear(0, &rows, 1.0, (true, true));
    assert!(!refuse(&mut shown));
    assert_eq!(heard(&mut shown), (1, 1));
}

/// A learner with half of the sites held back, and each comparison closed after a second.
fn comparing() -> (Learners, ChoiceDists) {
    let (mut learners, dists) = learners_of(listening(), &[]);
    let keys = Keys {
        hold_out_percent: 50,
        settle_s: 0,
        block_s: 1,
        connections_min: 2,
        ..Keys::default()
    };
    let saved = Saved::read(None, FLEET)
        .unwrap()
        .with_secrets([1, 2, 3, 4, 5, 6, 7]);
    let fleet = FleetEffect::open(&keys, saved, learners.clock.clone());
    learners.fleet = Some(fleet);
    (learners, dists)
}

/// Two addresses in each of twenty sites.
fn of_twenty_sites() -> Vec<String> {
    let address = |i| format!("8.{}.7.{}", i / 2, i % 2 + 1);
    (0..40).map(address).collect()
}

/// Lets a learner hear of these addresses; the groups.
fn heard_of(learners: &mut Learners, addresses: &[&str]) -> Vec<Key> {
    let rows = said_of(addresses);
    assert_eq!(learners.hear(0, &rows, 1.0, (true, true)).taken, 20);
    learners.publish(usize::MAX);
    rows.iter().map(|row| row.group.key()).collect()
}

fn is_held_back(learners: &Learners, key: &Key) -> bool {
    learners.fleet.as_ref().unwrap().is_held_back(key)
}

#[test]
fn held_back_sites_hear_nothing_and_say_so() {
    let addresses = of_twenty_sites();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let (mut learners, dists) = comparing();
    let groups = heard_of(&mut learners, &addresses);
    let held_back = groups.iter().filter(|key| is_held_back(&learners, key));
    assert!((4..16).contains(&held_back.count()));
    for key in &groups {
        let is_held_back = is_held_back(&learners, key);
        let node = Lineage::of_key(key).node(Level::Group);
        let dist = dists.get(&node_key(&node, learners.policies[0].settings.policy));
        assert_eq!(dist.is_none(), is_held_back, "{key:?}");
        let [first, second, ..] = (key.prefix as u32).to_be_bytes();
        let remote = format!("{first}.{second}.7.9").parse().unwrap();
        let view = learners.explain(&remote, &Live::default()).remove(0).view;
        let fleet = view.fleet.unwrap();
        assert_eq!((fleet.held_back, fleet.used), (is_held_back, !is_held_back));
        let bbr = view.algorithms.iter().find(|one| one.name == "bbr");
        let (now, otherwise) = (bbr.unwrap().share, fleet.shares_otherwise["bbr"]);
        let gain = if is_held_back {
            otherwise - now
        } else {
            now - otherwise
        };
        assert!(gain > 0.05, "{is_held_back} {now} {otherwise}");
    }
}

#[test]
fn steered_connections_to_heard_groups_are_compared() {
    let addresses = of_twenty_sites();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let (mut learners, _) = comparing();
    let groups = heard_of(&mut learners, &addresses);
    let held_back = groups.iter().filter(|key| is_held_back(&learners, key));
    let held_back = held_back.count() as u64;
    // Twelve connections to each address, and to some that nobody has heard of, and as many held-out ones.
    let now_ns = tcpilot_kernel::clock::monotonic_ns();
    for _ in 0..12 {
        for address in addresses.iter().chain(&["9.1.1.1", "9.2.1.1"]) {
            for trial in [0, TP_TRIAL_HELD_OUT as u8] {
                let record = tp_record {
                    opened_ns: now_ns,
                    trial,
                    ..record(address, 0, 250)
                };
                learners.take(&record);
            }
        }
    }
    let own = learners.own_rows(0, 0, 100).0;
    assert_eq!(own.len(), 22, "its own words are said everywhere");
    let week_s = f64::from(Keys::default().rotation_s);
    let now_s = learners.clock.now_s();
    learners.clock.catch_up(now_s + week_s + 10.0);
    learners.turn_effects();
    let report = learners.fleet_report().unwrap();
    let pairs = held_back.min(20 - held_back);
    assert_eq!((report.first.pairs, report.later.pairs), (pairs, pairs));
    // Held-out connections are among the first ten of a path, and not compared.
    let sites = if held_back == pairs { 20 } else { 2 * pairs };
    assert_eq!(report.first.connections, sites * 2 * 5);
    assert_eq!(report.later.connections, sites * 2 * 7);
}

/// Assignment buckets in memory.
struct Buckets(Arc<Mutex<Vec<u8>>>);

impl AssignmentTable for Buckets {
    fn set(&mut self, all: &[u8; ASSIGNMENT_BUCKETS]) {
        *self.0.lock().unwrap() = all.to_vec();
    }
}

/// Lets thirty groups have a connection a second until there is an event in the group of `ADDRESS`, where steering costs a
/// fifth of goodput. Returns the group's sentence.
fn until_harm(learners: &mut Learners, buckets: &Mutex<Vec<u8>>, sentences: usize) -> String {
    let addresses: Vec<String> = (71..101).map(|i| format!("198.51.{i}.9")).collect();
    for _ in 0..1200 {
        for (number, address) in addresses.iter().enumerate() {
            let effect = learners.effect.as_ref().unwrap();
            let bucket = effect.assignment_bucket(&address.parse().unwrap());
            let trial = buckets.lock().unwrap()[bucket as usize];
            let is_harmed = address == ADDRESS && u32::from(trial) & TP_TRIAL_HELD_OUT == 0;
            let ticks = if is_harmed { 1250 } else { 1000 } + number as u32 % 7;
            let now_s = learners.clock.now_s() - learners.clock.seconds(0);
            let at_ns = (now_s * 1e9) as u64;
            let record = tp_record {
                at_ns,
                opened_ns: at_ns,
                trial,
                ..record(address, 1, ticks)
            };
            learners.take(&record);
        }
        learners.clock.catch_up(learners.clock.now_s() + 1.0);
        learners.turn_effects();
        let report = learners.effect_report().unwrap();
        if report.stops.len() == sentences {
            return report.stops[0].sentence.clone();
        }
    }
    panic!("no harm was found");
}

#[test]
fn the_guard_drops_foreign_knowledge_before_it_stops() {
    let rows = said_of(&["198.51.100.7", "198.51.100.8", "198.51.7.7", "198.51.7.8"]);
    let (mut learners, _) = learners_of(listening(), &[]);
    let buckets: Arc<Mutex<Vec<u8>>> = Arc::default();
    let keys = Keys {
        hold_out: HoldOut::Block,
        block_s: 10,
        settle_s: 1,
        ..Keys::default()
    };
    let saved = Saved::read(None, POLICY).unwrap();
    let table = Box::new(Buckets(Arc::clone(&buckets)));
    let mut effect = Effect::open(keys, saved, table, learners.clock.clone());
    effect.set_trial(36_000);
    learners.effect = Some(effect);
    learners.hear(0, &rows, 1.0, (true, true));

    let sentence = until_harm(&mut learners, &buckets, 1);
    assert!(sentence.starts_with("198.51.100.0/24: "), "{sentence}");
    assert!(sentence.ends_with("and steering goes on"), "{sentence}");
    let said: Vec<Key> = learners.policies[0]
        .learner
        .estimates()
        .foreign_groups()
        .map(|node| node.key)
        .collect();
    assert_eq!(
        said,
        [rows[1].group.key()],
        "the other group keeps its message"
    );
    let now_s = learners.clock.now_s();
    assert_eq!(
        learners.hear(0, &rows, 1.0, (true, true)).changed,
        1,
        "{now_s}"
    );
    // The harm goes on without it.
    let sentence = until_harm(&mut learners, &buckets, 2);
    assert!(sentence.contains("tried again in 720 min"), "{sentence}");
}

#[test]
fn one_users_group_and_private_ones_are_not_said() {
    let (mut learners, _) = learners_of(settings(100), &[]);
    update(&mut learners, &["198.51.100.7"], 7);
    update(&mut learners, &["10.1.2.3", "10.1.2.4", "10.1.2.5"], 9);
    assert_eq!(learners.own_rows(0, 0, 100), (Vec::new(), None));
    learners.take(&record("198.51.100.7", 1, 300));
    let rows = learners.own_rows(0, 0, 100).0;
    let prefixes: Vec<u128> = rows.iter().map(|row| row.group.prefix()).collect();
    assert_eq!(prefixes, [0xffff_c633_6400]);
}

#[test]
fn pages_have_each_group_once() {
    let addresses: Vec<String> = (0..20).map(|i| format!("198.51.{i}.7")).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let (mut learners, _) = learners_of(settings(100), &[]);
    update(&mut learners, &addresses, 9);
    let (mut groups, mut from) = (Vec::new(), Some(0));
    while let Some(at) = from {
        let (rows, next) = learners.own_rows(0, at, 3);
        assert!(rows.len() <= 3);
        groups.extend(rows.iter().map(|row| row.group));
        from = next;
    }
    groups.sort();
    groups.dedup();
    assert_eq!(groups.len(), 20);
}

#[test]
fn other_objectives_have_other_rewards() {
    let usual = settings(100);
    let mut latency = settings(100);
    latency.constants.reward.beta = 0.5;
    let mut dear = settings(100);
    dear.rescue_cost = 0.2;
    let all = [usual.clone(), latency, dear].map(|settings| reward(&settings));
    assert!(all[0] != all[1] && all[0] != all[2], "{all:?}");
    assert_eq!(all[0], reward(&listening()));
}
