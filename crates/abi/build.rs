//! Generates the Rust side of `bpf/abi/abi.h`, the one place where layouts are written.
#![allow(clippy::expect_used, reason = "a build script reports by panicking")]

use std::{env, path::PathBuf};

fn main() {
    let header = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"))
        .join("../../bpf/abi/abi.h");
    if let Some(dir) = header.parent() {
        println!("cargo:rerun-if-changed={}", dir.display());
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("abi.rs");
    bindgen::Builder::default()
        .header(header.to_string_lossy())
        // abi.h is freestanding: it expects the kernel's names for fixed-width integers.
        .clang_args(["-include", "linux/types.h", "-ffreestanding"])
        .allowlist_item("tp_.*")
        .allowlist_item("TP_.*")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_default(true)
        .derive_eq(true)
        .layout_tests(true)
        .generate_comments(false)
        .generate()
        .expect(
            "bindgen reads bpf/abi/abi.h; is libclang installed (apt-get install libclang-dev)?",
        )
        .write_to_file(out)
        .expect("OUT_DIR is writable");
}
