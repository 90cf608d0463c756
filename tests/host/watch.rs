//! `tcpilot watch`: its counts are those of the kernel, whatever crosses the device.

use std::{
    fs,
    net::Ipv4Addr,
    process::{Output, Stdio},
};

use tcpilot_tests::{
    CAP_BPF, Capabilities, FAR, Lab, Look, PORT, Place, Running, Shape, Tap, Watching, is_loaded,
    programs_of, sh, until, verified_instructions,
};

use crate::watch_sent::has_tcx;

// A host feels its own queue: it takes several flows, and few packets, to overflow one.
const SHALLOW: &str = "tbf rate 20mbit burst 3kb limit 8000";

fn near(lab: &Lab) -> Place<'_> {
    Place::outside(&lab.net.near)
}

fn watch(lab: &Lab, more: &[&str]) -> Watching {
    Watching::start(near(lab), "eth0", more)
}

fn try_watch(place: Place<'_>, words: &str) -> Output {
    let mut command = place.command("tcpilot");
    command
        .arg("watch")
        .args(words.split(' '))
        .output()
        .unwrap()
}

/// Waits until a watch of one device has its four links: packets come, are queued, leave, and are dropped. On a starved
/// host some time may pass between one and the next.
pub fn until_attached(process: u32) {
    let descriptors = format!("/proc/{process}/fdinfo");
    until("it is attached", || {
        let files = fs::read_dir(&descriptors).into_iter().flatten().flatten();
        let texts = files.filter_map(|f| fs::read_to_string(f.path()).ok());
        (texts.filter(|text| text.contains("link_type")).count() == 4).then_some(())
    });
}

/// The drops of the qdisc; with one segment per packet these are packets.
pub fn qdisc_drops(lab: &Lab) -> u64 {
    let netns = lab.net.near.name();
    let text = sh(&format!("tc -n {netns} -s -j qdisc show dev eth0"));
    let found: serde_json::Value = serde_json::from_str(&text).unwrap();
    found[0]["drops"].as_u64().unwrap()
}

/// As for the program that steers: verifying is most of a start's time.
#[test]
fn its_programs_are_verified_soon() {
    let lab = Lab::new();
    let watching = watch(&lab, &[]);
    let verified = verified_instructions(watching.child.0.id());
    let sum: u32 = verified.iter().map(|(_, one)| one).sum();
    assert!(verified.len() >= 4 && sum < 80_000, "{verified:?}");
}

#[test]
fn packets_and_drops_are_those_of_the_qdisc() {
    let lab = Lab::new();
    lab.net.near.ip("link set eth0 gso_max_segs 1");
    lab.net.shape(Shape::Of(SHALLOW));
    let watching = watch(&lab, &[]);
    lab.run(&format!("bulk --to {FAR}:{PORT} --seconds 4 --parallel 4"));
    let look = watching.until("everything has left", |look| {
        let idle = look.flows.len() == 4 && look.flows.iter().all(|f| f["rate"] == 0);
        idle.then(|| look.clone())
    });
    let dropped = qdisc_drops(&lab);
    assert!(dropped > 0);
    let missing = look.total("in_packets") - look.total("out_packets");
    // On a loaded host the kernel skips programs at some events: docs/understand/decisions/12-watch.md.
    let unseen = look.total("in_packets") / 50;
    assert!(missing.abs_diff(dropped) <= unseen, "{missing}, {dropped}");
    let told = look.flows.iter().filter_map(|f| f["drops"].as_u64());
    let told: u64 = told.sum();
    // Losses before a flow was proved, and after the last timed packet, are missing.
    assert!(
        told <= dropped + unseen && told * 2 >= dropped,
        "{told} of {dropped}"
    );
    assert_eq!(look.total("unreadable_packets"), 0);
}

