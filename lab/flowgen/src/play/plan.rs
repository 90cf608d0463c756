//! The plan of a run, as read from JSON. Times count from the start of the measured traffic.

use super::probe::Probe;
use crate::error::{Error, Result};
use crate::protocol::CC_NAME_BYTES;
use crate::transport::{PathEnds, Transport};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// A whole run.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// End of the measured time; connections still open then are reported as unfinished.
    pub duration_s: f64,
    /// Time between samples of sockets and queues.
    pub sample_ms: u64,
    /// After the end: how long receivers' reports are waited for.
    pub drain_s: f64,
    /// Connections, by group.
    pub flows: Vec<Group>,
    /// Queues to watch.
    #[serde(default)]
    pub queues: Vec<Queue>,
    /// Changes of the path while traffic runs.
    #[serde(default)]
    pub changes: Vec<Change>,
    /// The server, if it is to be a thread of this process.
    #[serde(default)]
    pub serve: Option<Serve>,
    /// Further servers, in other namespaces.
    #[serde(default)]
    pub serve_too: Vec<Serve>,
    /// Servers run as separate programs.
    #[serde(default)]
    pub foreign: Vec<Foreign>,
    /// Datagrams sent in addition to the connections.
    #[serde(default)]
    pub probes: Vec<Probe>,
    /// Links by the sender's address on them, to distinguish the subflows of MPTCP.
    #[serde(default)]
    pub links: BTreeMap<IpAddr, String>,
}

/// A server in another namespace. As a thread it shares the sender's page tables, and an emulated
/// CPU need not forget its own between the two at every packet.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Serve {
    /// Namespace it listens in; `None`: this one.
    #[serde(default)]
    pub netns: Option<PathBuf>,
    /// Address and port.
    pub listen: SocketAddr,
    /// Bytes of the answer to a short connection.
    pub short_bytes: u64,
    /// Take MPTCP connections as well as TCP.
    #[serde(default)]
    pub mptcp: bool,
    /// Answer QUIC on the same port, with so many paths for each connection.
    #[serde(default)]
    pub quic_paths: Option<u32>,
    /// Congestion control of the listener; `None`: the namespace's.
    #[serde(default)]
    pub cc: Option<String>,
}

/// A foreign server program: the kernel reports its sockets' counters when they end.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Foreign {
    /// Namespace it listens in; `None`: this one.
    #[serde(default)]
    pub netns: Option<PathBuf>,
    /// Its port.
    pub port: u16,
}

/// A group of connections with the same settings.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Its name in the results.
    pub name: String,
    /// The server.
    pub to: SocketAddr,
    /// Servers in place of `to`: a connection goes to each in turn, from the first again.
    #[serde(default)]
    pub destinations: Vec<SocketAddr>,
    /// Source address.
    #[serde(default)]
    pub bind: Option<IpAddr>,
    /// Namespace of the sender; `None`: the current one.
    #[serde(default)]
    pub netns: Option<PathBuf>,
    /// How the application hands data over; `None`: as fast as the socket takes it.
    #[serde(default)]
    pub source: Option<Source>,
    /// Congestion control the application sets; `None` leaves it to the system.
    #[serde(default)]
    pub cc: Option<String>,
    /// The kernel paces its packets, as it does under the qdisc `fq`.
    #[serde(default)]
    pub fq_paced: bool,
    /// The transport protocol.
    #[serde(default)]
    pub transport: Transport,
    /// QUIC's spin bit is random, to hide round trips (RFC 9000, section 17.4).
    #[serde(default)]
    pub no_spin: bool,
    /// Paths of multipath QUIC after the first.
    #[serde(default)]
    pub paths: Vec<PathEnds>,
    /// When the first connection starts.
    pub start_s: f64,
    /// When no more are started and timed ones end.
    pub end_s: f64,
    /// Connections side by side.
    pub streams: usize,
    /// Delay of each stream's start after the one before it.
    #[serde(default)]
    pub stagger_s: f64,
    /// When each connection starts, whether the ones before it are over or not; in place of `streams`.
    #[serde(default)]
    pub at_s: Vec<f64>,
    /// Pause of a stream between its connections.
    #[serde(default)]
    pub gap_ms: f64,
    /// Connections in all; `None`: as many as fit until `end_s`.
    #[serde(default)]
    pub connections: Option<u64>,
    /// So many connections at first do not count.
    #[serde(default)]
    pub warmup: u64,
    /// Take samples of its sockets.
    pub sample: bool,
    /// A connection is a curl. It downloads a file named after its number of bytes.
    #[serde(default)]
    pub fetch: bool,
    /// The work of each connection.
    pub work: Work,
}

