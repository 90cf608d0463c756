//! Congestion controls that grow until a loss: RFC 5681, 3649, 9438, and the papers of BIC, H-TCP, Hybla.

use tcpilot_core::cc::*;

use super::{Law, Point, first_step, growth, rate, window};

/// The relative error of the window after a decrease, beyond a packet of rounding.
fn left(ours: u32, law: f64) -> f64 {
    ((f64::from(ours) - law.max(2.0)).abs() - 1.0).max(0.0) / law.max(1.0)
}

fn reno_growth(p: Point) -> f64 {
    growth(
        p,
        |w, a| unsafe { tp_reno_increase(w, a.acked) },
        |_, _| 1.0,
    )
}

/// RFC 3649, section 5: b(w) by the logarithm, and a(w) by the program of appendix B.
fn rfc_b(w: f64) -> f64 {
    (0.1 - 0.5) * (w.ln() - 38f64.ln()) / (83000f64.ln() - 38f64.ln()) + 0.5
}

fn rfc_rows() -> &'static [(f64, f64)] {
    static ROWS: std::sync::OnceLock<Vec<(f64, f64)>> = std::sync::OnceLock::new();
    ROWS.get_or_init(|| {
        let (mut rows, mut last) = (vec![(38.0, 0.5)], 1.0);
        for w in (38..100_000).map(f64::from) {
            let b = rfc_b(w);
            let a = w.powi(2) * 2.0 * b / ((2.0 - b) * w.powf(1.2) * 12.8);
            if a > last + 1.0 {
                rows.push((w, (b * 100.0).round() / 100.0));
                last = a;
            }
        }
        rows
    })
}

fn rfc_row(w: f64) -> usize {
    let rows = rfc_rows();
    rows.iter()
        .position(|row| w.floor() <= row.0)
        .unwrap_or(rows.len() - 1)
}

fn hstcp_growth(p: Point) -> f64 {
    let mut s = tp_hstcp::default();
    growth(
        p,
        |w, a| unsafe { hstcp_grow(&mut s, w, a) },
        |w, _| rfc_row(w) as f64 + 1.0,
    )
}

fn hstcp_decrease(p: Point) -> f64 {
    let mut s = tp_hstcp::default();
    let mut w = window(p.window);
    let ack = tp_ack {
        acked: 1,
        ..Default::default()
    };
    unsafe { hstcp_grow(&mut s, &mut w, &ack) };
    let kept = 1.0 - rfc_rows()[rfc_row(f64::from(p.window))].1;
    left(
        unsafe { hstcp_threshold(&s, &window(p.window)) },
        f64::from(p.window) * kept,
    )
}

/// Caini, Firrincieli 2004, section 3.
fn rho(p: Point) -> f64 {
    (p.rtt_s() / 0.025).clamp(1.0, 16.0)
}

fn hybla(p: Point) -> tp_hybla {
    tp_hybla {
        rtt_us: p.rtt_us,
        ..Default::default()
    }
}

fn hybla_growth(p: Point) -> f64 {
    let mut s = hybla(p);
    growth(
        p,
        |w, a| unsafe { hybla_grow(&mut s, w, a) },
        |_, _| rho(p).powi(2),
    )
}

fn hybla_slow_start(p: Point) -> f64 {
    let mut s = hybla(p);
    first_step(
        p,
        |w, a| unsafe { hybla_grow(&mut s, w, a) },
        f64::from(p.acked) * (rho(p).exp2() - 1.0),
    )
}

/// Xu, Harfoush, Rhee 2004, section III, with the constants as deployed.
fn bic_law(max: f64, w: f64) -> f64 {
    let w = w.floor();
    if w <= 14.0 {
        return 1.0;
    }
    let step = if w < max {
        (max - w) / 4.0
    } else if w - max < 4.0 {
        0.0
    } else {
        (w - max) / 3.0
    };
    if step <= 1.0 { 0.2 } else { step.min(16.0) }
}

/// The error is taken by the window: the law jumps, and a small difference would soon become a large one.
fn bic_growth(p: Point) -> f64 {
    [0.5, 0.7, 0.98, 1.0, 1.02, 1.5]
        .map(|f| {
            let max = (f64::from(p.window) * f) as u32 + 1;
            let s = tp_bic { max };
            let law = bic_law(f64::from(max), f64::from(p.window));
            rate(p, |w, a| unsafe { bic_grow(&s, w, a) }, law)
        })
        .into_iter()
        .fold(0.0, f64::max)
}

/// draft-leith-tcp-htcp-06, section 3.1, and RTT scaling.
fn htcp_law(p: Point, seconds: f64) -> f64 {
    let over = (seconds - 1.0).max(0.0);
    let factor = 1.0 + 10.0 * over + (over / 2.0).powi(2);
    let scale = (p.rtt_s() / 0.1).clamp(0.1, 2.0);
    2.0 * 0.5 * (factor * scale).max(1.0)
}

