//! The story of an address: the explanation of its paths, the rates expected over time, and its last connections.

use serde::Serialize;

use super::history::PointView;
use crate::{
    figures::Explanation,
    html::plot::{Axis, Plot},
    report::time,
    table,
};

/// The most open connections in a story.
const FLOWS: usize = 20;

/// The document of a story: that of `explain`, and these figures.
#[derive(Serialize)]
pub(super) struct Story {
    #[serde(flatten)]
    explanation: Explanation,
    /// The explanation in sentences, without decisions and connections.
    sentences: Vec<String>,
    /// Open connections, also those that are not listed.
    flows_all: usize,
    /// What was expected over time.
    history: Vec<PointView>,
}

impl Story {
    /// The story of the address with this name.
    pub fn of(name: &str, mut explanation: Explanation, history: Vec<PointView>) -> Story {
        explanation
            .paths
            .retain(|one| table::path_name(&one.path) == name);
        let flows_all = explanation.flows.len();
        let mut told = explanation.clone();
        told.flows.clear();
        told.paths.iter_mut().for_each(|one| one.decisions.clear());
        let text = table::explanation(&told);
        explanation.flows.truncate(FLOWS);
        Story {
            sentences: text.lines().map(|line| line.trim().to_owned()).collect(),
            explanation,
            flows_all,
            history,
        }
    }

    /// The plot of goodput over time, in Mbit/s: what was expected with steering and without, and the last
    /// connections as points.
    pub fn plot(&self, now_unix_s: u64) -> String {
        let mbit = |rate: f32| f64::from(rate) * 8.0 / 1e6;
        let points = self.points(now_unix_s);
        let times = self.history.iter().map(|point| point.at_unix_s);
        let first = times.chain(points.iter().map(|point| point.0)).min();
        let first = first.unwrap_or(now_unix_s);
        let hours = |at_s: u64| at_s.saturating_sub(first) as f64 / 3600.0;
        let rates = self
            .history
            .iter()
            .flat_map(|point| [point.rate_high, point.rate_without_high]);
        let rates = rates.flatten().map(mbit);
        let dots = points.iter().map(|point| point.1);
        let x = Axis::of_hours([0.0, hours(now_unix_s).max(1.0 / 60.0)]);
        let words = time(first);
        let y = Axis::of(rates.chain(dots).chain([0.0]));
        let mut plot = Plot::new(x, y, [&words, &short]);
        type Rates = fn(&PointView) -> [Option<f32>; 3];
        let without: Rates = |p| [p.rate_without, p.rate_without_low, p.rate_without_high];
        let with: Rates = |p| [p.rate, p.rate_low, p.rate_high];
        for (rates, band, line) in [(without, "otherband", "other"), (with, "band", "effect")] {
            let known = self.history.iter().filter_map(|point| {
                let [Some(mean), Some(low), Some(high)] = rates(point).map(|rate| rate.map(mbit))
                else {
                    return None;
                };
                Some((hours(point.at_unix_s), low, high, mean))
            });
            let known: Vec<_> = known.collect();
            let area: Vec<_> = known
                .iter()
                .map(|(x, low, high, _)| (*x, *low, *high))
                .collect();
            plot.band(band, &area);
            plot.line(line, known.iter().map(|(x, _, _, mean)| (*x, *mean)));
        }
        for (at_s, mbit, title) in &points {
            plot.dot("dot", hours(*at_s), *mbit, title);
        }
        plot.svg("goodput over time in Mbit/s, with steering and with the kernel's default")
    }

    /// The last connections: time, Mbit/s, and what they were.
    fn points(&self, now_unix_s: u64) -> Vec<(u64, f64, String)> {
        let decisions = self.explanation.paths.iter().flat_map(|one| &one.decisions);
        let known = decisions.filter_map(|made| {
            let mbit = made.goodput? as f64 * 8.0 / 1e6;
            let algorithm = made.algorithm.as_deref().unwrap_or("kernel default");
            let title = format!("{algorithm}: {} Mbit/s, {}", short(mbit), made.because);
            Some((now_unix_s.saturating_sub(made.age_s as u64), mbit, title))
        });
        known.collect()
    }
}

/// A number with as many digits as a label needs.
fn short(value: f64) -> String {
    let digits = match value {
        ..=0.0 => 0,
        ..0.995 => 2,
        ..9.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{DecisionView, ExplainedPath, PathView};

    const HOSTILE: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>";

    fn explanation() -> Explanation {
        let decision = DecisionView {
            age_s: 30.0,
            algorithm: Some(HOSTILE.to_owned()),
            why: "explored".to_owned(),
            because: HOSTILE.to_owned(),
            side: "connect".to_owned(),
            dry_run: false,
            end: "closed".to_owned(),
            goodput: Some(1_000_000),
            loss_ratio: None,
        };
        let path = |prefix: &str| ExplainedPath {
            path: PathView {
                netns: "host".to_owned(),
                policy: "default".to_owned(),
                prefix: prefix.parse().unwrap(),
                level: "path".to_owned(),
                ..PathView::default()
            },
            decisions: vec![decision.clone()],
            tuning: None,
        };
        Explanation {
            stopped: None,
            address: "192.0.2.1".to_owned(),
            paths: vec![path("192.0.2.1"), path("192.0.2.2")],
            flows: Vec::new(),
        }
    }

    #[test]
    fn story_is_of_its_address_alone() {
        let story = Story::of("192.0.2.1", explanation(), Vec::new());
        assert_eq!(story.explanation.paths.len(), 1);
        assert!(
            story.sentences[0].starts_with("192.0.2.1 is on path"),
            "{:?}",
            story.sentences
        );
        let text = story.sentences.join("\n");
        assert!(
            !text.contains("last decisions"),
            "they have a table of their own: {text}"
        );
    }

    #[test]
    fn hostile_names_stay_text_in_plots() {
        let point = PointView {
            at_unix_s: 1_800_000_000,
            algorithm: HOSTILE.to_owned(),
            rate: Some(2e6),
            rate_low: Some(1e6),
            rate_high: Some(3e6),
            rate_without: None,
            rate_without_low: None,
            rate_without_high: None,
        };
        let plot = Story::of("192.0.2.1", explanation(), vec![point]).plot(1_800_000_060);
        assert!(
            !plot.contains("<script") && !plot.contains("<img"),
            "{plot}"
        );
        assert!(plot.contains("&lt;script&gt;"), "{plot}");
        assert_eq!(plot.matches("<circle").count(), 1, "{plot}");
        assert!(plot.contains(">20</text>"), "{plot}");
    }
}
