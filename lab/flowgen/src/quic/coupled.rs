//! LIA, OLIA and BALIA for the paths of one QUIC connection: noq's events become those of
//! [`tcpilot_core::coupled`], which runs the C text of MPTCP's.
//!
//! noq counts bytes, the algorithms count packets of the path's largest size. Recovery is RFC 9002's: what
//! was sent before the last congestion event neither grows the window nor shrinks it again.

use noq::congestion::{Controller, ControllerMetrics};
use noq_proto::RttEstimator;
use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tcpilot_core::coupled::{CoupledPath, Coupling};

/// RFC 9002, section 7.2: ten packets.
const INITIAL_PACKETS: u32 = 10;

/// The controller of one path.
#[derive(Debug, Clone)]
pub struct Coupled {
    // noq clones controllers to show them: a clone is the same path, not another of the connection.
    path: Arc<Mutex<CoupledPath>>,
    epoch: Instant,
    recovery_start: Option<Instant>,
    mtu: u64,
    /// Acknowledged bytes that do not make a whole packet yet.
    rest_bytes: u64,
}

impl Coupled {
    /// A new path of the connection. `epoch` is the connection's, so that all paths have one clock.
    pub fn new(coupling: &Arc<Coupling>, epoch: Instant, mtu: u16) -> Self {
        Self {
            path: Arc::new(Mutex::new(CoupledPath::join(coupling, INITIAL_PACKETS))),
            epoch,
            recovery_start: None,
            mtu: u64::from(mtu).max(1),
            rest_bytes: 0,
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut CoupledPath) -> T) -> T {
        work(&mut self.path.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Controller for Coupled {
    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        _pn: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        let recovering = self.recovery_start.is_some_and(|start| sent <= start);
        let limited = !app_limited && !recovering;
        if limited {
            self.rest_bytes += bytes;
        }
        let packets = u32::try_from(self.rest_bytes / self.mtu).unwrap_or(u32::MAX);
        self.rest_bytes %= self.mtu;
        let since = now.saturating_duration_since(self.epoch).as_micros();
        let now_us = u64::try_from(since).unwrap_or(u64::MAX);
        let srtt_us = u32::try_from(rtt.get().as_micros()).unwrap_or(u32::MAX);
        self.with(|path| path.acknowledge(now_us, srtt_us, packets, limited && packets > 0));
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        _is_ecn: bool,
        _lost_bytes: u64,
        _largest_lost_pn: u64,
    ) {
        if self.recovery_start.is_some_and(|start| sent <= start) {
            return;
        }
        self.recovery_start = Some(now);
        self.rest_bytes = 0;
        self.with(|path| {
            path.lose();
            if is_persistent_congestion {
                path.collapse();
            }
        });
    }

    fn on_spurious_congestion_event(&mut self) {
        self.recovery_start = None;
        self.with(CoupledPath::undo);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = u64::from(new_mtu).max(1);
    }

    fn window(&self) -> u64 {
        self.with(|path| u64::from(path.packets())) * self.mtu
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        metrics.ssthresh = self
            .with(|path| path.ssthresh())
            .map(|packets| u64::from(packets) * self.mtu);
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        u64::from(INITIAL_PACKETS) * self.mtu
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
