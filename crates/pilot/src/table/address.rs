//! Addresses in a table, a row each.

use std::{collections::HashMap, net::IpAddr};

use tcpilot_show::{
    figure::{NONE, Shown as _, Unit},
    select::Selection,
    table,
};

use super::path_name;
use crate::figures::{AddressView, PathView};

/// The names of addresses in a file of hosts(5), the first name of each.
pub fn hosts(text: &str) -> HashMap<IpAddr, String> {
    let mut names = HashMap::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        if let (Some(Ok(address)), Some(name)) = (words.next().map(str::parse), words.next()) {
            names.entry(address).or_insert_with(|| name.to_owned());
        }
    }
    names
}

/// Megabits per second, with three significant digits: "0.123", "12.1", "940".
fn mbit(bytes_per_s: u64) -> String {
    let mbit = bytes_per_s as f64 * 8.0 / 1e6;
    match mbit {
        ..0.0995 => format!("{mbit:.3}"),
        ..9.95 => format!("{mbit:.2}"),
        ..99.5 => format!("{mbit:.1}"),
        _ => format!("{mbit:.0}"),
    }
}

/// A rate with its interval.
fn rate(all: [Option<u64>; 3]) -> String {
    match all {
        [Some(mean), Some(low), Some(high)] => {
            format!("{} ({} to {})", mbit(mean), mbit(low), mbit(high))
        }
        _ => NONE.to_owned(),
    }
}

impl AddressView {
    /// The rate with steering, in Mbit/s with its interval.
    pub(super) fn with(&self) -> String {
        rate([self.rate, self.rate_low, self.rate_high])
    }

    /// The rate with the kernel's default.
    pub(super) fn without(&self) -> String {
        rate([
            self.rate_without,
            self.rate_without_low,
            self.rate_without_high,
        ])
    }

    /// Both rates in short, such as "3.9 → 12.1"; `None` if one is unknown.
    pub(super) fn change(&self) -> Option<String> {
        let (without, with) = self.rate_without.zip(self.rate)?;
        Some(format!("{} → {}", mbit(without), mbit(with)))
    }

    /// Whether the difference is sure.
    fn sureness(&self) -> &'static str {
        match self.effect {
            None => NONE, // it is the default
            Some(_) if self.sure => "yes",
            Some(_) => "not yet",
        }
    }
}

/// A table with a row for each address of these paths.
pub fn addresses(paths: &[PathView]) -> String {
    selected(paths, &Selection::default(), &HashMap::new(), false)
}

/// The same; `names` are those of addresses, and `processes` asks for the owners of connections. The selection has been
/// applied already, and only shows whether all are here.
pub fn selected(
    paths: &[PathView],
    selection: &Selection<PathView>,
    names: &HashMap<IpAddr, String>,
    processes: bool,
) -> String {
    if paths.is_empty() {
        return match selection.is_partial() {
            true => "no path matches\n".to_owned(),
            false => "no path has been seen yet\n".to_owned(),
        };
    }
    let mut views = AddressView::all(paths, path_name);
    views.truncate(selection.limit());
    let known: HashMap<String, &String> = paths
        .iter()
        .filter_map(|path| Some((path_name(path), names.get(&path.prefix.host()?)?)))
        .collect();
    let owners = owners(paths);
    let mut headings = vec![("Path", true), ("Algorithm", true)];
    let mut add = |is_wanted: bool, heading: &'static str| {
        headings.extend(is_wanted.then_some((heading, true)));
        is_wanted
    };
    let has_names = add(!known.is_empty(), "Name");
    let has_owners = add(processes, "Processes");
    let numbers = ["Mbit/s", "Without", "Loss", "RTT", "Connections"];
    headings.extend(numbers.map(|heading| (heading, false)));
    headings.push(("Sure", true));
    let rows = views.iter().map(|view| {
        let mut row = vec![view.path.clone(), view.algorithm.clone()];
        let name = || known.get(&view.path).map_or(NONE, |name| name.as_str());
        row.extend(has_names.then(|| name().to_owned()));
        let owner = || owners.get(&view.path).map_or(NONE, String::as_str);
        row.extend(has_owners.then(|| owner().to_owned()));
        row.extend([
            view.with(),
            view.without(),
            view.loss_ratio.shown(Unit::Share),
            view.srtt_us.shown(Unit::Microseconds),
            view.connections.to_string(),
            view.sureness().to_owned(),
        ]);
        row
    });
    table::build(&headings, rows)
}

/// The processes and pods of each path's connections, by the path's name.
fn owners(paths: &[PathView]) -> HashMap<String, String> {
    let mut owners: HashMap<String, Vec<&str>> = HashMap::new();
    for path in paths {
        let all = owners.entry(path_name(path)).or_default();
        for owner in path.processes.iter().chain(&path.pods) {
            if !all.contains(&owner.as_str()) {
                all.push(owner);
            }
        }
    }
    let joined = owners.into_iter().filter(|(_, all)| !all.is_empty());
    joined.map(|(path, all)| (path, all.join(","))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_name_of_an_address_counts() {
        let names = hosts(
            "127.0.0.1 localhost\n203.0.113.9  db1 db # main\n# 1.1.1.1 no\n203.0.113.9 other\n",
        );
        assert_eq!(names.len(), 2);
        assert_eq!(names[&"203.0.113.9".parse().unwrap()], "db1");
    }

    #[test]
    fn rates_have_three_digits() {
        let shown = [1_000, 12_500, 1_510_000, 15_100_000, 117_500_000].map(mbit);
        assert_eq!(shown, ["0.008", "0.10", "12.1", "121", "940"]);
    }
}
