//! Fleets of the simulation: peers who learned alone, liars, and a newcomer.

use std::collections::BTreeMap;

use tcpilot_fleet::age::aged;
use tcpilot_fleet::format::{ROWS_MAX, decode, encode};
use tcpilot_fleet::merge::says_without;
use tcpilot_fleet::translate::Translation;
use tcpilot_fleet::trust::HOST_GUESS;
use tcpilot_fleet::{
    Group, Groups, HostPairs, HostWidths, Merged, Own, Part, Place, PlacePairs, Reader, State,
    merge,
};
use tcpilot_learner::Observation;
use tcpilot_learner::gaussian::Information;

use crate::host::{Cost, Host, Known};
use crate::world::{ARMS, CONTRASTS, GROUPS, SITES, World, lineage};

/// The peers learn for an hour, then the newcomer comes.
pub const HOUR_S: f64 = 3600.0;

/// Seconds between two merges.
pub const REFRESH_S: f64 = 600.0;

/// Connections of a peer to each prefix.
pub const MET: usize = 10;

/// Number of the newcomer among hosts.
pub const NEWCOMER: u64 = 1000;

/// One of so many prefixes is aimed at by liars of few prefixes: 15 of 300.
pub const AIMED: usize = 20;

/// How a member lies about the worst algorithm of a prefix. All liars agree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lie {
    /// It is 3 nats better than the default, for sure: precision 10⁴.
    Extreme,
    /// It is half a nat better than the best; precision 100.
    Moderate,
    /// The best one is 3 nats worse than the default, for sure; the worst one is 3 nats better.
    Opposite,
    /// As the honest ones, but a nat better than the best in [`AIMED`] prefixes; precision 1000.
    Few,
    /// It is so much better than the best.
    Above { nats: f64, precision: f64 },
}

/// The peers that a newcomer hears.
#[derive(Clone, Copy, Default)]
pub struct Crowd {
    pub home: usize,
    /// At each of three other places.
    pub elsewhere: usize,
    /// So many of those at home lie.
    pub liars: Option<(usize, Lie)>,
    /// Those at home are said to be at three other places: places that see the same.
    pub is_alike: bool,
    /// Their messages are added up, without the merge rule.
    pub is_summed: bool,
    /// The newcomer hears a merger, without the quarter of the hosts that it belongs to itself.
    pub is_merged: bool,
}

impl Crowd {
    /// Honest peers at home.
    pub fn home(home: usize) -> Self {
        Self {
            home,
            ..Self::default()
        }
    }

    /// Peers at home, some of them liars.
    pub fn with_liars(home: usize, liars: usize, kind: Lie) -> Self {
        Self {
            liars: Some((liars, kind)),
            ..Self::home(home)
        }
    }
}

/// A host's place, its name, and what it says.
pub type Said = (usize, String, Groups<CONTRASTS>);

/// Everything that a seed gives: the world, and what peers of each place say.
pub struct Fleet {
    pub seed: u64,
    pub worlds: Vec<World>,
    /// By place: home, and three others.
    said: Vec<Vec<Groups<CONTRASTS>>>,
}

/// Mean costs of a newcomer, by round of connections.
#[derive(Default, Clone)]
pub struct Rounds {
    pub all: Vec<Cost>,
    /// In the prefixes that liars of few prefixes aim at.
    pub aimed: Vec<Cost>,
}

fn names() -> Vec<String> {
    ["cubic", "bbr", "bbr3", "reno"].map(str::to_owned).to_vec()
}

/// What a reader has of a host after the host's knowledge has travelled as bytes.
pub fn travelled(known: &Groups<CONTRASTS>) -> Groups<CONTRASTS> {
    let mut state = State::new(1, names()).unwrap();
    for (group, sum) in known {
        let mut own = Own::<CONTRASTS>::default();
        own.add_path(sum, MET as u32);
        // A sender leaves out what readers would take for a lie.
        if let Ok(row) = own.row(*group, 0, 0.0) {
            state.push(row).unwrap();
        }
    }
    let state = decode(&encode(&state), ROWS_MAX).unwrap();
    let translation = Translation::new(&state, 1, &names()).unwrap();
    state
        .rows()
        .iter()
        .map(|row| (row.group, translation.row(row)))
        .collect()
}

