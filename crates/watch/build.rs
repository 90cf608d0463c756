//! Turns the watch's models into bytes, so that a start does not read them.
#![allow(clippy::expect_used, reason = "a build script reports by panicking")]

use std::{env, fs, path::PathBuf};

use tcpilot_abi::to_bytes;
use tcpilot_core::model::Model;

fn main() {
    let folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"))
        .join("../../bpf/watch");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    for name in ["model", "wide_model", "quic_model"] {
        let file = folder.join(name).with_extension("json.gz");
        println!("cargo:rerun-if-changed={}", file.display());
        let bytes = fs::read(&file).expect("the model is there");
        let model = Model::read(&bytes).expect("the model is one");
        fs::write(out.join(name), to_bytes(&*model.in_kernel)).expect("OUT_DIR is writable");
        let about = out.join(name).with_extension("about");
        fs::write(about, model.about()).expect("OUT_DIR is writable");
    }
}
