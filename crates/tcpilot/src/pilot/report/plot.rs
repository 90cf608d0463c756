//! Plots as SVG, drawn in colours that the page sets, so that they suit a dark screen too.

use std::fmt::Write as _;

/// Size of a plot in its own units; the page scales it to the page's width.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 260.0;
/// Room for the words at the axes: left, top, right, bottom.
const MARGIN: [f64; 4] = [56.0, 12.0, 12.0, 28.0];

/// A range of values on an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    /// An axis that holds all of these values, and is not empty.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Axis {
        let (low, high) = values
            .into_iter()
            .filter(|value| value.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        if low > high {
            return Axis {
                low: 0.0,
                high: 1.0,
            };
        }
        let pad = if high > low { 0.0 } else { 0.5 };
        Axis {
            low: low - pad,
            high: high + pad,
        }
    }

    fn part(self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }

    /// About five round numbers on the axis, in steps of 1, 2 or 5 times a power of ten.
    fn ticks(self) -> Vec<f64> {
        let rough = (self.high - self.low) / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
        let step = steps
            .into_iter()
            .find(|step| *step >= rough)
            .unwrap_or(power);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        (first..=last).map(|number| number as f64 * step).collect()
    }
}

/// A plot that is being drawn.
pub struct Plot {
    x: Axis,
    y: Axis,
    body: String,
}

impl Plot {
    /// Begins a plot with its axes; `words` gives the label of a value on each axis.
    pub fn new(x: Axis, y: Axis, words: [&dyn Fn(f64) -> String; 2]) -> Plot {
        let mut plot = Plot {
            x,
            y,
            body: String::new(),
        };
        let [left, _, right, bottom] = MARGIN;
        for value in y.ticks() {
            let at = plot.y_at(value);
            let class = if value == 0.0 { "zero" } else { "grid" };
            let _ = write!(
                plot.body,
                "<line class=\"{class}\" x1=\"{left}\" x2=\"{:.0}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - right,
                left - 6.0,
                at + 4.0,
                words[1](value)
            );
        }
        for value in x.ticks() {
            let at = plot.x_at(value);
            let _ = write!(
                plot.body,
                "<text x=\"{at:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>",
                HEIGHT - bottom + 18.0,
                words[0](value)
            );
        }
        plot
    }

    fn x_at(&self, value: f64) -> f64 {
        let [left, _, right, _] = MARGIN;
        left + self.x.part(value) * (WIDTH - left - right)
    }

    fn y_at(&self, value: f64) -> f64 {
        let [_, top, _, bottom] = MARGIN;
        HEIGHT - bottom - self.y.part(value) * (HEIGHT - top - bottom)
    }

    fn points(&self, points: impl Iterator<Item = (f64, f64)>) -> String {
        let at = points.map(|(x, y)| format!("{:.1},{:.1}", self.x_at(x), self.y_at(y)));
        at.collect::<Vec<_>>().join(" ")
    }

    /// Draws the area between two lines: x, low, high.
    pub fn band(&mut self, class: &str, all: &[(f64, f64, f64)]) {
        let upper = all.iter().map(|(x, _, high)| (*x, *high));
        let lower = all.iter().rev().map(|(x, low, _)| (*x, *low));
        let points = self.points(upper.chain(lower));
        let _ = write!(
            self.body,
            "<polygon class=\"{class}\" points=\"{points}\"/>"
        );
    }

    /// Draws a line.
    pub fn line(&mut self, class: &str, all: impl Iterator<Item = (f64, f64)>) {
        let points = self.points(all);
        let _ = write!(
            self.body,
            "<polyline class=\"{class}\" points=\"{points}\"/>"
        );
    }

    /// Draws a bar between two corners. The browser shows `title` when the pointer is over the bar.
    pub fn bar(&mut self, class: &str, from: (f64, f64), to: (f64, f64), title: &str) {
        let (left, right) = (self.x_at(from.0), self.x_at(to.0));
        let (low, high) = (self.y_at(from.1), self.y_at(to.1));
        let _ = write!(
            self.body,
            "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\">\
             <title>{}</title></rect>",
            high.min(low),
            (right - left).max(0.5),
            (low - high).abs(),
            escape(title)
        );
    }

    /// The picture as SVG; `title` is for readers who cannot see it.
    pub fn svg(self, title: &str) -> String {
        format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">{}</svg>",
            escape(title),
            self.body
        )
    }
}

/// Escapes text for HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within() {
        let ticks = Axis::of([-0.031, 0.122]).ticks();
        assert_eq!(ticks.len(), 3, "{ticks:?}");
        assert!((ticks[1] - 0.05).abs() < 1e-12, "{ticks:?}");
        assert_eq!(
            Axis::of([]),
            Axis {
                low: 0.0,
                high: 1.0
            }
        );
        assert_eq!(
            Axis::of([3.0, f64::NAN]),
            Axis {
                low: 2.5,
                high: 3.5
            }
        );
    }
}