/// An application with pauses: its bytes in each tick of 10 ms.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Its rate while it is on; `None`: as fast as the socket takes it.
    #[serde(default)]
    pub rate_mbit: Option<f64>,
    /// How long it is on; `None`: always.
    #[serde(default)]
    pub on_s: Option<f64>,
    /// How long it is off then.
    #[serde(default)]
    pub off_s: f64,
}

impl Source {
    /// Time between two grants.
    pub const TICK_S: f64 = 0.01;

    /// Bytes handed over by the application in this tick of its life; `None`: any number.
    #[must_use]
    pub fn bytes(&self, tick: u64) -> Option<u64> {
        let into_s = self.on_s.map_or(0.0, |on_s| {
            (tick as f64 * Self::TICK_S + 1e-9) % (on_s + self.off_s)
        });
        if self.on_s.is_some_and(|on_s| into_s >= on_s) {
            return Some(0);
        }
        // The total so far less the total before, to keep fractions of bytes.
        let until = |ticks: u64| ticks as f64 * Self::TICK_S;
        self.rate_mbit.map(|mbit| {
            let total = |ticks| (mbit * 1e6 / 8.0 * until(ticks)) as u64;
            total(tick + 1) - total(tick)
        })
    }

    fn check(&self) -> bool {
        let rate = self.rate_mbit.is_none_or(|mbit| mbit > 0.0 && mbit < 1e6);
        let times = self.on_s.is_none_or(|on_s| on_s >= Self::TICK_S) && self.off_s >= 0.0;
        rate && times && self.off_s < 1e6
    }
}

/// The work of a connection.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Work {
    /// Sends for so long, or to the group's end.
    Timed {
        /// Length of each connection's sending, from its establishment: a lost SYN costs
        /// the same time under every congestion control.
        #[serde(default)]
        seconds: Option<f64>,
    },
    /// Sends so many bytes; one size for each connection in turn, from the first again.
    Sized {
        /// Sizes in bytes.
        bytes: Vec<u64>,
    },
    /// One byte asked, `answer_bytes` answered, closed by the server.
    Short {
        /// The size given to `serve --short-size`.
        answer_bytes: u64,
    },
    /// Requests and responses in turn on one connection.
    Exchange {
        /// Bytes of each request.
        request_bytes: u64,
        /// Bytes of each response.
        response_bytes: u64,
        /// Pause after a response.
        #[serde(default)]
        think_ms: f64,
        /// Whether a request is written as a header of 100 bytes and a rest, as careless
        /// applications do: then the rest waits for the header's acknowledgement (Nagle).
        #[serde(default)]
        header_apart: bool,
    },
}

/// A qdisc whose counters are read.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// Name in the results.
    pub link: String,
    /// Namespace it is in; `None`: this one.
    #[serde(default)]
    pub netns: Option<PathBuf>,
    /// Its device.
    pub device: String,
    /// Major number of the qdisc's handle.
    pub handle: u16,
}

/// A change of the path.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// When.
    pub at_s: f64,
    /// Namespace it is in; `None`: this one.
    #[serde(default)]
    pub netns: Option<String>,
    /// tc's arguments.
    pub tc: String,
}

impl Group {
    /// The destination of the connection of this number.
    #[must_use]
    pub fn server(&self, number: u64) -> SocketAddr {
        let turn = usize::try_from(number).unwrap_or(0) % self.destinations.len().max(1);
        self.destinations.get(turn).copied().unwrap_or(self.to)
    }

    /// When its streams start: one for each connection if the times are given.
    pub fn starts_s(&self) -> Vec<f64> {
        if !self.at_s.is_empty() {
            return self.at_s.clone();
        }
        let stagger_s = |stream: usize| self.start_s + stream as f64 * self.stagger_s;
        (0..self.streams).map(stagger_s).collect()
    }

