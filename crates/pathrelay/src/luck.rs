//! Random loss that is the same in each run with the same seed.

/// Loses each packet with the same probability, independently: a generator xorshift64* (Vigna, "An experimental
/// exploration of Marsaglia's xorshift generators, scrambled", ACM TOMS 42(4), 2016).
#[derive(Clone, Copy, Debug)]
pub struct Luck {
    state: u64,
    /// Losses are draws below it; of 2^53.
    below: u64,
}

const SCALE: f64 = (1u64 << 53) as f64;

impl Luck {
    /// `share`: 0 to 1.
    #[must_use]
    pub fn new(share: f64, seed: u64) -> Luck {
        Luck {
            // Spread, because seeds are small numbers and 0 would stay 0 for ever.
            state: seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            below: (share.clamp(0.0, 1.0) * SCALE) as u64,
        }
    }

    /// The fate of the next packet.
    pub fn is_lost(&mut self) -> bool {
        if self.below == 0 {
            return false;
        }
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11 < self.below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_what_was_asked_for() {
        for share in [0.0, 0.003, 0.02, 0.5, 1.0] {
            let mut luck = Luck::new(share, 7);
            let lost = (0..200_000).filter(|_| luck.is_lost()).count() as f64;
            // Four standard deviations of a binomial.
            let wide = 4.0 * (200_000.0 * share * (1.0 - share)).sqrt();
            assert!((lost - 200_000.0 * share).abs() <= wide, "{share}: {lost}");
        }
    }

    #[test]
    fn a_seed_gives_the_same_losses_again_and_another_seed_others() {
        let fates = |seed| {
            let mut luck = Luck::new(0.5, seed);
            (0..64).map(|_| luck.is_lost()).collect::<Vec<_>>()
        };
        assert_eq!(fates(1), fates(1));
        assert_ne!(fates(1), fates(2));
    }
}
