//! Tables and texts for people, from the views. Pure: the functions return strings.

mod parts;

use std::fmt::Write as _;

use tcpilot_abi::Why;
use tcpilot_show::{
    figure::{self, Shown as _, Unit, View as _},
    output::printable,
    select::Selection,
};

use crate::figures::{
    AlgorithmView, DecisionView, Explanation, FlowView, PathView, Status, TuningView,
};

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

fn path_name(path: &PathView) -> String {
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

/// The measures of a path, on one line.
fn measures(path: &PathView) -> String {
    let all = PathView::columns().map(|c| (c.heading, (c.text)(path)));
    let known = all.filter(|(_, text)| text != figure::NONE);
    let known: Vec<String> = known.map(|(name, text)| format!("{name} {text}")).collect();
    known.join(", ")
}

/// The text of `explain`.
pub fn explanation(e: &Explanation) -> String {
    let mut out = String::new();
    if let Some(stopped) = &e.stopped {
        let _ = writeln!(out, "the guard has stopped steering here: {stopped}");
    }
    if e.paths.is_empty() {
        let _ = writeln!(
            out,
            "{}: no path yet, so the next connections get the kernel's default",
            e.address
        );
    }
    for explained in &e.paths {
        let path = &explained.path;
        match path.level.as_str() {
            "path" => {
                let _ = writeln!(out, "{} is on path {}", e.address, class_name(path));
                let _ = writeln!(out, "  {}", measures(path));
            }
            level => out.push_str(&for_unseen(&e.address, level, path)),
        }
        out.push_str(&learned(path));
        if let Some(fleet) = &path.fleet {
            out.push_str(&fleet.text());
        }
        if let Some(tuning) = &explained.tuning {
            out.push_str(&tuning.text());
        }
        out.push('\n');
        out.push_str(&indent(&paths(std::slice::from_ref(path))));
        for algorithm in &path.algorithms {
            if let Some(why) = &algorithm.not_eligible {
                let _ = writeln!(out, "  {} may not be chosen: {why}", algorithm.name);
            }
        }
        if !explained.decisions.is_empty() {
            out.push_str("\n  last decisions, newest first:\n");
        }
        for decision in &explained.decisions {
            out.push_str(&decided(decision));
        }
    }
    if !e.flows.is_empty() {
        out.push_str("\n  live connections:\n");
        out.push_str(&indent(&flows(&e.flows)));
    }
    out
}

/// A line about a decision.
fn decided(d: &DecisionView) -> String {
    let algorithm = d.algorithm.as_deref().unwrap_or("kernel default");
    let dry = if d.dry_run { " (dry run: not set)" } else { "" };
    let rate = d.goodput.map_or_else(String::new, |_| {
        format!(", {}", d.goodput.shown(Unit::BytesPerSecond))
    });
    let loss = match d.loss_ratio {
        Some(share) if share > 0.0 => format!(", {} lost", share.shown(Unit::Share)),
        _ => String::new(),
    };
    format!(
        "  {:>7.1} s ago  {}: {algorithm}{dry}, {}{rate}{loss}  [{}: {}]\n",
        d.age_s, d.side, d.end, d.why, d.because
    )
}

/// The line of an address without a path: it names the node that chooses for a first connection.
fn for_unseen(address: &str, level: &str, path: &PathView) -> String {
    let node = match level {
        "global" => "everything that was learned".to_owned(),
        level => format!("its {level} {}", class_name(path)),
    };
    format!("{address}: no path yet; a first connection is chosen for by {node}\n")
}

/// A gain that an algorithm has to bring is explained from here on.
const NOTABLE_GAIN: f64 = 0.2;

/// The knowledge of the learner about a path.
fn learned(path: &PathView) -> String {
    let mut out = format!(
        "  experience of {:.1} connections; exploring has cost as much as {:.2}, and may cost {:.2} more",
        path.experience, path.explored, path.budget
    );
    if path.rescued > 0 {
        let _ = write!(out, ", rescued {}", path.rescued);
        if path.undone > 0 {
            let _ = write!(out, " (undone {}: it did not help)", path.undone);
        }
    }
    if path.moved > 0 {
        let _ = write!(out, ", moved {} long ones", path.moved);
    }
    if let Some(age_s) = path.changed_age_s {
        let _ = write!(out, ", changed {} ago", duration(age_s as u64));
    }
    if path.gain_needed > NOTABLE_GAIN {
        let _ = write!(
            out,
            "\n  others may share its queue ({} of its losses come with one): an algorithm has to bring {} more",
            path.queued_losses.shown(Unit::Share),
            path.gain_needed.shown(Unit::Share),
        );
    }
    out + "\n"
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

/// The text of `status`.
pub fn status(s: &Status) -> String {
    let mut out = String::new();
    write_daemon(&mut out, s);
    write_connections(&mut out, s);
    if !s.choice_dists_valid {
        let _ = writeln!(
            out,
            "stale    no heartbeat of the learner for 10 s: new connections get the kernel's default"
        );
    }
    if let Some(effect) = &s.effect {
        let _ = writeln!(out, "effect   {effect}");
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
    let mode = match (s.attached, s.dry_run) {
        (false, _) => "NOT ATTACHED",
        (true, true) if s.learning.is_some() => {
            "dry run: sets nothing, learns of the default alone"
        }
        (true, true) => "dry run: decides, sets nothing",
        (true, false) => "steering",
    };
    let _ = writeln!(
        out,
        "tcpilot {} · {mode} · pid {} · up {}",
        s.version,
        s.pid,
        duration(s.uptime_s)
    );
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

/// Lines with the best algorithms of the first ten paths, as far as they are known.
fn best_of(paths: &[PathView]) -> String {
    let mut out = String::new();
    let known = paths.iter().filter_map(|path| Some((path, best(path)?)));
    for (path, best) in known.take(10) {
        let gain = best.effect.map_or_else(String::new, |_| {
            let [effect, low, high] = [best.effect, best.effect_low, best.effect_high]
                .map(|part| part.shown(Unit::Share));
            format!("{effect} more than the default, between {low} and {high}; ")
        });
        let _ = writeln!(
            out,
            "  {}: {} serves it best ({gain}{} of {}, max rate {}, min RTT {})",
            class_name(path),
            printable(&best.name),
            best.chosen,
            number(path.connections, "connection"),
            best.max_delivery_rate.shown(Unit::BytesPerSecond),
            best.min_rtt_us.shown(Unit::Microseconds)
        );
    }
    out
}

/// The best algorithm that is surely better than the default, if there is one. Without any estimate: the
/// algorithm of least cost.
fn best(path: &PathView) -> Option<&AlgorithmView> {
    let all = || path.algorithms.iter();
    if all().all(|a| a.effect.is_none()) {
        return all().filter(|a| a.samples > 0).min_by_key(|a| a.cost);
    }
    let effect = |a: &AlgorithmView| a.effect.unwrap_or(0.0);
    all()
        .filter(|a| a.effect_low.is_some_and(|low| low > 0.0))
        .max_by(|a, b| effect(a).total_cmp(&effect(b)))
}

impl TuningView {
    /// Lines for `explain`.
    fn text(&self) -> String {
        let mut out = String::new();
        let saved = self
            .saved_window
            .map_or_else(|| "-".to_owned(), |w| w.to_string());
        let _ = writeln!(
            out,
            "  network {} ({}), saved window {saved}, brake {}, retreats {}",
            self.network, self.because, self.brake, self.retreats
        );
        for t in &self.tunings {
            let off = match &t.waits {
                _ if t.switched_off => ", SWITCHED OFF by the guard".to_owned(),
                Some(why) => format!("; not now: {why}"),
                None => String::new(),
            };
            let last = if t.last.is_empty() {
                String::new()
            } else {
                format!(", last {}", t.last)
            };
            let _ = writeln!(out, "  {:<20} set {} times{last}{off}", t.name, t.set);
        }
        out
    }
}

#[cfg(test)]
pub(super) mod tests;
