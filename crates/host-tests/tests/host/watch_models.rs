//! `tcpilot watch`: paths beyond those that were recorded have a model of their own.

use std::{fs, path::Path};

use serde_json::{Value, json};
use tcpilot_host_tests::{FAR, Lab, PORT, Place, Shape, Watching, sender_behind};

use crate::watch_naps::send;

/// A model that is sure of one group, whose recorded paths have round trips of one to two seconds.
fn sure(folder: &Path, group: &str, others: &str) -> String {
    let path = folder.join(format!("{group}.json"));
    let mut classes = [("one", group), ("other", others)];
    classes.sort_by_key(|class| class.1);
    let leaf = classes.map(|class| if class.1 == group { 255 } else { 0 });
    let model = json!({
        "format": 1,
        "features": [],
        "classes": classes.map(|class| json!({"name": class.1, "group": class.1})),
        "roots": [0],
        "nodes": [[-1, 0, 0]],
        "leaves": [leaf],
        "range": [[1_000_000, 2_000_000]],
    });
    fs::write(&path, model.to_string()).unwrap();
    path.display().to_string()
}

/// What is said of a flow on a path of some milliseconds.
fn judged(lab: &Lab, words: &[&str]) -> Value {
    let sender = sender_behind(lab);
    lab.net
        .shape(Shape::Of("tbf rate 20mbit burst 6kb limit 60000"));
    let watching = Watching::start(Place::outside(&lab.net.near), "eth0", words);
    let to = format!("{FAR}:{PORT}");
    let _client = send(&sender, "--cc reno");
    watching.until("it is in a group", |look| {
        let flow = look.to(&to)?;
        let is_known = flow["group"] == "loss" || flow["group"] == "model";
        is_known.then(|| flow.clone())
    })
}

#[test]
fn beyond_the_recorded_paths_the_wide_model_is_asked() {
    for is_wide in [false, true] {
        let lab = Lab::new();
        let folder = lab.dir.path();
        let one = sure(folder, "loss", "model");
        let wide = sure(folder, "model", "loss");
        let mut words = vec!["--model", &one];
        if is_wide {
            words.extend(["--wide-model", &wide]);
        }
        let flow = judged(&lab, &words);
        assert_eq!(flow["group"], ["loss", "model"][usize::from(is_wide)]);
        assert_eq!(
            flow["why"],
            "behaviour over rounds, on a path beyond those recorded"
        );
        assert!(flow["group_confidence"].as_f64().unwrap() <= 0.5, "{flow}");
    }
}

#[test]
fn a_wide_model_of_other_classes_is_refused() {
    let lab = Lab::new();
    let folder = lab.dir.path();
    let one = sure(folder, "loss", "model");
    let other = sure(folder, "delay", "model");
    let mut command = Place::outside(&lab.net.near).command("tcpilot");
    let words = ["watch", "eth0", "--model", &one, "--wide-model", &other];
    let output = command.args(words).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(
        error.contains("its classes are not those of the other model of TCP"),
        "{error}"
    );
}
