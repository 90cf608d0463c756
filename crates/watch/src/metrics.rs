//! `watch --listen`: what was seen as metrics. Labels are devices, protocols, groups and algorithms, never addresses.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};
use tcpilot_show::metrics::{
    BYTES_SUM, COUNTER, GAUGE, Labels, SECONDS, Source, Type, Writer, text_of,
};

use super::{
    census::CensusRow,
    tally::{Kind, Sum},
    views::View,
};
use crate::link::GroupView;

/// The watch counts as hung if its last look is older.
const FRESH: Duration = Duration::from_secs(10);

/// The last look.
#[derive(Debug)]
struct Last {
    at: Instant,
    views: Vec<View>,
    sums: Vec<(Kind, Sum)>,
}

/// The last look, for the answering thread.
#[derive(Debug, Default)]
pub struct Board(Mutex<Option<Last>>);

impl Board {
    /// Replaces the last look.
    pub fn put(&self, views: &[View], sums: impl IntoIterator<Item = (Kind, Sum)>) {
        let last = Last {
            at: Instant::now(),
            views: views.iter().map(View::without_flows).collect(),
            sums: sums.into_iter().collect(),
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(last);
    }

    fn last<T>(&self, f: impl FnOnce(&Last) -> Result<T, String>) -> Result<T, String> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match last.as_ref() {
            Some(last) if last.at.elapsed() < FRESH => f(last),
            Some(_) => Err("it does not look any more".to_owned()),
            None => Err("it has not looked yet".to_owned()),
        }
    }
}

impl Source for Board {
    fn metrics(&self) -> Result<String, String> {
        let (views, sums) = self.last(|last| Ok((last.views.clone(), last.sums.clone())))?;
        let build = vec![
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("kernel", tcpilot_kernel::host::kernel_release()),
        ];
        let about = "Versions of tcpilot and of the kernel";
        let text = text_of((about, build), Box::new(Figures { views, sums }));
        text.map_err(|error| error.to_string())
    }

    fn alive(&self) -> Result<&'static str, String> {
        self.last(|_| Ok("alive"))
    }

    fn ready(&self) -> Result<&'static str, String> {
        self.last(|last| match last.views.iter().find(|view| !view.present) {
            Some(view) => Err(format!("{} is gone", view.device)),
            None => Ok("watching"),
        })
    }
}

#[derive(Debug)]
struct Figures {
    views: Vec<View>,
    sums: Vec<(Kind, Sum)>,
}

impl Collector for Figures {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = Writer(encoder);
        devices(&mut out, &self.views)?;
        let groups = || self.views.iter().flat_map(|view| &view.groups);
        let flows = groups().map(|g| {
            let labels: Labels<'_> = vec![("device", g.device.as_str()), ("group", g.group.word())];
            (labels, g.flows as f64)
        });
        out.family::<GroupView>("watch_flows", "flows", GAUGE, flows)?;
        for (name, key, kind, value) in [
            (
                "watch_flow",
                "bytes",
                BYTES_SUM,
                (|s| s.bytes) as fn(&Sum) -> u64,
            ),
            ("watch_flow_drops", "drops", COUNTER, |s| s.drops),
            ("watch_flows_seen", "flows", COUNTER, |s| s.flows),
        ] {
            let samples = self.sums.iter().map(|(kind, sum)| {
                let algorithm = kind.algorithm.as_deref().unwrap_or("none");
                let labels = vec![
                    ("device", kind.device.as_str()),
                    ("protocol", kind.protocol.word()),
                    ("group", kind.group.word()),
                    ("algorithm", algorithm),
                ];
                (labels, value(sum) as f64)
            });
            out.family::<CensusRow>(name, key, kind, samples)?;
        }
        Ok(())
    }
}

/// Name of the metric, key of the figure, type, value.
type Row = (&'static str, &'static str, Type, fn(&View) -> Option<f64>);

