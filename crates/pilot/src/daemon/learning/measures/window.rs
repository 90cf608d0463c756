//! Extremes of a recent measure, by the rules of `bpf/core/window.h`: in two halves, to drop a sample after
//! one to two windows. A path has several windows, and a host many paths, so each half has 16 bits.

use tcpilot_learner::bytes::{Reader, Writer};

/// Greatest number of a half.
const LARGEST: u64 = 1 << 47;

/// A number from 1 to [`LARGEST`] in 16 bits, by its logarithm; 0 means none. Each step is 0.05 % above the
/// last, so numbers below 1000 come back exactly, and larger ones within 0.03 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Log16(u16);

impl Log16 {
    const STEPS: f64 = (u16::MAX - 1) as f64;

    pub fn new(number: u64) -> Log16 {
        if number == 0 {
            return Log16(0);
        }
        let part = (number as f64).ln() / (LARGEST as f64).ln();
        Log16(1 + (part.min(1.0) * Log16::STEPS).round() as u16)
    }

    pub fn get(self) -> Option<u64> {
        let step = self.0.checked_sub(1)?;
        let part = f64::from(step) / Log16::STEPS;
        Some((part * (LARGEST as f64).ln()).exp().round() as u64)
    }
}

/// The number of a window, modulo 2^16: a path whose last sample is exactly 65536 windows old would seem
/// to be fresh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epoch(u16);

/// The change from one epoch to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// The same window, or the one before: records may come a little late.
    None,
    /// The next window has begun.
    One,
    /// A whole window passed without a sample.
    More,
}

impl Epoch {
    /// The epoch at this time, in windows of this length.
    pub fn at(now_s: f64, window_s: u32) -> Epoch {
        let number = now_s.max(0.0) as u64 / u64::from(window_s.max(1));
        Epoch(number as u16)
    }

    /// Moves on to `to`, unless `to` is the epoch before.
    pub fn pass(&mut self, to: Epoch) -> Passed {
        let passed = match to.0.wrapping_sub(self.0) {
            0 | u16::MAX => return Passed::None,
            1 => Passed::One,
            _ => Passed::More,
        };
        *self = to;
        passed
    }

    pub fn write(self, to: &mut Writer) {
        to.u16(self.0);
    }

    pub fn read(from: &mut Reader<'_>) -> Option<Epoch> {
        from.u16().map(Epoch)
    }
}

/// The extremes of two windows: the present one, and the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window<T> {
    current: T,
    previous: T,
}

impl<T: Copy + Default> Window<T> {
    pub fn pass(&mut self, passed: Passed) {
        self.previous = match passed {
            Passed::None => return,
            Passed::One => self.current,
            Passed::More => T::default(),
        };
        self.current = T::default();
    }

    fn both(&self) -> [T; 2] {
        [self.current, self.previous]
    }
}

impl Window<Log16> {
    pub fn add_greatest(&mut self, number: u64) {
        self.current = self.current.max(Log16::new(number));
    }

    /// 0 is no sample.
    pub fn add_least(&mut self, number: u64) {
        let number = Log16::new(number);
        if self.current == Log16(0) || (number != Log16(0) && number < self.current) {
            self.current = number;
        }
    }

    pub fn greatest(&self) -> Option<u64> {
        self.both().into_iter().max()?.get()
    }

    pub fn least(&self) -> Option<u64> {
        let known = self.both().into_iter().filter(|half| *half != Log16(0));
        known.min()?.get()
    }

    pub fn write(&self, to: &mut Writer) {
        to.u16(self.current.0).u16(self.previous.0);
    }

    pub fn read(from: &mut Reader<'_>) -> Option<Self> {
        let (current, previous) = (Log16(from.u16()?), Log16(from.u16()?));
        Some(Window { current, previous })
    }
}

impl Window<u32> {
    /// For sums. An overflowing sum stays at the greatest value.
    pub fn add(&mut self, number: u64) {
        let number = number.try_into().unwrap_or(u32::MAX);
        self.current = self.current.saturating_add(number);
    }

    pub fn sum(&self) -> u64 {
        self.both().into_iter().map(u64::from).sum()
    }

    pub fn write(&self, to: &mut Writer) {
        to.u32(self.current).u32(self.previous);
    }

    pub fn read(from: &mut Reader<'_>) -> Option<Self> {
        let (current, previous) = (from.u32()?, from.u32()?);
        Some(Window { current, previous })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_number_in_16_bits_is_near(number in 1..=LARGEST) {
            let read = Log16::new(number).get().unwrap();
            prop_assert!((read as f64 / number as f64 - 1.0).abs() < 3e-4, "{read}");
        }

        #[test]
        fn greater_numbers_have_no_smaller_codes(a: u64, b: u64) {
            prop_assert!(Log16::new(a.min(b)) <= Log16::new(a.max(b)));
        }

        /// The rules of bpf/core/window.h, with exact numbers.
        #[test]
        fn windows_drop_samples_after_one_to_two(
            samples in prop::collection::vec((0u16..3, 1u64..1000), 1..40), after in 0u16..4,
        ) {
            let (mut epoch, mut least, mut greatest) = (Epoch(7), Window::default(), Window::default());
            let mut sum = Window::<u32>::default();
            let (mut now, mut kept) = (7u16, Vec::new());
            for (step, number) in samples {
                now += step;
                let passed = epoch.pass(Epoch(now));
                least.pass(passed);
                greatest.pass(passed);
                sum.pass(passed);
                least.add_least(number);
                greatest.add_greatest(number);
                sum.add(number);
                kept.push((now, number));
            }
            now += after;
            let passed = epoch.pass(Epoch(now));
            least.pass(passed);
            greatest.pass(passed);
            sum.pass(passed);
            let live: Vec<u64> = kept.iter().filter(|(at, _)| now - at <= 1).map(|kept| kept.1).collect();
            prop_assert_eq!(least.least(), live.iter().min().copied());
            prop_assert_eq!(greatest.greatest(), live.iter().max().copied());
            prop_assert_eq!(sum.sum(), live.iter().sum::<u64>());
        }
    }

    #[test]
    fn small_numbers_come_back_exactly() {
        for number in 1..=1000 {
            assert_eq!(Log16::new(number).get(), Some(number));
        }
        assert_eq!(Log16::new(0).get(), None);
        assert_eq!(Log16::new(u64::MAX), Log16::new(LARGEST));
    }

    #[test]
    fn a_late_record_forgets_nothing() {
        let mut epoch = Epoch(0);
        assert_eq!(epoch.pass(Epoch(u16::MAX)), Passed::None);
        assert_eq!(epoch, Epoch(0));
        assert_eq!(epoch.pass(Epoch(u16::MAX - 1)), Passed::More);
    }
}
