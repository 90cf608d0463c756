//! The simulator's random numbers: SplitMix64 (Steele et al., OOPSLA 2014), the same in each run.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

/// Hashes a seed and the stream's purpose, so that streams do not depend on each other.
pub fn stream(parts: &[u64]) -> Random {
    Random(parts.iter().fold(0x243f_6a88_85a3_08d3, |h, x| {
        mix(h ^ x.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }))
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Random {
    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Uniform, above 0 and below 1.
    pub fn uniform(&mut self) -> f64 {
        ((self.bits() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
    }

    /// Standard normal (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (2.0 * std::f64::consts::PI * self.uniform()).cos()
    }

    /// Exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -self.uniform().ln()
    }

    /// Whole number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        ((self.uniform() * n as f64) as usize).min(n.saturating_sub(1))
    }

    /// Index drawn in proportion to the weights.
    pub fn weighted(&mut self, weights: impl Iterator<Item = f64> + Clone) -> usize {
        let mut rest = self.uniform() * weights.clone().sum::<f64>();
        let last = weights.clone().count().saturating_sub(1);
        weights
            .enumerate()
            .find(|(_, w)| {
                rest -= w;
                rest < 0.0
            })
            .map_or(last, |(i, _)| i)
    }
}
