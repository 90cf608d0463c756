//! Compiles the kernel side's arithmetic for the host, so that tests can call it.

fn main() {
    for file in [
        "native.c",
        "windows.c",
        "../../bpf/abi.h",
        "../../bpf/lib",
        "../../bpf/cc",
    ] {
        println!("cargo:rerun-if-changed={file}");
    }
    cc::Build::new()
        .files(["native.c", "windows.c"])
        .include("../../bpf")
        .warnings(false) // #pragma unroll is clang's; the host's compiler may be gcc
        .compile("tcpilot_native");
}
