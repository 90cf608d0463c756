//! Whether steering helps, as the daemon shows it: with blocks of two seconds, on links clearly better for
//! one algorithm.

use std::{
    fs,
    io::Read,
    process::Stdio,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tcpilot_tests::{Actor, Child, Daemon, FAR, Lab, PORT, Place, Sink, until};

use crate::rescue::way;

/// Longer than sixty pairs take on a machine busy with other tests.
const LONG: Duration = Duration::from_secs(150);
/// Groups of addresses behind the lossy link.
const GROUPS: u8 = 6;

/// A configuration with pairs of four seconds. Its last section is `[effect]`, so other settings come before
/// it.
fn config(algorithm: &str, default: &str, hold_out: &str) -> String {
    format!(
        r#"
        algorithms = ["{algorithm}"]
        replace_defaults = ["{default}"]
        [learner]
        kind = "thompson"
        [rescue]
        algorithm = ""
        [effect]
        hold_out = "{hold_out}"
        block_s = 2
        settle_s = 0
        connections_min = 2
        "#
    )
}

fn report(pilot: &Daemon) -> Value {
    pilot.ask("report")
}

/// The measure of goodput, once `is_there` accepts it.
fn goodput_when(pilot: &Daemon, what: &str, mut is_there: impl FnMut(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let mut report = report(pilot);
        if is_there(&report) {
            return report["measures"][0].take();
        }
        assert!(
            begun.elapsed() < LONG,
            "waited in vain until {what}: {report:#}"
        );
        std::thread::sleep(Duration::from_millis(250));
    }
}

fn trial(pilot: &Daemon) {
    assert!(pilot.raw(&json!({"trial": 3600}))["error"].is_null());
}

/// Uploads without pause, until the value is dropped.
fn upload(lab: &Lab, to: &str, bytes: u32) -> Child {
    lab.start(&format!(
        "bulk --to {to}:{PORT} --bytes {bytes} --count 100000"
    ))
}

/// A link with a loss of one packet in fifty, and some groups of addresses behind it, all of them busy.
struct Busy {
    _uploads: Vec<Child>,
    _relay: Child,
}

impl Busy {
    fn new(lab: &Lab) -> Busy {
        let relay = way(
            lab,
            ",loss=0.02,seed=5",
            "tbf rate 40mbit burst 15kb latency 50ms",
        );
        let uploads = (0..GROUPS).map(|group| {
            let address = format!("198.51.{}.2", 101 + group);
            lab.net
                .far
                .ip(&format!("address add {address}/32 dev lossy"));
            lab.net
                .near
                .ip(&format!("route add {address}/32 dev lossy"));
            upload(lab, &address, 120_000)
        });
        Busy {
            _uploads: uploads.collect(),
            _relay: relay,
        }
    }
}

#[test]
fn a_gain_is_shown_with_its_price() {
    let lab = Lab::new();
    let pilot = lab.pilot(&config("bbr", "reno", "block"));
    trial(&pilot);
    let _busy = Busy::new(&lab);
    let goodput = goodput_when(&pilot, "bbr is shown to be better", |report| {
        report["measures"][0]["verdict"] == "better"
    });
    assert!(goodput["low"].as_f64().unwrap() > 0.0, "{goodput}");
    let report = report(&pilot);
    assert_eq!(report["groups"], u64::from(GROUPS), "{report:#}");
    let of = |key: &str| report[key].as_f64().unwrap();
    let share = of("connections_held_out") / of("connections_all");
    assert!((0.2..0.8).contains(&share), "{share}");
    assert!(of("hold_out_cost") > 0.0, "{report:#}");
    assert!(pilot.opened("held-out") > 0);
    let line = pilot.status()["effect"].as_str().unwrap().to_owned();
    assert!(
        line.contains("better, sure · held out: half of the time"),
        "{line}"
    );
}

#[test]
fn identical_algorithms_show_neither_gain_nor_harm() {
    let lab = Lab::new();
    let pilot = lab.pilot(&config("reno", "reno", "block"));
    trial(&pilot);
    let _busy = Busy::new(&lab);
    let goodput = goodput_when(&pilot, "there are 24 pairs", |report| {
        report["pairs"].as_u64().unwrap() >= 24
    });
    // With so few pairs an interval has four standard errors on each side.
    let verdict = goodput["verdict"].as_str().unwrap();
    assert!(
        ["not shown", "insufficient data"].contains(&verdict),
        "{goodput}"
    );
    assert!(goodput["low"].is_number(), "{goodput}");
}

#[test]
fn guard_stops_harmful_steering_and_reports_it() {
    let lab = Lab::new();
    for netns in [&lab.net.near, &lab.net.far] {
        netns.sysctl("net/ipv4/tcp_congestion_control", "bbr");
    }
    let pilot = lab.pilot(&config("reno", "bbr", "block"));
    trial(&pilot);
    let _busy = Busy::new(&lab);
    let _ = goodput_when(&pilot, "the host is stopped", |report| {
        let stops = report["stops"].as_array().unwrap();
        stops
            .iter()
            .any(|stop| stop["group"] == "" && stop["active"] == true)
    });
    let log = pilot.log();
    assert!(
        log.contains("the guard has stopped steering: the whole host"),
        "{log}"
    );
    let explained = pilot.ask("explain 198.51.101.2");
    let stopped = explained["stopped"].as_str().unwrap();
    assert!(stopped.contains("tried again in"), "{stopped}");
    let line = pilot.status()["effect"].as_str().unwrap().to_owned();
    assert!(line.contains("the guard has stopped steering"), "{line}");
    let mut application = lab.actor();
    application.tell(&format!("connect 198.51.102.2:{PORT}"));
    assert_eq!(application.tell("cc"), "bbr", "the default");
}

#[test]
fn trial_results_survive_restart_and_upgrade() {
    let lab = Lab::new();
    let text = config("bbr", "reno", "host").replace("block_s = 2", "block_s = 1");
    let pilot = lab.pilot(&text);
    trial(&pilot);
    let _upload = upload(&lab, FAR, 200_000);
    let pairs = |report: &Value| report["pairs"].as_u64().unwrap();
    let _ = goodput_when(&pilot, "there are 3 pairs", |report| pairs(report) >= 3);
    pilot.end(libc::SIGTERM);

    let pilot = lab.pilot(&text);
    let after = report(&pilot);
    assert!(pairs(&after) >= 3, "{after:#}");
    assert!(
        after["trial_until_unix_s"].is_number(),
        "the trial goes on: {after:#}"
    );
    let more = pairs(&after) + 2;
    let _ = goodput_when(&pilot, "there are 2 more", |report| pairs(report) >= more);
    pilot.take_over();
    let taken_over = report(&pilot);
    assert!(pairs(&taken_over) >= more, "{taken_over:#}");
    assert_eq!(taken_over["since_unix_s"], after["since_unix_s"]);
    let more = pairs(&taken_over) + 2;
    let _ = goodput_when(&pilot, "there are 2 more", |report| pairs(report) >= more);
    let taken_over = report(&pilot);
    assert_eq!(
        taken_over["worst"][0]["group"], "all groups",
        "{taken_over:#}"
    );
}

#[test]
fn held_out_connections_are_not_tuned() {
    let lab = Lab::new();
    let tuned = r#"
        [tuning]
        objective = "throughput"
        network = "long-fat"
        features = ["initial-window"]
        window_rule = "slides"
        low_load_percent = 100000
        mid_load_percent = 100000
        hold_out_shift = 0
    "#;
    let pilot = lab.pilot(&(config("bbr", "reno", "host") + tuned));
    trial(&pilot);
    // On accept nothing has to be set at the SYN. Downloads past slow start leave a window to save.
    let _server = lab.serve_in_cgroup(5400);
    let download = format!("bulk --to {FAR}:5400 --bytes 2000000 --count 5 --reverse");
    let outside = || Place::outside(&lab.net.near);
    assert!(lab.try_run(outside(), &download).status.success());
    pilot.wait_closed(5);
    let mut server = Actor::new(Place::new(&lab.net.far, &lab.cgroup));
    server.tell("listen 0.0.0.0:5401");
    let mut client = Actor::new(outside());
    let (mut held_out, mut tuned) = (0, 0);
    until("both kinds were seen twice", || {
        client.tell(&format!("connect {FAR}:5401"));
        server.tell("accept");
        let flow = pilot.ask("flows")[0].take();
        server.tell("close");
        client.tell("close");
        let is_tuned = flow["initial_window"].is_number();
        if flow["algorithm"] == "reno" {
            assert!(!is_tuned && flow["why"] == "held-out", "{flow}");
            held_out += 1;
        } else {
            tuned += u32::from(is_tuned);
        }
        (held_out > 1 && tuned > 1).then_some(())
    });
}

#[test]
fn held_out_connections_are_not_tuned_at_syn() {
    let lab = Lab::new();
    // The SYN announces a share of the link as soon as there is another connection to share with.
    let tuned = r#"
        [tuning]
        objective = "throughput"
        network = "data-center"
        features = ["receive-window"]
        link_mbit = 1
        hold_out_shift = 0
    "#;
    let pilot = lab.pilot(&(config("bbr", "reno", "host") + tuned));
    trial(&pilot);
    let _sink = Sink::new(&lab.net.far, 5300);
    lab.upload(FAR, 4, 2000);
    pilot.wait_closed(4);
    let mut other = lab.actor();
    other.tell(&format!("connect {FAR}:5300"));
    let mut application = lab.actor();
    let mut one = || {
        let set = || pilot.status()["tunings"]["set"]["receive-window"].as_u64();
        let before = set();
        application.tell(&format!("connect {FAR}:5300"));
        let is_held_out = application.tell("cc") == "reno";
        application.tell("close");
        (is_held_out, set() != before)
    };
    let (mut held_out, mut tuned, mut last) = (0, 0, [one(), one()]);
    until("both kinds were seen twice", || {
        let [before, seen] = last;
        let after = one();
        last = [seen, after];
        // A block may change between the SYN and the handshake's end, but not twice.
        if before.0 == seen.0 && seen.0 == after.0 {
            assert!(!(seen.0 && seen.1), "{}", pilot.status());
            held_out += u32::from(seen.0);
            tuned += u32::from(seen.1);
        }
        (held_out > 1 && tuned > 1).then_some(())
    });
}

/// The output of the command.
fn printed(pilot: &Daemon, arguments: &[&str]) -> String {
    let mut command = Place::here().command("tcpilot");
    command.arg("report").args(arguments).arg("--socket");
    let output = command
        .arg(pilot.socket())
        .stderr(Stdio::inherit())
        .output();
    let output = output.unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn report_explains_why_effect_is_unknown() {
    let lab = Lab::new();
    let thompson = config("bbr", "reno", "block");
    let off = thompson.replace("block_s", "hold_out_percent = 0\nblock_s");
    let pilot = lab.pilot(&off);
    lab.upload(FAR, 3, 200_000);
    assert!(printed(&pilot, &[]).contains("hold_out_percent in [effect] is 0"));
    assert_eq!(pilot.opened("held-out"), 0);
    pilot.end(libc::SIGTERM);

    let pilot = lab.pilot_with(&thompson, &["--dry-run"]);
    assert!(printed(&pilot, &[]).contains("in a dry run nothing is steered"));
}

#[test]
fn a_live_run_ends_with_the_effect() {
    let lab = Lab::new();
    let file = |name: &str| lab.dir.path().join(name);
    fs::write(file("live.toml"), config("bbr", "reno", "block")).unwrap();
    let mut command = Place::here().command("tcpilot");
    command
        .args(["run", "--live", "--cgroup"])
        .arg(lab.cgroup.path());
    command.arg("--config").arg(file("live.toml"));
    command.arg("--state").arg(file("live.db"));
    command.arg("--socket").arg(file("live.sock"));
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut run = Child(command.spawn().unwrap());
    until("it answers", || {
        let mut status = Place::here().command("tcpilot");
        status.arg("status").arg("--socket").arg(file("live.sock"));
        let output = status.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.contains("helps  goodput not proven: first interval at 20 pairs")
            .then_some(())
    });
    run.signal(libc::SIGINT);
    let mut report = String::new();
    let mut stdout = run.0.stdout.take().unwrap();
    stdout.read_to_string(&mut report).unwrap();
    let [effect, detached] =
        ["held out: 5 % of the time", "Detached"].map(|part| report.find(part));
    assert!(effect.is_some() && effect < detached, "{report}");
}

#[test]
fn the_command_begins_and_ends_a_trial() {
    let lab = Lab::new();
    let pilot = lab.pilot(&config("bbr", "reno", "block"));
    assert!(report(&pilot)["trial_until_unix_s"].is_null());
    let begun = printed(&pilot, &["--trial", "24h"]);
    assert!(
        begun.starts_with("comparing without pause for 1 d 0 h"),
        "{begun}"
    );
    assert!(report(&pilot)["trial_until_unix_s"].is_number());
    assert!(printed(&pilot, &[]).contains("not proven: first interval at 20 pairs"));
    printed(&pilot, &["--trial", "0"]);
    assert!(report(&pilot)["trial_until_unix_s"].is_null());
    let document: Value = serde_json::from_str(&printed(&pilot, &["--json"])).unwrap();
    assert_eq!(document["schema"], 1);
    assert!(document["measures"][0]["sums"]["count"].is_number());
}
