//! A world of 300 /24 in 30 sites: kinds and noises of `lab/simulate/worlds/b-strangers.toml`.

use std::net::Ipv4Addr;

use tcpilot_learner::lineage::{Class, Lineage};
use tcpilot_random::Random;

pub const ARMS: usize = 4;
pub const CONTRASTS: usize = ARMS - 1;
pub const SITES: usize = 30;
pub const GROUPS: usize = 300;
pub const PATHS: usize = 20;

/// Weight of a longer round trip in the reward, as in the learner without an objective.
const BETA: f64 = 0.1;

/// Standard deviation between hosts of one place, in nats.
const HOST_SD: f64 = 0.03;

/// Of path and group, group and site, site and kind, in nats.
const SPREAD: [f64; 3] = [0.05, 0.1, 0.1];

/// Part of groups with a kind unlike their site's.
const ODD_GROUPS: f64 = 0.2;

const BASELINE_SD: f64 = 0.8;

/// Noise of a connection, and the path's swings. A path's connections are mostly more than a swing's ten minutes apart, so
/// swings are drawn for each connection.
const NOISE_SD: [f64; 2] = [0.5, 0.4];

/// Share of a kind; by algorithm: ln goodput against the default's, retransmitted share, growth of the round trip.
struct Kind(f64, [f64; ARMS], [f64; ARMS], [f64; ARMS]);

const KINDS: [Kind; 6] = [
    Kind(
        0.3,
        [0.0, -0.05, -0.02, -0.03],
        [0.001, 0.006, 0.003, 0.001],
        [1.3, 1.1, 1.1, 1.3],
    ),
    Kind(
        0.35,
        [0.0, 1.3, 1.15, -0.15],
        [0.025, 0.115, 0.05, 0.025],
        [1.05, 1.1, 1.1, 1.05],
    ),
    Kind(
        0.1,
        [0.0, 0.09, 0.15, -0.1],
        [0.025, 0.104, 0.04, 0.025],
        [1.1; ARMS],
    ),
    Kind(
        0.1,
        [0.0, 0.012, 0.0, -0.02],
        [0.052, 0.234, 0.09, 0.05],
        [1.1, 1.15, 1.1, 1.1],
    ),
    Kind(
        0.05,
        [0.0, 0.1, 0.05, -0.02],
        [0.04, 0.3, 0.15, 0.04],
        [1.1; ARMS],
    ),
    Kind(
        0.1,
        [0.0, -0.01, -0.01, 0.0],
        [0.001, 0.006, 0.003, 0.001],
        [8.0, 1.4, 1.4, 7.0],
    ),
];

/// Rewards of the algorithms in nats, up to a constant.
type Rewards = [f64; ARMS];

/// Mean rewards of a group, and the part of them that retransmissions and queues have.
#[derive(Clone, Copy)]
struct Effects {
    all: Rewards,
    waste: Rewards,
}

/// The groups as one place sees them.
#[derive(Clone)]
pub struct World {
    seed: u64,
    place: u64,
    groups: Vec<Effects>,
}

/// The transfers of a host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traffic {
    pub bytes: f64,
    /// The part of an algorithm's effect on goodput that they get.
    pub goodput: f64,
    /// The same for retransmissions and queues.
    pub waste: f64,
    /// The part of a whole sample that a transfer counts for.
    pub weight: f64,
    /// Factor on the noise of a connection, a standard deviation.
    pub noise: f64,
}

impl Traffic {
    /// Whole samples with full effects.
    pub const LARGE: Self = Self {
        bytes: 1e6,
        goodput: 1.0,
        waste: 1.0,
        weight: 1.0,
        noise: 1.0,
    };

    /// A path's rewards for these transfers.
    pub fn rewards(&self, all: Rewards, waste: Rewards) -> Rewards {
        let missing = |arm: usize| {
            (1.0 - self.goodput) * (all[arm] - waste[arm]) + (1.0 - self.waste) * waste[arm]
        };
        std::array::from_fn(|arm| all[arm] - missing(arm))
    }
}

