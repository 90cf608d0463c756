//! The forecast of the first interval, against the truth of simulated hosts; and how soon a trial answers.
#![allow(clippy::unwrap_used, reason = "tests")]

use tcpilot_proof::{Outcome, Pace, Schedule, Sequence, Trial, trial::Terms};
use tcpilot_random::Random;

const HOSTS: u64 = 200;
const DAY_S: f64 = 86_400.0;
/// A host without an interval after this time is not counted.
const LONGEST_S: u64 = 60 * 86_400;
/// The clock of the hosts begins here: a moment within a pair.
const BEGIN_S: u64 = 1_795_000_000;

/// A host: the mean rate of connections of each group, and how much the rate swings over a day.
struct Host {
    schedule: Schedule,
    groups: Vec<f64>,
    swing: f64,
    phase: f64,
    random: Random,
}

fn log_uniform(random: &mut Random, low: f64, high: f64) -> f64 {
    low * (high / low).powf(random.uniform())
}

impl Host {
    fn new(seed: u64) -> Host {
        let mut random = Random(1000 + seed);
        let is_trial = seed % 2 == 0;
        let schedule = Schedule {
            block_s: 300,
            settle_s: 30,
            ..Schedule::by_time(if is_trial { 1.0 } else { 0.1 }, [seed, 7])
        };
        let count = log_uniform(&mut random, 1.0, 40.0) as usize;
        let rates = (0..count).map(|_| log_uniform(&mut random, 0.3 / 60.0, 30.0 / 60.0));
        Host {
            schedule,
            groups: rates.collect(),
            swing: 0.7 * random.uniform(),
            phase: random.uniform(),
            random,
        }
    }

    /// The rate of a group's connections at a time.
    fn rate(&self, group: usize, at_s: u64) -> f64 {
        let angle = std::f64::consts::TAU * (at_s as f64 / DAY_S + self.phase);
        self.groups[group] * (1.0 + self.swing * angle.sin())
    }
}

/// A count with Poisson's distribution; more than a few hundred are as good as a few hundred here.
fn poisson(random: &mut Random, mean: f64) -> u64 {
    let limit = (-mean.min(400.0)).exp();
    let (mut count, mut product) = (0, random.uniform());
    while product > limit {
        count += 1;
        product *= random.uniform();
    }
    count
}

/// What somebody saw who looked after this time.
struct Look {
    at_s: u64,
    forecast_s: Option<u64>,
}

/// The time of the first interval, and the forecasts before.
fn run(host: &mut Host) -> Option<(u64, Vec<Look>)> {
    let (mut trial, terms) = (Trial::default(), Terms::default());
    let mut counts = vec![0u64; host.groups.len()];
    let (mut looks, schedule) = (Vec::new(), host.schedule);
    let step_s = 30;
    for at_s in (BEGIN_S..BEGIN_S + LONGEST_S).step_by(step_s) {
        let elapsed_s = at_s - BEGIN_S;
        let pairs = trial.host.effects.goodput.count;
        if pairs >= Sequence::LEAST {
            return Some((elapsed_s, looks));
        }
        if elapsed_s % 600 == 0 && elapsed_s > 0 {
            let rates = counts.iter().map(|count| *count as f64 / elapsed_s as f64);
            let pace = Pace::of(&schedule, terms.least, rates, pairs, elapsed_s);
            let missing = Sequence::LEAST - pairs;
            let forecast_s = pace.and_then(|pace| pace.seconds_for(missing));
            looks.push(Look {
                at_s: elapsed_s,
                forecast_s,
            });
        }
        for (group, seen) in counts.iter_mut().enumerate() {
            let mean = host.rate(group, at_s) * step_s as f64;
            let opened = poisson(&mut host.random, mean);
            *seen += opened;
            for _ in 0..opened.min(6) {
                let outcome = outcome(&mut host.random);
                trial.take(group as u64, at_s, &outcome, &schedule, &terms);
            }
        }
        trial.close_until(at_s, &schedule, &terms);
    }
    None
}

fn outcome(random: &mut Random) -> Outcome {
    let goodput_nats = 14.0 + 0.8 * random.normal();
    Outcome {
        bytes: 1 << 20,
        goodput_nats,
        duration_nats: -goodput_nats,
        retransmitted: 0.01,
        inflation_nats: 0.1,
        expected_nats: 0.0,
    }
}

