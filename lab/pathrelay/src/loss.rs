//! Random loss that is the same in each run with the same seed.

use crate::link::Loss;

/// Gilbert's model (Gilbert, "Capacity of a burst-noise channel", BSTJ 39(5), 1960): in the bad state each packet is
/// lost. If packets are lost one by one, each has the same probability. The generator is xorshift64* (Vigna, "An
/// experimental exploration of Marsaglia's xorshift generators, scrambled", ACM TOMS 42(4), 2016).
#[derive(Clone, Copy, Debug)]
pub struct RandomLoss {
    state: u64,
    /// The bad state begins, or one packet is lost, at draws below it; of 2^53.
    enter: u64,
    /// The bad state ends after a packet at draws below it.
    leave: u64,
    is_bad: bool,
}

const SCALE: f64 = (1u64 << 53) as f64;

impl RandomLoss {
    #[must_use]
    pub fn new(loss: Loss, seed: u64) -> RandomLoss {
        let mut random_loss = RandomLoss {
            // Spread, because seeds are small numbers and 0 would stay 0 for ever.
            state: seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            enter: 0,
            leave: 0,
            is_bad: false,
        };
        random_loss.set(loss);
        random_loss
    }

    /// From now on. Draws go on as before.
    pub fn set(&mut self, loss: Loss) {
        let of = |probability: f64| (probability.clamp(0.0, 1.0) * SCALE) as u64;
        self.is_bad = false;
        if loss.burst <= 1.0 || loss.share >= 1.0 {
            (self.enter, self.leave) = (of(loss.share), 0);
            return;
        }
        // Bursts have the mean 1 / leave, and the share of the bad state is enter / (enter + leave).
        let leave = 1.0 / loss.burst;
        let enter = leave * loss.share / (1.0 - loss.share);
        (self.enter, self.leave) = (of(enter), of(leave));
    }

    /// The fate of the next packet.
    pub fn is_lost(&mut self) -> bool {
        if self.enter == 0 && !self.is_bad {
            return false;
        }
        let was_bad = self.is_bad;
        let draw = self.draw();
        if self.leave == 0 {
            return draw < self.enter;
        }
        self.is_bad = if was_bad {
            draw >= self.leave
        } else {
            draw < self.enter
        };
        was_bad
    }

    fn draw(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_what_was_asked_for() {
        for share in [0.0, 0.003, 0.02, 0.5, 1.0] {
            let mut random_loss = RandomLoss::new(Loss { share, burst: 1.0 }, 7);
            let lost = (0..200_000).filter(|_| random_loss.is_lost()).count() as f64;
            // Four standard deviations of a binomial.
            let wide = 4.0 * (200_000.0 * share * (1.0 - share)).sqrt();
            assert!((lost - 200_000.0 * share).abs() <= wide, "{share}: {lost}");
        }
    }

    #[test]
    fn loss_bursts_match_requested_share_and_length() {
        for (share, burst) in [(0.01, 5.0), (0.1, 2.0), (0.003, 20.0)] {
            let mut random_loss = RandomLoss::new(Loss { share, burst }, 7);
            let fates: Vec<bool> = (0..2_000_000).map(|_| random_loss.is_lost()).collect();
            let lost = fates.iter().filter(|&&lost| lost).count() as f64;
            let begun = fates.windows(2).filter(|w| !w[0] && w[1]).count() as f64;
            let (is, length) = (lost / fates.len() as f64, lost / begun);
            // Some 1,000 bursts or more: four standard deviations of their mean length are 13 %.
            assert!((length / burst - 1.0).abs() < 0.13, "{burst}: {length}");
            assert!((is / share - 1.0).abs() < 0.18, "{share}: {is}");
        }
    }

    #[test]
    fn a_change_holds_from_the_next_packet_on() {
        let loss = |share| Loss { share, burst: 3.0 };
        let mut random_loss = RandomLoss::new(loss(1.0), 7);
        assert!((0..100).all(|_| random_loss.is_lost()));
        random_loss.set(loss(0.0));
        assert!((0..100).all(|_| !random_loss.is_lost()));
        random_loss.set(loss(1.0));
        assert!((0..100).all(|_| random_loss.is_lost()));
    }

    #[test]
    fn losses_depend_only_on_the_seed() {
        let fates = |seed| {
            let loss = Loss {
                share: 0.5,
                burst: 1.0,
            };
            let mut random_loss = RandomLoss::new(loss, seed);
            (0..64).map(|_| random_loss.is_lost()).collect::<Vec<_>>()
        };
        assert_eq!(fates(1), fates(1));
        assert_ne!(fates(1), fates(2));
    }
}
