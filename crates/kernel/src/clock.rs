//! Clocks: the one for time stamps of the programs in the kernel, the wall clock, and the processor time
//! of this thread.

use std::{
    fs,
    sync::OnceLock,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::time::{ClockId, clock_gettime};

/// Maximum delay of the BPF programs' clock: it goes on once a tick, at least 100 times a second.
pub const TICK_NS: u64 = 10_000_000;

/// The clock that the programs in the kernel stamp with, nanoseconds: CLOCK_MONOTONIC as the host has it. In a time
/// namespace, as of a restored container, that of this process differs.
pub fn monotonic_ns() -> u64 {
    static OFFSET_NS: OnceLock<i64> = OnceLock::new();
    let now = clock_gettime(ClockId::Monotonic);
    let here = (now.tv_sec as u64)
        .saturating_mul(1_000_000_000)
        .saturating_add(now.tv_nsec as u64);
    let offset = OFFSET_NS.get_or_init(|| {
        let text = fs::read_to_string("/proc/self/timens_offsets");
        offset_ns(&text.unwrap_or_default())
    });
    here.saturating_add_signed(offset.saturating_neg())
}

/// By how much CLOCK_MONOTONIC of this process is ahead of the host's, from time_namespaces(7)'s file. A kernel
/// without such namespaces has no file.
fn offset_ns(text: &str) -> i64 {
    text.lines()
        .find_map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next()?;
            let mut number = || words.next()?.parse::<i64>().ok();
            let (seconds, nanoseconds) = (number()?, number()?);
            let is_it = matches!(name, "monotonic" | "1"); // by name or by number: proc(5)
            is_it.then(|| {
                seconds
                    .saturating_mul(1_000_000_000)
                    .saturating_add(nanoseconds)
            })
        })
        .unwrap_or(0)
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
    fn a_time_namespaces_offset_is_read() {
        let text = "monotonic       -3600         5\nboottime         7200         0\n";
        assert_eq!(offset_ns(text), -3_599_999_999_995);
        assert_eq!(offset_ns("monotonic           0         0\n"), 0);
        for text in ["", "monotonic", "monotonic x 0", "boottime 7 0"] {
            assert_eq!(offset_ns(text), 0, "{text}");
        }
    }

    #[test]
    fn a_thread_knows_its_processor_time() {
        let begun = processor_time();
        while processor_time() == begun {}
        assert!(processor_time() - begun < Duration::from_secs(60));
    }
}
