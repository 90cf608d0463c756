//! The learners learn from made-up records.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use tcpilot_abi::{TP_CONN_DRY_RUN, TP_RECORD_SAMPLE, tp_config, tp_node_key};
use tcpilot_config::LearnerKind;
use tcpilot_core::Prefix;
use tcpilot_kernel::{Live, Put};
use tcpilot_learner::{Level, Lineage, Settings, learner::Restored};

use super::*;
use crate::{
    daemon::learning::{
        arms::{Arms, Upto},
        choice_dists::node_key,
        measures::Windows,
        policy_learner::PolicySettings,
    },
    state::SavedRow,
};

type InMemory = HashMap<Vec<u8>, (Upto, u32)>;

/// Choice distributions in memory, with the generation of each.
#[derive(Clone, Default)]
pub struct ChoiceDists(pub Arc<Mutex<InMemory>>);

fn bytes(key: &tp_node_key) -> Vec<u8> {
    tcpilot_abi::to_bytes(key).to_vec()
}

impl Table for ChoiceDists {
    fn get(&self, key: &tp_node_key) -> Option<Upto> {
        let dists = self.0.lock().unwrap();
        dists.get(&bytes(key)).map(|dist| dist.0)
    }

    fn put(&mut self, key: &tp_node_key, upto: Upto, generation: u32) -> Put {
        let before = self
            .0
            .lock()
            .unwrap()
            .insert(bytes(key), (upto, generation));
        before.map_or(Put::New, |_| Put::Changed)
    }

    fn remove(&mut self, key: &tp_node_key) {
        self.0.lock().unwrap().remove(&bytes(key));
    }

    fn clear(&mut self) {
        self.0.lock().unwrap().clear();
    }

    fn len(&self) -> (usize, usize) {
        (self.0.lock().unwrap().len(), 1 << 20)
    }
}

const POLICY: u8 = 3;

pub fn settings(steer_percent: u32) -> PolicySettings {
    let mut abi = tp_config::default();
    abi.policy[usize::from(POLICY)].arms = 0b11;
    let names = ["bbr", "cubic"].map(str::to_owned);
    PolicySettings {
        kind: LearnerKind::THOMPSON,
        greedy: None,
        policy: POLICY,
        name: "web".to_owned(),
        arms: Arms::of_policy(&abi, POLICY, &names, &["cubic".to_owned()]).unwrap(),
        constants: Settings::default(),
        windows: Windows {
            window_s: 300,
            ssthresh_s: 30,
            ssthresh_floor: 8,
        },
        rescue_cost: 0.1,
        steer_percent,
        uses_fleet: false,
        moves: None,
    }
}

fn learners(steer_percent: u32, saved: &[SavedRow]) -> (Learners, ChoiceDists) {
    learners_of(settings(steer_percent), saved)
}

/// A learner with these saved dists.
fn restored(settings: PolicySettings, saved: &[SavedRow], now_s: f64) -> (PolicyLearner, Restored) {
    let rows = |each: &mut dyn FnMut(&[u8], &[u8])| {
        saved.iter().for_each(|(key, row)| each(key, row));
        Ok::<_, Infallible>(())
    };
    PolicyLearner::restore(settings, now_s, rows)
        .unwrap()
        .unwrap()
}

pub fn learners_of(settings: PolicySettings, saved: &[SavedRow]) -> (Learners, ChoiceDists) {
    let clock = Clock::new(1e9);
    let policy = restored(settings, saved, clock.now_s());
    let dists = ChoiceDists::default();
    let mut learners = Learners::new(vec![policy.0], Box::new(dists.clone()), clock);
    learners.ticks_per_s = 250;
    learners.publish(usize::MAX);
    (learners, dists)
}

fn words(address: &str) -> [u32; 4] {
    Prefix::around(address.parse().unwrap(), 128).words()
}

/// The record of a megabyte, in this many ticks, from an address.
pub fn record(address: &str, arm: u8, ticks: u32) -> tp_record {
    let now_ns = crate::clocks::monotonic_ns();
    tp_record {
        remote: words(address),
        policy: POLICY,
        at_ns: now_ns,
        opened_ns: now_ns.saturating_sub(100_000_000_000),
        bytes_acked: 1_000_000,
        busy_ticks: ticks,
        handshake_us: 20_000,
        srtt_us: 20_000,
        min_rtt_us: 20_000,
        segments: 700,
        clear_bouts: 2, // nobody else is in a queue
        rate: 1000,
        probability: 0x4000,
        weight: 1,
        class: 14,
        arm,
        ..Default::default()
    }
}

