//! The clocks by which the daemon learns, saves and forgets. A test of schedules puts simulated ones in their place,
//! for its own thread.

use std::time::Instant;

use tcpilot_kernel::wall_clock::Now;

/// The clock of the BPF programs' time stamps, see [`tcpilot_kernel::clock::monotonic_ns`].
pub fn monotonic_ns() -> u64 {
    #[cfg(test)]
    if let Some(time) = simulated::time() {
        return time.monotonic_ns;
    }
    tcpilot_kernel::clock::monotonic_ns()
}

/// The same clock for measuring times within this process.
pub fn instant() -> Instant {
    #[cfg(test)]
    if let Some(time) = simulated::time() {
        return time.instant();
    }
    Instant::now()
}

/// The wall clock, and the time since the boot.
pub fn now() -> Now {
    #[cfg(test)]
    if let Some(time) = simulated::time() {
        return time.now();
    }
    Now::read()
}

#[cfg(test)]
pub mod simulated {
    //! Clocks that stand still until a test moves them.

    use std::{
        cell::Cell,
        sync::OnceLock,
        time::{Duration, Instant},
    };

    use tcpilot_kernel::wall_clock::Now;

    /// The time on a simulated host.
    #[derive(Clone, Copy, Debug)]
    pub struct Time {
        /// Since the boot.
        pub monotonic_ns: u64,
        /// Wall clock minus the monotonic one, in seconds since 1970.
        pub wall_s: i64,
        /// Number of the boot.
        pub boot: u64,
    }

    thread_local!(static TIME: Cell<Option<Time>> = const { Cell::new(None) });

    /// The time of this thread's simulated host; `None` on the real one.
    pub fn time() -> Option<Time> {
        TIME.get()
    }

    /// Sets the time of this thread; `None` returns to the real one.
    pub fn set(time: Option<Time>) {
        TIME.set(time);
    }

    impl Time {
        pub(super) fn instant(self) -> Instant {
            static ZERO: OnceLock<Instant> = OnceLock::new();
            *ZERO.get_or_init(Instant::now) + Duration::from_nanos(self.monotonic_ns)
        }

        /// Both clocks in seconds.
        pub fn now(self) -> Now {
            let boot_s = self.monotonic_ns / 1_000_000_000;
            Now {
                unix_s: u64::try_from(self.wall_s).unwrap_or(0) + boot_s,
                boot_s,
            }
        }
    }
}
