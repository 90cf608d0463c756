//! A link and the flows that share it, as both the watch and fair queues know them.

mod device;
mod group;

pub use device::{Device, index_of, name_of};
pub use group::Group;
