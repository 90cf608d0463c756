//! A world for one seed: paths with kinds, baselines and effects, and arrivals.

use std::net::Ipv4Addr;

use tcpilot_learner::lineage::{Class, Lineage};
use tcpilot_learner::settings::RewardSettings;
use tcpilot_random::Random;

use crate::world::{Change, Kind, Tail, World};

/// The class and the effects of a connection.
#[derive(Clone, Copy)]
pub struct Face {
    pub lineage: Lineage,
    pub kind: usize,
    rtt_us: f64,
}

/// A path.
pub struct ScenePath {
    faces: [Face; 2],
    pub group: usize,
    pub baseline: f64,
    /// Nats by which each arm deviates from its kind's effect.
    pub jitter: Vec<f64>,
    /// A number below 1: it takes part in changes with a larger share than this.
    pub changes: f64,
    pub hostile: bool,
    /// Its group has a hostile peer.
    pub near_hostile: bool,
    swing: Walk,
    drift: Vec<Walk>,
}

/// An Ornstein-Uhlenbeck process, advanced as time passes.
pub struct Walk {
    value: f64,
    at_s: f64,
    random: Random,
}

/// One connection to come.
pub struct Arrival {
    pub at_s: f64,
    pub path: usize,
    /// Its number on its path.
    pub number: usize,
    /// Total connections of its path.
    pub of: usize,
}

/// A world for one seed.
pub struct Scene<'a> {
    pub world: &'a World,
    pub seed: u64,
    pub paths: Vec<ScenePath>,
}

impl ScenePath {
    /// The face of its connection of this number.
    pub fn face(&self, number: usize) -> Face {
        self.faces[number % 2]
    }
}

impl Walk {
    fn new(sd: f64, mut random: Random) -> Self {
        Self {
            value: sd * random.normal(),
            at_s: 0.0,
            random,
        }
    }

    fn at(&mut self, now_s: f64, sd: f64, time_s: f64) -> f64 {
        if now_s <= self.at_s {
            return self.value;
        }
        let keep = (-(now_s - self.at_s) / time_s).exp();
        self.at_s = now_s;
        let fresh = sd * (1.0 - keep * keep).sqrt();
        self.value = self.value * keep + fresh * self.random.normal();
        self.value
    }
}

fn normals(random: &mut Random, arms: usize, sd: f64) -> Vec<f64> {
    // The default has no advantage to itself.
    (0..arms)
        .map(|a| if a == 0 { 0.0 } else { sd * random.normal() })
        .collect()
}

