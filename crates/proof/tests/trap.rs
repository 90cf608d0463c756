//! The trap of Spang et al. (IMC 2021): two algorithms are equal when all connections use the same one, but
//! one takes from the other. An experiment with a draw per connection shows a gain; a trial with held-out
//! blocks does not.
#![allow(clippy::unwrap_used, reason = "tests")]

use tcpilot_proof::{
    Outcome, Schedule, Sequence, Trial, Verdict, pairs::Pair, pairs::Pairs, trial::Terms,
};
use tcpilot_random::Random;

/// Connections at a time on the bottleneck of a group.
const AT_ONCE: usize = 8;
const GROUPS: u64 = 20;
const HOURS: u64 = 60;
const START: u64 = 1_795_003_200;

/// How one bottleneck serves its connections: rates in proportion to weights, times the share left by losses.
struct World {
    /// A steered connection's weight at the bottleneck, against 1 of the others.
    weight: f64,
    /// ln of the additional gain of steering, such as by not slowing down at each loss.
    gain: f64,
}

impl World {
    fn weight(&self, is_steered: bool) -> f64 {
        if is_steered { self.weight } else { 1.0 }
    }

    /// ln goodput of a connection, if all of its time together have this weight.
    fn goodput(&self, is_steered: bool, all: f64, random: &mut Random) -> f64 {
        let share = (self.weight(is_steered) / all).ln();
        share + if is_steered { self.gain } else { 0.0 } + 0.4 * random.normal()
    }

    /// ln goodput of connections, some of them steered.
    fn goodputs(&self, steered: &[bool], random: &mut Random) -> Vec<f64> {
        let all: f64 = steered.iter().map(|one| self.weight(*one)).sum();
        let each = steered.iter().map(|one| self.goodput(*one, all, random));
        each.collect()
    }

    /// Each connection draws: means of the steered less those of the others, a batch of connections each.
    fn per_connection(&self) -> Pairs {
        let (mut random, mut pairs) = (Random(5), Pairs::default());
        while pairs.count < GROUPS * HOURS {
            let steered: Vec<bool> = (0..AT_ONCE).map(|_| random.uniform() < 0.5).collect();
            let goodputs = self.goodputs(&steered, &mut random);
            let mean = |which: bool| {
                let of: Vec<f64> = goodputs
                    .iter()
                    .zip(&steered)
                    .filter_map(|(goodput, one)| (*one == which).then_some(*goodput))
                    .collect();
                of.iter().sum::<f64>() / of.len() as f64
            };
            pairs.add(Pair {
                difference: mean(true) - mean(false),
                covariate: 0.0,
            });
        }
        pairs
    }

    /// Blocks of half an hour are held out. Connections last so many minutes, and meet those of the next block if
    /// they open late.
    fn by_blocks(&self, lasting: u64) -> Trial {
        let (schedule, terms) = (Schedule::by_time(1.0, [3, 4]), Terms::default());
        let (mut random, mut trial) = (Random(6), Trial::default());
        for minute in 0..60 * HOURS {
            for group in 0..GROUPS {
                let at_s = START + 60 * minute;
                let is_steered = |at_s| schedule.steers(group, at_s);
                let met = (0..lasting).map(|later| self.weight(is_steered(at_s + 60 * later)));
                let all = AT_ONCE as f64 * met.sum::<f64>() / lasting as f64;
                for _ in 0..AT_ONCE {
                    let goodput_nats = self.goodput(is_steered(at_s), all, &mut random);
                    let seen = Outcome {
                        bytes: 1 << 20,
                        goodput_nats,
                        duration_nats: -goodput_nats,
                        retransmitted: 0.0,
                        inflation_nats: 0.0,
                        expected_nats: 0.0,
                    };
                    trial.take(group, at_s, &seen, &schedule, &terms);
                }
            }
        }
        trial.close_until(START + 3600 * (HOURS + 1), &schedule, &terms);
        trial
    }
}

#[test]
fn taking_from_others_is_no_gain() {
    let world = World {
        weight: 2.0,
        gain: 0.0,
    };
    let sequence = Sequence::default();
    let misled = world.per_connection().interval(&sequence).unwrap();
    // ln 2: a steered connection has twice the rate of its neighbour.
    assert!(misled.low > 0.6 && misled.high < 0.8, "{misled:?}");
    let trial = world.by_blocks(1);
    let shown = trial.host.effects.goodput.interval(&sequence).unwrap();
    assert!(shown.low < 0.0 && shown.high > 0.0, "{shown:?}");
    assert_eq!(trial.host.effects.verdict(&sequence), Verdict::NotShown);
}

#[test]
fn taking_from_the_next_block_is_no_gain() {
    let world = World {
        weight: 2.0,
        gain: 0.0,
    };
    let sequence = Sequence::default();
    let trial = world.by_blocks(3);
    let shown = trial.host.effects.goodput.interval(&sequence).unwrap();
    assert!(shown.low < 0.0 && shown.high > 0.0, "{shown:?}");
    assert_eq!(trial.host.effects.verdict(&sequence), Verdict::NotShown);
}

#[test]
fn a_true_gain_is_seen_both_ways() {
    let world = World {
        weight: 1.0,
        gain: 0.2,
    };
    let sequence = Sequence::default();
    assert!(world.per_connection().interval(&sequence).unwrap().low > 0.15);
    let trial = world.by_blocks(1);
    let shown = trial.host.effects.goodput.interval(&sequence).unwrap();
    assert!(shown.low > 0.15 && shown.high < 0.25, "{shown:?}");
    assert_eq!(trial.host.effects.verdict(&sequence), Verdict::Better);
}
