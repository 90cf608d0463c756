//! Watches the learner's heartbeat. Without one for ten seconds all choice distributions are stale, and new
//! connections get the kernel's default. The daemon's first thread reports that distributions became stale,
//! because a learner's thread that hangs cannot. The learner's thread reports when they are valid again.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use tcpilot_abi::TP_CHOICE_DISTS_STALE_NS;

use crate::clocks;

const STALE: Duration = Duration::from_nanos(TP_CHOICE_DISTS_STALE_NS);

/// The last heartbeat, for both threads.
pub(super) struct Liveness {
    begun: Instant,
    /// When the last heartbeat came, in milliseconds after `begun`.
    last_ms: AtomicU64,
    /// How often a heartbeat came too late.
    lapses: AtomicU64,
    /// Whether the present silence was reported.
    logged: AtomicBool,
}

impl Liveness {
    pub(super) fn new() -> Liveness {
        Liveness {
            begun: clocks::instant(),
            last_ms: AtomicU64::new(0),
            lapses: AtomicU64::new(0),
            logged: AtomicBool::new(false),
        }
    }

    fn silence_at(&self, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.begun);
        passed.saturating_sub(Duration::from_millis(self.last_ms.load(Ordering::Relaxed)))
    }

    /// Takes the heartbeat with which choosing begins. Nobody has missed those before it.
    pub(super) fn begin(&self) {
        self.begin_at(clocks::instant());
    }

    fn begin_at(&self, now: Instant) {
        self.note(now);
        self.logged.store(false, Ordering::Relaxed);
    }

    fn note(&self, now: Instant) {
        let passed = now.saturating_duration_since(self.begun);
        let passed_ms = passed.as_millis().try_into().unwrap_or(u64::MAX);
        self.last_ms.store(passed_ms, Ordering::Relaxed);
    }

    /// Takes a heartbeat. Returns how long choice distributions were stale before it, if they were.
    fn renew_at(&self, now: Instant) -> Option<Duration> {
        let stale = self.silence_at(now).checked_sub(STALE);
        self.note(now);
        if stale.is_some() {
            self.lapses.fetch_add(1, Ordering::Relaxed);
        }
        self.logged.store(false, Ordering::Relaxed);
        stale
    }

    /// Takes a heartbeat, and logs how long choice distributions were stale, if they were.
    pub(super) fn renew(&self) {
        if let Some(stale) = self.renew_at(clocks::instant()) {
            let seconds = stale.as_secs_f64();
            tracing::warn!(
                "choice distributions are valid again; they were stale for {seconds:.1} s, for want of a heartbeat"
            );
        }
    }

    fn are_valid_at(&self, now: Instant) -> bool {
        self.silence_at(now) < STALE
    }

    /// Whether choice distributions are valid now.
    pub(super) fn are_valid(&self) -> bool {
        self.are_valid_at(clocks::instant())
    }

    /// How often choice distributions became stale.
    fn times_stale_at(&self, now: Instant) -> u64 {
        self.lapses.load(Ordering::Relaxed) + u64::from(!self.are_valid_at(now))
    }

    /// How often choice distributions became stale.
    pub(super) fn times_stale(&self) -> u64 {
        self.times_stale_at(clocks::instant())
    }

    fn is_to_be_logged_at(&self, now: Instant) -> bool {
        !self.are_valid_at(now) && !self.logged.swap(true, Ordering::Relaxed)
    }

    /// Logs stale choice distributions, once for each silence.
    pub(super) fn log_stale(&self) {
        if self.is_to_be_logged_at(clocks::instant()) {
            tracing::warn!(
                "the learner has given no heartbeat for 10 s: choice distributions are stale, and new connections get the \
                 kernel's default"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_start_is_no_lapse() {
        let liveness = Liveness::new();
        let at = |s: u64| liveness.begun + Duration::from_secs(s);
        liveness.begin_at(at(40));
        assert_eq!(liveness.renew_at(at(41)), None);
        assert_eq!(liveness.times_stale_at(at(41)), 0);
        assert!(liveness.are_valid_at(at(41)));
    }

    #[test]
    fn a_lapse_counts_once_and_is_logged_once() {
        let liveness = Liveness::new();
        let at = |s: u64| liveness.begun + Duration::from_secs(s);
        assert_eq!(liveness.renew_at(at(9)), None);
        assert!(liveness.are_valid_at(at(18)) && !liveness.is_to_be_logged_at(at(18)));
        assert!(!liveness.are_valid_at(at(19)));
        assert_eq!(liveness.times_stale_at(at(19)), 1);
        assert!(liveness.is_to_be_logged_at(at(20)) && !liveness.is_to_be_logged_at(at(21)));
        assert_eq!(liveness.renew_at(at(22)), Some(Duration::from_secs(3)));
        assert_eq!(liveness.times_stale_at(at(23)), 1, "the same lapse");
        assert!(liveness.are_valid_at(at(23)));
        assert_eq!(liveness.renew_at(at(40)), Some(Duration::from_secs(8)));
        assert_eq!(liveness.times_stale_at(at(41)), 2);
    }
}
