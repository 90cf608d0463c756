//! Simulated trials: how often the report would be wrong, how long it takes, and what harm gets past the guard.
//!
//! ```text
//! cargo run --release -p tcpilot-simulate --bin simulate-effect -- docs/measured/effect.md
//! ```
//!
//! Renews the tables of the page between their marks; without a page it prints them. The same tables each time.

use std::{collections::BTreeMap, fmt::Write as _, process::ExitCode};

use tcpilot_proof::{
    Guard, Pair, Pairs, Sequence,
    guard::{Limits, Step},
};
use tcpilot_random::Random;

const RUNS: u64 = 1000;
/// Standard deviation of a block's mean, in nats.
const BLOCK_SD: f64 = 0.3;

/// What makes the noise of blocks.
#[derive(Clone, Copy)]
enum Noise {
    /// Normal numbers.
    Normal,
    /// Exponential ones: means of few connections are as skewed.
    Skewed,
    /// Student's t with three degrees of freedom: one block in a hundred is far off.
    Heavy,
    /// The load wanders: each block is like the one before it.
    Wandering,
    /// Twenty groups, the last of them five times as noisy as the first.
    Unequal,
}

const NOISES: [(Noise, &str); 5] = [
    (Noise::Normal, "normal"),
    (
        Noise::Skewed,
        "skewed (exponential), as means of few connections are",
    ),
    (Noise::Heavy, "heavy tails (Student's t, three degrees)"),
    (
        Noise::Wandering,
        "a load that wanders (correlation 0.95 from block to block)",
    ),
    (
        Noise::Unequal,
        "twenty groups, some five times as noisy as others",
    ),
];

/// A host with pairs of blocks over time.
struct World {
    random: Random,
    noise: Noise,
    load: f64,
    pairs: u64,
}

impl World {
    fn new(seed: u64, noise: Noise) -> World {
        World {
            random: Random(seed),
            noise,
            load: 0.0,
            pairs: 0,
        }
    }

    /// The next block's deviation from the mean, with [`BLOCK_SD`].
    fn block(&mut self) -> f64 {
        let random = &mut self.random;
        let unit = match self.noise {
            Noise::Normal => random.normal(),
            Noise::Skewed => -random.uniform().ln() - 1.0,
            Noise::Heavy => {
                let square: f64 = (0..3).map(|_| random.normal().powi(2)).sum();
                random.normal() / (square / 3.0).sqrt() / 3f64.sqrt()
            }
            Noise::Wandering => {
                self.load = 0.95 * self.load + (1.0f64 - 0.95 * 0.95).sqrt() * random.normal();
                (self.load + 0.5 * random.normal()) / 1.25f64.sqrt()
            }
            Noise::Unequal => random.normal() * (1.0 + 4.0 * (self.pairs % 20) as f64 / 19.0) / 3.2,
        };
        BLOCK_SD * unit
    }

    /// A pair of blocks; a coin decided which was steered.
    fn pair(&mut self, effect: f64) -> Pair {
        let (first, second) = (self.block(), self.block());
        self.pairs += 1;
        let sign = if self.random.uniform() < 0.5 {
            1.0
        } else {
            -1.0
        };
        Pair {
            difference: effect + sign * (first - second),
            covariate: 0.0,
        }
    }
}

/// One trial, looked at after every pair.
#[derive(Default)]
struct Seen {
    /// The first look with the true effect outside the interval.
    missed_at: Option<u64>,
    /// The first look with zero outside the interval.
    shown_at: Option<u64>,
}

fn trial(seed: u64, noise: Noise, effect: f64, looks: u64) -> Seen {
    let (mut world, mut sums) = (World::new(seed, noise), Pairs::default());
    let (sequence, mut seen) = (Sequence::default(), Seen::default());
    for n in 1..=looks {
        sums.add(world.pair(effect));
        let Some(found) = sums.interval(&sequence) else {
            continue;
        };
        if !(found.low..=found.high).contains(&effect) {
            seen.missed_at.get_or_insert(n);
        }
        if found.low > 0.0 || found.high < 0.0 {
            seen.shown_at.get_or_insert(n);
        }
    }
    seen
}

