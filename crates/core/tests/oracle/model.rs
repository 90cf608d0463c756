//! BBR, both versions: the model's figures.

use tcpilot_core::cc::*;

use super::{Law, Point};

/// A connection that knows bandwidth and RTT exactly.
fn conn(p: Point) -> tp_bbr_conn {
    tp_bbr_conn {
        now_us: 1_000_000_000,
        mss: 1448,
        clamp: u32::MAX,
        cwnd: p.window,
        ssthresh: TP_SSTHRESH_MAX,
        srtt_us: p.rtt_us,
        pacing_shift: 10,
        random: 3,
        ..Default::default()
    }
}

fn relative(ours: f64, exact: f64) -> f64 {
    ((ours - exact).abs() - 1.0).max(0.0) / exact.max(1.0)
}

/// Rates above 250 packets per microsecond, 2.9 Tbit/s, do not fit; no path has them.
fn fits(p: Point) -> bool {
    p.window < 120 * p.rtt_us
}

/// A round delivers the window: acknowledgements of `acked`, each with a sample over a round.
fn run(p: Point, app_limited: bool, mut ack: impl FnMut(&mut tp_bbr_conn)) -> tp_bbr_conn {
    let mut c = conn(p);
    for _ in 0..400 {
        c.now_us += u64::from(p.rtt_us);
        c.prior_delivered = c.delivered;
        c.delivered = c.delivered.wrapping_add(p.window);
        (c.acked, c.sample_delivered) = (p.window, p.window as i32);
        (c.prior_in_flight, c.in_flight) = (p.window, p.window);
        (c.rtt_us, c.interval_us) = (p.rtt_us as i32, i64::from(p.rtt_us));
        c.cwnd_limited = u8::from(!app_limited);
        ack(&mut c);
    }
    c
}

fn bandwidth_error(p: Point, bw: u32) -> f64 {
    let exact = f64::from(p.window) / f64::from(p.rtt_us);
    (f64::from(bw) / f64::from(1 << TP_BW_SHIFT) / exact - 1.0).abs()
}

fn bbr_model(p: Point) -> f64 {
    if !fits(p) {
        return 0.0;
    }
    let mut b = tp_bbr::default();
    unsafe { bbr_start(&mut b, &mut conn(p), p.rtt_us) };
    run(p, false, |c| unsafe { bbr_ack(&mut b, c) });
    let bdp = f64::from(p.window);
    let bdp_error = relative(unsafe { bbr_bdp(&b, bbr_bw(&b), TP_GAIN_UNIT) } as f64, bdp);
    bandwidth_error(p, unsafe { bbr_bw(&b) }).max(bdp_error)
}

fn bbr3_after(p: Point) -> tp_bbr3 {
    let mut b = tp_bbr3::default();
    unsafe { bbr3_start(&mut b, &mut conn(p), p.rtt_us) };
    run(p, false, |c| unsafe { bbr3_ack(&mut b, c) });
    b
}

fn bbr3_model(p: Point) -> f64 {
    if !fits(p) {
        return 0.0;
    }
    let b = bbr3_after(p);
    let bdp = f64::from(unsafe { bbr3_bdp(&b, bbr3_bw(&b), TP_GAIN_UNIT) });
    bandwidth_error(p, unsafe { bbr3_bw(&b) }).max(relative(bdp, f64::from(p.window)))
}

/// 400 rounds in which the application sends an eighth of the window: the estimate stays.
fn bbr3_app_limited(p: Point) -> f64 {
    if !fits(p) || p.window < 16 {
        return 0.0;
    }
    let mut b = bbr3_after(p);
    let before = unsafe { bbr3_max_bw(&b) };
    let mut c = conn(p);
    c.delivered = 400 * p.window;
    let slow = Point {
        window: p.window / 8,
        ..p
    };
    let start = c.delivered;
    let mut now = 0;
    run(slow, true, |sample| {
        now += 1;
        sample.now_us += u64::from(p.rtt_us) * 400;
        sample.prior_delivered = sample.prior_delivered.wrapping_add(start);
        let delivered = sample.delivered;
        sample.delivered = delivered.wrapping_add(start);
        sample.app_limited = 1;
        unsafe { bbr3_ack(&mut b, sample) };
        sample.delivered = delivered;
        sample.now_us -= u64::from(p.rtt_us) * 400;
    });
    (f64::from(unsafe { bbr3_max_bw(&b) }) / f64::from(before) - 1.0).abs()
}

/// Bytes per second: bandwidth times gain, less 1 %.
fn pacing(p: Point) -> f64 {
    if !fits(p) {
        return 0.0;
    }
    let bw = unsafe { tp_bandwidth(p.window.into(), p.rtt_us.into()) };
    [TP_GAIN_UNIT * 5 / 4, TP_GAIN_UNIT, TP_GAIN_UNIT * 9 / 10]
        .map(|gain| {
            let exact = f64::from(p.window) * 1448.0 / p.rtt_s() * f64::from(gain) / 256.0 * 0.99;
            let ours = unsafe { tp_pacing_rate(bw, 1448, gain, 1) };
            (ours as f64 / exact - 1.0).abs()
        })
        .into_iter()
        .fold(0.0, f64::max)
}

/// Section 5.5.10.3 of BBRv3's draft: a round with losses leaves 0.7 of the bound, or the delivered volume.
fn bbr3_loss(p: Point) -> f64 {
    let b = tp_bbr3 {
        bw_now: 1 << 24,
        bw_short: u32::MAX,
        inflight_short: u32::MAX,
        mode: BBR3_CRUISE as u8,
        ..Default::default()
    };
    let mut b = b;
    b.set_loss_in_round(1);
    unsafe { bbr3_lower_bounds(&mut b, &conn(p)) };
    let bw = (f64::from(b.bw_short) / f64::from(1 << 24) / 0.7 - 1.0).abs();
    bw.max(relative(
        f64::from(b.inflight_short),
        f64::from(p.window) * 0.7,
    ))
}

pub fn laws() -> Vec<Law> {
    vec![
        Law::new(
            "bbr",
            "draft-cardwell-iccrg-bbr-00, 4.1",
            "bandwidth, BDP",
            bbr_model,
            0.02,
        ),
        Law::new(
            "bbr3",
            "draft-ietf-ccwg-bbr-06, 5.5",
            "bandwidth, BDP",
            bbr3_model,
            0.02,
        ),
        Law::new(
            "bbr3",
            "draft-ietf-ccwg-bbr-06, 5.5.5",
            "bandwidth, application-limited",
            bbr3_app_limited,
            0.0,
        ),
        Law::new(
            "bbr3",
            "draft-ietf-ccwg-bbr-06, 5.5.10",
            "decrease",
            bbr3_loss,
            0.002,
        ),
        Law::new(
            "bbr, bbr3",
            "draft-ietf-ccwg-bbr-06, 5.6.2",
            "pacing rate",
            pacing,
            0.02,
        ),
    ]
}
