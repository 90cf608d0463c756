//! One self-contained HTML page: figures, and plots of the effect over time, of the groups, and of the
//! connections' algorithms.

use std::{collections::BTreeSet, fmt::Write as _};

use super::{change, day, duration, how, number, price, shown, verdict};
use crate::figures::{EffectReport, GroupView, MeasureView};
use crate::html::{
    STYLE, escape, head,
    plot::{Axis, Plot, Row, rows},
};

/// The whole page.
pub fn page(r: &EffectReport) -> String {
    let body = match &r.unknown {
        Some(unknown) => format!("<p>Not known: {}.</p>", escape(unknown)),
        None => [
            summary(r),
            measures(shown(&r.measures)),
            over_time(r),
            groups(r),
            choices(r),
            avoided(r),
        ]
        .concat(),
    };
    let head = head("tcpilot: does it help?", &[STYLE]);
    format!("{head}<body><main><h1>Does tcpilot help?</h1>{body}</main></body></html>\n")
}

fn summary(r: &EffectReport) -> String {
    let age = duration(r.now_unix_s.saturating_sub(r.since_unix_s));
    format!(
        "<p>Since {} ({age}): {}, {} with {} of 16 KiB or more.</p><p class=\"dim\">Held out: {}.</p>\n",
        day(r.since_unix_s),
        number(r.groups, "path group"),
        number(r.pairs, "block pair"),
        number(r.connections, "connection"),
        escape(&how(r))
    )
}

fn measures<'a>(all: impl Iterator<Item = &'a MeasureView>) -> String {
    let mut out = "<section id=\"measures\"><div class=\"wide\"><table class=\"measures\"><thead><tr>\
                   <th>Measure</th><th>Verdict</th><th>Change</th><th>From</th><th>To</th><th>Pairs</th></tr></thead>\
                   <tbody>\n"
        .to_owned();
    for m in all {
        let told =
            |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| change(v, &m.name));
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td class=\"{}\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&m.name),
            escape(&m.verdict),
            escape(&verdict(m)),
            told(m.change),
            told(m.low),
            told(m.high),
            m.sums.count
        );
    }
    out += "</tbody></table></div><p class=\"dim\">From and to: the interval that holds the true change in 95 of \
            100 trials, however often somebody looks.</p></section>\n";
    out
}

fn percent(value: f64) -> String {
    match (100.0 * value).round() {
        0.0 => "0 %".to_owned(),
        percent => format!("{percent:+.0} %"),
    }
}

/// The labels of an axis of hours since a time: month, day and clock in UTC.
pub(crate) fn time(from_s: u64) -> impl Fn(f64) -> String {
    move |hours| {
        let at_s = from_s + (hours * 3600.0).round() as u64;
        let (hour, minute) = (at_s / 3600 % 24, at_s / 60 % 60);
        format!("{} {hour:02}:{minute:02}", &day(at_s)[5..])
    }
}

fn section(title: &str, about: &str, plot: &str) -> String {
    let id = title.to_lowercase().replace(' ', "-");
    format!(
        "<section id=\"{id}\"><h2>{title}</h2><p class=\"dim\">{about}</p><div class=\"wide\">{plot}</div></section>\n"
    )
}

fn over_time(r: &EffectReport) -> String {
    let Some(first) = r.history.first() else {
        return section("Goodput over time", "There are not 20 pairs yet.", "");
    };
    let hours = |at_s: u64| at_s.saturating_sub(first.at_unix_s) as f64 / 3600.0;
    let x = Axis::of_hours(r.history.iter().map(|p| hours(p.at_unix_s)));
    let values = r.history.iter().flat_map(|p| [p.low, p.high]);
    let words = time(first.at_unix_s);
    let mut plot = Plot::new(x, Axis::of(values.chain([0.0])), [&words, &percent]);
    let band: Vec<_> = r
        .history
        .iter()
        .map(|p| (hours(p.at_unix_s), p.low, p.high))
        .collect();
    plot.band("band", &band);
    let line = r.history.iter().map(|p| (hours(p.at_unix_s), p.change));
    plot.line("effect", line);
    section(
        "Goodput over time",
        "What steering had changed by then, and its interval (UTC).",
        &plot.svg("change of goodput over time, with its interval"),
    )
}

