//! `tcpilot watch --fair`: its qdiscs at a device go again, and its actions are right.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::fs::MetadataExt,
    path::PathBuf,
    process::{Output, Stdio},
    ptr,
};

use tcpilot_tests::{
    Actor, Child, FAR, Lab, Look, PORT, Place, Running, Watching, in_netns, one_leaf_model, sh,
    until,
};

/// A model that puts every flow without a certain group into this group.
fn model(lab: &Lab, group: &str) -> String {
    one_leaf_model(&lab.dir.path().join("model.json"), &[group], &[255], &[])
}

fn near(lab: &Lab) -> Place<'_> {
    Place::outside(&lab.net.near)
}

fn fair(lab: &Lab, more: &[&str]) -> Watching {
    let words = [&["--fair", "--rate", "20"], more].concat();
    Watching::start(near(lab), "eth0", &words)
}

/// A watch with few queues, of a link slow enough for an emulated machine to fill.
fn fair_and_crowded(lab: &Lab, more: &[&str]) -> Watching {
    let words = [&["--fair", "--rate", "8", "--queues", "2"], more].concat();
    Watching::start(near(lab), "eth0", &words)
}

fn try_watch(lab: &Lab, words: &str) -> Output {
    let mut command = near(lab).command("tcpilot");
    let arguments = words.split(' ');
    command.arg("watch").args(arguments).output().unwrap()
}

/// The device's qdiscs, without counts: packets under way change those.
fn qdiscs(lab: &Lab) -> String {
    let text = sh(&format!("tc -n {} qdisc show", lab.net.near.name()));
    let mut words = text.split(' ');
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        if ["refcnt", "direct_packets_stat"].contains(&word) {
            words.next();
        } else {
            kept.push(word);
        }
    }
    kept.join(" ")
}

fn is_fair(lab: &Lab) -> bool {
    qdiscs(lab).contains(" 7c2: dev ")
}

/// A number of `fair`, summed over the groups.
fn sum(look: &Look, key: &str) -> u64 {
    let groups = look.totals["fair"]["groups"].as_array().unwrap();
    groups.iter().filter_map(|g| g[key].as_u64()).sum()
}

/// A number of one group.
fn group(look: &Look, name: &str, key: &str) -> Option<u64> {
    let groups = look.totals["fair"]["groups"].as_array()?;
    groups.iter().find(|g| g["group"] == name)?[key].as_u64()
}

/// More flows than queues, and half of them press harder than the others.
fn crowd(lab: &Lab, to: &str) -> [Running; 2] {
    ["reno", "bbr"].map(|cc| {
        let words = format!("bulk --to {to}:{PORT} --seconds 600 --parallel 8 --cc {cc}");
        lab.start(&words)
    })
}

#[test]
fn any_end_of_fair_restores_the_qdisc() {
    let lab = Lab::new();
    let before = qdiscs(&lab);
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGKILL] {
        let mut watching = fair(&lab, &[]);
        assert!(is_fair(&lab));
        watching.child.signal(signal);
        watching.child.wait();
        until("it is put back", || (qdiscs(&lab) == before).then_some(()));
    }
}

#[test]
fn the_kernels_default_returns() {
    let lab = Lab::new();
    let netns = lab.net.near.name();
    sh(&format!("tc -n {netns} qdisc del dev eth0 root"));
    let before = qdiscs(&lab);
    let mut watching = Watching::start(near(&lab), "eth0", &["--fair"]);
    assert!(is_fair(&lab));
    watching.child.signal(libc::SIGTERM);
    watching.child.wait();
    assert_eq!(qdiscs(&lab), before);
}

#[test]
fn restore_and_next_start_put_the_qdisc_back() {
    let lab = Lab::new();
    let before = qdiscs(&lab);
    for next in ["eth0 --restore", "eth0 --fair --rate 20 --once --for 1"] {
        let mut watching = fair(&lab, &[]);
        watching.child.kill_children(); // the guard
        watching.child.signal(libc::SIGKILL);
        watching.child.wait();
        assert!(is_fair(&lab));
        let output = try_watch(&lab, next);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(qdiscs(&lab), before);
    }
}

