//! The five lines of `status`: what it does, whether anything is wrong, whether it helps, where, and what it leaves alone.
//! Each line is made in one place.

use tcpilot_abi::Why;
use tcpilot_show::output::printable;

use super::{duration, number};
use crate::figures::Status;

/// Paths in the line of gains.
const GAINS: usize = 3;
/// Reasons in the line of connections left alone.
const REASONS: usize = 3;

/// All lines, as text.
pub(super) fn lines(s: &Status) -> String {
    let lines = each(s).map(|(word, text)| format!("{word}  {}\n", printable(&text)));
    lines.concat()
}

/// The name and the text of each line.
pub(super) fn each(s: &Status) -> [(&'static str, String); 5] {
    [
        ("state", state(s)),
        ("wrong", wrong(s)),
        ("helps", helps(s)),
        ("gains", gains(s)),
        ("alone", alone(s)),
    ]
}

/// What it does.
fn state(s: &Status) -> String {
    let to = s.algorithms.join(", ");
    let does = match (s.attached, s.dry_run) {
        (false, _) => "does nothing: its cgroup is gone".to_owned(),
        (true, true) => format!("only watches (dry run); it would choose among {to}"),
        (true, false) => format!("chooses among {to} for new connections"),
    };
    let paths = match s.learning.is_none() && s.effect.is_some() {
        true => String::new(), // the learner has not answered
        false => format!(" on {}", number(s.paths.into(), "path")),
    };
    format!(
        "tcpilot {} {does}; {}{paths}, up {}",
        s.version,
        number(s.connections.values().sum(), "connection"),
        duration(s.uptime_s)
    )
}

/// Whether anything is wrong.
fn wrong(s: &Status) -> String {
    let stale = (!s.choice_dists_valid).then(|| {
        "no heartbeat of the learner for 10 s: new connections get the kernel's default".to_owned()
    });
    let rest = s.algorithms_missing.iter().chain(&s.degraded).cloned();
    let all: Vec<String> = stale.into_iter().chain(rest).collect();
    match all.split_first() {
        None => "nothing".to_owned(),
        Some((only, [])) => only.clone(),
        Some((first, others)) => format!("{first} (and {} more: --verbose)", others.len()),
    }
}

/// Whether it helps, how sure that is, and when it will be surer.
fn helps(s: &Status) -> String {
    let unknown = || "not known: nothing is compared".to_owned();
    s.effect.clone().unwrap_or_else(unknown)
}

/// The paths with the greatest gain.
fn gains(s: &Status) -> String {
    let shown: Vec<String> = s
        .gains
        .iter()
        .filter_map(|view| {
            let sure = if view.sure { "" } else { ", not sure yet" };
            Some(format!(
                "{} {} Mbit/s ({}{sure})",
                view.path,
                view.change()?,
                view.algorithm
            ))
        })
        .take(GAINS)
        .collect();
    match shown.is_empty() {
        true => "no path yet where another algorithm is expected to be faster".to_owned(),
        false => shown.join(" · "),
    }
}

/// The connections left alone, and why.
fn alone(s: &Status) -> String {
    let count = |why: &Why| s.connections.get(why.word()).copied().unwrap_or(0);
    let mut alone: Vec<(Why, u64)> = Why::ALL
        .into_iter()
        .filter(|why| why.is_left_alone())
        .map(|why| (why, count(&why)))
        .filter(|(_, count)| *count > 0)
        .collect();
    alone.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let total: u64 = alone.iter().map(|(_, count)| count).sum();
    let held_out = count(&Why::HeldOut);
    let because = |why: &Why| {
        let sentence = why.sentence().trim_end_matches(": left alone");
        format!("because {sentence}")
    };
    let mut out = match alone.as_slice() {
        [] => "no connection".to_owned(),
        [(why, count)] => format!("{}, {}", number(*count, "connection"), because(why)),
        all => {
            let reasons = all.iter().take(REASONS);
            let reasons = reasons.map(|(why, count)| format!("{count} {}", because(why)));
            let reasons: Vec<String> = reasons.collect();
            format!("{}: {}", number(total, "connection"), reasons.join(" · "))
        }
    };
    if held_out > 0 {
        out += &format!("; {held_out} held out, to compare with");
    }
    out
}
