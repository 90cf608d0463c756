#![no_main]
//! `tcpilot_fuzz::rows`, by libFuzzer.

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpilot_fuzz::rows(data));
