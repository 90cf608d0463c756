//! The laws of growth, with which the watch compares flows, against floating-point references.

use proptest::prelude::*;
use tcpilot_core::watch::{laws, quotient};

/// RFC 9438, section 4.2, in seconds.
fn cubic_k_s(lost: f64) -> f64 {
    (lost / 0.4).cbrt()
}

proptest! {
    #[test]
    fn cubics_k_is_the_published_one(lost_x16 in 0u32..131_072) {
        let expected = 1000.0 * cubic_k_s(f64::from(lost_x16) / 16.0);
        let found = f64::from(laws::cubic_k_ms(lost_x16));
        prop_assert!((found - expected).abs() <= 1.0, "{found} {expected}");
    }

    #[test]
    fn cubics_window_is_the_published_one(
        origin in 160u32..131_072, less in 0.0..0.5f64, ms in 0u32..30_000, rounds in 0u32..1000
    ) {
        let after = origin - (f64::from(origin) * less) as u32;
        let off = f64::from(ms) / 1000.0 - cubic_k_s(f64::from(origin - after) / 16.0);
        let curve = f64::from(origin) + 16.0 * 0.4 * off.powi(3);
        let friendly = f64::from(after) + 16.0 * 0.53 * f64::from(rounds);
        let expected = curve.max(friendly);
        let found = laws::cubic_window(origin, after, ms, rounds) as f64;
        // A millisecond of K, and half of a sixteenth of a packet.
        let slope = 16.0 * 1.2 * off * off / 1000.0;
        let most = 2.0 + slope + f64::from(rounds) * 0.03;
        prop_assert!((found - expected).abs() <= most, "{found} {expected}");
    }

    #[test]
    fn h_tcps_growth_is_the_published_one(
        since_us in 0u32..60_000_000, min_rtt_us in 100u32..500_000, response in 128u32..206
    ) {
        let over_s = (f64::from(since_us) / 1e6 - 1.0).max(0.0);
        let factor = 1.0 + 10.0 * over_s + over_s * over_s / 4.0;
        let factor = (factor * (f64::from(min_rtt_us) / 1e5).clamp(0.1, 2.0)).max(1.0);
        let expected = 256.0 * factor * 2.0 * (1.0 - f64::from(response) / 256.0);
        let found = f64::from(laws::htcp_growth(since_us, min_rtt_us, response));
        prop_assert!((found - expected).abs() <= 4.0 + expected * 0.01, "{found} {expected}");
    }

    #[test]
    fn illinois_growth_falls_with_the_queue(share in 0u32..=256) {
        let expected = 2560.0 / (1.0 + 32.75 * f64::from(share) / 256.0);
        let found = f64::from(laws::illinois_growth(share));
        prop_assert!((found - expected).abs() <= 1.0, "{found} {expected}");
    }

    #[test]
    fn bic_growth_is_a_bounded_distance_part(window in 0u32..131_072, before in 0u32..131_072) {
        let apart = f64::from(window.abs_diff(before)) / 16.0;
        let part = if window >= before { apart / 3.0 } else { apart / 4.0 };
        let expected = 256.0 * part.clamp(0.2, 16.0);
        let found = f64::from(laws::bic_growth(window, before));
        prop_assert!((found - expected).abs() <= 1.0, "{found} {expected}");
    }

    #[test]
    fn a_quotient_keeps_its_sign_and_its_bounds(a in -32767i32..=32767, b in -32767i32..=32767) {
        let least = if b.abs() < 32 { 32.0 } else { f64::from(b) };
        let expected = (256.0 * f64::from(a) / least).clamp(-32767.0, 32767.0);
        prop_assert!((f64::from(quotient(a, b)) - expected).abs() <= 1.0);
    }
}

#[test]
fn highspeed_growth_follows_the_rfcs_table() {
    // RFC 3649, appendix B: the largest window with this a(w), in packets.
    for (window, grown) in [
        (38, 1),
        (39, 2),
        (118, 2),
        (221, 3),
        (1058, 8),
        (1059, 9),
        (3399, 16),
    ] {
        assert_eq!(laws::highspeed_growth(window * 16), grown, "{window}");
    }
}

#[test]
fn quotients_need_both_values() {
    assert_eq!(quotient(-32768, 256), -32768);
    assert_eq!(quotient(256, -32768), -32768);
}
