//! The reward of one connection, in nats; higher is better.
//!
//! ```text
//! y = ln(bytes_acked / t) + γ·ln(1 − retransmitted share) − β·ln((srtt + d) / (least RTT + d))
//! ```
//!
//! t is the busy time less the time when the peer's window or our own send buffer was the limit. All
//! of it is measured on the connection itself, without a maximum of other connections or a least RTT of
//! other peers. So a near or lucky neighbour cannot change this connection's reward.

use crate::settings::RewardSettings;

/// The kernel's measures of a connection, or of an interval of a long one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measures {
    /// Bytes acknowledged.
    pub bytes_acked: u64,
    /// Microseconds with data under way (`tcpi_busy_time`).
    pub busy_us: u64,
    /// Part of it limited by the receiver's window (`tcpi_rwnd_limited`).
    pub window_limited_us: u64,
    /// Part of it limited by the send buffer (`tcpi_sndbuf_limited`).
    pub buffer_limited_us: u64,
    /// Segments sent, retransmissions included.
    pub segments: u64,
    /// Segments sent again.
    pub retransmitted: u64,
    /// Smoothed RTT.
    pub srtt_us: u32,
    /// The connection's own least RTT.
    pub min_rtt_us: u32,
    /// Bandwidth-delay product of the path in bytes; 0: not known.
    pub bdp_bytes: u64,
}

/// A connection's reward.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reward {
    /// Nats.
    pub nats: f64,
    /// The part of a whole sample that it counts for.
    pub weight: f64,
}

/// The reason why a connection gives no sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSample {
    /// Too few bytes: a slow start's first rounds carry no information about an arm.
    #[error("fewer bytes than bytes_min")]
    Short,
    /// The network never limited it.
    #[error("the application, the peer or the send buffer was the limit throughout")]
    NotBusy,
    /// No RTT, more retransmissions than segments, or no segment.
    #[error("the measures contradict each other")]
    Inconsistent,
}

impl Measures {
    /// The reward of these measures.
    ///
    /// # Errors
    /// [`NoSample`], the reason.
    pub fn reward(&self, settings: &RewardSettings) -> Result<Reward, NoSample> {
        if self.bytes_acked < settings.bytes_min {
            return Err(NoSample::Short);
        }
        let limited = self
            .window_limited_us
            .saturating_add(self.buffer_limited_us);
        let time_us = self.busy_us.saturating_sub(limited);
        if time_us == 0 {
            return Err(NoSample::NotBusy);
        }
        if self.retransmitted >= self.segments || self.min_rtt_us == 0 {
            return Err(NoSample::Inconsistent);
        }
        let goodput = (self.bytes_acked as f64 * 1e6 / time_us as f64).ln();
        let kept = (1.0 - self.retransmitted as f64 / self.segments as f64).ln();
        let grown = self.srtt_us.max(self.min_rtt_us);
        let d = settings.dead_zone_us;
        let queue = ((f64::from(grown) + d) / (f64::from(self.min_rtt_us) + d)).ln();
        Ok(Reward {
            nats: goodput + settings.gamma * kept - settings.beta * queue,
            weight: self.weight(settings),
        })
    }

    fn weight(&self, settings: &RewardSettings) -> f64 {
        if self.bdp_bytes == 0 {
            return 1.0;
        }
        let whole = settings.bdps * self.bdp_bytes as f64;
        (self.bytes_acked as f64 / whole).clamp(settings.weight_min, 1.0)
    }
}

/// The discounted share of time-outs among a group's connections.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TimeOuts {
    pub(crate) all: f32,
    pub(crate) timed_out: f32,
}

impl TimeOuts {
    /// Number of samples behind the share; older ones fade.
    const MEMORY: f32 = 200.0;

    /// Counts a connection.
    pub fn count(&mut self, timed_out: bool) {
        let keep = 1.0 - 1.0 / Self::MEMORY;
        self.all = self.all * keep + 1.0;
        self.timed_out = self.timed_out * keep + f32::from(u8::from(timed_out));
    }

    /// The share, 0 before the first connection.
    #[must_use]
    pub fn share(&self) -> f64 {
        if self.all > 0.0 {
            f64::from(self.timed_out / self.all)
        } else {
            0.0
        }
    }

