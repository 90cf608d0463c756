//! Congestion controls compared with their papers and RFCs.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "the papers' formulas, in floating point"
)]

mod bic;
mod hstcp;
mod hybla;
mod illinois;
mod vegas;
mod veno;
mod westwood;
mod yeah;

/// Whether a figure is within this fraction of the paper's.
fn near(ours: f64, paper: f64, fraction: f64) -> bool {
    (ours - paper).abs() <= fraction * paper.abs()
}
