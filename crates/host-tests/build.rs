//! Compiles the sockops program that plays the part of somebody else's.
#![allow(clippy::expect_used, reason = "a build script reports by panicking")]

use std::{env, path::PathBuf};

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let dir = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let source = dir.join("bpf/neighbour.bpf.c");
    println!("cargo:rerun-if-changed={}", source.display());
    // <asm/types.h> is in the compiler's multiarch folder, which -target bpf does not look into.
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");
    SkeletonBuilder::new()
        .source(source)
        .clang_args([
            "-Wall",
            "-Werror",
            "-I",
            &format!("/usr/include/{arch}-linux-gnu"),
        ])
        .build_and_generate(out.join("neighbour.skel.rs"))
        .expect(
            "clang compiles bpf/neighbour.bpf.c (apt-get install clang libelf-dev linux-libc-dev)",
        );
}
