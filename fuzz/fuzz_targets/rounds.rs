#![no_main]
//! `tcpilot_fuzz::rounds`, by libFuzzer.

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpilot_fuzz::rounds(data));