/// While it sends: the rate of the link, a queue, a round trip.
fn assert_measured(look: &Look, to: &str) -> Option<()> {
    let flow = look.to(to)?;
    let number = |key: &str| flow[key].as_u64().unwrap_or_default();
    let full = (1_500_000..3_500_000).contains(&number("rate"));
    let queue = (1000..200_000).contains(&number("queue_us"));
    let rtt = number("rtt_us") >= number("min_rtt_us") && number("min_rtt_us") > 0;
    (full && queue && rtt && number("rounds") > 10).then_some(())
}

#[test]
fn flows_are_measured_over_both_families_with_offloads() {
    let lab = Lab::new();
    let watching = watch(&lab, &[]);
    for to in [format!("{FAR}:{PORT}"), format!("[fd77::2]:{PORT}")] {
        let _client = lab.start(&format!("bulk --to {to} --seconds 600"));
        watching.until(&to, |look| assert_measured(look, &to));
    }
    let look = watching.look();
    // Super-packets count as the packets on the wire: no more than 1500 bytes each on average.
    let netns = lab.net.near.name();
    let path = "/sys/class/net/eth0/statistics";
    let sent = sh(&format!(
        "ip netns exec {netns} cat {path}/tx_bytes {path}/tx_packets"
    ));
    let sent: Vec<u64> = sent.lines().map(|n| n.parse().unwrap()).collect();
    assert!(look.total("out_packets") * 1514 >= sent[0] / 2);
    assert!(look.total("out_packets") >= sent[1] / 2);
}

#[test]
fn one_way_flows_are_shown_on_request() {
    let lab = Lab::new();
    sh(&format!(
        "ip link add back0 netns {} type veth peer name back0 netns {}",
        lab.net.near.name(),
        lab.net.far.name()
    ));
    for (netns, host) in [(&lab.net.near, 1), (&lab.net.far, 2)] {
        netns.ip(&format!("addr add 10.79.0.{host}/24 dev back0"));
        netns.ip("link set back0 up");
        netns.sysctl("net/ipv4/conf/all/rp_filter", "0");
        netns.sysctl("net/ipv4/conf/eth0/rp_filter", "0");
        netns.sysctl("net/ipv4/conf/back0/rp_filter", "0");
    }
    lab.net.far.ip("route add 10.77.0.1/32 via 10.79.0.1");
    let careful = watch(&lab, &[]);
    let trusting = watch(&lab, &["--one-way"]);
    let behind = Watching::start(Place::outside(&lab.net.far), "back0", &[]);
    let to = format!("{FAR}:{PORT}");
    let _client = lab.start(&format!("bulk --to {to} --seconds 600"));
    trusting.until("it is shown", |look| {
        let why = look.to(&to)?["why"].as_str()?.to_owned();
        why.contains("no acknowledgement").then_some(())
    });
    let look = careful.until("they are counted", |look| {
        (look.total("unproved_packets") > 1000).then(|| look.clone())
    });
    assert!(look.flows.is_empty());
    if has_tcx() {
        let there = watch(&lab, &["--acks-at", "back0"]);
        there.until("acknowledgements are seen there", |look| {
            (look.to(&to)?["rounds"].as_u64()? > 10).then_some(())
        });
    } else {
        let output = try_watch(near(&lab), "eth0 --acks-at back0");
        assert_eq!(output.status.code(), Some(4), "{output:?}");
    }
    // A device with only acknowledgements has no flow to show: the data is not queued there.
    let look = behind.until("acknowledgements pass", |look| {
        (look.total("in_packets") > 100).then(|| look.clone())
    });
    assert!(look.flows.is_empty() && look.total("unproved_packets") == 0);
}

#[test]
fn the_built_in_model_names_an_algorithm() {
    let lab = Lab::new();
    let watching = watch(&lab, &[]);
    let to = format!("{FAR}:{PORT}");
    let _client = lab.start(&format!("bulk --to {to} --seconds 600"));
    watching.until("it has a name", |look| {
        let flow = look.to(&to)?;
        let sure = flow["confidence"].as_f64()?;
        (flow["algorithm"].is_string() && sure > 0.0 && sure <= 1.0).then_some(())
    });
}

