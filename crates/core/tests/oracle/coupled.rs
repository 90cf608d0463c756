//! The coupled algorithms of MPTCP: a subflow's step next to another subflow with ten times its RTT and
//! half its window.

use tcpilot_core::cc::*;

use super::{Law, Point};

const ONE: f64 = (1u32 << TP_STEP_SHIFT) as f64;

fn connection(p: Point) -> (tp_coupled, [(f64, f64); 2]) {
    let mut c = tp_coupled::default();
    let paths = [
        (p.window, p.rtt_us),
        (
            (p.window / 2).max(2),
            p.rtt_us.saturating_mul(10).min(600_000),
        ),
    ];
    for (at, (cwnd, rtt_us)) in paths.iter().enumerate() {
        c.sub[at] = tp_subflow {
            id: at as u64 + 1,
            cwnd: *cwnd,
            rtt_us: *rtt_us,
            ..Default::default()
        };
    }
    (c, paths.map(|(w, rtt)| (f64::from(w), f64::from(rtt))))
}

/// More than 127 packets per microsecond are 1.5 Tbit/s; less than a packet in 100 ms has few bits.
fn fits(p: Point) -> bool {
    p.window < 60 * p.rtt_us && p.rtt_us < 100_000 * p.window.min(100)
}

fn sum(paths: &[(f64, f64)]) -> f64 {
    paths.iter().map(|(w, rtt)| w / rtt).sum()
}

/// A step below 1/2^20 of a packet is none, so such an error does not count.
fn relative(ours: f64, exact: f64) -> f64 {
    ((ours - exact).abs() - 2.0 / ONE).max(0.0) / exact
}

/// RFC 6356, section 3: min(max(w / rtt^2) / (sum w / rtt)^2, 1 / w).
fn lia(p: Point) -> f64 {
    let (c, paths) = connection(p);
    if !fits(p) {
        return 0.0;
    }
    let most = paths.iter().map(|(w, r)| w / r / r).fold(0.0, f64::max);
    let exact = (most / sum(&paths).powi(2)).min(1.0 / paths[0].0);
    let ours = 1.0 / f64::from(unsafe { lia_per(&c, p.window) });
    // the C function returns whole packets per packet
    let off = (1.0 / ours - 1.0 / exact).abs() - 1.0;
    off.max(0.0) * exact
}

/// Khalili et al. 2012, section 4, with alpha 0: w / rtt^2 / (sum w / rtt)^2.
fn olia(p: Point) -> f64 {
    let (c, paths) = connection(p);
    if !fits(p) {
        return 0.0;
    }
    let exact = paths[0].0 / paths[0].1.powi(2) / sum(&paths).powi(2);
    let alpha = unsafe { olia_alpha(&c, &c.sub[0]) } as f64 / ONE / f64::from(p.window);
    let ours = unsafe { olia_step(&c, &c.sub[0], p.window) } as f64 / ONE;
    relative(ours - alpha, exact)
}

/// Peng et al. 2016, section V.
fn balia_alpha(paths: &[(f64, f64)]) -> f64 {
    let own = paths[0].0 / paths[0].1;
    paths.iter().map(|(w, r)| w / r).fold(own, f64::max) / own
}

fn balia(p: Point) -> f64 {
    let (c, paths) = connection(p);
    if !fits(p) {
        return 0.0;
    }
    let alpha = balia_alpha(&paths);
    let x = paths[0].0 / paths[0].1;
    let exact = x / paths[0].1 / sum(&paths).powi(2) * (1.0 + alpha) / 2.0 * (4.0 + alpha) / 5.0;
    relative(
        unsafe { balia_step(&c, &c.sub[0]) } as f64 / ONE,
        exact.min(1.0),
    )
}

fn balia_decrease(p: Point) -> f64 {
    let (c, paths) = connection(p);
    if !fits(p) {
        return 0.0;
    }
    let exact = (paths[0].0 * (1.0 - balia_alpha(&paths).min(1.5) / 2.0)).max(2.0);
    let ours = f64::from(unsafe { balia_kept(&c, &c.sub[0], p.window) });
    ((ours - exact).abs() - 1.0).max(0.0) / exact
}

/// Cao, Xu, Fu 2012, section IV: ten packets by the share of the rate, two at least.
fn wvegas(p: Point) -> f64 {
    let (mut c, paths) = connection(p);
    for (sub, (w, rtt)) in c.sub.iter_mut().zip(paths) {
        sub.extra = (w * 16_777_216.0 / rtt) as u64;
    }
    let exact = (10.0 * paths[0].0 / paths[0].1 / sum(&paths)).max(2.0);
    let ours = f64::from(unsafe { wvegas_alpha(&c, &c.sub[0]) });
    ((ours - exact).abs() - 1.0).max(0.0) / exact
}

/// One path is no longer acknowledged: the other's step is a single path's.
fn dead_path(p: Point) -> f64 {
    let (mut c, _) = connection(p);
    if !fits(p) {
        return 0.0;
    }
    c.now_us = 100_000_000;
    c.sub[0].acked_us = c.now_us;
    let reno = 1.0 / f64::from(p.window);
    [
        1.0 / f64::from(unsafe { lia_per(&c, p.window) }),
        unsafe { olia_step(&c, &c.sub[0], p.window) } as f64 / ONE,
        unsafe { balia_step(&c, &c.sub[0]) } as f64 / ONE,
    ]
    .map(|step| relative(step, reno))
    .into_iter()
    .fold(0.0, f64::max)
}

pub fn laws() -> Vec<Law> {
    vec![
        Law::new("lia", "RFC 6356, 3", "growth of a subflow", lia, 0.05),
        Law::new(
            "olia",
            "Khalili et al. 2012, 4",
            "growth of a subflow",
            olia,
            0.05,
        ),
        Law::new(
            "balia",
            "Peng et al. 2016, V",
            "growth of a subflow",
            balia,
            0.05,
        ),
        Law::new(
            "balia",
            "Peng et al. 2016, V",
            "decrease",
            balia_decrease,
            0.02,
        ),
        Law::new(
            "wvegas",
            "Cao et al. 2012, IV",
            "share of the queue",
            wvegas,
            0.0,
        ),
        Law::new(
            "lia, olia, balia",
            "RFC 5681",
            "growth beside a dead path",
            dead_path,
            0.05,
        ),
    ]
}
