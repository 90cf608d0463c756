#![no_main]
//! `tcpilot_fuzz::state`, by libFuzzer.

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpilot_fuzz::state(data));
