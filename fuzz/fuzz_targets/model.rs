#![no_main]
//! `tcpilot_fuzz::model`, by libFuzzer.

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpilot_fuzz::model(data));