/// Groups at either end of the list; the others lie between them.
const GROUPS_EACH: usize = 15;

fn groups(r: &EffectReport) -> String {
    if r.worst.is_empty() {
        return section("Groups", "No group has a pair yet.", "");
    }
    let row = |group: &GroupView| Row {
        name: group.group.clone(),
        value: group.change,
        text: format!(
            "{}, {}",
            change(group.change, ""),
            number(group.pairs, "pair")
        ),
    };
    let left_out = r.worst.len().saturating_sub(2 * GROUPS_EACH);
    let shown = match left_out {
        0 => r.worst.iter().map(row).collect::<Vec<_>>(),
        _ => {
            let last = &r.worst[r.worst.len() - GROUPS_EACH..];
            let shown = r.worst[..GROUPS_EACH].iter().chain(last);
            shown.map(row).collect()
        }
    };
    let between = match left_out {
        0 => String::new(),
        _ => format!(
            " {} between these are not drawn.",
            number(left_out as u64, "group")
        ),
    };
    section(
        "Groups",
        &format!(
            "Change of goodput of each group of addresses, the worst first. One group alone rarely shows anything.{between}"
        ),
        &rows(&shown, "change of goodput by group"),
    )
}

fn choices(r: &EffectReport) -> String {
    let Some(first) = r.choices.first() else {
        return section(
            "Algorithms",
            "No connection of 16 KiB or more has ended yet.",
            "",
        );
    };
    let names: BTreeSet<&String> = r
        .choices
        .iter()
        .flat_map(|c| c.connections.keys())
        .collect();
    let hours = |at_s: u64| at_s.saturating_sub(first.at_unix_s) as f64 / 3600.0;
    // Neither the first hour nor the last is whole.
    let begin = hours(r.since_unix_s);
    let now = hours(r.now_unix_s).max(begin + 0.02);
    let words = time(first.at_unix_s);
    let share = |value: f64| format!("{:.0} %", 100.0 * value);
    let x = Axis::of_hours([begin, now]);
    let mut plot = Plot::new(x, Axis::of([0.0, 1.0]), [&words, &share]);
    for hour in &r.choices {
        let all = hour.connections.values().sum::<u64>().max(1) as f64;
        let (at, mut from) = (hours(hour.at_unix_s), 0.0);
        for (number_of, name) in names.iter().enumerate() {
            let count = hour.connections.get(*name).copied().unwrap_or(0);
            let to = from + count as f64 / all;
            if count > 0 {
                let title = format!("{name}: {}", number(count, "connection"));
                plot.bar(
                    &format!("c{}", number_of.min(6)),
                    (at.clamp(begin, now), from),
                    ((at + 1.0).clamp(begin, now), to),
                    &title,
                );
            }
            from = to;
        }
    }
    let keys = names.iter().enumerate().map(|(at, name)| {
        format!(
            "<span><i class=\"c{}\"></i>{}</span>",
            at.min(6),
            escape(name)
        )
    });
    let keys: String = keys.collect();
    let plot = plot.svg("share of connections by algorithm, hour by hour");
    section(
        "Algorithms",
        "Share of the connections that had each algorithm, hour by hour (UTC).",
        &format!("{plot}<p class=\"key\">{keys}</p>"),
    )
}

fn avoided(r: &EffectReport) -> String {
    let mut out = "<h2>Price, and what the guard has avoided</h2>".to_owned();
    for line in price(r).lines() {
        let _ = write!(out, "<p>{}</p>", escape(line));
    }
    if r.stops.is_empty() {
        out += "<p>The guard has not stopped anything.</p>";
    }
    for stop in &r.stops {
        let at = time(stop.at_unix_s)(0.0);
        let _ = write!(out, "<p>{at}: {}</p>", escape(&stop.sentence));
    }
    out + "\n"
}
