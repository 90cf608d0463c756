//! Tables and texts for people, from the views. Pure: the functions return strings.

mod parts;

use std::fmt::Write as _;

use tcpilot_abi::Why;

use crate::pilot::figures::{AlgorithmView, Explanation, FlowView, PathView, Status, TuningView};
use crate::show::{
    figure::{self, Shown as _, Unit, View as _},
    select::Selection,
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
    name
}

/// The name of a path, with its class of handshakes: with thompson an address may have a path for each class.
pub(crate) fn class_name(path: &PathView) -> String {
    match &path.class {
        Some(class) => format!("{} ({class})", path_name(path)),
        None => path_name(path),
    }
}

/// Columns that only one of the learners fills.
const OF_EPSILON_GREEDY: [&str; 5] = ["Cost", "Chosen", "Greedy", "Min RTT", "Max rate"];
const OF_THOMPSON: [&str; 4] = ["Effect", "From", "To", "Learned from"];

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
    let others: &[&str] = match paths.iter().any(|path| path.level.is_some()) {
        true => &OF_EPSILON_GREEDY,
        false => &OF_THOMPSON,
    };
    let owners = owners(processes, paths.iter().any(|path| !path.pods.is_empty()));
    selection.table(paths, |heading| !others.contains(&heading), owners)
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
        match path.level.as_deref() {
            None | Some("path") => {
                let _ = writeln!(out, "{} is on path {}", e.address, class_name(path));
            }
            Some(level) => out.push_str(&for_strangers(&e.address, level, path)),
        }
        match &path.level {
            None => out.push_str(&format!("  {}\n", measures(path))),
            Some(_) => out.push_str(&learned(path)),
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
        if path.level.is_some() {
            continue; // only epsilon-greedy's table of paths remembers decisions
        }
        out.push_str("\n  last decisions, newest first:\n");
        for d in &explained.decisions {
            let algorithm = d.algorithm.as_deref().unwrap_or("kernel default");
            let dry = if d.dry_run { " (dry run: not set)" } else { "" };
            let _ = writeln!(
                out,
                "  {:>7.1} s ago  {} {} -> {}: {}{dry}  [{}: {}]",
                d.age_s, d.side, d.local_port, d.remote_port, algorithm, d.why, d.because
            );
        }
    }
    if !e.flows.is_empty() {
        out.push_str("\n  live connections:\n");
        out.push_str(&indent(&flows(&e.flows)));
    }
    out
}

/// The line of an address without a path: it names the node that chooses for a first connection.
fn for_strangers(address: &str, level: &str, path: &PathView) -> String {
    let node = match level {
        "global" => "everything that was learned".to_owned(),
        level => format!("its {level} {}", class_name(path)),
    };
    format!("{address}: no path yet; a first connection is chosen for by {node}\n")
}

/// The knowledge of the learner in the daemon about a path, on one line.
fn learned(path: &PathView) -> String {
    let count = |x: Option<f64>, digits: usize| {
        x.map_or_else(|| figure::NONE.to_owned(), |x| format!("{x:.digits$}"))
    };
    let mut out = format!(
        "  experience of {} connections; exploring has cost as much as {}, and may cost {} more",
        count(path.experience, 1),
        count(path.explored, 2),
        count(path.budget, 2)
    );
    if let Some(made @ 1..) = path.rescued {
        let _ = write!(out, ", rescued {made}");
        if let Some(undone @ 1..) = path.undone {
            let _ = write!(out, " (undone {undone}: it did not help)");
        }
    }
    if let Some(moved @ 1..) = path.moved {
        let _ = write!(out, ", moved {moved} long ones");
    }
    if let Some(age_s) = path.changed_age_s {
        let _ = write!(out, ", changed {} ago", duration(age_s as u64));
    }
    out + "\n"
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

/// The text of `status`.
pub fn status(s: &Status) -> String {
    let mut out = String::new();
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
    let _ = writeln!(out, "kernel   {} · cgroup {}", s.kernel, s.cgroup);
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
    if let Some(rescued) = &s.rescued {
        out.push_str(&rescued.text());
    }
    if let Some(traffic) = &s.traffic {
        out.push_str(&traffic.text());
    }
    if s.rows_valid == Some(false) {
        let _ = writeln!(
            out,
            "void     no sign of life of the learner for 10 s: new connections get the kernel's default"
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
    if let Some(each) = s.bpf_ns.checked_div(s.bpf_events) {
        let _ = writeln!(out, "cost     {} events · {each} ns each", s.bpf_events);
    }
    let _ = writeln!(
        out,
        "memory   {:.1} MB resident · state {}",
        s.resident_bytes as f64 / 1e6,
        s.state
    );
    for line in s.algorithms_missing.iter().chain(&s.degraded) {
        let _ = writeln!(out, "degraded {line}");
    }
    out
}

/// The report that `run --live` prints when it ends.
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
        match &s.rescued {
            Some(rescued) if rescued.undone > 0 => format!(" and undid {}", rescued.undone),
            _ => String::new(),
        }
    );
    out.push_str(&best_of(paths));
    out.push_str("Detached: new connections get the kernel's default again.\n");
    out
}

/// Lines with the best algorithms of the first ten paths, as far as they are known.
fn best_of(paths: &[PathView]) -> String {
    let mut out = String::new();
    for path in paths
        .iter()
        .filter(|p| p.algorithms.iter().any(|a| a.samples > 0))
        .take(10)
    {
        let best = path
            .algorithms
            .iter()
            .filter(|a| a.samples > 0)
            .min_by_key(|a| a.cost);
        if let Some(best) = best {
            let _ = writeln!(
                out,
                "  {}: {} serves it best ({} of {}, max rate {}, min RTT {})",
                path_name(path),
                best.name,
                best.chosen,
                number(path.connections, "connection"),
                best.max_delivery_rate.shown(Unit::BytesPerSecond),
                best.min_rtt_us.shown(Unit::Microseconds)
            );
        }
    }
    for path in paths.iter().take(10) {
        let effect = |a: &AlgorithmView| a.effect.unwrap_or(0.0);
        let known = path
            .algorithms
            .iter()
            .filter(|a| a.effect_low.is_some_and(|low| low > 0.0));
        if let Some(best) = known.max_by(|a, b| effect(a).total_cmp(&effect(b))) {
            let _ = writeln!(
                out,
                "  {}: {} serves it best ({} more than the default, between {} and {})",
                class_name(path),
                best.name,
                best.effect.shown(Unit::Share),
                best.effect_low.shown(Unit::Share),
                best.effect_high.shown(Unit::Share)
            );
        }
    }
    out
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
