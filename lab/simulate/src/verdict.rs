//! Bounds of a world against the results of its runs.

use serde::Serialize;

use crate::expect::{Expect, Metric, Over};
use crate::score::{BIN, Cell, Score};
use crate::world::World;

/// −ln 0.95: nats that "0.95 of the best" may be below the best.
const NEARLY_BEST: f64 = 0.0513;

/// A bound, and the measured value.
#[derive(Clone, Debug, Serialize)]
pub struct BoundCheck {
    pub learner: String,
    pub metric: Metric,
    pub kinds: Vec<String>,
    pub over: Over,
    pub min: Option<f64>,
    pub max: Option<f64>,
    pub mean: f64,
    pub worst: f64,
    pub holds: bool,
}

/// The first bin from which the next 50 connections have on average 0.95 of the best.
fn regained(score: &Score) -> f64 {
    let next = 50 / BIN;
    let good = |cells: &[Cell]| {
        let lost: f64 = cells.iter().map(|c| c.best - c.got).sum();
        lost <= NEARLY_BEST * cells.iter().map(|c| c.connections).sum::<f64>()
    };
    let all = score
        .after_change
        .windows(next)
        .position(good)
        .unwrap_or(score.after_change.len());
    (all * BIN) as f64
}

/// The metric of one run; `without`: the same run without hostile peers.
pub fn measure(metric: Metric, kinds: &[usize], score: &Score, without: Option<&Score>) -> f64 {
    let cells: Vec<&Cell> = kinds
        .iter()
        .map(|k| &score.kinds[*k])
        .filter(|cell| cell.connections > 0.0)
        .collect();
    let each = |f: &dyn Fn(&Cell) -> f64| cells.iter().map(|cell| f(cell)).collect::<Vec<_>>();
    let sum = |f: &dyn Fn(&Cell) -> f64| cells.iter().map(|cell| f(cell)).sum::<f64>();
    let lost = |cell: fn(&Score) -> &Cell| {
        let before = without.map_or(f64::NAN, |w| cell(w).gain());
        1.0 - (cell(score).gain() - before).exp()
    };
    match metric {
        Metric::Regret => sum(&|c| c.best - c.got) / sum(&|c| c.connections),
        Metric::LastRegret => score.last_quarter.regret(),
        Metric::ShareOfGain => sum(&|c| c.got) / sum(&|c| c.best),
        Metric::Gain => (sum(&|c| c.got) / sum(&|c| c.connections)).exp_m1(),
        Metric::WorstGain => each(&|c| c.gain().exp_m1())
            .into_iter()
            .fold(f64::INFINITY, f64::min),
        Metric::OfBest => each(&|c| (-c.regret()).exp())
            .into_iter()
            .fold(f64::INFINITY, f64::min),
        Metric::OfBestLate => kinds
            .iter()
            .map(|k| &score.late[*k])
            .filter(|cell| cell.connections > 0.0)
            .map(|cell| (-cell.regret()).exp())
            .fold(f64::INFINITY, f64::min),
        Metric::Stuck => {
            let late = score.late_paths.iter().filter(|c| c.connections > 0.0);
            let stuck = late.clone().filter(|c| c.on_best == 0.0).count();
            stuck as f64 / late.count() as f64
        }
        Metric::WorstRegret => each(&Cell::regret)
            .into_iter()
            .fold(f64::NEG_INFINITY, f64::max),
        Metric::ShareOfBest => sum(&|c| c.on_best) / sum(&|c| c.connections),
        Metric::Regained => regained(score),
        Metric::Coverage => {
            let sum = |of: usize| score.intervals.iter().map(|n| n[of]).sum::<f64>();
            sum(0) / sum(1)
        }
        Metric::LostNear => lost(|s| &s.near_hostile),
        Metric::LostElsewhere => lost(|s| &s.elsewhere),
    }
}

/// Judges one bound over the seeds' runs of its learner.
pub fn judge(world: &World, expect: &Expect, runs: &[(Score, Option<Score>)]) -> BoundCheck {
    let wanted = |name: &String| expect.kinds.is_empty() || expect.kinds.contains(name);
    let kinds: Vec<usize> = (0..world.kind.len())
        .filter(|k| wanted(&world.kind[*k].name))
        .collect();
    let values: Vec<f64> = runs
        .iter()
        .map(|(s, w)| measure(expect.metric, &kinds, s, w.as_ref()))
        .collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let worst = match expect.max {
        Some(_) => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        None => values.iter().copied().fold(f64::INFINITY, f64::min),
    };
    let value = if expect.over == Over::Mean {
        mean
    } else {
        worst
    };
    let holds =
        expect.min.is_none_or(|min| value >= min) && expect.max.is_none_or(|max| value <= max);
    BoundCheck {
        learner: expect.learner.clone(),
        metric: expect.metric,
        kinds: expect.kinds.clone(),
        over: expect.over,
        min: expect.min,
        max: expect.max,
        mean,
        worst,
        holds,
    }
}
