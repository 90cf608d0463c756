//! Two hosts and their agents: what the daemon of one learns helps the first connections of the other.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, SystemTime},
};

use serde_json::Value;
use tcpilot_fleet::{Message, Row, State, format};
use tcpilot_tests::{Child, Daemon, Lab, PORT, Place, arm, folder, until};

use crate::rescue::way;

/// An address behind the lossy way, and one behind the clean one.
const LOSSY: &str = "198.51.100.2";
const CLEAN: &str = "8.1.2.3";

/// Two algorithms, one of them much better if packets are lost. Only the rate counts.
fn config(agent: &Path, hear: &str) -> String {
    format!(
        "algorithms = [\"reno\", \"bbr\"]\n\
         replace_defaults = [\"reno\"]\n\
         [learner]\nkind = \"thompson\"\ndelay_weight_percent = 0\n\
         [rescue]\nalgorithm = \"\"\n\
         [effect]\nhold_out_percent = 0\n\
         [fleet]\ndir = {:?}\nhear = \"{hear}\"\nsay_every_s = 1\n",
        agent.display()
    )
}

/// A host's agent, with the folder of its files.
struct Agent {
    _process: Child,
    state: PathBuf,
}

impl Agent {
    fn new(root: &Path, name: &str) -> Self {
        let state = root.join(name);
        fs::create_dir(&state).unwrap();
        let engine = root.join("engine");
        fs::create_dir_all(&engine).unwrap();
        let settings = root.join(format!("{name}.toml"));
        let text = format!(
            "store = \"dir:{}\"\nplace = \"here\"\nhost = {name:?}\nstate_dir = {:?}\ninsecure = true\n\
             say_every_s = 1\nhear_every_s = 1\n",
            engine.display(),
            state.display()
        );
        fs::write(&settings, text).unwrap();
        let mut command = Place::here().command("tcpilot-fleet");
        command.arg("--config").arg(&settings).arg("run");
        let process = command.stdout(Stdio::null()).spawn().unwrap();
        let agent = Self {
            _process: Child(process),
            state,
        };
        until("the agent has made its folders", || agent.status());
        agent
    }

    /// What it shows, if it has written that already.
    fn status(&self) -> Option<Value> {
        let text = fs::read(self.state.join("status.json")).ok()?;
        serde_json::from_slice(&text).ok()
    }

    fn own(&self) -> PathBuf {
        self.state.join("own/default.state")
    }

    /// What its host says, once it says something of so many groups.
    fn said(&self, groups: usize) -> State {
        self.said_after(groups, || ())
    }

    /// The same. Each look that finds too little has the host learn more: the handshakes of a starved host are of several
    /// classes, each with a group of its own, and a host says nothing of a group of few connections.
    fn said_after(&self, groups: usize, mut teach: impl FnMut()) -> State {
        until(&format!("{groups} groups are said"), || {
            let bytes = fs::read(self.own()).ok()?;
            let state = format::decode(&bytes, format::ROWS_MAX).unwrap();
            if state.rows().len() >= groups {
                return Some(state);
            }
            teach();
            None
        })
    }

    /// Has its host say something else.
    fn say(&self, state: &State) {
        tcpilot_file::replace(&self.own(), tcpilot_file::GROUP, &format::encode(state)).unwrap();
    }

    /// Waits until it merges so many other hosts.
    fn wait_members(&self, count: usize) {
        until(&format!("{count} hosts are merged"), || {
            let status = self.status()?;
            let members = status["members"].as_array()?;
            let has_rows = |member: &&Value| member["rows"].as_u64() > Some(0);
            let known = members
                .iter()
                .filter(has_rows)
                .filter(|m| m["merged"] == true);
            (known.count() == count).then_some(())
        });
    }
}

/// A state with other messages.
fn with(state: &State, message: impl Fn(&Row) -> Message) -> State {
    let mut other = state.empty();
    for row in state.rows() {
        let said = message(row);
        other.push(Row { said, ..*row }).unwrap();
    }
    other
}