/// The journal of the device.
fn journal(lab: &Lab) -> PathBuf {
    let inum = in_netns(&lab.net.near, || {
        fs::metadata("/proc/thread-self/ns/net").unwrap().ino()
    });
    PathBuf::from(format!("/run/tcpilot/fair-{inum}-eth0.json"))
}

#[test]
fn a_refused_former_qdisc_can_be_retried() {
    let lab = Lab::new();
    let before = qdiscs(&lab);
    let mut watching = fair(&lab, &[]);
    watching.child.kill_children(); // the guard
    watching.child.signal(libc::SIGKILL);
    watching.child.wait();
    let text = fs::read_to_string(journal(&lab)).unwrap();
    fs::write(journal(&lab), text.replace("\"tbf\"", "\"nosuch\"")).unwrap();
    for words in ["eth0 --restore", "eth0 --fair --rate 20 --once --for 1"] {
        let output = try_watch(&lab, words);
        let error = String::from_utf8(output.stderr).unwrap();
        let says = "eth0: its former root qdisc could not be put back: ";
        assert!(
            error.contains(says) && error.contains("--restore"),
            "{error}"
        );
        assert_eq!(
            (output.status.code(), error.lines().count()),
            (Some(1), 1),
            "{error}"
        );
        assert!(is_fair(&lab), "{}", qdiscs(&lab));
    }
    fs::write(journal(&lab), text).unwrap();
    let output = try_watch(&lab, "eth0 --restore");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(qdiscs(&lab), before);
    assert!(!journal(&lab).exists());
    let lock = journal(&lab).with_extension("lock");
    assert!(!lock.exists(), "namespaces go, and so must their locks");
}

