//! A link and the groups of flows that share it, for both the watch and fair queues.

mod device;
mod group;

pub use device::{Device, index_of, name_of};
pub use group::Group;
