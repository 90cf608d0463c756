//! Compiles the BPF programs: skeletons for pilot, watch and its qdisc, an object for each congestion control.
//! It needs nothing of the running kernel.
#![allow(clippy::expect_used, reason = "a build script reports by panicking")]

use std::{
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let bpf =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../bpf");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    println!("cargo:rerun-if-changed={}", bpf.display());
    for (dir, name) in [("pilot", "sockops"), ("watch", "watch"), ("fair", "qdisc")] {
        compiler(&bpf.join(format!("{dir}/{name}.bpf.c")))
            .build_and_generate(out.join(format!("{name}.skel.rs")))
            .expect("clang compiles bpf (apt-get install clang libelf-dev linux-libc-dev)");
    }
    congestion_controls(&bpf.join("cc"), &out);
}

fn compiler(source: &Path) -> SkeletonBuilder {
    // The lines of a program's BTF name their files. They are relative to this folder, where the compiler runs, so it
    // finds the text of each line, and the object is the same in every checkout.
    let here = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    // <asm/types.h> is in the compiler's multiarch folder. -target bpf does not search there. For another
    // architecture Debian's cross compiler brings it, in the second one.
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");
    let mut builder = SkeletonBuilder::new();
    builder.source(source).clang_args([
        "-mcpu=v3", // atomics with a result, kernel 5.12
        "-Wall",
        "-Werror",
        &format!("-ffile-prefix-map={here}=."),
        "-I",
        &format!("/usr/include/{arch}-linux-gnu"),
        "-I",
        &format!("/usr/{arch}-linux-gnu/include"),
    ]);
    builder
}

/// Writes `cc_objects.rs`: the list of (name, object) for every bpf/cc/<name>.bpf.c.
fn congestion_controls(dir: &Path, out: &Path) {
    let files = fs::read_dir(dir).expect("bpf/cc is there").flatten();
    let mut names: Vec<String> = files
        .filter_map(|f| {
            let name = f.file_name().into_string().ok()?;
            Some(name.strip_suffix(".bpf.c")?.to_owned())
        })
        .collect();
    names.sort();
    let mut list = String::from("&[\n");
    for name in &names {
        let object = out.join(format!("{name}.bpf.o"));
        compiler(&dir.join(format!("{name}.bpf.c")))
            .obj(&object)
            .build()
            .expect("clang compiles bpf/cc");
        // Not the folder's own name: its length would shift rustc's source positions, from which LLVM names symbols.
        writeln!(
            list,
            "({name:?}, include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{name}.bpf.o\"))),"
        )
        .expect("a string takes everything");
    }
    list.push(']');
    fs::write(out.join("cc_objects.rs"), list).expect("OUT_DIR is writable");
}
