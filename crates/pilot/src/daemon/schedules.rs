//! Schedules of the daemon under faults: saves, restarts, take-overs and questions in any order, with crashes between
//! any two writes, a full or slow disk, a learner that hangs, and clocks that jump.
//!
//! What runs is the daemon's own code: the learner's thread step by step (`learning::stepped`), the saving and reading
//! of `saving`, `state_file` and `state`, and SQLite over a disk in memory (`state::simulated_disk`). Clocks stand
//! still until a step moves them. So a seed makes a schedule that happens the same way each time.
//!
//! `make test` tries some thousands; `scripts/schedules` tries as many as you want. A failure shows its seed and the
//! shortest schedule that fails; `SEED=… cargo test -p tcpilot-pilot schedules` repeats it.
//!
//! `steps` are drawn from the seed, `world` does them to a `host`, and `checks` look at the result.

mod checks;
mod host;
mod steps;
mod world;

use tcpilot_random::first;

use crate::{
    clocks::simulated,
    state::simulated_disk::{self, Crash},
};
use steps::{Act, Planted, Step, schedule};
use world::World;

/// One schedule of so many has the report's held-out connections.
const COMPARES: u64 = 128;

/// Runs a schedule; returns the number of its crashes and jumps.
fn run(file: &std::path::Path, steps: &[Step], planted: Option<Planted>) -> Result<u64, String> {
    let mut world = World::new(file.to_owned(), planted);
    world.compares = steps.first().is_some_and(|step| step.1 % COMPARES == 0);
    let result = world.start(None).and_then(|()| {
        steps.iter().enumerate().try_for_each(|(number, step)| {
            let done = world.step(*step);
            done.map_err(|problem| format!("step {number}: {problem}"))
        })
    });
    let faults = world.faults;
    world.host = None;
    simulated_disk::set(None);
    simulated::set(None);
    result.map(|()| faults)
}

/// Leaves out each step without which the schedule still fails.
fn shortened(
    file: &std::path::Path,
    mut steps: Vec<Step>,
    planted: Option<Planted>,
) -> (Vec<Step>, String) {
    let mut number = steps.len();
    while number > 0 {
        number -= 1;
        let mut fewer = steps.clone();
        fewer.remove(number);
        if run(file, &fewer, planted).is_err() {
            steps = fewer;
        }
    }
    let problem = run(file, &steps, planted).err().unwrap_or_default();
    (steps, problem)
}

fn number(variable: &str, default: u64) -> u64 {
    let given = std::env::var(variable).ok();
    given.map_or(default, |text| text.parse().unwrap())
}

fn folder() -> tempfile::TempDir {
    let memory = std::path::Path::new("/dev/shm");
    match memory.is_dir() {
        true => tempfile::tempdir_in(memory).unwrap(),
        false => tempfile::tempdir().unwrap(),
    }
}

/// The first failing schedule, as text.
fn failure(seeds: std::ops::Range<u64>, planted: Option<Planted>) -> (u64, u64, Option<String>) {
    let dir = folder();
    let file = dir.path().join("state.db");
    let (mut count, mut faults) = (0, 0);
    for seed in seeds {
        count += 1;
        match run(&file, &schedule(seed), planted) {
            Ok(more) => faults += more,
            Err(_) => {
                let (steps, problem) = shortened(&file, schedule(seed), planted);
                let steps: Vec<String> = steps.iter().map(|step| format!("{step:?}")).collect();
                let text = format!("SEED={seed}: {problem}\n{}", steps.join("\n"));
                return (count, faults, Some(text));
            }
        }
    }
    (count, faults, None)
}

#[test]
fn no_schedule_of_faults_loses_or_invents_knowledge() {
    let seed = number("SEED", 0);
    let alone = std::env::var("SEED").is_ok();
    let count = number("SCHEDULES", if alone { 1 } else { 3000 });
    let begun = std::time::Instant::now();
    let (tried, faults, failure) = failure(seed..seed + count, None);
    let seconds = begun.elapsed().as_secs_f64();
    eprintln!("schedules {tried} faults {faults} seconds {seconds:.1}");
    assert!(failure.is_none(), "{}", failure.unwrap_or_default());
}