#[test]
fn udp_is_listed_once_it_has_replies() {
    let lab = Lab::new();
    let watching = watch(&lab, &["--udp"]);
    let to = format!("{FAR}:5202");
    let mut reflect = Place::outside(&lab.net.far).command("flowgen");
    reflect.args(["reflect", "--listen", &to]);
    let _reflect = Running::from(reflect.stdout(Stdio::null()).spawn().unwrap());
    let flow = watching.until("it is shown", |look| {
        // It fails as long as nobody listens.
        let words = format!("calibrate --to {to} --rate-mbit 30 --rate-seconds 1");
        lab.try_run(near(&lab), &words);
        look.to(&to).cloned()
    });
    assert_eq!(
        (&flow["group"], &flow["protocol"]),
        (&"udp".into(), &"udp".into())
    );
}

#[test]
fn every_one_of_many_flows_is_shown() {
    let lab = Lab::new();
    let watching = watch(&lab, &[]);
    let _client = lab.start(&format!(
        "hold --to {FAR}:{PORT} --connections 400 --seconds 600"
    ));
    watching.until("all are there", |look| {
        (look.flows.len() == 400).then_some(())
    });
}

#[test]
fn reports_have_mean_rates_of_ended_flows() {
    let lab = Lab::new();
    let mut command = near(&lab).command("tcpilot");
    command.args(["watch", "eth0", "--once", "--json", "--for", "12"]);
    let watching = command.stdout(Stdio::piped()).spawn().unwrap();
    until_attached(watching.id());
    // The flow is over for longer than a live view shows it.
    lab.upload(FAR, 1, 1_000_000);
    let text = String::from_utf8(watching.wait_with_output().unwrap().stdout).unwrap();
    let lines = text
        .lines()
        .map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap());
    let (flows, totals): (Vec<_>, Vec<_>) = lines.partition(|l| l["type"] == "flow");
    let [flow] = flows.as_slice() else {
        panic!("{text}");
    };
    let (bytes, rate) = (
        flow["bytes"].as_f64().unwrap(),
        flow["rate"].as_f64().unwrap(),
    );
    assert!(bytes > 1e6 && rate > bytes / 12.0, "{text}");
    let group = &totals[0]["groups"][0];
    let mean = bytes / totals[0]["t_s"].as_f64().unwrap();
    assert!(
        (group["rate"].as_f64().unwrap() / mean - 1.0).abs() < 0.01,
        "{text}"
    );
}

/// A TCP segment of a made-up conversation: sequence and acknowledgement number, flags, bytes.
fn segment(
    from: (u32, u16),
    to: (u32, u16),
    (seq, ack, flags, bytes): (u32, u32, u8, usize),
) -> Vec<u8> {
    let mut p = vec![0u8; 40 + bytes];
    (p[0], p[8], p[9]) = (0x45, 64, 6);
    p[12..16].copy_from_slice(&from.0.to_be_bytes());
    p[16..20].copy_from_slice(&to.0.to_be_bytes());
    p[20..22].copy_from_slice(&from.1.to_be_bytes());
    p[22..24].copy_from_slice(&to.1.to_be_bytes());
    p[24..28].copy_from_slice(&seq.to_be_bytes());
    p[28..32].copy_from_slice(&ack.to_be_bytes());
    (p[32], p[33]) = (0x50, flags);
    p
}

const SYN: u8 = 2;
const ACK: u8 = 16;

/// SYNs from made-up addresses and ports.
fn flood(lab: &Lab, count: u32) {
    let far = u32::from(Ipv4Addr::new(10, 77, 0, 2));
    let packet = |n: u32| {
        let from = (0x0a40_0000 + n % 50_000, 1024 + (n % 60_000) as u16);
        segment(from, (far, PORT), (n, 0, SYN, 0))
    };
    lab.net
        .near
        .send_raw([10, 77, 0, 2], (0..count).map(packet));
}

