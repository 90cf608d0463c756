//! The guard of the tunings: does a path lose more, or wait longer, with a tuning than without it?
//!
//! Each tuning is held out from some connections at random. The guard compares two shares with and without
//! the tuning: that of lost packets, and that of connections that ended with more than twice the path's
//! least RTT.

use tcpilot_abi::tp_cohort;

/// The least connections on each side for a judgement: with fewer, one bad moment would decide.
const LEAST_CONNECTIONS: u32 = 20;
/// Standard errors by which the shares must differ: one judgement in a thousand is then wrong by chance.
const SIGMAS: f64 = 3.1;
/// Smaller harm is ignored: loss up to a tenth higher, and a share of late connections up to 0.05 higher.
const LOSS_FACTOR: f64 = 1.1;
const LATE_MARGIN: f64 = 0.05;

/// The guard's verdict on one tuning of one path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// Too few connections on one side.
    TooFew,
    /// The tuning does no harm.
    Keep,
    /// More loss: the shares with and without.
    Loss {
        /// With the tuning, 0 to 1.
        with: f64,
        /// Without it.
        without: f64,
    },
    /// More connections that ended late: the shares with and without.
    Late {
        /// With the tuning, 0 to 1.
        with: f64,
        /// Without it.
        without: f64,
    },
}

/// Compares connections with a tuning and those held out from it.
pub fn judge(with: &tp_cohort, without: &tp_cohort) -> Verdict {
    if with.connections.min(without.connections) < LEAST_CONNECTIONS {
        return Verdict::TooFew;
    }
    // Packets of a connection are lost together, so only connections count as independent.
    let loss = Shares::of(
        (with.lost_packets, with.sent_packets, with.connections),
        (
            without.lost_packets,
            without.sent_packets,
            without.connections,
        ),
    );
    if loss.with > LOSS_FACTOR * loss.without && loss.differ() {
        return Verdict::Loss {
            with: loss.with,
            without: loss.without,
        };
    }
    let late = Shares::of(
        (with.late, with.connections, with.connections),
        (without.late, without.connections, without.connections),
    );
    if late.with > late.without + LATE_MARGIN && late.differ() {
        return Verdict::Late {
            with: late.with,
            without: late.without,
        };
    }
    Verdict::Keep
}

/// A share with the tuning and one without it, each with its number of independent observations.
struct Shares {
    with: f64,
    without: f64,
    observations: (f64, f64),
}

impl Shares {
    /// The shares of two triples (part, whole, observations).
    fn of(with: (u32, u32, u32), without: (u32, u32, u32)) -> Shares {
        let share = |part: u32, whole: u32| f64::from(part) / f64::from(whole.max(1));
        Shares {
            with: share(with.0, with.1),
            without: share(without.0, without.1),
            observations: (with.2.into(), without.2.into()),
        }
    }

    /// The two-sample test of proportions, with the pooled share.
    fn differ(&self) -> bool {
        let (n, m) = self.observations;
        let pooled = (self.with * n + self.without * m) / (n + m);
        let error = (pooled * (1.0 - pooled) * (1.0 / n + 1.0 / m)).sqrt();
        (self.with - self.without) > SIGMAS * error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(connections: u32, late: u32, lost_packets: u32) -> tp_cohort {
        tp_cohort {
            connections,
            late,
            sent_packets: connections * 100,
            lost_packets,
        }
    }

    #[test]
    fn few_connections_say_nothing() {
        let bad = group(1000, 1000, 50_000);
        assert_eq!(judge(&bad, &group(19, 0, 0)), Verdict::TooFew);
        assert_eq!(
            judge(&group(19, 19, 900), &group(1000, 0, 0)),
            Verdict::TooFew
        );
    }

    #[test]
    fn alike_is_kept() {
        let same = group(200, 20, 200);
        assert_eq!(judge(&same, &group(20, 2, 20)), Verdict::Keep);
    }

    #[test]
    fn more_loss_is_noticed() {
        let verdict = judge(&group(300, 0, 6000), &group(40, 0, 0));
        assert!(matches!(verdict, Verdict::Keep | Verdict::Loss { .. }));
        let verdict = judge(&group(300, 0, 9000), &group(100, 0, 100));
        assert_eq!(
            verdict,
            Verdict::Loss {
                with: 0.3,
                without: 0.01
            }
        );
    }

    #[test]
    fn more_late_connections_are_noticed() {
        let verdict = judge(&group(300, 150, 0), &group(50, 5, 0));
        assert_eq!(
            verdict,
            Verdict::Late {
                with: 0.5,
                without: 0.1
            }
        );
    }

    #[test]
    fn a_difference_that_chance_explains_is_kept() {
        assert_eq!(judge(&group(100, 12, 0), &group(20, 1, 0)), Verdict::Keep);
    }
}
