//! Tables and texts for people, from the views. Pure: the functions return strings.

mod address;
mod fleet;
mod headline;
mod parts;
mod sentences;

pub use address::{addresses, hosts, selected as selected_addresses};
pub use sentences::explanation;

use std::fmt::Write as _;

use tcpilot_abi::Why;
use tcpilot_show::{
    figure::{Shown as _, Unit},
    output::printable,
    select::Selection,
};

use crate::figures::{AddressView, FlowView, PathView, Status};

/// A time for people, in its two largest units.
pub(crate) fn duration(s: u64) -> String {
    match s {
        0..60 => format!("{s} s"),
        60..3600 => format!("{} min {} s", s / 60, s % 60),
        3600..86_400 => format!("{} h {} min", s / 3600, s / 60 % 60),
        _ => format!("{} d {} h", s / 86_400, s / 3600 % 24),
    }
}

pub(crate) fn number(n: u64, what: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{n} {what}{s}")
}

/// The name of a path without its class: its addresses, and its namespace, interface and policy if they are not the usual
/// ones.
pub(crate) fn path_name(path: &PathView) -> String {
    let mut name = path.prefix.to_string();
    if !["host", "all"].contains(&path.netns.as_str()) {
        let _ = write!(name, " @{}", path.netns);
    }
    if let Some(interface) = &path.interface {
        let _ = write!(name, " by {interface}");
    }
    if path.policy != "default" {
        let _ = write!(name, " [{}]", path.policy);
    }
    printable(&name)
}

/// The name of a path, with its class of handshakes: an address may have a path for each class.
pub(crate) fn class_name(path: &PathView) -> String {
    match &path.class {
        Some(class) => format!("{} ({class})", path_name(path)),
        None => path_name(path),
    }
}

/// Columns shown only on request, by `--columns`.
const ASKED_FOR: [&str; 3] = ["Cost", "Greedy", "Learned from"];

/// A table with a row per path and algorithm.
pub fn paths(paths: &[PathView]) -> String {
    selected_paths(paths, &Selection::default(), false)
}

/// The same with the columns of the selection. `processes`: with the owners of each path's connections.
pub fn selected_paths(
    paths: &[PathView],
    selection: &Selection<PathView>,
    processes: bool,
) -> String {
    if paths.is_empty() {
        return match selection.is_partial() {
            true => "no path matches\n".to_owned(),
            false => "no path has been seen yet\n".to_owned(),
        };
    }
    let owners = owners(processes, paths.iter().any(|path| !path.pods.is_empty()));
    selection.table(paths, |heading| !ASKED_FOR.contains(&heading), owners)
}

/// A table of live connections.
pub fn flows(flows: &[FlowView]) -> String {
    selected_flows(flows, &Selection::default(), false)
}

/// The same with the columns of the selection. `processes`: with the owners of each connection.
pub fn selected_flows(
    flows: &[FlowView],
    selection: &Selection<FlowView>,
    processes: bool,
) -> String {
    if flows.is_empty() {
        return match selection.is_partial() {
            true => "no connection matches\n".to_owned(),
            false => "no live connection (loopback is not listed)\n".to_owned(),
        };
    }
    let owners = owners(processes, flows.iter().any(|flow| !flow.pods.is_empty()));
    selection.table(flows, |_| true, owners)
}