fn jitter(random: &mut Random, sd: f64) -> Rewards {
    // The default has no advantage over itself.
    std::array::from_fn(|arm| if arm == 0 { 0.0 } else { sd * random.normal() })
}

fn plus(a: Rewards, b: Rewards) -> Rewards {
    std::array::from_fn(|arm| a[arm] + b[arm])
}

fn kind(random: &mut Random) -> Effects {
    let Kind(_, goodput, lost, grown) = &KINDS[random.weighted(KINDS.iter().map(|kind| kind.0))];
    let reward = |arm: usize| goodput[arm] + (1.0 - lost[arm]).ln() - BETA * grown[arm].ln();
    let all = std::array::from_fn(|arm| reward(arm) - reward(0));
    let own = |arm: usize| goodput[arm] - goodput[0];
    Effects {
        all,
        waste: std::array::from_fn(|arm| all[arm] - own(arm)),
    }
}

/// The path of a group with this number.
pub fn lineage(group: usize, path: usize) -> Lineage {
    let class = Class {
        rtt_octave: Class::octave(40_000),
        ..Class::default()
    };
    let (site, group) = (group % SITES, group / SITES);
    let peer = Ipv4Addr::new(20, site as u8, group as u8, path as u8 + 1);
    Lineage::of(peer.into(), class, 0)
}

impl World {
    /// Other places have effects of their own for each site.
    pub fn new(seed: u64, place: u64) -> Self {
        let mut random = Random::of(&[seed, 1, place]);
        let sites: Vec<Effects> = (0..SITES).map(|_| kind(&mut random)).collect();
        let moved: Vec<Rewards> = (0..SITES).map(|_| jitter(&mut random, SPREAD[2])).collect();
        let group = |i: usize| {
            let is_odd = random.uniform() < ODD_GROUPS;
            let kind = if is_odd {
                kind(&mut random)
            } else {
                sites[i % SITES]
            };
            let moved = plus(kind.all, moved[i % SITES]);
            Effects {
                all: plus(moved, jitter(&mut random, SPREAD[1])),
                waste: kind.waste,
            }
        };
        let groups = (0..GROUPS).map(group).collect();
        Self {
            seed,
            place,
            groups,
        }
    }

    /// The groups as another place sees them if this share of the sites is alike at both.
    pub fn partly_alike(&self, other: &Self, share: f64) -> Self {
        let mut mixed = other.clone();
        let is_alike = |site: usize| Random::of(&[self.seed, 5, site as u64]).uniform() < share;
        for i in (0..GROUPS).filter(|i| is_alike(i % SITES)) {
            mixed.groups[i] = self.groups[i];
        }
        mixed
    }

    /// The same place after all groups of some sites have changed for everybody.
    pub fn changed(&self, is_changed: impl Fn(usize) -> bool) -> Self {
        let (mut new, other) = (self.clone(), Self::new(self.seed, 9));
        for i in (0..GROUPS).filter(|i| is_changed(i % SITES)) {
            new.groups[i] = other.groups[i];
        }
        new
    }

    /// Mean rewards of a group.
    pub fn group(&self, group: usize) -> Rewards {
        self.groups[group].all
    }

    /// The part of these that retransmissions and queues have.
    pub fn waste(&self, group: usize) -> Rewards {
        self.groups[group].waste
    }

    /// Mean rewards and baseline of a path for one host.
    pub fn path(&self, host: u64, group: usize, path: usize) -> (Rewards, f64) {
        let mut of_path = Random::of(&[self.seed, 2, self.place, group as u64, path as u64]);
        let mut of_host = Random::of(&[self.seed, 3, self.place, group as u64, host]);
        let own = plus(
            jitter(&mut of_path, SPREAD[0]),
            jitter(&mut of_host, HOST_SD),
        );
        let baseline = BASELINE_SD * of_path.normal();
        (plus(self.group(group), own), baseline)
    }
}

/// Noise of one connection in nats, with this factor on its own part.
pub fn noise(random: &mut Random, factor: f64) -> f64 {
    let [own, swing] = NOISE_SD;
    let own = factor * own * random.normal();
    own + swing * random.normal()
}