#[test]
fn a_failed_restore_is_reported_and_journalled() {
    let lab = Lab::new();
    let before = qdiscs(&lab);
    let mut command = near(&lab).command("tcpilot");
    command.args(["watch", "eth0", "--fair", "--rate", "20", "--json"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut watching = Child(command.spawn().unwrap());
    let mut stdout = BufReader::new(watching.0.stdout.take().unwrap());
    stdout.read_line(&mut String::new()).unwrap();
    assert!(is_fair(&lab));
    // Without a descriptor left it cannot even ask the kernel.
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let pid = watching.0.id() as i32;
    // SAFETY: the pointers are to a limit, and to nothing.
    let set = unsafe { libc::prlimit(pid, libc::RLIMIT_NOFILE, &none, ptr::null_mut()) };
    assert_eq!(set, 0);
    watching.signal(libc::SIGTERM);
    let mut error = String::new();
    let mut stderr = watching.0.stderr.take().unwrap();
    stderr.read_to_string(&mut error).unwrap();
    assert_eq!(watching.wait().code(), Some(1), "{error}");
    let is_ours = |line: &&str| line.starts_with("tcpilot: ");
    let lines: Vec<&str> = error.lines().filter(is_ours).collect();
    assert!(
        lines.len() == 1 && lines[0].contains("could not be put back"),
        "{error}"
    );
    assert!(is_fair(&lab) && journal(&lab).exists());
    let output = try_watch(&lab, "eth0 --restore");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(qdiscs(&lab), before);
}

#[test]
fn qdiscs_beyond_restoring_are_refused() {
    let lab = Lab::new();
    let refused = |words: &str, status: i32, says: &str| {
        let output = try_watch(&lab, words);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{error}");
        assert!(
            error.contains(says) && error.lines().count() == 1,
            "{error}"
        );
    };
    refused("eth0 --fair", 2, "limits its rate; give --rate");
    refused("eth0 --fair --rate 0.01", 2, "less than 0.1");
    refused(
        "eth0 --fair --rate 20 --actions none,drop",
        2,
        "stands alone",
    );
    let netns = lab.net.near.name();
    sh(&format!(
        "tc -n {netns} qdisc replace dev eth0 root handle 9: htb"
    ));
    let before = qdiscs(&lab);
    refused(
        "eth0 --fair --rate 20",
        2,
        "its root qdisc htb could not be put back",
    );
    assert_eq!(qdiscs(&lab), before);
}

#[test]
fn a_second_fair_on_a_device_is_refused() {
    let lab = Lab::new();
    let _first = fair(&lab, &[]);
    for words in ["eth0 --fair --rate 20", "eth0 --restore"] {
        let output = try_watch(&lab, words);
        assert_eq!(output.status.code(), Some(5), "{output:?}");
    }
    assert!(is_fair(&lab));
}

/// Another user's process. It takes the abstract name, formerly the lock, and the lock of every file within
/// its reach.
fn squatter(lab: &Lab) -> Actor {
    let mut squatter = Actor::new(near(lab));
    squatter.tell("become 65534");
    squatter.tell("squat tcpilot-fair-eth0 /run/tcpilot");
    squatter
}

/// Kills the watch, first with a guard left to put the root qdisc back, then without one.
fn is_put_back(lab: &Lab, squatter_comes_first: bool) {
    let before = qdiscs(lab);
    for has_guard in [true, false] {
        let mut early = squatter_comes_first.then(|| squatter(lab));
        until("the squatter has the name", || {
            let mut held = early.iter_mut().map(|s| s.tell("held"));
            held.all(|h| h.contains("tcpilot-fair-eth0")).then_some(())
        });
        let mut watching = fair(lab, &[]);
        let mut squatter = early.unwrap_or_else(|| squatter(lab));
        if !has_guard {
            watching.child.kill_children();
        }
        watching.child.signal(libc::SIGKILL);
        watching.child.wait();
        if !has_guard {
            let output = try_watch(lab, "eth0 --restore");
            assert!(output.status.success(), "{output:?}");
        }
        until("it is put back", || (qdiscs(lab) == before).then_some(()));
        let held = squatter.tell("held");
        assert!(!held.contains(".lock"), "{held}");
    }
}

#[test]
fn another_user_cannot_keep_fair_from_starting() {
    is_put_back(&Lab::new(), true);
}

#[test]
fn other_users_cannot_prevent_restoring_the_qdisc() {
    is_put_back(&Lab::new(), false);
}

/// The hosts ask for their neighbours again: these packets are neither TCP nor UDP.
#[test]
fn either_family_finds_its_way_through_the_queues() {
    let lab = Lab::new();
    let watching = fair(&lab, &[]);
    lab.net.near.ip("neigh flush dev eth0");
    for to in [FAR, "fd77::2"] {
        lab.upload(to, 2, 200_000);
    }
    let look = watching.look();
    assert!(look.totals["fair"]["classified"].as_u64().unwrap() > 10);
    let groups = look.totals["fair"]["groups"].as_array().unwrap();
    let ants = groups.iter().find(|g| g["group"] == "ant").unwrap();
    assert!(ants["packets"].as_u64().unwrap() >= 2);
}

#[test]
fn flows_above_their_share_are_dropped_or_delayed() {
    for (group, key) in [
        ("loss", "dropped"),
        ("loss-delay", "dropped"),
        ("delay", "delayed"),
    ] {
        let lab = Lab::new();
        let watching = fair_and_crowded(&lab, &["--model", &model(&lab, group)]);
        let _crowd = crowd(&lab, FAR);
        watching.until(key, |look| (sum(look, key) > 5).then_some(()));
    }
}

#[test]
fn an_unsure_group_meets_no_action_of_its_own() {
    let lab = Lab::new();
    let file = lab.dir.path().join("model.json");
    let unsure = one_leaf_model(&file, &["delay", "loss"], &[200, 55], &[]);
    let watching = fair_and_crowded(&lab, &["--model", &unsure]);
    let _crowd = crowd(&lab, FAR);
    let look = watching.until("packets of the group are dropped", |look| {
        (group(look, "delay", "dropped")? > 5).then(|| look.clone())
    });
    assert_eq!(sum(&look, "delayed"), 0);
}

/// The lengths of the queues below an HTB, in packets.
fn lengths(lab: &Lab) -> Vec<u32> {
    let text = qdiscs(lab);
    let words: Vec<&str> = text.split_whitespace().collect();
    let limits = words.windows(2).filter(|pair| pair[0] == "limit");
    limits
        .filter_map(|pair| pair[1].strip_suffix('p')?.parse().ok())
        .collect()
}

#[test]
fn empty_queues_leave_their_room_to_the_others() {
    let lab = Lab::new();
    let watching = fair(&lab, &["--qdisc", "htb"]);
    let _flow = lab.start(&format!("bulk --to {FAR}:{PORT} --seconds 600"));
    watching.until("it has a queue", |look| {
        look.to(&format!("{FAR}:{PORT}")).map(drop)
    });
    // 20 Mbit/s hold 165 packets in 100 ms; four queues are always in use.
    until("one flow has more than eight packets", || {
        let found = lengths(&lab);
        assert_eq!(found.len(), 36, "{found:?}");
        found.iter().all(|packets| *packets > 20).then_some(())
    });
}

#[test]
fn without_actions_none_is_taken() {
    let lab = Lab::new();
    let model = model(&lab, "loss");
    let watching = fair_and_crowded(&lab, &["--actions", "none", "--model", &model]);
    let _crowd = crowd(&lab, FAR);
    let look = watching.until("it runs", |look| {
        let groups = look.totals["fair"]["groups"].as_array()?;
        let loss = groups.iter().find(|g| g["group"] == "loss")?;
        (loss["packets"].as_u64()? > 2_000).then(|| look.clone())
    });
    assert_eq!(
        ["dropped", "delayed", "shrunk"].map(|key| sum(&look, key)),
        [0; 3]
    );
}

/// The number of segments refused by TCP for their checksum.
fn bad_checksums(lab: &Lab) -> u64 {
    let text = in_netns(&lab.net.near, || {
        fs::read_to_string("/proc/thread-self/net/snmp").unwrap()
    });
    let mut tcp = text.lines().filter(|line| line.starts_with("Tcp:"));
    let names = tcp.next().unwrap().split(' ');
    let mut named = names.zip(tcp.next().unwrap().split(' '));
    named
        .find(|(name, _)| *name == "InCsumErrors")
        .unwrap()
        .1
        .parse()
        .unwrap()
}

/// Makes the far end compute checksums itself, for the near end to verify.
fn sum_in_software(lab: &Lab) {
    lab.net.far.set_checksum_offload("eth0", false);
}

#[test]
fn shrunk_windows_have_correct_checksums() {
    let lab = Lab::new();
    sum_in_software(&lab);
    let watching = fair_and_crowded(&lab, &["--model", &model(&lab, "model")]);
    for to in [FAR.to_owned(), "[fd77::2]".to_owned()] {
        let shrunk = sum(&watching.look(), "shrunk");
        let _crowd = crowd(&lab, &to);
        watching.until("windows shrink", |look| {
            (sum(look, "shrunk") > shrunk + 5).then_some(())
        });
        let packets = |look: &Look| look.total("out_packets");
        let before = packets(&watching.look());
        watching.until("data goes on", |look| {
            (packets(look) > before + 1000).then_some(())
        });
    }
    assert_eq!(bad_checksums(&lab), 0);
}

#[test]
fn fair_survives_a_vanished_device() {
    let lab = Lab::new();
    let (near_ns, far_ns) = (&lab.net.near, &lab.net.far);
    let add = || {
        let (a, b) = (near_ns.name(), far_ns.name());
        sh(&format!(
            "ip link add gone0 netns {a} type veth peer name gone0 netns {b}"
        ));
        near_ns.ip("link set gone0 up");
        far_ns.ip("link set gone0 up");
    };
    add();
    let watching = Watching::start(near(&lab), "gone0", &["--fair", "--rate", "20"]);
    let is_there = |there: bool| {
        watching.until("it notices", |look| {
            (look.totals["present"] == there).then_some(())
        });
    };
    is_there(true);
    near_ns.ip("link del gone0");
    is_there(false);
    add();
    is_there(true);
    until("it is fair again", || is_fair(&lab).then_some(()));
}
