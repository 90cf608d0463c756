//! Liu, Basar, Srikant 2006.

use super::near;
use tcpilot_core::{
    cc::{self, tp_illinois},
    windows::{self, LOSS},
};

type Connection = windows::Connection<tp_illinois>;

fn illinois_beta(da: u32, dm: u32) -> u32 {
    // SAFETY: a pure function of numbers.
    unsafe { cc::illinois_beta(da, dm) }
}

fn illinois_hyperbola(da: u32, dm: u32) -> u32 {
    // SAFETY: a pure function of numbers.
    unsafe { cc::illinois_hyperbola(da, dm) }
}

/// kappa1 / (kappa2 + da), equation 3, with alpha from 0.3 to 10 and d1 a hundredth of dm.
fn paper_alpha(da: f64, dm: f64) -> f64 {
    let (min, max, d1) = (38.0 / 128.0, 10.0, dm / 100.0);
    let kappa1 = (dm - d1) * min * max / (max - min);
    let kappa2 = (dm - d1) * min / (max - min) - d1;
    kappa1 / (kappa2 + da)
}

/// Equation 4: kappa3 + kappa4 da between d2 and d3.
fn paper_beta(da: f64, dm: f64) -> f64 {
    let (min, max, d2, d3) = (0.125, 0.5, dm / 10.0, dm * 0.8);
    let kappa3 = (min * d3 - max * d2) / (d3 - d2);
    let kappa4 = (max - min) / (d3 - d2);
    (kappa3 + kappa4 * da).clamp(min, max)
}

#[test]
fn both_curves_are_the_papers() {
    for dm in [1000, 50_000, 2_000_000] {
        for percent in 2..=100 {
            let da = dm / 100 * percent;
            let alpha = f64::from(illinois_hyperbola(da, dm)) / 128.0;
            let beta = f64::from(illinois_beta(da, dm)) / 64.0;
            let (paper_a, paper_b) = (
                paper_alpha(f64::from(da), f64::from(dm)),
                paper_beta(f64::from(da), f64::from(dm)),
            );
            assert!(
                (alpha - paper_a).abs() < 0.02,
                "{da}/{dm}: {alpha} {paper_a}"
            );
            assert!((beta - paper_b).abs() < 0.02, "{da}/{dm}: {beta} {paper_b}");
        }
    }
}

#[test]
fn the_ends_of_the_curves() {
    assert_eq!(
        [1000, 100_000].map(|da| illinois_hyperbola(da, 100_000)),
        [1280, 38]
    );
    let betas = [0, 10_000, 80_000, 100_000].map(|da| illinois_beta(da, 100_000));
    assert_eq!(betas, [8, 8, 32, 32]);
    assert_eq!((illinois_beta(0, 0), illinois_hyperbola(0, 0)), (8, 1280)); // no queue ever
}

/// The rest of 1000 packets after a loss, and the growth per round, after rounds with these RTTs.
fn after(rtts_ms: &[u32]) -> (u32, f64) {
    let mut c = Connection::new(1000);
    for rtt_ms in rtts_ms {
        c.round(rtt_ms * 1000);
        c.w.packets = 1000;
    }
    c.round(rtts_ms.last().unwrap() * 1000);
    let added = c.w.packets - 1000;
    c.w.packets = 1000;
    (c.threshold(), f64::from(added))
}

#[test]
fn empty_queue_adds_ten_and_cuts_an_eighth() {
    let (left, added) = after(&[40, 40]);
    assert!(left == 875 && near(added, 10.0, 0.1), "{left} {added}");
}

#[test]
fn full_queue_adds_a_third_and_cuts_half() {
    let (left, added) = after(&[40, 80, 80]);
    assert!(left == 500 && added <= 1.0, "{left} {added}");
}

#[test]
fn fast_growth_resumes_after_five_queueless_rounds() {
    let few = after(&[40, 80, 80, 40, 40, 40]).1;
    let enough = after(&[40, 80, 80, 40, 40, 40, 40, 40, 40]).1;
    assert!(few <= 1.0 && near(enough, 10.0, 0.1), "{few} {enough}");
}

#[test]
fn small_window_or_timeout_falls_back_to_reno() {
    let mut c = Connection::new(10);
    for _ in 0..3 {
        c.round(40_000);
    }
    assert_eq!((c.w.packets, c.threshold()), (13, 7));
    let mut c = Connection::new(100);
    c.enter(LOSS);
    assert_eq!(c.threshold(), 50);
}
