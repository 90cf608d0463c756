//! What peers with transfers of other sizes are worth to a newcomer. An algorithm has less effect on small transfers, and
//! a contrast is in nats whatever their size, so a host with other traffic looks like a liar or like another place.
//!
//! Sizes are those of the learner's simulator (`lab/simulate`, `[sizes]`): a transfer of b bytes gets the part
//! b/(b + 100 kB) of an effect on goodput. At 1.5 MB/s and 40 ms it counts for b/240 kB of a sample.

use std::collections::BTreeMap;

use tcpilot_fleet::merge::says_without;
use tcpilot_fleet::trust::trust;
use tcpilot_fleet::{Group, Groups, HostPairs, HostWidths, Merged, Place};

use crate::fleet::{
    Crowd, Deaf, Ear, Fleet, HOUR_S, NEWCOMER, Rounds, Said, first_hour, merged, of_merged, old,
    said_by,
};
use crate::host::{Host, Known};
use crate::world::{CONTRASTS, Traffic, World};

/// Transfers of 43 kB.
const SMALL: Traffic = Traffic {
    bytes: 43e3,
    goodput: 0.3,
    waste: 0.3,
    weight: 0.18,
    noise: 2.36,
};

const HOSTS: usize = 30;
const ROUNDS: usize = 30;

/// What is less for small transfers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Less {
    /// All effects, and a sample is as noisy as the learner takes it to be: standard deviation 1/√weight.
    Effects,
    /// The effects on goodput, while retransmissions and queues cost as much: another algorithm may be the best.
    Goodput,
    /// The effects on goodput, and a sample is no noisier than that of a large transfer.
    GoodputOnly,
}

impl Less {
    fn small(self) -> Traffic {
        let of_all = SMALL;
        let of_goodput = Traffic {
            waste: 1.0,
            ..SMALL
        };
        match self {
            Self::Effects => of_all,
            Self::Goodput => of_goodput,
            Self::GoodputOnly => Traffic {
                noise: 1.0,
                ..of_goodput
            },
        }
    }
}

/// How a reader takes hosts whose transfers are of another size.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rule {
    /// As any other.
    AsBuilt,
    /// Not at all: sizes are a part of the key.
    Apart,
    /// Hosts of each size are merged with their like, as by a merger. The others' contrasts are multiplied by the ratio of
    /// the parts b/(b + 100 kB), and are no surer than they were.
    Scaled,
    /// As hosts of another place: through its width, and wider if it speaks of several groups of a site.
    AsPlace,
}

/// The part of an effect that transfers of this size get, as far as a reader can know.
fn reach(traffic: &Traffic) -> f64 {
    traffic.bytes / (traffic.bytes + 1e5)
}

fn scaled(said: &Groups<CONTRASTS>, factor: f64) -> Groups<CONTRASTS> {
    let left = factor.powi(-2).min(1.0);
    let scaled = |(group, said): (&Group, &Known)| {
        let mut said = *said;
        said.scale(left);
        said.shift.iter_mut().for_each(|x| *x *= factor);
        (*group, said)
    };
    said.iter().map(scaled).collect()
}

/// What hosts with small and with large transfers say of one world.
struct Sizes {
    seed: u64,
    world: World,
    small: Traffic,
    /// Small, large.
    said: [Vec<Groups<CONTRASTS>>; 2],
}

/// A newcomer's ear that keeps the last widths.
struct Hearing {
    states: Vec<Said>,
    /// Hosts of place 1 have transfers of another size, and their contrasts are multiplied by this.
    factor: Option<f64>,
    widths: Vec<Merged<CONTRASTS>>,
}

impl Hearing {
    fn merged(&self, own: &Groups<CONTRASTS>, age_s: f64) -> Merged<CONTRASTS> {
        match self.factor {
            None => merged(&self.states, own, age_s),
            Some(factor) => scaled_and_merged(&self.states, own, age_s, factor),
        }
    }
}

