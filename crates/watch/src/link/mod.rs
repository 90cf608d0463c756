//! A link and its groups of flows, for both the watch and fair queues.

mod device;
mod figures;
mod group;
mod protocol;

pub use device::Device;
pub use figures::{FlowView, GroupView, REASONS};
pub use group::Group;
pub use protocol::Protocol;
