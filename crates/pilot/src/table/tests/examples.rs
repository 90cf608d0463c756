//! What a daemon could have answered.

use super::super::*;
use tcpilot_abi::Withheld;

use crate::figures::{
    AlgorithmView, ChangeView, CohortView, DecisionView, DrawnAlgorithm, HistogramView,
    LearningStatus, PolicyStatus, RescueStatus, ShownView, TrafficView, TuneView, TuningView,
    TuningsStatus, Upgrades,
};

pub(super) fn algorithm(
    name: &str,
    cost: u64,
    count: u32,
    greedy: u32,
    rate_bytes_per_s: u64,
    share: f64,
) -> AlgorithmView {
    AlgorithmView {
        name: name.to_owned(),
        cost,
        chosen: count,
        greedy,
        samples: count,
        min_rtt_us: Some(20_050),
        max_delivery_rate: Some(rate_bytes_per_s),
        share,
        ..Default::default()
    }
}

pub(super) fn unused(name: &str) -> AlgorithmView {
    AlgorithmView {
        min_rtt_us: None,
        max_delivery_rate: None,
        ..algorithm(name, 0, 0, 0, 0, 0.0)
    }
}

pub(super) fn lossy_path() -> PathView {
    PathView {
        prefix: "203.0.113.0/24".parse().unwrap(),
        netns: "host".to_owned(),
        policy: "default".to_owned(),
        min_rtt_us: Some(20_050),
        srtt_us: Some(23_800),
        max_delivery_rate: Some(2_262_500),
        ssthresh: Some(46),
        live_flows: 1,
        connections: 94,
        loss_ratio: Some(0.0512),
        level: "path".to_owned(),
        baseline: Some("cubic".to_owned()),
        algorithms: vec![
            algorithm("cubic", 745_594, 9, 2, 987_500, 0.0125),
            algorithm("bbr", 12_189, 83, 78, 2_262_500, 0.9625),
            algorithm("htcp", 803_114, 2, 0, 425_000, 0.0125),
            AlgorithmView {
                not_eligible: Some("it is not for the public Internet".to_owned()),
                ..unused("dctcp")
            },
        ],
        ..Default::default()
    }
}

pub(super) fn new_path() -> PathView {
    PathView {
        prefix: "2001:db8:7::/48".parse().unwrap(),
        netns: "blue".to_owned(),
        policy: "backup".to_owned(),
        min_rtt_us: Some(310),
        connections: 1,
        level: "path".to_owned(),
        baseline: Some("cubic".to_owned()),
        algorithms: vec![unused("cubic"), unused("bbr")],
        ..Default::default()
    }
}

pub(super) fn decision(age_s: f64, algorithm: Option<&str>, why: Why) -> DecisionView {
    DecisionView {
        age_s,
        algorithm: algorithm.map(str::to_owned),
        why: why.word().to_owned(),
        because: why.sentence().to_owned(),
        side: "connect".to_owned(),
        dry_run: false,
        end: "closed".to_owned(),
        goodput: Some(1_500_000),
        loss_ratio: Some(0.021),
    }
}

pub(super) fn flow(name: &str, why: Why) -> FlowView {
    FlowView {
        netns: "host".to_owned(),
        local: "192.0.2.4:54334".to_owned(),
        remote: "203.0.113.9:443".to_owned(),
        algorithm: name.to_owned(),
        why: why.word().to_owned(),
        charged_to: Some(name.to_owned()),
        policy: "default".to_owned(),
        side: "connect".to_owned(),
        srtt_us: Some(21_300),
        min_rtt_us: Some(20_050),
        delivery_rate: Some(2_125_000),
        app_limited: false,
        loss_ratio: Some(0.048),
        bytes_acked: 1_000_000,
        cwnd: 92,
        ssthresh: None,
        age_s: Some(12.3),
        dry_run: false,
        tunings: vec!["initial-window".to_owned(), "rto".to_owned()],
        initial_window: Some(31),
        inode: Some(48_213),
        cgroup_id: Some(61),
        processes: Vec::new(),
        pids: Vec::new(),
        cgroup: None,
        pods: Vec::new(),
    }
}

pub(super) fn flow_left_alone() -> FlowView {
    FlowView {
        remote: "[2001:db8:7::1]:22".to_owned(),
        netns: "blue".to_owned(),
        srtt_us: None,
        delivery_rate: None,
        loss_ratio: None,
        age_s: None,
        tunings: Vec::new(),
        initial_window: None,
        ..flow("cubic", Why::Application)
    }
}

