//! The report of one bulk connection, and of all of them.

use crate::protocol::ReceiverReport;
use crate::stats::{mean, median};
use crate::tcp_info::TcpInfo;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// First connection counted as "after learning" in [`Summary::mean_from_26`].
const LEARNED_FROM: u64 = 26;

/// One connection. `None` is unknown, usually because the connection failed before.
#[derive(Debug, Clone, Serialize)]
pub struct ConnectionReport {
    /// From 1, in order of starting.
    pub index: u64,
    /// Payload bytes at the receiver; after a failed upload, acknowledged by the peer's kernel.
    pub bytes: u64,
    /// Receiver's time between first and last byte.
    pub seconds: f64,
    /// Longest pause in the received data between those bytes.
    pub standstill_seconds: f64,
    /// `bytes` by `seconds`, in bits; `None` when all came at once.
    pub goodput_bits_per_s: Option<f64>,
    /// Client's time from before connect to the last report.
    pub elapsed_seconds: f64,
    /// Sender's congestion control right after the connection was established.
    pub cc_start: Option<String>,
    /// Sender's congestion control at the end.
    pub cc_end: Option<String>,
    /// Segments the sender sent again.
    pub retransmits: Option<u32>,
    /// Sender's lowest round-trip time.
    pub min_rtt_us: Option<u32>,
    /// Sender's smoothed round-trip time.
    pub srtt_us: Option<u32>,
    /// Sender's last delivery rate sample.
    pub delivery_rate_bytes_per_s: Option<u64>,
    /// Client's address.
    pub local: Option<SocketAddr>,
    /// Server's address.
    pub remote: SocketAddr,
    /// Subflows of MPTCP, or paths of QUIC; empty for TCP.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathReport>,
    /// The error.
    pub error: Option<String>,
}

/// One subflow, or path, as its sender sees it at the end.
#[derive(Debug, Clone, Serialize)]
pub struct PathReport {
    /// Client's address.
    pub local: IpAddr,
    /// Server's address; `None` if only the route determines it.
    pub remote: Option<IpAddr>,
    /// Payload acknowledged by the peer; for QUIC to within 0.3 %.
    pub acked_bytes: u64,
    /// Packets with data, those sent again included.
    pub sent_packets: u32,
    /// Packets sent again; for QUIC, packets declared lost.
    pub retransmits: u32,
    /// Lowest round-trip time.
    pub min_rtt_us: Option<u32>,
    /// Smoothed round-trip time.
    pub srtt_us: u32,
    /// Congestion window.
    pub cwnd_packets: u32,
    /// Slow-start threshold; `None` before the first loss.
    pub ssthresh_packets: Option<u32>,
}

impl ConnectionReport {
    /// An empty report.
    #[must_use]
    pub fn new(index: u64, remote: SocketAddr) -> Self {
        Self {
            index,
            bytes: 0,
            seconds: 0.0,
            standstill_seconds: 0.0,
            goodput_bits_per_s: None,
            elapsed_seconds: 0.0,
            cc_start: None,
            cc_end: None,
            retransmits: None,
            min_rtt_us: None,
            srtt_us: None,
            delivery_rate_bytes_per_s: None,
            local: None,
            remote,
            paths: Vec::new(),
            error: None,
        }
    }

    /// Fills in the receiver's side.
    pub fn set_receiver(&mut self, seen: ReceiverReport) {
        self.bytes = seen.bytes;
        self.seconds = seen.first_to_last.as_secs_f64();
        self.standstill_seconds = seen.standstill.as_secs_f64();
        self.goodput_bits_per_s =
            (self.seconds > 0.0).then(|| seen.bytes as f64 * 8.0 / self.seconds);
    }

    /// Fills in the sender's side.
    pub fn set_sender(&mut self, info: TcpInfo, cc_end: String) {
        self.cc_end = Some(cc_end);
        self.retransmits = Some(info.retransmits);
        self.min_rtt_us = info.min_rtt_us;
        self.srtt_us = Some(info.srtt_us);
        self.delivery_rate_bytes_per_s = Some(info.delivery_rate_bytes_per_s);
    }

    /// Fills in the subflows or paths: local address, remote address, counters.
    pub fn set_paths<'a>(
        &mut self,
        paths: impl Iterator<Item = (IpAddr, Option<IpAddr>, &'a TcpInfo)>,
    ) {
        let report = |(local, remote, info): (IpAddr, Option<IpAddr>, &TcpInfo)| PathReport {
            local,
            remote,
            acked_bytes: info.acked_bytes,
            sent_packets: info.sent_packets,
            retransmits: info.retransmits,
            min_rtt_us: info.min_rtt_us,
            srtt_us: info.srtt_us,
            cwnd_packets: info.cwnd_packets,
            ssthresh_packets: info.ssthresh_packets,
        };
        self.paths = paths.map(report).collect();
    }
}

/// Heading of the lines displayed by [`ConnectionReport`].
pub const TEXT_HEADING: &str =
    "conn      MBytes   seconds      Mbit/s  cc start→end       retrans  min rtt ms     srtt ms";

impl fmt::Display for ConnectionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |name: &Option<String>| name.clone().unwrap_or_else(|| "-".into());
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".into());
        let milliseconds =
            |us: Option<u32>| or_dash(us.map(|us| format!("{:.3}", us as f64 / 1e3)));
        write!(
            f,
            "{:>4}{:>12.3}{:>10.3}{:>12}  {:<16}{:>10}{:>12}{:>12}",
            self.index,
            self.bytes as f64 / 1e6,
            self.seconds,
            or_dash(
                self.goodput_bits_per_s
                    .map(|bits| format!("{:.3}", bits / 1e6))
            ),
            format!("{}→{}", text(&self.cc_start), text(&self.cc_end)),
            or_dash(self.retransmits.map(|count| count.to_string())),
            milliseconds(self.min_rtt_us),
            milliseconds(self.srtt_us),
        )?;
        match &self.error {
            Some(error) => write!(f, "  {error}"),
            None => Ok(()),
        }
    }
}

