#![no_main]
//! `tcpilot_fuzz::netlink`, by libFuzzer.

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpilot_fuzz::netlink(data));
