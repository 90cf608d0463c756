#![no_main]
//! `tcpilot_fuzz::fleet`, by libFuzzer.

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpilot_fuzz::fleet(data));