fn plus(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

impl<'a> Scene<'a> {
    /// The world for this seed. `hostile`: with its hostile peers.
    pub fn new(world: &'a World, seed: u64, hostile: bool) -> Self {
        let mut scene = Self {
            world,
            seed,
            paths: Vec::new(),
        };
        let mut random = Random::of(&[seed, 1]);
        let arms = world.arms.len();
        let tree = &world.tree;
        let kind_of = |random: &mut Random| random.weighted(world.kind.iter().map(|k| k.share));
        for site in 0..tree.sites {
            let site_kind = kind_of(&mut random);
            let site_jitter = normals(&mut random, arms, tree.spread[2]);
            for g in 0..tree.groups_per_site {
                let other = random.uniform() < tree.odd_groups;
                let group_kind = if other {
                    kind_of(&mut random)
                } else {
                    site_kind
                };
                let jitter = plus(&site_jitter, &normals(&mut random, arms, tree.spread[1]));
                for host in 0..tree.paths_per_group {
                    let odd = random.uniform() < tree.odd_paths;
                    let kind = if odd {
                        kind_of(&mut random)
                    } else {
                        group_kind
                    };
                    scene.push([site, g, host], kind, &jitter, &mut random);
                }
            }
        }
        scene.add_hostile(hostile);
        scene
    }

    fn push(&mut self, at: [usize; 3], kind: usize, jitter: &[f64], random: &mut Random) {
        let (world, number) = (self.world, self.paths.len() as u64);
        let arms = world.arms.len();
        let rtt = &world.rtt[random.weighted(world.rtt.iter().map(|r| r.share))];
        let face = |ms: f64, kind: Option<&String>, else_: usize| Face {
            lineage: lineage(at, 1000.0 * ms),
            kind: kind
                .and_then(|name| world.kind_named(name))
                .unwrap_or(else_),
            rtt_us: 1000.0 * ms,
        };
        let first = face(rtt.ms, rtt.kind.as_ref(), kind);
        let other = rtt.other.as_ref();
        let other = other.map_or(first, |other| {
            face(other.ms, other.kind.as_ref(), first.kind)
        });
        let noise = &world.noise;
        let walk = |sd: f64, what: u64| Walk::new(sd, Random::of(&[self.seed, 2, number, what]));
        self.paths.push(ScenePath {
            faces: [first, other],
            group: at[0] * world.tree.groups_per_site + at[1],
            baseline: world.tree.baseline_sd * random.normal(),
            jitter: plus(jitter, &normals(random, arms, world.tree.spread[0])),
            changes: random.uniform(),
            hostile: false,
            near_hostile: false,
            swing: walk(noise.swing_sd, 0),
            drift: (0..arms)
                .map(|a| walk(noise.drift_sd, 1 + a as u64))
                .collect(),
        });
    }

    /// Marks the groups that have hostile peers, and adds these peers unless it is the run to compare
    /// with. The groups are spread evenly over the sites.
    fn add_hostile(&mut self, really: bool) {
        let Some(hostile) = &self.world.hostile else {
            return;
        };
        let tree = &self.world.tree;
        let groups = tree.sites * tree.groups_per_site;
        let mut random = Random::of(&[self.seed, 3]);
        for i in 0..hostile.groups.min(groups) {
            let group = i * groups / hostile.groups.min(groups);
            self.paths
                .iter_mut()
                .filter(|p| p.group == group)
                .for_each(|p| p.near_hostile = true);
            let Some(kind) = self
                .paths
                .iter()
                .find(|p| p.group == group)
                .map(|p| p.faces[0].kind)
            else {
                continue;
            };
            let zero = vec![0.0; self.world.arms.len()];
            for host in 0..if really { hostile.hosts } else { 0 } {
                let at = [
                    group / tree.groups_per_site,
                    group % tree.groups_per_site,
                    250 - host,
                ];
                self.push(at, kind, &zero, &mut random);
                if let Some(path) = self.paths.last_mut() {
                    path.hostile = true;
                }
            }
        }
    }

    /// All connections, in order of time.
    pub fn arrivals(&self) -> Vec<Arrival> {
        let when = &self.world.arrivals;
        let [least, most] = when.per_path;
        let honest = least as f64 * when.interval_s + when.start_s;
        let mut all = Vec::new();
        for (path, p) in self.paths.iter().enumerate() {
            let mut random = Random::of(&[self.seed, 4, path as u64]);
            let (interval_s, of) = match &self.world.hostile {
                Some(h) if p.hostile => (h.interval_s, (honest / h.interval_s) as usize),
                _ => (when.interval_s, least + random.below(most - least + 1)),
            };
            let mut at_s = random.uniform() * when.start_s;
            for number in 0..of {
                let step = if when.poisson {
                    random.exponential()
                } else {
                    1.0
                };
                // The first comes at the path's start, the others one interval after another.
                at_s += if number == 0 { 0.0 } else { interval_s * step };
                all.push(Arrival {
                    at_s,
                    path,
                    number,
                    of,
                });
            }
        }
        all.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        all
    }

    /// The events of a path until this time.
    fn changes(&self, path: &ScenePath, now_s: f64) -> impl Iterator<Item = &Change> {
        let share = path.changes;
        let all = self.world.change.iter();
        all.filter(move |c| c.at_s <= now_s && share < c.share)
    }

    /// The arm that gives `arm` its effects at this time.
    fn role(&self, path: &ScenePath, arm: usize, now_s: f64) -> usize {
        let arms = self.world.arms.len();
        let turns = self.changes(path, now_s).filter(|c| c.load == 0.0);
        let drawn = |rotate: usize| match rotate {
            0 if arms > 1 => 1 + self.seed as usize % (arms - 1),
            given => given,
        };
        (arm + turns.map(|c| drawn(c.rotate)).sum::<usize>()) % arms
    }

    /// Mean share of an arm's effect that transfers get, over the sizes.
    fn reach(&self, bytes: f64) -> f64 {
        let half = self.world.sizes.half_effect_bytes;
        bytes / (bytes + half)
    }

    fn mean_reach(&self) -> f64 {
        let sizes = &self.world.sizes;
        let quantile = tcpilot_learner::choice::normal_quantile;
        let points = (0..32).map(|i| quantile((f64::from(i) + 0.5) / 32.0));
        points
            .map(|z| self.reach(sizes.median_bytes * (sizes.sigma * z).exp()))
            .sum::<f64>()
            / 32.0
    }

    /// Mean reward of each arm for a connection, against the default's.
    pub fn means(&mut self, arrival: &Arrival) -> Vec<f64> {
        let (path, now_s) = (arrival.path, arrival.at_s);
        let noise = &self.world.noise;
        let arms = self.world.arms.len();
        let reach = self.mean_reach();
        let p = &mut self.paths[path];
        let drift: Vec<f64> = p
            .drift
            .iter_mut()
            .map(|w| w.at(now_s, noise.drift_sd, noise.drift_s))
            .collect();
        let p = &self.paths[path];
        let kind = &self.world.kind[p.face(arrival.number).kind];
        let all: Vec<f64> = (0..arms)
            .map(|arm| {
                let role = self.role(p, arm, now_s);
                let moved = if arm == 0 { 0.0 } else { drift[arm] };
                reach * (kind.mean_goodput(role) + p.jitter[role] + moved)
                    + kind.waste(role, &self.world.settings.reward)
            })
            .collect();
        all.iter().map(|x| x - all[0]).collect()
    }

    /// The outcome of one connection: the same for each learner that chooses this arm.
    pub fn transfer(&mut self, arrival: &Arrival, arm: usize) -> Transfer {
        let world = self.world;
        let mut random = Random::of(&[self.seed, 5, arrival.path as u64, arrival.number as u64]);
        let sizes = &world.sizes;
        let bytes = sizes.median_bytes * (sizes.sigma * random.normal()).exp();
        let noise = error(&mut random, &world.noise);
        let (noise_cfg, now_s) = (&world.noise, arrival.at_s);
        let p = &mut self.paths[arrival.path];
        let swing = p.swing.at(now_s, noise_cfg.swing_sd, noise_cfg.swing_s);
        let drift = match arm {
            0 => 0.0,
            _ => p.drift[arm].at(now_s, noise_cfg.drift_sd, noise_cfg.drift_s),
        };
        let p = &self.paths[arrival.path];
        let role = self.role(p, arm, now_s);
        let face = p.face(arrival.number);
        let kind = &world.kind[face.kind];
        let effect = kind.draw(role, &mut random);
        let bdp = sizes.rate * face.rtt_us / 1e6;
        let mut goodput = sizes.rate.ln()
            + p.baseline
            + swing
            + self.changes(p, now_s).map(|c| c.load).sum::<f64>()
            + noise
            + self.reach(bytes) * (effect.goodput + p.jitter[role] + drift)
            - sizes.rtt_slope * (face.rtt_us / 40_000.0).ln()
            - (1.0 + sizes.slow_start * bdp / bytes).ln();
        let lie = world.hostile.as_ref().filter(|_| p.hostile);
        goodput += lie.map_or(0.0, |h| h.lie[arm]);
        let outlying = random.uniform() < noise_cfg.outliers;
        goodput += if outlying {
            noise_cfg.outlier_factor.ln()
        } else {
            0.0
        };
        let min_rtt_us =
            face.rtt_us * lie.map_or(1.0, |h| h.rtt_factor) * (1.0 + 0.02 * random.exponential());
        Transfer {
            bytes,
            rate: goodput.exp(),
            retransmitted: (effect.retransmitted * (0.3 * random.normal()).exp()).min(0.9),
            inflation: effect.inflation.max(1.0),
            queued: kind.queued,
            min_rtt_us,
            bdp_bytes: bdp,
            vanished: random.uniform() < noise_cfg.vanished,
        }
    }
}

/// The outcome of one connection.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    pub bytes: f64,
    /// Bytes per second.
    pub rate: f64,
    pub retransmitted: f64,
    pub inflation: f64,
    /// The share of losses with a queue.
    pub queued: f64,
    pub min_rtt_us: f64,
    pub bdp_bytes: f64,
    pub vanished: bool,
}

