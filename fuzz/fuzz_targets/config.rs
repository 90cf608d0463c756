#![no_main]
//! `tcpilot_fuzz::config`, by libFuzzer.

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpilot_fuzz::config(data));
