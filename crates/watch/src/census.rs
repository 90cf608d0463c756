//! The census: the bytes of each group and algorithm over a day, kept in a file.

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use schemars::JsonSchema;
use serde::Serialize;
use tcpilot_kernel::wall_clock::Now;
use tcpilot_show::{
    document::Document,
    failure::Failure,
    figure::figures,
    select::{Listed, NoPart, Selection},
};

use super::{
    store::{Day, Store, now_s},
    tally::{Kind, Sum, Tally},
};
use crate::link::{Group, Protocol};

/// Interval of the saves. So much is lost by a SIGKILL.
const EVERY: Duration = Duration::from_secs(60);

figures! {
    /// The flows of a device, a protocol, a group and an algorithm over a day.
    #[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
    pub CensusRow {
        /// The device.
        device: String, "Device";
        /// The protocol.
        protocol: Protocol, "Protocol";
        /// The group.
        group: Group, "Group";
        /// The most likely algorithm.
        algorithm: Option<String>, "Algorithm";
        /// Its flows, each counted once, at its first bytes.
        flows: u64, "Flows";
        /// Bytes into the queue, without dropped ones; a flow's first bytes count for its later group.
        bytes: u64, Bytes, "Bytes";
        /// Part of the bytes of the device.
        share: f64, Share, "Share";
        /// Packets dropped by the queue.
        drops: u64, Packets, "Drops";
    }
}

figures! {
    /// The census of a day.
    #[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
    pub Census {
        /// Time since its first flow, at most a day; 0 if empty.
        covers_s: i64, Seconds;
        /// Rows, those with the most bytes first.
        rows: Vec<CensusRow>;
    }
}

impl Listed for CensusRow {
    type Part = NoPart;
}

impl Census {
    /// The census of a day, together with unsaved sums.
    fn new(day: &Day, more: impl IntoIterator<Item = (Kind, Sum)>, now_s: i64) -> Census {
        let mut sums: BTreeMap<Kind, Sum> = BTreeMap::new();
        for (kind, sum) in day.sums.iter().cloned().chain(more) {
            *sums.entry(kind).or_default() += sum;
        }
        let mut of_device: BTreeMap<String, u64> = BTreeMap::new();
        for (kind, sum) in &sums {
            *of_device.entry(kind.device.clone()).or_default() += sum.bytes;
        }
        let row = |(kind, sum): (Kind, Sum)| {
            let all = of_device.get(&kind.device).copied().unwrap_or(0).max(1);
            CensusRow {
                share: (sum.bytes as f64 * 1000.0 / all as f64).round() / 1000.0,
                device: kind.device,
                protocol: kind.protocol,
                group: kind.group,
                algorithm: kind.algorithm,
                flows: sum.flows,
                bytes: sum.bytes,
                drops: sum.drops,
            }
        };
        let mut rows: Vec<CensusRow> = sums.into_iter().map(row).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.bytes));
        Census {
            covers_s: day.since.map_or(0, |since| (now_s - since).max(0)),
            rows,
        }
    }

    /// The census of a file.
    ///
    /// # Errors
    /// There is none.
    pub fn read(path: &Path) -> Result<Census, Failure> {
        Ok(Census::new(&Store::read(path)?, [], now_s()))
    }

    /// The line above the table.
    pub fn head(&self) -> String {
        let hours = self.covers_s as f64 / 3600.0;
        format!("census of the last {hours:.1} hours\n")
    }

    /// The wanted rows as a table.
    pub fn table(&self, selection: &Selection<CensusRow>) -> String {
        if self.rows.is_empty() {
            return "no flow yet\n".to_owned();
        }
        let mut rows = self.rows.clone();
        selection.apply(&mut rows);
        selection.table(&rows, |_| true, &[])
    }

    /// A line of JSON, `"type": "census"`, with the wanted rows.
    ///
    /// # Errors
    /// None: the text is written to memory.
    pub fn json_line(mut self, selection: &Selection<CensusRow>) -> std::io::Result<String> {
        #[derive(Serialize)]
        struct Line {
            r#type: &'static str,
            #[serde(flatten)]
            census: Census,
        }
        selection.apply(&mut self.rows);
        let line = Line {
            r#type: "census",
            census: self,
        };
        Document::new(line).line()
    }
}

