//! Congestion control of a QUIC connection, by name.

use super::coupled::Coupled;
use super::gauge::Gauged;
use crate::error::{Error, Result};
use noq::congestion::{Bbr3Config, Controller, ControllerFactory, CubicConfig, NewRenoConfig};
use std::sync::Arc;
use std::time::Instant;
use tcpilot_core::coupled::{Coupling, Law};

/// The congestion control of each path of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// noq's CUBIC (RFC 9438).
    Cubic,
    /// noq's NewReno (RFC 9002, section 7).
    Reno,
    /// noq's BBRv3 (draft-ietf-ccwg-bbr).
    Bbr3,
    /// The paths together.
    Coupled(Law),
}

impl Control {
    /// By name, with or without the prefix `tp_` of the kernel's own: a scenario then names one algorithm
    /// for both transports.
    ///
    /// # Errors
    /// [`Error::QuicControl`].
    pub fn from_name(name: &str) -> Result<Self> {
        match name.strip_prefix("tp_").unwrap_or(name) {
            "cubic" => Ok(Self::Cubic),
            "reno" => Ok(Self::Reno),
            "bbr3" => Ok(Self::Bbr3),
            other => Law::from_name(other)
                .map(Self::Coupled)
                .ok_or_else(|| Error::QuicControl(name.to_owned())),
        }
    }

    /// Makes the controllers of a new connection's paths.
    #[must_use]
    pub fn factory(self) -> Arc<dyn ControllerFactory + Send + Sync> {
        let coupling = match self {
            Self::Coupled(law) => Some(Coupling::new(law)),
            _ => None,
        };
        Arc::new(Factory {
            control: self,
            coupling,
            epoch: Instant::now(),
        })
    }
}

/// Makes the controllers of one connection's paths; a second connection would share the coupling.
#[derive(Debug)]
struct Factory {
    control: Control,
    coupling: Option<Arc<Coupling>>,
    epoch: Instant,
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let inner = match (self.control, &self.coupling) {
            (_, Some(coupling)) => Box::new(Coupled::new(coupling, self.epoch, current_mtu)),
            (Control::Reno, _) => Arc::new(NewRenoConfig::default()).build(now, current_mtu),
            (Control::Bbr3, _) => Arc::new(Bbr3Config::default()).build(now, current_mtu),
            _ => Arc::new(CubicConfig::default()).build(now, current_mtu),
        };
        Box::new(Gauged::new(inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_and_quic_names_mean_same_algorithm() {
        let olia = Control::Coupled(Law::Olia);
        assert_eq!(Control::from_name("olia").unwrap(), olia);
        assert_eq!(Control::from_name("tp_olia").unwrap(), olia);
        assert_eq!(Control::from_name("bbr3").unwrap(), Control::Bbr3);
        let unknown = Control::from_name("vegas").unwrap_err().with_remedy();
        assert!(
            unknown.contains("'vegas'") && unknown.contains("balia"),
            "{unknown}"
        );
    }

    #[test]
    fn coupling_is_shared_within_one_connection_only() {
        let now = Instant::now();
        let factory = Control::Coupled(Law::Lia).factory();
        let mut one = Arc::clone(&factory).build(now, 1200);
        let other = Arc::clone(&factory).build(now, 1200);
        assert_eq!((one.window(), one.initial_window()), (12_000, 12_000));
        one.on_congestion_event(now, now, false, false, 1200, 0);
        assert_eq!((one.window(), other.window()), (6000, 12_000));
        let shown = one.clone_box();
        one.on_mtu_update(1400);
        assert_eq!((one.window(), shown.window()), (7000, 6000));
    }

    /// RFC 9002, section 7.3.1: one reduction for each period of recovery.
    #[test]
    fn losses_in_one_rtt_are_one_congestion_event() {
        let begin = Instant::now();
        let later = begin + std::time::Duration::from_millis(50);
        let mut path = Control::Coupled(Law::Olia).factory().build(begin, 1000);
        path.on_congestion_event(later, begin, false, false, 1000, 7);
        path.on_congestion_event(later, begin, false, false, 1000, 9);
        assert_eq!(path.window(), 5000);
        let after = later + std::time::Duration::from_millis(1);
        path.on_congestion_event(after, after, true, false, 1000, 20);
        assert_eq!(
            path.window(),
            2000,
            "the least window after persistent congestion"
        );
        assert_eq!(path.metrics().ssthresh, Some(2000));
    }
}
