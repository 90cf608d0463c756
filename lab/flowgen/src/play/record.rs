//! The output of a run: CSV files, written when it is over.

use super::probe::Datagram;
use super::qdisc::QdiscStats;
use crate::error::{Error, Result};
use crate::tcp_info::TcpInfo;
use std::fmt::{Display, Write as _};
use std::net::SocketAddr;
use std::path::Path;

/// A connection, or one exchange on it.
#[derive(Debug, Clone)]
pub struct FlowRow {
    /// Number in the run.
    pub flow: u64,
    /// Its group's place in the plan.
    pub group: usize,
    /// The server.
    pub to: SocketAddr,
    /// The client's port, 0 before it has one.
    pub local_port: u16,
    /// Congestion control right after the handshake.
    pub cc_start: String,
    /// Congestion control at the end.
    pub cc_used: String,
    /// When connecting began.
    pub start_s: f64,
    /// When it ended; `None` while it is under way.
    pub end_s: Option<f64>,
    /// The wanted size; 0 if time is the limit.
    pub wanted_bytes: u64,
    /// Payload: received if the connection ended by itself, acknowledged if it was cut.
    pub bytes: u64,
    /// From connect to the receiver's report of the last byte.
    pub fct_s: Option<f64>,
    /// Longest pause in the receiver's data, between its first byte and its last; `None` if
    /// the connection was cut.
    pub standstill_s: Option<f64>,
    /// Segments sent again.
    pub retransmitted_packets: u32,
    /// Segments with data, those sent again included.
    pub sent_packets: u32,
    /// ECN was negotiated.
    pub ecn: bool,
    /// The smoothed round trip at the end; 0 if it is not known.
    pub srtt_us: u32,
    /// The kernel's account of its time.
    pub times: Option<Times>,
    /// The error.
    pub error: Option<String>,
    /// A warm-up, one of the first of its group: not counted in results.
    pub warmup: bool,
}

/// The kernel's account of a connection's time; of TCP only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// With data to send or to be acknowledged.
    pub busy_us: u64,
    /// Part of the busy time limited by the peer's window.
    pub window_limited_us: u64,
    /// Part of the busy time limited by the send buffer.
    pub buffer_limited_us: u64,
}

impl FlowRow {
    /// The row of a connection starting now.
    pub fn begun(flow: u64, group: usize, to: SocketAddr, start_s: f64) -> Self {
        Self {
            flow,
            group,
            to,
            local_port: 0,
            cc_start: String::new(),
            cc_used: String::new(),
            start_s,
            end_s: None,
            wanted_bytes: 0,
            bytes: 0,
            fct_s: None,
            standstill_s: None,
            retransmitted_packets: 0,
            sent_packets: 0,
            ecn: false,
            srtt_us: 0,
            times: None,
            error: None,
            warmup: false,
        }
    }

    /// Takes over the kernel's counters.
    pub fn set_info(&mut self, info: &TcpInfo) {
        self.retransmitted_packets = info.retransmits;
        self.sent_packets = info.sent_packets;
        self.ecn = info.ecn;
        self.srtt_us = info.srtt_us;
        self.times = Some(Times {
            busy_us: info.busy_us,
            window_limited_us: info.window_limited_us,
            buffer_limited_us: info.buffer_limited_us,
        });
    }

    fn times_csv(&self) -> String {
        let part = |of: fn(&Times) -> u64| seconds(self.times.map(|times| of(&times) as f64 / 1e6));
        let [busy, window, buffer] = [
            part(|times| times.busy_us),
            part(|times| times.window_limited_us),
            part(|times| times.buffer_limited_us),
        ];
        format!("{},{busy},{window},{buffer}", self.srtt_us)
    }
}

/// A socket at one moment.
#[derive(Debug)]
pub struct SampleRow {
    /// When.
    pub t_s: f64,
    /// The connection.
    pub flow: u64,
    /// Its link, by name, for a subflow of MPTCP.
    pub link: Option<u16>,
    /// The socket's counters.
    pub info: TcpInfo,
    /// Congestion control, as a place in [`Record::names`].
    pub cc: u16,
}

/// A queue at one moment.
#[derive(Debug)]
pub struct QueueRow {
    /// When.
    pub t_s: f64,
    /// Its place in the plan.
    pub queue: usize,
    /// Its counters.
    pub stats: QdiscStats,
}

/// A BPF program at one moment.
#[derive(Debug)]
pub struct ProgramRow {
    /// When.
    pub t_s: f64,
    /// The kernel's number of it.
    pub program: u32,
    /// Its name, cut by the kernel.
    pub name: String,
    /// Its runs so far.
    pub runs: u64,
    /// Their time so far.
    pub ns: u64,
}

/// Everything a run saw.
#[derive(Debug, Default)]
pub struct Record {
    /// Connections in the order they ended.
    pub flows: Vec<FlowRow>,
    /// Samples of sockets.
    pub samples: Vec<SampleRow>,
    /// Samples of queues.
    pub queues: Vec<QueueRow>,
    /// Samples of BPF programs.
    pub programs: Vec<ProgramRow>,
    /// Names used by samples.
    pub names: Vec<String>,
}

