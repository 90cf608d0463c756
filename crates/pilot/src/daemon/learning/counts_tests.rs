//! Counts handed from one daemon's learners to another's.

use tcpilot_abi::{TP_RECORD_RESCUED, TP_RECORD_SAMPLE, tp_record};

use super::*;
use crate::daemon::learning::learners::tests::{learners_of, record, settings, update};
use crate::figures::{LearningStatus, PolicyStatus};

/// The counts as the next program receives them.
fn told(counts: &Counts) -> Counts {
    let text = serde_json::to_string(counts).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    serde_json::from_value(value).unwrap()
}

/// Learners with two updated paths, a rescue, and a rejected record.
fn busy() -> Learners {
    let (mut learners, _) = learners_of(settings(100), &[]);
    update(&mut learners, &["198.51.100.7", "2001:db8:1:2::3"], 10);
    learners.take(&tp_record {
        flags: (TP_RECORD_SAMPLE | TP_RECORD_RESCUED) as u8,
        ..record("2001:db8:1:2::3", 0, 250)
    });
    learners.take(&tp_record {
        bytes_acked: 100,
        ..record("198.51.100.7", 0, 250)
    });
    learners.dropped = 3;
    learners
}

/// The policies without histograms: those are reset as by a restart, and Prometheus copes with resets.
fn counted(status: &LearningStatus) -> Vec<PolicyStatus> {
    let mut policies = status.policies.clone();
    let algorithms = policies.iter_mut().flat_map(|p| &mut p.algorithms);
    algorithms.for_each(|algorithm| algorithm.shown.clear());
    policies
}

#[test]
fn counts_go_on_in_the_next_program() {
    let mut first = busy();
    let before = first.status();
    assert!(before.records == 22 && before.dropped == 3 && before.publications > 0);
    let (mut next, _) = learners_of(settings(100), &[]);
    next.go_on(told(&first.counts()));
    let after = next.status();
    assert_eq!(
        (
            after.records,
            after.dropped,
            after.updates,
            &after.rejected,
            counted(&after)
        ),
        (
            before.records,
            before.dropped,
            before.updates,
            &before.rejected,
            counted(&before)
        )
    );
    assert_eq!(next.counts().policies, first.counts().policies);
    assert_eq!(next.records, 0, "they ask for no distribution");

    update(&mut next, &["198.51.100.7"], 4);
    let later = next.status();
    assert_eq!(
        (later.records, later.updates),
        (before.records + 4, before.updates + 4)
    );
    assert_eq!(
        later.policies[0]
            .algorithms
            .iter()
            .map(|a| a.connections)
            .sum::<u64>(),
        {
            let of = before.policies[0].algorithms.iter();
            of.map(|a| a.connections).sum::<u64>() + 4
        }
    );
}

#[test]
fn rescue_is_shown_after_an_upgrade() {
    let (mut next, _) = learners_of(settings(100), &[]);
    next.go_on(told(&busy().counts()));
    update(&mut next, &["2001:db8:1:2::3"], 2);
    let prefix = tcpilot_core::Prefix::around("2001:db8:1:2::3".parse().unwrap(), 128);
    assert_eq!(
        next.explain(&prefix, &tcpilot_kernel::Live::default())[0]
            .view
            .rescued,
        1
    );
}

#[test]
fn counts_of_removed_policies_are_dropped() {
    let counts = told(&busy().counts());
    let mut other = settings(100);
    other.name = "other".to_owned();
    let (mut next, _) = learners_of(other, &[]);
    next.go_on(counts.clone());
    let status = next.status();
    assert_eq!((status.records, status.updates), (22, 0));

    let mut gone = counts;
    gone.policies[0].drawn[1].0 = "vegas".to_owned();
    let (mut next, _) = learners_of(settings(100), &[]);
    next.go_on(gone.clone());
    let algorithms = &next.status().policies[0].algorithms;
    assert_eq!(
        algorithms[0].connections,
        gone.policies[0].drawn[0].1.connections
    );
    assert_eq!(algorithms[1].connections, 0);
}

#[test]
fn change_is_reported_after_an_upgrade() {
    let mut counts = busy().counts();
    let node = tcpilot_learner::NodeKey {
        level: Level::Group,
        key: Key {
            prefix: 0x2001_0db8_u128 << 96,
            len: 48,
            class: 14,
            domain: 7,
        },
    };
    assert_eq!(Named::new(&node).node(), Some(node));
    counts.policies[0].alarms = vec![(Named::new(&node), 1e9)];
    let (mut next, _) = learners_of(settings(100), &[]);
    next.go_on(told(&counts));
    let changes = next.status().changes;
    assert_eq!((changes.len(), changes[0].level.as_str()), (1, "group"));
    assert_eq!(changes[0].prefix, "2001:db8::/48");
}

#[test]
fn counts_begin_at_0_after_older_program() {
    let counts: Counts = serde_json::from_str("{}").unwrap();
    let (mut next, _) = learners_of(settings(100), &[]);
    next.go_on(counts);
    assert_eq!(next.status().records, 0);
}
