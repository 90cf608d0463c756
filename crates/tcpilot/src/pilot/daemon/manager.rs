//! What the daemon tells the service manager that started it, sd_notify(3). Without one it tells nobody.
//!
//! All of it comes from the daemon's only thread. So the watchdog is renewed for as long as that thread
//! serves, and no longer. A program that takes over has the same process id, which is what the manager
//! goes by. The trial before it is another process, whose messages the manager does not take.

use std::sync::atomic::{AtomicBool, Ordering};

use sd_notify::{NotifyState, notify};

/// The daemon is attached, and serves.
pub(super) fn ready(status: &str) {
    tell(&[
        NotifyState::Ready,
        NotifyState::Status(status),
        NotifyState::Watchdog,
    ]);
}

/// A new program or configuration is being tried. [`ready`] follows, however that ends.
pub(super) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now, NotifyState::Watchdog]),
        Err(error) => complain(&error),
    }
}

/// To be called more often than the watchdog barks.
pub(super) fn alive() {
    tell(&[NotifyState::Watchdog]);
}

/// The daemon saves, and goes.
pub(super) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = notify(states) {
        complain(&error);
    }
}

/// Once: what keeps one message off keeps off the next one.
fn complain(error: &std::io::Error) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if !TOLD.swap(true, Ordering::Relaxed) {
        tracing::warn!(%error, "the service manager cannot be told how tcpilot is");
    }
}
