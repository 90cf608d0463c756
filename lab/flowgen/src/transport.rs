//! The protocol that carries a connection's data, and the addresses of its paths.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// A transport protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP.
    #[default]
    Tcp,
    /// Multipath TCP (RFC 8684); the kernel opens its subflows as `ip mptcp` says.
    Mptcp,
    /// QUIC on one path.
    Quic,
    /// QUIC with the multipath extension (draft-ietf-quic-multipath).
    Mpquic,
}

impl Transport {
    /// Whether this program speaks it, rather than the kernel.
    #[must_use]
    pub fn is_quic(self) -> bool {
        matches!(self, Self::Quic | Self::Mpquic)
    }

    /// Whether this build speaks it.
    ///
    /// # Errors
    /// [`Error::Usage`] for QUIC in a build without the feature `mpquic`.
    pub fn available(self) -> Result<()> {
        if self.is_quic() && cfg!(not(feature = "mpquic")) {
            return Err(Error::Usage(
                "this flowgen was built without QUIC; build it with \
                 `cargo build --release -p flowgen --features mpquic`"
                    .into(),
            ));
        }
        Ok(())
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Mptcp => "mptcp",
            Self::Quic => "quic",
            Self::Mpquic => "mpquic",
        })
    }
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        [Self::Tcp, Self::Mptcp, Self::Quic, Self::Mpquic]
            .into_iter()
            .find(|transport| transport.to_string() == text)
            .ok_or_else(|| "give tcp, mptcp, quic or mpquic".into())
    }
}

/// The two ends of a further path. Its port is the first path's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathEnds {
    /// The client's address on it.
    pub local: IpAddr,
    /// The server's address on it; `None`: the first path's.
    #[serde(default)]
    pub remote: Option<IpAddr>,
}

impl PathEnds {
    /// The path's destination, for a connection to `first`.
    #[must_use]
    pub fn to(&self, first: SocketAddr) -> SocketAddr {
        SocketAddr::new(self.remote.unwrap_or(first.ip()), first.port())
    }
}

impl FromStr for PathEnds {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let wrong = |_| "give LOCAL or LOCAL=REMOTE, two addresses".to_owned();
        let (local, remote) = match text.split_once('=') {
            Some((local, remote)) => (local, Some(remote.parse().map_err(wrong)?)),
            None => (text, None),
        };
        let local = local.parse().map_err(wrong)?;
        Ok(Self { local, remote })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for name in ["tcp", "mptcp", "quic", "mpquic"] {
            assert_eq!(name.parse::<Transport>().unwrap().to_string(), name);
        }
        assert!("sctp".parse::<Transport>().is_err());
    }

    #[test]
    fn path_without_remote_uses_first_destination() {
        let first = "10.0.0.2:5201".parse().unwrap();
        let own: PathEnds = "10.1.0.1=10.1.0.2".parse().unwrap();
        assert_eq!(own.to(first), "10.1.0.2:5201".parse().unwrap());
        let same: PathEnds = "10.1.0.1".parse().unwrap();
        assert_eq!(same.to(first), first);
        assert!("10.1.0.1=x".parse::<PathEnds>().is_err());
    }

    #[test]
    fn a_build_without_quic_names_the_feature() {
        assert!(Transport::Mptcp.available().is_ok());
        let quic = Transport::Mpquic.available().map_err(|e| e.to_string());
        if cfg!(feature = "mpquic") {
            assert_eq!(quic, Ok(()));
        } else {
            assert!(quic.unwrap_err().contains("--features mpquic"));
        }
    }
}
