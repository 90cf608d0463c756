//! Compiles the BPF programs and generates their skeletons. Nothing of the running kernel is used.
#![allow(clippy::expect_used, reason = "a build script reports by panicking")]

use std::{env, path::PathBuf};

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let bpf =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../bpf");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    println!("cargo:rerun-if-changed={}", bpf.display());
    // <asm/types.h> is in the compiler's multiarch folder, which -target bpf does not look into.
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");
    SkeletonBuilder::new()
        .source(bpf.join("pilot/pilot.bpf.c"))
        .clang_args([
            "-mcpu=v3", // atomics with a result, kernel 5.12
            "-Wall",
            "-Werror",
            "-I",
            &format!("/usr/include/{arch}-linux-gnu"),
        ])
        .build_and_generate(out.join("pilot.skel.rs"))
        .expect("clang compiles bpf/pilot (apt-get install clang libelf-dev linux-libc-dev)");
}
