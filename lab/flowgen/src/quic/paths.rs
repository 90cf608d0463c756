//! A connection's paths between the wanted addresses, and the bytes carried by them. A closed path may be
//! opened again: for QUIC it is another path, with its own counters; here it is the same one.

use super::gauge::{Gauge, SharedGauge};
use super::silence::Sign;
use crate::tcp_info::TcpInfo;
use std::net::{IpAddr, SocketAddr};

/// A path and its counters.
#[derive(Debug, Clone, Copy)]
pub struct PathState {
    /// The client's address.
    pub local: IpAddr,
    /// The server's.
    pub remote: SocketAddr,
    /// Packets, times and bytes, as the kernel counts them for TCP. `retransmits` are the packets held lost:
    /// QUIC sends their contents again in others.
    pub info: TcpInfo,
}

/// The connection's traffic between two addresses.
pub struct OpenPath {
    /// The client's address.
    pub local: IpAddr,
    /// The server's.
    pub remote: SocketAddr,
    path: noq::Path,
    gauge: SharedGauge,
    /// Counters of the closed paths between these addresses.
    past: TcpInfo,
    is_closed: bool,
}

impl OpenPath {
    /// The first between these addresses.
    pub fn new(local: IpAddr, remote: SocketAddr, path: noq::Path, gauge: SharedGauge) -> Self {
        Self {
            local,
            remote,
            path,
            gauge,
            past: TcpInfo::default(),
            is_closed: false,
        }
    }

    /// Goes on with another one.
    pub fn reopen(&mut self, path: noq::Path, gauge: SharedGauge) {
        self.past = self.state().info;
        self.path = path;
        self.gauge = gauge;
        self.is_closed = false;
    }

    /// Gives its data to the other paths.
    pub fn close(&mut self) {
        // The last one stays; and the peer may have closed it before.
        self.is_closed |= self.path.close().is_ok();
    }

    /// Whether it was closed, and not opened again.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// The signs of a silent path.
    pub fn sign(&self) -> Sign {
        let gauge = self.gauge.read();
        Sign {
            progress: gauge.acked_packets,
            busy: gauge.in_flight_bytes > 0 && !self.is_closed,
            rtt: self.path.stats().rtt,
        }
    }

    /// Its congestion window; none once it is closed.
    pub fn window_bytes(&self) -> u64 {
        if self.is_closed {
            return 0;
        }
        self.gauge.read().window_bytes
    }

    /// Its state, with all that was carried before.
    pub fn state(&self) -> PathState {
        let mut info = info(&self.path.stats(), &self.gauge.read());
        info.acked_bytes += self.past.acked_bytes;
        info.retransmits += self.past.retransmits;
        info.sent_packets += self.past.sent_packets;
        info.ecn |= self.past.ecn;
        info.min_rtt_us = info
            .min_rtt_us
            .into_iter()
            .chain(self.past.min_rtt_us)
            .min();
        PathState {
            local: self.local,
            remote: self.remote,
            info,
        }
    }
}

fn info(stats: &noq::PathStats, gauge: &Gauge) -> TcpInfo {
    let mtu = u64::from(stats.current_mtu).max(1);
    let count = |packets: u64| u32::try_from(packets).unwrap_or(u32::MAX);
    let lost = stats.lost_packets.saturating_sub(stats.lost_plpmtud_probes);
    let sent = stats.sent_packets.saturating_sub(stats.sent_plpmtud_probes);
    TcpInfo {
        retransmits: count(lost),
        min_rtt_us: gauge.min_rtt_us,
        srtt_us: u32::try_from(stats.rtt.as_micros()).unwrap_or(u32::MAX),
        delivery_rate_bytes_per_s: stats.bandwidth_estimate.unwrap_or(0) / 8,
        acked_bytes: gauge.payload_bytes(),
        cwnd_packets: count(gauge.window_bytes / mtu),
        ssthresh_packets: gauge.ssthresh_bytes.map(|bytes| count(bytes / mtu)),
        pacing_rate_bytes_per_s: gauge.pacing_rate_bytes_per_s,
        lost_packets: 0,
        inflight_packets: count(gauge.in_flight_bytes.div_ceil(mtu)),
        sent_packets: count(sent),
        ecn: gauge.ecn_marked,
        // QUIC's sender is asked for no such times.
        busy_us: 0,
        window_limited_us: 0,
        buffer_limited_us: 0,
    }
}
