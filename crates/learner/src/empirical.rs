//! Empirical Bayes: estimates the widths of noise, baselines and the spreads between the levels.
//!
//! The spreads are estimated by the method of moments for random effects with weights (DerSimonian and
//! Laird, Controlled Clinical Trials 7, 1986; the two-step form of DerSimonian and Kacker, 2007), pooled
//! over the parents of a level. If children differ by more than their samples explain, it widens.

use crate::gaussian::{Belief, Information};
use crate::path::Widths;
use crate::settings::Model;
use crate::tree::{PathId, Tree};

/// Deviations are cut off at so many standard deviations when a width is learned.
const CUT: f64 = 2.0;

/// The mean of the squares of a standard normal distribution cut off there.
const CUT_MEAN: f64 = 0.9205;

/// A square with the mean `variance`, cut off so that a few extreme ones do not widen the estimate
/// (Huber's "proposal 2", *Robust Statistics*, 1981, 6.4).
fn clipped_square(square: f64, variance: f64) -> f64 {
    square.min(CUT * CUT * variance) / CUT_MEAN
}

/// Running estimate of the noise: squared residuals against the mean of the same path and arm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    pub(crate) sum: f64,
    pub(crate) weight: f64,
}

impl Noise {
    /// Number of samples behind the estimate; older ones fade.
    const MEMORY: f64 = 20_000.0;

    /// Starts with the guess of the settings.
    #[must_use]
    pub fn new(model: &Model) -> Self {
        let weight = 4.0 * model.guess_weight;
        Self {
            sum: weight * model.noise_sd * model.noise_sd,
            weight,
        }
    }

    /// Takes in a residual of a sample of `weight` against an expectation of this variance. Its expected
    /// square is `σ²/weight + variance`. A vague expectation counts little, and so does a path that is a
    /// poor witness (`witness` below 1).
    pub fn observe(&mut self, residual: f64, weight: f64, variance: f64, witness: f64) {
        let keep = 1.0 - 1.0 / Self::MEMORY;
        let now = self.variance();
        let trust = witness * (now / (now + weight * variance)).powi(2);
        let total = now / weight + variance;
        let square = clipped_square(residual * residual, total);
        self.sum = self.sum * keep + trust * weight * (square - variance);
        self.weight = self.weight * keep + trust;
    }

    /// σ².
    #[must_use]
    pub fn variance(&self) -> f64 {
        (self.sum / self.weight).clamp(1e-4, 9.0)
    }
}

/// Moments of one advantage over the children of one parent.
#[derive(Clone, Copy, Debug, Default)]
struct Children {
    count: u32,
    w: f64,
    w2: f64,
    wx: f64,
    wx2: f64,
    wv: f64,
    w2v: f64,
}

impl Children {
    fn add(&mut self, value: f64, variance: f64, spread: f64) {
        let w = 1.0 / (variance + spread * spread);
        self.count += 1;
        self.w += w;
        self.w2 += w * w;
        self.wx += w * value;
        self.wx2 += w * value * value;
        self.wv += w * variance;
        self.w2v += w * w * variance;
    }

    /// Numerator and denominator of τ².
    fn moments(&self) -> (f64, f64) {
        if self.count < 2 {
            return (0.0, 0.0);
        }
        let q = self.wx2 - self.wx * self.wx / self.w;
        (q - (self.wv - self.w2v / self.w), self.w - self.w2 / self.w)
    }
}

/// Moments of all parents of a level.
#[derive(Clone, Copy, Debug, Default)]
struct Parents {
    above: f64,
    below: f64,
    children: f64,
}

impl Parents {
    fn add(&mut self, parent: &[Children]) {
        for advantage in parent {
            let (n, d) = advantage.moments();
            self.above += n;
            self.below += d;
            if d > 0.0 {
                self.children += f64::from(advantage.count - 1);
            }
        }
    }

    /// The level's spread, drawn towards the first guess.
    fn spread(&self, guess: f64, model: &Model) -> f64 {
        if self.below <= 0.0 {
            return guess;
        }
        let weight = model.guess_weight * self.below / f64::max(self.children, 1.0);
        let variance = (self.above + weight * guess * guess) / (self.below + weight);
        let [least, most] = model.spread_bounds;
        variance.max(0.0).sqrt().clamp(least, most)
    }
}

/// Learns the widths from the tree's samples, and recomputes its sums with them.
///
/// # Errors
/// [`crate::linalg::NotPositive`] when a sample is not finite.
pub fn learn_widths<const C: usize>(
    tree: &mut Tree<C>,
    noise: &Noise,
    model: &Model,
    now_s: f64,
) -> Result<(), crate::linalg::NotPositive> {
    tree.widths.noise = noise.variance();
    let mut spread = model.spread;
    for (level, spread) in spread.iter_mut().enumerate() {
        *spread = level_spread(tree, level, model, now_s);
    }
    tree.widths.baseline = baseline(tree, model, now_s);
    tree.set_spread(spread);
    tree.rebuild()
}

/// More paths or parents than this add nothing to a width, and would take seconds.
const ENOUGH: usize = 1 << 16;

/// A path with a lower `witness` does not count for widths. Its samples are cut off again and again,
/// so each time it seems to differ a little from its group, and never enough to be left out.
const CALM_MIN: f64 = 0.5;

