//! From a belief to the arms' shares: Thompson sampling with fixed points, floors and the ledger.
//!
//! Thompson sampling gives each arm its probability of being the best. This probability is
//! counted over 64 fixed quasi-random points, so equal beliefs give equal shares and no random
//! number is needed; the connection's own draw comes later ([`crate::draw`]).

use crate::gaussian::Belief;
use crate::ledger::Ledger;
use crate::linalg::{cholesky, forward};
use crate::settings::Choice;
use crate::{MAX_ADVANTAGES, MAX_ARMS};

/// Number of points to represent the normal distribution.
pub const POINTS: usize = 64;

/// Standard normal points in seven dimensions, one array for each dimension: so the compiler can work on
/// several points at a time.
#[derive(Clone, Debug)]
pub struct Points([[f32; POINTS]; MAX_ADVANTAGES]);

/// The shares of the arms for one path's next connections, and their expected cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Probability of each arm; sums to 1, zero beyond the learner's arms.
    pub shares: [f64; MAX_ARMS],
    /// Each arm's probability of being the best, before floors and ledger.
    pub best: [f64; MAX_ARMS],
    /// Expected nats lost against the default per connection, before the ledger.
    pub loss: f64,
    /// Expected nats won against the default per connection, before the ledger.
    pub win: f64,
    /// The part of the learner's own shares allowed by the ledger.
    pub allowed: f64,
}

impl Plan {
    /// The default arm for all.
    pub const DEFAULT: Self = {
        let mut shares = [0.0; MAX_ARMS];
        shares[0] = 1.0;
        Self {
            shares,
            best: shares,
            loss: 0.0,
            win: 0.0,
            allowed: 0.0,
        }
    };
}

impl Default for Points {
    fn default() -> Self {
        Self::new()
    }
}

impl Points {
    /// Roberts' R sequence (*The unreasonable effectiveness of quasirandom sequences*, 2018) through the
    /// normal quantile, then moved and whitened: over the points each dimension has mean 0 and variance 1,
    /// and no two dimensions are correlated.
    #[must_use]
    pub fn new() -> Self {
        const N: usize = MAX_ADVANTAGES;
        let root = golden(N);
        let mut points = [[0.0; N]; POINTS];
        for (i, point) in points.iter_mut().enumerate() {
            for (dimension, x) in point.iter_mut().enumerate() {
                let step = root.powi(-(dimension as i32 + 1));
                *x = normal_quantile((0.5 + step * (i + 1) as f64).fract());
            }
        }
        for dimension in 0..N {
            let mean = points.iter().map(|p| p[dimension]).sum::<f64>() / POINTS as f64;
            points.iter_mut().for_each(|p| p[dimension] -= mean);
        }
        let mut factor = [0.0; N * N];
        for i in 0..N {
            for j in 0..N {
                factor[i * N + j] = points.iter().map(|p| p[i] * p[j]).sum::<f64>() / POINTS as f64;
            }
        }
        // 64 points, different in all seven dimensions: their covariance is positive definite (a test
        // checks this), so this cannot fail.
        if cholesky(&mut factor, N, N).is_ok() {
            points.iter_mut().for_each(|p| forward(&factor, N, N, p));
        }
        Self(std::array::from_fn(|dimension| {
            points.map(|point| point[dimension] as f32)
        }))
    }
}

/// The root of x^(d+1) = x + 1: the golden ratio's cousin in `d` dimensions.
fn golden(d: usize) -> f64 {
    (0..64).fold(1.5, |x: f64, _| (1.0 + x).powf(1.0 / (d as f64 + 1.0)))
}

/// Quantile of the standard normal distribution, good to 1.2e-9 (Acklam's rational approximation).
#[must_use]
pub fn normal_quantile(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 6] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 5] = [
        7.784_695_709_041_462e-3,
        3.224_671_290_700_398e-1,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
        1.0,
    ];
    let poly = |c: &[f64], x: f64| c.iter().fold(0.0, |sum, c| sum * x + c);
    let tail = 0.024_25;
    if p < tail {
        let q = (-2.0 * p.max(f64::MIN_POSITIVE).ln()).sqrt();
        poly(&C, q) / poly(&D, q)
    } else if p > 1.0 - tail {
        -normal_quantile(1.0 - p)
    } else {
        let q = p - 0.5;
        poly(&A, q * q) * q / poly(&B, q * q)
    }
}

/// Counts over the points: how often each arm is the best with the default's bonus, how often it is drawn
/// from the narrowed belief, and its expected loss and win against the default.
#[derive(Default)]
struct Tally {
    best: [f64; MAX_ARMS],
    drawn: [f64; MAX_ARMS],
    loss: [f64; MAX_ARMS],
    win: [f64; MAX_ARMS],
}

