//! `tcpilot watch` under test, and its last output.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::Stdio,
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
};

use serde_json::{Value, json};

use crate::{
    lab::Lab,
    net::Netns,
    process::{Child, Place, in_netns, sh},
    until,
};

/// Writes a model of one tree without a question: every flow gets the shares of its only leaf. `groups`
/// are its classes in alphabetic order, and `range` the paths of its recordings. Returns the name of the file.
///
/// # Panics
/// If the file cannot be written.
pub fn one_leaf_model(file: &Path, groups: &[&str], shares: &[u8], range: &[(u32, u32)]) -> String {
    let classes: Vec<_> = groups
        .iter()
        .map(|group| json!({"name": group, "group": group}))
        .collect();
    let model = json!({
        "format": 1,
        "features": [],
        "classes": classes,
        "roots": [0],
        "nodes": [[-1, 0, 0]],
        "leaves": [shares],
        "range": range,
    });
    fs::write(file, model.to_string()).unwrap();
    file.display().to_string()
}

/// The output of one second.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// A line for each flow.
    pub flows: Vec<Value>,
    /// The line of totals.
    pub totals: Value,
}

impl Look {
    /// The flow to this destination, if there is one.
    pub fn to(&self, destination: &str) -> Option<&Value> {
        let ending = format!("> {destination}");
        let mut flows = self.flows.iter();
        flows.find(|f| {
            f["flow"]
                .as_str()
                .is_some_and(|name| name.ends_with(&ending))
        })
    }

    /// A number of the totals.
    pub fn total(&self, key: &str) -> u64 {
        self.totals[key].as_u64().unwrap_or_default()
    }
}

/// A running `tcpilot watch DEV --json`, killed on drop.
pub struct Watching {
    /// The process.
    pub child: Child,
    last: Arc<Mutex<Option<Look>>>,
    reader: Option<JoinHandle<()>>,
}

impl Watching {
    /// Starts it, and waits until it sees packets.
    ///
    /// # Panics
    /// When it ends instead.
    pub fn start(place: Place<'_>, device: &str, more: &[&str]) -> Self {
        Self::reading(place, device, more, "")
    }

    /// The same, but reads only the totals of each look, for very many flows.
    ///
    /// # Panics
    /// When it ends instead.
    pub fn totals(place: Place<'_>, device: &str, more: &[&str]) -> Self {
        Self::reading(place, device, more, "\"totals\"")
    }

    /// Reads the lines that contain `only`.
    fn reading(place: Place<'_>, device: &str, more: &[&str], only: &'static str) -> Self {
        let mut command = place.command("tcpilot");
        command.args(["watch", device, "--json"]).args(more);
        let mut child = Child(command.stdout(Stdio::piped()).spawn().unwrap());
        let stdout = BufReader::new(child.0.stdout.take().unwrap());
        let last = Arc::new(Mutex::new(None));
        let to = Arc::clone(&last);
        let reader = thread::spawn(move || {
            let mut look = Look::default();
            let lines = stdout.lines().map_while(Result::ok);
            for line in lines.filter(|line| line.contains(only)) {
                // Cut off by the kill. If it were a wrong line, the test waiting for a look would fail.
                let Ok(value) = serde_json::from_str::<Value>(&line) else {
                    break;
                };
                if value["type"] == "flow" {
                    look.flows.push(value);
                } else {
                    look.totals = value;
                    *to.lock().unwrap() = Some(std::mem::take(&mut look));
                }
            }
        });
        let watching = Self {
            child,
            last,
            reader: Some(reader),
        };
        watching.until("it looks", |_| Some(()));
        watching
    }

    /// Waits until `f` gives something for a look from now on.
    ///
    /// # Panics
    /// With `what`, when none does.
    pub fn until<T>(&self, what: &str, mut f: impl FnMut(&Look) -> Option<T>) -> T {
        self.last.lock().unwrap().take();
        until(what, || {
            let look = self.last.lock().unwrap().take();
            look.and_then(|look| f(&look))
        })
    }

    /// The next look.
    pub fn look(&self) -> Look {
        self.until("it looks", |look| Some(look.clone()))
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.0.kill();
        let _ = self.reader.take().map(JoinHandle::join);
    }
}

/// A sender behind the near end, its router, by `behind0`.
///
/// # Panics
/// When it cannot be made.
pub fn sender_behind(lab: &Lab) -> Netns {
    let sender = Netns::new();
    sh(&format!(
        "ip link add behind0 netns {} type veth peer name behind0 netns {}",
        lab.net.near.name(),
        sender.name()
    ));
    for (netns, host) in [(&lab.net.near, 1), (&sender, 2)] {
        netns.ip(&format!("addr add 10.79.0.{host}/24 dev behind0"));
        netns.ip("link set behind0 up gso_max_segs 1");
        netns.sysctl("net/ipv4/ip_forward", "1");
    }
    sender.ip("route add default via 10.79.0.1");
    lab.net.far.ip("route add 10.79.0.0/24 via 10.77.0.1");
    sender
}

/// Segments sent again by the kernel in a namespace. flowgen's report has fewer: it is made while the
/// last data are still queued.
///
/// # Panics
/// When the kernel does not say so.
pub fn sent_again(netns: &Netns) -> u64 {
    let text = in_netns(netns, || fs::read_to_string("/proc/thread-self/net/snmp")).unwrap();
    let lines: Vec<&str> = text.lines().filter(|l| l.starts_with("Tcp:")).collect();
    let [names, values] = lines[..] else {
        panic!("{text}");
    };
    let mut both = names.split(' ').zip(values.split(' '));
    let (_, value) = both.find(|(name, _)| *name == "RetransSegs").unwrap();
    value.parse().unwrap()
}
