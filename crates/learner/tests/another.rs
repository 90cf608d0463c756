//! A learner with other shares: what it must say itself, and what it has from the estimates.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod common;

use std::collections::HashMap;

use common::{lineage, teach};
use tcpilot_learner::{
    Learner, Level, NodeKey, Plan, Settings, Thompson,
    learner::{KINDS, Unusable, make},
};

/// Gives each of two arms half of the connections of each known node.
struct Halves(Thompson);

impl Learner for Halves {
    fn estimates(&self) -> &Thompson {
        &self.0
    }

    fn estimates_mut(&mut self) -> &mut Thompson {
        &mut self.0
    }

    fn plan_of(&mut self, key: &NodeKey, now_s: f64) -> Option<Plan> {
        let mut plan = Plan::DEFAULT;
        plan.shares[..2].fill(0.5);
        self.0.plan_of(key, now_s).map(|_| plan)
    }
}

fn taught() -> (Box<dyn Learner>, f64) {
    let mut estimates = Thompson::new(2, Settings::default()).unwrap();
    let now_s = teach(&mut estimates, lineage(1, 1, 40_000), &[0.0, 0.8], 40, 1e9);
    (Box::new(Halves(estimates)), now_s)
}

fn published(learner: &mut dyn Learner, now_s: f64) -> HashMap<NodeKey, Plan> {
    let mut dists = HashMap::new();
    learner.publish(now_s, 1000, &mut |key, plan| {
        dists.insert(*key, *plan.unwrap());
    });
    dists
}

#[test]
fn another_learner_writes_its_own_shares() {
    let (mut halves, now_s) = taught();
    let dists = published(halves.as_mut(), now_s);
    assert_eq!(dists.len(), 5, "the path, and the nodes above it");
    assert!(dists.values().all(|plan| plan.shares[..2] == [0.5, 0.5]));
    let unseen = lineage(9, 9, 40_000);
    assert_eq!(halves.plan(&unseen, now_s).shares[1], 0.5);
}

#[test]
fn its_view_has_its_shares_and_the_estimates() {
    let (mut halves, now_s) = taught();
    let path = lineage(1, 1, 40_000).node(Level::Path);
    let view = halves.view(&path, now_s).unwrap();
    let told = halves.estimates_mut().view(&path, now_s).unwrap();
    assert_eq!(view.plan.shares[1], 0.5);
    assert!(told.plan.shares[1] > 0.9);
    assert_eq!(view.estimates, told.estimates);
}

#[test]
fn its_knowledge_is_read_again_by_thompson() {
    let (mut halves, now_s) = taught();
    let mut saved = Vec::new();
    assert!(halves.save_some(usize::MAX, &mut |key, row| {
        saved.push((key.to_vec(), row.unwrap().to_vec()));
    }));
    let mut thompson = make("thompson", 2, Settings::default()).unwrap();
    let mut rows = |each: &mut dyn FnMut(&[u8], &[u8])| saved.iter().for_each(|(k, r)| each(k, r));
    let restored = thompson.take_up(&mut rows, now_s);
    assert!(restored.head && restored.taken_up == 5, "{restored:?}");
    assert!(thompson.plan(&lineage(1, 1, 40_000), now_s).shares[1] > 0.9);
}

#[test]
fn the_cost_is_the_loss_against_the_best() {
    let (halves, now_s) = taught();
    let mut thompson = halves.estimates().clone();
    let path = lineage(1, 1, 40_000).node(Level::Path);
    let view = thompson.view(&path, now_s).unwrap();
    let loss = 1e6 * (1.0 - (-view.estimates[0].mean).exp());
    assert_eq!(view.costs, [loss.round() as u64, 0]);
    assert!(
        (400_000..700_000).contains(&view.costs[0]),
        "{:?}",
        view.costs
    );
}

#[test]
fn a_learner_has_one_name_and_no_other() {
    for (name, _) in KINDS {
        assert_eq!(make(name, 2, Settings::default()).unwrap().path_count(), 0);
    }
    let unknown = make("ucb", 2, Settings::default()).err();
    assert_eq!(unknown, Some(Unusable::Kind));
}
