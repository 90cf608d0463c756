//! Clock and counter at the receiving end of a bulk transfer.

use crate::protocol::ReceiverReport;
use std::time::{Duration, Instant};

/// Counts payload and remembers when its first and last bytes came, and the longest time without any.
#[derive(Debug, Default)]
pub struct ArrivalMeter {
    bytes: u64,
    first_and_last: Option<(Instant, Instant)>,
    standstill: Duration,
}

impl ArrivalMeter {
    /// Notes that `bytes` were read at `now`.
    pub fn add(&mut self, bytes: usize, now: Instant) {
        if bytes == 0 {
            return;
        }
        self.bytes += bytes as u64;
        let (first, last) = self.first_and_last.unwrap_or((now, now));
        self.standstill = self.standstill.max(now.saturating_duration_since(last));
        self.first_and_last = Some((first, now));
    }

    /// The figures so far. Payload that came in one piece took no time.
    #[must_use]
    pub fn report(&self) -> ReceiverReport {
        let first_to_last = self
            .first_and_last
            .map(|(first, last)| last - first)
            .unwrap_or_default();
        ReceiverReport {
            bytes: self.bytes,
            first_to_last,
            standstill: self.standstill,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_spans_first_to_last_byte() {
        let start = Instant::now();
        let mut meter = ArrivalMeter::default();
        assert_eq!(meter.report(), ReceiverReport::default());
        meter.add(0, start);
        meter.add(10, start + Duration::from_secs(1));
        assert_eq!(meter.report().first_to_last, Duration::ZERO);
        meter.add(5, start + Duration::from_secs(3));
        let expected = ReceiverReport {
            bytes: 15,
            first_to_last: Duration::from_secs(2),
            standstill: Duration::from_secs(2),
        };
        assert_eq!(meter.report(), expected);
    }

    #[test]
    fn standstill_is_longest_gap_after_first_byte() {
        let start = Instant::now();
        let mut meter = ArrivalMeter::default();
        for ms in [900, 1000, 1400, 1400, 1700] {
            meter.add(1, start + Duration::from_millis(ms));
        }
        assert_eq!(meter.report().standstill, Duration::from_millis(400));
    }
}
