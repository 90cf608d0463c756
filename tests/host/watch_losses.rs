//! `tcpilot watch`: a loss is a drop reported by the kernel, or a packet sent again. There is a router
//! between the two ends, and its device towards the far end is watched, because a host feels its own queue.

use std::{fs, process::Command};

use serde_json::Value;
use tcpilot_abi::{TP_FLOW_ACCECN, tp_round};
use tcpilot_tests::{
    FAR, Lab, Look, Netns, PORT, Place, Shape, Watching, in_netns, sender_behind, sent_again, sh,
};

use crate::watch_recorded::recorded_rounds;

/// Sends to the far end for some seconds.
fn send(lab: &Lab, sender: &Netns, cc: &str, seconds: u32) {
    let words = format!("bulk --to {FAR}:{PORT} --seconds {seconds} --cc {cc}");
    let output = lab.try_run(Place::outside(sender), &words);
    assert!(output.status.success(), "{output:?}");
}

/// The outcome of a flow: the last look, the queue's own count of drops, the rounds, and the sender's count of
/// retransmitted segments.
struct Outcome {
    look: Look,
    dropped: u64,
    rounds: Vec<tp_round>,
    again: u64,
}

/// Keeps this thread and all its later children on one processor. On several a packet may overtake another
/// between two devices, and the watch takes the overtaken one for a retransmission.
fn keep_on_one_processor() {
    // SAFETY: a set of plain bits, read by the kernel.
    let status = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(0, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set)
    };
    assert_eq!(status, 0, "{}", std::io::Error::last_os_error());
}

fn watched(lab: &Lab, cc: &str, seconds: u32) -> Outcome {
    watched_from(lab, &sender_behind(lab), cc, seconds)
}

fn watched_from(lab: &Lab, sender: &Netns, cc: &str, seconds: u32) -> Outcome {
    let file = lab.dir.path().join("rounds");
    let record = ["--record", file.to_str().unwrap()];
    let mut watching = Watching::start(Place::outside(&lab.net.near), "eth0", &record);
    send(lab, sender, cc, seconds);
    let look = watching.until("everything has left", |look| {
        let idle = look.flows.len() == 1 && look.flows.iter().all(|f| f["rate"] == 0);
        idle.then(|| look.clone())
    });
    watching.child.signal(libc::SIGINT);
    assert!(watching.child.wait().success());
    let netns = lab.net.near.name();
    let text = sh(&format!("tc -n {netns} -s -j qdisc show dev eth0 root"));
    let found: Value = serde_json::from_str(&text).unwrap();
    Outcome {
        look,
        dropped: found[0]["drops"].as_u64().unwrap(),
        rounds: recorded_rounds(&file),
        again: sent_again(sender),
    }
}

fn sum(rounds: &[tp_round], of: fn(&tp_round) -> u32) -> u64 {
    rounds.iter().map(|r| u64::from(of(r))).sum()
}

/// A sender with AccECN to the far end; `None` if this kernel has none.
fn sender_with_accecn(lab: &Lab) -> Option<Netns> {
    let sender = sender_behind(lab);
    let asked = |netns| in_netns(netns, || fs::write("/proc/sys/net/ipv4/tcp_ecn", "3")).is_ok();
    let both = asked(&sender) && asked(&lab.net.far);
    if !both {
        eprintln!("this kernel has no AccECN");
    }
    both.then_some(sender)
}

const SLOW: &str = "handle 7: tbf rate 20mbit burst 6kb limit 60000";

/// AccECN's count begins with ECE set (RFC 9768, section 3.2.2.1), so each acknowledgement of a flow without a
/// mark looks like an echo of one.
#[test]
fn a_count_of_accecn_is_no_mark() {
    let lab = Lab::new();
    let Some(sender) = sender_with_accecn(&lab) else {
        return;
    };
    lab.net.shape(Shape::Of(SLOW));
    let found = watched_from(&lab, &sender, "cubic", 2);
    assert!(sum(&found.rounds, |r| r.acks) > 100);
    assert_eq!(sum(&found.rounds, |r| r.marked_acks), 0);
    let last = found.rounds.last().unwrap();
    assert_ne!(last.flags & TP_FLOW_ACCECN, 0, "it was negotiated");
}

/// CoDel marks some packets, so the count rises at some acknowledgements, and drops none.
#[test]
fn a_mark_that_accecn_counts_is_a_mark() {
    let lab = Lab::new();
    let Some(sender) = sender_with_accecn(&lab) else {
        return;
    };
    lab.net.shape(Shape::Of(SLOW));
    let near = lab.net.near.name();
    let codel = format!("-n {near} qdisc add dev eth0 parent 7:1 codel ecn");
    let added = Command::new("tc").args(codel.split(' ')).status().unwrap();
    if !added.success() {
        eprintln!("this kernel has no CoDel");
        return;
    }
    let found = watched_from(&lab, &sender, "cubic", 8);
    let text = sh(&format!(
        "tc -n {near} -s -j qdisc show dev eth0 parent 7:1"
    ));
    let codel: Value = serde_json::from_str(&text).unwrap();
    let marked = codel[0]["ecn_mark"].as_u64().unwrap();
    let told = sum(&found.rounds, |r| r.marked_acks);
    // An acknowledgement may stand for several marked packets, and the last round is not complete.
    assert!(
        marked > 4 && told > marked / 2 && told <= marked,
        "{told} of {marked}"
    );
    assert_eq!(sum(&found.rounds, |r| r.dropped_packets), 0);
}

#[test]
fn drops_are_those_that_the_queue_counts() {
    keep_on_one_processor();
    let lab = Lab::new();
    lab.net
        .shape(Shape::Of("tbf rate 20mbit burst 6kb limit 60000"));
    let found = watched(&lab, "cubic", 12);
    assert!(found.dropped > 0);
    // On a loaded host the kernel skips programs at some events: docs/understand/decisions/12-watch.md.
    let skipped = (found.dropped / 100).max(2);
    let drops = [
        found.look.total("dropped_packets"),
        found.look.flows[0]["drops"].as_u64().unwrap(),
        sum(&found.rounds, |r| r.dropped_packets),
    ];
    let within = |told: &u64| *told <= found.dropped && told + skipped >= found.dropped;
    assert!(drops.iter().all(within), "{drops:?} of {}", found.dropped);
    // A round has a loss because a packet was dropped, or sent again.
    let again = sum(&found.rounds, |r| r.again_packets);
    assert!(again <= found.again, "{again} of {}", found.again);
}

#[test]
fn without_a_drop_no_round_has_a_loss() {
    keep_on_one_processor();
    let lab = Lab::new();
    // The receiver's window is the limit: a queue of 50 ms at most.
    lab.net
        .shape(Shape::Of("tbf rate 40mbit burst 6kb limit 10000000"));
    let memory = "net/ipv4/tcp_rmem";
    lab.net.far.sysctl(memory, "4096 131072 262144");
    let found = watched(&lab, "reno", 8);
    assert_eq!(found.dropped, 0);
    assert!(found.look.total("out_packets") > 5000 && found.rounds.len() > 20);
    assert_eq!(found.look.total("dropped_packets"), 0);
    let lossy = |r: &&tp_round| r.dropped_packets + r.again_packets > 0;
    // If a busy host delays packets, a sender may send one again that was not lost.
    let again = found.again;
    let lossy: Vec<_> = found.rounds.iter().filter(lossy).collect();
    assert!(lossy.len() as u64 <= again, "{again}, {lossy:?}");
}