/// The spread of the children of this level around their parents. A group's children are paths.
fn level_spread<const C: usize>(tree: &Tree<C>, level: usize, model: &Model, now_s: f64) -> f64 {
    let mut all = Parents::default();
    let parents = (0..tree.nodes.len() as u32).filter(|id| {
        let node = &tree.nodes[*id as usize];
        node.live && usize::from(node.level) == level + 1
    });
    for id in parents.step_by(1 + tree.nodes.len() / ENOUGH) {
        let Ok(expected) = tree.belief_of_node(id) else {
            continue;
        };
        let mut parent = Parent {
            expected,
            children: [Children::default(); C],
            spread: tree.spread[level],
            guess: model.spread[level],
            // Groups are of different kinds more often than paths of one group are.
            far_max: model.outlier_sd * if level == 0 { 1.0 } else { 2.0 },
            model,
        };
        if level == 0 {
            for path in tree.paths_of(id).filter(|id| tree.calm(*id) > CALM_MIN) {
                let evidence = tree.evidence_at(path, now_s);
                parent.note(&evidence.likelihood(&tree.widths, 1.0));
            }
        } else {
            tree.children(id)
                .for_each(|child| parent.note(&tree.own_sum(child)));
        }
        all.add(&parent.children);
    }
    all.spread(model.spread[level], model)
}

/// The children of one parent.
struct Parent<'a, const C: usize> {
    /// The belief about the parent's advantages.
    expected: Belief<C>,
    children: [Children; C],
    spread: f64,
    guess: f64,
    /// In standard deviations.
    far_max: f64,
    model: &'a Model,
}

impl<const C: usize> Parent<'_, C> {
    /// Notes a child's own knowledge, as far as it has any. A child extremely far from its parent is
    /// left out: otherwise one extreme liar would make all lies look likely.
    fn note(&mut self, own: &Information<C>) {
        // A prior of a hundredth of a sample, so untried arms leave the matrix regular.
        let mut vague = Information::isotropic(0.0, 5.0);
        vague.add(own, 1.0);
        let Ok(belief) = vague.belief() else { return };
        let wide = self.model.prior_sd * self.model.prior_sd;
        for advantage in 0..C {
            let (mean, variance) = (belief.mean[advantage], belief.variance(advantage));
            let expected = self.expected.variance(advantage);
            let around = variance + self.spread * self.spread + expected;
            let far = (mean - self.expected.mean[advantage]).abs() / around.sqrt();
            // A child vaguer than the prior says nothing.
            if variance < wide && far < self.far_max {
                self.children[advantage].add(mean, variance, self.guess);
            }
        }
    }
}

/// τ_b²: the variance between paths, the same for all arms. The regression has removed their mean.
fn baseline<const C: usize>(tree: &mut Tree<C>, model: &Model, now_s: f64) -> f64 {
    let guess = model.baseline_sd * model.baseline_sd;
    let (mut sum, mut weight) = (model.guess_weight * guess, model.guess_weight);
    let wide = Widths {
        baseline: 1e4,
        ..tree.widths
    };
    let step = 1 + tree.paths.len() / ENOUGH;
    for id in (0..tree.paths.len() as u32).step_by(step) {
        let id = PathId(id);
        let live = tree.paths[id.0 as usize].live();
        if !live || tree.calm(id) <= CALM_MIN || tree.own_weight(id, now_s) < 0.5 {
            continue;
        }
        let Ok((now, prior)) = tree.now_and_prior(id, now_s) else {
            continue;
        };
        if let Ok(default) = now.evidence.expected(0, &prior, &wide) {
            let w = (guess / (default.variance + guess)).powi(2);
            let total = tree.widths.baseline + default.variance;
            let square = clipped_square(default.mean * default.mean, total);
            sum += w * (square - default.variance);
            weight += w;
        }
    }
    (sum / weight).clamp(0.01, 9.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_is_recovered_despite_noise() {
        for (truth, deviation) in [(0.1, 0.05), (0.3, 0.2), (0.8, 0.3)] {
            let points = crate::choice::normal_quantile;
            let mut parent = [Children::default(); 1];
            for i in 0..400 {
                let theta = truth * points((0.5 + f64::from(i) * 0.618_034).fract());
                let noise = deviation * points((0.5 + f64::from(i) * 0.754_878).fract());
                parent[0].add(theta + noise, deviation * deviation, 0.25);
            }
            let mut all = Parents::default();
            all.add(&parent);
            let found = all.spread(0.25, &Model::default());
            assert!((found / truth - 1.0).abs() < 0.15, "{truth}: {found}");
        }
    }

    #[test]
    fn noise_is_recovered_despite_outliers() {
        let found = |wild: u32| {
            let mut noise = Noise::new(&Model::default());
            for i in 0..20_000u32 {
                let z = crate::choice::normal_quantile((0.5 + f64::from(i) * 0.618_034).fract());
                let residual = if i % 20 < wild { 3.0 } else { 0.3 * z };
                noise.observe(residual, 1.0, 0.0, 1.0);
            }
            noise.variance().sqrt()
        };
        assert!((found(0) - 0.3).abs() < 0.01, "{}", found(0));
        assert!((found(1) - 0.3).abs() < 0.06, "{}", found(1));
    }

    #[test]
    fn without_children_the_guess_stays() {
        assert_eq!(Parents::default().spread(0.25, &Model::default()), 0.25);
    }
}