fn percent(count: usize) -> String {
    format!("{:.1} %", 100.0 * count as f64 / RUNS as f64)
}

/// Whether more than five per cent of the runs would be no luck: 5 % and two standard deviations of a binomial.
fn holds(count: usize) -> &'static str {
    let most = 0.05 * RUNS as f64 + 2.0 * (0.05 * 0.95 * RUNS as f64).sqrt();
    if count as f64 <= most {
        "yes"
    } else {
        "**no**"
    }
}

fn false_alarms() -> String {
    let looks = 6000;
    let mut rows = String::from(
        "| noise of blocks | ever shown | within the first 40 pairs | at most 5 % |\n|---|---|---|---|\n",
    );
    for (noise, name) in NOISES {
        let shown = (0..RUNS).filter_map(|seed| trial(seed, noise, 0.0, looks).shown_at);
        let shown: Vec<u64> = shown.collect();
        let early = shown.iter().filter(|at| **at <= 40).count();
        let (all, early, word) = (percent(shown.len()), percent(early), holds(shown.len()));
        let _ = writeln!(rows, "| {name} | {all} | {early} | {word} |");
    }
    rows
}

/// True effect, looks, and the facts' pairs: half of the trials have shown it, and 80 %.
const EFFECTS: [(f64, u64, &str); 4] = [
    (0.02, 9000, "3450"),
    (0.05, 3000, "539, 981"),
    (0.1, 1000, "145, 232"),
    (0.3, 300, "–"),
];

/// The smallest number not exceeded in this share of all runs; runs without one count as exceeding it.
fn quantile(sorted: &[u64], share: f64) -> String {
    let at = (share * RUNS as f64).ceil() as usize;
    let found = sorted.get(at.saturating_sub(1));
    found.map_or_else(|| "–".to_owned(), u64::to_string)
}

fn coverage() -> String {
    let mut rows = String::from(
        "| true effect | looks | truth outside at some look | at most 5 % | pairs until shown: median, 80 % | simulated before |\n\
         |---|---|---|---|---|---|\n",
    );
    for (effect, looks, before) in EFFECTS {
        let truth = effect.ln_1p();
        let (mut missed, mut shown) = (0, Vec::new());
        for seed in 0..RUNS {
            let seen = trial(10_000 + seed, Noise::Normal, truth, looks);
            missed += usize::from(seen.missed_at.is_some());
            shown.extend(seen.shown_at);
        }
        shown.sort_unstable();
        let (median, most) = (quantile(&shown, 0.5), quantile(&shown, 0.8));
        let (share, word) = (percent(missed), holds(missed));
        let percent = 100.0 * effect;
        let _ = writeln!(
            rows,
            "| {percent:.0} % | {looks} | {share} | {word} | {median}, {most} | {before} |"
        );
    }
    rows
}

/// Pairs a day of twenty busy groups with the default price: an hour in ten is a pair.
const PAIRS_A_DAY: u64 = 48;
const DAYS: u64 = 30;
const DAY_S: u64 = 24 * 3600;

/// What a host went through in [`DAYS`] after steering turned harmful.
struct Month {
    /// Pairs until the first stop.
    stopped_after: Option<u64>,
    /// Share of the time steered all the same.
    steered: f64,
    stops: u64,
}

/// `before`: the effect over so many pairs; then `after`.
fn month(seed: u64, before: (u64, f64), after: f64) -> Month {
    let mut world = World::new(20_000 + seed, Noise::Normal);
    let (mut guard, sequence, limits) = (Guard::default(), Sequence::default(), Limits::default());
    let step_s = DAY_S / PAIRS_A_DAY;
    for _ in 0..before.0 {
        guard.add(world.pair(before.1), 0, &limits, &sequence);
    }
    let (mut month, mut steered) = (
        Month {
            stopped_after: None,
            steered: 0.0,
            stops: 0,
        },
        0,
    );
    guard.resume(
        0,
        &Limits {
            pause_max_s: 0,
            ..limits
        },
    );
    for number in 0..DAYS * PAIRS_A_DAY {
        let now_s = number * step_s;
        if !guard.allows(now_s) {
            continue;
        }
        steered += 1;
        if let Step::Stops { .. } = guard.add(world.pair(after), now_s, &limits, &sequence) {
            month.stopped_after.get_or_insert(number + 1);
            month.stops += 1;
        }
    }
    month.steered = steered as f64 / (DAYS * PAIRS_A_DAY) as f64;
    month
}

