#![no_main]
//! `tcpilot_fuzz::packets`, by libFuzzer.

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpilot_fuzz::packets(data));
