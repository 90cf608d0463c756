//! How an effect came about over time, in a bounded number of points.

use serde::{Deserialize, Serialize};

use crate::sequence::Interval;

/// More points than a plot has room for.
const POINTS_MAX: usize = 400;

/// The knowledge at a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Seconds since 1970.
    pub at_s: u64,
    /// Pairs until then.
    pub pairs: u64,
    /// In nats.
    pub interval: Interval,
}

/// Points, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct History(Vec<Point>);

impl History {
    /// Adds the newest point. If there are too many, every second one goes; the oldest stays.
    pub fn add(&mut self, point: Point) {
        if self.0.len() >= POINTS_MAX {
            let mut at = 0;
            self.0.retain(|_| {
                at += 1;
                at % 2 == 1
            });
        }
        self.0.push(point);
    }

    /// The points, the oldest first.
    #[must_use]
    pub fn points(&self) -> &[Point] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_the_newest_and_stays_short() {
        let mut history = History::default();
        for at_s in 0..10_000 {
            let interval = Interval {
                estimate: 0.0,
                low: -1.0,
                high: 1.0,
            };
            history.add(Point {
                at_s,
                pairs: at_s,
                interval,
            });
            assert_eq!(history.points().last().map(|point| point.at_s), Some(at_s));
        }
        let points = history.points();
        assert!((POINTS_MAX / 2..=POINTS_MAX).contains(&points.len()));
        assert!(points.is_sorted_by_key(|point| point.at_s));
        assert!(points[0].at_s < 100);
    }
}