/// The columns of the owners of connections. Most hosts have no pods.
fn owners(processes: bool, pods: bool) -> &'static [&'static str] {
    match (processes, pods) {
        (false, _) => &[],
        (true, false) => &["processes"],
        (true, true) => &["processes", "pods"],
    }
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

/// The text of `status`: five lines.
pub fn status(s: &Status) -> String {
    headline::lines(s)
}

/// The five lines of `status`: a name and a text each.
pub fn status_lines(s: &Status) -> [(&'static str, String); 5] {
    headline::each(s)
}

/// The text of `status --verbose`: the same lines, and then all counts.
pub fn status_in_full(s: &Status) -> String {
    let mut out = headline::lines(s);
    out.push('\n');
    write_daemon(&mut out, s);
    write_connections(&mut out, s);
    if !s.choice_dists_valid {
        let _ = writeln!(
            out,
            "stale    no heartbeat of the learner for 10 s: new connections get the kernel's default"
        );
    }
    if let Some(learning) = &s.learning {
        out.push_str(&learning.text());
    }
    if let Some(tunings) = &s.tunings {
        out.push_str(&tunings.text());
    }
    if let Some(fleet) = &s.fleet {
        out.push_str(&fleet.text());
    }
    if let Some(each) = s.bpf_ns.checked_div(s.bpf_events) {
        let _ = writeln!(out, "cost     {} events · {each} ns each", s.bpf_events);
    }
    let _ = writeln!(
        out,
        "memory   {:.1} MB resident · state {}",
        s.resident_bytes as f64 / 1e6,
        printable(&s.state)
    );
    for line in s.algorithms_missing.iter().chain(&s.degraded) {
        let _ = writeln!(out, "degraded {}", printable(line));
    }
    out
}

/// The daemon itself: its state, kernel, learner, and paths.
fn write_daemon(out: &mut String, s: &Status) {
    let _ = writeln!(out, "process  {} · version {}", s.pid, s.version);
    let cgroup = printable(&s.cgroup);
    let _ = writeln!(out, "kernel   {} · cgroup {cgroup}", s.kernel);
    let _ = writeln!(
        out,
        "learner  {} over {}{}",
        s.learner,
        s.algorithms.join(", "),
        s.rescue
            .as_deref()
            .map_or_else(String::new, |r| format!(" · heavy loss: {r}"))
    );
    if s.effect.is_some() && s.learning.is_none() {
        let _ = writeln!(out, "paths    not known now: the learner has not answered");
    } else {
        let _ = writeln!(out, "paths    {} of at most {}", s.paths, s.paths_max);
    }
}

/// Counts of connections: all, ended, rescued and moved ones.
fn write_connections(out: &mut String, s: &Status) {
    let seen: Vec<String> = s
        .connections
        .iter()
        .filter(|(_, n)| **n > 0)
        .map(|(why, n)| format!("{why} {n}"))
        .collect();
    let seen = if seen.is_empty() {
        "none yet".to_owned()
    } else {
        seen.join(" · ")
    };
    let _ = writeln!(out, "opened   {seen}");
    let _ = writeln!(
        out,
        "ended    {} · judged by {} · rescued {}",
        s.closed, s.charged, s.rescues
    );
    if s.moves > 0 {
        let moves = s.moves;
        let _ = writeln!(
            out,
            "moved    {moves} while they were open, to a better algorithm"
        );
    }
    out.push_str(&s.rescued.text());
    if let Some(traffic) = &s.traffic {
        out.push_str(&traffic.text());
    }
}

/// The report of `run --live` at its end.
pub fn report(s: &Status, paths: &[PathView]) -> String {
    let (mut steered, mut alone) = (0, 0);
    for why in Why::ALL {
        let n = s.connections.get(why.word()).copied().unwrap_or(0);
        if why.is_left_alone() {
            alone += n;
        } else {
            steered += n;
        }
    }
    let mut out = String::new();
    let verb = if s.dry_run {
        "would have steered"
    } else {
        "steered"
    };
    let _ = writeln!(
        out,
        "tcpilot {verb} {} on {}, left {alone} alone, rescued {}{}.",
        number(steered, "connection"),
        number(paths.len() as u64, "path"),
        s.rescues,
        match s.rescued.undone {
            0 => String::new(),
            undone => format!(" and undid {undone}"),
        }
    );
    out.push_str(&best_of(paths));
    out.push_str("Detached: new connections get the kernel's default again.\n");
    out
}

/// Most lines of gains in the report.
const GAINS: usize = 10;

/// The addresses with a sure gain, the greatest first, a line each.
fn best_of(paths: &[PathView]) -> String {
    let mut sure = AddressView::all(paths, path_name);
    sure.retain(|view| view.sure);
    sure.sort_by_key(|view| std::cmp::Reverse(view.gain()));
    let mut out = String::new();
    for view in sure.iter().take(GAINS) {
        let rates = match view.change() {
            Some(change) => format!("{change} Mbit/s"),
            None => format!("{} more", view.effect.shown(Unit::Share)),
        };
        let _ = writeln!(
            out,
            "  {}: {rates} with {} ({}; sure)",
            view.path,
            printable(&view.algorithm),
            number(view.connections, "connection"),
        );
    }
    if sure.len() > GAINS {
        let _ = writeln!(
            out,
            "  and {} more",
            number((sure.len() - GAINS) as u64, "path")
        );
    }
    out
}

#[cfg(test)]
pub(super) mod tests;