/// By which factor a forecast is wrong, whether too long or too short.
fn factor(forecast_s: u64, truth_s: u64) -> f64 {
    let ratio = forecast_s.max(1) as f64 / truth_s.max(1) as f64;
    ratio.max(1.0 / ratio)
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

#[test]
fn time_to_first_interval_is_forecast_within_half() {
    let found: Vec<(u64, Vec<Look>)> = (0..HOSTS)
        .filter_map(|seed| run(&mut Host::new(seed)))
        .collect();
    let counted = found.len();
    // The first look at a fresh host, and one at half of the time.
    let first = |looks: &[Look], _: u64| looks.first().map(|look| (look.at_s, look.forecast_s));
    let half = |looks: &[Look], truth_s: u64| {
        let look = looks.iter().rfind(|look| look.at_s <= truth_s / 2)?;
        Some((look.at_s, look.forecast_s))
    };
    type At = fn(&[Look], u64) -> Option<(u64, Option<u64>)>;
    for (name, at) in [
        ("after ten minutes", first as At),
        ("at half time", half as At),
    ] {
        let looks: Vec<(u64, u64, Option<u64>)> = found
            .iter()
            .filter_map(|(truth_s, looks)| {
                let (at_s, forecast_s) = at(looks, *truth_s)?;
                Some((*truth_s - at_s, at_s, forecast_s))
            })
            .collect();
        let known = looks
            .iter()
            .filter_map(|(truth_s, _, forecast_s)| Some(factor((*forecast_s)?, *truth_s)));
        let factors: Vec<f64> = known.collect();
        let (asked, answered) = (looks.len(), factors.len());
        let within = factors.iter().filter(|factor| **factor <= 2.0).count();
        let median = median(factors);
        println!(
            "{name}: {counted} hosts of {HOSTS} came to an interval, {answered} of {asked} looks had a forecast; \
             median factor {median:.2}, within 2: {within}"
        );
        assert!(median <= 1.5, "{name}: {median}");
        assert!(answered * 10 >= asked * 9, "{name}: {answered} of {asked}");
    }
    assert!(counted >= 150, "{counted}");
}

/// The hours until a trial's interval leaves out zero, on a host with three groups and three connections a minute to each.
/// A connection's goodput has a standard deviation of a nat, so a block's mean has some 0.3.
fn hours_to_an_answer(seed: u64, effect_nats: f64) -> Option<f64> {
    let (mut random, mut trial) = (Random(9000 + seed), Trial::default());
    let (terms, sequence) = (Terms::default(), Sequence::default());
    let schedule = Schedule {
        block_s: 300,
        settle_s: 30,
        ..Schedule::by_time(1.0, [seed, 11])
    };
    let step_s = 30;
    for at_s in (BEGIN_S..BEGIN_S + 7 * DAY_S as u64).step_by(step_s) {
        for group in 0..3 {
            let gain = f64::from(u8::from(schedule.steers(group, at_s))) * effect_nats;
            for _ in 0..poisson(&mut random, 1.5) {
                let goodput_nats = 14.0 + gain + random.normal();
                let outcome = Outcome {
                    goodput_nats,
                    duration_nats: -goodput_nats,
                    ..outcome(&mut random)
                };
                trial.take(group, at_s, &outcome, &schedule, &terms);
            }
        }
        trial.close_until(at_s, &schedule, &terms);
        let shown = trial.host.effects.goodput.interval(&sequence);
        if shown.is_some_and(|shown| shown.low > 0.0 || shown.high < 0.0) {
            return Some((at_s - BEGIN_S) as f64 / 3600.0);
        }
    }
    None
}

#[test]
fn a_trial_of_three_groups_answers_within_a_day() {
    for (percent, most_h) in [(30.0, 5.0), (10.0, 24.0), (-10.0, 24.0)] {
        let effect_nats = f64::ln_1p(percent / 100.0);
        let mut hours: Vec<f64> = (0..40)
            .map(|seed| hours_to_an_answer(seed, effect_nats).unwrap_or(f64::INFINITY))
            .collect();
        hours.sort_by(f64::total_cmp);
        let (half, most) = (hours[20], hours[35]);
        println!("{percent:+} %: shown after {half:.1} h in half of 40 trials, {most:.1} h in 36");
        assert!(most <= most_h, "{percent}: {most} h");
    }
}
