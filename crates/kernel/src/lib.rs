//! x
mod skel { include!(concat!(env!("OUT_DIR"), "/pilot.skel.rs")); }
pub use skel::*;
