//! The report on whether the fleet helps.

use std::fmt::Write as _;

use super::{day, headings, line_of, rough, shown};
use crate::{
    figures::{FleetComparison, FleetReport},
    table::{duration, number},
};

/// The report as text.
pub fn fleet(r: &FleetReport) -> String {
    if let Some(unknown) = &r.unknown {
        return format!("fleet    not known: {unknown}\n");
    }
    let mut out = format!(
        "Since {} ({}), connections that hear the fleet against those to sites held back from it\n",
        day(r.since_unix_s),
        duration(r.now_unix_s.saturating_sub(r.since_unix_s)),
    );
    let mut add = |title: &str, comparison: &FleetComparison| {
        let _ = write!(out, "\n{}", headings(title));
        for measure in shown(&comparison.measures) {
            let _ = writeln!(out, "{}", line_of(measure));
        }
        let _ = writeln!(
            out,
            "{} of sites with {} of 16 KiB or more",
            number(comparison.pairs, "pair"),
            number(comparison.connections, "connection"),
        );
    };
    add("first 10 connections of a path", &r.first);
    add("later connections", &r.later);
    let (percent, period) = (r.held_back_percent, rough(r.rotation_s));
    let _ = writeln!(
        out,
        "\nheld back from the fleet: {percent} % of the sites (/16, /32), others each {period}"
    );
    out
}