impl Record {
    /// Number of a name.
    pub fn name(&mut self, name: &str) -> u16 {
        let known = self.names.iter().position(|known| known == name);
        let at = known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        u16::try_from(at).unwrap_or(u16::MAX)
    }

    /// Writes `flows.csv`, `samples.csv` and `queues.csv`.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write(&self, out: &Path, groups: &[&str], links: &[&str]) -> Result<()> {
        let write = |name: &str, text: String| {
            std::fs::write(out.join(name), text).map_err(Error::io("writing results"))
        };
        write("flows.csv", self.flows_csv(groups))?;
        write("samples.csv", self.samples_csv())?;
        write("queues.csv", self.queues_csv(links))
    }

    /// Writes `probes.csv`, if there were any: a row for each datagram.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write_probes(
        &self,
        out: &Path,
        probes: impl Iterator<Item = (String, Vec<Datagram>)>,
    ) -> Result<()> {
        let mut text = String::from("t_s,probe,delay_ms\n");
        let empty = text.len();
        for (name, datagrams) in probes {
            for one in datagrams {
                let delay_ms = one.seen_s.map(|seen_s| (seen_s - one.sent_s) * 1e3);
                let delay_ms = delay_ms.map_or_else(String::new, |ms| format!("{ms:.4}"));
                let _ = writeln!(text, "{:.6},{name},{delay_ms}", one.sent_s);
            }
        }
        if text.len() == empty {
            return Ok(());
        }
        std::fs::write(out.join("probes.csv"), text).map_err(Error::io("writing results"))
    }

    /// Writes `programs.csv`, a row per program and sample.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write_programs(&self, out: &Path) -> Result<()> {
        let mut text = String::from("t_s,program,name,runs,ns\n");
        for row in &self.programs {
            let (name, runs, ns) = (&row.name, row.runs, row.ns);
            let _ = writeln!(text, "{:.6},{},{name},{runs},{ns}", row.t_s, row.program);
        }
        std::fs::write(out.join("programs.csv"), text).map_err(Error::io("writing results"))
    }

    fn flows_csv(&self, groups: &[&str]) -> String {
        let mut text = String::from(
            "flow,group,to,local_port,cc_start,cc_used,start_s,end_s,wanted_bytes,bytes,fct_s,\
             standstill_s,retransmitted_packets,sent_packets,ecn,warmup,\
             srtt_us,busy_s,window_limited_s,buffer_limited_s,error\n",
        );
        for row in &self.flows {
            let error = row.error.as_deref().unwrap_or_default().replace('"', "'");
            let _ = writeln!(
                text,
                "{},{},{},{},{},{},{:.6},{},{},{},{},{},{},{},{},{},{},\"{error}\"",
                row.flow,
                groups.get(row.group).unwrap_or(&""),
                row.to.ip(),
                row.local_port,
                row.cc_start,
                row.cc_used,
                row.start_s,
                seconds(row.end_s),
                row.wanted_bytes,
                row.bytes,
                seconds(row.fct_s),
                seconds(row.standstill_s),
                row.retransmitted_packets,
                row.sent_packets,
                row.ecn,
                row.warmup,
                row.times_csv(),
            );
        }
        text
    }

    fn samples_csv(&self) -> String {
        let mut text = String::from(
            "t_s,flow,link,cwnd_packets,ssthresh_packets,srtt_us,min_rtt_us,delivery_rate,\
             pacing_rate,bytes_acked,retransmitted_packets,sent_packets,lost_packets,inflight_packets,cc\n",
        );
        let named = |at: u16| self.names.get(usize::from(at)).map_or("", String::as_str);
        for row in &self.samples {
            let info = &row.info;
            let _ = writeln!(
                text,
                "{:.6},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
                row.t_s,
                row.flow,
                row.link.map_or("", named),
                info.cwnd_packets,
                maybe(info.ssthresh_packets),
                info.srtt_us,
                maybe(info.min_rtt_us),
                info.delivery_rate_bytes_per_s,
                maybe(info.pacing_rate_bytes_per_s),
                info.acked_bytes,
                info.retransmits,
                info.sent_packets,
                info.lost_packets,
                info.inflight_packets,
                named(row.cc),
            );
        }
        text
    }

    fn queues_csv(&self, links: &[&str]) -> String {
        let mut text = String::from(
            "t_s,link,qdisc,backlog_bytes,backlog_packets,drops,marks,sent_bytes,sent_packets\n",
        );
        for row in &self.queues {
            let stats = &row.stats;
            let _ = writeln!(
                text,
                "{:.6},{},{},{},{},{},{},{},{}",
                row.t_s,
                links.get(row.queue).unwrap_or(&""),
                stats.kind,
                stats.backlog_bytes,
                stats.backlog_packets,
                stats.drops,
                maybe(stats.marks),
                stats.sent_bytes,
                stats.sent_packets,
            );
        }
        text
    }
}

fn maybe(value: Option<impl Display>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn seconds(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:.6}"))
}
