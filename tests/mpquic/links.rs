//! Two hosts and their links, and flowgen's report of a connection between them.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use serde_json::Value;
use tcpilot_tests::{Child, Netns, Place, sh};

/// Bottleneck of every link, and a queue of up to 60 ms behind it: the RTT is the queue.
const QUEUE: &str = "tbf rate 20mbit burst 5kb latency 60ms";
/// A link's rate with 40 of 1514 bytes for headers, in bit/s.
const RATE_BITS_PER_S: f64 = 20e6 * (1472.0 - 33.0) / 1514.0;
const PORT: u16 = 5201;

/// Near and far. Address k of link i is 10.i.k.1 near and 10.i.k.2 far.
pub struct Links {
    pub near: Netns,
    pub far: Netns,
    _server: Child,
}

impl Links {
    /// Makes links with so many addresses each, and a server on the far end with these arguments.
    pub fn new(links: u8, addresses: u8, server: &str) -> Self {
        let (near, far) = (Netns::new(), Netns::new());
        for i in 1..=links {
            sh(&format!(
                "ip link add l{i} netns {} type veth peer name r{i} netns {}",
                near.name(),
                far.name()
            ));
            for k in 1..=addresses {
                near.ip(&format!("addr add 10.{i}.{k}.1/24 dev l{i}"));
                far.ip(&format!("addr add 10.{i}.{k}.2/24 dev r{i}"));
            }
            near.ip(&format!("link set l{i} up"));
            far.ip(&format!("link set r{i} up"));
            sh(&format!(
                "tc -n {} qdisc add dev l{i} root {QUEUE}",
                near.name()
            ));
        }
        let _server = serve(&far, server);
        Self { near, far, _server }
    }

    /// Starts `flowgen bulk` to the first address of the first link.
    pub fn start(&self, arguments: &str) -> Child {
        let mut command = Place::outside(&self.near).command("flowgen");
        command.args(["bulk", "--to", &format!("10.1.1.2:{PORT}")]);
        command.args(arguments.split_whitespace());
        Child(command.stdout(Stdio::piped()).spawn().unwrap())
    }

    /// Runs it to its end; returns its report.
    pub fn run(&self, arguments: &str) -> Value {
        report(self.start(arguments))
    }

    /// Drops everything on a link, both ways. Both hosts still see it up.
    pub fn kill(&self, link: u8) {
        // No packet fits into a bucket of 40 bytes.
        const NOTHING: &str = "tbf rate 8kbit burst 40 limit 40";
        for (netns, device) in [(&self.near, "l"), (&self.far, "r")] {
            sh(&format!(
                "tc -n {} qdisc replace dev {device}{link} root {NOTHING}",
                netns.name()
            ));
        }
    }

    /// Undoes [`Links::kill`].
    pub fn revive(&self, link: u8) {
        let near = self.near.name();
        sh(&format!(
            "tc -n {near} qdisc replace dev l{link} root {QUEUE}"
        ));
        sh(&format!(
            "tc -n {} qdisc del dev r{link} root",
            self.far.name()
        ));
    }

    /// Bytes of frames that a device has sent.
    pub fn sent_bytes(&self, device: &str) -> u64 {
        let shown = sh(&format!(
            "ip -n {} -j -s link show {device}",
            self.near.name()
        ));
        let shown: Value = serde_json::from_str(&shown).unwrap();
        shown[0]["stats64"]["tx"]["bytes"].as_u64().unwrap()
    }
}

/// The report of a connection, when it has ended.
pub fn report(mut running: Child) -> Value {
    let mut line = String::new();
    let mut output = BufReader::new(running.0.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line}: {e}"))
}

