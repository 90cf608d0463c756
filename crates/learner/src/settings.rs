//! The learner's constants, each with its unit and the reason for its default.

use serde::{Deserialize, Serialize};

/// All constants of a learner.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The belief before the first sample.
    pub model: Model,
    /// How fast knowledge ages.
    pub memory: Memory,
    /// When a path counts as changed.
    pub change: Change,
    /// How choices are made, and the bounds of the cost of exploring.
    pub choice: Choice,
    /// The reward of one connection.
    pub reward: RewardSettings,
    /// The regression on properties known before the choice.
    pub regression: Regression,
}

/// Priors, and how their widths are learned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Model {
    /// Standard deviation of one whole sample around its path and arm, in nats, until it is learned.
    /// Connections of one path differ by half a nat in the laboratory and in published traces.
    pub noise_sd: f64,
    /// Standard deviation between paths, the same for all arms, in nats, until it is learned.
    pub baseline_sd: f64,
    /// Standard deviation of a path's load swings, the same for all arms, in nats. The load of busy
    /// links swings so much within an hour; too large a value costs a sparse path little.
    pub swing_sd: f64,
    /// Time constant of the swings in seconds.
    pub swing_s: f64,
    /// Standard deviation between a child's advantages and its parent's, until learned: path in group,
    /// group in site, site in class, class in the global node. Most differences are those of sites:
    /// clients of one /24 share an access network.
    pub spread: [f64; 4],
    /// Mean of an unknown advantage, in nats. Slightly negative: a default is seldom the worst.
    pub prior_mean: f64,
    /// Standard deviation of an unknown advantage, in nats. Measured arms differ by 0.05 to 1.2.
    pub prior_sd: f64,
    /// Correlation of two unknown advantages. All are differences from the same default: where it does badly, all
    /// are large.
    pub prior_correlation: f64,
    /// Bounds of a learned spread in nats: neither chance nor a mix of paths may make a level useless
    /// for good.
    pub spread_bounds: [f64; 2],
    /// Weight of the first guess of a spread or noise, in pairs of children or in samples. It keeps the
    /// first few dozen samples from deciding it.
    pub guess_weight: f64,
    /// Samples until the widths are learned for the first time; then at each doubling, up to
    /// `widths_every_s`. A host with few connections would otherwise wait for an hour.
    pub widths_after: u64,
    /// Seconds between two estimates of the widths.
    pub widths_every_s: f64,
    /// Maximum number of samples of one path that count towards its group. A path cannot outweigh its
    /// neighbours by being busy: this bounds the effect of a hostile or odd peer on them.
    pub path_weight_max: f64,
    /// If a message would move an advantage of its node by more than so many standard deviations, it
    /// counts less, and from twice as many on not at all. This bounds the effect of one odd or
    /// hostile peer, or of one /24.
    pub outlier_sd: f64,
    /// Residuals beyond so many standard deviations are cut off there: rates have heavy tails.
    pub clip_sd: f64,
}

/// The bounds of the memory, and its half-lives in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Memory {
    /// Half-life of a path's own samples.
    pub path_s: f64,
    /// Half-life of a path's message to its group.
    pub group_s: f64,
    /// Half-life of a group's message to its site, and of messages above.
    pub above_s: f64,
    /// Maximum number of paths. If there are more, those with the fewest and oldest samples
    /// are forgotten. A million takes 80 to 140 MB, with two to four arms.
    pub paths_max: usize,
    /// Seconds in which each path's row is published once even if nothing was learned: knowledge ages.
    pub round_s: f64,
}

/// Two-sided cumulative sums (Page 1954) of standardised residuals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Change {
    /// Standard deviations by which a residual may deviate without adding to the sum: half of the
    /// shift to be found soonest.
    pub drift: f64,
    /// The sum at which the path counts as changed. At 5 an unchanged path alarms once in about 930
    /// samples on one side (Siegmund's approximation), a shift of 1 is found after about 10.
    pub alarm: f64,
    /// Least weight of a path's own samples for the residual to mean anything.
    pub weight_min: f64,
    /// Share of a path's knowledge kept at an alarm.
    pub keep: f64,
    /// Number of children: if so many alarm within `window_s`, their node alarms too: a group's
    /// paths, a site's groups, and so on.
    pub group_paths: usize,
    /// Seconds, see `group_paths`.
    pub window_s: f64,
    /// As `drift`, for nodes above the paths.
    pub pooled_drift: f64,
    /// As `alarm`, for nodes above the paths.
    pub pooled_alarm: f64,
    /// Share of the knowledge below a node kept when it alarms.
    pub group_keep: f64,
}