/// The opposite of what a row says, by 3 nats and very sure.
fn opposite(row: &Row) -> Message {
    let mean = if row.said.shift(0) > 0.0 { -3.0 } else { 3.0 };
    Message::new(&[1e4, 1e4 * mean]).unwrap()
}

/// What a daemon knows of an address.
fn explained(pilot: &Daemon, address: &str) -> Value {
    let mut known = pilot.ask(&format!("explain {address}"));
    let mut paths = known["paths"].take();
    let paths = paths.as_array_mut().unwrap();
    let mut paths = paths.iter_mut().map(|path| path["path"].take());
    // A starved host's handshakes are in several classes.
    let most = |path: &Value| {
        (
            path["fleet"]["paths"].as_u64(),
            path["connections"].as_u64(),
        )
    };
    paths.by_ref().max_by_key(most).unwrap()
}

fn bbr(path: &Value) -> f64 {
    arm(path, "bbr")["share"].as_f64().unwrap()
}

/// The share of bbr without what others say, or with it if it is only shown.
fn otherwise(path: &Value) -> f64 {
    path["fleet"]["shares_otherwise"]["bbr"].as_f64().unwrap()
}

fn updates(pilot: &Daemon) -> u64 {
    pilot.status()["learning"]["updates"].as_u64().unwrap()
}

/// Uploads, and waits until the learner knows.
fn teach(lab: &Lab, pilot: &Daemon, address: &str, count: u32) {
    let before = updates(pilot);
    lab.upload(address, count, 600_000);
    until("the uploads have updated the learner", || {
        (updates(pilot) >= before + u64::from(count)).then_some(())
    });
}

/// The number of new connections to an address with bbr, of ten. They send nothing, so nothing is learned from them.
fn bbr_of_ten(lab: &Lab, address: &str) -> usize {
    let given = |_| {
        let mut application = lab.actor();
        application.tell(&format!("connect {address}:5201"));
        application.tell("cc")
    };
    (0..10).map(given).filter(|name| name == "bbr").count()
}

/// Waits until the daemon has heard a file that its agent wrote from now on.
fn hear(pilot: &Daemon) {
    let now = SystemTime::now();
    until("the daemon has heard the fleet", || {
        let ago_s = pilot.status()["fleet"]["heard_ago_s"].as_f64()?;
        let written = SystemTime::now() - Duration::from_secs_f64(ago_s);
        (written > now).then_some(())
    });
}

fn lossy(lab: &Lab) -> Child {
    way(
        lab,
        ",loss=0.05,seed=5",
        "tbf rate 40mbit burst 15kb latency 50ms",
    )
}

#[test]
fn a_newcomer_begins_with_what_others_learned() {
    let root = folder();
    let (lab, other) = (Lab::new(), Lab::new());
    let _ways = [&lab, &other].map(lossy);
    let agents = ["a", "b"].map(|name| Agent::new(root.path(), name));
    let learned = lab.pilot(&config(&agents[0].state, "on"));
    let teach = |count| {
        for address in ["198.51.100.2", "198.51.100.3", "8.1.2.4", "8.1.2.5"] {
            teach(&lab, &learned, address, count);
        }
    };
    teach(30);
    let said = agents[0].said_after(2, || teach(3));

    let newcomer = other.pilot(&config(&agents[1].state, "on"));
    until("the newcomer has heard of both", || {
        (newcomer.status()["fleet"]["groups_heard"].as_u64()? >= 2).then_some(())
    });
    let (lossy, clean) = (explained(&newcomer, LOSSY), explained(&newcomer, CLEAN));
    for path in [&lossy, &clean] {
        assert_eq!(
            (&path["level"], &path["fleet"]["used"]),
            (&"group".into(), &true.into()),
            "{path}"
        );
    }
    // The right algorithm at both.
    assert!(bbr(&lossy) > 0.5, "{lossy}");
    assert!(bbr(&clean) < 0.5, "{clean}");
    assert!(otherwise(&lossy) < 0.5, "alone it would not: {lossy}");
    let queued = |path: &Value| path["queued_losses"].as_f64().unwrap();
    assert!(queued(&lossy) < queued(&clean), "{lossy} {clean}");
    assert_eq!(updates(&newcomer), 0);
    let given = bbr_of_ten(&other, LOSSY);
    assert!(given >= 1, "{given}");
    assert_eq!(agents[1].said(0).rows(), [], "it says what it heard");

    // Of four other hosts three are honest.
    let honest = ["c", "d"].map(|name| Agent::new(root.path(), name));
    honest.iter().for_each(|agent| agent.say(&said));
    let liar = Agent::new(root.path(), "liar");
    liar.say(&with(&said, opposite));
    agents[1].wait_members(4);
    hear(&newcomer);
    let lossy = explained(&newcomer, LOSSY);
    assert!(bbr(&lossy) > otherwise(&lossy) + 0.15, "{lossy}");
}

