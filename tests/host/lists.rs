//! `paths`, `flows` and `top`: their rows and columns, and the owners of connections.

use std::{
    fs::File,
    io::{Read, Write},
    process::Stdio,
    sync::{Arc, Mutex},
    thread,
};

use serde_json::Value;
use tcpilot_tests::{Child, Daemon, FAR, Lab, Netns, Pair, Place, Sink, binary, in_netns, until};

use crate::{
    ALWAYS_BBR,
    rescue::{OTHER, way},
    terminal::in_terminal,
};

/// Another address on the way to [`OTHER`].
const THIRD: &str = "198.51.100.3";

/// Uploads thrice to [`OTHER`] and once to [`THIRD`]. With round trips of 20 ms all handshakes are of one class.
fn upload(lab: &Lab, pilot: &Daemon) -> Child {
    let way = way(lab, "", "pfifo limit 1000");
    lab.upload(OTHER, 3, 100_000);
    lab.upload(THIRD, 1, 100_000);
    pilot.wait_closed(4);
    way
}

fn list(pilot: &Daemon, question: &str) -> Vec<Value> {
    let mut answer = pilot.command(question);
    let name = question.split(' ').next().unwrap();
    answer[name].take().as_array().unwrap().clone()
}

fn column(list: &[Value], field: &str) -> Vec<String> {
    let texts = list
        .iter()
        .map(|one| one[field].as_str().unwrap().to_owned());
    texts.collect()
}

#[test]
fn process_and_cgroup_are_listed_on_request() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let pilot = lab.pilot(ALWAYS_BBR);
    let mut application = lab.actor();
    application.tell(&format!("connect {FAR}:5300"));
    let mut other = lab.actor();
    other.tell(&format!("connect {FAR}:5300"));
    let plain = &list(&pilot, "flows")[0];
    assert!(plain["inode"].as_u64().unwrap() > 0 && plain["cgroup_id"].as_u64().unwrap() > 0);
    assert_eq!(
        (&plain["processes"], &plain["cgroup"]),
        (&Value::from(Vec::<Value>::new()), &Value::Null)
    );
    let pid = application.pid();
    for question in [
        format!("flows --filter pids={pid}"),
        format!("flows --processes --filter pids={pid}"),
    ] {
        let flows = list(&pilot, &question);
        assert_eq!(flows.len(), 1, "{question}: {flows:?}");
        let flow = &flows[0];
        assert_eq!(flow["processes"], serde_json::json!(["actor"]));
        assert_eq!(flow["pids"], serde_json::json!([pid]));
        let name = lab.cgroup.path().file_name().unwrap().to_str().unwrap();
        let cgroup = flow["cgroup"].as_str().unwrap();
        assert!(cgroup.ends_with(&format!("/{name}")), "{cgroup}");
        assert_eq!(flow["pods"], serde_json::json!([]));
    }
    other.tell("send 100000");
    other.tell("close");
    pilot.wait_closed(1);
    other.tell(&format!("connect {FAR}:5300"));
    let paths = list(&pilot, "paths --filter processes=actor");
    assert_eq!(paths.len(), 1, "{paths:?}");
    assert_eq!(paths[0]["processes"], serde_json::json!(["actor"]));
    assert!(list(&pilot, "paths --filter processes=nginx").is_empty());
    // Its application has closed it, so no process has it open.
    other.tell("close");
    until("one is left", || {
        (list(&pilot, "flows --filter processes=actor").len() == 1).then_some(())
    });
}

#[test]
fn lists_obey_filter_sort_limit_and_columns() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_BBR);
    let _way = upload(&lab, &pilot);
    let prefixes = |question: &str| column(&list(&pilot, question), "prefix");
    assert_eq!(prefixes("paths --sort connections"), [THIRD, OTHER]);
    assert_eq!(prefixes("paths --sort -connections"), [OTHER, THIRD]);
    assert_eq!(prefixes("paths --sort=-connections --limit 1"), [OTHER]);
    assert_eq!(prefixes("paths --filter prefix=198.51.100.3"), [THIRD]);
    assert_eq!(prefixes("paths --filter prefix=198.51.100.0/24").len(), 2);
    assert_eq!(
        prefixes("paths --filter connections>1 --filter algorithm=bbr"),
        [OTHER]
    );
    assert!(prefixes("paths --filter algorithm=reno").is_empty());
    let text = |words: &str| {
        let mut command = Place::here().command("tcpilot");
        command
            .args(words.split(' '))
            .arg("--socket")
            .arg(pilot.socket());
        let output = command.output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            error,
        )
    };
    let (_, table, _) = text("paths --columns prefix,connections --sort -connections");
    let rows: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows,
        [["prefix", "connections"], [OTHER, "3"], [THIRD, "1"]]
    );
    assert_eq!(text("paths --filter 9.9.9.9").1, "no path matches\n");
    assert_eq!(text("flows --filter 9.9.9.9").1, "no connection matches\n");
    for (words, said) in [
        (
            "paths --sort colour",
            "tcpilot: there is no column `colour`; there are path, netns, prefix, ",
        ),
        (
            "flows --columns colour",
            "tcpilot: there is no column `colour`; there are local, remote, ",
        ),
        (
            "top --filter colour=red",
            "tcpilot: there is no column `colour`; there are path, netns, ",
        ),
    ] {
        let (status, _, error) = text(words);
        assert_eq!(status, Some(2), "{words}: {error}");
        assert!(
            error.starts_with(said) && error.lines().count() == 1,
            "{words}: {error}"
        );
    }
}