/// Adds samples of connections to each address; with bbr (0) they take half as long as with cubic (1).
pub fn update(learners: &mut Learners, addresses: &[&str], each: u32) {
    for number in 0..each {
        for address in addresses {
            let arm = (number % 2) as u8;
            learners.take(&record(
                address,
                arm,
                250 * (1 + u32::from(arm)) + number % 7,
            ));
        }
    }
    learners.publish(usize::MAX);
}

/// The share of bbr in the choice distribution at this level above an address, if there is one.
fn bbr(dists: &ChoiceDists, address: &str, level: Level) -> Option<f64> {
    let bits = words(address).iter().fold(0, |bits: u128, word| {
        bits << 32 | u128::from(u32::from_be(*word))
    });
    let node = Lineage::of_prefix(bits, 14, 0).node(level);
    let upto = dists.get(&node_key(&node, POLICY))?;
    Some(f64::from(upto[0]) / 65535.0)
}

#[test]
fn first_connection_finds_exploring_shares() {
    let (_, dists) = learners(100, &[]);
    let share = bbr(&dists, "198.51.100.7", Level::Global).unwrap();
    assert!((0.02..0.98).contains(&share), "{share}");
    assert_eq!(bbr(&dists, "198.51.100.7", Level::Class), None);
}

#[test]
fn better_algorithm_spreads_to_neighbours() {
    let (mut learners, dists) = learners(100, &[]);
    let before = bbr(&dists, "198.51.100.9", Level::Global).unwrap();
    update(&mut learners, &["198.51.100.7", "198.51.100.8"], 40);
    assert!(bbr(&dists, "198.51.100.7", Level::Path).unwrap() > 0.95);
    assert_eq!(
        bbr(&dists, "198.51.100.9", Level::Path),
        None,
        "it was never met"
    );
    assert!(bbr(&dists, "198.51.100.9", Level::Group).unwrap() > 0.9);
    assert!(bbr(&dists, "198.51.100.9", Level::Group).unwrap() > before);
    assert_eq!(bbr(&dists, "198.51.101.9", Level::Group), None);
    assert!(bbr(&dists, "198.51.101.9", Level::Site).unwrap() > before);
}

#[test]
fn a_distribution_is_written_only_when_it_changes() {
    let (mut learners, dists) = learners(100, &[]);
    update(&mut learners, &["198.51.100.7"], 60);
    let generations = || -> Vec<u32> {
        let dists = dists.0.lock().unwrap();
        let mut all: Vec<u32> = dists.values().map(|dist| dist.1).collect();
        all.sort_unstable();
        all
    };
    let (before, publications) = (generations(), learners.publications);
    for _ in 0..20 {
        learners.publish(usize::MAX);
    }
    assert_eq!(
        (generations(), learners.publications),
        (before, publications)
    );
    update(&mut learners, &["203.0.113.7"], 10);
    assert!(learners.publications > publications);
}

#[test]
fn canary_steers_its_share_learns_from_all() {
    let addresses: Vec<String> = (0..200).map(|i| format!("198.18.{i}.7")).collect();
    let steered = |percent| -> Vec<&str> {
        let (mut learners, dists) = learners(percent, &[]);
        let all: Vec<&str> = addresses.iter().map(String::as_str).collect();
        update(&mut learners, &all, 4);
        assert_eq!(learners.status().updates, 800);
        for level in [Level::Site, Level::Class, Level::Global] {
            assert_eq!(
                bbr(&dists, all[0], level),
                Some(0.0),
                "unseen paths keep the default"
            );
        }
        let is_steered = |address: &&str| {
            let path = bbr(&dists, address, Level::Path).unwrap() > 0.0;
            assert_eq!(bbr(&dists, address, Level::Group).unwrap() > 0.0, path);
            path
        };
        addresses
            .iter()
            .map(String::as_str)
            .filter(is_steered)
            .collect()
    };
    let (none, few, many) = (steered(0), steered(20), steered(60));
    assert!(none.is_empty());
    assert!((20..60).contains(&few.len()) && (90..150).contains(&many.len()));
    assert!(
        few.iter().all(|address| many.contains(address)),
        "a canary grows"
    );
}

