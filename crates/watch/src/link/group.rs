//! How a flow treats a queue.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tcpilot_show::figure::{Shown, Unit};

/// The groups of P4air (`enum tp_group`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Group {
    /// The classifier abstained.
    Unknown = 0,
    /// Sparse.
    Ant = 1,
    /// Is in slow start.
    Mouse = 2,
    /// Fills the queue until it loses.
    Loss = 3,
    /// Backs off when the queue grows.
    Delay = 4,
    /// Reacts to both loss and delay.
    LossDelay = 5,
    /// Follows a model of the path.
    Model = 6,
    /// UDP that is not QUIC, as far as headers show it.
    Udp = 7,
}

impl Group {
    /// All groups, in the order of tables.
    pub const ALL: [Group; 8] = [
        Group::Ant,
        Group::Mouse,
        Group::Loss,
        Group::Delay,
        Group::LossDelay,
        Group::Model,
        Group::Udp,
        Group::Unknown,
    ];

    /// The group of the kernel's number.
    pub fn from_number(number: u8) -> Group {
        Group::ALL
            .into_iter()
            .find(|g| *g as u8 == number)
            .unwrap_or(Group::Unknown)
    }

    /// The group of a word, as [`Group::word`] writes it.
    pub fn from_word(word: &str) -> Group {
        let mut all = Group::ALL.into_iter();
        all.find(|group| group.word() == word)
            .unwrap_or(Group::Unknown)
    }

    /// Whether flows of this group share the link as bulk transfers do.
    pub fn is_long(self) -> bool {
        !matches!(self, Group::Ant | Group::Mouse)
    }

    /// The word for it in JSON and tables.
    pub fn word(self) -> &'static str {
        match self {
            Group::Unknown => "unknown",
            Group::Ant => "ant",
            Group::Mouse => "mouse",
            Group::Loss => "loss",
            Group::Delay => "delay",
            Group::LossDelay => "loss-delay",
            Group::Model => "model",
            Group::Udp => "udp",
        }
    }
}

impl Shown for Group {
    const IS_WORD: bool = true;
    fn shown(&self, _: Unit) -> String {
        self.word().to_owned()
    }
}
