//! The figures of `--fair`.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;
use tcpilot_abi::{
    TP_FAIR_ANTS, TP_FAIR_DELAY, TP_FAIR_DROP, TP_FAIR_FIRST, TP_FAIR_MICE, TP_FAIR_POLICE,
    TP_FAIR_SLOW, TP_FAIR_UNREPLIED, TP_FAIR_WINDOW, tp_fair_counts,
};
use tcpilot_kernel::watch::Watch;
use tcpilot_netlink::tc::ClassStats;
use tcpilot_show::{
    figure::{Shown as _, Unit, figures},
    table,
};

use super::{orders::Orders, queueing::Queueing};
use crate::link::Group;

figures! {
    /// A group's queues, or those of nobody's group.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
    pub QueuesView {
        /// The group; also `unreplied` and `slow`.
        group: &'static str, "Queues of";
        /// Its flows, and its queues.
        flows: usize, "Flows";
        /// Its flows, and its queues.
        queues: usize, "Queues";
        /// Packets sent.
        packets: u64, Packets, "Packets";
        /// Bytes sent.
        bytes: u64, Bytes;
        /// Waiting packets.
        backlog: u64, Packets, "Waiting";
        /// Packets without room.
        overflows: u64, Packets, "Overflows";
        /// Packets dropped as their flow was above its share.
        dropped: u64, Packets, "Dropped";
        /// Packets through the slow queue.
        delayed: u64, Packets, "Delayed";
        /// Acknowledgements with a shrunk window.
        shrunk: u64, "Shrunk";
    }
}

figures! {
    /// All queues.
    #[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
    pub FairView {
        /// `htb` or `bpf`.
        qdisc: &'static str;
        /// All queues.
        queues: usize;
        /// Allowed rate of each flow, or of each subscriber with `--share`.
        share_rate: u64, BytesPerSecond;
        /// Sending flows, or subscribers with `--share`.
        sharers: usize;
        /// Changes of queue by flows.
        moves: u64;
        /// Packets put into a queue.
        classified: u64, Packets;
        /// Data packets of flows not yet in a queue of their group.
        without_order: u64, Packets;
        /// Mean time of the programs in the qdisc for a packet; `null` without `kernel.bpf_stats_enabled`.
        classifier_ns: Option<u64>, Nanoseconds;
        /// Queues of each group.
        groups: Vec<QueuesView>;
    }
}

fn of_group(group: Group, counts: &tp_fair_counts) -> QueuesView {
    let acted = |action: u32| {
        let row = counts.acted.get(group as usize);
        row.and_then(|r| r.get(action as usize))
            .copied()
            .unwrap_or(0)
    };
    QueuesView {
        group: group.word(),
        dropped: acted(TP_FAIR_DROP) + acted(TP_FAIR_POLICE),
        delayed: acted(TP_FAIR_DELAY),
        shrunk: acted(TP_FAIR_WINDOW),
        ..QueuesView::default()
    }
}

fn add(view: &mut QueuesView, minor: u32, stats: &[ClassStats]) {
    view.queues += 1;
    for class in stats.iter().filter(|c| u32::from(c.minor) == minor) {
        view.packets += class.packets;
        view.bytes += class.bytes;
        view.backlog += u64::from(class.backlog_packets);
        view.overflows += u64::from(class.drops);
    }
}

/// Time of the programs per queued packet. Runs of `dequeue` do not count packets, because the kernel also
/// asks an empty qdisc.
fn nanoseconds_per_packet(watch: &Watch, queueing: Queueing) -> Option<u64> {
    let programs: &[&str] = match queueing {
        Queueing::Htb => &["class"],
        Queueing::Bpf => &["enqueue", "dequeue"],
    };
    let all = watch.cost();
    let cost = |name: &&str| all.iter().find(|c| c.name == *name);
    let packets = programs.first().and_then(cost)?.runs;
    let nanoseconds: u64 = programs
        .iter()
        .filter_map(cost)
        .map(|c| c.nanoseconds)
        .sum();
    (nanoseconds > 0).then(|| nanoseconds / packets.max(1))
}

/// Makes the view from the orders, the programs' counts, and the counts of the classes.
pub fn view(orders: &Orders, watch: &Watch, queueing: Queueing, stats: &[ClassStats]) -> FairView {
    let counts = watch.fair_counts();
    let mut groups = Vec::new();
    let mut queues = 0;
    for group in Group::ALL {
        let mut view = of_group(group, &counts);
        view.flows = orders.flows_of(group);
        match group {
            Group::Ant => add(&mut view, TP_FAIR_ANTS, stats),
            Group::Mouse => add(&mut view, TP_FAIR_MICE, stats),
            Group::Udp => (), // shares the queues of unknown flows
            dealt => (0..orders.queues.count())
                .filter(|q| orders.queues.owner(*q) == Some(dealt as u8))
                .for_each(|q| add(&mut view, TP_FAIR_FIRST + q as u32, stats)),
        }
        queues += view.queues;
        groups.push(view);
    }
    for (word, minor) in [("unreplied", TP_FAIR_UNREPLIED), ("slow", TP_FAIR_SLOW)] {
        let mut view = QueuesView {
            group: word,
            ..QueuesView::default()
        };
        add(&mut view, minor, stats);
        groups.push(view);
    }
    let free = (0..orders.queues.count()).filter(|q| orders.queues.owner(*q).is_none());
    FairView {
        qdisc: queueing.word(),
        queues: queues + 2 + free.count(),
        share_rate: orders.share as u64,
        sharers: orders.sharers(),
        moves: orders.queues.moves,
        classified: counts.classified,
        without_order: counts.without_order,
        classifier_ns: nanoseconds_per_packet(watch, queueing),
        groups,
    }
}

/// Adds the queues as a table, below that of the groups.
pub fn add_to(out: &mut String, fair: &FairView) {
    let cost = fair
        .classifier_ns
        .map_or_else(String::new, |ns| format!(" · {ns} ns per packet"));
    let _ = writeln!(
        out,
        "\nfair · {} · {} queues · {} shares of {} · {} moves{cost}",
        fair.qdisc,
        fair.queues,
        fair.sharers,
        fair.share_rate.shown(Unit::BytesPerSecond),
        fair.moves,
    );
    let in_use = fair.groups.iter().filter(|group| {
        let idle = QueuesView {
            group: group.group,
            bytes: group.bytes,
            ..QueuesView::default()
        };
        **group != idle
    });
    out.push_str(&table::of(in_use));
}
