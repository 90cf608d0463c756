//! Messages to the daemon's service manager, sd_notify(3). Without a manager there are none.
//!
//! All messages come from the daemon's first thread, so the watchdog is renewed only while this thread
//! serves. The manager knows the daemon by its process id, and its successor keeps the id. The trial before
//! it is another process, and the manager ignores its messages.

use std::sync::atomic::{AtomicBool, Ordering};

use sd_notify::{NotifyState, notify};

/// Reports that the daemon is attached and serves.
pub(super) fn ready(status: &str) {
    tell(&[
        NotifyState::Ready,
        NotifyState::Status(status),
        NotifyState::Watchdog,
    ]);
}

/// Reports the trial of a new program or configuration. [`ready`] follows in any case.
pub(super) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now, NotifyState::Watchdog]),
        Err(error) => complain(&error),
    }
}

/// Renews the watchdog. Call it more often than the watchdog's interval.
pub(super) fn alive() {
    tell(&[NotifyState::Watchdog]);
}

/// Reports that the daemon saves and ends.
pub(super) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = notify(states) {
        complain(&error);
    }
}

/// Logs only the first error, because later messages fail for the same reason.
fn complain(error: &std::io::Error) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if !TOLD.swap(true, Ordering::Relaxed) {
        tracing::warn!(%error, "the service manager cannot be told how tcpilot is");
    }
}
