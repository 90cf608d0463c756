//! Compiles the programs of the watch for the host.

#[path = "../core/sanitizers.rs"]
mod sanitizers;

fn main() {
    for file in ["native", "../../bpf", "../core/sanitizers.rs"] {
        println!("cargo:rerun-if-changed={file}");
    }
    let mut build = cc::Build::new();
    sanitizers::sanitize(&mut build);
    build
        .files(["native/capture.c", "native/maps.c"])
        .includes(["native", "../../bpf"])
        // Numbers wrap in the kernel's machine, and words of keys are read as others.
        .flags(["-fwrapv", "-fno-strict-aliasing"])
        // Each packet passes through here, and a debug build would be ten times slower.
        .opt_level(2)
        .warnings(false) // #pragma unroll and the attributes for CO-RE are clang's, for BPF
        .compile("tcpilot_capture_native");
}