#[test]
fn own_connections_overrule_a_liar() {
    let root = folder();
    let lab = Lab::new();
    let _way = lossy(&lab);
    let (agent, liar) = (
        Agent::new(root.path(), "b"),
        Agent::new(root.path(), "liar"),
    );
    let pilot = lab.pilot(&config(&agent.state, "on"));
    let teach = |count| {
        for address in ["198.51.100.2", "198.51.100.3"] {
            teach(&lab, &pilot, address, count);
        }
    };
    teach(15);
    let lie = Message::new(&[1e4, -3e4]).unwrap();
    liar.say(&with(&agent.said_after(1, || teach(3)), |_| lie));
    agent.wait_members(1);
    hear(&pilot);
    // A neighbour that was never met: a liar of 3 nats takes little from its choice.
    teach(30);
    let known = explained(&pilot, "198.51.100.9");
    assert!(bbr(&known) > 0.6, "{known}");
    // On a starved host a group may seem to change, and hears nothing for a time.
    if !known["fleet"].is_null() {
        assert_eq!(known["fleet"]["used"], true, "{known}");
        assert!(otherwise(&known) - bbr(&known) < 0.15, "{known}");
        assert!(otherwise(&known) > 0.6, "{known}");
    }
    // What it says is its own.
    until("it says that bbr is better", || {
        let said = agent.said(1);
        let is_better = |row: &Row| row.said.shift(0) > 0.0;
        said.rows().iter().any(is_better).then_some(())
    });
}

#[test]
fn knowledge_that_is_only_shown_changes_no_choice() {
    let root = folder();
    let lab = Lab::new();
    let agents = ["a", "b"].map(|name| Agent::new(root.path(), name));
    let pilot = lab.pilot(&config(&agents[1].state, "show"));
    // The state of another host in this host's terms.
    let mut said = agents[1].said(0).empty();
    let group = tcpilot_fleet::Group::new(0xffff_0801_0200, 9).unwrap();
    let row = Row {
        group,
        paths_log2: 3,
        doubt: 0,
        age_quarters: 0,
        // One host's word counts little: this one also says that losses there are random.
        losses: tcpilot_fleet::Losses {
            queued: 0,
            clear: 32,
        },
        said: Message::new(&[100.0, 200.0]).unwrap(),
    };
    said.push(row).unwrap();
    let before = explained(&pilot, CLEAN);
    assert_eq!(before["level"], "global", "{before}");
    agents[0].say(&said);
    until("the other host is heard", || {
        (pilot.status()["fleet"]["groups_heard"].as_u64()? == 1).then_some(())
    });
    let shown = explained(&pilot, CLEAN);
    assert_eq!(shown["fleet"]["used"], false, "{shown}");
    assert!(
        (bbr(&shown) - bbr(&before)).abs() < 1e-6,
        "{before} {shown}"
    );
    assert!(otherwise(&shown) > bbr(&shown) + 0.2, "{shown}");

    // A file that is no state is refused with its reason, and what was heard stays.
    drop(agents);
    fs::write(root.path().join("b/heard/default.state"), "\u{9}nothing").unwrap();
    let refused = until("the file is refused", || {
        let status = pilot.status();
        let count = status["fleet"]["refused"]["version"].as_u64()?;
        (count > 0).then_some(status)
    });
    let degraded = refused["degraded"].as_array().unwrap();
    let is_told = |line: &Value| {
        line.as_str()
            .unwrap()
            .contains("is refused: format version 9")
    };
    assert!(degraded.iter().any(is_told), "{degraded:?}");
    assert_eq!(refused["fleet"]["groups_heard"], 1);
    assert_eq!(explained(&pilot, CLEAN)["fleet"]["used"], false);
}

