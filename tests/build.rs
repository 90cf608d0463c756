//! Compiles three BPF programs: another owner's sockops program, the flood of a daemon, and the template of
//! docs/use/own-algorithm.md.
#![allow(clippy::expect_used, reason = "a build script reports by panicking")]

use std::{
    env,
    path::{Path, PathBuf},
};

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let dir = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    for name in ["neighbour", "flood"] {
        compiler(&dir.join(format!("bpf/{name}.bpf.c")))
            .build_and_generate(out.join(format!("{name}.skel.rs")))
            .expect("clang compiles bpf (apt-get install clang libelf-dev linux-libc-dev)");
    }
    for folder in ["abi", "kernel", "cc/lib"] {
        println!("cargo:rerun-if-changed=../bpf/{folder}");
    }
    compiler(&dir.join("../docs/use/template.bpf.c"))
        .obj(out.join("template.bpf.o"))
        .build()
        .expect("clang compiles docs/use/template.bpf.c");
}

fn compiler(source: &Path) -> SkeletonBuilder {
    println!("cargo:rerun-if-changed={}", source.display());
    // <asm/types.h> is in the compiler's multiarch folder. -target bpf does not search it.
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");
    let mut builder = SkeletonBuilder::new();
    builder.source(source).clang_args([
        "-Wall",
        "-Werror",
        "-mcpu=v3",
        "-I",
        "../bpf/cc/lib",
        "-I",
        &format!("/usr/include/{arch}-linux-gnu"),
    ]);
    builder
}