#[test]
fn unsteered_connections_cost_no_budget() {
    let explored = |percent, conn_flags: u32| {
        let (mut learners, _) = learners(percent, &[]);
        for number in 0..20 {
            learners.take(&tp_record {
                conn_flags: conn_flags as u8,
                ..record("198.51.100.7", 1, 250 + number)
            });
        }
        learners.status().explored
    };
    assert!(explored(100, 0) > 0.0);
    assert_eq!((explored(0, 0), explored(100, TP_CONN_DRY_RUN)), (0.0, 0.0));
}

#[test]
fn saved_state_chooses_as_before_a_restart() {
    let (mut learners, dists) = learners(100, &[]);
    update(&mut learners, &["198.51.100.7", "203.0.113.9"], 40);
    let saved = learners.unsaved(false).remove(0);
    assert!(saved.is_all, "the file had nothing of it");
    assert_eq!(
        (saved.policy.as_str(), saved.arms.join(" ")),
        ("web", "cubic bbr".to_owned())
    );
    let (again, after) = self::learners(100, &saved.rows);
    for level in [Level::Path, Level::Group, Level::Site, Level::Global] {
        let (before, after) = (
            bbr(&dists, "198.51.100.7", level),
            bbr(&after, "198.51.100.7", level),
        );
        assert!((before.unwrap() - after.unwrap()).abs() < 0.02, "{level:?}");
    }
    assert!(!again.policies[0].is_unsaved);
}

#[test]
fn after_a_save_only_what_changed_is_saved() {
    let (mut learners, _) = learners(100, &[]);
    update(
        &mut learners,
        &["198.51.100.7", "203.0.113.9", "192.0.2.1"],
        4,
    );
    let all = learners.unsaved(false).remove(0).rows.len();
    update(&mut learners, &["198.51.100.7"], 1);
    let change = learners.unsaved(false).remove(0);
    assert!(
        !change.is_all && change.rows.len() < all,
        "{} of {all}",
        change.rows.len()
    );
    assert_eq!(learners.unsaved(true).remove(0).rows.len(), all);
}

#[test]
fn a_damaged_row_takes_no_other_with_it() {
    let (mut learners, _) = learners(100, &[]);
    update(&mut learners, &["198.51.100.7", "203.0.113.9"], 40);
    let mut saved = learners.unsaved(true).remove(0).rows;
    let path = saved
        .iter_mut()
        .find(|(key, _)| key[0] == Level::Path as u8);
    path.unwrap().1[20] ^= 1;
    let (policy, restored) = restored(settings(100), &saved, 1e9);
    assert_eq!((restored.damaged, policy.learner.path_count()), (1, 1));
    assert_eq!(
        restored.taken_up,
        saved.len() - 3,
        "two copies of the head, and it"
    );
}

#[test]
fn a_reset_leaves_the_first_distribution() {
    let (mut learners, dists) = learners(100, &[]);
    let first = dists.len();
    update(&mut learners, &["198.51.100.7"], 4);
    assert_eq!(learners.reset(), 1);
    learners.publish(usize::MAX);
    assert_eq!(dists.len(), first);
    assert!(learners.unsaved(false).remove(0).is_all);
}

#[test]
fn unseen_address_is_explained_by_its_group() {
    let (mut learners, _) = learners(100, &[]);
    update(&mut learners, &["198.51.100.7"], 40);
    let mut explained = |address: &str| {
        let seen = learners
            .explain(&address.parse().unwrap(), &Live::default())
            .remove(0);
        assert_eq!(seen.netns, None, "public addresses are everybody's");
        seen.view
    };
    let path = explained("198.51.100.7");
    assert_eq!(path.level, "path");
    let names: Vec<&str> = path.algorithms.iter().map(|a| a.name.as_str()).collect();
    assert_eq!(names, ["cubic", "bbr"]);
    let best = &path.algorithms[1];
    let (effect, low) = (best.effect.unwrap(), best.effect_low.unwrap());
    assert!(
        (0.6..1.2).contains(&effect) && (0.3..effect).contains(&low),
        "{effect} {low}"
    );
    assert_eq!(best.learned_from.as_deref(), Some("path"));
    assert!(best.share > 0.95 && path.algorithms[0].effect.is_none());
    assert_eq!(explained("198.51.100.8").level, "group");
    assert_eq!(explained("198.51.7.7").level, "site");
    assert_eq!(explained("203.0.113.7").level, "global");
}