/// Each ten seconds another half of the sites is held back from the fleet, and another half of the prefixes is held out.
fn compared_config(agent: &Path) -> String {
    let compares = "hold_out = \"prefix\"\nhold_out_percent = 50\nrotation_s = 10\nblock_s = 1\nsettle_s = 0\n\
                    connections_min = 1";
    config(agent, "on").replace("hold_out_percent = 0", compares)
}

/// An address in a site of its own.
fn in_site(site: u8) -> String {
    format!("8.{site}.2.3")
}

fn is_held_back(path: &Value) -> bool {
    path["fleet"]["held_back"] == true
}

/// What another host says of sixteen sites: bbr is much better on four of them. Each site hears their average through its
/// class. The handshakes are of the class of `own`, or slower on a busy machine.
fn said_of_sites(own: &State) -> State {
    let class = own.rows()[0].group.class() & !31;
    let mut said = own.empty();
    for site in 1..=16 {
        for octave in 13..=18 {
            let prefix = 0xffff_0800_0200 + (site << 16);
            let shift = if site % 4 == 1 { 200.0 } else { 0.0 };
            let row = Row {
                group: tcpilot_fleet::Group::new(prefix, class | octave).unwrap(),
                said: Message::new(&[100.0, shift]).unwrap(),
                ..own.rows()[0]
            };
            said.push(row).unwrap();
        }
    }
    said
}

/// Waits until some of the four sites hear the fleet and some are held back, and later others.
fn see_held_back_sites(pilot: &Daemon) {
    let of = |site| explained(pilot, &in_site(site));
    let seen = until("some sites hear the fleet, and some are held back", || {
        let all = (1..=16).step_by(4).map(of);
        let all: Vec<Value> = all.filter(|path| !path["fleet"].is_null()).collect();
        let held_back = all.iter().filter(|path| is_held_back(path)).count();
        (held_back > 0 && held_back < all.len()).then_some(all)
    });
    for path in &seen {
        let is_held_back = is_held_back(path);
        assert_eq!(path["fleet"]["used"], !is_held_back, "{path}");
        let (with, without) = match is_held_back {
            true => (otherwise(path), bbr(path)),
            false => (bbr(path), otherwise(path)),
        };
        assert!(with > without + 0.02, "{path}");
    }
    let held_back = || -> Vec<bool> { (1..=16).map(|site| is_held_back(&of(site))).collect() };
    let before = held_back();
    until("other sites are held back", || {
        let now = held_back();
        (now != before && now.contains(&true)).then_some(())
    });
}

