//! Decides which measures of a stored path are young enough to use.

/// Whether the rates and RTTs of a path last updated at `updated_unix_s` (seconds since 1970) may be used. They are
/// extremes of a moving window of `window_s`: after one window the highest rate may belong to a former link.
/// Everything else of the path counts until it is forgotten.
///
/// After a clock was set back, a time may lie in the future. The age is then unknown: the path is not fresh.
pub fn is_fresh(updated_unix_s: u64, now_unix_s: u64, window_s: u64) -> bool {
    now_unix_s
        .checked_sub(updated_unix_s)
        .is_some_and(|age_s| age_s <= window_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_last_a_window() {
        let fresh = [1000, 1300, 1301, 999].map(|now_s| is_fresh(1000, now_s, 300));
        assert_eq!(fresh, [true, true, false, false]);
    }
}
