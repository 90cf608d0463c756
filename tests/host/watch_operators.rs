//! `tcpilot watch` for operators: several devices, the census, the schema, and metrics.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::{Output, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use serde_json::Value;
use tcpilot_tests::{
    FAR, Lab, PORT, Place, Running, Watching, binary, in_netns, programs_of, schema, sh, until,
};

fn near(lab: &Lab) -> Place<'_> {
    Place::outside(&lab.net.near)
}

fn watch(lab: &Lab, words: &[&str]) -> Output {
    let mut command = near(lab).command("tcpilot");
    command.arg("watch").args(words).output().unwrap()
}

fn text(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn bulk(lab: &Lab, to: &str) -> Running {
    lab.start(&format!("bulk --to {to} --seconds 600"))
}

/// A second link between the two ends, slow enough for an emulated machine to fill.
fn add_second_link(lab: &Lab) {
    let (near, far) = (&lab.net.near, &lab.net.far);
    sh(&format!(
        "ip link add two0 netns {} type veth peer name two0 netns {}",
        near.name(),
        far.name()
    ));
    for (netns, host) in [(near, 1), (far, 2)] {
        netns.ip(&format!("addr add 10.80.0.{host}/24 dev two0"));
        netns.ip("link set two0 up");
        sh(&format!(
            "tc -n {} qdisc add dev two0 root tbf rate 20mbit burst 16kb latency 100ms",
            netns.name()
        ));
    }
}

#[test]
fn flows_of_several_devices_are_one_list() {
    let lab = Lab::new();
    add_second_link(&lab);
    let _flows = [FAR, "10.80.0.2"].map(|to| bulk(&lab, &format!("{to}:{PORT}")));
    let found = until("both are there", || {
        let words = ["eth0", "two0", "--once", "--json", "--for", "3"];
        let lines = text(&watch(&lab, &words));
        let lines = lines
            .lines()
            .map(|l| serde_json::from_str::<Value>(l).unwrap());
        let lines: Vec<Value> = lines.collect();
        let flows = lines.iter().filter(|l| l["type"] == "flow");
        let of = |device: &str, to: &str| {
            flows.clone().any(|f| {
                f["device"] == device
                    && f["flow"]
                        .as_str()
                        .unwrap()
                        .ends_with(&format!("> {to}:{PORT}"))
            })
        };
        assert!(
            !of("eth0", "10.80.0.2") && !of("two0", FAR),
            "each at its own device"
        );
        (of("eth0", FAR) && of("two0", "10.80.0.2")).then_some(lines)
    });
    let totals = found.iter().filter(|l| l["type"] == "totals");
    let devices: Vec<_> = totals.map(|l| l["device"].clone()).collect();
    assert_eq!(devices, ["eth0", "two0"]);
    let report = text(&watch(&lab, &["eth0", "two0", "--once", "--for", "3"]));
    assert!(
        report.contains("\neth0 · ") || report.starts_with("eth0 · "),
        "{report}"
    );
    assert!(
        report.contains("\ntwo0 · ") && report.contains("Device"),
        "{report}"
    );
}

#[test]
fn rows_are_filtered_and_conflicting_options_refused() {
    let lab = Lab::new();
    let _flow = bulk(&lab, &format!("{FAR}:{PORT}"));
    let with = |filter: &str| {
        let words = ["eth0", "--once", "--for", "3", "--filter", filter];
        text(&watch(&lab, &words)).contains(&format!("> {FAR}:{PORT}"))
    };
    until("it is shown", || with("bytes>10000").then_some(()));
    assert!(!with("protocol=udp"));
    for (words, says) in [
        (&["eth0", "eth0"][..], "eth0 is named twice"),
        (&["eth0", "lo", "--fair"], "--fair is for one device"),
        (&["eth0", "--sort", "colour"], "no column `colour`"),
        (&["eth0", "--mark", "tcp=1"], "there is no group tcp"),
        (&["eth0", "--ipfix", "nowhere"], "write HOST:PORT"),
        (
            &["--census", "--census-file", "/nosuch/census.db"],
            "keeps a census",
        ),
        (&[], "required"),
    ] {
        let output = watch(&lab, words);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {error}");
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_bridge_names_the_ports_to_watch() {
    let lab = Lab::new();
    lab.net.near.ip("link add br0 type bridge");
    lab.net.near.ip("link add p0 type veth peer name p1");
    lab.net.near.ip("link set p0 master br0");
    lab.net.near.ip("link set br0 up");
    let error = |device| {
        let output = watch(&lab, &[device, "--once", "--for", "1"]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let of_bridge = error("br0");
    assert!(of_bridge.contains("br0 is a bridge"), "{of_bridge}");
    assert!(of_bridge.trim_end().ends_with("of p0"), "{of_bridge}");
    assert!(!error("p0").contains("bridge"));
}

/// A live list in a terminal of its own, made by script(1).
struct Live {
    child: Running,
    seen: Arc<Mutex<String>>,
}

impl Live {
    fn start(lab: &Lab) -> Self {
        let mut command = near(lab).command("/usr/bin/script");
        let watch = format!("{} watch eth0", binary("tcpilot").display());
        command.args(["-q", "-e", "-c", &watch, "/dev/null"]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = Running::from(command.spawn().unwrap());
        let mut output = child.0.stdout.take().unwrap();
        let seen = Arc::new(Mutex::new(String::new()));
        let to = Arc::clone(&seen);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
                to.lock().unwrap().push_str(&text);
            }
        });
        Live { child, seen }
    }

    fn press(&mut self, keys: &str) {
        let input = self.child.0.stdin.as_mut().unwrap();
        input.write_all(keys.as_bytes()).unwrap();
        input.flush().unwrap();
    }

    /// Waits for a whole screen that is wanted: the text between two jumps to the first line.
    fn until(&self, what: &str, is_wanted: impl Fn(&str) -> bool) {
        until(what, || {
            let seen = self.seen.lock().unwrap();
            let screen = seen.rsplit("\x1b[1;1H").nth(1)?;
            is_wanted(screen).then_some(())
        });
    }
}

#[test]
fn the_live_list_is_filtered_by_keys() {
    let lab = Lab::new();
    let _flow = bulk(&lab, &format!("{FAR}:{PORT}"));
    let to = format!("> {FAR}:{PORT}");
    let mut live = Live::start(&lab);
    live.until("the flow is shown", |screen| screen.contains(&to));
    live.press("/");
    live.until("it asks for a filter", |screen| {
        screen.contains("filter (KEY=VALUE")
    });
    live.press("protocol=udp\r");
    live.until("the flow is left out", |screen| {
        screen.contains("q quit") && !screen.contains(&to)
    });
    live.press("q");
    assert!(live.child.wait().success());
}

/// The bytes of the census, of all groups.
fn census_bytes(line: &str) -> u64 {
    let census: Value = serde_json::from_str(line.trim()).unwrap();
    assert_eq!(census["type"], "census");
    let rows = census["rows"].as_array().unwrap();
    rows.iter().map(|row| row["bytes"].as_u64().unwrap()).sum()
}

/// Watches for so many seconds with this file of the census; its bytes at the end.
fn census_of(lab: &Lab, file: &str, seconds: &str) -> u64 {
    let kept = ["eth0", "--census", "--census-file", file];
    let once = ["--once", "--json", "--for", seconds];
    census_bytes(&text(&watch(lab, &[kept, once].concat())))
}

#[test]
fn the_census_sums_all_runs() {
    let lab = Lab::new();
    let path = lab.dir.path().join("census.db");
    let file = path.to_str().unwrap();
    let mut sums = Vec::new();
    for seconds in ["3", "4"] {
        let flow = bulk(&lab, &format!("{FAR}:{PORT}"));
        sums.push(census_of(&lab, file, seconds));
        drop(flow);
    }
    // 20 Mbit/s: three seconds are 7.5 MB, less the time until the programs are attached.
    assert!(
        sums[0] > 2_000_000 && sums[1] > sums[0] + 2_000_000,
        "{sums:?}"
    );
    let kept = ["--census", "--census-file", file];
    let json = text(&watch(&lab, &[&kept[..], &["--json"]].concat()));
    assert_eq!(census_bytes(&json), sums[1]);
    let table = text(&watch(&lab, &kept));
    assert!(
        table.starts_with("census of the last ") && table.contains("eth0"),
        "{table}"
    );
    let addresses = std::fs::read(&path).unwrap();
    let has = |word: &str| {
        addresses
            .windows(word.len())
            .any(|part| part == word.as_bytes())
    };
    assert!(has("eth0") && !has(FAR), "no address is kept");
}

#[test]
fn a_killed_census_loses_only_unsaved_bytes() {
    let lab = Lab::new();
    let path = lab.dir.path().join("census.db");
    let file = path.to_str().unwrap();
    let flow = bulk(&lab, &format!("{FAR}:{PORT}"));
    let before = census_of(&lab, file, "3");
    let mut command = near(&lab).command("tcpilot");
    command.args(["watch", "eth0", "--census", "--census-file", file, "--json"]);
    let mut killed = Running::from(command.stdout(Stdio::null()).spawn().unwrap());
    until("it is attached", || {
        (!programs_of(killed.0.id()).is_empty()).then_some(())
    });
    killed.signal(libc::SIGKILL);
    killed.wait();
    drop(flow);
    let json = text(&watch(&lab, &["--census", "--census-file", file, "--json"]));
    assert_eq!(census_bytes(&json), before);
}

#[test]
fn each_line_fulfils_the_schema() {
    let lab = Lab::new();
    let described: Value = serde_json::from_str(&text(&watch(&lab, &["--schema"]))).unwrap();
    let _flow = bulk(&lab, &format!("{FAR}:{PORT}"));
    let file = lab.dir.path().join("census.db");
    let file = file.to_str().unwrap();
    let lines = until("there is a flow", || {
        let plain = text(&watch(&lab, &["eth0", "--once", "--json", "--for", "3"]));
        plain.contains("\"type\":\"flow\"").then_some(plain)
    });
    let fair = [
        "eth0", "--once", "--json", "--for", "2", "--fair", "--rate", "20",
    ];
    let census = [
        "eth0",
        "--once",
        "--json",
        "--for",
        "2",
        "--census",
        "--census-file",
        file,
    ];
    let lines = lines + &text(&watch(&lab, &fair)) + &text(&watch(&lab, &census));
    let mut types = Vec::new();
    for line in lines.lines() {
        let mut value: Value = serde_json::from_str(line).unwrap();
        schema::check(&described, &value).unwrap_or_else(|why| panic!("{why}\n{line}"));
        types.push(value["type"].as_str().unwrap().to_owned());
        // The check can fail: a field of another type, and a missing field.
        value["schema"] = "one".into();
        assert!(schema::check(&described, &value).is_err());
        value.as_object_mut().unwrap().remove("schema");
        assert!(schema::check(&described, &value).is_err());
    }
    for kind in ["flow", "totals", "census"] {
        assert!(types.iter().any(|found| found == kind), "{types:?}");
    }
}

/// The answer to a GET of this page, from within the near end.
fn page(lab: &Lab, port: u16, page: &str) -> String {
    in_netns(&lab.net.near, || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        write!(stream, "GET {page} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    })
}

#[test]
fn metrics_count_bytes_by_device_group_algorithm() {
    let lab = Lab::new();
    lab.net.near.ip("link set lo up");
    let _flow = bulk(&lab, &format!("{FAR}:{PORT}"));
    let watching = Watching::start(near(&lab), "eth0", &["--listen", "9465"]);
    let to = format!("{FAR}:{PORT}");
    watching.until("the flow has a name", |look| {
        look.to(&to)?["algorithm"].is_string().then_some(())
    });
    let begins = "tcpilot_watch_flow_bytes_total{device=\"eth0\",protocol=\"tcp\",group=\"";
    until("its bytes are counted", || {
        let text = page(&lab, 9465, "/metrics");
        assert!(
            text.starts_with("HTTP/1.1 200 OK") && text.ends_with("# EOF\n"),
            "{text}"
        );
        assert!(!text.contains(FAR), "no address: {text}");
        let line = text.lines().find(|line| line.starts_with(begins))?;
        let bytes: f64 = line.rsplit(' ').next()?.parse().ok()?;
        (bytes > 100_000.0).then_some(())
    });
    assert!(page(&lab, 9465, "/readyz").ends_with("watching\n"));
}

#[test]
fn a_taken_port_is_tried_again_while_watching() {
    let lab = Lab::new();
    let _flow = bulk(&lab, &format!("{FAR}:{PORT}"));
    let squatter = in_netns(&lab.net.near, || TcpListener::bind("127.0.0.1:9465")).unwrap();
    let watching = Watching::start(near(&lab), "eth0", &["--listen", "9465"]);
    let to = format!("{FAR}:{PORT}");
    watching.until("it watches", |look| look.to(&to).map(drop));
    drop(squatter);
    let address = "127.0.0.1:9465";
    until("it listens", || {
        in_netns(&lab.net.near, || TcpStream::connect(address))
            .ok()
            .map(drop)
    });
    assert!(page(&lab, 9465, "/readyz").ends_with("watching\n"));
}