/// Data of flow n, and its acknowledgement; neither end is an address of a host.
fn conversation(n: u32) -> (Vec<u8>, Vec<u8>) {
    let from = (0x0ac9_0000 + n % 65_536, 1024 + (n / 65_536) as u16);
    let to = (0x0ac8_0001, 443);
    (
        segment(from, to, (1000, 1, ACK, 100)),
        segment(to, from, (1, 1100, ACK, 0)),
    )
}

/// The frame of a packet in a session of PPPoE (RFC 2516).
fn in_pppoe(packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![0xff; 12];
    let length = (packet.len() + 2) as u16;
    frame.extend([0x88, 0x64, 0x11, 0, 0, 7]);
    frame.extend(length.to_be_bytes());
    frame.extend([0, 0x21]);
    frame.extend(packet);
    frame
}

#[test]
fn flows_in_pppoe_sessions_are_shown() {
    let lab = Lab::new();
    let watching = watch(&lab, &[]);
    let [near_tap, far_tap] = [&lab.net.near, &lab.net.far].map(|netns| Tap::new(netns, "eth0"));
    let (data, acknowledgement) = conversation(7);
    let flow = watching.until("the session's flow is there", |look| {
        near_tap.send(&in_pppoe(&data));
        far_tap.send(&in_pppoe(&acknowledgement));
        look.to("10.200.0.1:443").cloned()
    });
    assert_eq!(flow["flow"], "10.201.0.7:1024 > 10.200.0.1:443");
}

/// Bytes of the maps that a process has open, as the kernel accounts them.
fn map_bytes(pid: u32) -> u64 {
    let mut sum = 0;
    for entry in fs::read_dir(format!("/proc/{pid}/fdinfo"))
        .unwrap()
        .flatten()
    {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        let number = |key: &str| {
            let line = text.lines().find_map(|l| l.strip_prefix(key))?;
            line.trim().parse::<u64>().ok()
        };
        if number("map_type:").is_some() {
            sum += number("memlock:").unwrap();
        }
    }
    sum
}

const MANY: u32 = 100_000;
/// docs/use/watch.md: bytes for each possible flow, and for everything else.
const FLOW_BYTES: u64 = 1270;
const OTHER_BYTES: u64 = 17_000_000;

#[test]
fn hundred_thousand_flows_fit_the_stated_memory() {
    let lab = Lab::new();
    lab.net.shape(Shape::Of("pfifo limit 10000"));
    let watching = Watching::totals(near(&lab), "eth0", &["--flows", "131072"]);
    let send = || {
        // A processor's backlog has room for a thousand packets, and those beyond are lost: the same ones each time.
        for first in (0..MANY).step_by(200) {
            let batch = first..first + 200;
            let data = batch.clone().map(|n| conversation(n).0);
            lab.net.near.send_raw([10, 77, 0, 2], data);
            let acks = batch.map(|n| conversation(n).1);
            lab.net.far.send_raw([10, 77, 0, 1], acks);
        }
    };
    send();
    watching.until("nearly all are there", |look| {
        let groups = look.totals["groups"].as_array()?;
        let flows: u64 = groups.iter().filter_map(|g| g["flows"].as_u64()).sum();
        let all = flows > u64::from(MANY) * 9 / 10;
        // On a loaded host the kernel skips programs at some events (docs/understand/decisions/12-watch.md), and a
        // flow is forgotten after a minute without a packet.
        if !all {
            send();
        }
        all.then_some(())
    });
    let bytes = map_bytes(watching.child.0.id());
    assert!(bytes > 131_072 * 500, "{bytes}: the maps were not found");
    assert!(bytes < 131_072 * FLOW_BYTES + OTHER_BYTES, "{bytes}");
}

