//! Silently dead paths of a connection whose other paths live.
//!
//! noq declares a packet lost when a later one of its path is acknowledged. On a dead path none is, and the
//! sender would wait for its data in flight without end. Also, noq sends every acknowledgement on the first
//! path it considers good, whichever path the packets came by. So both ends watch: the client closes a
//! path without acknowledgements, and its data goes by the others; the server moves its acknowledgements
//! away from a path by which nothing arrives.

use std::time::{Duration, Instant};

/// Between two looks.
pub const LOOK: Duration = Duration::from_millis(50);
/// The server may be wrong at no cost, and the client gets no acknowledgements until it has moved them: two
/// of noq's probes on a path of 50 ms come in this time.
pub const SERVER: Duration = Duration::from_millis(200);
/// The client closes the path.
pub const CLIENT: Duration = Duration::from_millis(400);

/// A path's counters at one look.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sign {
    /// Grows while it lives.
    pub progress: u64,
    /// Whether it would grow if it lived.
    pub busy: bool,
    /// Its round-trip time, as far as it is known.
    pub rtt: Duration,
}

/// Paths in the order of their opening.
#[derive(Debug)]
pub struct Silence {
    least: Duration,
    seen: Vec<(u64, Instant)>,
}

impl Silence {
    /// A path is silent after `least`, or after three round trips if they are longer.
    pub fn new(least: Duration) -> Self {
        Self {
            least,
            seen: Vec::new(),
        }
    }

    /// Indices of the silent paths. A path must have fallen silent a quarter of the limit before another one:
    /// paths stopping together mean a stopped host.
    pub fn look(&mut self, now: Instant, signs: &[Sign]) -> Vec<usize> {
        for (at, sign) in signs.iter().enumerate() {
            match self.seen.get_mut(at) {
                None => self.seen.push((sign.progress, now)),
                Some(seen) if seen.0 != sign.progress || !sign.busy => {
                    *seen = (sign.progress, now);
                }
                Some(_) => {}
            }
        }
        let since = |at: usize| now.saturating_duration_since(self.seen[at].1);
        let silent = |at: &usize| {
            let patience = self.least.max(3 * signs[*at].rtt);
            let longer =
                |other: usize| signs[other].busy && since(*at) >= since(other) + patience / 4;
            since(*at) >= patience && (0..signs.len()).any(longer)
        };
        (0..signs.len()).filter(silent).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sign(progress: u64, busy: bool) -> Sign {
        Sign {
            progress,
            busy,
            rtt: Duration::from_millis(20),
        }
    }

    /// A second of looks at two paths; when each is found silent, in ms.
    fn second(path: impl Fn(usize, u64) -> Sign) -> Vec<Option<u64>> {
        let begin = Instant::now();
        let mut silence = Silence::new(CLIENT);
        let mut found = vec![None; 2];
        for ms in (0..1000).step_by(50) {
            let now = begin + Duration::from_millis(ms);
            for at in silence.look(now, &[path(0, ms), path(1, ms)]) {
                found[at].get_or_insert(ms);
            }
        }
        found
    }

    #[test]
    fn stalled_path_is_silent_if_another_progresses() {
        let found = second(|at, ms| sign(if at == 0 { ms } else { ms.min(200) }, true));
        assert_eq!(found, [None, Some(600)]);
    }

    #[test]
    fn idle_path_is_not_silent() {
        assert_eq!(
            second(|at, ms| sign(if at == 0 { ms } else { 0 }, at == 0)),
            [None, None]
        );
    }

    #[test]
    fn no_path_is_silent_if_all_stall() {
        assert_eq!(second(|_, ms| sign(ms.min(100), true)), [None, None]);
    }

    /// The last probe of the live path: its acknowledgements suffice, whatever else is in flight.
    #[test]
    fn path_stays_silent_until_a_packet_arrives() {
        let begin = Instant::now();
        let mut silence = Silence::new(SERVER);
        let mut look = |ms: u64, first: u64, second: u64| {
            let now = begin + Duration::from_millis(ms);
            silence.look(now, &[sign(first, true), sign(second, true)])
        };
        assert!(look(0, 1, 1).is_empty());
        assert!(look(100, 1, 2).is_empty());
        assert_eq!(look(200, 1, 2), [0]);
        assert_eq!(look(2000, 1, 2), [0]);
        assert!(look(2050, 2, 3).is_empty());
    }

    #[test]
    fn a_long_path_has_three_round_trips() {
        let long = |at, ms: u64| Sign {
            rtt: Duration::from_millis(if at == 0 { 1 } else { 250 }),
            ..sign(if at == 0 { ms } else { 0 }, true)
        };
        assert_eq!(second(long), [None, Some(750)]);
    }
}
