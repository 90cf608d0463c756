//! The tree against exact inference: the joint distribution of all nodes, solved as one dense system.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::net::Ipv4Addr;

use proptest::prelude::*;
use tcpilot_learner::Settings;
use tcpilot_learner::linalg::{cholesky, solve};
use tcpilot_learner::lineage::{Class, Lineage};
use tcpilot_learner::path::{Evidence, Widths};
use tcpilot_learner::tree::Tree;

const ARMS: usize = 4;
const K: usize = ARMS - 1;

/// One sample: path number, arm, residual, weight.
type Sample = (u32, usize, f64, f64);

/// 16 paths in 8 groups in 4 sites in 2 classes.
fn lineage(path: u32) -> Lineage {
    let peer = Ipv4Addr::new(10, (path >> 2) as u8, (path >> 1) as u8, path as u8);
    let class = Class {
        rtt_octave: (path >> 3) as u8,
        ..Class::default()
    };
    Lineage::of(peer.into(), class, 0)
}

/// Neither caps nor outliers, so only the model counts.
fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.model.path_weight_max = f64::INFINITY;
    settings.model.outlier_sd = f64::INFINITY;
    settings.model.spread = [0.15, 0.25, 0.4, 0.3];
    settings
}

/// The joint distribution in information form. A node has K advantages; each path has a baseline too.
struct Joint {
    n: usize,
    precision: Vec<f64>,
    shift: Vec<f64>,
}

const GLOBAL: usize = 0;

fn node(level: usize, number: u32) -> usize {
    match level {
        3 => 1 + number as usize,
        2 => 3 + number as usize,
        1 => 7 + number as usize,
        _ => 15 + number as usize,
    }
}

const NODES: usize = 31;

const COMMON: usize = NODES * K + 16;

fn baseline(path: u32) -> usize {
    NODES * K + path as usize
}

impl Joint {
    fn of(settings: &Settings, samples: &[Sample]) -> Self {
        let n = COMMON + 1;
        let mut joint = Self {
            n,
            precision: vec![0.0; n * n],
            shift: vec![0.0; n],
        };
        let model = &settings.model;
        // What the advantages have in common is a variable of its own.
        let (all, common) = (model.prior_sd.powi(2), model.prior_correlation);
        joint.term(&[(COMMON, 1.0)], 0.0, all * common);
        for a in 0..K {
            let own = [(GLOBAL * K + a, 1.0), (COMMON, -1.0)];
            joint.term(&own, model.prior_mean, all * (1.0 - common));
            for (level, count) in [(3, 2u32), (2, 4), (1, 8), (0, 16)] {
                for i in 0..count {
                    let parent = if level == 3 {
                        GLOBAL
                    } else {
                        node(level + 1, i >> 1)
                    };
                    let pair = [(node(level, i) * K + a, 1.0), (parent * K + a, -1.0)];
                    joint.term(&pair, 0.0, model.spread[level].powi(2));
                }
            }
        }
        for path in 0..16 {
            // All samples are from one moment, so the load is part of the baseline.
            let variance = model.baseline_sd.powi(2) + model.swing_sd.powi(2);
            joint.term(&[(baseline(path), 1.0)], 0.0, variance);
        }
        for (path, arm, y, weight) in samples {
            let mut terms = vec![(baseline(*path), 1.0)];
            if *arm > 0 {
                terms.push((node(0, *path) * K + arm - 1, 1.0));
            }
            joint.term(&terms, *y, model.noise_sd.powi(2) / weight);
        }
        joint
    }

    /// Adds the knowledge that the sum of the terms is `mean`, with this variance.
    fn term(&mut self, terms: &[(usize, f64)], mean: f64, variance: f64) {
        for (i, x) in terms {
            self.shift[*i] += x * mean / variance;
            for (j, y) in terms {
                self.precision[i * self.n + j] += x * y / variance;
            }
        }
    }

    /// Mean and variance of each advantage of a path.
    fn path(&self, path: u32) -> Vec<(f64, f64)> {
        let mut factor = self.precision.clone();
        cholesky(&mut factor, self.n, self.n).unwrap();
        let mut mean = self.shift.clone();
        solve(&factor, self.n, self.n, &mut mean);
        (0..K)
            .map(|a| {
                let i = node(0, path) * K + a;
                let mut unit = vec![0.0; self.n];
                unit[i] = 1.0;
                solve(&factor, self.n, self.n, &mut unit);
                (mean[i], unit[i])
            })
            .collect()
    }
}

fn tree_of(settings: &Settings, samples: &[Sample]) -> Tree<K> {
    let mut tree = Tree::new(settings);
    for (path, arm, y, weight) in samples {
        let id = tree.path(&lineage(*path), 0.0);
        tree.update(id, 0.0, |s| s.add(*arm, *y, *weight)).unwrap();
    }
    tree
}