#[test]
fn spoofed_syns_evict_no_established_flow() {
    let lab = Lab::new();
    lab.net
        .shape(Shape::Of("tbf rate 100mbit burst 16kb latency 100ms"));
    let watching = watch(&lab, &["--flows", "64"]);
    let to = format!("{FAR}:{PORT}");
    let _client = lab.start(&format!("bulk --to {to} --seconds 600"));
    let rounds = |look: &Look| look.to(&to)?["rounds"].as_u64();
    let before = watching.until("it is shown", |look| rounds(look).filter(|n| *n > 10));
    let packets = watching.look().total("in_packets");
    flood(&lab, 50_000);
    let look = watching.until("the flood has passed", |look| {
        (look.total("in_packets") > packets + 50_000).then(|| look.clone())
    });
    assert!(rounds(&look).is_some_and(|n| n >= before), "{look:?}");
    assert_eq!(look.flows.len(), 1);
}

fn add_second_link(lab: &Lab) {
    let (near, far) = (&lab.net.near, &lab.net.far);
    sh(&format!(
        "ip link add gone0 netns {} type veth peer name gone0 netns {}",
        near.name(),
        far.name()
    ));
    for (netns, host) in [(near, 1), (far, 2)] {
        netns.ip(&format!("addr add 10.80.0.{host}/24 dev gone0"));
        netns.ip("link set gone0 up");
    }
}

#[test]
fn a_returning_device_is_watched_again() {
    let lab = Lab::new();
    add_second_link(&lab);
    let watching = Watching::start(near(&lab), "gone0", &[]);
    let is_there = |there: bool| {
        watching.until("it notices", |look| {
            (look.totals["present"] == there).then_some(())
        });
    };
    is_there(true);
    lab.net.near.ip("link del gone0");
    is_there(false);
    add_second_link(&lab);
    is_there(true);
    let to = format!("10.80.0.2:{PORT}");
    let _client = lab.start(&format!("bulk --to {to} --seconds 600"));
    watching.until("it sees flows again", |look| look.to(&to).map(|_| ()));
}

#[test]
fn sigkill_leaves_nothing() {
    let lab = Lab::new();
    let netns = lab.net.near.name();
    let qdiscs = sh(&format!("tc -n {netns} qdisc show"));
    let mut watching = watch(&lab, &[]);
    let programs = programs_of(watching.child.0.id());
    assert!(programs.len() >= 2, "{programs:?}");
    watching.child.signal(libc::SIGKILL);
    watching.child.wait();
    until("its programs are gone", || {
        (!programs.iter().any(|id| is_loaded(*id))).then_some(())
    });
    assert_eq!(sh(&format!("tc -n {netns} qdisc show")), qdiscs);
    assert_eq!(
        sh(&format!("tc -n {netns} filter show dev eth0 egress")),
        ""
    );
}

#[test]
fn errors_are_one_line() {
    let lab = Lab::new();
    let without_rights = Place {
        capabilities: Capabilities::Only(&[CAP_BPF]),
        ..near(&lab)
    };
    for (place, words, status, says) in [
        (near(&lab), "nosuch0", 2, "there is no device nosuch0"),
        (without_rights, "eth0", 3, "missing privileges"),
        (near(&lab), "eth0 --model /nosuch", 2, "/nosuch: "),
        (
            near(&lab),
            "eth0 --record /nosuch/file",
            2,
            "/nosuch/file: ",
        ),
    ] {
        let output = try_watch(place, words);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{error}");
        assert!(
            error.contains(says) && error.lines().count() == 1,
            "{error}"
        );
    }
}

#[test]
fn a_report_is_written_once() {
    let lab = Lab::new();
    let _client = lab.start(&format!("bulk --to {FAR}:{PORT} --seconds 600"));
    let output = try_watch(near(&lab), "eth0 --once --for 3");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("eth0 · "), "{text}");
    assert_eq!(text.matches("Algorithm").count(), 1, "{text}");
    assert!(text.contains(&format!("> {FAR}:{PORT}")), "{text}");
}
