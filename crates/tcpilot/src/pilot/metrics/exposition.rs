//! From figures to text.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{
        DescriptorEncoder, EncodeMetric, MetricEncoder, text::encode_eof, text::encode_registry,
    },
    metrics::{counter::ConstCounter, gauge::ConstGauge, info::Info},
    registry::{Registry, Unit},
};

use crate::{
    pilot::figures::{EffectReport, LearningStatus, MeasureView, Status, TaughtPolicy},
    show::figure::View,
};

/// Of OpenMetrics 1.0.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Labels of a sample.
type Labels<'a> = Vec<(&'a str, &'a str)>;

/// What a sample's number means.
#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
}

/// What was asked of the daemon.
#[derive(Debug)]
struct Figures {
    status: Status,
    effect: Option<EffectReport>,
}

/// The metrics of a daemon; `effect` if its learner compares.
///
/// # Errors
/// Never: text is written to memory.
pub fn text(status: Status, effect: Option<EffectReport>) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("tcpilot");
    let build = vec![
        ("version", status.version.clone()),
        ("kernel", status.kernel.clone()),
        ("learner", status.learner.clone()),
    ];
    let about = "Of what tcpilot is made, and which learner it has";
    registry.register("build", about, Info::new(build));
    registry.register_collector(Box::new(Figures { status, effect }));
    let mut text = String::new();
    encode_registry(&mut text, &registry)?;
    encode_eof(&mut text)?;
    Ok(text)
}