fn htcp_growth_after(p: Point, seconds: f64) -> f64 {
    let mut h = tp_htcp {
        beta: HTCP_ONE / 2,
        min_rtt_us: p.rtt_us,
        congested_ms: (1_000_000.0 - seconds * 1e3) as u32,
        ..Default::default()
    };
    unsafe { htcp_set_alpha(&mut h, 1_000_000) };
    growth(
        p,
        |w, a| unsafe { htcp_grow(&mut h, w, a) },
        |_, t| htcp_law(p, seconds + t),
    )
}

fn htcp_growth(p: Point) -> f64 {
    htcp_growth_after(p, 0.5).max(htcp_growth_after(p, 3.0))
}

/// RFC 9438, sections 4.2 to 4.5, beginning after a loss at `max` or without one.
struct Cubic {
    origin: f64,
    k: f64,
    est: f64,
    prior: f64,
}

impl Cubic {
    fn new(cwnd: f64, max: f64) -> Self {
        Self {
            origin: max.max(cwnd),
            // a clock of 1 ms: in a window of 100,000 that is 2.7 packets, once
            k: (((max - cwnd).max(0.0) / 0.4).cbrt() * 1e3).floor() / 1e3,
            est: cwnd,
            prior: max,
        }
    }

    fn at(&self, t: f64) -> f64 {
        let t = (t * 1e3).floor() / 1e3;
        0.4 * (t - self.k).powi(3) + self.origin
    }

    /// Packets a round.
    fn law(&mut self, w: f64, t: f64, acked: f64, rtt: f64) -> f64 {
        let alpha = if self.est >= self.prior && self.prior > 0.0 {
            1.0
        } else {
            3.0 * 0.3 / 1.7
        };
        self.est += alpha * acked / w;
        let cubic = self.at(t + rtt).clamp(w, 1.5 * w) - w;
        cubic.max((self.est - w) * w / acked)
    }
}

fn cubic_growth_at(p: Point, max: u32) -> f64 {
    let mut c = tp_cubic::default();
    (c.now.max, c.now.prior) = (max, max);
    let mut law = Cubic::new(f64::from(p.window), f64::from(max));
    growth(
        p,
        |w, a| unsafe { cubic_grow(&mut c, w, a) },
        |w, t| law.law(w, t, f64::from(p.acked), p.rtt_s()),
    )
}

fn cubic_growth(p: Point) -> f64 {
    cubic_growth_at(p, (f64::from(p.window) / 0.7) as u32).max(cubic_growth_at(p, 0))
}

fn cubic_slow_start(p: Point) -> f64 {
    let mut c = tp_cubic::default();
    unsafe { cubic_begin(&mut c, &tp_ack::default()) };
    first_step(
        p,
        |w, a| unsafe { cubic_grow(&mut c, w, a) },
        f64::from(p.acked),
    )
}

fn cubic_decrease(p: Point) -> f64 {
    let mut c = tp_cubic::default();
    left(
        unsafe { cubic_threshold(&mut c, &window(p.window)) },
        f64::from(p.window) * 0.7,
    )
}

/// Section 5.8: idle time does not count for the epoch.
fn cubic_after_idle(p: Point) -> f64 {
    let max = (f64::from(p.window) / 0.7) as u32;
    let mut c = tp_cubic::default();
    (c.now.max, c.now.prior) = (max, max);
    let start = 900_000_000;
    unsafe { cubic_epoch(&mut c, p.window, start) };
    unsafe { cubic_idle(&mut c, 100_000_000, 1_000_000_000) };
    let mut law = Cubic::new(f64::from(p.window), f64::from(max));
    growth(
        p,
        |w, a| unsafe { cubic_grow(&mut c, w, a) },
        |w, t| law.law(w, t, f64::from(p.acked), p.rtt_s()),
    )
}

/// Hock et al. 2017, section III.B: cubic increase, without the TCP-friendly part.
fn lola_growth(p: Point) -> f64 {
    let max = (f64::from(p.window) / 0.7) as u32;
    let mut l = tp_lola {
        base_us: p.rtt_us,
        phase: LOLA_CUBIC as u8,
        ..Default::default()
    };
    unsafe { lola_climb(&mut l, p.window, max, 1_000_000_000) };
    let cubic = Cubic::new(f64::from(p.window), f64::from(max));
    growth(
        p,
        |w, a| unsafe { lola_grow(&mut l, w, a) },
        |w, t| cubic.at(t + p.rtt_s()).clamp(w, 1.5 * w) - w,
    )
}

fn halves(p: Point) -> f64 {
    left(unsafe { tp_half(p.window) }, f64::from(p.window) / 2.0)
}

