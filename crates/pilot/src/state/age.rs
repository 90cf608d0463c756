//! Decides which measures of a stored path are young enough to use.

/// The usable measures of a stored path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Age {
    /// The path is young enough to be used at all: its costs, samples and instances count.
    pub keep: bool,
    /// Its rates and RTTs count too. They are extremes of a moving window. After one window the highest rate
    /// may belong to a former link.
    pub fresh: bool,
}

/// Judges a path last updated at `updated_unix_s` (seconds since 1970); `window_s` is the window of rates and
/// RTTs and `max_age_s` the maximum age of a path.
///
/// After a clock was set back, a time may lie in the future. The age is then unknown: the path is kept, not
/// fresh.
pub fn judge(updated_unix_s: u64, now_unix_s: u64, window_s: u64, max_age_s: u64) -> Age {
    match now_unix_s.checked_sub(updated_unix_s) {
        None => Age {
            keep: true,
            fresh: false,
        },
        Some(age_s) => Age {
            keep: age_s <= max_age_s,
            fresh: age_s <= window_s.min(max_age_s),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_last_a_window_costs_longer() {
        assert_eq!(
            judge(1000, 1000, 300, 600),
            Age {
                keep: true,
                fresh: true
            }
        );
        assert_eq!(
            judge(1000, 1300, 300, 600),
            Age {
                keep: true,
                fresh: true
            }
        );
        assert_eq!(
            judge(1000, 1301, 300, 600),
            Age {
                keep: true,
                fresh: false
            }
        );
        assert_eq!(
            judge(1000, 1600, 300, 600),
            Age {
                keep: true,
                fresh: false
            }
        );
        assert_eq!(
            judge(1000, 1601, 300, 600),
            Age {
                keep: false,
                fresh: false
            }
        );
    }

    #[test]
    fn path_of_the_future_is_not_fresh() {
        assert_eq!(
            judge(1001, 1000, 300, 600),
            Age {
                keep: true,
                fresh: false
            }
        );
    }

    #[test]
    fn forgotten_path_is_never_fresh() {
        assert_eq!(
            judge(0, 100, 300, 50),
            Age {
                keep: false,
                fresh: false
            }
        );
    }
}
