//! `simulate`: runs learners in simulated worlds, and checks the results against bounds. Worlds and bounds
//! are read from files.
//!
//! Each learner meets the same connections with the same noise. The score is the mean reward of the arms
//! chosen, not the noisy reward that was drawn.

mod expect;
mod learners;
mod plot;
mod run;
mod scene;
mod score;
mod table;
mod verdict;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser;
use serde::Serialize;

use expect::{Expect, Metric};
use learners::lasts_s as learners_lasts_s;
use score::Score;
use verdict::{BoundCheck, judge};
use world::World;

/// Compare learners in simulated worlds.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    /// Files that describe worlds.
    #[arg(required = true, value_name = "WORLD.toml")]
    worlds: Vec<PathBuf>,
    /// How many seeds.
    #[arg(long, default_value_t = 10)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
    /// Only these learners: an arm's name, epsilon, epsilon24 (a path is a /24), flat, tree.
    #[arg(long, value_delimiter = ',')]
    learners: Vec<String>,
    /// Runs at a time.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Seconds between publications of choice distributions, in place of the world's.
    #[arg(long)]
    publish_s: Option<f64>,
    /// TOML of changed learner constants, in place of the world's: '[change] alarm = 8'.
    #[arg(long)]
    settings: Option<String>,
    /// Write JSON.
    #[arg(long)]
    json: bool,
    /// Write a plot per world into this directory.
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
}

/// All runs of one learner.
#[derive(Serialize)]
struct Runs {
    learner: String,
    /// Per seed: the run, and the one without hostile peers if a bound asks for it.
    runs: Vec<(Score, Option<Score>)>,
}

/// The results of one world.
#[derive(Serialize)]
struct Report {
    world: String,
    about: String,
    kinds: Vec<String>,
    seeds: Vec<u64>,
    learners: Vec<Runs>,
    verdicts: Vec<BoundCheck>,
}

fn report(file: &std::path::Path, arguments: &Arguments) -> Result<Report> {
    let mut world = World::read(file)?;
    world.publish_s = arguments.publish_s.unwrap_or(world.publish_s);
    if let Some(text) = &arguments.settings {
        world.settings = toml::from_str(text).context("--settings")?;
    }
    let names = match arguments.learners.is_empty() {
        true => learners::names(&world.arms),
        false => arguments.learners.clone(),
    };
    let seeds: Vec<u64> = (arguments.first_seed..)
        .take(arguments.seeds as usize)
        .collect();
    let lost = |e: &Expect| matches!(e.metric, Metric::LostNear | Metric::LostElsewhere);
    let twin = world.expect.iter().any(lost);
    let jobs: Vec<(&String, u64)> = names
        .iter()
        .flat_map(|name| seeds.iter().map(move |seed| (name, *seed)))
        .collect();
    let done = in_threads(arguments.threads, &jobs, |(name, seed)| {
        let with = run::run(&world, name, *seed, true)?;
        let without = twin
            .then(|| run::run(&world, name, *seed, false))
            .transpose()?;
        Ok((with, without))
    })?;
    let mut done = done.into_iter();
    let learners: Vec<Runs> = names
        .iter()
        .map(|name| Runs {
            learner: name.clone(),
            runs: done.by_ref().take(seeds.len()).collect(),
        })
        .collect();
    let verdicts = world.expect.iter().filter_map(|expect| {
        let runs = learners.iter().find(|l| l.learner == expect.learner)?;
        Some(judge(&world, expect, &runs.runs))
    });
    Ok(Report {
        world: file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        about: world.about.clone(),
        kinds: world.kind.iter().map(|kind| kind.name.clone()).collect(),
        verdicts: verdicts.collect(),
        seeds,
        learners,
    })
}

/// Runs the jobs, `threads` at a time, and gives the results in the jobs' order.
fn in_threads<J: Sync, R: Send>(
    threads: usize,
    jobs: &[J],
    work: impl Fn(&J) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        loop {
            let i = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            match jobs.get(i) {
                Some(job) => done.push((i, work(job))),
                None => return done,
            }
        }
    };
    let mut done: Vec<(usize, Result<R>)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .flat_map(|w| w.join().unwrap_or_default())
            .collect()
    });
    anyhow::ensure!(done.len() == jobs.len(), "a worker panicked");
    done.sort_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, result)| result).collect()
}

fn all(arguments: &Arguments) -> Result<bool> {
    let mut holds = true;
    let mut reports = Vec::new();
    for file in &arguments.worlds {
        let report = report(file, arguments)?;
        holds &= report.verdicts.iter().all(|v| v.holds);
        if let Some(directory) = &arguments.plot {
            plot::write(directory, &report)?;
        }
        if !arguments.json {
            print!("{}", table::table(&report));
        }
        reports.push(report);
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&reports)?);
    }
    Ok(holds)
}

fn main() -> ExitCode {
    match all(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        // Missed bounds are a result: the table names them.
        Ok(false) => ExitCode::from(3),
        Err(error) => {
            eprintln!("simulate: {error:#}");
            ExitCode::FAILURE
        }
    }
}
