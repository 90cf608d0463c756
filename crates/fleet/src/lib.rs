//! The model of a fleet: hosts share their knowledge of groups of paths (/24, /48).
//!
//! A host says a [`State`]: for each group one Gaussian message over the contrasts, the advantages of its
//! algorithms over its default. The message sums up the host's own connections and nothing heard from
//! others, so no rumour goes round. A reader decodes states ([`format`](mod@format)), translates them to its own
//! algorithms ([`translate`]), ages them ([`age`]), and merges them into one foreign message per group
//! ([`merge`](mod@merge)).
//!
//! States replace each other: the newest state of a host counts. Lost, repeated or late states
//! therefore do no harm.
//!
//! Nothing here reads a clock or does I/O. Bytes, times and ages are arguments.
//!
//! Sources: Hong et al., *Hierarchical Bayesian Bandits* (AISTATS 2022), for the model of hosts and places;
//! DerSimonian and Laird (*Controlled Clinical Trials* 7, 1986) for the widths; Beaton and Tukey
//! (*Technometrics* 16, 1974) for the biweight.

pub mod age;
pub mod clip;
pub mod format;
pub mod group;
pub mod losses;
pub mod manifest;
pub mod merge;
pub mod message;
pub mod name;
pub mod place;
pub mod refusal;
pub mod shard;
pub mod state;
pub mod translate;
pub mod trust;
pub mod vote;

pub use group::Group;
pub use losses::Losses;
pub use manifest::Manifest;
pub use merge::{Groups, HostPairs, HostWidths, Merged, Part, Place, PlacePairs, Reader, merge};
pub use message::Message;
pub use name::Name;
pub use refusal::Refusal;
pub use state::{Own, Row, State};
