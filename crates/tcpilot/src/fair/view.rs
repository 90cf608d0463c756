//! What `--fair` shows.

use std::fmt::Write as _;

use serde::Serialize;
use tcpilot_abi::{
    TP_FAIR_ANTS, TP_FAIR_DELAY, TP_FAIR_DROP, TP_FAIR_FIRST, TP_FAIR_MICE, TP_FAIR_POLICE,
    TP_FAIR_SLOW, TP_FAIR_STRANGERS, TP_FAIR_WINDOW, tp_fair_counts,
};
use tcpilot_kernel::watch::Watch;
use tcpilot_netlink::tc::ClassStats;

use super::{orders::Orders, queueing::Queueing};
use crate::{
    show::table::{bits, print, table},
    watch::views::Group,
};

/// A group's queues, or those of nobody's group.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct QueuesView {
    /// The group; `strangers` and `slow` have queues, too.
    pub group: &'static str,
    /// Its flows.
    pub flows: usize,
    /// Its queues.
    pub queues: usize,
    /// That left, since the start.
    pub packets: u64,
    /// That left, since the start.
    pub bytes: u64,
    /// Packets that wait.
    pub backlog: u64,
    /// Packets for which there was no room.
    pub overflows: u64,
    /// Packets dropped because their flow was above its share.
    pub dropped: u64,
    /// Packets that waited in the slow queue.
    pub delayed: u64,
    /// Acknowledgements whose window was shrunk.
    pub shrunk: u64,
}

/// All of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FairView {
    /// What holds them: `htb` or `bpf`.
    pub qdisc: &'static str,
    /// Queues in all.
    pub queues: usize,
    /// A flow's share, bytes per second.
    pub share_rate: u64,
    /// Flows that changed their queue.
    pub moves: u64,
    /// Packets that were given a queue.
    pub classified: u64,
    /// Data packets of flows that had no order yet.
    pub without_order: u64,
    /// Mean time of our programs in the qdisc for one, if kernel.bpf_stats_enabled is 1.
    pub classifier_ns: Option<u64>,
    /// By group.
    pub groups: Vec<QueuesView>,
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

/// A packet is queued once, while the qdisc is asked for one more often.
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

/// From the orders, the programs' counts, and those of the classes.
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
            Group::Udp => (), // its queues are those of what is unknown
            dealt => (0..orders.queues.count())
                .filter(|q| orders.queues.owner(*q) == Some(dealt as u8))
                .for_each(|q| add(&mut view, TP_FAIR_FIRST + q as u32, stats)),
        }
        queues += view.queues;
        groups.push(view);
    }
    for (word, minor) in [("strangers", TP_FAIR_STRANGERS), ("slow", TP_FAIR_SLOW)] {
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
        moves: orders.queues.moves,
        classified: counts.classified,
        without_order: counts.without_order,
        classifier_ns: nanoseconds_per_packet(watch, queueing),
        groups,
    }
}

/// As a table, below that of the groups.
pub fn add_to(out: &mut String, fair: &FairView) {
    let cost = fair
        .classifier_ns
        .map_or_else(String::new, |ns| format!(" · {ns} ns per packet"));
    let _ = writeln!(
        out,
        "\nfair · {} · {} queues · a flow's share {} · {} moves{cost}",
        fair.qdisc,
        fair.queues,
        bits(Some(fair.share_rate)),
        fair.moves,
    );
    let mut rows = table(
        &["Queues of"],
        &[
            "Flows",
            "Queues",
            "Packets",
            "Waiting",
            "Overflows",
            "Dropped",
            "Delayed",
            "Shrunk",
        ],
    );
    for group in &fair.groups {
        let numbers = [
            group.flows as u64,
            group.queues as u64,
            group.packets,
            group.backlog,
            group.overflows,
            group.dropped,
            group.delayed,
            group.shrunk,
        ];
        if numbers.iter().any(|n| *n > 0) {
            let words = numbers.iter().map(ToString::to_string);
            rows.add_row(std::iter::once(group.group.to_owned()).chain(words));
        }
    }
    out.push_str(&print(&rows));
}
