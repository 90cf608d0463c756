//! A link and those who share it, as both the watch and fair queues know them.

mod device;
mod group;

pub use device::{Device, index_of};
pub use group::Group;