fn harm() -> String {
    let mut rows = String::from(
        "| before | then | stopped in 30 days | pairs until then: median, 95 % | days | steered all the same, of 30 days | goodput lost in 30 days, without the guard |\n\
         |---|---|---|---|---|---|---|\n",
    );
    let befores = [(0, 0.0, "nothing"), (1000, 0.1, "1000 pairs of +10 %")];
    for (pairs, gain, name) in befores {
        for loss in [0.05, 0.1, 0.3] {
            let months =
                (0..RUNS).map(|seed| month(seed, (pairs, f64::ln_1p(gain)), f64::ln_1p(-loss)));
            let months: Vec<Month> = months.collect();
            let mut stopped: Vec<u64> = months.iter().filter_map(|m| m.stopped_after).collect();
            stopped.sort_unstable();
            let median = quantile(&stopped, 0.5);
            let days = median.parse::<f64>().unwrap_or(f64::NAN) / PAIRS_A_DAY as f64;
            let days = if days.is_nan() {
                "–".to_owned()
            } else {
                format!("{days:.1}")
            };
            let steered = months.iter().map(|m| m.steered).sum::<f64>() / RUNS as f64;
            let (share, late) = (percent(stopped.len()), quantile(&stopped, 0.95));
            // 5 % of the time is held out with and without a guard.
            let (lost, without) = (95.0 * loss * steered, 95.0 * loss);
            let loss = 100.0 * loss;
            let _ = writeln!(
                rows,
                "| {name} | −{loss:.0} % | {share} | {median}, {late} | {days} | {:.0} % | {lost:.1} %, {without:.1} % |",
                100.0 * steered
            );
        }
    }
    rows
}

fn false_stops() -> String {
    let mut rows = String::from("| effect | hosts with a stop in 3000 pairs |\n|---|---|\n");
    for (effect, name) in [
        (0.0, "none"),
        (-0.01, "−1 %"),
        (f64::ln_1p(-0.02), "−2 %, the bound"),
        (f64::ln_1p(0.1), "+10 %"),
    ] {
        let stops = |seed: &u64| {
            let mut world = World::new(30_000 + seed, Noise::Normal);
            let (mut guard, sequence, limits) =
                (Guard::default(), Sequence::default(), Limits::default());
            (0..3000).any(|now_s| {
                let step = guard.add(world.pair(effect), now_s, &limits, &sequence);
                step != Step::Goes
            })
        };
        let count = (0..RUNS).filter(stops).count();
        let _ = writeln!(rows, "| {name} | {} |", percent(count));
    }
    rows
}

fn tables() -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        ("false-alarms", false_alarms()),
        ("coverage", coverage()),
        ("harm", harm()),
        ("false-stops", false_stops()),
    ])
}

/// The page with these tables; an error names a missing mark.
fn renewed(page: &str, tables: &BTreeMap<&str, String>) -> Result<String, String> {
    let mut page = page.to_owned();
    for (name, table) in tables {
        let mark = format!("<!-- table: {name} -->\n");
        let lacks = || format!("the page lacks {mark:?}, or the end of its table");
        let begin = page.find(&mark).ok_or_else(lacks)? + mark.len();
        let length = page[begin..].find("<!-- end -->").ok_or_else(lacks)?;
        page.replace_range(begin..begin + length, &format!("\n{table}\n"));
    }
    Ok(page)
}

fn main() -> ExitCode {
    let tables = tables();
    let Some(path) = std::env::args().nth(1) else {
        for (name, table) in &tables {
            println!("{name}\n\n{table}");
        }
        return ExitCode::SUCCESS;
    };
    let read = std::fs::read_to_string(&path).map_err(|e| e.to_string());
    let page = read.and_then(|page| renewed(&page, &tables));
    match page.and_then(|page| std::fs::write(&path, page).map_err(|e| e.to_string())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{path}: {problem}");
            ExitCode::FAILURE
        }
    }
}
