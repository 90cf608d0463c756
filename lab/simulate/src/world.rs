//! The parts of a world, as in its TOML file.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use tcpilot_learner::{MAX_ARMS, Settings};

use crate::expect::Expect;

/// A world.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct World {
    /// One sentence for the table's head.
    pub about: String,
    /// Names of the arms; the first is the default.
    pub arms: Vec<String>,
    /// Its prefixes.
    pub tree: Prefixes,
    /// When connections are opened.
    pub arrivals: Arrivals,
    /// Noise hiding an arm's effect.
    #[serde(default)]
    pub noise: Noise,
    /// How much connections transfer.
    #[serde(default)]
    pub sizes: Sizes,
    /// RTTs of paths.
    #[serde(default = "one_rtt")]
    pub rtt: Vec<Rtt>,
    /// Kinds of paths.
    pub kind: Vec<Kind>,
    /// Events in mid-run.
    #[serde(default)]
    pub change: Vec<Change>,
    /// Lying peers.
    pub hostile: Option<Hostile>,
    /// Seconds between two publications of choice distributions; ended connections are taken in then.
    #[serde(default = "one_second")]
    pub publish_s: f64,
    /// Learner constants changed from their defaults.
    #[serde(default)]
    pub settings: Settings,
    /// Bounds on the results of its runs.
    #[serde(default)]
    pub expect: Vec<Expect>,
}

/// Sites of groups of paths.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prefixes {
    pub sites: usize,
    pub groups_per_site: usize,
    pub paths_per_group: usize,
    /// Share of groups of another kind than their site.
    #[serde(default)]
    pub odd_groups: f64,
    /// Share of paths of another kind than their group.
    #[serde(default)]
    pub odd_paths: f64,
    /// Each host knows only one path.
    #[serde(default)]
    pub lone: bool,
    /// Standard deviation of the advantages between path and group, group and site, site and kind, in nats.
    #[serde(default)]
    pub spread: [f64; 3],
    /// Standard deviation of the paths' baselines, in nats.
    #[serde(default)]
    pub baseline_sd: f64,
}

/// When a path's connections are opened.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arrivals {
    /// Least and most connections of a path.
    pub per_path: [usize; 2],
    /// Mean seconds from one connection of a path to its next.
    pub interval_s: f64,
    /// Poisson (true) or regular.
    #[serde(default = "yes")]
    pub poisson: bool,
    /// A path's first connection comes within so many seconds.
    #[serde(default)]
    pub start_s: f64,
}

/// Noise hiding an arm's effect.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Noise {
    /// Standard deviation of one connection's ln goodput.
    pub sd: f64,
    /// Its distribution.
    pub tail: Tail,
    /// Load swings of a path, the same for all arms: standard deviation and time constant.
    pub swing_sd: f64,
    pub swing_s: f64,
    /// Drift of a path's advantages: standard deviation and time constant.
    pub drift_sd: f64,
    pub drift_s: f64,
    /// Share of connections with a wrongly measured rate, and the factor of the error.
    pub outliers: f64,
    pub outlier_factor: f64,
    /// Share of connections whose peer vanishes.
    pub vanished: f64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Tail {
    #[default]
    Normal,
    /// Student's t with three degrees of freedom, scaled to the standard deviation.
    Student,
    /// Lognormal, with its long tail on the slow side.
    Lognormal,
}

/// How much connections transfer.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sizes {
    pub median_bytes: f64,
    /// Standard deviation of ln bytes.
    pub sigma: f64,
    /// Goodput is lower by ln(1 + slow_start · BDP / bytes).
    pub slow_start: f64,
    /// An arm has half of its effect on a transfer of so many bytes; 0: the size does not matter.
    pub half_effect_bytes: f64,
    /// Bytes per second of an unhindered path.
    pub rate: f64,
    /// The fall of ln goodput per nat of RTT.
    pub rtt_slope: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rtt {
    pub ms: f64,
    #[serde(default = "one")]
    pub share: f64,
    /// The kind of these paths, if it does not depend on their prefix.
    pub kind: Option<String>,
    /// Every other connection of these paths.
    pub other: Option<Other>,
}

/// Every other connection of a path.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Other {
    pub ms: f64,
    /// The kind of these connections, if it is not the path's.
    pub kind: Option<String>,
}

/// A kind of path: per arm the mean ln goodput against the default's, the share of segments
/// sent again, and its RTT under load against the least; or a file of measured samples.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    pub name: String,
    #[serde(default = "one")]
    pub share: f64,
    #[serde(default)]
    pub goodput: Vec<f64>,
    #[serde(default)]
    pub retransmitted: Vec<f64>,
    #[serde(default)]
    pub inflation: Vec<f64>,
    /// The share of its losses that come with a queue; the others look like random loss.
    #[serde(default)]
    pub queued: f64,
    /// JSON lines of `{"arm", "goodput", "retransmitted", "inflation"}`; the path is relative to the world's
    /// folder.
    pub samples: Option<PathBuf>,
    #[serde(skip)]
    pub replay: Vec<Vec<Measured>>,
}