/// `tcpilot top` in a terminal of 24 lines and 100 columns, and its output there.
struct Top {
    child: Child,
    keys: File,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Top {
    fn start(pilot: &Daemon) -> Top {
        let mut command = Place::here().command("tcpilot");
        command.arg("top").arg("--socket").arg(pilot.socket());
        let (child, keys) = in_terminal(command);
        let written = Arc::new(Mutex::new(Vec::new()));
        let (mut reads, into) = (keys.try_clone().unwrap(), Arc::clone(&written));
        thread::spawn(move || {
            let mut some = [0; 4096];
            // Reading fails once the other end is closed.
            while let Ok(count @ 1..) = reads.read(&mut some) {
                into.lock().unwrap().extend(&some[..count]);
            }
        });
        Top {
            child,
            keys,
            written,
        }
    }

    /// Presses keys; then waits until the output fits.
    fn press(&mut self, keys: &str, what: &str, fits: impl Fn(&str) -> bool) {
        self.written.lock().unwrap().clear();
        self.keys.write_all(keys.as_bytes()).unwrap();
        until(what, || {
            let written = self.written.lock().unwrap();
            fits(&String::from_utf8_lossy(&written)).then_some(())
        });
    }
}

#[test]
fn live_view_ends_with_its_terminal() {
    let lab = Lab::new();
    let mut command = Place::outside(&lab.net.near).command("tcpilot");
    command.arg("watch").arg("eth0");
    let (mut child, mut other_end) = in_terminal(command);
    let (mut shown, mut some) = (String::new(), [0; 4096]);
    while !shown.contains("q quit") {
        let count = other_end.read(&mut some).unwrap();
        shown += &String::from_utf8_lossy(&some[..count]);
    }
    // It waits for keys now. The kernel sends SIGHUP, and every read comes back at once.
    drop(other_end);
    until("it has ended", || child.0.try_wait().unwrap());
}

#[test]
fn live_view_keys_filter_sort_and_quit() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_BBR);
    let _way = upload(&lab, &pilot);
    let mut top = Top::start(&pilot);
    let both = |text: &str| text.contains(OTHER) && text.contains(THIRD);
    top.press("", "it shows both paths", |text| {
        both(text) && text.contains("q quit")
    });
    top.press("/connections>1", "what is typed is shown", |text| {
        text.contains(": connections>1_")
    });
    top.press("\r", "one path is left", |text| {
        text.contains(OTHER) && !text.contains(THIRD)
    });
    top.press(
        "/\x1b[A\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\r",
        "all are back",
        both,
    );
    // The last complete screen drawn since then: each screen begins in the corner.
    let shows = |text: &str, first: &str, second: &str| {
        let screen = text.rsplit("\x1b[1;1H").nth(1).unwrap_or_default();
        both(screen) && screen.find(first) < screen.find(second)
    };
    top.press("sconnections\r", "the least first", |text| {
        shows(text, THIRD, OTHER)
    });
    top.press("r", "the greatest first", |text| shows(text, OTHER, THIRD));
    top.press("ccolour\r", "a mistake is told", |text| {
        text.contains("there is no column `colour`")
    });
    top.press("\x1b[", "half a sequence, and it still draws", |text| {
        text.contains("there is no column `colour`")
    });
    top.keys.write_all(b"xq").unwrap();
    assert_eq!(top.child.wait().code(), Some(0));
}

/// A process takes its name from the file that it runs, any user names a file, and root reads the list.
#[test]
fn process_name_cannot_command_the_terminal() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let pilot = lab.pilot(ALWAYS_BBR);
    let name = lab.dir.path().join("a\u{1b}]0;x\u{7}\nb");
    std::os::unix::fs::symlink(binary("actor"), &name).unwrap();
    let mut command = lab.near().command(name.to_str().unwrap());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut application = command.spawn().unwrap();
    let order = format!("connect {FAR}:5300\n");
    let stdin = application.stdin.as_mut().unwrap();
    stdin.write_all(order.as_bytes()).unwrap();
    let text = until("the process is listed", || {
        let mut command = Place::here().command("tcpilot");
        command.args(["flows", "--processes", "--socket"]);
        let output = command.arg(pilot.socket()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.contains("]0;x").then_some(text)
    });
    application.kill().unwrap();
    application.wait().unwrap();
    assert!(text.contains("a\\u{1b}]0;x\\u{7} b"), "{text:?}");
    assert!(
        !text.contains(|c: char| c.is_control() && c != '\n'),
        "{text:?}"
    );
    assert_eq!(text.lines().count(), 2, "{text}");
}

/// The kernel's iterator over TCP sockets leaves out those in the first bucket of its hash table, if the namespace has no
/// listening socket. Here the table has one bucket.
#[test]
fn flows_in_the_first_hash_bucket_are_listed() {
    let mut lab = Lab::new();
    let above = Netns::new();
    above.sysctl("net/ipv4/tcp_child_ehash_entries", "1");
    lab.net = in_netns(&above, Pair::new);
    let _sink = Sink::new(&lab.net.far, 5300);
    let pilot = lab.pilot(ALWAYS_BBR);
    let mut applications: Vec<_> = (0..3).map(|_| lab.actor()).collect();
    for application in &mut applications {
        application.tell(&format!("connect {FAR}:5300"));
    }
    assert_eq!(list(&pilot, "flows").len(), 3);
}

/// A namespace counts its sockets of IPv4 and IPv6 apart, and one without any is passed over.
#[test]
fn a_namespaces_only_connection_is_listed() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let pilot = lab.pilot(ALWAYS_BBR);
    assert_eq!(list(&pilot, "flows").len(), 0);
    for to in [
        "10.77.0.2:5300",
        "[::ffff:10.77.0.2]:5300",
        "[fd77::2]:5300",
    ] {
        let mut application = lab.actor();
        application.tell(&format!("connect {to}"));
        assert_eq!(list(&pilot, "flows").len(), 1, "{to}");
        application.tell("close");
    }
}