fn scaled_and_merged(
    states: &[Said],
    own: &Groups<CONTRASTS>,
    age_s: f64,
    factor: f64,
) -> Merged<CONTRASTS> {
    let (mut sum, mut hosts) = (Groups::new(), HostWidths::new());
    for (number, factor) in [(0, 1.0), (1, factor)] {
        let like = states.iter().filter(|(place, ..)| *place == number);
        let members: Place<CONTRASTS> = like
            .map(|(_, host, said)| (host.clone(), old(said, age_s)))
            .collect();
        let place = format!("p{number}");
        let mut pairs = HostPairs::default();
        pairs.add_members(&place, &members);
        let widths = pairs.widths();
        let says = says_without(&place, &members, &widths, 1, |_| 1);
        for (group, said) in scaled(&says[0], factor) {
            sum.entry(group).or_insert(Known::NONE).add(&said, 1.0);
        }
        hosts.extend(widths);
    }
    of_merged(sum, own, hosts)
}

impl Ear for Hearing {
    fn hear(&mut self, host: &mut Host, age_s: f64) {
        let own = host.knowledge(HOUR_S + age_s);
        let heard = self.merged(&own, age_s);
        host.hear(&heard.foreign, HOUR_S + age_s);
        self.widths.push(heard);
    }
}

/// Mean trust of small and of large peers at a merge, and the number of those that are not heard.
#[derive(Clone, Copy, Default, Debug)]
struct Trust {
    trust: [f64; 2],
    unheard: [f64; 2],
    place: f64,
}

impl Sizes {
    fn new(fleet: &Fleet, less: Less) -> Self {
        let world = fleet.worlds[0].clone();
        let small = less.small();
        let host = |number: u64| Host::with(fleet.seed, number, small);
        let small_ones = (0..HOSTS as u64).map(|number| said_by(host(number), &world, |_| true));
        let large_ones = fleet.states(&Crowd::home(HOSTS)).into_iter();
        Self {
            seed: fleet.seed,
            small,
            said: [
                small_ones.collect(),
                large_ones.map(|(_, _, said)| said).collect(),
            ],
            world,
        }
    }

    /// What `small` hosts with small transfers and others with large ones say, as a reader with one of both takes it.
    fn states(&self, rule: Rule, is_small: bool, (hosts, small): (usize, usize)) -> Vec<Said> {
        let mut states = Vec::new();
        for i in 0..hosts {
            let is_like = is_small == (i < small);
            let said = &self.said[usize::from(i >= small)][i];
            let (place, said) = match rule {
                Rule::Apart if !is_like => continue,
                Rule::Scaled | Rule::AsPlace if !is_like => (1, said.clone()),
                _ => (0, said.clone()),
            };
            states.push((place, format!("h{i:03}"), said));
        }
        states
    }

    /// A newcomer with small or large transfers; its regrets, and its trust at the first and the last merge.
    fn newcomer(&self, rule: Rule, is_small: bool, peers: (usize, usize), rounds: usize) -> Case {
        let ratio = reach(&Traffic::LARGE) / reach(&self.small);
        let (traffic, factor) = if is_small {
            (self.small, 1.0 / ratio)
        } else {
            (Traffic::LARGE, ratio)
        };
        let mut host = Host::with(self.seed, NEWCOMER, traffic);
        let states = self.states(rule, is_small, peers);
        if states.is_empty() {
            let rounds = first_hour(&mut host, &self.world, rounds, &mut Deaf);
            return (rounds, [Trust::default(); 2]);
        }
        let mut ear = Hearing {
            states,
            factor: (rule == Rule::Scaled).then_some(factor),
            widths: Vec::new(),
        };
        let rounds = first_hour(&mut host, &self.world, rounds, &mut ear);
        let of = |merged: &Merged<CONTRASTS>| Trust::of(merged, peers.1);
        let (first, last) = (of(&ear.widths[0]), of(ear.widths.last().unwrap()));
        (rounds, [first, last])
    }
}

type Case = (Rounds, [Trust; 2]);

impl Trust {
    fn of(merged: &Merged<CONTRASTS>, small: usize) -> Self {
        let mut of = Self {
            place: merged.places.values().sum(),
            ..Self::default()
        };
        let mut counts = [0.0f64; 2];
        for ((_, host), width) in &merged.hosts {
            let which = usize::from(host[1..].parse::<usize>().unwrap() >= small);
            counts[which] += 1.0;
            of.trust[which] += width.map_or(0.0, trust);
            of.unheard[which] += f64::from(u8::from(width.is_none()));
        }
        for (sum, count) in of.trust.iter_mut().zip(counts) {
            *sum /= count.max(1.0);
        }
        of
    }
}