    /// QUIC carries uploads, and names its congestion controls itself.
    fn check_transport(&self) -> Result<()> {
        let wrong = |text: &str| Err(Error::Usage(format!("plan: group {}: {text}", self.name)));
        let upload = matches!(self.work, Work::Timed { .. } | Work::Sized { .. });
        if self.transport.is_quic() && !upload {
            return wrong("QUIC carries timed and sized work only");
        }
        if self.transport.is_quic() && !(self.destinations.is_empty() && self.source.is_none()) {
            return wrong("destinations and sources are for TCP");
        }
        if self.fq_paced && self.transport != Transport::Tcp {
            return wrong("fq_paced is for TCP");
        }
        let plain = self.transport == Transport::Tcp && self.cc.is_none();
        if self.fetch && !(plain && matches!(self.work, Work::Sized { .. })) {
            return wrong(
                "curl fetches sized work over TCP, and the server's system chooses its cc",
            );
        }
        if self.transport != Transport::Mpquic && !self.paths.is_empty() {
            return wrong("paths are for mpquic");
        }
        #[cfg(feature = "mpquic")]
        if let (true, Some(name)) = (self.transport.is_quic(), &self.cc) {
            crate::quic::Control::from_name(name)?;
        }
        self.transport.available()
    }
}

impl Plan {
    /// Reads and checks a plan.
    ///
    /// # Errors
    /// [`Error::Usage`], naming the mistake.
    pub fn parse(text: &str) -> Result<Self> {
        let plan: Self =
            serde_json::from_str(text).map_err(|error| Error::Usage(format!("plan: {error}")))?;
        plan.check()?;
        Ok(plan)
    }

