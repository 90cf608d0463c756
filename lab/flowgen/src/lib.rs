//! Traffic for TCP experiments, with one server for every mode.
//!
//! flowgen exists because the usual generators do not report the figures needed by an experiment on
//! congestion control: the goodput *at the receiver*, the congestion control a connection started
//! and ended with, and whether thousands of held or short connections came through whole. It also has
//! to be cheap, because rates are measured on emulated single-CPU machines running both ends: received
//! data is discarded in the kernel (`MSG_TRUNC`), sent data comes from one static block, and the server
//! is one thread around one epoll set.
//!
//! - [`server`]: `flowgen serve`, one listener for all modes below.
//! - [`bulk`]: uploads or downloads for a time or an amount, each reported with goodput, congestion
//!   control and `TCP_INFO`.
//! - [`short`]: one byte asked, a small answer, closed by the server: connections per second.
//! - [`spread`]: connections to many addresses of a prefix, some of them hot.
//! - [`hold`]: many connections kept open and proven alive by echo.
//! - [`abort`]: transfers that end badly on purpose.
//! - [`play`]: groups of connections by a plan, with samples of sockets and queues.
//! - [`calibrate`]: delay, rate and loss of the path while it is idle.
//! - [`capture`]: the packets of a device as a pcap file.
//! - [`offload`]: work on packets done by a device for the kernel.
//!
//! `bulk` and `play` also speak MPTCP, and with the feature `mpquic` QUIC and multipath QUIC.
//!
//! Underneath: [`protocol`] is the format on the wire, [`net`] the non-blocking socket calls,
//! [`tcp_info`] and [`stats`] pure arithmetic, [`churn`] the engine of `short` and `spread`.

pub mod abort;
pub mod bulk;
pub mod calibrate;
pub mod capture;
pub mod churn;
pub mod error;
pub mod hold;
pub mod meter;
pub mod net;
pub mod offload;
pub mod play;
pub mod protocol;
#[cfg(feature = "mpquic")]
pub mod quic;
pub mod server;
pub mod short;
pub mod spread;
pub mod stats;
pub mod tcp_info;
pub mod transport;

pub use error::{Error, Result};
