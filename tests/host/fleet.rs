//! Two hosts and their agents: what the daemon of one learns helps the first connections of the other.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, SystemTime},
};

use serde_json::Value;
use tcpilot_fleet::{Message, Row, State, format};
use tcpilot_tests::{Child, Daemon, Lab, Place, arm, folder, until};

use crate::rescue::way;

/// An address behind the lossy way, and one behind the clean one.
const LOSSY: &str = "198.51.100.2";
const CLEAN: &str = "8.1.2.3";

/// Two algorithms, one of them much better if packets are lost.
fn config(agent: &Path, hear: &str) -> String {
    format!(
        "algorithms = [\"reno\", \"bbr\"]\n\
         replace_defaults = [\"reno\"]\n\
         [learner]\nkind = \"thompson\"\n\
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
        until(&format!("{groups} groups are said"), || {
            let bytes = fs::read(self.own()).ok()?;
            let state = format::decode(&bytes, format::ROWS_MAX).unwrap();
            (state.rows().len() >= groups).then_some(state)
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

/// The opposite of a state, with this certainty.
fn opposite(state: &State, precision: f32, mean: f32) -> State {
    let mut lie = state.empty();
    for row in state.rows() {
        let mean = if row.said.shift(0) > 0.0 { -mean } else { mean };
        let said = Message::new(&[precision, precision * mean]).unwrap();
        lie.push(Row { said, ..*row }).unwrap();
    }
    lie
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
    lab.upload(address, count, 300_000);
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
        ",loss=0.03,seed=5",
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
    teach(&lab, &learned, LOSSY, 60);
    teach(&lab, &learned, CLEAN, 20);
    let said = agents[0].said(2);

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
    assert!(bbr(&lossy) > 0.8 && otherwise(&lossy) < 0.6, "{lossy}");
    assert!(bbr(&clean) < 0.3, "{clean}");
    assert_eq!(updates(&newcomer), 0);
    let given = [LOSSY, CLEAN].map(|address| bbr_of_ten(&other, address));
    assert!(given[0] >= 6 && given[1] <= 5, "{given:?}");
    assert_eq!(agents[1].said(0).rows(), [], "it says what it heard");

    // Of four other hosts three are honest.
    let honest = ["c", "d"].map(|name| Agent::new(root.path(), name));
    honest.iter().for_each(|agent| agent.say(&said));
    let liar = Agent::new(root.path(), "liar");
    liar.say(&opposite(&said, 1e4, 3.0));
    agents[1].wait_members(4);
    hear(&newcomer);
    let (lossy, clean) = (explained(&newcomer, LOSSY), explained(&newcomer, CLEAN));
    assert!(bbr(&lossy) > 0.8 && bbr(&clean) < 0.3, "{lossy} {clean}");
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
    teach(&lab, &pilot, LOSSY, 30);
    liar.say(&opposite(&agent.said(1), 1e4, 3.0));
    agent.wait_members(1);
    hear(&pilot);
    // A neighbour that was never met: what would be chosen for it alone, and now.
    let neighbour = "198.51.100.3";
    teach(&lab, &pilot, LOSSY, 30);
    let known = explained(&pilot, neighbour);
    assert_eq!(known["fleet"]["used"], true, "{known}");
    assert!(bbr(&known) > 0.8, "{known}");
    assert!((bbr(&known) - otherwise(&known)).abs() < 0.1, "{known}");
    // What it says is its own.
    let said = until("its own state is new", || {
        let said = agent.said(1);
        let wrote = fs::metadata(agent.own()).ok()?.modified().ok()?;
        (wrote.elapsed().ok()? < Duration::from_secs(5)).then_some(said)
    });
    assert!(said.rows().iter().any(|row| row.said.shift(0) > 0.0));
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
