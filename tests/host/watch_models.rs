//! `tcpilot watch`: the extrapolation model, for paths beyond the recorded ones.

use std::path::Path;

use serde_json::Value;
use tcpilot_tests::{FAR, Lab, PORT, Place, Shape, Watching, one_leaf_model, sender_behind};

use crate::watch_light_tracking::send;

/// A model sure of one group, whose recorded paths have round trips of one to two seconds.
fn sure(folder: &Path, group: &str, others: &str) -> String {
    let path = folder.join(format!("{group}.json"));
    let mut groups = [group, others];
    groups.sort_unstable();
    let leaf = groups.map(|one| if one == group { 255 } else { 0 });
    one_leaf_model(&path, &groups, &leaf, &[(1_000_000, 2_000_000)])
}

/// The line of a flow on a path of some milliseconds.
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
fn unrecorded_paths_use_the_extrapolation_model() {
    for option in [None, Some("--extrapolation-model"), Some("--wide-model")] {
        let lab = Lab::new();
        let folder = lab.dir.path();
        let one = sure(folder, "loss", "model");
        let extrapolation = sure(folder, "model", "loss");
        let mut words = vec!["--model", &one];
        if let Some(option) = option {
            words.extend([option, &extrapolation]);
        }
        let flow = judged(&lab, &words);
        assert_eq!(
            flow["group"],
            ["loss", "model"][usize::from(option.is_some())]
        );
        assert_eq!(
            flow["why"],
            "behaviour over rounds, on a path beyond those recorded"
        );
        assert!(flow["group_confidence"].as_f64().unwrap() <= 0.5, "{flow}");
    }
}

#[test]
fn an_extrapolation_model_of_other_classes_is_refused() {
    let lab = Lab::new();
    let folder = lab.dir.path();
    let one = sure(folder, "loss", "model");
    let other = sure(folder, "delay", "model");
    let mut command = Place::outside(&lab.net.near).command("tcpilot");
    let words = [
        "watch",
        "eth0",
        "--model",
        &one,
        "--extrapolation-model",
        &other,
    ];
    let output = command.args(words).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(
        error.contains("its classes are not those of the other model of TCP"),
        "{error}"
    );
}