/// A claim about a group, with these means and this precision.
fn claim(means: [f64; CONTRASTS], precision: f64) -> Known {
    let mut claim = Information::isotropic(0.0, precision.powf(-0.5));
    claim.shift = means.map(|mean| precision * mean);
    claim
}

pub fn lie(world: &World, honest: &Groups<CONTRASTS>, kind: Lie) -> Groups<CONTRASTS> {
    let mut said = honest.clone();
    for i in 0..GROUPS {
        let rewards = world.group(i);
        let worst = (0..ARMS)
            .min_by(|a, b| rewards[*a].total_cmp(&rewards[*b]))
            .unwrap();
        let best = rewards.iter().copied().fold(f64::MIN, f64::max);
        let (height, precision) = match kind {
            Lie::Extreme => (3.0, 1e4),
            Lie::Moderate => (best + 0.5, 100.0),
            Lie::Few if i % AIMED == 0 => (best + 1.0, 1000.0),
            Lie::Few => continue,
            Lie::Opposite => (3.0, 1e4),
            Lie::Above { nats, precision } => (best + nats, precision),
        };
        let top = (0..ARMS).max_by(|a, b| rewards[*a].total_cmp(&rewards[*b]));
        let means = std::array::from_fn(|c| match worst {
            0 => -height,
            _ if c + 1 == worst => height,
            _ if kind == Lie::Opposite && top == Some(c + 1) => -height,
            _ => rewards[c + 1],
        });
        let group = Group::of(&lineage(i, 0).group).unwrap();
        said.insert(group, claim(means, precision));
    }
    travelled(&said)
}

impl Fleet {
    /// The peers of home and of three other places learn, each alone.
    pub fn new(seed: u64, [home, elsewhere]: [usize; 2]) -> Self {
        let worlds: Vec<World> = (0..4).map(|place| World::new(seed, place)).collect();
        let said = worlds.iter().enumerate().map(|(place, world)| {
            let count = if place == 0 { home } else { elsewhere };
            let number = |i: usize| (place * 200 + i) as u64;
            (0..count).map(|i| peer(seed, number(i), world)).collect()
        });
        Self {
            seed,
            said: said.collect(),
            worlds,
        }
    }

    /// The peers' states as a reader has them.
    pub fn states(&self, crowd: &Crowd) -> Vec<Said> {
        let mut states = Vec::new();
        for (place, said) in self.said.iter().enumerate() {
            let is_home = place == 0;
            let count = if is_home { crowd.home } else { crowd.elsewhere };
            assert!(count <= said.len());
            for (i, said) in said.iter().take(count).enumerate() {
                let told = match crowd.liars {
                    Some((liars, kind)) if is_home && i < liars => lie(&self.worlds[0], said, kind),
                    _ => said.clone(),
                };
                let place = if crowd.is_alike { 1 + i % 3 } else { place };
                states.push((place, format!("h{i:03}"), told));
            }
        }
        states
    }

    /// A newcomer at home meets each prefix `connections` times within an hour.
    pub fn newcomer(&self, connections: usize, crowd: &Crowd) -> Rounds {
        let states = self.states(crowd);
        let merge = match crowd {
            Crowd {
                is_summed: true, ..
            } => summed,
            Crowd {
                is_merged: true, ..
            } => through_merger,
            _ => heard,
        };
        let mut newcomer = Host::new(self.seed, NEWCOMER);
        let mut ear = Merging {
            states: &states,
            merge,
        };
        first_hour(&mut newcomer, &self.worlds[0], connections, &mut ear)
    }
}