#[test]
fn a_private_address_is_named_by_its_namespace() {
    let (mut learners, _) = learners(100, &[]);
    let private = tp_record {
        domain: 77,
        netns_cookie: 4_294_967_373,
        ..record("10.0.0.7", 0, 250)
    };
    learners.take(&private);
    let seen = learners
        .explain(&"10.0.0.7".parse().unwrap(), &Live::default())
        .remove(0);
    assert_eq!(seen.netns, Some(super::super::Netns::Cookie(4_294_967_373)));
}

#[test]
fn new_namespace_is_named_after_many_others() {
    let (mut learners, _) = learners(100, &[]);
    let of = |domain: u32| tp_record {
        domain,
        netns_cookie: u64::from(domain),
        ..record("10.0.0.7", 0, 300)
    };
    for domain in 1..10_000 {
        learners.note_origin(&of(domain));
        learners.records += 1;
        learners.note_origin(&of(1)); // this one stays
    }
    learners.take(&of(10_000));
    let seen = learners.explain(&"10.0.0.7".parse().unwrap(), &Live::default());
    assert_eq!(seen[0].netns, Some(super::super::Netns::Cookie(10_000)));
    assert!(learners.domains.contains_key(&1) && learners.domains.len() <= DOMAINS_MAX);
}

#[test]
fn status_counts_records_and_choices() {
    let (mut learners, _) = learners(100, &[]);
    update(&mut learners, &["198.51.100.7"], 4);
    let rejected = tp_record {
        bytes_acked: 10,
        weight: 5,
        ..record("198.51.100.7", 0, 250)
    };
    learners.take(&rejected);
    learners.take(&tp_record {
        policy: 9,
        ..record("198.51.100.7", 0, 250)
    });
    learners.take(&tp_record {
        flags: TP_RECORD_SAMPLE as u8,
        cookie: 8,
        ..record("198.51.100.7", 0, 250)
    });
    let status = learners.status();
    assert_eq!((status.records, status.updates, status.paths), (7, 5, 1));
    assert_eq!(status.rejected.get("short"), Some(&1));
    let given = &status.policies[0];
    assert_eq!(
        (given.policy.as_str(), given.default.as_str()),
        ("web", "cubic")
    );
    let of = |name: &str| given.algorithms.iter().find(|a| a.name == name).unwrap();
    assert_eq!((of("cubic").connections, of("bbr").connections), (2, 7));
    assert!((of("bbr").probability - 7.0 * 0.25).abs() < 0.01);
}

#[test]
fn pages_have_each_path_once() {
    let (mut learners, _) = learners(100, &[]);
    let addresses: Vec<String> = (0..50).map(|i| format!("198.18.{i}.7")).collect();
    let all: Vec<&str> = addresses.iter().map(String::as_str).collect();
    update(&mut learners, &all, 1);
    let mut met = Vec::new();
    let mut from = Some((0, 0));
    while let Some(at) = from {
        let (page, next) = learners.page(at, 7, &Live::default());
        met.extend(page.into_iter().map(|seen| seen.view.prefix));
        from = next;
    }
    met.sort();
    met.dedup();
    assert_eq!(met.len(), 50);
}

#[test]
fn each_path_counts_the_connections_that_ended() {
    let (mut learners, _) = learners(100, &[]);
    update(&mut learners, &["198.51.100.7"], 5);
    update(&mut learners, &["203.0.113.9"], 2);
    let few = tp_record {
        bytes_acked: 100, // too few for an update; the weight makes the record stand for others
        weight: 16,
        ..record("198.51.100.7", 0, 250)
    };
    learners.take(&few);
    let sample = tp_record {
        flags: TP_RECORD_SAMPLE as u8,
        cookie: 7,
        ..record("198.51.100.7", 0, 250)
    };
    learners.take(&sample);
    let mut counts: Vec<(String, u64)> = learners
        .page((0, 0), 10, &Live::default())
        .0
        .iter()
        .map(|seen| (seen.view.prefix.to_string(), seen.view.connections))
        .collect();
    counts.sort();
    assert_eq!(
        counts,
        [
            ("198.51.100.7".to_owned(), 21),
            ("203.0.113.9".to_owned(), 2)
        ]
    );
}
