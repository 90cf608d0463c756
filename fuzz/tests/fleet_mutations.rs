//! The decoders of what other hosts say, with changed bytes of the known inputs of the fuzz target `fleet`. No input may
//! end the reader, and bytes that can be read are written again as they were.
//!
//!     COUNT=100000000 cargo test --release -p tcpilot-fuzz --test fleet_mutations -- --nocapture
#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::{
    env, fs,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
};

use tcpilot_fleet::{format, manifest};
use tcpilot_fuzz::mutate::mutate;
use tcpilot_random::Random;

const SEED: u64 = 8201;
/// Longer states have the same rows, only more of them.
const LONGEST: usize = 4096;

/// The inputs of the fuzz target: a byte for the kind, and the rest.
fn known() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/fleet");
    let files = fs::read_dir(folder).expect("the corpus is in the tree");
    let read = |file: std::io::Result<fs::DirEntry>| fs::read(file.ok()?.path()).ok();
    let mut known: Vec<_> = files.filter_map(read).collect();
    known.retain(|input| input.len() > 1 && input.len() <= LONGEST);
    known.sort();
    known
}

/// Whether it could be read.
fn decode(random: &mut Random, body: &[u8], whole: &mut Vec<u8>) -> bool {
    whole.clear();
    whole.extend_from_slice(body);
    // Nobody who lies sends a wrong check sum.
    if random.below(8) > 0 {
        whole.extend_from_slice(&format::check_sum(body).to_le_bytes());
    }
    let state = format::decode(whole, format::ROWS_MAX);
    if let Ok(state) = &state {
        assert_eq!(&format::encode(state), whole);
    }
    let manifest = manifest::decode(whole);
    if let Ok(manifest) = &manifest {
        assert_eq!(&manifest::encode(manifest), whole);
    }
    state.is_ok() || manifest.is_ok()
}

#[test]
fn no_bytes_end_the_reader() {
    let count = env::var("COUNT").map_or(100_000, |count| count.parse().expect("a number"));
    let known = known();
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let read = AtomicUsize::new(0);
    thread::scope(|scope| {
        for number in 0..threads {
            let (known, read) = (&known, &read);
            scope.spawn(move || {
                let mut random = Random::of(&[SEED, number as u64]);
                let (mut input, mut whole) = (Vec::new(), Vec::new());
                for _ in 0..count / threads {
                    input.clone_from(&known[random.below(known.len())]);
                    mutate(&mut random, known, LONGEST, &mut input);
                    let body = input.get(1..).unwrap_or_default();
                    let is_read = decode(&mut random, body, &mut whole);
                    read.fetch_add(usize::from(is_read), Relaxed);
                }
            });
        }
    });
    let (all, read) = (count / threads * threads, read.into_inner());
    println!("{all} decoded, {read} of them readable");
    assert!(
        read * 1000 > all,
        "mutations are refused at once: {read} of {all}"
    );
}