/// The arm with the highest advantage at each point, if the default's is `bonus`; the first of equals.
struct Highest {
    value: [f32; POINTS],
    arm: [u32; POINTS],
}

impl Highest {
    fn new(bonus: f64) -> Self {
        Self {
            value: [bonus as f32; POINTS],
            arm: [0; POINTS],
        }
    }

    fn challenge(&mut self, arm: u32, x: &[f32; POINTS]) {
        for ((x, value), best) in x.iter().zip(&mut self.value).zip(&mut self.arm) {
            let better = *x > *value;
            *value = if better { *x } else { *value };
            *best = if better { arm } else { *best };
        }
    }

    fn shares(&self, arms: usize) -> [f64; MAX_ARMS] {
        let mut shares = [0.0; MAX_ARMS];
        for (arm, share) in shares.iter_mut().enumerate().take(arms) {
            let wins = |sum: u32, a: &u32| sum + u32::from(*a == arm as u32);
            *share = f64::from(self.arm.iter().fold(0, wins)) / POINTS as f64;
        }
        shares
    }
}

fn sum(x: &[f32; POINTS], each: impl Fn(f32) -> f32) -> f64 {
    let mut lanes = [0f32; 8];
    for chunk in x.chunks_exact(8) {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane += each(*x);
        }
    }
    lanes.iter().map(|x| f64::from(*x)).sum::<f64>() / POINTS as f64
}

fn tally<const C: usize>(belief: &Belief<C>, points: &Points, settings: &Choice) -> Tally {
    let mut tally = Tally::default();
    let (mut best, mut drawn) = (Highest::new(settings.bonus), Highest::new(settings.bonus));
    for arm in 1..=C {
        let mean = belief.mean[arm - 1] as f32;
        // Deviations from the mean: a row of L⁻ᵀ times the points.
        let row = belief.deviations(arm - 1);
        let mut away = [0f32; POINTS];
        for (factor, points) in row.iter().zip(&points.0).skip(arm - 1) {
            let factor = *factor as f32;
            away.iter_mut()
                .zip(points)
                .for_each(|(x, z)| *x += factor * z);
        }
        let width = settings.width as f32;
        drawn.challenge(arm as u32, &away.map(|x| mean + width * x));
        let x = away.map(|x| mean + x);
        best.challenge(arm as u32, &x);
        tally.win[arm] = sum(&x, |x| x.max(0.0));
        tally.loss[arm] = sum(&x, |x| (-x).max(0.0));
    }
    tally.best = best.shares(C + 1);
    tally.drawn = drawn.shares(C + 1);
    tally
}

/// Raises the shares below their floor; the others give in proportion. `own` is the path's belief
/// without its neighbours: if only the neighbours speak against an arm, it is still tried now and
/// then. Otherwise the path could never find out that they lie.
fn raise<const C: usize>(
    tally: &Tally,
    own: impl FnOnce() -> Belief<C>,
    settings: &Choice,
) -> [f64; MAX_ARMS] {
    let highest = |a: usize| {
        if a == 0 {
            settings.floor_default
        } else {
            settings.floor_other
        }
    };
    // The usual case for a path with few samples: no share has to be raised, whatever the floors.
    if (0..=C).all(|a| tally.drawn[a] >= highest(a)) {
        return tally.drawn;
    }
    let own = own();
    let best = own.mean.iter().copied().fold(0.0, f64::max);
    let hopeful = |a: usize| {
        own.mean[a - 1] + settings.hopeful_sd * own.variance(a - 1).sqrt() > best + settings.bonus
    };
    let floor = |a: usize| match a {
        0 => settings.floor_default,
        _ if hopeful(a) => settings.floor_other,
        _ => 0.0,
    };
    let mut shares = tally.drawn;
    let lifted: f64 = (0..=C).map(|a| (floor(a) - tally.drawn[a]).max(0.0)).sum();
    let spare: f64 = (0..=C).map(|a| (tally.drawn[a] - floor(a)).max(0.0)).sum();
    for (a, share) in shares.iter_mut().enumerate().take(C + 1) {
        let over = tally.drawn[a] - floor(a);
        *share = floor(a) + over.max(0.0) * (1.0 - lifted / spare);
    }
    shares
}

