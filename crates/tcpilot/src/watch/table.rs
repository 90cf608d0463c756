//! Turns a view into the text of the live table and of the report. Pure.

use std::fmt::Write as _;

use super::views::View;
use crate::show::{
    figure::{Shown as _, Unit},
    table,
};

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
    if view.flows.is_empty() {
        out.push_str("\nno flow yet: one is shown when data of it was acknowledged through here\n");
        return out;
    }
    let _ = write!(out, "\n{}", table::of(&view.groups));
    if let Some(fair) = &view.fair {
        crate::fair::add_table(&mut out, fair);
    }
    let _ = write!(out, "\n{}", table::of(&view.flows));
    out
}
