use tcpilot_kernel::Live;
use tcpilot_learner::{Level, Lineage};

use super::*;
use crate::{
    daemon::learning::{
        choice_dists::{Table, node_key},
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
