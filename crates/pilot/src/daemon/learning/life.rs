//! Watches the learner's sign of life. Without one for ten seconds all rows are void, and new connections
//! get the kernel's default. The daemon's first thread reports that rows became void, because a learner's
//! thread that hangs cannot. The learner's thread reports that they are valid again.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use tcpilot_abi::TP_ROWS_VOID_NS;

const VOID: Duration = Duration::from_nanos(TP_ROWS_VOID_NS);

/// The last sign of life, for both threads.
pub(super) struct Life {
    begun: Instant,
    /// When the last sign came, in milliseconds after `begun`.
    last_ms: AtomicU64,
    /// How often a sign came too late.
    lapses: AtomicU64,
    /// Whether the present silence was reported.
    told: AtomicBool,
}

impl Life {
    pub(super) fn new() -> Life {
        Life {
            begun: Instant::now(),
            last_ms: AtomicU64::new(0),
            lapses: AtomicU64::new(0),
            told: AtomicBool::new(false),
        }
    }

    fn silence_at(&self, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.begun);
        passed.saturating_sub(Duration::from_millis(self.last_ms.load(Ordering::Relaxed)))
    }

    /// Notes a sign. Returns how long rows were void before it, if they were.
    fn sign_at(&self, now: Instant) -> Option<Duration> {
        let void = self.silence_at(now).checked_sub(VOID);
        let passed = now.saturating_duration_since(self.begun);
        let passed_ms = passed.as_millis().try_into().unwrap_or(u64::MAX);
        self.last_ms.store(passed_ms, Ordering::Relaxed);
        if void.is_some() {
            self.lapses.fetch_add(1, Ordering::Relaxed);
        }
        self.told.store(false, Ordering::Relaxed);
        void
    }

    /// Notes a sign, and logs how long rows were void, if they were.
    pub(super) fn sign(&self) {
        if let Some(void) = self.sign_at(Instant::now()) {
            let seconds = void.as_secs_f64();
            tracing::warn!(
                "rows are valid again; they were void for {seconds:.1} s, for want of a sign of life"
            );
        }
    }

    fn are_valid_at(&self, now: Instant) -> bool {
        self.silence_at(now) < VOID
    }

    /// Whether rows are valid now.
    pub(super) fn are_valid(&self) -> bool {
        self.are_valid_at(Instant::now())
    }

    /// How often rows became void.
    fn times_void_at(&self, now: Instant) -> u64 {
        self.lapses.load(Ordering::Relaxed) + u64::from(!self.are_valid_at(now))
    }

    /// How often rows became void.
    pub(super) fn times_void(&self) -> u64 {
        self.times_void_at(Instant::now())
    }

    fn is_to_be_told_at(&self, now: Instant) -> bool {
        !self.are_valid_at(now) && !self.told.swap(true, Ordering::Relaxed)
    }

    /// If rows are void, logs that, once for each silence.
    pub(super) fn tell_void(&self) {
        if self.is_to_be_told_at(Instant::now()) {
            tracing::warn!(
                "the learner has given no sign of life for 10 s: rows are void, and new connections get the \
                 kernel's default"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lapse_is_counted_and_logged_once() {
        let life = Life::new();
        let at = |s: u64| life.begun + Duration::from_secs(s);
        assert_eq!(life.sign_at(at(9)), None);
        assert!(life.are_valid_at(at(18)) && !life.is_to_be_told_at(at(18)));
        assert!(!life.are_valid_at(at(19)));
        assert_eq!(life.times_void_at(at(19)), 1);
        assert!(life.is_to_be_told_at(at(20)) && !life.is_to_be_told_at(at(21)));
        assert_eq!(life.sign_at(at(22)), Some(Duration::from_secs(3)));
        assert_eq!(life.times_void_at(at(23)), 1, "the same lapse");
        assert!(life.are_valid_at(at(23)));
        assert_eq!(life.sign_at(at(40)), Some(Duration::from_secs(8)));
        assert_eq!(life.times_void_at(at(41)), 2);
    }
}
