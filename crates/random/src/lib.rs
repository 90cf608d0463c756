//! SplitMix64 (Steele, Lea and Flood, *Fast Splittable Pseudorandom Number Generators*, OOPSLA 2014): its
//! finaliser as a hash, and its stream as random numbers, equal in each run. Nothing secret may depend on the
//! stream: one output gives all others.

/// The increment of the stream: 2^64 over the golden ratio, odd.
pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser: a permutation of 64 bits. Each bit of the input changes each bit of the output with a probability of
/// about one half; 0 stays 0.
#[must_use]
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The first output of the stream with this seed: [`mix`] of the next state.
#[must_use]
pub fn first(seed: u64) -> u64 {
    mix(seed.wrapping_add(STEP))
}

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// A stream for a purpose: streams of different parts do not depend on each other.
    #[must_use]
    pub fn of(parts: &[u64]) -> Random {
        let hash = |h: u64, x: &u64| mix(h ^ x.wrapping_mul(STEP));
        Random(parts.iter().fold(0x243f_6a88_85a3_08d3, hash))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
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

    /// Whole number below `n`; 0 if `n` is 0.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs for seed 1234567, as in the reference implementation's published test vector.
    #[test]
    fn the_stream_is_the_published_one() {
        let mut random = Random(1_234_567);
        let bits = [random.bits(), random.bits(), random.bits()];
        assert_eq!(
            bits,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
        assert_eq!(first(1_234_567), bits[0]);
    }

    #[test]
    fn means_and_variances_are_right() {
        let mut random = Random::of(&[7]);
        let n = 100_000;
        let moments = |draw: &mut dyn FnMut() -> f64| {
            let all: Vec<f64> = (0..n).map(|_| draw()).collect();
            let mean = all.iter().sum::<f64>() / f64::from(n);
            let square = all.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
            (mean, square / f64::from(n))
        };
        let near = |(mean, variance): (f64, f64), wanted: (f64, f64)| {
            assert!((mean - wanted.0).abs() < 0.02, "{mean}");
            assert!((variance - wanted.1).abs() < 0.03, "{variance}");
        };
        near(moments(&mut || random.uniform()), (0.5, 1.0 / 12.0));
        near(moments(&mut || random.normal()), (0.0, 1.0));
        near(moments(&mut || random.exponential()), (1.0, 1.0));
    }

    #[test]
    fn an_index_comes_as_often_as_its_weight() {
        let mut random = Random::of(&[1, 2]);
        let mut counts = [0u32; 3];
        for _ in 0..30_000 {
            counts[random.weighted([1.0, 0.0, 2.0].into_iter())] += 1;
        }
        assert!((9_500..10_500).contains(&counts[0]), "{counts:?}");
        assert_eq!(counts[1], 0);
        assert!((0..1000).all(|_| random.below(3) < 3));
        assert_eq!(random.below(0), 0);
    }
}
