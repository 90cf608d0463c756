//! Tables and texts for people, from the views. Pure: returns strings.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};

use tcpilot_abi::Why;

use crate::show::views::{AlgorithmView, Explanation, FlowView, PathView, Status};

/// Names stand on the left of their column, the numbers after them on the right.
pub(crate) fn table(names: &[&str], numbers: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_header(names.iter().chain(numbers));
    for (index, column) in table.column_iter_mut().enumerate() {
        let alignment = if index < names.len() {
            CellAlignment::Left
        } else {
            CellAlignment::Right
        };
        column.set_padding((0, 2)).set_cell_alignment(alignment);
    }
    table
}

pub(crate) fn print(table: &Table) -> String {
    table
        .lines()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}

pub(crate) fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |v| v.to_string())
}

fn percent(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |r| format!("{:.1}%", r * 100.0))
}

/// A rate for people: in bits per second, as links are rated, and in one unit, so that a column can be
/// compared.
pub(crate) fn bits(bytes_per_s: Option<u64>) -> String {
    let Some(bytes) = bytes_per_s else {
        return "-".to_owned();
    };
    let mbit = bytes as f64 * 8.0 / 1e6;
    let digits = if mbit < 1.0 { 3 } else { 1 };
    format!("{mbit:.digits$} Mbit/s")
}

/// Microseconds for people: in milliseconds, all of them.
pub(crate) fn rtt(us: Option<u32>) -> String {
    match us {
        None => "-".to_owned(),
        Some(us) if us < 10_000 => format!("{:.3} ms", f64::from(us) / 1000.0),
        Some(us) => format!("{:.1} ms", f64::from(us) / 1000.0),
    }
}

/// A long time for people: its two largest units.
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
    if path.netns != "host" {
        let _ = write!(name, " @{}", path.netns);
    }
    if path.policy != "default" {
        let _ = write!(name, " [{}]", path.policy);
    }
    name
}

/// A row per path and algorithm.
pub fn paths(paths: &[PathView]) -> String {
    if paths.is_empty() {
        return "no path has been seen yet\n".to_owned();
    }
    let mut table = table(
        &["Path", "Algorithm"],
        &["Cost", "Chosen", "Greedy", "Min RTT", "Max rate", "Share"],
    );
    for path in paths {
        for algorithm in &path.algorithms {
            table.add_row(algorithm_row(path_name(path), algorithm));
        }
    }
    print(&table)
}

fn algorithm_row(path: String, algorithm: &AlgorithmView) -> Vec<String> {
    vec![
        path,
        algorithm.name.clone(),
        or_dash(algorithm.cost),
        algorithm.chosen.to_string(),
        algorithm.greedy.to_string(),
        rtt(algorithm.min_rtt_us),
        bits(algorithm.max_delivery_rate),
        format!("{:.0}%", algorithm.share * 100.0),
    ]
}

/// Live connections.
pub fn flows(flows: &[FlowView]) -> String {
    if flows.is_empty() {
        return "no live connection (loopback is not listed)\n".to_owned();
    }
    let mut table = table(
        &["Local", "Remote", "Netns", "Algorithm", "Why"],
        &["RTT", "Rate", "Loss", "Cwnd", "Tunings", "Age"],
    );
    for flow in flows {
        table.add_row([
            flow.local.clone(),
            flow.remote.clone(),
            flow.netns.clone(),
            flow.algorithm.clone(),
            flow.why.clone(),
            rtt(flow.srtt_us),
            bits(flow.delivery_rate),
            percent(flow.loss_ratio),
            flow.cwnd.to_string(),
            tunings(flow),
            flow.age_s
                .map_or_else(|| "-".to_owned(), |age| format!("{age:.0} s")),
        ]);
    }
    print(&table)
}

/// The tunings of a connection, the initial window with its size.
fn tunings(flow: &FlowView) -> String {
    let with_size = |name: &String| match flow.initial_window {
        Some(packets) if name == "initial-window" => format!("{name}={packets}"),
        _ => name.clone(),
    };
    if flow.tunings.is_empty() {
        return "-".to_owned();
    }
    flow.tunings
        .iter()
        .map(with_size)
        .collect::<Vec<_>>()
        .join(",")
}

/// Why an address is treated as it is.
pub fn explanation(e: &Explanation) -> String {
    let mut out = String::new();
    if e.paths.is_empty() {
        let _ = writeln!(
            out,
            "{}: no path yet, so the next connections get the kernel's default",
            e.address
        );
    }
    for explained in &e.paths {
        let path = &explained.path;
        let _ = writeln!(out, "{} is on path {}", e.address, path_name(path));
        let _ = writeln!(
            out,
            "  min RTT {}, smoothed {}, best rate {}, loss {}, ssthresh {}, {} live of {}",
            rtt(path.min_rtt_us),
            rtt(path.srtt_us),
            bits(path.max_delivery_rate),
            percent(path.loss_ratio),
            or_dash(path.ssthresh),
            path.live_flows,
            number(path.connections, "connection"),
        );
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

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

/// What is running.
pub fn status(s: &Status) -> String {
    let mut out = String::new();
    let mode = match (s.attached, s.dry_run) {
        (false, _) => "NOT ATTACHED",
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
    let _ = writeln!(out, "paths    {} of at most {}", s.paths, s.paths_max);
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

/// The last words of a run: what it did.
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
        "tcpilot {verb} {} on {}, left {alone} alone, rescued {}.",
        number(steered, "connection"),
        number(paths.len() as u64, "path"),
        s.rescues
    );
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
                "  {}: {} serves it best ({} of {}, best rate {}, min RTT {})",
                path_name(path),
                best.name,
                best.chosen,
                number(path.connections, "connection"),
                bits(best.max_delivery_rate),
                rtt(best.min_rtt_us)
            );
        }
    }
    out.push_str("Detached: new connections get the kernel's default again.\n");
    out
}

#[cfg(test)]
mod tests;
