//! The measures of paths, and the last decisions, with default keys.

use std::fs;

use serde_json::Value;
use tcpilot_tests::{Actor, Child, Daemon, Lab, Place, Sink, until};

use crate::rescue::{OTHER, lossy_way, way};

const PORT: u16 = 5300;
const FIGURES: [&str; 5] = [
    "min_rtt_us",
    "srtt_us",
    "max_delivery_rate",
    "loss_ratio",
    "connections",
];

/// The default keys, but no group is held out by chance: it would keep this laboratory's default, reno. Since
/// reno is no algorithm to choose from, nothing would be learned of it.
const KEYS: &str = "[effect]\nhold_out_percent = 0";

/// A laboratory with a way of 20 ms and without loss.
fn clean() -> (Lab, Child) {
    let lab = Lab::new();
    let way = way(&lab, "", "tbf rate 40mbit burst 15kb latency 200ms");
    (lab, way)
}

/// The same, but it loses a packet in 33.
fn lossy() -> (Lab, Child) {
    let lab = Lab::new();
    let way = lossy_way(&lab);
    (lab, way)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

fn sum(all: &[Value], figure: &str) -> f64 {
    all.iter().map(|one| number(&one[figure])).sum()
}

/// The paths to the far end, once so many of its connections have ended. A connection whose handshake lost a
/// packet is of another class, and so on a path of its own.
fn paths(pilot: &Daemon, ended: u32) -> Vec<Value> {
    until(&format!("{ended} connections have ended"), || {
        let paths = pilot.paths().into_iter();
        let paths: Vec<Value> = paths.filter(|path| path["prefix"] == OTHER).collect();
        // A path counts from its first update of the learner.
        let closed = pilot.status()["closed"].as_f64()?;
        (closed >= f64::from(ended) && !paths.is_empty()).then_some(paths)
    })
}

/// The algorithms of all paths.
fn arms(paths: &[Value]) -> Vec<Value> {
    let lists = paths.iter().map(|path| path["algorithms"].as_array());
    lists.flat_map(Option::unwrap).cloned().collect()
}

/// The decisions on each path.
fn decisions(pilot: &Daemon) -> Vec<Vec<Value>> {
    let explained = pilot.ask(&format!("explain {OTHER}"));
    let paths = explained["paths"].as_array().unwrap().iter();
    let lists = paths.map(|path| path["decisions"].as_array().unwrap().clone());
    lists.collect()
}

/// Sends a megabyte, and compares the path's figures with those of the socket. Returns its loss.
fn agrees_with_tcp_info(lab: &Lab) -> f64 {
    let _sink = Sink::new(&lab.net.far, PORT);
    let pilot = lab.pilot(KEYS);
    let mut application = lab.actor();
    application.tell(&format!("connect {OTHER}:{PORT}"));
    application.tell("send 1000000");
    let info = application.tell("info");
    application.tell("close");
    pilot.wait_closed(1);
    let info: Vec<f64> = info.split(' ').map(|word| word.parse().unwrap()).collect();
    let [acked, segments, again, rtt, least, ssthresh, busy, ..] = info[..] else {
        panic!("{info:?}")
    };
    let path = &paths(&pilot, 1)[0];
    let both = format!("{path} {info:?}");
    // The FIN's own round trip comes after.
    let min_rtt = number(&path["min_rtt_us"]);
    assert!(min_rtt >= 20_000.0 && min_rtt <= least * 1.001, "{both}");
    let srtt = number(&path["srtt_us"]);
    assert!(srtt > rtt / 2.0 && srtt < rtt * 2.0, "{both}");
    // The FIN may be lost, too; it is no segment with data.
    let lost = number(&path["loss_ratio"]) * segments;
    assert!((again..again + 2.5).contains(&(lost + 0.001)), "{both}");
    match ssthresh {
        10.0..2e9 => {
            // A lost FIN lowers it.
            let told = number(&path["ssthresh"]);
            assert!((ssthresh / 2.0..ssthresh * 1.001).contains(&told), "{both}");
        }
        // Below the floor it does not count. Before a rescue it may have been above.
        _ if number(&path["rescued"]) > 0.0 => {}
        _ => assert!(path["ssthresh"].is_null(), "{both}"),
    }
    // The mean while data was under way is a lower bound; the kernel counts in ticks, and the FIN's round trips come after.
    let rate = number(&path["max_delivery_rate"]);
    let mean = acked * 1e6 / busy;
    assert!(rate > mean * 0.7 && rate < 2.0 * 5e6, "{both}");
    lost / segments
}

#[test]
fn a_clean_path_agrees_with_tcp_info() {
    let (lab, _way) = clean();
    assert!(agrees_with_tcp_info(&lab) < 0.01);
}

#[test]
fn a_lossy_path_agrees_with_tcp_info() {
    let (lab, _way) = lossy();
    let loss = agrees_with_tcp_info(&lab);
    assert!((0.005..0.2).contains(&loss), "{loss}");
}

#[test]
fn no_figure_of_a_used_path_is_null() {
    let (lab, _way) = lossy();
    let pilot = lab.pilot(KEYS);
    lab.upload(OTHER, 3, 300_000);
    let paths = paths(&pilot, 3);
    let others = ["level", "class", "experience", "rescued"];
    for figure in FIGURES.iter().chain(&others) {
        let is_known = paths.iter().all(|path| !path[figure].is_null());
        assert!(is_known, "{figure}: {paths:?}");
    }
    let arms = arms(&paths);
    let counts = (sum(&arms, "chosen"), sum(&arms, "samples"));
    assert_eq!(counts, (3.0, 3.0), "{arms:?}");
    assert!(arms.iter().all(|arm| arm["cost"].is_u64()), "{arms:?}");
    let used = arms.iter().filter(|arm| arm["chosen"] != 0);
    for figure in ["min_rtt_us", "max_delivery_rate"] {
        assert!(used.clone().all(|arm| arm[figure].is_u64()), "{arms:?}");
    }
}

/// A public address is one path for all namespaces.
#[test]
fn open_connections_of_two_namespaces_are_counted() {
    let (lab, _way) = clean();
    let (other, _other_way) = clean();
    let _sinks = [&lab, &other].map(|lab| Sink::new(&lab.net.far, PORT));
    let pilot = lab.pilot(KEYS);
    lab.upload(OTHER, 1, 300_000);
    paths(&pilot, 1);
    let in_other = Actor::new(Place::new(&other.net.near, &lab.cgroup));
    let mut open = [lab.actor(), lab.actor(), in_other];
    for application in &mut open {
        application.tell(&format!("connect {OTHER}:{PORT}"));
    }
    assert_eq!(pilot.status()["live_flows"], 3);
    // On a busy machine a handshake takes longer, and its connection may be of a class yet unknown.
    let mut more = Vec::new();
    let live = || sum(&paths(&pilot, 1), "live_flows");
    until("a path counts its open connections", || {
        let mut application = lab.actor();
        application.tell(&format!("connect {OTHER}:{PORT}"));
        more.push(application);
        (live() > 0.0).then_some(())
    });
    assert!(live() <= 3.0 + more.len() as f64);
    drop((open, more));
    until("all have ended", || {
        (live() == 0.0 && pilot.status()["live_flows"] == 0).then_some(())
    });
}

#[test]
fn the_last_decisions_have_reason_and_result() {
    let (lab, _way) = lossy();
    let pilot = lab.pilot(KEYS);
    lab.upload(OTHER, 14, 200_000);
    // A path counts from its first update of the learner.
    let arms = arms(&paths(&pilot, 10));
    let by_path = decisions(&pilot);
    for of_path in &by_path {
        let ages: Vec<f64> = of_path.iter().map(|one| number(&one["age_s"])).collect();
        assert!(ages.len() <= 8 && ages.is_sorted(), "{ages:?}");
    }
    let all = by_path.concat();
    assert!(all.len() >= 8, "{all:?}");
    for one in &all {
        let is_ours = arms.iter().any(|arm| arm["name"] == one["algorithm"]);
        assert!(is_ours && one["side"] == "connect", "{one}");
        assert!(one["because"].is_string() && one["dry_run"] == false);
        // After a rescue near the end no segment may be left to be sent.
        let is_told = one["loss_ratio"].is_f64() || one["why"] == "rescued";
        assert!(is_told && number(&one["goodput"]) > 1e4, "{one}");
    }
    assert!(all.iter().any(|one| one["loss_ratio"].is_f64()), "{all:?}");
    assert!(all.iter().any(|one| one["end"] == "closed"), "{all:?}");
    let text = text(&pilot, &["explain".to_owned(), OTHER.to_owned()]);
    for part in ["RTT", "sent again", "experience of", "last decisions"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn measures_survive_a_restart_and_a_take_over() {
    let (lab, _way) = lossy();
    let pilot = lab.pilot(KEYS);
    lab.upload(OTHER, 4, 200_000);
    // After a restart no end has been counted yet.
    let told = |pilot: &Daemon, ended: u32| {
        let mut paths = paths(pilot, ended);
        paths.sort_by_key(|path| path["class"].to_string());
        let figures = paths
            .iter()
            .map(|path| FIGURES.map(|figure| path[figure].clone()));
        let figures: Vec<_> = figures.collect();
        let arms = arms(&paths).into_iter();
        let chosen: Vec<Value> = arms.map(|mut arm| arm["chosen"].take()).collect();
        (figures, chosen, decisions(pilot).concat().len())
    };
    let before = told(&pilot, 4);
    pilot.end(libc::SIGTERM);
    let pilot = lab.pilot(KEYS);
    assert_eq!(told(&pilot, 0), before);
    pilot.take_over();
    assert_eq!(told(&pilot, 0), before);
}

/// The answer of a command.
fn text(pilot: &Daemon, words: &[String]) -> String {
    let mut command = Place::here().command("tcpilot");
    command.args(words).arg("--socket").arg(pilot.socket());
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// The manual's commands for lists, without their comments.
fn examples() -> Vec<Vec<String>> {
    let manual = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/use/commands.md");
    let manual = fs::read_to_string(manual).unwrap();
    let commands = manual.lines().filter_map(|line| {
        let command = line.strip_prefix("# tcpilot ")?;
        let is_list = command.starts_with("paths") || command.starts_with("flows");
        is_list.then(|| command.split("   ").next().unwrap_or_default())
    });
    let words = |command: &str| {
        let words = command.split(' ').map(|word| word.trim_matches('\''));
        words.map(str::to_owned).collect()
    };
    commands.map(words).collect()
}

#[test]
fn the_manuals_filters_and_sorts_work() {
    let (lab, _way) = lossy();
    let _sink = Sink::new(&lab.net.far, PORT);
    let pilot = lab.pilot(KEYS);
    lab.upload(OTHER, 3, 300_000);
    paths(&pilot, 3);
    let mut application = lab.actor();
    application.tell(&format!("connect {OTHER}:{PORT}"));
    let examples = examples();
    let has = |filter: &str| examples.iter().flatten().any(|word| word == filter);
    assert!(
        has("loss_ratio>1%") && has("-delivery_rate"),
        "{examples:?}"
    );
    for words in &examples {
        let answer = text(&pilot, words);
        // Neither this name nor this address is in the laboratory.
        let is_elsewhere = words
            .iter()
            .any(|word| word.contains("nginx") || word.contains("203.0.113"));
        assert_eq!(answer.contains(OTHER), !is_elsewhere, "{words:?}: {answer}");
    }
}

#[test]
fn each_measure_is_a_filter_and_a_sort() {
    let (lab, _way) = lossy();
    let pilot = lab.pilot(KEYS);
    lab.upload(OTHER, 3, 300_000);
    paths(&pilot, 3);
    let figures = FIGURES.iter().chain(&["chosen", "share"]);
    let sorted = figures.map(|figure| format!("{figure}>0 --sort -{figure}"));
    let others = ["live_flows=0", "loss_ratio<50%", "min_rtt_us>19000"];
    for filter in sorted.chain(others.map(str::to_owned)) {
        let listed = pilot.command(&format!("paths --filter {filter}"));
        let paths = listed["paths"].as_array().unwrap();
        assert!(!paths.is_empty(), "{filter}: {listed}");
    }
}
