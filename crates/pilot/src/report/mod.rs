//! The report of the effect: a table for people, a line for other views, and a page with plots. Pure: it
//! returns strings.

mod fleet;
mod page;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use crate::figures::{EffectReport, MeasureView};
use crate::table::{duration, number};
pub use fleet::fleet;
pub use page::page;
pub(crate) use page::time;

/// A change as people read it: percent, or percentage points of a share.
fn change(value: f64, measure: &str) -> String {
    let unit = if measure == "retransmitted" {
        " pp"
    } else {
        " %"
    };
    // Not "-0.0".
    let shown = (1000.0 * value).round() / 10.0 + 0.0;
    format!("{shown:+.1}{unit}")
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

/// How sure the change is: the verdict, or the next step towards one. It says what comes first.
fn verdict(m: &MeasureView) -> String {
    let in_time =
        |s: Option<u64>| s.map_or_else(String::new, |s| format!(", in about {}", rough(s)));
    let verdict = match m.verdict.as_str() {
        "better" => "better, sure",
        "worse" => "worse, sure",
        "not shown" => "no effect worth having",
        _ => match (m.interval_pairs_missing, m.pairs_missing) {
            (Some(missing), _) => {
                let when = in_time(m.interval_in_s);
                return format!("not proven: first interval at 20 pairs, {missing} to go{when}");
            }
            (None, Some(missing)) => {
                let when = in_time(m.ready_in_s);
                let pairs = number(missing, "pair");
                return format!("not proven: about {pairs} more at this effect{when}");
            }
            (None, None) => m.verdict.as_str(),
        },
    };
    verdict.to_owned()
}

/// A forecast of time: one unit, since it is an estimate.
fn rough(s: u64) -> String {
    match s {
        0..90 => "1 min".to_owned(),
        90..5400 => format!("{} min", (s + 30) / 60),
        5400..172_800 => format!("{} h", (s + 1800) / 3600),
        _ => format!("{} d", (s + 43_200) / 86_400),
    }
}

/// The measures with a pair, and goodput: before the first pair the others would only say the same.
fn shown(all: &[MeasureView]) -> impl Iterator<Item = &MeasureView> {
    let measures = all.iter().enumerate();
    let shown = measures.filter(|(at, m)| *at == 0 || m.sums.count > 0);
    shown.map(|(_, m)| m)
}

/// The headings of a table of measures.
fn headings(title: &str) -> String {
    format!(
        "{title:<36} {:>9}   {:<24}\n",
        "change", "interval (95 %, valid at any look)"
    )
}

fn line_of(m: &MeasureView) -> String {
    let told = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| change(v, &m.name));
    let interval = match (m.low, m.high) {
        (Some(_), Some(_)) => format!("{:>9} … {:>9}", told(m.low), told(m.high)),
        _ => "-".to_owned(),
    };
    format!(
        "{:<36} {:>9}   {:<24} {}",
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
        "Since {} ({age}), {}, {} with {} of 16 KiB or more\n\n{}",
        day(r.since_unix_s),
        number(r.groups, "path group"),
        number(r.pairs, "block pair"),
        number(r.connections, "connection"),
        headings(""),
    );
    for measure in shown(&r.measures) {
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
        cost if cost > 0.0 => {
            format!(", which missed as much goodput as {cost:.1} connections have")
        }
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
    let goodput = r.measures.first().map_or_else(String::new, |m| {
        let told = |value: f64| change(value, "");
        match (m.change, m.low.zip(m.high)) {
            (Some(mean), Some((low, high))) => format!(
                "goodput {} ({} to {}), {}",
                told(mean),
                told(low),
                told(high),
                verdict(m)
            ),
            (Some(mean), None) => format!("goodput {} so far, {}", told(mean), verdict(m)),
            _ => format!("goodput {}", verdict(m)),
        }
    });
    format!("{goodput} · held out: {}{stopped}", how(r))
}
