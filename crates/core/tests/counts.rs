//! Counts that several CPUs use at once.

use std::sync::atomic::{AtomicU32, Ordering};

/// Two CPUs count the same last one down, again and again: that must not make the count wrap.
#[test]
fn counting_down_never_goes_below_nothing() {
    let count = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let take = || {
            for _ in 0..100_000_000 {
                // SAFETY: the C side uses the word by atomic operations only.
                unsafe { tcpilot_core::decrement(count.as_ptr()) };
            }
        };
        let takers = [scope.spawn(take), scope.spawn(take)];
        while takers.iter().any(|taker| !taker.is_finished()) {
            let _ = count.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed);
        }
    });
    assert!(count.load(Ordering::Relaxed) <= 1, "{count:?}");
}
