//! Output for people and scripts: figures, their tables and JSON documents, and the live screen.

pub mod browse;
pub mod document;
pub mod figure;
mod keys;
pub mod live;
pub mod select;
pub mod table;
mod wrap;
