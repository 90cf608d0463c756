//! The order of the crates: each may use the crates in its line. The products, `pilot` and `watch`, do not
//! see each other.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// A crate, and our crates that it may use.
const ALLOWED: [(&str, &str); 16] = [
    ("abi", ""),
    ("file", ""),
    ("core", "abi"),
    ("netlink", ""),
    ("learner", "random"),
    ("proof", "random"),
    ("fleet", "learner"),
    ("fleet-agent", "file fleet learner random"),
    ("random", ""),
    ("kernel", "abi core file netlink"),
    ("capture", "abi core"),
    ("show", "core kernel"),
    ("config", "abi core kernel learner show"),
    (
        "pilot",
        "abi config core file fleet kernel learner netlink proof random show",
    ),
    ("watch", "abi capture core kernel netlink show"),
    ("tcpilot", "abi config kernel pilot show watch"),
];

fn words(text: &str) -> BTreeSet<String> {
    text.split(' ')
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Our crates among a manifest's dependencies, of the build too. Tests may use more.
fn used(manifest: &str) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    let mut counts = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            counts = ["[dependencies]", "[build-dependencies]"].contains(&line);
        }
        let name = line.split([' ', '.']).next().unwrap();
        if let Some(name) = name.strip_prefix("tcpilot-").filter(|_| counts) {
            used.insert(name.to_owned());
        }
    }
    used
}

#[test]
fn crates_use_what_their_line_allows() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let allowed = ALLOWED.map(|(name, uses)| (name.to_owned(), words(uses)));
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(crates).unwrap() {
        let folder = entry.unwrap().path();
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        found.insert(name, used(&manifest));
    }
    assert_eq!(found, BTreeMap::from(allowed));
}