/// Choosing safely.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Choice {
    /// Least advantage of another arm over the default, in nats: a smaller gain is not worth a move.
    pub bonus: f64,
    /// Least advantage, in nats, on a path whose losses come with a queue: others may share it
    /// ([`crate::sharing`]). Beside flows of cubic and reno, others' or one's own, arms gain up to 0.9;
    /// where flows of bbr starve the default, they gain 1.5 to 3.8.
    pub shared_bonus: f64,
    /// Factor on the belief's standard deviations when arms are drawn from it. 1 is Thompson
    /// sampling; a smaller factor explores less, and finds a better arm later.
    pub width: f64,
    /// Least share of the default, always: advantages need it.
    pub floor_default: f64,
    /// Least share of any other arm as long as it may be the best.
    pub floor_other: f64,
    /// An arm may still be the best unless the path's own samples speak against it by so many
    /// standard deviations.
    pub hopeful_sd: f64,
    /// Credit of a new group for exploring, in nats times connections.
    pub ledger_start: f64,
    /// Maximum credit of a group, in nats times connections.
    pub ledger_max: f64,
    /// Credit per connection, in nats: exploring may always cost one per cent.
    pub ledger_income: f64,
    /// Share of an expected win added to the credit.
    pub ledger_win: f64,
    /// Least part of the learner's own shares that remains once the credit is used up.
    pub ledger_least: f64,
    /// Seconds in which the connections of one path get the same arm. Overlapping connections would
    /// otherwise compare arms while these fight for one queue (Spang et al., IMC 2021).
    pub epoch_s: f64,
}

/// From measures to nats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RewardSettings {
    /// Weight of ln(1 − retransmitted share). 1: a byte sent twice is worth a byte not delivered.
    pub gamma: f64,
    /// Weight of the connection's own RTT inflation: 0.1 without an objective, 0 for throughput, 0.5
    /// for latency, 1 for real time.
    pub beta: f64,
    /// Microseconds by which an RTT may grow without meaning anything: timers and interrupts cause that.
    pub dead_zone_us: f64,
    /// Fewer acknowledged bytes give no sample: they are a slow start's first rounds.
    pub bytes_min: u64,
    /// A connection of so many bandwidth-delay products counts as a whole sample.
    pub bdps: f64,
    /// Least weight of a connection that gives a sample.
    pub weight_min: f64,
    /// Cost of a time-out in nats, less the path's usual share of them.
    pub timeout_cost: f64,
    /// Seconds in which the correlation of a long connection's samples falls to 1/e. A sample each ten
    /// seconds then counts a sixth, one each minute three quarters.
    pub interval_memory_s: f64,
}

/// Ridge regression on the features of [`crate::regression`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Regression {
    /// Added to the diagonal, in samples: keeps the coefficients of constant features at zero.
    pub ridge: f64,
    /// Half-life in seconds. The effect of a size or an RTT on a rate changes slowly.
    pub half_life_s: f64,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            noise_sd: 0.5,
            baseline_sd: 0.8,
            swing_sd: 0.3,
            swing_s: 600.0,
            spread: [0.15, 0.25, 0.3, 0.3],
            prior_mean: -0.1,
            prior_sd: 0.5,
            prior_correlation: 0.5,
            spread_bounds: [0.02, 1.0],
            guess_weight: 16.0,
            widths_after: 256,
            widths_every_s: 3600.0,
            path_weight_max: 100.0,
            outlier_sd: 3.0,
            clip_sd: 3.0,
        }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            path_s: 21_600.0,
            group_s: 21_600.0,
            above_s: 86_400.0,
            paths_max: 1_000_000,
            round_s: 3600.0,
        }
    }
}

impl Default for Change {
    fn default() -> Self {
        Self {
            drift: 0.4,
            alarm: 8.0,
            weight_min: 3.0,
            keep: 0.05,
            group_paths: 3,
            window_s: 600.0,
            group_keep: 0.03,
            pooled_drift: 0.15,
            pooled_alarm: 26.0,
        }
    }
}

impl Default for Choice {
    fn default() -> Self {
        Self {
            bonus: 0.02,
            shared_bonus: 1.0,
            width: 0.55,
            floor_default: 0.01,
            floor_other: 0.005,
            hopeful_sd: 1.5,
            ledger_start: 1.0,
            ledger_max: 5.0,
            ledger_income: 0.005,
            ledger_win: 0.5,
            ledger_least: 0.02,
            epoch_s: 30.0,
        }
    }
}

impl Default for RewardSettings {
    fn default() -> Self {
        Self {
            gamma: 1.0,
            beta: 0.1,
            dead_zone_us: 50.0,
            bytes_min: 16_384,
            bdps: 4.0,
            weight_min: 1.0 / 16.0,
            timeout_cost: 0.5,
            interval_memory_s: 30.0,
        }
    }
}

impl Default for Regression {
    fn default() -> Self {
        Self {
            ridge: 4.0,
            half_life_s: 86_400.0,
        }
    }
}
