//! Plots as SVG, drawn in the page's colours, so they suit a dark screen too.

use std::fmt::Write as _;

use super::escape;

/// Size of a plot in its own units; the page scales it to the page's width.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 250.0;
/// Room for the words at the axes: left, top, right, bottom.
const MARGIN: [f64; 4] = [62.0, 12.0, 12.0, 28.0];

/// Width of a time's label.
const LABEL: f64 = 72.0;

/// The steps of an axis of time in hours: from a minute to a year.
const HOURS: [f64; 18] = [
    1.0 / 60.0,
    2.0 / 60.0,
    5.0 / 60.0,
    10.0 / 60.0,
    0.25,
    0.5,
    1.0,
    2.0,
    3.0,
    6.0,
    12.0,
    24.0,
    48.0,
    168.0,
    336.0,
    730.0,
    2190.0,
    8760.0,
];

/// A range of values on an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    low: f64,
    high: f64,
    is_time: bool,
}

impl Axis {
    /// An axis of time that covers all of these values, in hours.
    pub fn of_hours(values: impl IntoIterator<Item = f64>) -> Axis {
        Axis {
            is_time: true,
            ..Axis::of(values)
        }
    }

    /// A non-empty axis that covers all of these values.
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
                is_time: false,
            };
        }
        let pad = if high > low { 0.0 } else { 0.5 };
        Axis {
            low: low - pad,
            high: high + pad,
            is_time: false,
        }
    }

    fn part(self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }

    /// About five round numbers on the axis, in steps of 1, 2 or 5 times a power of ten, or of clocks and
    /// calendars.
    fn ticks(self) -> Vec<f64> {
        let rough = (self.high - self.low) / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
        let known: &[f64] = if self.is_time { &HOURS } else { &steps };
        let step = known.iter().copied().find(|step| *step >= rough);
        let step = step.unwrap_or(steps[3]);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        (first..=last).map(|number| number as f64 * step).collect()
    }
}

/// A plot under construction.
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
        plot.body += "<g class=\"x\">";
        for value in x.ticks() {
            let at = plot.x_at(value);
            // A word in the middle of the last tick would be cut off.
            let (at, anchor) = match at + LABEL / 2.0 > WIDTH {
                true => (WIDTH, "end"),
                false => (at, "middle"),
            };
            let _ = write!(
                plot.body,
                "<text x=\"{at:.1}\" y=\"{:.0}\" text-anchor=\"{anchor}\">{}</text>",
                HEIGHT - bottom + 18.0,
                words[0](value)
            );
        }
        plot.body += "</g>";
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

    /// Draws a point. The browser shows `title` when the pointer is over it.
    pub fn dot(&mut self, class: &str, x: f64, y: f64, title: &str) {
        let _ = write!(
            self.body,
            "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\"><title>{}</title></circle>",
            self.x_at(x),
            self.y_at(y),
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

/// One row of [`rows`].
pub struct Row {
    /// Its name, on the left.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// The value in words, on the right.
    pub text: String,
}

/// Height of a row.
const ROW: f64 = 22.0;
/// Room for the names, and for the values in words.
const NAME: f64 = 230.0;
const TEXT: f64 = 150.0;

/// Bars of named values, one below the other, from a common line at 0. `title` is for readers who cannot see it.
pub fn rows(all: &[Row], title: &str) -> String {
    let axis = Axis::of(all.iter().map(|row| row.value).chain([0.0]));
    let at = |value: f64| NAME + axis.part(value) * (WIDTH - NAME - TEXT);
    let (zero, height) = (at(0.0), ROW * all.len() as f64);
    let mut body = String::new();
    for (number, row) in all.iter().enumerate() {
        let (top, end) = (ROW * number as f64, at(row.value));
        let class = if row.value < 0.0 { "loss" } else { "gain" };
        let _ = write!(
            body,
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>\
             <rect class=\"{class}\" x=\"{:.1}\" y=\"{:.0}\" width=\"{:.1}\" height=\"{:.0}\"/>\
             <text x=\"{:.0}\" y=\"{:.0}\">{}</text>",
            NAME - 8.0,
            top + 15.0,
            escape(&row.name),
            zero.min(end),
            top + 4.0,
            (end - zero).abs().max(0.5),
            ROW - 8.0,
            WIDTH - TEXT + 8.0,
            top + 15.0,
            escape(&row.text)
        );
    }
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}\">\
         <line class=\"zero\" x1=\"{zero:.1}\" x2=\"{zero:.1}\" y1=\"0\" y2=\"{height:.0}\"/>{body}</svg>",
        escape(title)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_labels_are_clock_steps_and_unique() {
        let minutes = |hours: f64| Axis::of_hours([0.0, hours]).ticks().len();
        // Every minute, every two hours, every week.
        assert_eq!([0.05, 9.0, 840.0].map(minutes), [4, 5, 6]);
    }

    #[test]
    fn a_word_at_the_right_edge_ends_there() {
        let axis = Axis::of([0.0, 1.0]);
        let drawn = Plot::new(
            axis,
            axis,
            [&|_| "11-23 17:18".to_owned(), &|_| String::new()],
        );
        let last = format!("<text x=\"{WIDTH:.1}\"");
        let svg = drawn.svg("");
        assert_eq!(svg.matches("text-anchor=\"end\">11-23").count(), 1, "{svg}");
        assert!(svg.contains(&last), "{svg}");
    }

    #[test]
    fn ticks_are_round_and_within() {
        let ticks = Axis::of([-0.031, 0.122]).ticks();
        assert_eq!(ticks.len(), 3, "{ticks:?}");
        assert!((ticks[1] - 0.05).abs() < 1e-12, "{ticks:?}");
        assert_eq!(
            Axis::of([]),
            Axis {
                low: 0.0,
                high: 1.0,
                is_time: false
            }
        );
        assert_eq!(
            Axis::of([3.0, f64::NAN]),
            Axis {
                low: 2.5,
                high: 3.5,
                is_time: false
            }
        );
    }
}
