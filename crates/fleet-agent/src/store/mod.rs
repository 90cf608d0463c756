//! The engine: keeps the newest value of each key. Two are here: NATS ([`nats`]) and a folder ([`dir`]).
//!
//! An engine needs no more than these three functions. None of them waits longer than twice the time-out of the settings. There
//! is no subscription to changes: clients of NATS lose those after a server's restart (nats.rs #1596), and each costs the server
//! a consumer.

pub mod dir;
pub mod nats;

use tcpilot_fleet::Name;

use crate::key::{Host, Key};

/// Bytes of the largest value: 128 KiB. A larger state has more shards.
pub const VALUE_BYTES_MAX: usize = 128 * 1024;

/// Hosts of one place in the engine. A longer list is refused.
pub const HOSTS_MAX: usize = 10_000;

/// A value, and when the engine got it by its own clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// At most [`VALUE_BYTES_MAX`].
    pub value: Vec<u8>,
    /// Seconds since 1970.
    pub written_s: f64,
}

/// Why the engine did not do it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It does not answer, or there is no way to it.
    #[error("the engine cannot be reached: {0}")]
    Unreachable(String),
    /// It does not know this host, or this host does not trust it.
    #[error("the engine and this host do not trust each other: {0}")]
    Untrusted(String),
    /// It knows this host, which may not do this.
    #[error("the engine does not permit it: {0}")]
    Denied(String),
    /// It has no room.
    #[error("the engine has no room: {0}")]
    Full(String),
    /// A value or a list is larger than allowed.
    #[error("{0} is larger than allowed")]
    TooLarge(String),
    /// It is not set up for a fleet.
    #[error("the engine is not set up: {0}")]
    NotSetUp(String),
    /// A file of the settings cannot be used.
    #[error("{0}")]
    Settings(String),
}

impl StoreError {
    /// One word for counters.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::Untrusted(_) => "untrusted",
            Self::Denied(_) => "denied",
            Self::Full(_) => "full",
            Self::TooLarge(_) => "too_large",
            Self::NotSetUp(_) => "not_set_up",
            Self::Settings(_) => "settings",
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "start the engine, or correct `store`",
            Self::Untrusted(_) => {
                "`ca_file` must have signed the server's certificate, the server's CA must have signed `cert_file`, and the server needs a user of that certificate's name"
            }
            Self::Denied(_) => {
                "set `host` and `place` to those of its certificate's user, or give this user the rights that docs/use/fleet.md lists, for this host's own keys only"
            }
            Self::Full(_) => "give the engine's disk or its limits more room",
            Self::TooLarge(_) => "look who writes such values: tcpilot-fleet does not",
            Self::NotSetUp(_) => "an administrator runs `tcpilot-fleet init` once for the fleet",
            Self::Settings(_) => "correct the settings",
        }
    }
}

/// An engine.
#[allow(
    async_fn_in_trait,
    reason = "the process has one thread, so nobody needs these futures to be Send"
)]
pub trait Store {
    /// Replaces a value. When it returns, the engine has acknowledged it.
    async fn put(&self, key: &Key, value: &[u8]) -> Result<(), StoreError>;

    /// The newest value; `None` if there is none.
    async fn get(&self, key: &Key) -> Result<Option<Entry>, StoreError>;

    /// The hosts of a place that have a manifest, in order.
    async fn hosts(&self, place: &Name) -> Result<Vec<Host>, StoreError>;
}

/// Checks a value before it is put.
fn check_size(key: &Key, value: &[u8]) -> Result<(), StoreError> {
    let is_small = value.len() <= VALUE_BYTES_MAX;
    is_small
        .then_some(())
        .ok_or_else(|| StoreError::TooLarge(key.to_string()))
}