const DEVICES: [Row; 13] = [
    ("watch_device_present", "present", GAUGE, |v| {
        Some(f64::from(u8::from(v.present)))
    }),
    ("watch_in_packets", "in_packets", COUNTER, |v| {
        Some(v.in_packets as f64)
    }),
    ("watch_out_packets", "out_packets", COUNTER, |v| {
        Some(v.out_packets as f64)
    }),
    ("watch_dropped_packets", "dropped_packets", COUNTER, |v| {
        Some(v.dropped_packets as f64)
    }),
    ("watch_other_packets", "other_packets", COUNTER, |v| {
        Some(v.other_packets as f64)
    }),
    (
        "watch_unreadable_packets",
        "unreadable_packets",
        COUNTER,
        |v| Some(v.unreadable_packets as f64),
    ),
    ("watch_unproved_packets", "unproved_packets", COUNTER, |v| {
        Some(v.unproved_packets as f64)
    }),
    ("watch_unseen_packets", "unseen_packets", COUNTER, |v| {
        v.unseen_packets.map(|n| n as f64)
    }),
    ("watch_missed_events", "missed_events", COUNTER, |v| {
        Some(v.missed_events as f64)
    }),
    ("watch_queue", "link_queue_us", SECONDS, |v| {
        Some(f64::from(v.link_queue_us) / 1e6)
    }),
    ("watch_link_bytes_per_second", "link_rate", GAUGE, |v| {
        Some(v.link_rate as f64)
    }),
    (
        "watch_link_capacity_bytes_per_second",
        "link_capacity",
        GAUGE,
        |v| v.link_capacity.map(|rate| rate as f64),
    ),
    ("watch_link_used_ratio", "link_used", GAUGE, |v| v.link_used),
];

fn devices(out: &mut Writer<'_>, views: &[View]) -> fmt::Result {
    for (name, key, kind, value) in DEVICES {
        let samples = views.iter().filter_map(|view| {
            let labels: Labels<'_> = vec![("device", view.device.as_str())];
            value(view).map(|value| (labels, value))
        });
        out.family::<View>(name, key, kind, samples)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{FlowView, Group, Protocol};

    fn board() -> Board {
        let board = Board::default();
        let flow = FlowView {
            group: Group::Loss,
            ..FlowView::example(1)
        };
        let kind = Kind {
            device: "eth0".to_owned(),
            protocol: Protocol::Quic,
            group: Group::Loss,
            algorithm: Some("cubic".to_owned()),
        };
        let sum = Sum {
            flows: 3,
            bytes: 70_000,
            drops: 2,
        };
        board.put(&[View::example(vec![flow])], [(kind, sum)]);
        board
    }

    #[test]
    fn a_look_is_written_as_openmetrics() {
        let text = board().metrics().unwrap();
        for line in [
            "tcpilot_watch_in_packets_total{device=\"eth0\"} 1000.0",
            "# UNIT tcpilot_watch_queue_seconds seconds",
            "tcpilot_watch_queue_seconds{device=\"eth0\"} 0.04",
            "tcpilot_watch_flows{device=\"eth0\",group=\"loss\"} 1.0",
            "tcpilot_watch_flow_bytes_total{device=\"eth0\",protocol=\"quic\",group=\"loss\",algorithm=\"cubic\"} 70000.0",
            "# EOF",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        assert!(!text.contains("198.51.100.1"), "{text}");
        let helps = text.lines().filter(|l| l.starts_with("# HELP"));
        assert!(
            helps.clone().count() >= 15 && helps.clone().all(|l| l.ends_with('.')),
            "{text}"
        );
    }

    #[test]
    fn it_is_ready_while_its_devices_are_there() {
        assert!(Board::default().alive().is_err());
        let board = board();
        assert_eq!(
            (board.alive(), board.ready()),
            (Ok("alive"), Ok("watching"))
        );
        let gone = View {
            present: false,
            ..View::example(Vec::new())
        };
        board.put(&[gone], []);
        assert_eq!(board.ready(), Err("eth0 is gone".to_owned()));
    }
}