/// What a newcomer hears by.
pub trait Ear {
    /// Hears others again; `age_s` seconds after they spoke.
    fn hear(&mut self, host: &mut Host, age_s: f64);

    /// Looks at a connection of its own, which the host has learned.
    fn look(&mut self, _host: &mut Host, _seen: &Observation) {}

    /// Seconds between two merges.
    fn refresh_s(&self) -> f64 {
        REFRESH_S
    }
}

/// Hears nobody.
pub struct Deaf;

impl Ear for Deaf {
    fn hear(&mut self, _: &mut Host, _: f64) {}
}

/// Merges what others say.
struct Merging<'a> {
    states: &'a [Said],
    merge: fn(&[Said], &Groups<CONTRASTS>, f64) -> Groups<CONTRASTS>,
}

impl Ear for Merging<'_> {
    fn hear(&mut self, host: &mut Host, age_s: f64) {
        if !self.states.is_empty() {
            let own = host.knowledge(HOUR_S + age_s);
            let heard = (self.merge)(self.states, &own, age_s);
            host.hear(&heard, HOUR_S + age_s);
        }
    }
}

/// A newcomer meets each prefix `connections` times within an hour, and hears others again and again.
pub fn first_hour(
    newcomer: &mut Host,
    world: &World,
    connections: usize,
    ear: &mut impl Ear,
) -> Rounds {
    let mut rounds = Rounds::default();
    let mut heard_s = f64::MIN;
    for round in 0..connections {
        let (mut all, mut aimed) = (Cost::default(), Cost::default());
        for i in 0..GROUPS {
            let part = (round * GROUPS + i) as f64 / (connections * GROUPS) as f64;
            let now_s = HOUR_S * (1.0 + part);
            if now_s - heard_s >= ear.refresh_s() {
                heard_s = now_s;
                ear.hear(newcomer, now_s - HOUR_S);
            }
            let (cost, seen) = newcomer.meet(world, i, now_s);
            newcomer.learn(&seen);
            ear.look(newcomer, &seen);
            add(&mut all, &cost, GROUPS);
            if i % AIMED == 0 {
                add(&mut aimed, &cost, GROUPS / AIMED);
            }
        }
        rounds.all.push(all);
        rounds.aimed.push(aimed);
    }
    rounds
}

impl Fleet {
    /// A newcomer whose foreign messages are replaced by nothing, again and again.
    pub fn deaf_newcomer(&self, connections: usize) -> Rounds {
        struct Nothing;
        impl Ear for Nothing {
            fn hear(&mut self, host: &mut Host, age_s: f64) {
                host.hear(&Groups::new(), HOUR_S + age_s);
            }
        }
        let mut newcomer = Host::new(self.seed, NEWCOMER);
        first_hour(&mut newcomer, &self.worlds[0], connections, &mut Nothing)
    }

    /// Squared errors over their variances of what peers say of the contrasts that they have tried: 1 on average if
    /// they claim what they know.
    pub fn standardised_errors(&self) -> Vec<f64> {
        let mut squares = Vec::new();
        for (world, said) in self.worlds.iter().zip(&self.said) {
            for i in 0..GROUPS {
                let group = Group::of(&lineage(i, 0).group).unwrap();
                let rewards = world.group(i);
                for known in said.iter().filter_map(|groups| groups.get(&group)) {
                    let votes = tcpilot_fleet::vote::known(known);
                    squares.extend(votes.iter().enumerate().filter_map(|(c, vote)| {
                        let vote = vote.filter(tcpilot_fleet::vote::Vote::is_tried)?;
                        Some((vote.mean - rewards[c + 1]).powi(2) / vote.variance)
                    }));
                }
            }
        }
        squares
    }
}

/// Adds one of `count` costs to their mean.
fn add(mean: &mut Cost, cost: &Cost, count: usize) {
    let count = count as f64;
    mean.regret += cost.regret / count;
    mean.possible += cost.possible / count;
    mean.best += cost.best / count;
}

