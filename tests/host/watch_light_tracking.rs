//! `tcpilot watch`: light tracking of a flow whose group is settled.

use std::{collections::HashMap, process::Stdio};

use serde_json::Value;
use tcpilot_tests::{
    Child, FAR, Lab, Netns, PORT, Place, Running, Shape, Watching, one_leaf_model, sender_behind,
};

/// A model sure of every flow on any path.
fn sure_model(lab: &Lab) -> String {
    one_leaf_model(&lab.dir.path().join("model.json"), &["loss"], &[255], &[])
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

/// Waits until light tracking of the flow begins, or ends.
fn until_light(watching: &Watching, to: &str, is_light: bool) -> Value {
    let what = format!("light tracking: {is_light}");
    watching.until(&what, |look| {
        let flow = look.to(to)?;
        (flow["light_tracking"] == is_light).then(|| flow.clone())
    })
}

#[test]
fn light_tracking_keeps_counts_and_ends() {
    let lab = Lab::new();
    let sender = sender_behind(&lab);
    // An eighth of a second of queue: rounds are long enough for several looks in light tracking.
    lab.net
        .shape(Shape::Of("tbf rate 5mbit burst 3kb limit 80000"));
    let watching = watch(&lab, &[]);
    let to = format!("{FAR}:{PORT}");
    let _client = send(&sender, "--cc reno");
    let light = until_light(&watching, &to, true);
    assert_eq!(light["group"], "loss");
    // Meanwhile: no round, but bytes, the round trip and the time in the queue are those of now.
    let mut since = light.clone();
    watching.until("counts go on", |look| {
        let flow = look.to(&to)?;
        if flow["light_tracking"] != true || flow["rounds"] != since["rounds"] {
            since = flow.clone(); // it ended, or began again
            return None;
        }
        let more = number(flow, "bytes") > number(&since, "bytes") + 300_000;
        let measured = number(flow, "queue_us") > 50_000 && number(flow, "rtt_us") > 50_000;
        (more && measured).then_some(())
    });
    let full = until_light(&watching, &to, false);
    assert!(number(&full, "rounds") > number(&light, "rounds") + 30);
    assert_eq!(full["group"], "loss");
    until_light(&watching, &to, true);
}

#[test]
fn losses_in_light_tracking_are_counted() {
    let lab = Lab::new();
    let sender = sender_behind(&lab);
    lab.net
        .shape(Shape::Of("tbf rate 10mbit burst 3kb limit 60000"));
    let watching = watch(&lab, &[]);
    // Two flows of cubic lose every few seconds.
    let _client = send(&sender, "--parallel 2 --cc cubic");
    // Drops between two looks, both in one period of light tracking, by the flow's number.
    let mut before: HashMap<u64, Value> = HashMap::new();
    let mut lost = 0;
    watching.until("some are lost", |look| {
        for flow in &look.flows {
            let last = before.insert(number(flow, "id"), flow.clone());
            let Some(last) = last.filter(|last| last["light_tracking"] == true) else {
                continue;
            };
            if flow["light_tracking"] == true && flow["rounds"] == last["rounds"] {
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
        assert_eq!(flow["light_tracking"], false);
        (number(flow, "rounds") > 300 && flow["group"] == "loss").then_some(())
    });
}
