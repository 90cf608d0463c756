//! The checks in the C that is compiled for the host. Tests of the debug profile, fuzzing, and `make sanitize-test` have
//! them; a release does not.

/// The faults that end the program at once. Numbers wrap, as in the kernel, so an overflow is none.
const TRAPS: &str =
    "bounds,bool,enum,integer-divide-by-zero,null,return,shift,unreachable,vla-bound";

/// Adds the checks that this build is to have.
pub fn sanitize(build: &mut cc::Build) {
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|is| is.contains(value));
    let is_fuzzing = std::env::var_os("CARGO_CFG_FUZZING").is_some();
    let mut kinds = vec![TRAPS];
    if is_fuzzing {
        kinds.push("fuzzer-no-link");
    }
    // Its functions are in the runtime that rustc links.
    if is_fuzzing || is("CARGO_CFG_SANITIZE", "address") {
        kinds.push("address");
    } else if !is("PROFILE", "debug") {
        return;
    }
    build
        .compiler("clang")
        .flag(format!("-fsanitize={}", kinds.join(",")));
    build.flag(format!("-fsanitize-trap={TRAPS}"));
}
