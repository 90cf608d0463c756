//! What the learner expected of the shown addresses over time: kept only if somebody asked for the page.
//!
//! Memory: at most [`SHOWN`] addresses with [`POINTS`] points of 32 bytes, 410 kB, and their names. A full list of
//! points drops every second one and grows at half the pace, until a point stands for [`LONGEST_STEP_S`]; then the
//! oldest one goes. So 32 to 64 points always cover the time since an address was first shown, or two weeks.

use std::collections::HashMap;

use serde::Serialize;

use crate::figures::AddressView;

/// The most addresses on the page.
pub(super) const SHOWN: usize = 200;
/// The most points of an address.
const POINTS: usize = 64;
/// Pace of the first points, and of the last.
pub(super) const STEP_S: u32 = 15;
const LONGEST_STEP_S: u32 = STEP_S << 10;

/// What was expected at a time; NaN stands for an unknown rate. Times are seconds since 1970.
#[derive(Clone, Copy)]
struct Point {
    at_s: u32,
    algorithm: u32,
    rates: [f32; 6],
}

/// The points of an address.
struct Past {
    points: Vec<Point>,
    step_s: u32,
    seen_s: u32,
}

/// The points of all shown addresses.
#[derive(Default)]
pub(super) struct History {
    all: HashMap<String, Past>,
    /// Names of algorithms; points have their numbers.
    algorithms: Vec<String>,
}

/// A point in JSON. Rates are bytes per second.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct PointView {
    /// Time, in seconds since 1970.
    pub at_unix_s: u64,
    /// The algorithm that the next connection most likely got.
    pub algorithm: String,
    /// The rate expected with it, and its interval.
    pub rate: Option<f32>,
    pub rate_low: Option<f32>,
    pub rate_high: Option<f32>,
    /// The same with the kernel's default.
    pub rate_without: Option<f32>,
    pub rate_without_low: Option<f32>,
    pub rate_without_high: Option<f32>,
}

impl History {
    /// Notes the present state of these addresses.
    pub fn note(&mut self, now_unix_s: u64, addresses: &[AddressView]) {
        let now_s = u32::try_from(now_unix_s).unwrap_or(u32::MAX);
        for view in addresses.iter().take(SHOWN) {
            let algorithm = self.number_of(&view.algorithm);
            let rate = |rate: Option<u64>| rate.map_or(f32::NAN, |rate| rate as f32);
            let rates = [
                view.rate,
                view.rate_low,
                view.rate_high,
                view.rate_without,
                view.rate_without_low,
                view.rate_without_high,
            ];
            let point = Point {
                at_s: now_s,
                algorithm,
                rates: rates.map(rate),
            };
            let past = self.all.entry(view.path.clone()).or_insert_with(|| Past {
                points: Vec::new(),
                step_s: STEP_S,
                seen_s: now_s,
            });
            past.seen_s = now_s;
            past.add(point);
        }
        while self.all.len() > SHOWN {
            let oldest = self.all.iter().min_by_key(|(_, past)| past.seen_s);
            let Some(name) = oldest.map(|(name, _)| name.clone()) else {
                return;
            };
            self.all.remove(&name);
        }
    }

    /// The number of an algorithm's name. A configuration has few, so the list stays short.
    fn number_of(&mut self, name: &str) -> u32 {
        let known = self.algorithms.iter().position(|known| known == name);
        let number = known.unwrap_or_else(|| {
            self.algorithms.push(name.to_owned());
            self.algorithms.len() - 1
        });
        number as u32
    }

    /// The points of an address, the oldest first.
    pub fn of(&self, name: &str) -> Vec<PointView> {
        let points = self.all.get(name).map_or(&[][..], |past| &past.points);
        let view = |point: &Point| {
            let rate = |at: usize| Some(point.rates[at]).filter(|rate| rate.is_finite());
            let algorithm = self.algorithms.get(point.algorithm as usize);
            PointView {
                at_unix_s: point.at_s.into(),
                algorithm: algorithm.cloned().unwrap_or_default(),
                rate: rate(0),
                rate_low: rate(1),
                rate_high: rate(2),
                rate_without: rate(3),
                rate_without_low: rate(4),
                rate_without_high: rate(5),
            }
        };
        points.iter().map(view).collect()
    }
}

impl Past {
    fn add(&mut self, point: Point) {
        let last = self.points.last();
        // A second of slack: the pace of questions is not exact.
        if last.is_some_and(|last| point.at_s.saturating_sub(last.at_s) + 1 < self.step_s) {
            return;
        }
        if self.points.len() == POINTS {
            if self.step_s < LONGEST_STEP_S {
                let mut number = 0;
                self.points.retain(|_| {
                    number += 1;
                    number % 2 == 1
                });
                self.step_s *= 2;
            } else {
                self.points.remove(0);
            }
        }
        self.points.push(point);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(name: &str, rate: u64) -> AddressView {
        AddressView {
            path: name.to_owned(),
            algorithm: "bbr".to_owned(),
            rate: Some(rate),
            ..AddressView::default()
        }
    }

    #[test]
    fn memory_stays_bounded_whatever_is_shown() {
        let mut history = History::default();
        for turn in 0..400u64 {
            let crowd: Vec<_> = (0..300)
                .map(|host| address(&format!("{host} at turn {}", turn / 100), turn))
                .collect();
            history.note(1_800_000_000 + turn * u64::from(STEP_S), &crowd);
        }
        assert_eq!(history.all.len(), SHOWN);
        assert_eq!(size_of::<Point>(), 32);
        assert!(history.all.values().all(|past| past.points.len() <= POINTS));
        assert!(history.of("0 at turn 0").is_empty() && !history.of("0 at turn 3").is_empty());
    }

    #[test]
    fn points_cover_all_time_since_first_seen() {
        let (mut history, begin) = (History::default(), 1_800_000_000);
        let (step, turns) = (u64::from(STEP_S), 24 * 240);
        for turn in 0..turns {
            history.note(begin + turn * step, &[address("a", turn)]);
        }
        let points = history.of("a");
        assert!(
            (POINTS / 2..=POINTS).contains(&points.len()),
            "{}",
            points.len()
        );
        assert_eq!(points[0].at_unix_s, begin);
        let last = points.last().unwrap();
        let age_s = begin + turns * step - last.at_unix_s;
        assert!(age_s < turns * step / 30, "{age_s}");
        assert_eq!((last.rate_without, last.algorithm.as_str()), (None, "bbr"));
        let in_order = points
            .windows(2)
            .all(|two| two[0].at_unix_s < two[1].at_unix_s);
        assert!(in_order, "{points:?}");
    }

    #[test]
    fn after_two_weeks_the_oldest_points_go() {
        let (mut history, begin) = (History::default(), 1_800_000_000);
        let hours = 24 * 60;
        for hour in 0..hours {
            history.note(begin + hour * 3600, &[address("a", hour)]);
        }
        let points = history.of("a");
        let covered_s = begin + hours * 3600 - points[0].at_unix_s;
        assert!(
            (5 * 86_400..20 * 86_400).contains(&covered_s),
            "{covered_s}"
        );
        assert!(points.len() >= POINTS / 2);
    }
}