pub(super) fn running() -> Status {
    let connections = [
        (Why::NoChoiceDist, 3),
        (Why::Drawn, 91),
        (Why::Application, 4),
    ];
    Status {
        effect: None,
        gains: Vec::new(),
        version: "0.2.0".to_owned(),
        pid: 4711,
        kernel: "6.12.0".to_owned(),
        cgroup: "/sys/fs/cgroup".to_owned(),
        uptime_s: 7384,
        dry_run: false,
        attached: true,
        learner: "epsilon-greedy".to_owned(),
        learning: None,
        algorithms: ["cubic", "bbr"].map(str::to_owned).to_vec(),
        algorithms_missing: vec!["htcp is not there: left out".to_owned()],
        rescue: Some("bbr".to_owned()),
        paths: 2,
        paths_max: 16_384,
        connections: connections
            .map(|(why, n)| (why.word().to_owned(), n))
            .into(),
        live_flows: 3,
        closed: 90,
        charged: 85,
        rescues: 6,
        rescued: RescueStatus::default(),
        moves: 0,
        degraded: vec!["a sample was given up (2 times)".to_owned()],
        bpf_events: 1000,
        bpf_ns: 640_000,
        resident_bytes: 9_300_000,
        state: "/var/lib/tcpilot/state.db".to_owned(),
        take_overs: Upgrades::default(),
        traffic: Some(TrafficView {
            share: Some(0.613),
            steered_bytes: 12_300_000_000,
            sent_bytes: 15_200_000_000,
            received_bytes: 4_870_000_000,
            devices: ["eth0", "eth1"].map(str::to_owned).to_vec(),
        }),
        choice_dists_valid: true,
        choice_dists_expired: 0,
        tunings: Some(tunings()),
        fleet: None,
    }
}

pub(super) fn tunings() -> TuningsStatus {
    TuningsStatus {
        objective: "latency".to_owned(),
        network: "auto".to_owned(),
        set: [("initial-window", 43), ("rto", 120)]
            .map(|(name, n)| (name.to_owned(), n))
            .into(),
        refused: [("rto".to_owned(), 2)].into(),
        retreats: 3,
        acks_first: 0,
        guard: vec![
            "203.0.113.0/24: rto switched off: 6.0 % of its packets are lost, 1.0 % without it"
                .to_owned(),
        ],
    }
}

pub(super) fn tuning() -> TuningView {
    let group = |connections| CohortView {
        connections,
        late: 1,
        sent: 100 * connections,
        lost: connections,
    };
    let tune = |name: &str, last: &str, off| TuneView {
        name: name.to_owned(),
        set: 43,
        last: last.to_owned(),
        switched_off: off,
        waits: (name == "quick-ack")
            .then(|| "its last 128 connections received one segment at most".to_owned()),
        with: group(40),
        without: group(3),
    };
    TuningView {
        network: "long-fat".to_owned(),
        because: "its round trips are long and its BDP is large".to_owned(),
        saved_window: Some(312),
        rttvar_us: Some(2_500),
        brake: 1,
        retreats: 2,
        policed_rate: None,
        tunings: vec![
            tune(
                "initial-window",
                "31 packets, from 312 saved and 5 live",
                false,
            ),
            tune(
                "rto",
                "least 40.0 ms, SYN 140.0 ms, from a variation of 5.0 ms",
                true,
            ),
            tune("quick-ack", "", false),
        ],
    }
}

pub(super) fn learned(
    name: &str,
    share: f64,
    effect: Option<[f64; 3]>,
    from: Option<&str>,
) -> AlgorithmView {
    AlgorithmView {
        name: name.to_owned(),
        share,
        effect: effect.map(|e| e[0]),
        effect_low: effect.map(|e| e[1]),
        effect_high: effect.map(|e| e[2]),
        learned_from: from.map(str::to_owned),
        ..Default::default()
    }
}

