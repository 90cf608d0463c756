//! The output of both products for people and scripts: figures, their tables and JSON documents, the live
//! screen, failures, and metrics.

pub mod args;
pub mod browse;
pub mod document;
pub mod failure;
pub mod fields;
pub mod figure;
mod keys;
pub mod live;
pub mod metrics;
pub mod output;
pub mod select;
pub mod table;
mod wrap;
