//! The report of the effect: a table for people, a line for other views, and a page with plots. Pure: it
//! returns strings.

mod page;
mod plot;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use crate::figures::{EffectReport, MeasureView};
use crate::table::{duration, number};
pub use page::page;

/// A change as people read it: percent, or percentage points of a share.
fn change(value: f64, measure: &str) -> String {
    let unit = if measure == "retransmitted" {
        " pp"
    } else {
        " %"
    };
    format!("{:+.1}{unit}", 100.0 * value)
}

/// The Gregorian date in UTC of a time in seconds since 1970 (Hinnant, *chrono-compatible low-level date
/// algorithms*).
fn day(unix_s: u64) -> String {
    let z = unix_s / 86_400 + 719_468;
    let (era, doe) = (z / 146_097, z % 146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{:02}", doy - (153 * mp + 2) / 5 + 1)
}

/// The verdict, and the number of missing pairs.
fn verdict(m: &MeasureView) -> String {
    let Some(missing) = m.pairs_missing else {
        return m.verdict.clone();
    };
    let when = m
        .ready_in_s
        .map_or_else(String::new, |s| format!(", {} from now", duration(s)));
    format!(
        "{}: about {} more{when}",
        m.verdict,
        number(missing, "pair")
    )
}

fn line_of(m: &MeasureView) -> String {
    let told = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| change(v, &m.name));
    let interval = match (m.low, m.high) {
        (Some(_), Some(_)) => format!("{:>9} … {:>9}", told(m.low), told(m.high)),
        _ => "-".to_owned(),
    };
    format!(
        "{:<34} {:>9}   {:<24} {}",
        m.name,
        told(m.change),
        interval,
        verdict(m)
    )
}

fn how(r: &EffectReport) -> String {
    let trial = r.trial_until_unix_s.map(|until| {
        let left = duration(until.saturating_sub(r.now_unix_s));
        format!("half of the time of each group, for another {left} (trial)")
    });
    let percent = r.hold_out_percent;
    trial.unwrap_or_else(|| match r.design.as_str() {
        "prefix" => format!("{percent} % of the prefixes, others each week"),
        "host" => format!("{percent} % of the time, all groups at once"),
        _ => format!("{percent} % of the time of each group"),
    })
}

/// The whole report as text.
pub fn text(r: &EffectReport) -> String {
    if let Some(unknown) = &r.unknown {
        return format!("effect   not known: {unknown}\n");
    }
    let age = duration(r.now_unix_s.saturating_sub(r.since_unix_s));
    let mut out = format!(
        "Since {} ({age}), {}, {}, {} of 16 KiB or more\n\n{:<34} {:>9}   {:<24}\n",
        day(r.since_unix_s),
        number(r.groups, "path group"),
        number(r.pairs, "block pair"),
        number(r.connections, "connection"),
        "",
        "change",
        "interval (95 %, valid at any look)",
    );
    for measure in &r.measures {
        let _ = writeln!(out, "{}", line_of(measure));
    }
    if let Some(worst) = r.worst.first().filter(|_| r.worst.len() > 1) {
        let shown = match worst.high {
            Some(high) if high < 0.0 => "shown",
            _ => "alone not shown",
        };
        let _ = writeln!(
            out,
            "worst group: {} {} ({}; {shown})",
            worst.group,
            change(worst.change, ""),
            number(worst.pairs, "pair"),
        );
    }
    for policy in &r.policies {
        if let Some(goodput) = policy.measures.first() {
            let _ = writeln!(out, "policy [{}] {}", policy.policy, line_of(goodput));
        }
    }
    out.push_str(&price(r));
    for stop in r.stops.iter().filter(|stop| stop.active) {
        let _ = writeln!(out, "guard: steering is stopped: {}", stop.sentence);
    }
    out
}

fn price(r: &EffectReport) -> String {
    let share = 100.0 * r.connections_held_out as f64 / r.connections_all.max(1) as f64;
    let missed = match r.hold_out_cost {
        cost if cost > 0.0 => format!(", which missed the goodput of {cost:.1}"),
        _ => String::new(),
    };
    format!(
        "held out: {}; so far {} of {} ({share:.1} %){missed}\nexploring has cost as much as {:.1} connections\n",
        how(r),
        r.connections_held_out,
        number(r.connections_all, "connection"),
        r.explored,
    )
}

/// One line: the effect on goodput, the held-out part, and the stops of the guard.
pub fn line(r: &EffectReport) -> String {
    if let Some(unknown) = &r.unknown {
        return format!("not known: {unknown}");
    }
    let stops = r.stops.iter().filter(|stop| stop.active).count() as u64;
    let stopped = match stops {
        0 => String::new(),
        _ => format!(
            " · the guard has stopped steering in {}",
            number(stops, "place")
        ),
    };
    let goodput =
        r.measures
            .first()
            .map_or_else(String::new, |m| match (m.change, m.low, m.high) {
                (Some(mean), Some(low), Some(high)) => format!(
                    "goodput {} ({} … {}), {}",
                    change(mean, ""),
                    change(low, ""),
                    change(high, ""),
                    verdict(m)
                ),
                _ => format!("goodput {}", verdict(m)),
            });
    format!("{goodput} · held out: {}{stopped}", how(r))
}