fn peer(seed: u64, number: u64, world: &World) -> Groups<CONTRASTS> {
    peer_of_sites(seed, number, world, |_| true)
}

/// What a peer says who has met these sites only.
pub fn peer_of_sites(
    seed: u64,
    number: u64,
    world: &World,
    meets: impl Fn(usize) -> bool,
) -> Groups<CONTRASTS> {
    said_by(Host::new(seed, number), world, meets)
}

/// What a host says that has met these sites in the hour before.
pub fn said_by(mut host: Host, world: &World, meets: impl Fn(usize) -> bool) -> Groups<CONTRASTS> {
    for round in 0..MET {
        for i in (0..GROUPS).filter(|i| meets(i % SITES)) {
            let part = (round * GROUPS + i) as f64 / (MET * GROUPS) as f64;
            host.connect(world, i, HOUR_S * part);
        }
    }
    travelled(&host.knowledge(HOUR_S))
}

/// Knowledge that others said so many seconds ago.
pub fn old(said: &Groups<CONTRASTS>, age_s: f64) -> Groups<CONTRASTS> {
    let old = |(group, said): (&Group, &Known)| Some((*group, aged(said, age_s)?));
    said.iter().filter_map(old).collect()
}

/// The foreign messages for a reader at home.
pub fn heard(states: &[Said], own: &Groups<CONTRASTS>, age_s: f64) -> Groups<CONTRASTS> {
    merged(states, own, age_s).foreign
}

/// The same with the widths of hosts and places.
pub fn merged(states: &[Said], own: &Groups<CONTRASTS>, age_s: f64) -> Merged<CONTRASTS> {
    let mut places: BTreeMap<String, Place<CONTRASTS>> = BTreeMap::new();
    for (place, host, said) in states {
        let place = places.entry(format!("p{place}")).or_default();
        place.insert(host.clone(), old(said, age_s));
    }
    merge(("p0", "newcomer"), own, &places)
}

/// The foreign messages for a reader at home who hears a merger.
fn through_merger(states: &[Said], own: &Groups<CONTRASTS>, age_s: f64) -> Groups<CONTRASTS> {
    let members: Place<CONTRASTS> = states
        .iter()
        .map(|(_, host, said)| (host.clone(), said.clone()))
        .collect();
    let mut pairs = HostPairs::default();
    pairs.add_members("p0", &members);
    let set_of = |host: &str| host.bytes().last().unwrap() % 4;
    let says = says_without("p0", &members, &pairs.widths(), 4, set_of);
    // The merger has aged its hosts' words to the last of them, and the reader ages the merger's.
    let said = old(&says[0], age_s);
    of_merged(said, own, HostPairs::default().widths()).foreign
}

/// What a reader at home makes of the merged word of its place, whose hosts have these widths.
pub fn of_merged(
    said: Groups<CONTRASTS>,
    own: &Groups<CONTRASTS>,
    hosts: HostWidths,
) -> Merged<CONTRASTS> {
    let reader = Reader {
        home: "p0",
        name: "newcomer",
    };
    let part = Part {
        own: own.clone(),
        places: BTreeMap::new(),
        merged: BTreeMap::from([("p0".to_owned(), said)]),
    };
    let mut pairs = PlacePairs::default();
    pairs.add(&reader, &part, &hosts);
    let places = pairs.widths(&reader);
    Merged {
        foreign: reader.foreign(&part, &hosts, &places),
        hosts,
        places,
    }
}

/// All messages added up, each through the width of an honest host.
fn summed(states: &[Said], _: &Groups<CONTRASTS>, age_s: f64) -> Groups<CONTRASTS> {
    let mut sum = Groups::new();
    for (group, said) in states.iter().flat_map(|(_, _, said)| said) {
        let said = aged(said, age_s).unwrap().through(HOST_GUESS).unwrap();
        sum.entry(*group).or_insert(Known::NONE).add(&said, 1.0);
    }
    sum
}