/// Keeps a census.
pub struct CensusWriter {
    store: Store,
    /// The file's, after the last save.
    day: Day,
    /// The saved part of the tally.
    saved: BTreeMap<Kind, Sum>,
    /// Time of the last save, in seconds since 1970.
    saved_s: i64,
    next: Instant,
    has_failed: bool,
}

impl CensusWriter {
    /// Opens the file.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn open(path: &Path) -> Result<CensusWriter, Failure> {
        let store = Store::open(path)?;
        let day = store.day(now_s()).map_err(|e| Failure::of_file(path, &e))?;
        Ok(CensusWriter {
            store,
            day,
            saved: BTreeMap::new(),
            saved_s: now_s(),
            next: Instant::now() + EVERY,
            has_failed: false,
        })
    }

    fn unsaved(&self, tally: &Tally) -> Vec<(Kind, Sum)> {
        let sums = tally.sums().iter();
        let more = sums.map(|(kind, sum)| {
            let saved = self.saved.get(kind).copied().unwrap_or_default();
            (kind.clone(), *sum - saved)
        });
        more.filter(|(_, sum)| *sum != Sum::default()).collect()
    }

    /// Saves if it is time, or at the end; true if it did. If the disk is full, the next save has everything.
    pub fn save(&mut self, tally: &Tally, is_last: bool) -> bool {
        if !is_last && Instant::now() < self.next {
            return false;
        }
        self.next = Instant::now() + EVERY;
        let now = Now::read();
        let now_s = now.unix_s as i64;
        match self.store.add(&self.unsaved(tally), self.saved_s, now) {
            Ok(()) => {
                self.saved = tally.sums().clone();
                self.saved_s = now_s;
                self.has_failed = false;
            }
            Err(failure) if !self.has_failed => {
                tracing::warn!("the census cannot be saved: {failure}");
                self.has_failed = true;
            }
            Err(_) => {}
        }
        if let Ok(day) = self.store.day(now_s) {
            self.day = day;
        }
        true
    }

    /// The census of now.
    pub fn census(&self, tally: &Tally) -> Census {
        Census::new(&self.day, self.unsaved(tally), now_s())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(device: &str, group: Group, bytes: u64) -> (Kind, Sum) {
        let kind = Kind {
            device: device.to_owned(),
            protocol: Protocol::Tcp,
            group,
            algorithm: None,
        };
        let (flows, drops) = (1, 0);
        (
            kind,
            Sum {
                flows,
                bytes,
                drops,
            },
        )
    }

    #[test]
    fn rows_have_device_shares_sorted_by_bytes() {
        let day = Day {
            sums: vec![sum("eth0", Group::Loss, 100), sum("eth1", Group::Udp, 50)],
            since: Some(7200),
        };
        let more = [
            sum("eth0", Group::Loss, 200),
            sum("eth0", Group::Model, 100),
        ];
        let census = Census::new(&day, more, 9000);
        assert_eq!(census.covers_s, 1800);
        let rows = census.rows.iter();
        let rows: Vec<_> = rows.map(|r| (r.group, r.flows, r.bytes, r.share)).collect();
        assert_eq!(
            rows,
            [
                (Group::Loss, 2, 300, 0.75),
                (Group::Model, 1, 100, 0.25),
                (Group::Udp, 1, 50, 1.0)
            ]
        );
        let selection = Selection::default();
        assert!(census.head().contains("0.5 hours"), "{}", census.head());
        assert!(census.table(&selection).contains("75.0%"));
        let line = census.json_line(&selection).unwrap();
        assert!(
            line.starts_with("{\"schema\":1,\"type\":\"census\",\"covers_s\":1800"),
            "{line}"
        );
    }
}
