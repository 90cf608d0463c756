//! `tcpilot cc`: our congestion controls on the running kernel, with real connections.

use std::{
    fs,
    process::Stdio,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

use serde_json::Value;
use tcpilot_tests::{
    Actor, Bpffs, Child, FAR, Lab, PORT, Place, Registrations, Sink, TEMPLATE, folder, is_emulated,
    until,
};

const OURS: [&str; 20] = [
    "tp_reno",
    "tp_vegas",
    "tp_hstcp",
    "tp_veno",
    "tp_westwood",
    "tp_bic",
    "tp_hybla",
    "tp_htcp",
    "tp_illinois",
    "tp_yeah",
    "tp_cubic",
    "tp_dctcp",
    "tp_lia",
    "tp_wvegas",
    "tp_olia",
    "tp_balia",
    "tp_bbr",
    "tp_lola",
    "tp_prague",
    "tp_bbr3",
];

const NEED_ECN: [&str; 2] = ["tp_dctcp", "tp_prague"];

/// `tcpilot cc` with a BPF file system of the test's own.
struct Pins(Bpffs);

impl Pins {
    fn new() -> Self {
        Self(Bpffs::new())
    }

    /// Runs `tcpilot cc …`; returns its standard output, or its one line of error.
    fn try_cc(&self, arguments: &str) -> Result<String, String> {
        let mut command = Place::here().command("tcpilot");
        command.arg("cc").args(arguments.split(' '));
        if !arguments.contains("--bpffs") {
            command.arg("--bpffs").arg(self.0.path());
        }
        let output = command.env_remove("RUST_LOG").output().unwrap();
        let (out, error) = (output.stdout, output.stderr);
        if output.status.success() {
            return Ok(String::from_utf8(out).unwrap());
        }
        Err(String::from_utf8(error).unwrap())
    }

    fn cc(&self, arguments: &str) -> String {
        self.try_cc(arguments).unwrap()
    }

    fn listed(&self, name: &str) -> Value {
        let all: Value = serde_json::from_str(&self.cc("list --json")).unwrap();
        let found = all["algorithms"]
            .as_array()
            .unwrap()
            .iter()
            .find(|a| a["name"] == name);
        assert!(found.is_some(), "{name} is not listed: {all}");
        found.unwrap().clone()
    }
}

fn registered() -> String {
    fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap()
}

/// Whether a name is registered: as a whole word of the list.
fn is_registered(name: &str) -> bool {
    registered().split_whitespace().any(|n| n == name)
}

/// Instructions looked at by the kernel's verifier, from what `cc load` says.
fn verified(said: &str) -> u32 {
    let words = said.split_once(": ").map(|(_, rest)| rest.split(' '));
    words
        .and_then(|mut words| words.next()?.parse().ok())
        .unwrap()
}

#[test]
fn every_algorithm_loads_carries_data_and_unloads() {
    let pins = Pins::new();
    let lab = Lab::new();
    lab.net.far.sysctl("net/ipv4/tcp_ecn", "0");
    let listed: Value = serde_json::from_str(&pins.cc("list --json")).unwrap();
    let listed = listed["algorithms"].as_array().unwrap();
    for name in OURS {
        let entry = listed.iter().find(|a| a["name"] == name).unwrap();
        assert_eq!(entry["state"], "available", "{name}");
        let said = pins.cc(&format!("load {name}"));
        assert!(said.contains("carried data over loopback"), "{said}");
        // A daemon loads this one at its start by default: most of the time of a start was the verifier's.
        assert!(name != "tp_bbr3" || verified(&said) < 40_000, "{said}");
        assert_eq!(pins.listed(name)["state"], "pinned", "{name}");
        let reports = lab.run(&format!(
            "bulk --to {FAR}:{PORT} --bytes 300000 --cc {name}"
        ));
        let used = if NEED_ECN.contains(&name) {
            "reno" // the receiver refuses it
        } else {
            name
        };
        assert_eq!(reports[0]["cc_end"], used, "{reports:?}");
        assert_eq!(reports[0]["bytes"], 300_000, "{name}");
        pins.cc(&format!("unload {name}"));
        assert!(!is_registered(name), "{name}");
    }
}

/// docs/use/own-algorithm.md, steps 3 and 4.
#[test]
fn custom_object_loads_updates_carries_data_and_unloads() {
    let pins = Pins::new();
    let lab = Lab::new();
    let object = lab.dir.path().join("mine.bpf.o");
    fs::write(&object, TEMPLATE).unwrap();
    let said = pins.cc(&format!("load {}", object.display()));
    assert!(said.contains("carried data over loopback"), "{said}");
    assert_eq!(pins.listed("tp_mine")["state"], "pinned");
    pins.cc(&format!("load {} --update", object.display()));
    fs::remove_file(&object).unwrap();
    let reports = lab.run(&format!(
        "bulk --to {FAR}:{PORT} --bytes 1000000 --cc tp_mine"
    ));
    assert_eq!(reports[0]["cc_end"], "tp_mine", "{reports:?}");
    assert_eq!(reports[0]["bytes"], 1_000_000);
    pins.cc("unload tp_mine");
    assert!(!is_registered("tp_mine"));
}

/// The template with another name in its struct.
fn named(name: &str) -> Vec<u8> {
    let padded = |name: &str| {
        let mut bytes = [0; 16];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        bytes
    };
    let (before, mut object) = (padded("tp_mine"), TEMPLATE.to_vec());
    let at = object
        .windows(16)
        .position(|bytes| bytes == before)
        .unwrap();
    object[at..at + 16].copy_from_slice(&padded(name));
    object
}

#[test]
fn unusable_names_are_refused_with_a_remedy() {
    let pins = Pins::new();
    let dir = folder();
    let object = dir.path().join("mine.bpf.o");
    for (name, expected) in [
        (
            "sixteen_letters_",
            "\"sixteen_letters_\" has more than 15 characters; give yours another name",
        ),
        ("cubic", "cubic is another algorithm of this host"),
    ] {
        fs::write(&object, named(name)).unwrap();
        for option in ["", " --update", " --foreground"] {
            let said = refused(&pins, &format!("load {}{option}", object.display()));
            assert!(
                said.contains(expected) && said.contains("`.name`"),
                "{said}"
            );
        }
    }
}

/// The template, with a program that reads its context at an odd place.
fn rejected() -> Vec<u8> {
    // r = *(u64 *)(r1 + 0), as each program of struct_ops begins to read its arguments.
    let reads_first = |code: &[u8]| code[0] == 0x79 && code[1] >> 4 == 1 && code[2..] == [0; 6];
    let mut object = TEMPLATE.to_vec();
    let found = object.chunks_exact_mut(8).find(|code| reads_first(code));
    found.unwrap()[2] = 1;
    object
}

#[test]
fn the_verifiers_objection_is_told() {
    let pins = Pins::new();
    let dir = folder();
    let object = dir.path().join("mine.bpf.o");
    fs::write(&object, rejected()).unwrap();
    let load = format!("load {}", object.display());
    let said = refused(&pins, &load);
    let expected = format!("the kernel's verifier rejects {}: mine_", object.display());
    assert!(said.contains(&expected), "{said}");
    assert!(said.contains("invalid bpf_context access off=1"), "{said}");
    assert!(said.contains("RUST_LOG=libbpf=debug"), "{said}");
    assert!(!said.contains("security module"), "{said}");
}

#[test]
fn loading_ecn_algorithm_hints_at_reno_fallback() {
    let pins = Pins::new();
    for (name, hinted) in [("dctcp", true), ("prague", true), ("reno", false)] {
        let said = pins.cc(&format!("load {name}"));
        let hint = format!("tp_{name}: leaves a connection without ECN to reno");
        assert_eq!(said.contains(&hint), hinted, "{said}");
    }
}

/// RFC 3168, section 6.1.1: only packets of a connection with negotiated ECN may be capable of it. Otherwise
/// a queue marks them, and nobody reports it. Codepoint 2 is ECT(0).
#[test]
fn ecn_algorithm_falls_back_to_reno_without_ecn() {
    let pins = Pins::new();
    let lab = Lab::new();
    // A listener whose algorithm needs ECN agrees all the same. Without this, a kernel with accurate ECN always agrees.
    lab.net.far.sysctl("net/ipv4/tcp_ecn", "0");
    let (mut application, mut server) = (
        lab.actor(),
        Actor::new(Place::new(&lab.net.far, &lab.cgroup)),
    );
    for (i, name) in NEED_ECN.into_iter().enumerate() {
        pins.cc(&format!("load {}", &name["tp_".len()..]));
        for (theirs, used, codepoint) in [(name, name, "2"), ("reno", "reno", "0")] {
            let port = 5310 + 2 * i + usize::from(theirs == "reno");
            server.tell(&format!("listen {FAR}:{port} {theirs}"));
            // A kernel may skip a callback, such as init (docs/measured/congestion-controls.md), but not each time.
            let mut connect = || {
                application.tell(&format!("connect {FAR}:{port} {name}"));
                application.tell("send 100000");
                application.tell("cc")
            };
            let is_used = (0..4).any(|_| connect() == used);
            assert!(is_used, "{name} to {theirs}");
            assert_eq!(application.tell("ecn"), codepoint, "{name} to {theirs}");
        }
        // A connection without it may get it later.
        application.tell(&format!("cc {name}"));
        assert_eq!(application.tell("cc"), "reno");
        assert_eq!(application.tell("ecn"), "0");
        application.tell("close");
        pins.cc(&format!("unload {name} --force"));
    }
}

/// The last figure in the answer to `info`.
fn pacing_mbit(application: &mut Actor) -> f64 {
    let info = application.tell("info");
    let bytes_per_s: u64 = info.split(' ').next_back().unwrap().parse().unwrap();
    bytes_per_s as f64 * 8e-6
}

#[test]
fn list_shows_ecn_form_this_kernel_negotiates() {
    let pins = Pins::new();
    // Macros are not in BTF: the version of the kernel says what it has.
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let major = release.split('.').next().unwrap().parse::<u32>();
    let form = if major.unwrap() < 7 {
        "classic"
    } else {
        "accurate"
    };
    for (name, expected) in [
        ("tp_prague", Value::from(form)),
        ("tp_dctcp", Value::from("classic")),
        ("tp_reno", Value::Null),
        ("reno", Value::Null),
    ] {
        assert_eq!(pins.listed(name)["ecn"], expected, "{name}");
    }
}

/// Section 5.5.6 of draft-ietf-ccwg-bbr-06: an application-limited sample does not lower the bandwidth. In
/// 20 s there are several PROBE_RTTs. Its lowest pacing is DOWN's gain of 0.9 with a margin of 1 %.
#[test]
fn bbr3_keeps_pacing_rate_through_application_limited_phase() {
    let pins = Pins::new();
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    pins.cc("load bbr3");
    let mut application = lab.actor();
    application.tell(&format!("connect {FAR}:5300 tp_bbr3"));
    application.tell("send 10000000"); // 4 s at the link's 20 Mbit/s
    let before = pacing_mbit(&mut application);
    assert!(before > 16.0, "{before} Mbit/s in bulk");
    for _ in 0..400 {
        application.tell("send 9375"); // 1.5 Mbit/s
        thread::sleep(Duration::from_millis(50));
    }
    let after = pacing_mbit(&mut application);
    assert!(
        after > 16.0,
        "{before} Mbit/s in bulk, {after} Mbit/s after talking"
    );
    pins.cc("unload bbr3 --force");
}

#[test]
fn unload_in_use_requires_force_and_keeps_connections() {
    let pins = Pins::new();
    let lab = Lab::new();
    let sink = Sink::new(&lab.net.far, 5300);
    pins.cc("load reno");
    let mut application = lab.actor();
    application.tell(&format!("connect {FAR}:5300 tp_reno"));
    assert_eq!(pins.listed("tp_reno")["sockets"], 1);
    let refusal = pins.try_cc("unload reno").unwrap_err();
    assert!(refusal.contains("1 sockets use tp_reno; wait"), "{refusal}");
    assert_eq!(refusal.lines().count(), 1);
    application.order("send 5000000");
    pins.cc("unload reno --force");
    assert!(!is_registered("tp_reno"));
    sink.wait_for(5_000_000);
    application.answer().unwrap();
    assert_eq!(application.tell("cc"), "tp_reno");
}

#[test]
fn replacing_an_algorithm_keeps_its_connections() {
    let pins = Pins::new();
    let lab = Lab::new();
    let sink = Sink::new(&lab.net.far, 5300);
    pins.cc("load bbr");
    let mut before = lab.actor();
    before.tell(&format!("connect {FAR}:5300 tp_bbr"));
    before.order("send 5000000");
    for _ in 0..5 {
        pins.cc("load bbr --update");
    }
    let mut after = lab.actor();
    after.tell(&format!("connect {FAR}:5300 tp_bbr"));
    after.tell("send 1000000");
    sink.wait_for(6_000_000);
    before.answer().unwrap();
    assert_eq!(pins.listed("tp_bbr")["sockets"], 2);
}

#[test]
fn acknowledgements_can_be_counted_as_the_module_does() {
    let pins = Pins::new();
    let lab = Lab::new();
    let sink = Sink::new(&lab.net.far, 5300);
    pins.cc("load hstcp hybla bic --as-module");
    for (number, name) in (1..).zip(["tp_hstcp", "tp_hybla", "tp_bic"]) {
        let mut application = lab.actor();
        application.tell(&format!("connect {FAR}:5300 {name}"));
        application.tell("send 1000000");
        sink.wait_for(number * 1_000_000);
    }
    pins.cc("unload hstcp hybla bic --force");
    let refusal = refused(&pins, "load reno --as-module");
    assert!(
        refusal.contains("reno counts acknowledgements in one way only; leave --as-module out"),
        "{refusal}"
    );
    assert!(!is_registered("tp_reno"));
}

#[test]
fn a_held_algorithm_goes_with_its_process() {
    let pins = Pins::new();
    let mut command = Place::here().command("tcpilot");
    command.args(["cc", "load", "vegas", "--foreground"]);
    let holder = Child(command.stdout(Stdio::null()).spawn().unwrap());
    until("it is registered", || {
        is_registered("tp_vegas").then_some(())
    });
    assert_eq!(pins.listed("tp_vegas")["state"], "held");
    let refusal = pins.try_cc("load vegas").unwrap_err();
    assert!(
        refusal.contains("tp_vegas is loaded already; unload it"),
        "{refusal}"
    );
    let refusal = pins.try_cc("unload vegas").unwrap_err();
    assert!(refusal.contains("was not loaded by"), "{refusal}");
    holder.signal(libc::SIGTERM);
    until("it is gone", || (!is_registered("tp_vegas")).then_some(()));
}

#[test]
fn load_and_unload_errors_are_one_line() {
    let pins = Pins::new();
    let cases = [
        (
            "load nonsense",
            "tcpilot has no congestion control nonsense; `tcpilot cc list`",
        ),
        ("load /dev/null", "/dev/null is no compiled BPF object"),
        ("load ./none.bpf.o", "./none.bpf.o: No such file"),
        ("unload reno", "tp_reno is not loaded; `tcpilot cc list`"),
        ("load reno --update", "tp_reno is not loaded"),
    ];
    for (arguments, expected) in cases {
        let error = pins.try_cc(arguments).unwrap_err();
        assert!(error.contains(expected), "{arguments}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

/// The one line of a refused `unload`.
fn refused(pins: &Pins, arguments: &str) -> String {
    let error = pins.try_cc(arguments).unwrap_err();
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

#[test]
fn unload_by_path_removes_nothing_and_suggests_name() {
    let pins = Pins::new();
    let dir = folder();
    let object = dir.path().join("mine.bpf.o");
    let text = dir.path().join("precious.txt");
    fs::write(&object, TEMPLATE).unwrap();
    fs::write(&text, "precious").unwrap();
    pins.cc(&format!("load {}", object.display()));
    let said = refused(&pins, &format!("unload {} --force", object.display()));
    assert!(said.contains("tcpilot cc unload tp_mine"), "{said}");
    // Relative to the folder of the pins, as a path out of it.
    let outside = format!("../..{}", text.display());
    for path in [
        text.to_str().unwrap(),
        &outside,
        "../tcpilot/tp_mine",
        "./tp_mine",
        "..",
        ".",
    ] {
        let said = refused(&pins, &format!("unload {path} --force"));
        assert!(
            said.contains("takes names") || said.contains("is no name"),
            "{said}"
        );
    }
    assert_eq!(fs::read(&object).unwrap(), TEMPLATE);
    assert_eq!(fs::read_to_string(&text).unwrap(), "precious");
    assert_eq!(pins.listed("tp_mine")["state"], "pinned");
    pins.cc("unload tp_mine");
    assert!(!is_registered("tp_mine"));
}

#[test]
fn one_refused_name_prevents_all_unloads() {
    let pins = Pins::new();
    pins.cc("load reno");
    refused(&pins, "unload reno ./mine.bpf.o");
    refused(&pins, "unload reno ..");
    assert_eq!(pins.listed("tp_reno")["state"], "pinned");
}

#[test]
fn unload_keeps_file_that_pins_no_algorithm() {
    let pins = Pins::new();
    let dir = folder();
    fs::create_dir(dir.path().join("tcpilot")).unwrap();
    let text = dir.path().join("tcpilot/tp_reno");
    fs::write(&text, "precious").unwrap();
    let said = refused(
        &pins,
        &format!("unload reno --bpffs {}", dir.path().display()),
    );
    assert!(said.contains("tp_reno is not loaded"), "{said}");
    assert_eq!(fs::read_to_string(&text).unwrap(), "precious");
}

#[test]
fn daemon_registers_and_removes_its_own_algorithms() {
    let _registrations = Registrations::lock();
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let pilot = lab.pilot(
        r#"
        algorithms = ["tp_bbr"]
        replace_defaults = ["reno"]
        [rescue]
        algorithm = "tp_westwood"
        [effect]
        hold_out_percent = 0
        "#,
    );
    assert!(is_registered("tp_westwood"));
    let mut application = lab.actor();
    application.tell(&format!("connect {FAR}:5300"));
    assert_eq!(application.tell("cc"), "tp_bbr");
    application.tell("send 1000000");
    application.tell("close");
    pilot.wait_closed(1);
    assert_eq!(pilot.end(libc::SIGTERM).status, Some(0));
    until("both are gone", || {
        (!is_registered("tp_bbr") && !is_registered("tp_westwood")).then_some(())
    });
}

/// Connects, sends and closes, over and over, with algorithms whose registration may come and go.
fn churn(lab: &Lab, to_do: &AtomicU32, wanted: &[&str], trouble: &Mutex<Vec<String>>) {
    let mut application = Actor::new(lab.near());
    while let Ok(left) =
        to_do.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
    {
        let result = (|| {
            application.try_tell(&format!("connect {FAR}:5300"))?;
            // The algorithm may be gone at this moment: then the connection keeps its default.
            let _ = application.try_tell(&format!("cc {}", wanted[left as usize % wanted.len()]));
            application.try_tell("send 20000")?;
            application.try_tell("close")
        })();
        if let Err(error) = result {
            trouble.lock().unwrap().push(error);
        }
    }
}

#[test]
fn no_connection_lost_while_algorithms_load_and_unload() {
    let connections = if is_emulated() { 200 } else { 1000 };
    let pins = Pins::new();
    let lab = Lab::new();
    let sink = Sink::new(&lab.net.far, 5300);
    let to_do = AtomicU32::new(connections);
    let trouble = Mutex::new(Vec::new());
    let done = AtomicBool::new(false);
    let wanted = ["tp_bbr", "tp_cubic", "tp_lola", "tp_prague"];
    let mut swaps = 0;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| churn(&lab, &to_do, &wanted, &trouble)))
            .collect();
        let swapper = scope.spawn(|| {
            let mut rounds = 0;
            while !done.load(Ordering::Relaxed) {
                pins.cc("load bbr cubic lola prague");
                pins.cc("load bbr cubic lola prague --update");
                pins.cc("unload bbr cubic lola prague --force");
                rounds += 1;
            }
            rounds
        });
        workers.into_iter().for_each(|w| w.join().unwrap());
        done.store(true, Ordering::Relaxed);
        swaps = swapper.join().unwrap();
    });
    assert_eq!(trouble.into_inner().unwrap(), [""; 0]);
    assert!(swaps > 0);
    let bytes = u64::from(connections) * 20_000;
    sink.wait_for(bytes);
    assert_eq!(sink.bytes(), bytes);
}