/// The view of a path, or of a node above it, from the learner in the daemon.
pub(super) fn known(level: &str) -> PathView {
    PathView {
        prefix: match level {
            "path" => "203.0.113.9",
            _ => "203.0.113.0/24",
        }
        .parse()
        .unwrap(),
        netns: "all".to_owned(),
        policy: "default".to_owned(),
        age_s: 3.1,
        level: level.to_owned(),
        baseline: Some("cubic".to_owned()),
        class: Some("16 to 33 ms, accept".to_owned()),
        experience: 31.2,
        explored: 0.084,
        budget: 1.31,
        queued_losses: if level == "path" { 0.125 } else { 0.875 },
        gain_needed: if level == "path" { 0.02 } else { 1.72 },
        rescued: if level == "path" { 3 } else { 0 },
        undone: if level == "path" { 1 } else { 0 },
        moved: if level == "path" { 2 } else { 0 },
        changed_age_s: (level == "path").then_some(700.0),
        algorithms: vec![
            learned("cubic", 0.01, None, None),
            learned("bbr", 0.985, Some([0.62, 0.31, 1.0]), Some("path")),
            learned("bbr3", 0.005, Some([-0.095, -0.66, 1.41]), None),
        ],
        ..Default::default()
    }
}

/// The same with the measures of its connections.
pub(super) fn known_and_measured() -> PathView {
    let mut path = PathView {
        min_rtt_us: Some(20_050),
        srtt_us: Some(23_800),
        max_delivery_rate: Some(2_262_500),
        ssthresh: Some(46),
        live_flows: 1,
        connections: 94,
        loss_ratio: Some(0.0512),
        ..known("path")
    };
    let measured = lossy_path().algorithms;
    let rates = [487_500, 1_512_500, 441_000];
    let rates = rates.map(|rate: u64| [rate, rate * 4 / 5, rate * 6 / 5].map(Some));
    let measured = measured.into_iter().zip(rates);
    for (algorithm, (measured, [rate, low, high])) in path.algorithms.iter_mut().zip(measured) {
        *algorithm = AlgorithmView {
            share: algorithm.share,
            effect: algorithm.effect,
            effect_low: algorithm.effect_low,
            effect_high: algorithm.effect_high,
            learned_from: algorithm.learned_from.clone(),
            expected_rate: rate,
            expected_rate_low: low,
            expected_rate_high: high,
            name: algorithm.name.clone(),
            ..measured
        };
    }
    path
}

#[allow(clippy::too_many_lines, reason = "a list of figures")]
pub(crate) fn learning() -> Status {
    let given = |name: &str, connections| DrawnAlgorithm {
        name: name.to_owned(),
        connections,
        probability: 0.9,
        shown: Vec::new(),
    };
    let shown = |group: &str, counts: &[u64]| ShownView {
        group: group.to_owned(),
        goodput: HistogramView {
            bounds: vec![1e5, 1e6, 1e7],
            counts: counts.to_vec(),
            sum: 2.4e8,
        },
        min_rtt: HistogramView {
            bounds: vec![0.01, 0.03],
            counts: vec![0, 630, 2],
            sum: 13.1,
        },
        srtt: HistogramView {
            bounds: vec![0.01, 0.03],
            counts: vec![0, 601, 31],
            sum: 15.7,
        },
        segments: 71_000,
        retransmitted: 420,
    };
    let given = |name: &str, connections, shown: Vec<ShownView>| DrawnAlgorithm {
        shown,
        ..given(name, connections)
    };
    Status {
        learner: "thompson".to_owned(),
        moves: 2,
        choice_dists_valid: true,
        choice_dists_expired: 1,
        rescued: RescueStatus {
            helped: 4,
            undone: 1,
            own_losses: 17,
            withheld: [(Withheld::ChoiceDist, 2), (Withheld::Failed, 0)]
                .map(|(why, count)| (why.word().to_owned(), count))
                .into(),
        },
        learning: Some(LearningStatus {
            paths: 120,
            nodes: 17,
            choice_dists: 138,
            choice_dists_max: 32768,
            records: 940,
            updates: 850,
            turns: HistogramView {
                bounds: vec![0.001, 0.01],
                counts: vec![147_000, 600, 2],
                sum: 31.5,
            },
            explored: 1.73,
            steer_percent: 20,
            policies: vec![PolicyStatus {
                policy: "default".to_owned(),
                default: "cubic".to_owned(),
                algorithms: vec![
                    given("cubic", 120, vec![shown("control", &[9, 20, 3, 0])]),
                    given("bbr", 730, vec![shown("treated", &[12, 590, 120, 8])]),
                ],
            }],
            changes: vec![ChangeView {
                level: "group".to_owned(),
                prefix: "203.0.113.0/24".to_owned(),
                policy: "default".to_owned(),
                age_s: 700.0,
            }],
            ..Default::default()
        }),
        ..running()
    }
}
