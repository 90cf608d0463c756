//! The events of a path's congestion controller, kept for reports: a wrapper around any
//! controller counts them.

use noq::congestion::{Controller, ControllerMetrics};
use noq_proto::RttEstimator;
use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Overhead of a full packet: a short header of 1 byte, a connection identifier of 8, a
/// packet number of 2, the head of a STREAM frame of 1 + 1 + 4, and the AEAD's tag of 16 (RFC 9000,
/// sections 17.3 and 19.8). Beyond 1 GB the offset has 4 bytes more, 0.3 % of a packet.
const OVERHEAD_BYTES: u64 = 33;

/// Counters of one path.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gauge {
    acked_bytes: u64,
    /// Packets acknowledged by the peer.
    pub acked_packets: u64,
    /// Lowest time from a packet to its acknowledgement; `None` before the first. noq's own starts from a
    /// guess, and on a long path stays at the guess.
    pub min_rtt_us: Option<u32>,
    /// Congestion window.
    pub window_bytes: u64,
    /// Slow-start threshold; `None` before the first loss, or when the controller has none.
    pub ssthresh_bytes: Option<u64>,
    /// Rate requested from the pacer by the controller.
    pub pacing_rate_bytes_per_s: Option<u64>,
    /// Sent and neither acknowledged nor lost.
    pub in_flight_bytes: u64,
    /// A router has marked a packet.
    pub ecn_marked: bool,
}

impl Gauge {
    /// Payload acknowledged by the peer, as nearly as packets show it.
    #[must_use]
    pub fn payload_bytes(&self) -> u64 {
        let overhead_bytes = self.acked_packets * OVERHEAD_BYTES;
        self.acked_bytes.saturating_sub(overhead_bytes)
    }
}

/// A gauge written by the controller and read by reports.
#[derive(Debug, Clone, Default)]
pub struct SharedGauge(Arc<Mutex<Gauge>>);

impl SharedGauge {
    /// The counters now.
    #[must_use]
    pub fn read(&self) -> Gauge {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, work: impl FnOnce(&mut Gauge)) {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// A controller and its gauge.
#[derive(Debug)]
pub struct Gauged {
    inner: Box<dyn Controller>,
    /// Its gauge.
    pub gauge: SharedGauge,
}

impl Gauged {
    /// Counts the events of `inner`.
    pub fn new(inner: Box<dyn Controller>) -> Self {
        let gauged = Self {
            inner,
            gauge: SharedGauge::default(),
        };
        gauged.note();
        gauged
    }

    /// Notes the controller's state.
    fn note(&self) {
        let metrics = self.inner.metrics();
        let window_bytes = self.inner.window();
        self.gauge.write(|gauge| {
            gauge.window_bytes = window_bytes;
            gauge.ssthresh_bytes = metrics.ssthresh.filter(|&bytes| bytes < u64::MAX);
            gauge.pacing_rate_bytes_per_s = metrics.pacing_rate;
        });
    }
}

impl Controller for Gauged {
    fn on_sent(&mut self, now: Instant, bytes: u64, largest_pn: u64) {
        self.inner.on_sent(now, bytes, largest_pn);
    }

    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        self.inner.on_packet_sent(now, bytes, pn);
    }

    fn on_cwnd_limited(&mut self) {
        self.inner.on_cwnd_limited();
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        pn: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.inner.on_ack(now, sent, bytes, pn, app_limited, rtt);
        let rtt_us = now.saturating_duration_since(sent).as_micros();
        let rtt_us = u32::try_from(rtt_us).unwrap_or(u32::MAX);
        self.gauge.write(|gauge| {
            gauge.acked_bytes += bytes;
            gauge.acked_packets += 1;
            gauge.min_rtt_us = Some(gauge.min_rtt_us.map_or(rtt_us, |least| least.min(rtt_us)));
        });
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        self.inner
            .on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
        self.gauge.write(|gauge| gauge.in_flight_bytes = in_flight);
        self.note();
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        is_ecn: bool,
        lost_bytes: u64,
        largest_lost_pn: u64,
    ) {
        self.inner.on_congestion_event(
            now,
            sent,
            is_persistent_congestion,
            is_ecn,
            lost_bytes,
            largest_lost_pn,
        );
        self.gauge.write(|gauge| gauge.ecn_marked |= is_ecn);
        self.note();
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, now: Instant) {
        self.inner.on_packet_lost(lost_bytes, pn, now);
    }

    fn on_spurious_congestion_event(&mut self) {
        self.inner.on_spurious_congestion_event();
        self.note();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
        self.note();
    }

    fn on_ack_frequency_update(&mut self, ack_eliciting_threshold: u64, max_ack_delay: Duration) {
        self.inner
            .on_ack_frequency_update(ack_eliciting_threshold, max_ack_delay);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    /// The clone shares the gauge: it is the same path, seen by a report or after a change of address.
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self {
            inner: self.inner.clone_box(),
            gauge: self.gauge.clone(),
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
