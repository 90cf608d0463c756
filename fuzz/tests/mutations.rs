//! Each fuzz target, with changed bytes of its known inputs: many more than libFuzzer runs in the same time, and blind.
//!
//!     COUNT=1000000 TARGET=config cargo test -p tcpilot-fuzz --test mutations
//!
//! gives a target so many; without `TARGET` all of them, one after the other.
#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::{env, fs, path::Path, thread};

use tcpilot_fuzz::{TARGETS, Target, mutate::mutate};
use tcpilot_random::Random;

const SEED: u64 = 8401;
const LONGEST: usize = 8192;

fn known(name: &str) -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut known: Vec<_> = ["corpus", "regressions"]
        .iter()
        .filter_map(|kind| fs::read_dir(root.join(kind).join(name)).ok())
        .flatten()
        .map(|file| fs::read(file.expect("a name").path()).expect("a file"))
        .filter(|input| !input.is_empty() && input.len() <= LONGEST)
        .collect();
    known.sort();
    known
}

fn run(target: Target, known: &[Vec<u8>], count: usize, seed: u64) {
    let mut random = Random::of(&[SEED, seed]);
    let mut input = Vec::new();
    for _ in 0..count {
        input.clone_from(&known[random.below(known.len())]);
        mutate(&mut random, known, LONGEST, &mut input);
        target(&input);
    }
}

#[test]
fn changed_inputs_of_each_target_pass() {
    let count: usize = env::var("COUNT").map_or(200, |count| count.parse().expect("a number"));
    let only = env::var("TARGET").ok();
    let threads = thread::available_parallelism().map_or(1, usize::from);
    for (name, target) in TARGETS {
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let known = known(name);
        assert!(
            !known.is_empty(),
            "{name} has no input of at most {LONGEST} bytes"
        );
        thread::scope(|scope| {
            for seed in 0..threads as u64 {
                let known = &known;
                scope.spawn(move || run(target, known, count.div_ceil(threads), seed));
            }
        });
        println!("{name}: {count} inputs");
    }
}