/// All connections of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// Always true: marks this line among the others.
    pub summary: bool,
    /// Connections tried.
    pub count: u64,
    /// Failed connections.
    pub errors: u64,
    /// Mean over the connections with a goodput.
    pub mean_goodput_bits_per_s: Option<f64>,
    /// Median over the same.
    pub median_goodput_bits_per_s: Option<f64>,
    /// Mean goodput over connections 26 to the last; `None` when there are fewer.
    pub mean_from_26: Option<f64>,
    /// Connections per congestion control at their end.
    pub by_cc: BTreeMap<String, u64>,
    /// The first error.
    pub first_error: Option<String>,
}

impl Summary {
    /// Sums up.
    #[must_use]
    pub fn of(reports: &[ConnectionReport]) -> Self {
        let goodputs = |from: u64| -> Vec<f64> {
            let late = reports.iter().filter(|report| report.index >= from);
            late.filter_map(|report| report.goodput_bits_per_s)
                .collect()
        };
        let mut by_cc = BTreeMap::new();
        for name in reports.iter().filter_map(|report| report.cc_end.clone()) {
            *by_cc.entry(name).or_insert(0) += 1;
        }
        let mut errors = reports.iter().filter_map(|report| report.error.clone());
        let first_error = errors.next();
        Self {
            summary: true,
            count: reports.len() as u64,
            errors: errors.count() as u64 + u64::from(first_error.is_some()),
            mean_goodput_bits_per_s: mean(&goodputs(0)),
            median_goodput_bits_per_s: median(&goodputs(0)),
            mean_from_26: mean(&goodputs(LEARNED_FROM)),
            by_cc,
            first_error,
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabits = |bits: Option<f64>| match bits {
            Some(bits) => format!("{:.3}", bits / 1e6),
            None => "-".into(),
        };
        let names: Vec<String> = self
            .by_cc
            .iter()
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        write!(
            f,
            "{} connections, {} failed; Mbit/s: mean {}, median {}, mean from 26 {}; {}",
            self.count,
            self.errors,
            megabits(self.mean_goodput_bits_per_s),
            megabits(self.median_goodput_bits_per_s),
            megabits(self.mean_from_26),
            names.join(", "),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn report(index: u64, bytes: u64, cc: &str) -> ConnectionReport {
        let mut report = ConnectionReport::new(index, "10.0.0.1:5001".parse().unwrap());
        report.set_receiver(ReceiverReport {
            bytes,
            first_to_last: Duration::from_secs(2),
            standstill: Duration::from_millis(300),
        });
        let info = TcpInfo {
            retransmits: 2,
            min_rtt_us: Some(20_000),
            srtt_us: 21_500,
            delivery_rate_bytes_per_s: 9,
            acked_bytes: bytes,
            ..TcpInfo::default()
        };
        report.set_sender(info, cc.into());
        report.cc_start = Some("cubic".into());
        report
    }

    #[test]
    fn goodput_is_what_the_receiver_saw() {
        assert_eq!(report(1, 1000, "bbr").goodput_bits_per_s, Some(4000.0));
        let mut instant = report(1, 1000, "bbr");
        instant.set_receiver(ReceiverReport {
            bytes: 10,
            ..ReceiverReport::default()
        });
        assert_eq!(instant.goodput_bits_per_s, None);
    }

    #[test]
    fn late_mean_needs_26_connections() {
        let reports: Vec<_> = (1..=27)
            .map(|index| report(index, index * 1000, "bbr"))
            .collect();
        assert_eq!(Summary::of(&reports[..25]).mean_from_26, None);
        assert_eq!(Summary::of(&reports).mean_from_26, Some(26_500.0 * 4.0));
    }

    #[test]
    fn failures_count_but_do_not_weigh() {
        let mut failed = ConnectionReport::new(2, "10.0.0.1:5001".parse().unwrap());
        failed.error = Some("refused".into());
        let summary = Summary::of(&[report(1, 1000, "bbr"), failed, report(3, 3000, "cubic")]);
        assert_eq!((summary.count, summary.errors), (3, 1));
        assert_eq!(summary.first_error.as_deref(), Some("refused"));
        assert_eq!(summary.mean_goodput_bits_per_s, Some(8000.0));
        assert_eq!(
            summary.by_cc,
            BTreeMap::from([("bbr".into(), 1), ("cubic".into(), 1)])
        );
    }

    #[test]
    fn text_lines_up_with_its_heading() {
        let expected = "   7      12.500     2.000      50.000  cubic→bbr                \
                        2      20.000      21.500";
        assert_eq!(report(7, 12_500_000, "bbr").to_string(), expected);
        assert_eq!(TEXT_HEADING.chars().count(), expected.chars().count());
    }

    #[test]
    fn json_has_the_promised_fields() {
        let json = serde_json::to_value(report(1, 1000, "bbr")).unwrap();
        assert_eq!(json["cc_start"], "cubic");
        assert_eq!(json["cc_end"], "bbr");
        assert_eq!(json["remote"], "10.0.0.1:5001");
        assert_eq!(json["standstill_seconds"], 0.3);
        assert!(json["error"].is_null());
    }
}
