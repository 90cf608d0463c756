//! Metrics for Prometheus and other readers of its format: their text, and the server of `--listen`.
//!
//! Names follow prometheus.io/docs/practices/naming: base units, `_total` for counts that only grow, ratios
//! from 0 to 1. Labels have few values: policies, algorithms and reasons, never addresses.

mod http;
mod patient;
mod places;
mod server;
mod text;

pub use http::{HttpRequest, HttpResponse};
pub use patient::PatientServer;
pub use server::{Server, Source, listen_address};
pub use text::{
    BYTES, BYTES_SUM, CONTENT_TYPE, COUNTER, GAUGE, Histogram, Kind, Labels, SECONDS,
    SECONDS_SPENT, Type, Writer, classic, text_of,
};
