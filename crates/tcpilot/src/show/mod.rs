//! How people and scripts see things: figures, tables and documents of them, and the live screen.

pub mod browse;
pub mod document;
pub mod figure;
pub mod live;
pub mod select;
pub mod table;