/// Mean regrets at K = 1, 3, 10, 30, as far as it goes.
fn regrets(of: &[Rounds]) -> BTreeMap<usize, f64> {
    let mean = |k: usize| {
        let costs = of.iter().flat_map(|rounds| &rounds.all[..k]);
        costs.map(|cost| cost.regret).sum::<f64>() / (k * of.len()) as f64
    };
    let until = [1, 3, 10, 30].into_iter();
    let until = until.filter(|k| *k <= of[0].all.len());
    until.map(|k| (k, mean(k))).collect()
}

fn show(name: &str, of: Vec<Case>) -> BTreeMap<usize, f64> {
    let (rounds, trusts): (Vec<_>, Vec<_>) = of.into_iter().unzip();
    let regrets = regrets(&rounds);
    let text = regrets
        .iter()
        .map(|(k, regret)| format!("K={k} {regret:.3}"));
    print!("{name:60} {}", text.collect::<Vec<_>>().join(" "));
    for at in 0..2 {
        let mean = |what: fn(&Trust) -> f64| {
            trusts.iter().map(|of| what(&of[at])).sum::<f64>() / trusts.len() as f64
        };
        print!(
            "  trust {:.2} {:.2} unheard {:.1} {:.1} place {:.3}",
            mean(|of| of.trust[0]),
            mean(|of| of.trust[1]),
            mean(|of| of.unheard[0]),
            mean(|of| of.unheard[1]),
            mean(|of| of.place),
        );
    }
    println!();
    regrets
}

/// A place where every second host has small transfers serves newcomers of both kinds, and none of its hosts passes for a
/// liar. An algorithm that gains 1.2 nats for large transfers gains 0.4 for small ones.
#[test]
fn hosts_with_small_transfers_are_heard() {
    let fleets = crate::fleets().iter().take(2);
    let all: Vec<Sizes> = fleets.map(|of| Sizes::new(of, Less::Goodput)).collect();
    for is_small in [false, true] {
        let case = |hosts: usize, small: usize| {
            let peers = (hosts, small);
            let of = all
                .iter()
                .map(|of| of.newcomer(Rule::AsBuilt, is_small, peers, 10));
            let of: Vec<Case> = of.collect();
            let trusts = of.iter().flat_map(|(_, trusts)| trusts);
            let unheard = trusts.map(|of| of.unheard.iter().sum::<f64>()).sum::<f64>();
            let name = format!("{small} of {hosts} small, small newcomer: {is_small}");
            (show(&name, of), unheard)
        };
        let (alone, _) = case(0, 0);
        let (mixed, unheard) = case(30, 15);
        assert_eq!(unheard, 0.0);
        for k in [1, 10] {
            assert!(mixed[&k] < 0.75 * alone[&k], "{mixed:?} {alone:?}");
        }
    }
}

/// `cargo test -p tcpilot-fleet --test newcomer -- --ignored --nocapture sizes_of_transfers`
#[test]
#[ignore = "a measurement of minutes, for a decision"]
fn sizes_of_transfers() {
    let rules = [Rule::AsBuilt, Rule::Apart, Rule::Scaled, Rule::AsPlace];
    for (less, rules) in [
        (Less::Effects, &rules[..]),
        (Less::Goodput, &rules[..]),
        (Less::GoodputOnly, &rules[..1]),
    ] {
        let fleets = crate::fleets().iter();
        let all: Vec<Sizes> = fleets.map(|of| Sizes::new(of, less)).collect();
        for (is_small, rule) in [false, true]
            .into_iter()
            .flat_map(|is_small| rules.iter().map(move |rule| (is_small, *rule)))
        {
            let who = if is_small { "small" } else { "large" };
            let many = [0, 8, 15, 22, 30].map(|small| (30, small));
            let few = [(3, 0), (3, 1), (3, 2), (3, 3), (1, 0), (1, 1)];
            for peers in [(0, 0)].into_iter().chain(many).chain(few) {
                let of = all
                    .iter()
                    .map(|of| of.newcomer(rule, is_small, peers, ROUNDS));
                let (hosts, small) = peers;
                let name = format!("{less:?} {rule:?}: {who}, {small} of {hosts} small");
                show(&name, of.collect());
            }
        }
    }
}
