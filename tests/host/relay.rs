//! pathrelay: a long path between two namespaces on a kernel without netem.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Output, Stdio},
};

use serde_json::Value;
use tcpilot_tests::{Child, Netns, Place, in_netns, serve, until};

const NEAR: &str = "10.79.0.1";
const FAR: &str = "10.79.0.2";

/// Two namespaces with a relay between them, and addresses on its devices.
struct Relayed {
    relay: Child,
    near: Netns,
    far: Netns,
}

fn start(options: &str) -> Relayed {
    start_with(options, &[])
}

fn start_with(options: &str, further: &[&str]) -> Relayed {
    let (near, far) = (Netns::new(), Netns::new());
    let link = format!("near={}/t0,far={}/t0,{options}", near.name(), far.name());
    let mut command = Place::here().command("pathrelay");
    command.args(["--link", &link]).args(further);
    command.stdout(Stdio::piped());
    let mut relay = Child(command.spawn().unwrap());
    let mut line = String::new();
    let stdout = relay.0.stdout.as_mut().unwrap();
    // A byte at a time: the rest stays to be read.
    BufReader::with_capacity(1, stdout)
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "ready\n");
    // The far end first: until it is up the kernel refuses what the near end sends by itself.
    for (netns, address) in [(&far, FAR), (&near, NEAR)] {
        netns.ip(&format!("address add {address}/24 dev t0"));
        netns.ip("link set t0 up");
    }
    Relayed { relay, near, far }
}

impl Relayed {
    fn upload(&self, bytes: u32) -> Value {
        let _server = serve(Place::outside(&self.far), 5201);
        let mut command = Place::outside(&self.near).command("flowgen");
        let words = format!("bulk --to {FAR}:5201 --bytes {bytes} --count 1");
        let output = command.args(words.split(' ')).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn end(mut self) -> Value {
        self.relay.signal(libc::SIGTERM);
        let stdout = self.relay.0.stdout.take().unwrap();
        let status = self.relay.0.wait().unwrap();
        assert!(status.success());
        serde_json::from_reader(stdout).unwrap()
    }
}

#[test]
fn relay_delays_as_configured_and_passes_large_packets() {
    let relayed = start("delay_ms=30,back_ms=20");
    let report = relayed.upload(20_000_000);
    let rtt_us = report["min_rtt_us"].as_u64().unwrap();
    assert!((50_000..80_000).contains(&rtt_us), "{rtt_us}");
    let done = relayed.end();
    let (packets, bytes) = (&done["there"]["packets"], &done["there"]["bytes"]);
    let mean = bytes.as_u64().unwrap() / packets.as_u64().unwrap();
    assert!(mean > 10_000, "{mean} bytes a packet");
    assert_eq!(done["there"]["full"], 0);
    assert_eq!(done["there"]["refused"], 0);
}

#[test]
fn configured_loss_applies_only_to_forward_direction() {
    let relayed = start("delay_ms=1,loss=0.02,seed=3");
    relayed.near.ip("link set t0 gso_max_segs 1");
    let report = relayed.upload(4_000_000);
    assert!(report["retransmits"].as_u64().unwrap() > 20, "{report}");
    let done = relayed.end();
    let lost = done["there"]["lost"].as_f64().unwrap();
    let all = lost + done["there"]["packets"].as_f64().unwrap();
    // Four standard deviations of a binomial.
    let wide = 4.0 * (all * 0.02 * 0.98).sqrt();
    assert!((lost - 0.02 * all).abs() < wide, "{lost} of {all}");
    assert_eq!(done["back"]["lost"], 0);
}

/// The allowed processors of each thread of a process, as the kernel lists them.
fn processors(process: u32) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let mut found: Vec<String> = threads
        .map(|thread| {
            let status = fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
            let line = status
                .lines()
                .find(|line| line.starts_with("Cpus_allowed_list"));
            line.unwrap().split_whitespace().last().unwrap().to_owned()
        })
        .collect();
    found.sort();
    found
}

#[test]
fn both_ways_can_have_a_processor_for_themselves() {
    let all = processors(std::process::id()).remove(0);
    let relayed = start_with("delay_ms=1", &["--processor", "0"]);
    let pid = relayed.relay.0.id();
    // The first thread stays where it is.
    let wanted = ["0".to_owned(), "0".to_owned(), all];
    until("the threads are where they should be", || {
        (processors(pid) == wanted).then_some(())
    });
    relayed.upload(100_000);
    relayed.end();
}

#[test]
fn killing_the_relay_removes_its_devices() {
    let mut relayed = start("delay_ms=1");
    relayed.relay.0.kill().unwrap();
    relayed.relay.0.wait().unwrap();
    for netns in [&relayed.near, &relayed.far] {
        let is_gone = || !std::fs::exists("/proc/sys/net/ipv4/conf/t0").unwrap();
        until("the device is gone", || {
            in_netns(netns, is_gone).then_some(())
        });
    }
}

fn refused(link: &str) -> Output {
    let mut command = Place::here().command("pathrelay");
    command.args(["--link", link]).output().unwrap()
}

#[test]
fn setup_failure_is_reported_in_one_line() {
    let missing = "tcpilot-no-such";
    let output = refused(&format!("near={missing}/t0,far={missing}/t0"));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(
        said.contains(&format!("network namespace {missing}")),
        "{said}"
    );
}
