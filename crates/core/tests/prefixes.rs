//! Which addresses share a path.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::net::IpAddr;

use proptest::prelude::*;
use tcpilot_abi::tp_policy_config;
use tcpilot_core as native;
use tcpilot_core::Prefix;

fn words(addr: &str) -> [u32; 4] {
    addr.parse::<Prefix>().unwrap().words()
}

fn len(addr: &str) -> u8 {
    let policy = tp_policy_config {
        prefix_len_ipv4_private: 32,
        prefix_len_ipv4_public: 24,
        prefix_len_ipv6_private: 128,
        prefix_len_ipv6_public: 48,
        ..Default::default()
    };
    native::path_prefix(&policy, &words(addr)).1
}

#[test]
fn private_ipv4_addresses_are_told_apart_by_host() {
    for addr in [
        "10.0.0.1",
        "10.255.255.255",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.0.1",
        "100.64.0.1",
        "100.127.255.255",
        "169.254.1.1",
        "::ffff:10.0.0.1",
    ] {
        assert_eq!(len(addr), 128, "{addr}");
    }
}

#[test]
fn public_ipv4_addresses_share_a_24() {
    for addr in [
        "9.255.255.255",
        "11.0.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "192.167.0.1",
        "192.169.0.1",
        "100.63.255.255",
        "100.128.0.0",
        "169.253.1.1",
        "8.8.8.8",
        "::ffff:8.8.8.8",
    ] {
        assert_eq!(len(addr), 96 + 24, "{addr}");
    }
}

#[test]
fn private_ipv6_prefix_is_128_public_is_48() {
    for addr in ["fc00::1", "fdff::1", "fe80::1", "febf::1"] {
        assert_eq!(len(addr), 128, "{addr}");
    }
    for addr in [
        "2001:db8::1",
        "fbff::1",
        "fe00::1",
        "fec0::1",
        "ff02::1",
        "64:ff9b::a00:1",
    ] {
        assert_eq!(len(addr), 48, "{addr}");
    }
}

#[test]
fn loopback_is_recognised_in_each_of_its_forms() {
    for addr in ["127.0.0.1", "127.255.0.1", "::1", "::ffff:127.0.0.1"] {
        assert!(native::is_loopback(&words(addr)), "{addr}");
    }
    for addr in ["126.255.255.255", "128.0.0.1", "::2", "::127.0.0.1", "1::1"] {
        assert!(!native::is_loopback(&words(addr)), "{addr}");
    }
}

#[test]
fn masks_are_those_of_the_daemon() {
    for len in 0..=128u8 {
        let prefix = Prefix::around("::".parse().unwrap(), len);
        let native = [0, 1, 2, 3].map(|word| native::mask_word(len.into(), word));
        assert_eq!(native, prefix.mask_words(), "{len}");
    }
}

proptest! {
    #[test]
    fn kernel_path_is_prefix_around_address(bits: u128, is_ipv4: bool) {
        let addr = if is_ipv4 { IpAddr::V4((bits as u32).into()) } else { IpAddr::V6(bits.into()) };
        let policy = tp_policy_config {
            prefix_len_ipv4_private: 30,
            prefix_len_ipv4_public: 20,
            prefix_len_ipv6_private: 100,
            prefix_len_ipv6_public: 40,
            ..Default::default()
        };
        let host = Prefix::around(addr, 128).words();
        let (prefix, len) = native::path_prefix(&policy, &host);
        let prefix = Prefix::from_words(prefix, len).unwrap();
        prop_assert!(prefix.contains(addr));
        let family_len = if prefix.is_ipv4() { len - 96 } else { len };
        prop_assert_eq!(prefix, Prefix::around(addr, family_len));
    }
}