pub fn serve(netns: &Netns, arguments: &str) -> Child {
    let mut command = Place::outside(netns).command("flowgen");
    command.args(["serve", "--listen", &format!("0.0.0.0:{PORT}")]);
    command.args(arguments.split_whitespace());
    let mut server = Child(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    let mut output = BufReader::new(server.0.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    assert!(line.starts_with("listening "), "{line}");
    server
}

pub fn number(report: &Value, field: &str) -> f64 {
    report[field]
        .as_f64()
        .unwrap_or_else(|| panic!("no {field}: {report}"))
}

fn fills_two_links(control: &str) {
    let net = Links::new(2, 1, "--quic");
    let before = [net.sent_bytes("l1"), net.sent_bytes("l2")];
    let report = net.run(&format!(
        "--transport mpquic --path 10.2.1.1=10.2.1.2 --cc {control} --seconds 6"
    ));
    assert!(report["error"].is_null(), "{report}");
    assert_eq!(
        (&report["cc_start"], &report["cc_end"]),
        (&control.into(), &control.into())
    );
    let share = number(&report, "goodput_bits_per_s") / (2.0 * RATE_BITS_PER_S);
    assert!(
        (0.9..1.02).contains(&share),
        "{share} of both links: {report}"
    );

    let paths = report["paths"].as_array().unwrap();
    let ends: Vec<_> = paths.iter().map(|p| (&p["local"], &p["remote"])).collect();
    let named =
        |local: &'static str, remote: &'static str| (Value::from(local), Value::from(remote));
    let wanted = [named("10.1.1.1", "10.1.1.2"), named("10.2.1.1", "10.2.1.2")];
    assert!(
        ends.iter().copied().eq(wanted.iter().map(|(l, r)| (l, r))),
        "{ends:?}"
    );

    // The paths' bytes add up to those that the receiver got, except for the last packets'
    // acknowledgements. And each path has sent as much as its device, apart from 28 bytes of IPv4 and UDP
    // and 14 of Ethernet.
    let bytes = number(&report, "bytes");
    let acked: f64 = paths.iter().map(|path| number(path, "acked_bytes")).sum();
    assert!(
        (0.98..1.01).contains(&(acked / bytes)),
        "{acked} of {bytes}: {report}"
    );
    for (path, (device, before)) in paths.iter().zip(["l1", "l2"].iter().zip(before)) {
        let carried = (net.sent_bytes(device) - before) as f64;
        let again = 1514.0 * number(path, "retransmits");
        let frames = number(path, "acked_bytes") * 1514.0 / 1439.0 + again;
        assert!(
            (0.95..1.05).contains(&(frames / carried)),
            "{device}: {frames} of {carried}"
        );
        assert!(number(path, "acked_bytes") > 0.4 * bytes, "{report}");
        assert!(number(path, "srtt_us") > 1000.0 && number(path, "cwnd_packets") >= 2.0);
        assert!(number(path, "min_rtt_us") < 60_000.0, "{path}");
        assert!(number(path, "sent_packets") > number(path, "acked_bytes") / 1439.0);
    }
}

#[test]
fn cubic_fills_two_links_and_bytes_add_up() {
    fills_two_links("cubic");
}

#[test]
fn reno_fills_two_links_and_bytes_add_up() {
    fills_two_links("reno");
}

#[test]
fn bbr3_fills_two_links_and_bytes_add_up() {
    fills_two_links("bbr3");
}

#[test]
fn lia_fills_two_links_and_bytes_add_up() {
    fills_two_links("lia");
}

#[test]
fn olia_fills_two_links_and_bytes_add_up() {
    fills_two_links("olia");
}

#[test]
fn balia_fills_two_links_and_bytes_add_up() {
    fills_two_links("balia");
}

/// Calibrates one transport against the other: the same link, and the same payload except for the headers.
#[test]
fn single_path_quic_matches_tcp_goodput() {
    let net = Links::new(1, 1, "--quic");
    let tcp = net.run("--cc reno --seconds 5");
    let quic = net.run("--transport quic --cc reno --seconds 5");
    let share = number(&quic, "goodput_bits_per_s") / number(&tcp, "goodput_bits_per_s");
    assert!((0.95..1.03).contains(&share), "{share}: {tcp} {quic}");
    assert_eq!(quic["paths"].as_array().unwrap().len(), 1);
    assert!(tcp.get("paths").is_none());
}
