#![no_main]
//! `tcpilot_fuzz::capture`, by libFuzzer.

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpilot_fuzz::capture(data));
