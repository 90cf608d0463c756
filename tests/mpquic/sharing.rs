//! One bottleneck for a connection with four paths, and another with one path and reno.
//!
//! Four flows against one take four fifths; RFC 6356 wants one half at most.

use crate::links::{Links, number, report};

const SECONDS: u32 = 14;

/// The share of the connection with four paths.
fn share_of_four_paths(control: &str) -> f64 {
    let net = Links::new(1, 4, "--quic");
    let more: String = (2..=4)
        .map(|k| format!("--path 10.1.{k}.1=10.1.{k}.2 "))
        .collect();
    let alone = net.start(&format!("--transport quic --cc reno --seconds {SECONDS}"));
    let four = net.run(&format!(
        "--transport mpquic {more}--cc {control} --seconds {SECONDS}"
    ));
    let alone = report(alone);
    for report in [&alone, &four] {
        assert!(report["error"].is_null(), "{report}");
    }
    assert_eq!(four["paths"].as_array().unwrap().len(), 4);
    let (four, alone) = (number(&four, "bytes"), number(&alone, "bytes"));
    four / (four + alone)
}

#[test]
fn uncoupled_paths_compete_like_separate_flows() {
    let share = share_of_four_paths("reno");
    assert!(share > 0.66, "{share}");
}

#[test]
fn lia_takes_no_more_than_a_flow() {
    let share = share_of_four_paths("lia");
    assert!(share < 0.62, "{share}");
}

#[test]
fn olia_takes_no_more_than_a_flow() {
    let share = share_of_four_paths("olia");
    assert!(share < 0.62, "{share}");
}

#[test]
fn balia_takes_no_more_than_a_flow() {
    let share = share_of_four_paths("balia");
    assert!(share < 0.62, "{share}");
}