/// A power cut in a transaction that takes a free page back into use: what was in it is lost, and nobody needs it.
#[test]
fn free_pages_of_the_file_may_hold_anything() {
    let (_, _, failure) = failure(553_382..553_383, None);
    assert!(failure.is_none(), "{}", failure.unwrap_or_default());
}

#[test]
fn schedules_find_each_planted_fault() {
    for planted in [
        Planted::NoSync,
        Planted::NoFolderSync,
        Planted::EarlyAcknowledgement,
        Planted::WallClock,
        Planted::HastySuccessor,
    ] {
        let (tried, _, failure) = failure(0..1000, Some(planted));
        let text = failure.unwrap_or_default();
        eprintln!(
            "{planted:?} {tried}: {}",
            text.lines().next().unwrap_or_default()
        );
        assert!(!text.is_empty(), "{planted:?}");
    }
}

/// Runs steps with a crash after each number of changes of the disk; returns the number of crashes.
fn crash_at_each(before: &[Act], during: &[Act], crash: Crash) -> u32 {
    let dir = folder();
    let file = dir.path().join("state.db");
    for changes in 0..1000 {
        let crash_in = [Act::CrashIn(changes, crash)];
        let steps = [before, &crash_in, during].concat();
        let steps = steps
            .into_iter()
            .zip(0..)
            .map(|(act, number)| Step(act, first(number)));
        match run(&file, &steps.collect::<Vec<_>>(), None) {
            Ok(0) => return changes,
            Ok(_) => {}
            Err(problem) => panic!("a {crash:?} after {changes} changes: {problem}"),
        }
    }
    1000
}

const SAVED: [Act; 2] = [Act::Records(12), Act::Save];

#[test]
fn power_cut_after_a_save_loses_none_of_it() {
    let dir = folder();
    let file = dir.path().join("state.db");
    for seed in 0..50 {
        let acts = [[Act::Records(2), Act::Save]; 3].concat();
        let mut steps: Vec<Step> = acts.iter().map(|act| Step(*act, first(seed))).collect();
        steps.push(Step(Act::Crash(Crash::PowerCut, 0), seed));
        assert_eq!(run(&file, &steps, None).map(drop), Ok(()), "{seed}");
    }
}

#[test]
fn crash_between_any_two_writes_leaves_one_save() {
    for crash in [Crash::Kill, Crash::PowerCut] {
        let saves: [&[Act]; 2] = [
            &[Act::Records(9), Act::Save],
            &[Act::Records(40), Act::Save],
        ];
        for (before, during) in [(&SAVED[..], saves[0]), (&[], saves[1])] {
            let crashes = crash_at_each(before, during, crash);
            assert!(crashes > 10, "{crashes}");
        }
    }
}

#[test]
fn a_failed_save_keeps_the_former_program() {
    for fault in [Act::Room(Some(0)), Act::Hang(true)] {
        let dir = folder();
        let file = dir.path().join("state.db");
        let acts = [&SAVED[..], &[fault, Act::Records(12), Act::TakeOver(true)]].concat();
        let after = [Act::Room(None), Act::Hang(false), Act::Save, Act::Question];
        let acts = acts.into_iter().chain(after).zip(0..);
        let steps: Vec<Step> = acts.map(|(act, number)| Step(act, first(number))).collect();
        assert_eq!(run(&file, &steps, None), Ok(0));
    }
}

#[test]
fn save_without_an_answer_is_none() {
    let dir = folder();
    let file = dir.path().join("state.db");
    let acts = [
        Act::Records(12),
        Act::Hang(true),
        Act::Save,
        Act::Crash(Crash::Kill, 0),
    ];
    let steps = acts.into_iter().zip(0..);
    let steps: Vec<Step> = steps
        .map(|(act, number)| Step(act, first(number)))
        .collect();
    assert_eq!(run(&file, &steps, None), Ok(1));
}
