//! Congestion controls that also react to delay: Vegas, Veno, Illinois, YeAH, Westwood+.

use tcpilot_core::cc::*;

use super::{Law, Point, growth, window};

/// A round without end, with this least RTT.
fn endless(base_us: u32, min_us: u32) -> tp_rtt {
    tp_rtt {
        base_us,
        min_us,
        samples: 100,
        end: 0x7000_0000,
    }
}

/// Brakmo, Peterson 1995, section III.B: (cwnd / base - cwnd / rtt) * base.
fn queue_estimate(p: Point) -> f64 {
    [1.01, 1.125, 1.5, 3.0]
        .map(|longer| {
            let rtt_us = (f64::from(p.rtt_us) * longer) as u32;
            let (w, base, rtt) = (f64::from(p.window), f64::from(p.rtt_us), f64::from(rtt_us));
            let exact = (w / base - w / rtt) * base;
            let ours = f64::from(unsafe { tp_queued(p.window, rtt_us, p.rtt_us) });
            ((ours - exact).abs() - 1.0).max(0.0) / exact.max(1.0)
        })
        .into_iter()
        .fold(0.0, f64::max)
}

/// Once a round: a packet more below alpha, one less above beta.  Returns 0 if right, 1 if not.
fn vegas_decision(p: Point) -> f64 {
    for (queued, step) in [(0.5, 1), (3.0, 0), (8.0, -1)] {
        let w = f64::from(p.window);
        if w <= 2.0 * queued || p.window < 3 {
            continue;
        }
        let rtt_us = (f64::from(p.rtt_us) * w / (w - queued)).round() as u32;
        // on short paths a microsecond is more than the distance of the bounds
        if w / f64::from(p.rtt_us) > 0.4 {
            continue;
        }
        let mut s = tp_vegas {
            rtt: tp_rtt {
                end: 0,
                ..endless(p.rtt_us, rtt_us)
            },
            ..Default::default()
        };
        let mut after = window(p.window);
        let ack = tp_ack {
            acked: p.acked,
            una: 1,
            nxt: 2,
            ..Default::default()
        };
        unsafe { vegas_grow(&mut s, &mut after, &ack) };
        if i64::from(after.packets) - i64::from(p.window) != step {
            return 1.0;
        }
    }
    0.0
}

/// Fu, Liew 2003, section II-C, with and without three packets in the queue.
fn veno_growth(p: Point) -> f64 {
    let alone = |base_us: u32, law: f64| {
        let mut s = tp_veno {
            rtt: endless(base_us, base_us),
            ..Default::default()
        };
        growth(p, |w, a| unsafe { veno_grow(&mut s, w, a) }, |_, _| law)
    };
    let idle = alone(p.rtt_us, 1.0);
    // half of the RTT is a queue: at least three packets of six
    if p.window < 8 {
        return idle;
    }
    idle.max(alone(p.rtt_us / 2, 0.5))
}

/// Liu, Basar, Srikant 2006, equations 3 and 4, with alpha from 0.3 to 10.
fn illinois_law(da: f64, dm: f64) -> (f64, f64) {
    let (min, max, d1, d2, d3) = (0.3, 10.0, dm / 100.0, dm / 10.0, dm * 0.8);
    let kappa1 = (dm - d1) * min * max / (max - min);
    let kappa2 = (dm - d1) * min / (max - min) - d1;
    let alpha = if da <= d1 {
        max
    } else {
        kappa1 / (kappa2 + da)
    };
    let beta = (0.125 + (0.5 - 0.125) * (da - d2) / (d3 - d2)).clamp(0.125, 0.5);
    (alpha, beta)
}

const SHARES: [f64; 6] = [0.0, 0.05, 0.1, 0.4, 0.8, 1.0];

fn illinois(p: Point, share: f64) -> (tp_illinois, (f64, f64)) {
    let dm = p.rtt_us.max(1000);
    let da = (f64::from(dm) * share) as u32;
    let mut s = tp_illinois {
        rtt: endless(p.rtt_us, p.rtt_us),
        ..Default::default()
    };
    s.alpha = unsafe { illinois_alpha(&mut s, da, dm) };
    s.beta = unsafe { illinois_beta(da, dm) };
    (s, illinois_law(f64::from(da), f64::from(dm)))
}

