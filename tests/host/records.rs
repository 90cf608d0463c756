//! With the learner in the daemon: the content of a connection's record.

use tcpilot_abi::{
    TP_LEVEL_GLOBAL, TP_LEVEL_NONE, TP_NO_ARM, TP_OPENED_SHIFT, TP_RECORD_FORGOTTEN,
    TP_RECORD_SAMPLE, TP_RECORD_TIMED_OUT, tp_config,
};
use tcpilot_core::choice_dist::DistPlace;
use tcpilot_tests::{FAR, Lab, Shape, Sink, until};

use crate::learner::{ALL_BBR, BBR, Learner, config, connect};

fn far() -> String {
    format!("{FAR}:5300")
}

/// Drops much of every burst: its queue holds four packets.
const LOSSY: Shape = Shape::Of("tbf rate 10mbit burst 2kb limit 6000");

/// The numbers in the answer of the actor's `info`.
fn numbers(info: &str) -> Vec<u64> {
    info.split(' ').map(|word| word.parse().unwrap()).collect()
}

#[test]
fn a_record_says_what_tcp_info_says() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    lab.net.shape(LOSSY);
    let mut learner = Learner::new(&lab, &config());
    let mut application = lab.actor();
    application.tell(&format!("connect {}", far()));
    application.tell("send 2000000");
    let info = numbers(&application.tell("info"));
    application.tell("close");
    let record = learner.record();
    let [
        acked,
        segments,
        again,
        rtt_us,
        min_rtt_us,
        ssthresh,
        busy_us,
        window_us,
        buffer_us,
        _pacing,
    ] = info[..]
    else {
        panic!("{info:?}");
    };
    assert!(again > 0, "nothing was lost");
    // The FIN counts as a byte.
    assert!(
        (acked..=acked + 1).contains(&record.bytes_acked),
        "{record:?}"
    );
    assert_eq!(u64::from(record.segments), segments);
    assert_eq!(u64::from(record.retransmitted), again);
    let ended = if ssthresh < 0x7fff_ffff { ssthresh } else { 0 };
    assert_eq!(u64::from(record.ssthresh_packets), ended);
    // The FIN's own round trip comes after.
    assert!(u64::from(record.min_rtt_us) <= min_rtt_us, "{record:?}");
    let srtt_us = u64::from(record.srtt_us);
    assert!(srtt_us > rtt_us / 2 && srtt_us < rtt_us * 2, "{record:?}");
    // It is at least the connection's later minimum, and not much more.
    assert!(record.handshake_us > 0 && u64::from(record.handshake_us) < 100_000);
    assert_eq!(record.class & 31, record.handshake_us.ilog2().max(9) as u16);
    // Times in the kernel's ticks; TCP_INFO has them in microseconds, and its first includes all of them. The FIN's
    // own round trip makes the connection busy once more, for some ticks if one begins meanwhile.
    let ticks = u64::from(record.busy_ticks + record.window_ticks + record.buffer_ticks);
    let tick_us = [1000, 3333, 4000, 10_000].into_iter().find(|tick_us| {
        let emitted = busy_us / tick_us;
        (emitted..=emitted + emitted / 20 + 8).contains(&ticks)
    });
    let tick_us = tick_us.unwrap_or_else(|| panic!("{record:?} {info:?}"));
    assert_eq!(u64::from(record.window_ticks) * tick_us, window_us);
    assert_eq!(u64::from(record.buffer_ticks) * tick_us, buffer_us);
    assert!(record.opened_ns < record.at_ns && record.weight == 1);
}

#[test]
fn one_in_sixteen_small_connections_emits_a_record() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let mut learner = Learner::new(&lab, &config());
    let mut application = lab.actor();
    for _ in 0..400 {
        application.tell(&format!("connect {}", far()));
        application.tell("send 100");
        application.tell("close");
    }
    connect(&mut application, &far());
    let mut emitted = 0;
    loop {
        let record = learner.record();
        if record.bytes_acked > 50_000 {
            break;
        }
        // A connection with retransmissions always sends a record.
        let lossless = record.retransmitted == 0;
        assert_eq!(record.weight, if lossless { 16 } else { 1 }, "{record:?}");
        emitted += u32::from(lossless);
    }
    // Ports are taken in turn, so the share is nearly exact.
    assert!((10..45).contains(&emitted), "{emitted}");
}

