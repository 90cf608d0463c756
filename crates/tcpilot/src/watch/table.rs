//! The live table, and the report: text from a view. Pure.

use std::fmt::Write as _;

use super::views::{FlowView, View};
use crate::show::table::{bits, or_dash, print, rtt, table};

/// The device, sums by group, and every flow.
pub fn view(view: &View) -> String {
    let mut out = String::new();
    let gone = if view.present {
        ""
    } else {
        " · THE DEVICE IS GONE"
    };
    let _ = writeln!(
        out,
        "{} · {:.0} s · link {} · queue up to {} · {} packets in, {} out{gone}",
        view.device,
        view.t_s,
        bits(Some(view.link_rate).filter(|r| *r > 0)),
        rtt(Some(view.link_queue_us)),
        view.in_packets,
        view.out_packets,
    );
    if view.flows.is_empty() {
        out.push_str("\nno flow yet: one is shown when data of it was acknowledged through here\n");
        return out;
    }
    let total: u64 = view.groups.iter().map(|g| g.rate).sum();
    let mut groups = table(&["Group"], &["Flows", "Rate", "Share", "Drops"]);
    for group in &view.groups {
        let share = group.rate as f64 * 100.0 / total.max(1) as f64;
        groups.add_row([
            group.group.word().to_owned(),
            group.flows.to_string(),
            bits(Some(group.rate)),
            format!("{share:.0}%"),
            group.drops.to_string(),
        ]);
    }
    let _ = write!(out, "\n{}", print(&groups));
    if let Some(fair) = &view.fair {
        crate::fair::add_table(&mut out, fair);
    }
    out.push('\n');
    let mut flows = table(
        &["Flow", "Group", "Algorithm"],
        &["Confidence", "Rate", "RTT", "Queue", "Drops", "Age", "Why"],
    );
    for flow in &view.flows {
        flows.add_row(row(flow));
    }
    out.push_str(&print(&flows));
    out
}

fn row(flow: &FlowView) -> Vec<String> {
    let protocol = if flow.protocol == "udp" { " udp" } else { "" };
    vec![
        format!("{}{protocol}", flow.flow),
        flow.group.word().to_owned(),
        or_dash(flow.algorithm.as_deref()),
        flow.confidence
            .map_or_else(|| "-".to_owned(), |c| format!("{:.0}%", c * 100.0)),
        bits(Some(flow.rate)),
        rtt(flow.rtt_us),
        rtt(flow.queue_us),
        flow.drops.to_string(),
        format!("{:.0} s", flow.age_s),
        flow.why.to_owned(),
    ]
}
