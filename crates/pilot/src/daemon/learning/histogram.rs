//! Histograms for metrics.

use tcpilot_abi::tp_record;

use super::translate::{Totals, is_held_out, measures};
use crate::figures::{HistogramView, ShownView};

/// Bounds of goodput, in bytes per second: from 0.08 to 8000 Mbit/s, two for each power of ten.
pub(super) const GOODPUT: &[f64] = &[1e4, 3e4, 1e5, 3e5, 1e6, 3e6, 1e7, 3e7, 1e8, 3e8, 1e9];
/// Bounds of times, in seconds: of a thread's turn, and of round trips.
pub(super) const TIMES: &[f64] = &[1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0];

/// Counts of values between bounds.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    bounds: &'static [f64],
    /// One count more than bounds; the last counts values above all bounds.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    pub(super) fn new(bounds: &'static [f64]) -> Histogram {
        Histogram {
            bounds,
            counts: vec![0; bounds.len() + 1],
            sum: 0.0,
        }
    }

    /// Adds a value. A value equal to a bound counts below it, as in Prometheus.
    pub(super) fn add(&mut self, value: f64, times: u64) {
        let place = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get_mut(place) {
            *count += times;
        }
        self.sum += value * times as f64;
    }

    pub(super) fn view(&self) -> HistogramView {
        HistogramView {
            bounds: self.bounds.to_vec(),
            counts: self.counts.clone(),
            sum: self.sum,
        }
    }
}

/// The measures of an algorithm's connections, either of the steered or of the held-out ones.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    is_held_out: bool,
    goodput: Histogram,
    min_rtt: Histogram,
    srtt: Histogram,
    segments: u64,
    retransmitted: u64,
}

impl Shown {
    /// Two empty values: one of steered connections, and one of held-out ones.
    pub(super) fn both() -> [Shown; 2] {
        [false, true].map(|is_held_out| Shown {
            is_held_out,
            goodput: Histogram::new(GOODPUT),
            min_rtt: Histogram::new(TIMES),
            srtt: Histogram::new(TIMES),
            segments: 0,
            retransmitted: 0,
        })
    }

    /// Adds a record, if it belongs to this group. Its sums include `before`, already added.
    pub(super) fn add(&mut self, record: &tp_record, before: Option<&Totals>, ticks_per_s: u32) {
        if is_held_out(record) != self.is_held_out {
            return;
        }
        let shown = measures(record, before, ticks_per_s);
        let times = u64::from(record.weight.max(1));
        self.segments += shown.segments * times;
        self.retransmitted += shown.retransmitted * times;
        if shown.busy_us > 0 {
            let goodput = shown.bytes_acked as f64 * 1e6 / shown.busy_us as f64;
            self.goodput.add(goodput, times);
        }
        for (histogram, us) in [
            (&mut self.min_rtt, record.min_rtt_us),
            (&mut self.srtt, record.srtt_us),
        ] {
            if us > 0 {
                histogram.add(f64::from(us) / 1e6, times);
            }
        }
    }

    /// The view; `None` if there was no connection.
    pub(super) fn view(&self) -> Option<ShownView> {
        let group = if self.is_held_out {
            "control"
        } else {
            "treated"
        };
        (self.segments > 0).then(|| ShownView {
            group: group.to_owned(),
            goodput: self.goodput.view(),
            min_rtt: self.min_rtt.view(),
            srtt: self.srtt.view(),
            segments: self.segments,
            retransmitted: self.retransmitted,
        })
    }
}

#[cfg(test)]
mod tests {
    use tcpilot_abi::TP_TRIAL_HELD_OUT;

    use super::*;

    #[test]
    fn value_counts_below_its_upper_bound() {
        let mut histogram = Histogram::new(&[1.0, 10.0]);
        for (value, times) in [(0.5, 1), (1.0, 1), (1.5, 2), (10.5, 4)] {
            histogram.add(value, times);
        }
        let view = histogram.view();
        assert_eq!(view.counts, [2, 2, 4]);
        assert_eq!(view.sum, 0.5 + 1.0 + 3.0 + 42.0);
    }

    #[test]
    fn control_is_separate_and_intervals_count_once() {
        let mut record = tp_record {
            bytes_acked: 1_000_000,
            busy_ticks: 100,
            segments: 700,
            retransmitted: 7,
            weight: 1,
            srtt_us: 24_000,
            ..Default::default()
        };
        let before = Totals::of(&tp_record {
            bytes_acked: 600_000,
            busy_ticks: 60,
            segments: 500,
            retransmitted: 6,
            ..record
        });
        let mut groups = Shown::both();
        groups
            .iter_mut()
            .for_each(|shown| shown.add(&record, Some(&before), 100));
        record.trial = TP_TRIAL_HELD_OUT as u8;
        groups
            .iter_mut()
            .for_each(|shown| shown.add(&record, None, 100));
        let [treated, control] = groups.map(|shown| shown.view().unwrap());
        assert_eq!(
            (treated.group.as_str(), control.group.as_str()),
            ("treated", "control")
        );
        assert_eq!((treated.segments, treated.retransmitted), (200, 1));
        assert_eq!((control.segments, control.retransmitted), (700, 7));
        for shown in [treated, control] {
            assert_eq!(shown.goodput.sum, 1e6, "400 kB in 0.4 s, and 1 MB in 1 s");
            assert_eq!(shown.goodput.counts.iter().sum::<u64>(), 1);
            assert_eq!((shown.srtt.sum, shown.min_rtt.sum), (0.024, 0.0));
        }
        assert!(Shown::both()[0].view().is_none());
    }
}
