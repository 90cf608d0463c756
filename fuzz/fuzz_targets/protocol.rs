#![no_main]
//! `tcpilot_fuzz::protocol`, by libFuzzer.

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpilot_fuzz::protocol(data));
