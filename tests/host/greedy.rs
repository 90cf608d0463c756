//! The learner epsilon-greedy: its choice and its costs.

use tcpilot_tests::{FAR, Lab, Place, Sink, arm};

use crate::{ALWAYS_BBR, ALWAYS_RENO, GREEDY};

fn greedy(config: &str) -> String {
    format!("{config}\n{GREEDY}")
}

#[test]
fn every_algorithm_is_tried_before_the_choice() {
    let lab = Lab::new();
    let config = greedy(ALWAYS_BBR)
        .replace(r#"["bbr"]"#, r#"["reno", "bbr", "cubic"]"#)
        .replace("min_instances = 0", "min_instances = 2");
    let pilot = lab.pilot(&config);
    for count in 1..=10 {
        lab.upload(FAR, 1, 1_000_000);
        pilot.wait_closed(count);
    }
    // It has a choice distribution once enough connections were judged, and from then on each connection draws by
    // one.
    assert_eq!(pilot.opened("nothing-known"), 2);
    assert_eq!(pilot.opened("drawn"), 8);
    let path = pilot.path(FAR);
    for name in ["reno", "bbr", "cubic"] {
        assert!(arm(&path, name)["samples"].as_u64().unwrap() >= 1, "{path}");
    }
}

/// Metric, Count, Greedy, MinRtt and MaxRtDlvr of the published tables, as the manual prints them.
#[test]
fn the_published_table_can_be_printed() {
    let lab = Lab::new();
    let pilot = lab.pilot(&greedy(ALWAYS_BBR));
    lab.upload(FAR, 3, 1_000_000);
    pilot.wait_closed(3);
    let path = pilot.path(FAR);
    let bbr = arm(&path, "bbr");
    let mut command = Place::here().command("tcpilot");
    let columns =
        "path,algorithm,cost,chosen,greedy,algorithm.min_rtt_us,algorithm.max_delivery_rate";
    command.args(["paths", "--columns", columns, "--socket"]);
    let output = command.arg(pilot.socket()).output().unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    let row = table.lines().nth(1).unwrap();
    let cells: Vec<&str> = row.split("  ").filter(|cell| !cell.is_empty()).collect();
    let [_, name, cost, chosen, greedy, rtt, rate] = cells.as_slice() else {
        panic!("{table}");
    };
    let plain = |cell: &str| cell.trim().to_owned();
    assert_eq!(name.trim(), "bbr", "{table}");
    assert_eq!(plain(cost), bbr["cost"].to_string(), "{table}");
    assert_eq!((plain(chosen), plain(greedy)), ("3".into(), "3".into()));
    assert!(rtt.ends_with(" ms") && rate.ends_with("bit/s"), "{table}");
}

#[test]
fn timeout_raises_cost_of_its_arm() {
    let lab = Lab::new();
    lab.net.near.sysctl("net/ipv4/tcp_retries2", "2");
    let _sink = Sink::new(&lab.net.far, 5300);
    let pilot = lab.pilot(&greedy(ALWAYS_RENO));
    lab.upload(FAR, 2, 1_000_000);
    pilot.wait_closed(2);
    let before = arm(&pilot.path(FAR), "reno")["cost"].as_u64().unwrap();

    let mut application = lab.actor();
    application.tell(&format!("connect {FAR}:5300"));
    lab.net.far.ip("route add blackhole 10.77.0.1"); // no acknowledgement comes back from here on
    application.order("send 100000000");
    pilot.wait_closed(3);
    let error = application.answer().unwrap_err();
    assert!(error.contains("timed out"), "{error}");

    let path = pilot.path(FAR);
    let reno = arm(&path, "reno");
    assert_eq!(reno["samples"], 3);
    // A quarter of the cost of losing the whole rate.
    assert!(
        reno["cost"].as_u64().unwrap() >= before - before / 4 + 249_000,
        "{before}, {reno}"
    );
}
