//! Generates the Rust side of `bpf/abi/abi.h`, the one place where layouts are written.
#![allow(clippy::expect_used, reason = "a build script reports by panicking")]

use std::{
    env, fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The types of data left behind for later programs, and the constants in their fields.
const LASTING: [&str; 21] = [
    "tp_bucket",
    "tp_conn",
    "tp_tuned",
    "tp_police",
    "tp_counters",
    "tp_choice_dist_bucket",
    "tp_costs",
    "tp_node_key",
    "tp_class_bits",
    "tp_conn_start_bucket",
    "tp_assignment",
    "tp_record",
    "tp_rescue",
    "tp_refusal",
    "TP_(RESCUE|REFUSALS|WITHHELD)_?.*",
    "TP_(NODE|CHOICE_DIST|TRIAL|LEVEL|OPENED|CONN_START|RECORD|PART|CLASS)_?.*",
    "TP_ASSIGNMENT(S|_MS)",
    "TP_ABI_VERSION",
    "TP_(WHY|CONN|PHASE|TROUBLE|TUNE|MAX|NO)_.*",
    "TP_WAYS",
    "TP_COST_SCALE",
];

/// Names that changed although the layout did not: now, and before. The hash is over the old names, so
/// versions with either name can take each other's place.
const RENAMED: [(&str, &str); 20] = [
    ("TP_ASSIGNMENTS", "TP_DRAWS"),
    ("TP_ASSIGNMENT_MS", "TP_DRAW_MS"),
    ("TP_CHOICE_DISTS_STALE_NS", "TP_ROWS_VOID_NS"),
    ("TP_CHOICE_DIST_WAYS", "TP_ROW_WAYS"),
    ("TP_CHOICE_DIST_WRITTEN", "TP_ROW_WRITTEN"),
    ("TP_CONN_ASSIGNED", "TP_CONN_DRAWN"),
    ("TP_CONN_START_WAYS", "TP_OPENING_WAYS"),
    ("TP_NODE_SECRETS", "TP_ROW_SECRETS"),
    ("TP_WHY_NO_CHOICE_DIST", "TP_WHY_NO_ROW"),
    ("TP_WHY_STALE", "TP_WHY_VOID"),
    ("TP_WITHHELD_CHOICE_DIST", "TP_WITHHELD_ROW"),
    ("TP_WITHHELD_STALE", "TP_WITHHELD_VOID"),
    ("bucket", "cell"), // of struct tp_assignment
    ("dist", "row"),    // of struct tp_choice_dist_bucket
    ("tp_assignment", "tp_draw"),
    ("tp_choice_dist", "tp_row"),
    ("tp_choice_dist_bucket", "tp_row_bucket"),
    ("tp_conn_start", "tp_opening"),
    ("tp_conn_start_bucket", "tp_opening_bucket"),
    ("tp_node_key", "tp_row_key"),
];

fn main() {
    let header = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"))
        .join("../../bpf/abi/abi.h");
    if let Some(dir) = header.parent() {
        println!("cargo:rerun-if-changed={}", dir.display());
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    reader(&header)
        .allowlist_item("tp_.*")
        .allowlist_item("TP_.*")
        .derive_default(true)
        .derive_eq(true)
        .generate()
        .expect(
            "bindgen reads bpf/abi/abi.h; is libclang installed (apt-get install libclang-dev)?",
        )
        .write_to_file(out.join("abi.rs"))
        .expect("OUT_DIR is writable");
    fs::write(out.join("layout.rs"), layout(&header)).expect("OUT_DIR is writable");
}

fn reader(header: &Path) -> bindgen::Builder {
    bindgen::Builder::default()
        .header(header.to_string_lossy())
        // abi.h is freestanding: it expects the kernel's names for fixed-width integers.
        .clang_args(["-include", "linux/types.h", "-ffreestanding"])
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .layout_tests(true)
        .generate_comments(false)
}

/// A literal: the hash of bindgen's output for the lasting types, with names, types and offsets.
fn layout(header: &Path) -> String {
    let lasting = LASTING
        .iter()
        .fold(reader(header), |reader, item| reader.allowlist_item(item));
    let text = lasting
        .generate()
        .expect("bindgen has read it before")
        .to_string();
    let text = formatted(&with_former_names(&text));
    format!("\"tcpilot-layout-{:016x}\"", fnv1a(text.as_bytes()))
}

/// The text as bindgen formats it: lines break elsewhere if names have other lengths.
fn formatted(text: &str) -> String {
    let rustfmt = env::var_os("RUSTFMT").unwrap_or_else(|| "rustfmt".into());
    let run = Command::new(rustfmt)
        .args(["--edition", "2024"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = run else {
        return text.to_owned(); // bindgen has not formatted it either
    };
    let mut input = child.stdin.take().expect("it is piped");
    std::thread::scope(|scope| {
        scope.spawn(move || input.write_all(text.as_bytes()));
        let output = child.wait_with_output().expect("rustfmt ends");
        String::from_utf8(output.stdout).expect("rustfmt writes UTF-8")
    })
}

fn with_former_names(text: &str) -> String {
    let is_part = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    let letters: Vec<char> = text.chars().collect();
    let words = letters.chunk_by(|a, b| is_part(a) == is_part(b));
    let former = |word: String| {
        let renamed = RENAMED.iter().find(|(now, _)| *now == word);
        renamed.map_or(word, |(_, before)| (*before).to_owned())
    };
    words.map(|word| former(word.iter().collect())).collect()
}

/// FNV-1a, 64 bits (draft-eastlake-fnv): std's hashers are not the same from one compiler to the next.
fn fnv1a(bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325;
    bytes.iter().fold(start, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
