//! The daemon's answers, and the users allowed to get them.

use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Write},
    net::Shutdown,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    time::Duration,
};

use serde_json::Value;
use tcpilot_tests::{Daemon, FAR, Lab, PORT, Place, Sink};

use crate::{ALWAYS_BBR, GREEDY, tuning::tuned};

type Keys = BTreeSet<String>;

fn set<'a>(words: impl IntoIterator<Item = &'a str>) -> Keys {
    words.into_iter().map(str::to_owned).collect()
}

fn keys(object: &Value) -> Keys {
    set(tcpilot_tests::keys(object))
}

fn help(command: &str) -> String {
    let mut tcpilot = Place::here().command("tcpilot");
    let output = tcpilot.args([command, "--help"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The columns of a list by its help, by their keys.
fn columns(command: &str) -> Vec<String> {
    let help = help(command);
    let (_, list) = help.split_once("\nColumns, ").unwrap();
    let list = list.lines().skip(1).take_while(|line| !line.is_empty());
    let rows = list.filter(|line| !line.starts_with("   "));
    let keys = rows.filter_map(|line| line.split_whitespace().next());
    keys.map(str::to_owned).collect()
}

/// The fields of an object of a command's JSON by its help, a nested list: the longer lines are cut, and go on deeper.
fn documented(command: &str, place: &str) -> Keys {
    let help = help(command);
    let (_, list) = help.split_once("\nFields of --json:\n").unwrap();
    let mut objects = vec![String::new()];
    let mut fields = Keys::new();
    for line in list.lines().take_while(|line| !line.is_empty()) {
        let item = line.trim_start();
        let depth = (line.len() - item.len()) / 2 - 1;
        if depth >= objects.len() {
            continue;
        }
        objects.truncate(depth + 1);
        let object = objects.last().unwrap().clone();
        let names = item.split(": ").next().unwrap();
        let names = names.split(" (").next().unwrap().split(", ");
        let last = names.clone().last().unwrap();
        if object == place {
            fields.extend(names.map(|name| name.trim_end_matches("[]").to_owned()));
        }
        objects.push(format!("{object}{last}."));
    }
    assert!(!fields.is_empty(), "{command}: {place}");
    fields
}

#[test]
fn json_has_the_documented_fields() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let pilot = lab.pilot(ALWAYS_BBR);
    lab.upload(FAR, 1, 200_000);
    pilot.wait_closed(1);
    let mut application = lab.actor();
    application.tell(&format!("connect {FAR}:5300"));
    let listed = pilot.command("paths");
    assert_eq!(listed["schema"], 1);
    assert_eq!(keys(&listed), set(["schema", "paths"]));
    // The columns of a path, from its row's name on, and those of its algorithms.
    let columns_of_paths = columns("paths");
    let mut of_path = columns_of_paths.split(|key| key == "algorithm");
    let fields = of_path.next().unwrap()[1..].iter().map(String::as_str);
    let path = &listed["paths"][0];
    assert_eq!(keys(path), set(fields.chain(["algorithms"])));
    let fields = of_path.next().unwrap().iter();
    let fields = fields.map(|key| key.trim_start_matches("algorithm."));
    assert_eq!(keys(&path["algorithms"][0]), set(fields.chain(["name"])));

    let listed = pilot.command("flows");
    assert_eq!(keys(&listed), set(["schema", "flows"]));
    let fields = columns("flows");
    let of_flow = set(fields.iter().map(String::as_str));
    assert_eq!(keys(&listed["flows"][0]), of_flow);

    let explained = pilot.command(&format!("explain {FAR}"));
    let with = |mut fields: Keys, more: &[&str]| {
        fields.extend(more.iter().map(|key| (*key).to_owned()));
        fields
    };
    assert_eq!(
        keys(&explained),
        with(documented("explain", ""), &["schema"])
    );
    assert_eq!(keys(&explained["flows"][0]), of_flow);
    let of = &explained["paths"][0];
    assert_eq!(keys(of), documented("explain", "paths[]."));
    assert_eq!(keys(&of["path"]), keys(path));
    assert_eq!(
        keys(&of["decisions"][0]),
        documented("explain", "paths[].decisions[].")
    );
    // Former names are not explained.
    let more = ["schema", "rows_valid", "rows_voided"];
    assert_eq!(
        keys(&pilot.command("status")),
        with(documented("status", ""), &more)
    );
}

#[test]
fn a_flow_tells_what_the_socket_has() {
    let lab = Lab::new();
    let sink = Sink::new(&lab.net.far, 5300);
    let pilot = lab.pilot(ALWAYS_BBR);
    let mut application = lab.actor();
    application.tell(&format!("connect {FAR}:5300"));
    application.tell("send 1000000");
    sink.wait_for(1_000_000);
    let flows = pilot.ask("flows");
    assert_eq!(flows.as_array().unwrap().len(), 1, "{flows}");
    let flow = &flows[0];
    assert_eq!(flow["remote"], format!("{FAR}:5300"));
    assert_eq!(flow["netns"], lab.net.near.name());
    assert_eq!(flow["algorithm"], application.tell("cc"));
    assert_eq!(
        (&flow["charged_to"], &flow["side"]),
        (&"bbr".into(), &"connect".into())
    );
    assert_eq!(
        (&flow["policy"], &flow["why"]),
        (&"default".into(), &"drawn".into())
    );
    assert!(flow["bytes_acked"].as_u64().unwrap() >= 900_000, "{flow}");
    assert!(
        flow["min_rtt_us"].is_u64() && flow["cwnd"].is_u64(),
        "{flow}"
    );
    let explained = pilot.ask("explain 8.8.8.8");
    // An unknown address has the knowledge of its neighbours, or of all.
    assert_eq!(explained["paths"][0]["path"]["level"], "global");
    assert_eq!(explained["flows"], serde_json::json!([]));
}

/// With each learner, and with storage of tunings.
#[test]
fn application_choice_after_connect_is_shown_uncharged() {
    let greedy = ALWAYS_BBR.to_owned() + GREEDY;
    let window = tuned("\"receive-window\", \"rto\"");
    for config in [ALWAYS_BBR, &greedy, &window] {
        let lab = Lab::new();
        let _sink = Sink::new(&lab.net.far, 5300);
        let pilot = lab.pilot(config);
        let mut application = lab.actor();
        application.tell(&format!("connect {FAR}:5300"));
        application.tell("send 100000");
        application.tell("cc cubic");
        let flow = &pilot.ask("flows")[0];
        assert_eq!(
            (&flow["algorithm"], &flow["why"], &flow["charged_to"]),
            (&"cubic".into(), &"application".into(), &Value::Null),
            "{config}"
        );
    }
}

#[test]
fn the_control_socket_is_for_root_only() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_BBR);
    let mode = fs::metadata(pilot.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn daemon_refuses_and_survives_control_socket_garbage() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_BBR);
    let deep = "[".repeat(100_000) + "\n";
    let garbage: [&[u8]; 6] = [
        b"\n",
        b"\xff\xfe\x00\n",
        b"{\"explain\":\"nowhere\"}\n",
        b"{\"state-import\":{\"paths\":7}}\n",
        b"no newline at all",
        deep.as_bytes(),
    ];
    for bytes in garbage {
        let mut stream = UnixStream::connect(pilot.socket()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream.write_all(bytes).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let refused = answer.is_empty() || answer.starts_with(b"{\"error\":");
        assert!(refused, "{}", String::from_utf8_lossy(&answer));
    }
    drop(UnixStream::connect(pilot.socket()).unwrap()); // goes away without a word
    let _silent = UnixStream::connect(pilot.socket()).unwrap(); // stays without a word
    assert_eq!(pilot.status()["attached"], true);
}

#[test]
fn command_without_daemon_suggests_tcpilot_run() {
    let lab = Lab::new();
    let mut pilot = lab.pilot(ALWAYS_BBR);
    lab.cgroup.remove();
    pilot.ended();
    let message = pilot.try_command("status").unwrap_err();
    assert_eq!(message.lines().count(), 1);
    assert!(message.contains("tcpilot run"), "{message}");
}

#[test]
fn nobody_can_ask_over_the_network() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_BBR);
    let process = format!("/proc/{}", pilot.pid());
    let open: Vec<String> = fs::read_dir(format!("{process}/fd"))
        .unwrap()
        .filter_map(|fd| fs::read_link(fd.unwrap().path()).ok())
        .filter_map(|to| {
            let inode = to.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
            Some(inode.to_owned())
        })
        .collect();
    assert!(!open.is_empty(), "the control socket");
    for table in ["tcp", "tcp6", "udp", "udp6"] {
        let text = fs::read_to_string(format!("{process}/net/{table}")).unwrap();
        let inodes: Vec<&str> = text
            .lines()
            .filter_map(|l| l.split_whitespace().nth(9))
            .collect();
        assert!(
            !open.iter().any(|o| inodes.contains(&o.as_str())),
            "{table}"
        );
    }
}

#[test]
fn log_and_memory_do_not_grow_with_connections() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_BBR);
    let spread = format!("spread --to-prefix 10.64.0.0/14 --port {PORT}");
    lab.run(&format!("{spread} --distinct 200"));
    pilot.ask("paths");
    let (lines, bytes) = (pilot.log().lines().count(), resident_bytes(&pilot));
    lab.run(&format!("{spread} --distinct 600 --seed 2"));
    assert!(pilot.status()["closed"].as_u64().unwrap() >= 800);
    assert_eq!(pilot.log().lines().count(), lines, "{}", pilot.log());
    let now_bytes = resident_bytes(&pilot);
    assert!(
        now_bytes < bytes + 4_000_000 && now_bytes < 40_000_000,
        "{bytes}, {now_bytes}"
    );
}

fn resident_bytes(pilot: &Daemon) -> u64 {
    pilot.status()["resident_bytes"].as_u64().unwrap()
}