    fn check(&self) -> Result<()> {
        let wrong = |text: String| Err(Error::Usage(format!("plan: {text}")));
        if !(self.duration_s > 0.0 && self.duration_s < 1e6) {
            return wrong("duration_s must be above 0".into());
        }
        if self.sample_ms == 0 {
            return wrong("sample_ms must be at least 1".into());
        }
        for group in &self.flows {
            let name = &group.name;
            if group.streams == 0 || group.start_s < 0.0 || group.end_s <= group.start_s {
                return wrong(format!(
                    "group {name}: streams and times contradict each other"
                ));
            }
            if group
                .cc
                .as_ref()
                .is_some_and(|cc| cc.len() >= CC_NAME_BYTES)
            {
                return wrong(format!("group {name}: cc is no congestion control's name"));
            }
            let is_empty = |bytes: &Vec<u64>| bytes.is_empty() || bytes.contains(&0);
            if matches!(&group.work, Work::Sized { bytes } if is_empty(bytes)) {
                return wrong(format!("group {name}: sizes must be above 0"));
            }
            if group.source.is_some_and(|source| !source.check()) {
                return wrong(format!(
                    "group {name}: its source has an impossible rate or time"
                ));
            }
            if group.source.is_some() && !matches!(group.work, Work::Timed { .. }) {
                return wrong(format!("group {name}: a source is for timed work"));
            }
            if group.at_s.iter().any(|at_s| !(0.0..1e6).contains(at_s)) {
                return wrong(format!("group {name}: at_s must be times from 0 up"));
            }
            group.check_transport()?;
        }
        for probe in &self.probes {
            probe.check()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"duration_s": 2, "sample_ms": 100, "drain_s": 1, "flows": [
        {"name": "a", "to": "10.0.0.1:5201", "cc": "cubic", "start_s": 0, "end_s": 2,
         "streams": 1, "sample": true, "work": {"kind": "timed"}}]}"#;

    #[test]
    fn plans_are_read() {
        let plan = Plan::parse(GOOD).unwrap();
        assert_eq!(plan.flows[0].name, "a");
        assert!(matches!(plan.flows[0].work, Work::Timed { seconds: None }));
    }

    #[test]
    fn contradictions_are_refused() {
        for (good, bad) in [
            ("\"duration_s\": 2", "\"duration_s\": 0"),
            ("\"sample_ms\": 100", "\"sample_ms\": 0"),
            ("\"streams\": 1", "\"streams\": 0"),
            ("\"end_s\": 2", "\"end_s\": 0"),
            ("\"cubic\"", "\"a-name-that-is-too-long\""),
            ("\"sample\"", "\"smaple\""),
            (
                "{\"kind\": \"timed\"}",
                "{\"kind\": \"sized\", \"bytes\": []}",
            ),
        ] {
            let text = GOOD.replace(good, bad);
            assert_ne!(text, GOOD);
            assert!(matches!(Plan::parse(&text), Err(Error::Usage(_))), "{bad}");
        }
    }

    #[test]
    fn connections_go_to_each_destination_in_turn() {
        let with = |more: &str| GOOD.replace("\"sample\"", &format!("{more}, \"sample\""));
        let one = Plan::parse(GOOD).unwrap();
        assert_eq!(one.flows[0].server(7), one.flows[0].to);
        let text = with(r#""destinations": ["10.0.0.2:1", "10.0.0.3:1"], "at_s": [0.5, 0.1]"#);
        let group = Plan::parse(&text).unwrap().flows.remove(0);
        let ports = |number| group.server(number).to_string();
        assert_eq!([ports(0), ports(3)], ["10.0.0.2:1", "10.0.0.3:1"]);
        assert_eq!(group.starts_s(), [0.5, 0.1]);
        assert!(Plan::parse(&with(r#""at_s": [-1]"#)).is_err());
    }

    #[test]
    fn source_sends_its_rate_only_while_on() {
        let source = Source {
            rate_mbit: Some(1.0),
            on_s: Some(0.1),
            off_s: 0.3,
        };
        let total = |ticks: std::ops::Range<u64>| -> u64 {
            ticks.map(|tick| source.bytes(tick).unwrap()).sum()
        };
        // 1 Mbit/s for a tenth of a second.
        assert_eq!(
            (total(0..10), total(10..40), total(40..50)),
            (12_500, 0, 12_500)
        );
        let free = Source {
            rate_mbit: None,
            ..source
        };
        assert_eq!((free.bytes(9), free.bytes(10)), (None, Some(0)));
        let odd = Source {
            rate_mbit: Some(0.001),
            on_s: None,
            off_s: 0.0,
        };
        assert_eq!(
            (0..800).filter_map(|tick| odd.bytes(tick)).sum::<u64>(),
            1000
        );
        let bad = |text: &str| {
            Plan::parse(&GOOD.replace("\"sample\"", &format!("\"source\": {text}, \"sample\"")))
        };
        assert!(bad(r#"{"rate_mbit": 1}"#).is_ok());
        assert!(bad(r#"{"rate_mbit": 0}"#).is_err());
    }

    #[test]
    fn transports_carry_what_they_can() {
        let with =
            |more: &str| Plan::parse(&GOOD.replace("\"sample\"", &format!("{more}, \"sample\"")));
        assert!(with(r#""transport": "mptcp""#).is_ok());
        assert!(with(r#""fq_paced": true"#).is_ok());
        assert!(with(r#""fq_paced": true, "transport": "mptcp""#).is_err());
        assert!(with(r#""paths": [{"local": "10.1.0.1"}]"#).is_err());
        let quic = with(r#""transport": "mpquic", "paths": [{"local": "10.1.0.1"}]"#);
        assert_eq!(quic.is_ok(), cfg!(feature = "mpquic"));
        assert!(with(r#""fetch": true"#).is_err());
        let download = GOOD.replace("\"cc\": \"cubic\", ", "").replace(
            r#"{"kind": "timed"}"#,
            r#"{"kind": "sized", "bytes": [9]}, "fetch": true"#,
        );
        assert!(Plan::parse(&download).unwrap().flows[0].fetch);
        let exchange = r#"{"kind": "short", "answer_bytes": 1}"#;
        let short = GOOD
            .replace(r#"{"kind": "timed"}"#, exchange)
            .replace("\"sample\"", r#""transport": "quic", "sample""#);
        let said = Plan::parse(&short).unwrap_err().to_string();
        assert!(said.contains("timed and sized"), "{said}");
    }
}
