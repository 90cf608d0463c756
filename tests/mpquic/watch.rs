//! `tcpilot watch` names the algorithms of a real implementation of QUIC.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use tcpilot_tests::{Child, Netns, Place, Watching, sh, until};

use crate::links::serve;

const FAR: &str = "10.79.0.2:5201";

/// A path of 20 Mbit/s and 30 ms, with a queue of about 30 ms, and a server at its far end.
struct Path {
    near: Netns,
    _far: Netns,
    _relay: Child,
    _server: Child,
}

impl Path {
    fn new() -> Path {
        let (near, far) = (Netns::new(), Netns::new());
        let mut command = Place::here().command("pathrelay");
        let (left, right) = (near.name(), far.name());
        let link = format!("near={left}/t0,far={right}/t0,delay_ms=15,back_ms=15");
        command.args(["--link", &link]).stdout(Stdio::piped());
        let mut relay = Child(command.spawn().unwrap());
        let mut line = String::new();
        let mut output = BufReader::new(relay.0.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        for (netns, host) in [(&far, 2), (&near, 1)] {
            netns.ip(&format!("address add 10.79.0.{host}/24 dev t0"));
            netns.ip("link set t0 up");
        }
        sh(&format!(
            "tc -n {left} qdisc replace dev t0 root tbf rate 20mbit burst 5kb limit 80000"
        ));
        let server = serve(&far, "--quic");
        Path {
            near,
            _far: far,
            _relay: relay,
            _server: server,
        }
    }
}

fn is_named(control: &str, group: &str) {
    let path = Path::new();
    let watching = Watching::start(Place::outside(&path.near), "t0", &[]);
    let mut flow = Place::outside(&path.near).command("flowgen");
    flow.args(["bulk", "--transport", "quic", "--to", FAR, "--cc", control]);
    flow.args(["--seconds", "120"]).stdout(Stdio::null());
    let _flow = Child(flow.spawn().unwrap());
    let seen = watching.until("it is seen", |look| look.to(FAR).cloned());
    assert_eq!(seen["protocol"], "quic");
    // A wrong name for a moment is a wrong answer only if it stays.
    let mut right = 0;
    until(&format!("{control} is in {group}"), || {
        let flow = watching.look().to(FAR)?.clone();
        let is_right = flow["group"] == group && flow["algorithm"] == control;
        right = if is_right { right + 1 } else { 0 };
        (right == 5).then_some(())
    });
}

#[test]
fn cubic_over_quic_is_named() {
    is_named("cubic", "loss");
}

#[test]
fn bbr3_over_quic_is_named() {
    is_named("bbr3", "model");
}