/// Numbers of few binary digits: f32 holds their sums exactly.
fn samples() -> impl Strategy<Value = Vec<Sample>> {
    let sample = (0u32..16, 0..ARMS, -128i32..128, 1i32..9)
        .prop_map(|(path, arm, y, w)| (path, arm, f64::from(y) / 64.0, f64::from(w) / 8.0));
    prop::collection::vec(sample, 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn beliefs_are_those_of_the_joint_distribution(samples in samples()) {
        let settings = settings();
        let joint = Joint::of(&settings, &samples);
        let mut tree = tree_of(&settings, &samples);
        for path in [0u32, 5, 15] {
            let id = tree.path(&lineage(path), 0.0);
            let belief = tree.belief(id, 0.0).unwrap();
            for (a, (mean, variance)) in joint.path(path).into_iter().enumerate() {
                prop_assert!((belief.mean[a] - mean).abs() < 1e-6, "{} {mean}", belief.mean[a]);
                prop_assert!((belief.variance(a) - variance).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn an_unseen_path_is_a_path_without_samples(samples in samples()) {
        let settings = settings();
        let known: Vec<_> = samples.into_iter().filter(|s| s.0 != 6).collect();
        let mut tree = tree_of(&settings, &known);
        let (belief, _) = tree.belief_of_unseen(&lineage(6), 0.0).unwrap();
        for (a, (mean, variance)) in Joint::of(&settings, &known).path(6).into_iter().enumerate() {
            prop_assert!((belief.mean[a] - mean).abs() < 1e-6);
            prop_assert!((belief.variance(a) - variance).abs() < 1e-6);
        }
    }

    #[test]
    fn recomputed_sums_equal_incremental_ones(samples in samples(), gone in 0u32..16) {
        let mut tree = tree_of(&settings(), &samples);
        tree.remove(&lineage(gone).path).unwrap();
        let (before, _) = tree.belief_of_unseen(&lineage(gone), 0.0).unwrap();
        tree.rebuild().unwrap();
        let (after, _) = tree.belief_of_unseen(&lineage(gone), 0.0).unwrap();
        for a in 0..K {
            prop_assert!((before.mean[a] - after.mean[a]).abs() < 1e-6);
            prop_assert!((before.variance(a) - after.variance(a)).abs() < 1e-6);
        }
    }

    /// A path alone, with independent advantages of the same width, has the closed form
    /// `q = W/σ² + 1/V`, `μ = (W/σ²·(ȳ − b̂) + m/V)/q`, `s² = 1/q + (W/(σ²q))²·v_b`.
    #[test]
    fn a_lone_path_has_the_closed_form(samples in samples()) {
        let mut settings = settings();
        settings.model.prior_correlation = 0.0;
        let lone: Vec<_> = samples.into_iter().map(|s| (0, s.1, s.2, s.3)).collect();
        let mut tree = tree_of(&settings, &lone);
        let id = tree.path(&lineage(0), 0.0);
        let belief = tree.belief(id, 0.0).unwrap();
        let model = &settings.model;
        let v = model.prior_sd.powi(2) + model.spread.iter().map(|t| t * t).sum::<f64>();
        let noise = model.noise_sd.powi(2);
        let of = |a: usize| lone.iter().filter(move |s| s.1 == a);
        let weight = |a: usize| of(a).map(|s| s.3).sum::<f64>();
        let mean = |a: usize| of(a).map(|s| s.2 * s.3).sum::<f64>() / weight(a);
        let varies = model.baseline_sd.powi(2) + model.swing_sd.powi(2);
        let (mut c_sum, mut cy) = (1.0 / varies, 0.0);
        for a in (0..ARMS).filter(|a| weight(*a) > 0.0) {
            let (m, v) = if a == 0 { (0.0, 0.0) } else { (model.prior_mean, v) };
            let c = 1.0 / (noise / weight(a) + v);
            c_sum += c;
            cy += c * (mean(a) - m);
        }
        let (b, v_b) = (cy / c_sum, 1.0 / c_sum);
        for a in 1..ARMS {
            let w = weight(a) / noise;
            let q = w + 1.0 / v;
            let off = if w > 0.0 { mean(a) - b } else { 0.0 };
            let above = w * off + model.prior_mean / v;
            prop_assert!((belief.mean[a - 1] - above / q).abs() < 1e-6);
            prop_assert!((belief.variance(a - 1) - (1.0 / q + (w / q).powi(2) * v_b)).abs() < 1e-6);
        }
    }
}

#[test]
fn knowledge_fades_towards_the_prior() {
    let settings = settings();
    let mut tree = Tree::<1>::new(&settings);
    let id = tree.path(&lineage(0), 0.0);
    for _ in 0..50 {
        tree.update(id, 0.0, |s| s.add(0, 0.0, 1.0)).unwrap();
        tree.update(id, 0.0, |s| s.add(1, 1.0, 1.0)).unwrap();
    }
    let at = |tree: &mut Tree<1>, hours: f64| tree.belief(id, hours * 3600.0).unwrap().mean[0];
    let means = [0.0, 6.0, 48.0, 480.0].map(|hours| at(&mut tree, hours));
    assert!(
        means.windows(2).all(|pair| pair[0] > pair[1] + 0.01),
        "{means:?}"
    );
    assert!((means[3] - settings.model.prior_mean).abs() < 0.01);
}

#[test]
fn busy_path_is_capped_in_its_group() {
    let mut settings = settings();
    settings.model.path_weight_max = 16.0;
    let seen_by_neighbour = |samples: u32| {
        let mut tree = Tree::<1>::new(&settings);
        let id = tree.path(&lineage(0), 0.0);
        for _ in 0..samples {
            tree.update(id, 0.0, |s| s.add(0, 0.0, 1.0)).unwrap();
            tree.update(id, 0.0, |s| s.add(1, 1.0, 1.0)).unwrap();
        }
        tree.belief_of_unseen(&lineage(1), 0.0).unwrap().0.mean[0]
    };
    assert!(seen_by_neighbour(2) < seen_by_neighbour(8) - 0.01);
    assert!((seen_by_neighbour(8) - seen_by_neighbour(10_000)).abs() < 1e-3);
}

#[test]
fn lying_path_moves_neighbours_within_bounds() {
    let mut settings = settings();
    settings.model.outlier_sd = 2.0;
    let with_a_lie = |lie: f64| {
        let honest: Vec<Sample> = (0..400)
            .map(|i| (1 + i % 3, (i % 2) as usize, f64::from(i % 2) * 0.5, 1.0))
            .collect();
        let mut tree = tree_of(&settings, &honest);
        let id = tree.path(&lineage(0), 0.0);
        for _ in 0..200 {
            tree.update(id, 0.0, |s| s.add(0, 0.0, 1.0)).unwrap();
            tree.update(id, 0.0, |s| s.add(1, lie, 1.0)).unwrap();
        }
        let id = tree.path(&lineage(1), 0.0);
        tree.belief(id, 0.0).unwrap().mean[0]
    };
    let honest = with_a_lie(0.5);
    assert!(
        (with_a_lie(-1000.0) - honest).abs() < 0.15,
        "{honest} {}",
        with_a_lie(-1000.0)
    );
}

/// A path with samples one after another: the load at each is a variable of its own, with the
/// covariance of an Ornstein-Uhlenbeck process.
#[test]
fn evidence_matches_the_joint_process() {
    let widths = Widths {
        noise: 0.25,
        baseline: 0.64,
        swing: 0.16,
        swing_s: 600.0,
    };
    let samples: Vec<(f64, usize, f64, f64)> = (0..40)
        .map(|i| {
            let gap = [5.0, 30.0, 700.0, 90.0][i % 4];
            (
                gap,
                i % 3,
                ((i * 37) % 64) as f64 / 32.0 - 1.0,
                [1.0, 0.5][i % 2],
            )
        })
        .collect();
    let mut evidence = Evidence::<2>::NONE;
    let mut at = Vec::new();
    for (gap, arm, y, weight) in &samples {
        evidence.wait(*gap, &widths);
        evidence.add(*arm, *y, *weight);
        at.push(at.last().unwrap_or(&0.0) + gap);
    }
    let found = evidence.likelihood(&widths, 1.0);
    // y = X θ + r with r ~ N(0, C): precision Xᵀ C⁻¹ X, shift Xᵀ C⁻¹ y.
    let n = samples.len();
    let mut c = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..n {
            let load = widths.swing * (-f64::abs(at[i] - at[j]) / widths.swing_s).exp();
            c[i * n + j] = widths.baseline + load;
        }
        c[i * (n + 1)] += widths.noise / samples[i].3;
    }
    cholesky(&mut c, n, n).unwrap();
    let column = |f: &dyn Fn(usize) -> f64| (0..n).map(f).collect::<Vec<f64>>();
    let y = column(&|i| samples[i].2);
    for a in 1..3 {
        let mut solved = column(&|i| f64::from(u8::from(samples[i].1 == a)));
        solve(&c, n, n, &mut solved);
        let dot = |v: &[f64]| solved.iter().zip(v).map(|(s, v)| s * v).sum::<f64>();
        assert!((found.shift[a - 1] - dot(&y)).abs() < 1e-9);
        for b in 1..3 {
            let x = column(&|i| f64::from(u8::from(samples[i].1 == b)));
            let precision = found.precision[a - 1][b - 1];
            assert!((precision - dot(&x)).abs() < 1e-9, "{a} {b}");
        }
    }
}