    /// The cost of a time-out in nats. It is less if time-outs are usual: if peers vanish with any arm,
    /// this must not count against the arm with the most connections.
    #[must_use]
    pub fn cost(&self, settings: &RewardSettings) -> f64 {
        settings.timeout_cost * (1.0 - self.share())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn measures() -> Measures {
        Measures {
            bytes_acked: 1_000_000,
            busy_us: 1_000_000,
            segments: 700,
            srtt_us: 20_000,
            min_rtt_us: 20_000,
            ..Measures::default()
        }
    }

    fn nats(m: &Measures) -> f64 {
        m.reward(&RewardSettings::default()).unwrap().nats
    }

    #[test]
    fn small_gain_does_not_pay_for_retransmissions() {
        // cubic and bbr on the shallow queue: 5.54 Mbit/s and 5.2 %, 5.61 and 23.4 %
        let cubic = Measures {
            busy_us: 1_444_043,
            segments: 1000,
            retransmitted: 52,
            ..measures()
        };
        let bbr = Measures {
            busy_us: 1_426_025,
            segments: 1000,
            retransmitted: 234,
            ..measures()
        };
        assert!(nats(&cubic) - nats(&bbr) > 0.19);
        let free = RewardSettings {
            gamma: 0.0,
            ..RewardSettings::default()
        };
        assert!(bbr.reward(&free).unwrap().nats > cubic.reward(&free).unwrap().nats);
    }

    #[test]
    fn slow_reader_is_not_charged() {
        let slow = Measures {
            busy_us: 5_000_000,
            window_limited_us: 4_000_000,
            ..measures()
        };
        assert!((nats(&slow) - nats(&measures())).abs() < 1e-12);
    }

    #[test]
    fn rtt_growth_within_dead_zone_counts_little() {
        let near = Measures {
            srtt_us: 40,
            min_rtt_us: 20,
            ..measures()
        };
        let still = Measures {
            srtt_us: 20,
            min_rtt_us: 20,
            ..measures()
        };
        assert!(nats(&still) - nats(&near) < 0.03);
        let standing = Measures {
            srtt_us: 40_000,
            ..measures()
        };
        assert!((nats(&measures()) - nats(&standing) - 0.1 * 2f64.ln()).abs() < 1e-3);
    }

    #[test]
    fn never_busy_connection_is_rejected() {
        let idle = Measures {
            busy_us: 10,
            window_limited_us: 8,
            buffer_limited_us: 2,
            ..measures()
        };
        assert_eq!(
            idle.reward(&RewardSettings::default()),
            Err(NoSample::NotBusy)
        );
        let short = Measures {
            bytes_acked: 16_383,
            ..measures()
        };
        assert_eq!(
            short.reward(&RewardSettings::default()),
            Err(NoSample::Short)
        );
        let lost = Measures {
            retransmitted: 700,
            ..measures()
        };
        assert_eq!(
            lost.reward(&RewardSettings::default()),
            Err(NoSample::Inconsistent)
        );
    }

    #[test]
    fn a_connection_below_four_bdp_counts_less() {
        let weight = |bdp_bytes| {
            Measures {
                bdp_bytes,
                ..measures()
            }
            .reward(&RewardSettings::default())
            .unwrap()
            .weight
        };
        assert_eq!(weight(0), 1.0);
        assert_eq!(weight(500_000), 0.5);
        assert_eq!(weight(1 << 40), 1.0 / 16.0);
    }

    #[test]
    fn timeout_costs_less_if_all_time_out() {
        let mut usual = TimeOuts::default();
        for i in 0..100 {
            usual.count(i % 10 < 9);
        }
        assert!(usual.cost(&RewardSettings::default()) < 0.06);
        assert_eq!(TimeOuts::default().cost(&RewardSettings::default()), 0.5);
    }

    proptest! {
        #[test]
        fn every_reward_is_finite(
            bytes_acked: u64, busy_us: u64, window_limited_us: u64, buffer_limited_us: u64,
            segments: u64, retransmitted: u64, srtt_us: u32, min_rtt_us: u32, bdp_bytes: u64,
        ) {
            let m = Measures {
                bytes_acked, busy_us, window_limited_us, buffer_limited_us, segments, retransmitted,
                srtt_us, min_rtt_us, bdp_bytes,
            };
            if let Ok(reward) = m.reward(&RewardSettings::default()) {
                prop_assert!(reward.nats.is_finite());
                prop_assert!((1.0 / 16.0..=1.0).contains(&reward.weight));
            }
        }
    }
}
