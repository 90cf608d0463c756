//! Tables for people.

use std::fmt::Write as _;

use crate::expect::{Metric, Over};
use crate::score::{Cell, Score};
use crate::verdict::BoundCheck;
use crate::{Report, Runs};

/// Mean over the seeds, and the worst of them.
fn over(runs: &Runs, cell: impl Fn(&Score) -> f64, worst: fn(f64, f64) -> f64) -> (f64, f64) {
    let values: Vec<f64> = runs.runs.iter().map(|(score, _)| cell(score)).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (mean, values.into_iter().reduce(worst).unwrap_or(f64::NAN))
}

fn row(runs: &Runs, kinds: usize) -> String {
    let (regret, regret_worst) = over(runs, |s| s.all.regret(), f64::max);
    let (late, _) = over(runs, |s| s.last_quarter.regret(), f64::max);
    let (gain, gain_worst) = over(runs, |s| s.all.gain(), f64::min);
    let (best, best_worst) = over(runs, |s| s.all.share_of_best(), f64::min);
    let mut line = format!(
        "{:<10} {regret:>6.3} {regret_worst:>6.3} {late:>6.3}  {gain:>6.3} {gain_worst:>6.3}  {:>5.1} {:>5.1} ",
        runs.learner,
        100.0 * best,
        100.0 * best_worst
    );
    for kind in 0..kinds {
        // If no path of a seed has a kind, that seed says nothing about it.
        let has = |s: &Score| s.kinds[kind].connections > 0.0;
        let values: Vec<f64> = runs
            .runs
            .iter()
            .filter(|(s, _)| has(s))
            .map(|(s, _)| Cell::regret(&s.kinds[kind]))
            .collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let worst = values.into_iter().fold(f64::NEG_INFINITY, f64::max);
        let _ = write!(line, " {:>12}", format!("{mean:.3}/{worst:.3}"));
    }
    line
}

fn bound(verdict: &BoundCheck) -> String {
    let scale = |x: f64| match verdict.metric {
        Metric::Regained => format!("{x:.0} connections"),
        Metric::Regret | Metric::LastRegret | Metric::WorstRegret => format!("{x:.3} nats"),
        Metric::OfBest | Metric::OfBestLate => format!("{x:.3}"),
        _ => format!("{:.1} %", 100.0 * x),
    };
    let wanted = match (verdict.min, verdict.max) {
        (Some(min), _) => format!("at least {}", scale(min)),
        (_, Some(max)) => format!("at most {}", scale(max)),
        _ => "anything".into(),
    };
    let kinds = match verdict.kinds.is_empty() {
        true => String::new(),
        false => format!(" of {}", verdict.kinds.join(", ")),
    };
    let of = if verdict.over == Over::Worst {
        "worst seed"
    } else {
        "mean"
    };
    format!(
        "{} {}: {:?}{kinds}, {of} {wanted}: mean {}, worst seed {}",
        if verdict.holds { "holds " } else { "MISSED" },
        verdict.learner,
        verdict.metric,
        scale(verdict.mean),
        scale(verdict.worst)
    )
}

/// The table of one world.
pub fn table(report: &Report) -> String {
    let mut text = format!(
        "\n{}: {}\n{} seeds\n\n",
        report.world,
        report.about,
        report.seeds.len()
    );
    text += "           regret (nats)         gain (nats)    best arm %   regret by kind, mean/worst seed\n";
    text += "learner      mean  worst last ¼    mean  worst   mean worst ";
    for kind in &report.kinds {
        let _ = write!(text, " {kind:>12}");
    }
    text.push('\n');
    for runs in &report.learners {
        text += &row(runs, report.kinds.len());
        text.push('\n');
    }
    if let Some(possible) = report.learners.first().and_then(|r| r.runs.first()) {
        let _ = writeln!(
            text,
            "possible gain (first seed): {:.3}",
            possible.0.all.possible()
        );
    }
    for runs in report
        .learners
        .iter()
        .filter(|r| r.runs.iter().any(|(s, _)| !s.inside.is_empty()))
    {
        let _ = writeln!(text, "{}: {}", runs.learner, runs.runs[0].0.inside);
    }
    for verdict in &report.verdicts {
        text += &bound(verdict);
        text.push('\n');
    }
    text
}
