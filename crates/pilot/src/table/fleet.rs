//! The part of a fleet in the texts of `status` and `explain`.

use super::{duration, number};
use crate::figures::{FleetStatus, FleetView};

impl FleetStatus {
    /// A line for `status`.
    pub fn text(&self) -> String {
        let ago = |ago_s: Option<f64>| match ago_s {
            Some(ago_s) => format!(", written {} ago", duration(ago_s as u64)),
            None => String::new(),
        };
        let heard = match self.hear.as_str() {
            "off" => "hears nothing".to_owned(),
            hear => {
                let only = if hear == "show" { " (only shown)" } else { "" };
                let groups = number(self.groups_heard, "group");
                format!("hears of {groups}{only}{}", ago(self.heard_ago_s))
            }
        };
        let refused: Vec<String> = self
            .refused
            .iter()
            .map(|(why, count)| format!("{count} files refused: {why}"))
            .collect();
        let said = number(self.groups_said, "group");
        let mut parts = vec![format!("says {said}{}", ago(self.said_ago_s)), heard];
        parts.extend(refused);
        format!("fleet    {}\n", parts.join(" · "))
    }
}

impl FleetView {
    /// Lines for `explain`.
    pub fn text(&self) -> String {
        let shares = self.shares_otherwise.iter();
        let shares: Vec<String> = shares
            .map(|(name, share)| format!("{name} {:.1}%", 100.0 * share))
            .collect();
        let (use_, word) = match (self.used, self.held_back) {
            (true, _) => ("", "without it"),
            (false, true) => ("; held back from its site, to compare", "with it"),
            (false, false) => (", not used", "with it"),
        };
        let doubt = match self.believed < 0.95 {
            true => format!(
                "; {:.0}% of it counts, since it contradicts this host's own knowledge",
                100.0 * self.believed
            ),
            false => String::new(),
        };
        format!(
            "  the fleet says as much of its group as {:.1} connections (about {}, the last {} ago{use_}){doubt}\n  {word}: {}\n",
            self.connections,
            number(self.paths, "path"),
            duration(self.age_s as u64),
            shares.join(", "),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_has_a_line_and_explain_two() {
        let mut status = FleetStatus {
            hear: "on".to_owned(),
            groups_said: 1,
            said_ago_s: Some(41.0),
            groups_heard: 3,
            heard_ago_s: Some(6.0),
            ..FleetStatus::default()
        };
        assert_eq!(
            status.text(),
            "fleet    says 1 group, written 41 s ago · hears of 3 groups, written 6 s ago\n"
        );
        status.hear = "off".to_owned();
        status.refused = [("damaged".to_owned(), 2)].into();
        assert_eq!(
            status.text(),
            "fleet    says 1 group, written 41 s ago · hears nothing · 2 files refused: damaged\n"
        );
        let shares = [("bbr", 0.316), ("cubic", 0.684)];
        let mut view = FleetView {
            connections: 5.4,
            believed: 1.0,
            paths: 16,
            age_s: 720.0,
            used: true,
            held_back: false,
            shares_otherwise: shares.map(|(name, share)| (name.to_owned(), share)).into(),
        };
        assert_eq!(
            view.text(),
            "  the fleet says as much of its group as 5.4 connections (about 16 paths, the last 12 min 0 s ago)\n  \
             without it: bbr 31.6%, cubic 68.4%\n"
        );
        (view.used, view.believed) = (false, 0.2);
        let text = view.text();
        assert!(text.contains("not used); 20% of it counts"), "{text}");
        assert!(text.contains("  with it: bbr"), "{text}");
        (view.held_back, view.believed) = (true, 1.0);
        let text = view.text();
        assert!(
            text.contains("ago; held back from its site, to compare)\n  with it: bbr"),
            "{text}"
        );
    }
}
