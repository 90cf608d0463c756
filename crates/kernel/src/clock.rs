//! Clocks: the one for time stamps of the programs in the kernel, the wall clock, and the processor time
//! of this thread.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Maximum delay of the BPF programs' clock: it goes on once a tick, at least 100 times a second.
pub const TICK_NS: u64 = 10_000_000;

/// CLOCK_MONOTONIC, nanoseconds.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    (now.tv_sec as u64)
        .saturating_mul(1_000_000_000)
        .saturating_add(now.tv_nsec as u64)
}

/// Seconds since 1970, by the wall clock.
pub fn unix_s() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}

/// Processor time of this thread.
pub fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_knows_its_processor_time() {
        let begun = processor_time();
        while processor_time() == begun {}
        assert!(processor_time() - begun < Duration::from_secs(60));
    }
}
