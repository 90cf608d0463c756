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

/// The meaning of a sample's number.
#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
}

/// The answers of the daemon.
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
    let about = "Versions of tcpilot and of the kernel, and the learner in force";
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

/// The help of a figure, from its declaration.
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
        (kind, unit): Type,
        samples: impl IntoIterator<Item = (Labels<'s>, f64)>,
    ) -> fmt::Result {
        let help = about::<V>(key);
        self.described(name, &help, (kind, unit), samples)
    }

    /// Families of one sample each, without labels: name, key of the figure, type, value.
    fn singles<V: View>(
        &mut self,
        families: impl IntoIterator<Item = (&'static str, &'static str, Type, f64)>,
    ) -> fmt::Result {
        for (name, key, metric_type, value) in families {
            self.family::<V>(name, key, metric_type, [(Vec::new(), value)])?;
        }
        Ok(())
    }

    fn described<'s>(
        &mut self,
        name: &str,
        help: &str,
        (kind, unit): Type,
        samples: impl IntoIterator<Item = (Labels<'s>, f64)>,
    ) -> fmt::Result {
        let metric_type = match kind {
            Kind::Counter => ConstCounter::new(0.0).metric_type(),
            Kind::Gauge => ConstGauge::new(0.0).metric_type(),
        };
        // Like the help of registered metrics, which the library ends so.
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

/// The kind of a family, and its unit.
type Type = (Kind, Option<&'static Unit>);

const COUNTER: Type = (Kind::Counter, None);
const GAUGE: Type = (Kind::Gauge, None);
const SECONDS: Type = (Kind::Gauge, Some(&Unit::Seconds));
const SECONDS_SPENT: Type = (Kind::Counter, Some(&Unit::Seconds));
const BYTES: Type = (Kind::Gauge, Some(&Unit::Bytes));

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
    out.singles::<Status>([
        (
            "attached",
            "attached",
            GAUGE,
            f64::from(u8::from(s.attached)),
        ),
        ("dry_run", "dry_run", GAUGE, f64::from(u8::from(s.dry_run))),
        ("uptime", "uptime_s", SECONDS, s.uptime_s as f64),
        ("closed", "closed", COUNTER, s.closed as f64),
        ("rescues", "rescues", COUNTER, s.rescues as f64),
        ("moves", "moves", COUNTER, s.moves as f64),
        ("paths", "paths", GAUGE, s.paths.into()),
        ("paths_limit", "paths_max", GAUGE, s.paths_max.into()),
        ("bpf_events", "bpf_events", COUNTER, s.bpf_events as f64),
        ("bpf_run", "bpf_ns", SECONDS_SPENT, s.bpf_ns as f64 / 1e9),
        (
            "resident_memory",
            "resident_bytes",
            BYTES,
            s.resident_bytes as f64,
        ),
    ])?;
    out.described(
        "degraded",
        "Number of things that do not work as they should; `tcpilot status` names them",
        GAUGE,
        [(Vec::new(), s.degraded.len() as f64)],
    )?;
    let opened = s.connections.iter();
    let opened = opened.map(|(why, count)| (vec![("why", why.as_str())], *count as f64));
    out.family::<Status>("connections", "connections", COUNTER, opened)?;
    let take_overs = [
        ("done", s.take_overs.done),
        ("refused", s.take_overs.refused),
    ];
    let take_overs = take_overs.map(|(result, count)| (vec![("result", result)], count as f64));
    out.family::<Status>("take_overs", "take_overs", COUNTER, take_overs)
}

fn learner(out: &mut Writer<'_>, l: &LearningStatus) -> fmt::Result {
    out.singles::<LearningStatus>([
        ("learner_paths", "paths", GAUGE, l.paths as f64),
        ("learner_nodes", "nodes", GAUGE, l.nodes as f64),
        ("learner_rows", "rows", GAUGE, l.rows as f64),
        ("learner_rows_limit", "rows_max", GAUGE, l.rows_max as f64),
        (
            "learner_publications",
            "publications",
            COUNTER,
            l.publications as f64,
        ),
        (
            "learner_records_dropped",
            "dropped",
            COUNTER,
            l.dropped as f64,
        ),
        ("learner_explored", "explored", COUNTER, l.explored),
    ])?;
    let silent = l.silent.iter().map(|(why, count)| (why.as_str(), *count));
    let records = std::iter::once(("taught", l.taught)).chain(silent);
    let records = records.map(|(result, count)| (vec![("result", result)], count as f64));
    out.described(
        "learner_records",
        "Records of connections that taught the learner something, or did not, by the reason",
        COUNTER,
        records,
    )?;
    out.described(
        "steered_ratio",
        "Share of the groups of addresses that are steered",
        GAUGE,
        [(Vec::new(), f64::from(l.steer_percent) / 100.0)],
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
    let measures = e.measures.iter().flat_map(interval);
    out.family::<EffectReport>("effect_ratio", "measures", GAUGE, measures)?;
    let held_out = e.connections_held_out as f64;
    out.singles::<EffectReport>([
        ("effect_pairs", "pairs", COUNTER, e.pairs as f64),
        (
            "held_out_connections",
            "connections_held_out",
            COUNTER,
            held_out,
        ),
    ])?;
    let active = || e.stops.iter().filter(|stop| stop.active);
    let of_host = active().filter(|stop| stop.group.is_empty()).count();
    let stops = [("host", of_host), ("group", active().count() - of_host)];
    let stops = stops.map(|(scope, count)| (vec![("scope", scope)], count as f64));
    out.described(
        "guard_stops",
        "Stops of steering by the guard that are in force",
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

    /// The text that promtool checks, too: scripts/promtool. `TCPILOT_RENEW=1` writes it anew.
    #[test]
    fn what_a_scraper_gets_is_the_stored_copy() {
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/src/pilot/metrics/example.prom"
        );
        if std::env::var_os("TCPILOT_RENEW").is_some() {
            std::fs::write(file, classic(&told())).unwrap();
        }
        assert_eq!(std::fs::read_to_string(file).unwrap(), classic(&told()));
    }

    /// Every name of a metric in a text, with the labels that are asked for between its braces.
    fn named(text: &str) -> Vec<(String, Vec<String>)> {
        let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
        let parts = text.split("tcpilot_").skip(1);
        parts
            .map(|rest| {
                let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
                let braces = rest[end..].strip_prefix('{');
                let braces = braces.and_then(|rest| rest.split_once('}'));
                let labels = braces.map_or("", |(labels, _)| labels).split(',');
                let labels = labels.filter_map(|label| label.split(['=', '!']).next());
                let labels = labels.filter(|label| !label.is_empty());
                (
                    format!("tcpilot_{}", &rest[..end]),
                    labels.map(str::to_owned).collect(),
                )
            })
            .collect()
    }

    #[test]
    fn dashboard_and_alerts_ask_for_metrics_that_there_are() {
        let exposed = classic(&told());
        let families = exposed.lines().filter(|l| l.starts_with("# TYPE "));
        let families: Vec<_> = families.filter_map(|l| l.split(' ').nth(2)).collect();
        let has_label = |name: &str, label: &str| {
            let mut samples = exposed
                .lines()
                .filter(|l| l.starts_with(&format!("{name}{{")));
            label == "instance" || samples.any(|sample| sample.contains(&format!("{label}=")))
        };
        for file in ["grafana/tcpilot.json", "prometheus/tcpilot.rules.yml"] {
            let path = format!("{}/../../packaging/{file}", env!("CARGO_MANIFEST_DIR"));
            let asked = named(&std::fs::read_to_string(path).unwrap());
            assert!(asked.len() >= 6, "{file}: {asked:?}");
            for (name, labels) in asked {
                assert!(families.contains(&name.as_str()), "{file}: {name}");
                for label in labels {
                    assert!(has_label(&name, &label), "{file}: {name} by {label}");
                }
            }
        }
    }
}