#[test]
fn a_connection_with_a_lost_start_is_forgotten() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let mut application = lab.actor();
    {
        let mut former = Learner::new(&lab, &config());
        former.put(TP_LEVEL_GLOBAL, &DistPlace::default(), ALL_BBR, 1);
        application.tell(&format!("connect {}", far()));
        application.tell("send 100000");
        assert_eq!(application.tell("cc"), "bbr");
    }
    let mut learner = Learner::new(&lab, &config());
    application.tell("close");
    let record = learner.record();
    assert_eq!(u32::from(record.flags), TP_RECORD_FORGOTTEN);
    assert_eq!(
        (u32::from(record.arm), u32::from(record.level)),
        (TP_NO_ARM, TP_LEVEL_NONE)
    );
    assert!(record.bytes_acked >= 100_000);
}

#[test]
fn a_timed_out_connection_is_recorded_as_such() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    lab.net.near.sysctl("net/ipv4/tcp_retries2", "2");
    let mut learner = Learner::new(&lab, &config());
    learner.put(TP_LEVEL_GLOBAL, &DistPlace::default(), ALL_BBR, 1);
    let mut application = lab.actor();
    application.tell(&format!("connect {}", far()));
    lab.net.far.ip("link set eth0 down");
    application.order("send 100000");
    let record = learner.record();
    assert_eq!(u32::from(record.flags), TP_RECORD_TIMED_OUT);
    assert_eq!((record.arm, record.weight), (BBR, 1));
    assert!(record.bytes_acked < 100);
}

#[test]
fn only_a_policy_with_a_tuning_has_paths() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let paths = |config: &tp_config| {
        let mut learner = Learner::new(&lab, config);
        learner.put(TP_LEVEL_GLOBAL, &DistPlace::default(), ALL_BBR, 1);
        assert_eq!(connect(&mut lab.actor(), &far()), "bbr");
        assert_eq!(learner.record().arm, BBR);
        // The record comes a moment before the count of open connections falls.
        until("the connection is counted as closed", || {
            let mut live = Vec::new();
            let each =
                |_, path: tcpilot_abi::tp_path| live.push((path.connections, path.live_flows));
            learner.pilot.for_each_path(each).unwrap();
            live.iter().all(|(_, open)| *open == 0).then_some(live)
        })
    };
    assert_eq!(paths(&config()), []);
    let mut tuned = config();
    tuned.tunes = 1 << tcpilot_abi::TP_TUNE_IW;
    for network in &mut tuned.tuning[0] {
        network.features = tuned.tunes;
    }
    assert_eq!(paths(&tuned), [(1, 0)]);
}

#[test]
fn long_connections_emit_records_while_open() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let mut config = config();
    config.sample_bytes = 500_000;
    let mut learner = Learner::new(&lab, &config);
    learner.put(TP_LEVEL_GLOBAL, &DistPlace::default(), ALL_BBR, 1);
    let (mut long, mut short) = (lab.actor(), lab.actor());
    for (application, bytes) in [(&mut short, 300_000), (&mut long, 600_000)] {
        application.tell(&format!("connect {}", far()));
        application.tell(&format!("send {bytes}"));
        application.tell("info");
    }
    let mut seen = Vec::new();
    for bytes in [600_000, 1_200_000] {
        learner.ends.sampler.sample(&[]).unwrap();
        let sample = learner.record();
        assert_eq!(u32::from(sample.flags), TP_RECORD_SAMPLE);
        assert_eq!(sample.arm, BBR);
        assert!(
            (bytes..bytes + 2).contains(&sample.bytes_acked),
            "{sample:?}"
        );
        assert!(sample.min_rtt_us > 0 && sample.handshake_us > 0);
        seen.push((
            sample.cookie,
            sample.remote,
            sample.opened_ns >> TP_OPENED_SHIFT,
        ));
        long.tell("send 600000");
        long.tell("info");
    }
    long.tell("close");
    let end = learner.record();
    assert_eq!((u32::from(end.flags), end.arm), (0, BBR));
    seen.push((end.cookie, end.remote, end.opened_ns >> TP_OPENED_SHIFT));
    assert!(
        end.cookie != 0 && seen.iter().all(|s| *s == seen[0]),
        "{seen:?}"
    );
    short.tell("close");
    // It was never sampled, but it has a cookie if somebody has listed the sockets of all namespaces
    // meanwhile.
    let other = learner.record();
    assert_eq!(u32::from(other.flags), 0);
    assert_ne!(other.cookie, end.cookie);
}
