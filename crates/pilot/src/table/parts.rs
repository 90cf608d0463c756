//! Parts of the status, each a line or more.

use std::fmt::Write as _;

use tcpilot_abi::Withheld;
use tcpilot_show::figure::{Shown as _, Unit};

use super::duration;
use crate::figures::{LearningStatus, RescueStatus, TrafficView, TuningsStatus};

impl RescueStatus {
    /// A line for `status`; empty if there is nothing to show.
    pub(super) fn text(&self) -> String {
        let congested = (self.own_losses > 0)
            .then(|| format!("{} left to congestion control", self.own_losses));
        let parts = [
            (self.helped, "helped"),
            (self.undone, "undone because they did not"),
        ];
        let parts = parts.iter().filter(|(count, _)| *count > 0);
        let mut parts: Vec<String> = parts
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        parts.extend(congested);
        for why in Withheld::ALL {
            let count = self.withheld.get(why.word()).copied().unwrap_or(0);
            if count > 0 {
                parts.push(format!("{count} not made: {}", why.sentence()));
            }
        }
        match parts.is_empty() {
            true => String::new(),
            false => format!("rescues  {}\n", parts.join(" · ")),
        }
    }
}

impl TrafficView {
    /// A line for `status`.
    pub(super) fn text(&self) -> String {
        let amount = |bytes: u64| match bytes {
            0..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
            _ => format!("{:.2} GB", bytes as f64 / 1e9),
        };
        let (steered, sent) = (amount(self.steered_bytes), amount(self.sent_bytes));
        let devices = self.devices.shown(Unit::Plain);
        if self.steered_bytes > self.sent_bytes {
            return format!(
                "traffic  {steered} can be steered, more than the {sent} sent by {devices}: some stays on this host \
                 or leaves by other devices\n"
            );
        }
        format!(
            "traffic  {} of this host's bytes can be steered: {steered} of {sent} sent and {} received by {devices}\n",
            self.share.shown(Unit::Share),
            amount(self.received_bytes),
        )
    }
}

impl LearningStatus {
    /// Lines for `status`.
    pub(super) fn text(&self) -> String {
        let mut out = format!(
            "learned  from {} of {} records · {} nodes above the paths · {} distributions of {} · exploring has cost \
             as much as {:.1} connections\n",
            self.updates,
            self.records,
            self.nodes,
            self.choice_dists,
            self.choice_dists_max,
            self.explored
        );
        if self.steer_percent < 100 {
            let _ = writeln!(
                out,
                "canary   {} % of the groups are steered",
                self.steer_percent
            );
        }
        for policy in &self.policies {
            let given = policy.algorithms.iter().map(|a| {
                let baseline = if a.name == policy.default {
                    " (baseline)"
                } else {
                    ""
                };
                format!("{}{baseline} {}", a.name, a.connections)
            });
            let given: Vec<String> = given.collect();
            let name = match policy.policy.as_str() {
                "default" => String::new(),
                name => format!("[{name}] "),
            };
            let _ = writeln!(out, "given    {name}{}", given.join(" · "));
        }
        for change in &self.changes {
            let age = duration(change.age_s as u64);
            let _ = writeln!(out, "changed  {} {} {age} ago", change.level, change.prefix);
        }
        out
    }
}

impl TuningsStatus {
    /// Lines for `status`.
    pub(super) fn text(&self) -> String {
        let counts: Vec<String> = self
            .set
            .iter()
            .map(|(name, n)| match self.refused.get(name) {
                Some(refused) if *refused > 0 => format!("{name} {n} ({refused} refused)"),
                _ => format!("{name} {n}"),
            })
            .collect();
        let mut out = format!(
            "tuned    for {} on {}: {} · retreats {}\n",
            self.objective,
            self.network,
            counts.join(" · "),
            self.retreats
        );
        if self.acks_first > 0 {
            let _ = writeln!(out, "acks     {} sent first", self.acks_first);
        }
        for sentence in &self.guard {
            let _ = writeln!(out, "guard    {sentence}");
        }
        out
    }
}
