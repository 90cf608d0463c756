//! A plot per world: mean regret by the connection's number on its path, one line per learner.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::score::{BIN, Cell, Score};
use crate::{Report, Runs};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 60.0;
const BOTTOM: f64 = 40.0;

/// Okabe and Ito's colours, which colour-blind people can distinguish.
const COLOURS: [&str; 8] = [
    "#999999", "#56B4E9", "#CC79A7", "#F0E442", "#D55E00", "#E69F00", "#009E73", "#0072B2",
];

/// Mean over the seeds of each bin's regret.
fn curve(runs: &Runs, pick: fn(&Score) -> &Vec<Cell>) -> Vec<f64> {
    let bins = runs
        .runs
        .iter()
        .map(|(score, _)| pick(score).len())
        .max()
        .unwrap_or(0);
    (0..bins)
        .map(|bin| {
            let cells = runs
                .runs
                .iter()
                .filter_map(|(score, _)| pick(score).get(bin));
            let (lost, n) = cells.fold((0.0, 0.0), |(lost, n), cell| {
                (lost + cell.best - cell.got, n + cell.connections)
            });
            if n > 0.0 { lost / n } else { 0.0 }
        })
        .collect()
}

fn axis(svg: &mut String, bins: usize, most: f64) {
    let (right, top) = (WIDTH - 130.0, 30.0);
    for i in 0..=4 {
        let share = f64::from(i) / 4.0;
        let y = HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - top);
        let x = LEFT + share * (right - LEFT);
        let _ = writeln!(
            svg,
            r##"<path d="M{LEFT} {y:.1}H{right}" stroke="#ddd"/><text x="{:.1}" y="{:.1}" text-anchor="end">{:.2}</text><text x="{x:.1}" y="{:.1}" text-anchor="middle">{:.0}</text>"##,
            LEFT - 6.0,
            y + 4.0,
            share * most,
            HEIGHT - BOTTOM + 18.0,
            share * (bins * BIN) as f64
        );
    }
    let _ = writeln!(
        svg,
        r#"<text x="{LEFT}" y="18">mean regret in nats, by the connection's number on its path</text>"#
    );
}

/// The plot of one set of curves.
fn svg(report: &Report, pick: fn(&Score) -> &Vec<Cell>) -> String {
    let curves: Vec<_> = report
        .learners
        .iter()
        .map(|runs| (runs, curve(runs, pick)))
        .collect();
    let bins = curves
        .iter()
        .map(|(_, c)| c.len())
        .max()
        .unwrap_or(1)
        .max(2);
    let most = curves
        .iter()
        .flat_map(|(_, c)| c)
        .fold(0.01f64, |a, b| a.max(*b));
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">"#
    );
    svg += r#"<rect width="100%" height="100%" fill="white"/>"#;
    axis(&mut svg, bins, most);
    let (right, top) = (WIDTH - 130.0, 30.0);
    for (i, (runs, values)) in curves.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let mut points = String::new();
        for (bin, value) in values.iter().enumerate() {
            let x = LEFT + (right - LEFT) * bin as f64 / (bins - 1) as f64;
            let y = HEIGHT - BOTTOM - (HEIGHT - BOTTOM - top) * value / most;
            let _ = write!(points, "{x:.1},{y:.1} ");
        }
        let y = top + 18.0 * i as f64;
        let _ = writeln!(
            svg,
            r#"<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/><text x="{}" y="{y}" fill="{colour}">{}</text>"#,
            right + 10.0,
            runs.learner
        );
    }
    svg + "</svg>\n"
}

/// Writes `WORLD.svg`, and `WORLD-change.svg` if something changed.
pub fn write(directory: &Path, report: &Report) -> Result<()> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("{}: cannot be made", directory.display()))?;
    let save = |name: String, text: String| {
        let file = directory.join(name);
        std::fs::write(&file, text)
            .with_context(|| format!("{}: cannot be written", file.display()))
    };
    save(format!("{}.svg", report.world), svg(report, |s| &s.curve))?;
    let changed = report
        .learners
        .iter()
        .flat_map(|l| &l.runs)
        .any(|(s, _)| !s.after_change.is_empty());
    if changed {
        save(
            format!("{}-change.svg", report.world),
            svg(report, |s| &s.after_change),
        )?;
    }
    Ok(())
}
