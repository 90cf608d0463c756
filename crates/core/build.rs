//! Compiles the kernel side's arithmetic for the host: tests call it there.
#![allow(clippy::expect_used, reason = "a build script reports by panicking")]

use std::{env, fmt::Write as _, fs, path::PathBuf};

#[path = "sanitizers.rs"]
mod sanitizers;

fn main() {
    for file in [
        "native.c",
        "native_choice_dist.c",
        "native_watch.c",
        "../../bpf/abi",
        "../../bpf/core",
        "../../bpf/cc",
        "sanitizers.rs",
    ] {
        println!("cargo:rerun-if-changed={file}");
    }
    let mut build = cc::Build::new();
    sanitizers::sanitize(&mut build);
    build
        .files(["native.c", "native_choice_dist.c", "native_watch.c"])
        .include("../../bpf")
        .warnings(false) // #pragma unroll is clang's; the host's compiler may be gcc
        .compile("tcpilot_native");
    congestion_controls();
    tunings();
    let bpf = fs::canonicalize("../../bpf").expect("bpf is there");
    let headers = ["abi/abi.h", "core/rescue.h"].map(|name| bpf.join(name));
    bindings("rescue", &headers, ".*/bpf/(abi/.*|core/rescue.h)");
    let headers = ["abi/abi.h", "core/learner/epsilon_greedy.h"].map(|name| bpf.join(name));
    bindings("epsilon_greedy", &headers, ".*/bpf/core/learner/[^/]*");
}

/// The same for the arithmetic of the tunings. It uses the structures of abi.h.
fn tunings() {
    let bpf = fs::canonicalize("../../bpf").expect("bpf is there");
    let headers = [
        "abi/abi.h",
        "core/tune/tune.h",
        "core/tune/police.h",
        "core/eligible.h",
    ]
    .map(|name| bpf.join(name));
    bindings(
        "tune",
        &headers,
        ".*/bpf/(abi/.*|core/tune/.*|core/eligible.h)",
    );
}

/// bpf/cc's headers have many functions with structures. So bindgen generates their bindings, and
/// wrappers for the inline functions, which have no symbols.
fn congestion_controls() {
    let bpf = fs::canonicalize("../../bpf").expect("bpf is there");
    let mut headers: Vec<PathBuf> = fs::read_dir(bpf.join("cc"))
        .expect("bpf/cc is there")
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "h"))
        .collect();
    headers.push(bpf.join("cc/lib/ecn.h")); // DCTCP's
    headers.sort();
    bindings("cc", &headers, ".*/bpf/cc/.*");
}

/// Writes `NAME.rs`, the bindings of the files matching `files`, and compiles their wrappers.
/// Structures of bpf/abi are those of tcpilot-abi, unless `files` names its headers.
fn bindings(name: &str, headers: &[PathBuf], files: &str) {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let mut text = String::from("#include <linux/types.h>\n");
    for header in headers {
        writeln!(text, "#include \"{}\"", header.display()).expect("a string takes everything");
    }
    let all = out.join(format!("{name}_all.h"));
    fs::write(&all, text).expect("OUT_DIR is writable");
    let wrappers = out.join(format!("{name}_wrappers"));
    let mut builder = bindgen::Builder::default();
    if !files.contains("abi") {
        builder = builder.blocklist_file(".*/abi/[^/]*");
    }
    builder
        .header(all.to_string_lossy())
        .allowlist_file(files)
        .wrap_static_fns(true)
        .wrap_static_fns_suffix(format!("__{name}")) // two sets may be linked into one program
        .wrap_static_fns_path(&wrappers)
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_default(true)
        .layout_tests(false)
        .generate_comments(false)
        .generate()
        .expect("bindgen reads bpf; is libclang installed (apt-get install libclang-dev)?")
        .write_to_file(out.join(format!("{name}.rs")))
        .expect("OUT_DIR is writable");
    let mut build = cc::Build::new();
    sanitizers::sanitize(&mut build);
    build
        .file(wrappers.with_extension("c"))
        .include(&out)
        .warnings(false)
        .compile(&format!("tcpilot_native_{name}"));
}