fn illinois_growth(p: Point) -> f64 {
    SHARES
        .map(|share| {
            let (mut s, (alpha, _)) = illinois(p, share);
            growth(
                p,
                |w, a| unsafe { illinois_grow(&mut s, w, a) },
                |_, _| alpha,
            )
        })
        .into_iter()
        .fold(0.0, f64::max)
}

fn illinois_decrease(p: Point) -> f64 {
    SHARES
        .map(|share| {
            let (s, (_, beta)) = illinois(p, share);
            let law = (f64::from(p.window) * (1.0 - beta)).max(2.0);
            let ours = f64::from(unsafe { illinois_threshold(&s, &window(p.window)) });
            ((ours - law).abs() - 1.0).max(0.0) / law
        })
        .into_iter()
        .fold(0.0, f64::max)
}

/// Baiocchi et al. 2007, section 2: Scalable TCP's hundredth, or Reno's packet a round if larger.
fn yeah_growth(p: Point) -> f64 {
    let mut s = tp_yeah {
        rtt: endless(p.rtt_us, p.rtt_us),
        ..Default::default()
    };
    growth(
        p,
        |w, a| unsafe { yeah_grow(&mut s, w, a) },
        |w, _| (w / 100.0).max(1.0),
    )
}

/// A loss takes the queue, an eighth at least and a half at most.
fn yeah_decrease(p: Point) -> f64 {
    [0.0, 0.2, 0.9]
        .map(|share| {
            let w = f64::from(p.window);
            let mut s = tp_yeah {
                queued: (w * share) as u32,
                ..Default::default()
            };
            let law = (w - (w * share).min(w / 2.0).max(w / 8.0)).max(2.0);
            let ours = f64::from(unsafe { yeah_threshold(&mut s, &window(p.window)) });
            ((ours - law).abs() - 1.0).max(0.0) / law
        })
        .into_iter()
        .fold(0.0, f64::max)
}

/// Grieco, Mascolo 2004: the window for a constant rate is rate times least RTT.
fn westwood_decrease(p: Point) -> f64 {
    let mut s = tp_westwood::default();
    unsafe { westwood_begin(&mut s, 1_000_000, 0) };
    let rounds = 40u32;
    for n in 1..=rounds {
        let now_us = 1_000_000 + u64::from(n) * u64::from(p.rtt_us.max(50_000));
        let per = f64::from(p.window) * f64::from(p.rtt_us.max(50_000)) / f64::from(p.rtt_us);
        let delivered = (per * f64::from(n)) as u64 as u32;
        unsafe { westwood_sample(&mut s, p.rtt_us as i32, delivered, now_us) };
    }
    let law = f64::from(p.window).max(2.0);
    let ours = f64::from(unsafe { westwood_fitting(&s) });
    ((ours - law).abs() - 1.0).max(0.0) / law
}

pub fn laws() -> Vec<Law> {
    vec![
        Law::new(
            "vegas, yeah, wvegas",
            "Brakmo, Peterson 1995, III.B",
            "queue",
            queue_estimate,
            0.0,
        ),
        Law::new(
            "vegas",
            "Brakmo, Peterson 1995, IV",
            "a round's step",
            vegas_decision,
            0.0,
        ),
        Law::new("veno", "Fu, Liew 2003, II-C", "growth", veno_growth, 0.03),
        Law::new(
            "illinois",
            "Liu et al. 2006, equation 3",
            "growth",
            illinois_growth,
            0.05,
        ),
        Law::new(
            "illinois",
            "Liu et al. 2006, equation 4",
            "decrease",
            illinois_decrease,
            0.03,
        ),
        Law::new(
            "yeah",
            "Baiocchi et al. 2007, 2",
            "growth",
            yeah_growth,
            0.03,
        ),
        Law::new(
            "yeah",
            "Baiocchi et al. 2007, 2",
            "decrease",
            yeah_decrease,
            0.0,
        ),
        Law::new(
            "westwood",
            "Grieco, Mascolo 2004, 2",
            "decrease",
            westwood_decrease,
            0.01,
        ),
    ]
}