/// The shares for a path with this belief in a group with this ledger. `own` gives the belief without the
/// neighbours, and is called only if they matter.
#[must_use]
pub fn plan<const C: usize>(
    belief: &Belief<C>,
    own: impl FnOnce() -> Belief<C>,
    ledger: &Ledger,
    points: &Points,
    settings: &Choice,
) -> Plan {
    let tally = tally(belief, points, settings);
    let mut shares = raise(&tally, own, settings);
    let weigh = |x: &[f64; MAX_ARMS]| shares.iter().zip(x).map(|(p, x)| p * x).sum::<f64>();
    let (loss, win) = (weigh(&tally.loss), weigh(&tally.win));
    let allowed = ledger.allows(loss, settings);
    for share in &mut shares {
        *share *= allowed;
    }
    shares[0] += 1.0 - allowed;
    Plan {
        shares,
        best: tally.best,
        loss,
        win,
        allowed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gaussian::Information;
    use proptest::prelude::*;

    fn belief<const C: usize>(means: &[f64; C], sd: f64) -> Belief<C> {
        let mut known = Information::isotropic(0.0, sd);
        for (shift, mean) in known.shift.iter_mut().zip(means) {
            *shift = mean / (sd * sd);
        }
        known.belief().unwrap()
    }

    fn shares<const C: usize>(means: &[f64; C], sd: f64) -> [f64; MAX_ARMS] {
        let settings = Choice::default();
        let belief = belief(means, sd);
        plan(
            &belief,
            || belief,
            &Ledger::new(&settings),
            &Points::new(),
            &settings,
        )
        .shares
    }

    #[test]
    fn the_quantile_is_that_of_the_tables() {
        for (p, x) in [(0.5, 0.0), (0.975, 1.959_963_985), (0.001, -3.090_232_306)] {
            assert!((normal_quantile(p) - x).abs() < 1e-8, "{p}");
        }
    }

    #[test]
    fn points_have_zero_mean_and_identity_covariance() {
        let points = Points::new().0.map(|x| x.map(f64::from));
        for dimension in &points {
            assert!(dimension.iter().sum::<f64>().abs() < 1e-5);
        }
        for i in 0..MAX_ADVANTAGES {
            for j in 0..=i {
                let products = points[i].iter().zip(&points[j]).map(|(a, b)| a * b);
                let dot = products.sum::<f64>() / POINTS as f64;
                let expected = f64::from(u8::from(i == j));
                assert!(
                    (dot - expected).abs() < if i == j { 1e-6 } else { 0.2 },
                    "{i} {j} {dot}"
                );
            }
        }
    }

    #[test]
    fn surely_better_arm_gets_all_but_the_floor() {
        let shares = shares(&[0.8, -0.4], 0.05);
        assert_eq!(shares[0], Choice::default().floor_default);
        assert!((shares[1] - 0.99).abs() < 1e-12 && shares[2] == 0.0);
    }

    #[test]
    fn nothing_moves_for_less_than_the_bonus() {
        assert_eq!(shares(&[0.01], 0.001)[0], 1.0);
        assert!(shares(&[0.04], 0.001)[1] > 0.97);
    }

    #[test]
    fn an_empty_ledger_leaves_the_default() {
        let settings = Choice {
            ledger_start: 0.0,
            ..Choice::default()
        };
        let ledger = Ledger::new(&settings);
        let belief = belief(&[-0.3], 0.6);
        let plan = plan(&belief, || belief, &ledger, &Points::new(), &settings);
        assert!(plan.allowed < 0.15 && plan.shares[0] > 0.9, "{plan:?}");
    }

    #[test]
    fn arm_bad_only_for_neighbours_is_tried() {
        let settings = Choice::default();
        let (told, own) = (belief(&[-2.0], 0.05), belief(&[-0.1], 0.5));
        let ledger = Ledger::new(&settings);
        let share = |own| plan(&told, || own, &ledger, &Points::new(), &settings).shares[1];
        assert_eq!(share(own), settings.floor_other);
        assert_eq!(share(told), 0.0);
    }

    fn are_probabilities<const C: usize>(means: &[f64], sd: f64) -> Result<(), TestCaseError> {
        let shares = shares::<C>(means.first_chunk().unwrap(), sd);
        prop_assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        prop_assert!(shares.iter().all(|p| (0.0..=1.0 + 1e-9).contains(p)));
        prop_assert!(shares[0] >= 0.01 - 1e-12);
        Ok(())
    }

    proptest! {
        #[test]
        fn shares_are_probabilities_with_a_default_floor(
            means in prop::array::uniform7(-2.0f64..2.0), sd in 0.001f64..2.0,
        ) {
            are_probabilities::<0>(&means, sd)?;
            are_probabilities::<1>(&means, sd)?;
            are_probabilities::<3>(&means, sd)?;
            are_probabilities::<MAX_ADVANTAGES>(&means, sd)?;
        }
    }
}
