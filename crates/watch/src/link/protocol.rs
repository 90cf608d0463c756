//! What carries a flow's data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tcpilot_show::figure::{Shown, Unit};

/// The protocols distinguished by a watch.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// QUIC, by its handshake.
    Quic,
    /// UDP other than QUIC, or QUIC without a seen handshake.
    Udp,
}

impl Protocol {
    /// All of them.
    const ALL: [Protocol; 3] = [Protocol::Tcp, Protocol::Quic, Protocol::Udp];

    /// The number in the header of IP.
    pub fn number(self) -> u8 {
        match self {
            Protocol::Tcp => 6,
            Protocol::Quic | Protocol::Udp => 17,
        }
    }

    /// The protocol of a word, as [`Protocol::word`] writes it.
    pub fn from_word(word: &str) -> Option<Protocol> {
        Protocol::ALL.into_iter().find(|p| p.word() == word)
    }

    /// The word for it in JSON and tables.
    pub fn word(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::Quic => "quic",
            Protocol::Udp => "udp",
        }
    }
}

impl Shown for Protocol {
    const IS_WORD: bool = true;
    fn shown(&self, _: Unit) -> String {
        self.word().to_owned()
    }
}
