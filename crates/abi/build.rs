//! Generates the Rust side of `bpf/abi/abi.h`, the one place where layouts are written.
#![allow(clippy::expect_used, reason = "a build script reports by panicking")]

use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// What outlives the programs when others take their place, with the words that its fields hold.
const LASTING: [&str; 20] = [
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
    "TP_(NODE|CHOICE_DIST|TRIAL|LEVEL|OPENED|CONN_START|START_RATE|RECORD|ASSIGNMENT|PART|CLASS)_?.*",
    "TP_ABI_VERSION",
    "TP_(WHY|CONN|PHASE|TROUBLE|TUNE|MAX|NO)_.*",
    "TP_WAYS",
    "TP_COST_SCALE",
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

/// A literal: the hash of what bindgen writes for the types that last, names, types and offsets.
fn layout(header: &Path) -> String {
    let lasting = LASTING
        .iter()
        .fold(reader(header), |reader, item| reader.allowlist_item(item));
    let text = lasting
        .generate()
        .expect("bindgen has read it before")
        .to_string();
    format!("\"tcpilot-layout-{:016x}\"", fnv1a(text.as_bytes()))
}

/// FNV-1a, 64 bits (draft-eastlake-fnv): std's hashers are not the same from one compiler to the next.
fn fnv1a(bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325;
    bytes.iter().fold(start, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