fn bic_decrease(p: Point) -> f64 {
    let kept = if p.window <= 14 { 0.5 } else { 819.0 / 1024.0 };
    let ours = unsafe { bic_threshold(&mut tp_bic::default(), &window(p.window)) };
    left(ours, f64::from(p.window) * kept)
}

pub fn laws() -> Vec<Law> {
    let mut all = laws_of_reno_and_cubic();
    all.extend(laws_of_others());
    all
}

fn laws_of_reno_and_cubic() -> Vec<Law> {
    vec![
        Law::new("reno", "RFC 5681", "growth", reno_growth, 0.03),
        Law::new(
            "reno, hybla, lia, olia, wvegas",
            "RFC 5681",
            "decrease",
            halves,
            0.0,
        ),
        Law::new("cubic", "RFC 9438, 4.2 to 4.5", "growth", cubic_growth, 0.1),
        Law::new(
            "cubic",
            "RFC 9438, 5.8",
            "growth after idle",
            cubic_after_idle,
            0.05,
        ),
        Law::new(
            "cubic",
            "RFC 9406, L infinite",
            "slow start",
            cubic_slow_start,
            0.0,
        ),
        Law::new("cubic", "RFC 9438, 4.6", "decrease", cubic_decrease, 0.01),
    ]
}

fn laws_of_others() -> Vec<Law> {
    vec![
        Law::new("bic", "Xu et al. 2004, III", "growth", bic_growth, 0.05),
        Law::new("bic", "Xu et al. 2004, III", "decrease", bic_decrease, 0.0),
        Law::new(
            "hstcp",
            "RFC 3649, appendix B",
            "growth",
            hstcp_growth,
            0.03,
        ),
        Law::new(
            "hstcp",
            "RFC 3649, appendix B",
            "decrease",
            hstcp_decrease,
            0.0,
        ),
        Law::new(
            "htcp",
            "draft-leith-tcp-htcp-06, 3.1",
            "growth",
            htcp_growth,
            0.05,
        ),
        Law::new(
            "hybla",
            "Caini, Firrincieli 2004, 3",
            "growth",
            hybla_growth,
            0.03,
        ),
        Law::new(
            "hybla",
            "Caini, Firrincieli 2004, 3",
            "slow start",
            hybla_slow_start,
            0.02,
        ),
        Law::new(
            "lola",
            "Hock et al. 2017, III.B",
            "growth",
            lola_growth,
            0.05,
        ),
    ]
}

/// What an algorithm counts of an acknowledgement for so many packets.
type Counted = unsafe extern "C" fn(*const tp_cwnd, u32) -> u32;

/// Packets gained in 20 rounds at a window of 1,000, per round.
fn per_round(
    acked: u32,
    counted: Option<Counted>,
    mut grow: impl FnMut(&mut tp_cwnd, &tp_ack),
) -> f64 {
    let (mut gained, mut w) = (0, window(1000));
    for _ in 0..20 * 1000 / acked {
        let a = tp_ack {
            acked: counted.map_or(acked, |counted| unsafe { counted(&raw const w, acked) }),
            srtt_us: 100_000,
            ..Default::default()
        };
        grow(&mut w, &a);
        gained += w.packets - 1000;
        w.packets = 1000;
    }
    f64::from(gained) / 20.0
}

/// Growth with 1, 2, 22 and 44 packets per acknowledgement: ours, and as the kernel's modules count.
pub fn by_packets_per_ack() -> Vec<(&'static str, [f64; 4])> {
    const SIZES: [u32; 4] = [1, 2, 22, 44];
    let hstcp = |counted: Option<Counted>| {
        SIZES.map(|n| {
            let mut s = tp_hstcp::default();
            per_round(n, counted, |w, a| unsafe { hstcp_grow(&mut s, w, a) })
        })
    };
    let hybla = |counted: Option<Counted>| {
        SIZES.map(|n| {
            let mut s = tp_hybla {
                rtt_us: 100_000,
                ..Default::default()
            };
            per_round(n, counted, |w, a| unsafe { hybla_grow(&mut s, w, a) })
        })
    };
    let bic = |counted: Option<Counted>| {
        SIZES.map(|n| {
            let s = tp_bic { max: 5000 };
            per_round(n, counted, |w, a| unsafe { bic_grow(&s, w, a) })
        })
    };
    vec![
        ("tp_hstcp", hstcp(None)),
        ("tp_hstcp --as-module", hstcp(Some(hstcp_module_counts))),
        ("tp_hybla", hybla(None)),
        ("tp_hybla --as-module", hybla(Some(hybla_module_counts))),
        ("tp_bic", bic(None)),
        ("tp_bic --as-module", bic(Some(bic_module_counts))),
    ]
}