/// One measured connection.
#[derive(Clone, Debug, Deserialize)]
pub struct Measured {
    pub arm: String,
    /// Bytes per second; any unit will do, since only ratios count.
    pub goodput: f64,
    pub retransmitted: f64,
    #[serde(default = "one")]
    pub inflation: f64,
}

/// An event in mid-run: each arm takes the effects of the arm `rotate` places after it (0: drawn by seed), or, with
/// `load`, each arm is faster by so many nats.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    pub at_s: f64,
    #[serde(default)]
    pub rotate: usize,
    #[serde(default)]
    pub load: f64,
    /// Share of changing paths.
    #[serde(default = "one")]
    pub share: f64,
}

/// Peers whose answers make arms look better or worse than they are.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hostile {
    /// Number of groups with such a peer.
    pub groups: usize,
    /// Seconds between its connections.
    pub interval_s: f64,
    /// Shift of each arm's reward, in nats.
    pub lie: Vec<f64>,
    /// Factor on its least RTT.
    #[serde(default = "one")]
    pub rtt_factor: f64,
    /// Number of hosts in the group that open its connections.
    #[serde(default = "one_host")]
    pub hosts: usize,
}

fn yes() -> bool {
    true
}
fn one() -> f64 {
    1.0
}
fn one_host() -> usize {
    1
}
fn one_second() -> f64 {
    1.0
}
fn one_rtt() -> Vec<Rtt> {
    vec![Rtt {
        ms: 40.0,
        share: 1.0,
        kind: None,
        other: None,
    }]
}

impl Default for Noise {
    fn default() -> Self {
        Self {
            sd: 0.5,
            tail: Tail::Normal,
            swing_sd: 0.0,
            swing_s: 600.0,
            drift_sd: 0.0,
            drift_s: 86_400.0,
            outliers: 0.0,
            outlier_factor: 20.0,
            vanished: 0.0,
        }
    }
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            median_bytes: 1e6,
            sigma: 0.0,
            slow_start: 0.0,
            half_effect_bytes: 0.0,
            rate: 1.5e6,
            rtt_slope: 0.0,
        }
    }
}

impl World {
    /// Reads a world and its files of samples.
    pub fn read(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("{}: cannot be read", file.display()))?;
        let mut world: Self =
            toml::from_str(&text).with_context(|| format!("{}", file.display()))?;
        world
            .check()
            .with_context(|| format!("{}", file.display()))?;
        for kind in &mut world.kind {
            if let Some(samples) = &kind.samples {
                let samples = file.parent().unwrap_or(Path::new(".")).join(samples);
                kind.replay = read_samples(&samples, &world.arms)?;
            }
        }
        Ok(world)
    }

    /// The number of the kind with this name.
    pub fn kind_named(&self, name: &str) -> Option<usize> {
        self.kind.iter().position(|kind| kind.name == name)
    }

    fn check(&self) -> Result<()> {
        let arms = self.arms.len();
        ensure!(
            (1..=MAX_ARMS).contains(&arms),
            "arms: 1 to {MAX_ARMS}, not {arms}"
        );
        ensure!(
            !self.kind.is_empty() && !self.rtt.is_empty(),
            "kind, rtt: at least one"
        );
        for rtt in &self.rtt {
            let others = rtt.other.iter().filter_map(|other| other.kind.as_ref());
            for name in rtt.kind.iter().chain(others) {
                ensure!(
                    self.kind_named(name).is_some(),
                    "rtt: there is no kind {name}"
                );
            }
        }
        for kind in self.kind.iter().filter(|kind| kind.samples.is_none()) {
            let lists = [&kind.goodput, &kind.retransmitted, &kind.inflation];
            ensure!(
                lists
                    .iter()
                    .all(|list| list.len() == arms || list.is_empty()),
                "kind {}: each list has a number per arm, or none",
                kind.name
            );
        }
        let [least, most] = self.arrivals.per_path;
        ensure!(
            least <= most && self.arrivals.interval_s > 0.0,
            "arrivals: least, most; interval_s > 0"
        );
        if let Some(hostile) = &self.hostile {
            ensure!(
                hostile.lie.len() == arms,
                "hostile: lie has a number per arm"
            );
        }
        Ok(())
    }
}

fn read_samples(file: &Path, arms: &[String]) -> Result<Vec<Vec<Measured>>> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("{}: cannot be read", file.display()))?;
    let mut replay = vec![Vec::new(); arms.len()];
    for (number, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let sample: Measured = serde_json::from_str(line)
            .with_context(|| format!("{}:{}", file.display(), number + 1))?;
        if let Some(arm) = arms.iter().position(|arm| *arm == sample.arm) {
            replay[arm].push(sample);
        }
    }
    for (arm, samples) in arms.iter().zip(&replay) {
        ensure!(
            !samples.is_empty(),
            "{}: no sample of {arm}",
            file.display()
        );
    }
    // The default's geometric mean becomes 1, to keep the world's scale.
    let default = replay[0].iter().map(|m| m.goodput.ln()).sum::<f64>() / replay[0].len() as f64;
    replay
        .iter_mut()
        .flatten()
        .for_each(|m| m.goodput /= default.exp());
    Ok(replay)
}
