//! Turns views into the text of the live list and of the report. Pure.

use std::fmt::Write as _;

use super::views::View;
use crate::{
    link::FlowView,
    show::{
        figure::{Shown as _, Unit},
        select::Selection,
        table,
    },
};

/// The text if there is no flow to show yet.
const NO_FLOW: &str = "no flow yet: one is shown when data of it was acknowledged through here\n";

/// A line for each device, sums by group, and the queues of `--fair`.
pub fn head(views: &[View]) -> String {
    let mut out = String::new();
    for view in views {
        device(&mut out, view);
    }
    let groups: Vec<_> = views.iter().flat_map(|view| &view.groups).collect();
    if !groups.is_empty() {
        let is_wanted = |heading: &str| is_wanted(views, heading);
        let _ = write!(out, "\n{}", table::with(groups, is_wanted));
    }
    for fair in views.iter().filter_map(|view| view.fair.as_ref()) {
        crate::fair::add_table(&mut out, fair);
    }
    out
}

/// The device has a column only if there are several.
fn is_wanted(views: &[View], heading: &str) -> bool {
    views.len() > 1 || heading != "Device"
}

fn device(out: &mut String, view: &View) {
    let gone = if view.present {
        ""
    } else {
        " · THE DEVICE IS GONE"
    };
    let used = view.link_used.map_or_else(String::new, |share| {
        format!(", {} used", share.shown(Unit::Share))
    });
    let _ = writeln!(
        out,
        "{} · {:.0} s · link {}{used} · queue up to {} · {} packets in, {} out{gone}",
        view.device,
        view.t_s,
        Some(view.link_rate)
            .filter(|r| *r > 0)
            .shown(Unit::BytesPerSecond),
        view.link_queue_us.shown(Unit::Microseconds),
        view.in_packets,
        view.out_packets,
    );
    if let Some(unseen) = view.unseen_packets.filter(|n| *n > 0) {
        let _ = writeln!(out, "{unseen} packets left unseen: this host is busy");
    }
}

/// The wanted flows of all devices, the fastest first unless the user asks for another order.
pub fn flows(views: &[View], selection: &Selection<FlowView>) -> String {
    let mut flows: Vec<FlowView> = views.iter().flat_map(|v| v.flows.iter().cloned()).collect();
    if flows.is_empty() {
        return NO_FLOW.to_owned();
    }
    flows.sort_by_key(|flow| std::cmp::Reverse(flow.rate));
    selection.apply(&mut flows);
    selection.table(&flows, |heading| is_wanted(views, heading), &[])
}
