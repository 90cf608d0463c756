//! `tcpilot watch`: a flow whose group is settled naps, and is not lost sight of.

use std::{collections::HashMap, fs, process::Stdio};

use serde_json::{Value, json};
use tcpilot_host_tests::{
    Child, FAR, Lab, Netns, PORT, Place, Running, Shape, Watching, sender_behind,
};

/// A model that is sure of every flow on any path.
fn sure_model(lab: &Lab) -> String {
    let path = lab.dir.path().join("model.json");
    let model = json!({
        "format": 1,
        "features": [],
        "classes": [{"name": "any", "group": "loss"}],
        "roots": [0],
        "nodes": [[-1, 0, 0]],
        "leaves": [[255]],
    });
    fs::write(&path, model.to_string()).unwrap();
    path.display().to_string()
}

fn watch(lab: &Lab, more: &[&str]) -> Watching {
    let model = sure_model(lab);
    let words: Vec<&str> = ["--model", &model].iter().chain(more).copied().collect();
    Watching::start(Place::outside(&lab.net.near), "eth0", &words)
}

/// Sends through the near end, whose queue is not the sender's own: a host holds back what waits in its own.
pub fn send(sender: &Netns, words: &str) -> Running {
    let words = format!("bulk --to {FAR}:{PORT} --seconds 600 {words}");
    let mut command = Place::outside(sender).command("flowgen");
    command.args(words.split(' ')).stdout(Stdio::null());
    Child(command.spawn().unwrap())
}

fn number(flow: &Value, key: &str) -> u64 {
    flow[key].as_u64().unwrap_or_default()
}

/// Waits until the flow naps, or is awake again.
fn until_naps(watching: &Watching, to: &str, naps: bool) -> Value {
    let what = if naps { "it naps" } else { "it wakes" };
    watching.until(what, |look| {
        let flow = look.to(to)?;
        (flow["naps"] == naps).then(|| flow.clone())
    })
}

#[test]
fn a_settled_flow_naps_and_wakes_and_its_counts_go_on() {
    let lab = Lab::new();
    let sender = sender_behind(&lab);
    // An eighth of a second of queue: rounds are so long that several looks fall into a nap.
    lab.net
        .shape(Shape::Of("tbf rate 5mbit burst 3kb limit 80000"));
    let watching = watch(&lab, &[]);
    let to = format!("{FAR}:{PORT}");
    let _client = send(&sender, "--cc reno");
    let asleep = until_naps(&watching, &to, true);
    assert_eq!(asleep["group"], "loss");
    // In one nap: no round, but bytes, the round trip and the time in the queue are those of now.
    let mut since = asleep.clone();
    watching.until("counts go on in a nap", |look| {
        let flow = look.to(&to)?;
        if flow["naps"] != true || flow["rounds"] != since["rounds"] {
            since = flow.clone(); // another nap, or none
            return None;
        }
        let more = number(flow, "bytes") > number(&since, "bytes") + 300_000;
        let measured = number(flow, "queue_us") > 50_000 && number(flow, "rtt_us") > 50_000;
        (more && measured).then_some(())
    });
    let awake = until_naps(&watching, &to, false);
    assert!(number(&awake, "rounds") > number(&asleep, "rounds") + 30);
    assert_eq!(awake["group"], "loss");
    until_naps(&watching, &to, true);
}

#[test]
fn losses_in_a_nap_are_counted() {
    let lab = Lab::new();
    let sender = sender_behind(&lab);
    lab.net
        .shape(Shape::Of("tbf rate 10mbit burst 3kb limit 60000"));
    let watching = watch(&lab, &[]);
    // Two flows of cubic lose every few seconds.
    let _client = send(&sender, "--parallel 2 --cc cubic");
    // Drops between two looks in one nap, by the flow's number.
    let mut before: HashMap<u64, Value> = HashMap::new();
    let mut lost = 0;
    watching.until("some are lost in a nap", |look| {
        for flow in &look.flows {
            let last = before.insert(number(flow, "id"), flow.clone());
            let Some(last) = last.filter(|last| last["naps"] == true) else {
                continue;
            };
            if flow["naps"] == true && flow["rounds"] == last["rounds"] {
                lost += number(flow, "drops") - number(&last, "drops");
            }
        }
        (lost >= 4).then_some(())
    });
}

#[test]
fn every_round_is_measured_if_asked_for() {
    let lab = Lab::new();
    let sender = sender_behind(&lab);
    let watching = watch(&lab, &["--every-round"]);
    let to = format!("{FAR}:{PORT}");
    let _client = send(&sender, "--cc reno");
    watching.until("many rounds", |look| {
        let flow = look.to(&to)?;
        assert_eq!(flow["naps"], false);
        (number(flow, "rounds") > 300 && flow["group"] == "loss").then_some(())
    });
}
