//! `tcpilot watch --fair` and qdiscs in modules.

use serde_json::Value;
use tcpilot_tests::{Lab, Place, Watching, sh, until};

/// Each has parameters other than the defaults.
const QDISCS: [&str; 9] = [
    "pfifo limit 77",
    "bfifo limit 70000",
    "pfifo_fast",
    "codel limit 500 target 7ms interval 80ms ecn",
    "fq_codel limit 900 flows 64 quantum 600 target 7ms interval 80ms ce_threshold 3ms noecn",
    "fq limit 900 flow_limit 70 quantum 6000 initial_quantum 9000 buckets 64 nopacing",
    "sfq limit 100 perturb 10 quantum 3000 divisor 512",
    "pie limit 700 target 20ms tupdate 20ms alpha 3 beta 25 ecn bytemode",
    "tbf rate 30mbit burst 20kb latency 90ms",
];

/// The root qdisc of the near end to the microsecond, without fields that change by themselves.
fn root(lab: &Lab) -> String {
    let near = lab.net.near.name();
    let text = sh(&format!("tc -n {near} -json qdisc show dev eth0 root"));
    let mut told: Value = serde_json::from_str(&text).unwrap();
    for volatile in ["refcnt", "direct_packets_stat"] {
        told[0].as_object_mut().unwrap().remove(volatile);
    }
    told.to_string()
}

#[test]
fn restored_qdiscs_are_as_before() {
    let lab = Lab::new();
    let near = lab.net.near.name();
    for (qdisc, signal) in QDISCS
        .iter()
        .zip([libc::SIGTERM, libc::SIGKILL].into_iter().cycle())
    {
        sh(&format!("tc -n {near} qdisc del dev eth0 root"));
        sh(&format!(
            "tc -n {near} qdisc add dev eth0 root handle 77: {qdisc}"
        ));
        let before = root(&lab);
        let kind = qdisc.split(' ').next().unwrap();
        assert!(before.contains(kind), "{before}");
        let mut watching = Watching::start(
            Place::outside(&lab.net.near),
            "eth0",
            &["--fair", "--rate", "20"],
        );
        assert!(!root(&lab).contains(kind), "{}", root(&lab));
        watching.child.signal(signal);
        watching.child.wait();
        until(qdisc, || (root(&lab) == before).then_some(()));
    }
}