#[test]
fn sites_held_back_from_the_fleet_are_compared() {
    let root = folder();
    let lab = Lab::new();
    let _way = way(&lab, "", "tbf rate 800mbit burst 200kb latency 50ms");
    for site in 1..=17 {
        let to = in_site(site);
        lab.net.far.ip(&format!("address add {to}/32 dev lossy"));
        lab.net.near.ip(&format!("route add {to}/32 dev lossy"));
    }
    let agents = ["a", "b"].map(|name| Agent::new(root.path(), name));
    let pilot = lab.pilot(&compared_config(&agents[1].state));
    lab.upload(&in_site(17), 9, 60_000);
    let own = agents[1].said_after(1, || lab.upload(&in_site(17), 3, 60_000));
    agents[0].say(&said_of_sites(&own));
    see_held_back_sites(&pilot);

    let upload = |count: u32| {
        let upload = |site| {
            let to = in_site(site);
            lab.start(&format!(
                "bulk --to {to}:{PORT} --bytes 60000 --count {count}"
            ))
        };
        let mut uploads: Vec<Child> = (1..=16).map(upload).collect();
        for upload in &mut uploads {
            assert!(upload.wait().success());
        }
    };
    let compared = |of: &str| {
        until(&format!("{of} connections of sites are compared"), || {
            upload(1);
            let report = pilot.command("report --fleet");
            (report[of]["pairs"].as_u64() > Some(0)).then_some(report)
        })
    };
    let report = compared("first");
    assert_eq!(report["held_back_percent"], 50);
    let goodput = &report["first"]["measures"][0];
    assert_eq!(goodput["name"], "goodput");
    assert_eq!(goodput["verdict"], "insufficient data", "{report}");
    let mut command = Place::here().command("tcpilot");
    command
        .args(["report", "--fleet", "--socket"])
        .arg(pilot.socket());
    let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
    for part in [
        "not proven: first interval at 20 pairs",
        "held back from the fleet: 50 % of the sites",
    ] {
        assert!(text.contains(part), "{text}");
    }

    // Rounds of one connection to each path take minutes on a busy host until each has had its first ten.
    upload(10);
    let later = compared("later");
    assert!(later["later"]["connections"].as_u64() > Some(1), "{later}");
    let goodput = &later["later"]["measures"][0];
    assert_eq!(goodput["verdict"], "insufficient data", "{later}");
}

/// Blocks of two seconds, always in pairs. A steered connection has bbr, a held-out one reno.
fn held_out_config(agent: &Path, secret: &Path) -> String {
    format!(
        "algorithms = [\"bbr\"]\nreplace_defaults = [\"reno\"]\n[learner]\nkind = \"thompson\"\n\
         [rescue]\nalgorithm = \"\"\n\
         [effect]\nhold_out = \"block\"\nhold_out_percent = 50\nblock_s = 2\nsettle_s = 0\n\
         [fleet]\ndir = {:?}\nhear = \"off\"\nsecret_file = {:?}\n",
        agent.display(),
        secret.display()
    )
}

#[test]
fn hosts_with_one_secret_hold_out_together() {
    let root = folder();
    let secret = |name: &str, text: &str| {
        let path = root.path().join(name);
        tcpilot_file::replace(&path, 0o600, text.as_bytes()).unwrap();
        path
    };
    let one = secret("one", "the secret of a fleet in Frankfurt\n");
    let two = secret("two", "that of another fleet, elsewhere\n");
    let agent = Agent::new(root.path(), "a");
    let labs = [Lab::new(), Lab::new(), Lab::new()];
    let pilots = [&one, &one, &two].map(|secret| held_out_config(&agent.state, secret));
    let _pilots: Vec<Daemon> = labs
        .iter()
        .zip(&pilots)
        .map(|(lab, config)| lab.pilot(config))
        .collect();
    let is_held_out = |lab: &Lab| {
        let mut application = lab.actor();
        application.tell(&format!("connect {CLEAN}:5201"));
        application.tell("cc") == "reno"
    };
    let (mut pairs, mut others, mut last) = (0, 0, 0);
    until("ten pairs of blocks were seen", || {
        let since = || {
            SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap()
                .as_secs_f64()
        };
        let before = since();
        // Away from the edges: each daemon turns once a second.
        let (pair, at) = ((before / 4.0) as u64, before % 2.0);
        if pair == last || !(1.2..1.7).contains(&at) {
            return None;
        }
        let held = labs.each_ref().map(is_held_out);
        if (since() / 2.0) as u64 != (before / 2.0) as u64 {
            return None; // a slow machine
        }
        last = pair;
        assert_eq!(held[0], held[1], "one secret, after {pairs} pairs");
        pairs += 1;
        others += u32::from(held[0] != held[2]);
        (pairs == 10).then_some(())
    });
    assert!(others > 0, "another secret has the same times");
}