/// The same in the format of Prometheus 0.0.4, which the node exporter and `promtool check metrics` read: there
/// a counter's family has the name of its samples, and neither units nor infos are known.
pub fn classic(text: &str) -> String {
    let word = |line: &str, at: usize| line.split(' ').nth(at).unwrap_or_default().to_owned();
    let types = || text.lines().filter(|line| line.starts_with("# TYPE "));
    let suffix = |family: &str| {
        let is = |kind: &str| types().any(|line| word(line, 2) == family && word(line, 3) == kind);
        match () {
            () if is("counter") => "_total",
            () if is("info") => "_info",
            () => "",
        }
    };
    let mut out = String::new();
    for line in text.lines() {
        match word(line, 1).as_str() {
            "TYPE" | "HELP" if line.starts_with('#') => {
                let family = word(line, 2);
                let named = format!(" {family}{} ", suffix(&family));
                let line = line.replacen(&format!(" {family} "), &named, 1);
                let gauge = line
                    .strip_suffix(" info")
                    .map(|line| format!("{line} gauge"));
                out.push_str(gauge.as_deref().unwrap_or(&line));
            }
            "UNIT" | "EOF" if line.starts_with('#') => continue,
            _ => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

/// What a figure is, from where it is declared.
fn about<V: View>(key: &str) -> String {
    let figure = V::FIGURES.iter().find(|figure| figure.key == key);
    let doc = figure.map_or("", |figure| figure.doc);
    let first = doc.split("; `null`").next().unwrap_or(doc);
    first.trim().trim_end_matches('.').to_owned()
}

/// Writes families, each with its samples.
struct Writer<'a>(DescriptorEncoder<'a>);

impl Writer<'_> {
    /// A family of the figure `key` of the view `V`.
    fn family<'s, V: View>(
        &mut self,
        name: &str,
        key: &str,
        (kind, unit): (Kind, Option<&Unit>),
        samples: impl IntoIterator<Item = (Labels<'s>, f64)>,
    ) -> fmt::Result {
        let help = about::<V>(key);
        self.described(name, &help, (kind, unit), samples)
    }

    fn described<'s>(
        &mut self,
        name: &str,
        help: &str,
        (kind, unit): (Kind, Option<&Unit>),
        samples: impl IntoIterator<Item = (Labels<'s>, f64)>,
    ) -> fmt::Result {
        let metric_type = match kind {
            Kind::Counter => ConstCounter::new(0.0).metric_type(),
            Kind::Gauge => ConstGauge::new(0.0).metric_type(),
        };
        // As the help of what is registered, which the library ends so.
        let help = format!("{help}.");
        let mut family = self.0.encode_descriptor(name, &help, unit, metric_type)?;
        for (labels, value) in samples {
            // Without labels there is one sample, and no braces.
            if labels.is_empty() {
                return encode(family, kind, value);
            }
            encode(family.encode_family(&labels)?, kind, value)?;
        }
        Ok(())
    }
}

fn encode(encoder: MetricEncoder<'_>, kind: Kind, value: f64) -> fmt::Result {
    match kind {
        Kind::Counter => ConstCounter::new(value).encode(encoder),
        Kind::Gauge => ConstGauge::new(value).encode(encoder),
    }
}

const COUNTER: (Kind, Option<&Unit>) = (Kind::Counter, None);
const GAUGE: (Kind, Option<&Unit>) = (Kind::Gauge, None);
const SECONDS: (Kind, Option<&Unit>) = (Kind::Gauge, Some(&Unit::Seconds));
const SECONDS_SPENT: (Kind, Option<&Unit>) = (Kind::Counter, Some(&Unit::Seconds));
const BYTES: (Kind, Option<&Unit>) = (Kind::Gauge, Some(&Unit::Bytes));

/// One sample without labels.
fn one(value: impl Into<f64>) -> [(Labels<'static>, f64); 1] {
    [(Vec::new(), value.into())]
}

impl Collector for Figures {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = Writer(encoder);
        daemon(&mut out, &self.status)?;
        if let Some(learning) = &self.status.learning {
            learner(&mut out, learning)?;
        }
        match &self.effect {
            Some(effect) => compared(&mut out, effect),
            None => Ok(()),
        }
    }
}

fn daemon(out: &mut Writer<'_>, s: &Status) -> fmt::Result {
    out.family::<Status>("attached", "attached", GAUGE, one(u8::from(s.attached)))?;
    out.family::<Status>("dry_run", "dry_run", GAUGE, one(u8::from(s.dry_run)))?;
    out.family::<Status>("uptime", "uptime_s", SECONDS, one(s.uptime_s as f64))?;
    let degraded = one(s.degraded.len() as f64);
    out.described(
        "degraded",
        "What does not work as it should; `tcpilot status` has the sentences",
        GAUGE,
        degraded,
    )?;
    let opened = s.connections.iter();
    let opened = opened.map(|(why, count)| (vec![("why", why.as_str())], *count as f64));
    out.family::<Status>("connections", "connections", COUNTER, opened)?;
    out.family::<Status>("closed", "closed", COUNTER, one(s.closed as f64))?;
    out.family::<Status>("rescues", "rescues", COUNTER, one(s.rescues as f64))?;
    out.family::<Status>("paths", "paths", GAUGE, one(s.paths))?;
    out.family::<Status>("paths_limit", "paths_max", GAUGE, one(s.paths_max))?;
    let take_overs = [
        ("done", s.take_overs.done),
        ("refused", s.take_overs.refused),
    ];
    let take_overs = take_overs.map(|(result, count)| (vec![("result", result)], count as f64));
    out.family::<Status>("take_overs", "take_overs", COUNTER, take_overs)?;
    out.family::<Status>(
        "bpf_events",
        "bpf_events",
        COUNTER,
        one(s.bpf_events as f64),
    )?;
    out.family::<Status>(
        "bpf_run",
        "bpf_ns",
        SECONDS_SPENT,
        one(s.bpf_ns as f64 / 1e9),
    )?;
    out.family::<Status>(
        "resident_memory",
        "resident_bytes",
        BYTES,
        one(s.resident_bytes as f64),
    )
}

fn learner(out: &mut Writer<'_>, l: &LearningStatus) -> fmt::Result {
    type L = LearningStatus;
    out.family::<L>("learner_paths", "paths", GAUGE, one(l.paths as f64))?;
    out.family::<L>("learner_nodes", "nodes", GAUGE, one(l.nodes as f64))?;
    out.family::<L>("learner_rows", "rows", GAUGE, one(l.rows as f64))?;
    out.family::<L>(
        "learner_rows_limit",
        "rows_max",
        GAUGE,
        one(l.rows_max as f64),
    )?;
    out.family::<L>(
        "learner_publications",
        "publications",
        COUNTER,
        one(l.publications as f64),
    )?;
    let silent = l.silent.iter().map(|(why, count)| (why.as_str(), *count));
    let records = std::iter::once(("taught", l.taught)).chain(silent);
    let records = records.map(|(result, count)| (vec![("result", result)], count as f64));
    out.described(
        "learner_records",
        "Records of connections, by what became of them",
        COUNTER,
        records,
    )?;
    out.family::<L>(
        "learner_records_dropped",
        "dropped",
        COUNTER,
        one(l.dropped as f64),
    )?;
    out.family::<L>("learner_explored", "explored", COUNTER, one(l.explored))?;
    let steered = one(f64::from(l.steer_percent) / 100.0);
    out.described(
        "steered_ratio",
        "Share of the groups of addresses that are steered",
        GAUGE,
        steered,
    )?;
    let choices = l.policies.iter().flat_map(|policy| {
        policy.algorithms.iter().map(|algorithm| {
            let labels = vec![
                ("policy", policy.policy.as_str()),
                ("algorithm", algorithm.name.as_str()),
            ];
            (labels, algorithm.connections as f64)
        })
    });
    out.family::<TaughtPolicy>("choices", "algorithms", COUNTER, choices)
}

/// The ends of a measure's interval, as far as they are known.
fn interval(measure: &MeasureView) -> impl Iterator<Item = (Labels<'_>, f64)> {
    let ends = [
        ("low", measure.low),
        ("estimate", measure.change),
        ("high", measure.high),
    ];
    ends.into_iter().filter_map(|(bound, value)| {
        let labels = vec![("measure", measure.name.as_str()), ("bound", bound)];
        value.map(|value| (labels, value))
    })
}

fn compared(out: &mut Writer<'_>, e: &EffectReport) -> fmt::Result {
    type E = EffectReport;
    out.family::<E>(
        "effect_ratio",
        "measures",
        GAUGE,
        e.measures.iter().flat_map(interval),
    )?;
    out.family::<E>("effect_pairs", "pairs", COUNTER, one(e.pairs as f64))?;
    let held = one(e.connections_held_out as f64);
    out.family::<E>(
        "held_out_connections",
        "connections_held_out",
        COUNTER,
        held,
    )?;
    let of_host = e
        .stops
        .iter()
        .filter(|stop| stop.active && stop.group.is_empty())
        .count();
    let of_groups = e
        .stops
        .iter()
        .filter(|stop| stop.active && !stop.group.is_empty())
        .count();
    let stops = [("host", of_host), ("group", of_groups)];
    let stops = stops.map(|(scope, count)| (vec![("scope", scope)], count as f64));
    out.described(
        "guard_stops",
        "Where the guard has stopped steering because it did harm",
        GAUGE,
        stops,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pilot::{figures::StopView, table::tests::learning};

    fn measure(name: &str, low: Option<f64>) -> MeasureView {
        MeasureView {
            name: name.to_owned(),
            change: Some(0.12),
            low,
            high: low.map(|low| low + 0.1),
            ..Default::default()
        }
    }

    fn told() -> String {
        let effect = EffectReport {
            pairs: 41,
            connections_held_out: 512,
            measures: vec![
                measure("goodput", Some(0.07)),
                measure("RTT inflation", None),
            ],
            stops: vec![StopView {
                group: "203.0.113.0/24".to_owned(),
                active: true,
                ..Default::default()
            }],
            ..Default::default()
        };
        text(learning(), Some(effect)).unwrap()
    }

    #[test]
    fn figures_are_samples_with_labels_of_few_values() {
        let text = told();
        for line in [
            "tcpilot_attached 1.0",
            "tcpilot_learner_rows_limit 32768.0",
            "tcpilot_learner_records_total{result=\"taught\"} 850.0",
            "tcpilot_choices_total{policy=\"default\",algorithm=\"bbr\"} 730.0",
            "tcpilot_steered_ratio 0.2",
            "tcpilot_effect_ratio{measure=\"goodput\",bound=\"low\"} 0.07",
            "tcpilot_effect_ratio{measure=\"RTT inflation\",bound=\"estimate\"} 0.12",
            "tcpilot_guard_stops{scope=\"group\"} 1.0",
            "tcpilot_guard_stops{scope=\"host\"} 0.0",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
        assert!(
            !text.contains("203.0.113"),
            "no address is a label:\n{text}"
        );
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn the_classic_format_names_counters_as_their_samples() {
        let text = classic(&told());
        for line in [
            "# TYPE tcpilot_build_info gauge",
            "# TYPE tcpilot_choices_total counter",
            "tcpilot_choices_total{policy=\"default\",algorithm=\"bbr\"} 730.0",
            "# TYPE tcpilot_guard_stops gauge",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("# UNIT") && !text.contains("# EOF"));
    }

    #[test]
    fn each_family_says_what_it_is_and_has_its_type() {
        let text = told();
        let types: Vec<_> = text.lines().filter(|l| l.starts_with("# TYPE")).collect();
        let helps: Vec<_> = text.lines().filter(|l| l.starts_with("# HELP")).collect();
        assert_eq!(types.len(), helps.len());
        for help in helps {
            let words = help.split(' ').skip(3).count();
            assert!(
                words >= 2 && help.ends_with('.') && !help.ends_with(".."),
                "{help}"
            );
        }
    }
}
