//! The text of `explain`: the same figures as in the table of paths, in sentences.

use std::fmt::Write as _;

use tcpilot_show::{
    figure::{Shown as _, Unit},
    output::printable,
};

use super::{class_name, duration, flows, indent, number, path_name};
use crate::figures::{
    AddressView, AlgorithmView, DecisionView, ExplainedPath, Explanation, PathView, TuningView,
};

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
        out.push_str(&of_path(e, explained));
    }
    if !e.flows.is_empty() {
        out.push_str("\n  live connections:\n");
        out.push_str(&indent(&flows(&e.flows)));
    }
    out
}

fn of_path(e: &Explanation, explained: &ExplainedPath) -> String {
    let path = &explained.path;
    let mut out = match path.level.as_str() {
        "path" => format!("{} is on path {}\n", e.address, class_name(path)),
        level => for_unseen(&e.address, level, path),
    };
    out.push_str(&gain(path));
    if path.level == "path" {
        out.push_str(&measures(path));
    }
    for algorithm in &path.algorithms {
        out.push_str(&of_algorithm(path, algorithm));
    }
    out.push_str(&learned(path));
    if let Some(fleet) = &path.fleet {
        out.push_str(&fleet.text());
    }
    if let Some(tuning) = &explained.tuning {
        out.push_str(&tuning.text());
    }
    if !explained.decisions.is_empty() {
        out.push_str("\n  last decisions, newest first:\n");
    }
    for decision in &explained.decisions {
        out.push_str(&decided(decision));
    }
    out
}

/// The line of an address without a path: it names the node that chooses for a first connection.
fn for_unseen(address: &str, level: &str, path: &PathView) -> String {
    let node = match level {
        "global" => "everything that was learned".to_owned(),
        level => format!("its {level} {}", class_name(path)),
    };
    format!("{address}: no path yet; a first connection is chosen for by {node}\n")
}

/// The next connection's algorithm, its rate, and the rate without steering.
fn gain(path: &PathView) -> String {
    let Some(view) = AddressView::of(&[path], path_name) else {
        return String::new();
    };
    let algorithm = printable(&view.algorithm);
    let default = match &path.baseline {
        Some(name) => format!("the kernel's default {}", printable(name)),
        None => "the kernel's default, which is not among the algorithms".to_owned(),
    };
    if Some(&view.algorithm) == path.baseline.as_ref() {
        return match view.rate {
            Some(_) => format!(
                "  most connections keep {default}: {} Mbit/s\n",
                view.with()
            ),
            None => format!("  most connections keep {default}\n"),
        };
    }
    let sure = match (view.effect, view.sure) {
        (Some(_), true) => "; this gain is sure",
        (Some(_), false) => "; this is not sure yet",
        (None, _) => "",
    };
    match view.rate.zip(view.rate_without) {
        Some(_) => format!(
            "  most connections get {algorithm}: {} Mbit/s, and {} with {default}{sure}\n",
            view.with(),
            view.without()
        ),
        None => format!("  most connections get {algorithm}, not {default}{sure}\n"),
    }
}

/// The measures of a path.
fn measures(path: &PathView) -> String {
    let mut parts = vec![format!(
        "{}, {} open now",
        number(path.connections, "connection"),
        path.live_flows
    )];
    if path.srtt_us.is_some() {
        parts.push(format!(
            "RTT {}, least {}",
            path.srtt_us.shown(Unit::Microseconds),
            path.min_rtt_us.shown(Unit::Microseconds)
        ));
    }
    if path.loss_ratio.is_some() {
        let lost = path.loss_ratio.shown(Unit::Share);
        parts.push(format!("{lost} of segments sent again"));
    }
    if path.max_delivery_rate.is_some() {
        let most = path.max_delivery_rate.shown(Unit::BytesPerSecond);
        parts.push(format!("at most {most}"));
    }
    format!("  {}\n", parts.join("; "))
}

/// An algorithm's share, its use so far, and its gain.
fn of_algorithm(path: &PathView, a: &AlgorithmView) -> String {
    let name = printable(&a.name);
    if let Some(why) = &a.not_eligible {
        return format!("  {name} may not be chosen: {why}\n");
    }
    let used = match path.level.as_str() {
        "path" => format!(", {} so far", number(a.chosen.into(), "connection")),
        _ => String::new(),
    };
    let gain = match [a.effect, a.effect_low, a.effect_high] {
        [Some(effect), Some(low), Some(high)] => format!(
            "; against the default {} ({} to {})",
            signed(effect),
            signed(low),
            signed(high)
        ),
        _ if Some(&a.name) == path.baseline.as_ref() => "; it is the kernel's default".to_owned(),
        _ => String::new(),
    };
    let share = a.share.shown(Unit::Share);
    format!("  {name}: {share} of the next connections{used}{gain}\n")
}

/// A part as signed percent.
fn signed(part: f64) -> String {
    let sign = if part > 0.0 { "+" } else { "" };
    format!("{sign}{}", part.shown(Unit::Share))
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
