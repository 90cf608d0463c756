//! What people and scripts see: views as data, tables and texts from them, and the live screen.

pub mod document;
pub mod live;
pub mod table;
mod tuning_views;
pub mod views;