struct Effect {
    goodput: f64,
    retransmitted: f64,
    inflation: f64,
}

impl Kind {
    fn given(list: &[f64], arm: usize, else_: f64) -> f64 {
        list.get(arm).copied().unwrap_or(else_)
    }

    fn mean_goodput(&self, arm: usize) -> f64 {
        match self.replay.get(arm) {
            Some(all) => all.iter().map(|m| m.goodput.ln()).sum::<f64>() / all.len() as f64,
            None => Self::given(&self.goodput, arm, 0.0),
        }
    }

    /// Mean deduction of the reward for retransmissions and RTT, in nats.
    fn waste(&self, arm: usize, reward: &RewardSettings) -> f64 {
        let of = |retransmitted: f64, inflation: f64| {
            reward.gamma * (1.0 - retransmitted).ln() - reward.beta * inflation.max(1.0).ln()
        };
        match self.replay.get(arm) {
            Some(all) => {
                all.iter()
                    .map(|m| of(m.retransmitted, m.inflation))
                    .sum::<f64>()
                    / all.len() as f64
            }
            None => of(
                Self::given(&self.retransmitted, arm, 0.0),
                Self::given(&self.inflation, arm, 1.0),
            ),
        }
    }

    fn draw(&self, arm: usize, random: &mut Random) -> Effect {
        let pick = random.uniform();
        match self.replay.get(arm) {
            Some(all) => {
                let m = &all[((pick * all.len() as f64) as usize).min(all.len() - 1)];
                Effect {
                    goodput: m.goodput.ln(),
                    retransmitted: m.retransmitted,
                    inflation: m.inflation,
                }
            }
            None => Effect {
                goodput: Self::given(&self.goodput, arm, 0.0),
                retransmitted: Self::given(&self.retransmitted, arm, 0.0),
                inflation: Self::given(&self.inflation, arm, 1.0),
            },
        }
    }
}

/// The noise of one connection.
fn error(random: &mut Random, noise: &crate::world::Noise) -> f64 {
    let z = random.normal();
    match noise.tail {
        Tail::Normal => noise.sd * z,
        Tail::Student => {
            let chi2: f64 = (0..3).map(|_| random.normal().powi(2)).sum();
            noise.sd * z / (chi2 / 3.0).sqrt() / 3f64.sqrt()
        }
        Tail::Lognormal => {
            // ln-width 0.8; scaled to mean 0 and variance 1 by the moments of exp(0.8 z).
            let s2 = 0.64f64;
            let mean = (s2 / 2.0).exp();
            let sd = (s2.exp() - 1.0).sqrt() * mean;
            -noise.sd * ((0.8 * z).exp() - mean) / sd
        }
    }
}

fn lineage([site, group, host]: [usize; 3], rtt_us: f64) -> Lineage {
    let address = Ipv4Addr::new(
        11 + (site / 256) as u8,
        (site % 256) as u8,
        group as u8,
        host as u8,
    );
    let class = Class {
        rtt_octave: Class::octave(rtt_us as u32),
        ..Class::default()
    };
    Lineage::of(address.into(), class, 0)
}
