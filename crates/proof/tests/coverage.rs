//! The sequence in simulated trials: how often it is wrong when somebody looks after every pair.
#![allow(clippy::unwrap_used, reason = "tests")]

use tcpilot_proof::{Pair, Pairs, Sequence};
use tcpilot_random::Random;

/// The result of one trial.
struct Trial {
    /// At some look the interval did not hold the truth.
    missed: bool,
    /// The first look with zero outside.
    shown_at: Option<u64>,
}

fn trial(seed: u64, pairs: u64, mut draw: impl FnMut(&mut Random) -> Pair, truth: f64) -> Trial {
    let (mut random, mut sums) = (Random(seed), Pairs::default());
    let sequence = Sequence::default();
    let mut found = Trial {
        missed: false,
        shown_at: None,
    };
    for n in 1..=pairs {
        sums.add(draw(&mut random));
        let Some(interval) = sums.interval(&sequence) else {
            continue;
        };
        found.missed |= !(interval.low..=interval.high).contains(&truth);
        if found.shown_at.is_none() && (interval.low > 0.0 || interval.high < 0.0) {
            found.shown_at = Some(n);
        }
    }
    found
}

/// Two blocks whose means have a standard deviation of 0.3 each.
fn plain(effect: f64) -> impl FnMut(&mut Random) -> Pair {
    move |random| Pair {
        difference: effect + 0.3 * (random.normal() - random.normal()),
        covariate: 0.0,
    }
}

/// Of 1000 trials 5 % are 50; four standard deviations of a binomial above are 78.  The facts had 4.8 % over
/// 6000 looks.
const MOST_WRONG: usize = 62;

#[test]
fn false_positives_stay_below_five_per_cent() {
    let wrong = (0..1000)
        .filter(|seed| trial(*seed, 6000, plain(0.0), 0.0).shown_at.is_some())
        .count();
    println!("false alarms in 1000 trials of 6000 looks: {wrong}");
    assert!(wrong <= MOST_WRONG, "{wrong}");
    assert!(wrong > 5, "{wrong}: the interval is far too wide");
}

#[test]
fn intervals_cover_truth_at_every_look() {
    // Effect, and pairs after which half of the trials have shown it (0.02: 3450, 0.05: 539, 0.1: 145; the
    // value for 0.3 is from our own run).
    for (effect, pairs, about) in [
        (0.02, 8000, 3450.0),
        (0.05, 3000, 539.0),
        (0.1, 1000, 145.0),
        (0.3, 300, 34.0),
    ] {
        let truth = f64::ln_1p(effect);
        let mut shown: Vec<u64> = Vec::new();
        let mut missed = 0;
        for seed in 0..400 {
            let found = trial(10_000 + seed, pairs, plain(truth), truth);
            missed += usize::from(found.missed);
            shown.push(found.shown_at.unwrap_or(u64::MAX));
        }
        shown.sort_unstable();
        let (median, most) = (shown[200], shown[320]);
        println!(
            "{effect}: missed {missed} of 400, shown by {median} pairs (median), {most} (80 %)"
        );
        assert!(missed <= 37, "{effect}: {missed}");
        assert!(
            (0.75..1.3).contains(&(median as f64 / about)),
            "{effect}: {median}"
        );
    }
}

#[test]
fn covariate_narrows_the_interval_and_keeps_coverage() {
    let draw = |random: &mut Random| {
        let past = 0.25 * random.normal();
        Pair {
            difference: 0.05 + past + 0.15 * random.normal(),
            covariate: past,
        }
    };
    let (mut missed, mut shown) = (0, Vec::new());
    for seed in 0..400 {
        let found = trial(20_000 + seed, 2000, draw, 0.05);
        missed += usize::from(found.missed);
        shown.push(found.shown_at.unwrap_or(u64::MAX));
    }
    shown.sort_unstable();
    println!(
        "with a covariate: missed {missed} of 400, shown by {} pairs (median)",
        shown[200]
    );
    assert!(missed <= 37, "{missed}");
    // Without it the deviation is 0.29, and the median some 500 pairs.
    assert!(shown[200] < 220, "{}", shown[200]);
}

#[test]
fn skewed_block_means_do_not_break_it() {
    // Means of few connections with heavy tails look like exponential numbers. A difference of two has heavy
    // tails too, but no skew, since a coin decides which block comes first.
    let draw = |random: &mut Random| Pair {
        difference: 0.3 * (random.uniform().ln() - random.uniform().ln()),
        covariate: 0.0,
    };
    let wrong = (0..1000)
        .filter(|seed| trial(30_000 + seed, 2000, draw, 0.0).missed)
        .count();
    println!("skewed: missed in {wrong} of 1000");
    assert!(wrong <= MOST_WRONG, "{wrong}");
}

#[test]
fn a_load_that_wanders_does_not_break_it() {
    // Each block is like the one before it; a coin decides which of two neighbours is steered.
    let wrong = (0..1000)
        .filter(|seed| {
            let mut load = 0.0;
            let mut block = move |random: &mut Random| {
                load = 0.95 * load + 0.3 * random.normal();
                load + 0.1 * random.normal()
            };
            let draw = |random: &mut Random| {
                let difference = block(random) - block(random);
                let sign = f64::from(u8::from(random.uniform() < 0.5)) * 2.0 - 1.0;
                Pair {
                    difference: sign * difference,
                    covariate: 0.0,
                }
            };
            trial(60_000 + seed, 2000, draw, 0.0).missed
        })
        .count();
    println!("a load that wanders: missed in {wrong} of 1000");
    assert!(wrong <= MOST_WRONG, "{wrong}");
}
