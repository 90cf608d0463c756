//! The text of metrics: OpenMetrics, and the older format of Prometheus.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{
        DescriptorEncoder, EncodeMetric, MetricEncoder, text::encode_eof, text::encode_registry,
    },
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge, info::Info},
    registry::{Registry, Unit},
};

use crate::{figure::View, output::printable};

/// The content type of OpenMetrics 1.0.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Labels of a sample.
pub type Labels<'a> = Vec<(&'a str, &'a str)>;

/// The meaning of a sample's number.
#[derive(Clone, Copy)]
pub enum Kind {
    /// A count that only grows.
    Counter,
    /// Any other.
    Gauge,
}

/// The kind of a family, and its unit.
pub type Type = (Kind, Option<&'static Unit>);

/// A count that only grows.
pub const COUNTER: Type = (Kind::Counter, None);
/// Any other number.
pub const GAUGE: Type = (Kind::Gauge, None);
/// A time.
pub const SECONDS: Type = (Kind::Gauge, Some(&Unit::Seconds));
/// A time that only grows.
pub const SECONDS_SPENT: Type = (Kind::Counter, Some(&Unit::Seconds));
/// An amount of bytes.
pub const BYTES: Type = (Kind::Gauge, Some(&Unit::Bytes));
/// A count of bytes.
pub const BYTES_SUM: Type = (Kind::Counter, Some(&Unit::Bytes));

/// A histogram's samples.
#[derive(Clone, Copy)]
pub struct Histogram<'a> {
    /// Upper bounds, least first.
    pub bounds: &'a [f64],
    /// Values up to each bound and above the one before, and at last those above all bounds.
    pub counts: &'a [u64],
    /// The sum of all values.
    pub sum: f64,
}

/// The metrics of a collector, as OpenMetrics, after the versions.
///
/// # Errors
/// None: the text is written to memory.
pub fn text_of(
    (about, build): (&str, Vec<(&'static str, String)>),
    collector: Box<dyn Collector>,
) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("tcpilot");
    registry.register("build", about, Info::new(build));
    registry.register_collector(collector);
    let mut text = String::new();
    encode_registry(&mut text, &registry)?;
    encode_eof(&mut text)?;
    Ok(text)
}

/// Turns OpenMetrics into the format of Prometheus 0.0.4, the format of the node exporter and of `promtool
/// check metrics`. There a counter's family has the name of its samples, and there are neither units nor
/// infos.
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

/// Labels whose values a terminal can show. The library escapes them for the format.
fn printable_labels(labels: Labels<'_>) -> Vec<(&str, String)> {
    let labels = labels.into_iter();
    labels
        .map(|(name, value)| (name, printable(value)))
        .collect()
}

/// Writes families, each with its samples.
pub struct Writer<'a>(pub DescriptorEncoder<'a>);

impl Writer<'_> {
    /// A family of the figure `key` of the view `V`.
    ///
    /// # Errors
    /// None: the text is written to memory.
    pub fn family<'s, V: View>(
        &mut self,
        name: &str,
        key: &str,
        (kind, unit): Type,
        samples: impl IntoIterator<Item = (Labels<'s>, f64)>,
    ) -> fmt::Result {
        let help = about::<V>(key);
        self.described(name, &help, (kind, unit), samples)
    }

    /// Families of one sample each, without labels: name of the metric, key of the figure, type, value.
    ///
    /// # Errors
    /// None: the text is written to memory.
    pub fn singles<V: View>(
        &mut self,
        families: impl IntoIterator<Item = (&'static str, &'static str, Type, f64)>,
    ) -> fmt::Result {
        for (name, key, metric_type, value) in families {
            self.family::<V>(name, key, metric_type, [(Vec::new(), value)])?;
        }
        Ok(())
    }

    /// A family with a help of its own.
    ///
    /// # Errors
    /// None: the text is written to memory.
    pub fn described<'s>(
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
        // The library ends the help of registered metrics with a full stop, so we do.
        let help = format!("{help}.");
        let mut family = self.0.encode_descriptor(name, &help, unit, metric_type)?;
        for (labels, value) in samples {
            // A family without labels has one sample, and no braces.
            if labels.is_empty() {
                return encode(family, kind, value);
            }
            encode(
                family.encode_family(&printable_labels(labels))?,
                kind,
                value,
            )?;
        }
        Ok(())
    }

    /// A family of histograms of the figure `key` of the view `V`.
    ///
    /// # Errors
    /// None: the text is written to memory.
    pub fn histograms<'s, V: View, H: Into<Histogram<'s>>>(
        &mut self,
        name: &str,
        key: &str,
        unit: Option<&'static Unit>,
        samples: impl IntoIterator<Item = (Labels<'s>, H)>,
    ) -> fmt::Result {
        let help = format!("{}.", about::<V>(key));
        let kind = MetricType::Histogram;
        let mut family = self.0.encode_descriptor(name, &help, unit, kind)?;
        for (labels, histogram) in samples {
            if labels.is_empty() {
                return encode_histogram(family, histogram.into());
            }
            encode_histogram(
                family.encode_family(&printable_labels(labels))?,
                histogram.into(),
            )?;
        }
        Ok(())
    }
}

/// Writes a histogram. Its last count is for values above all bounds.
fn encode_histogram(mut encoder: MetricEncoder<'_>, histogram: Histogram<'_>) -> fmt::Result {
    let bounds = histogram.bounds.iter().copied();
    let bounds = bounds.chain(std::iter::once(f64::INFINITY));
    let buckets: Vec<(f64, u64)> = bounds.zip(histogram.counts.iter().copied()).collect();
    let count = histogram.counts.iter().sum();
    encoder.encode_histogram::<Labels<'_>>(histogram.sum, count, &buckets, None)
}

fn encode(encoder: MetricEncoder<'_>, kind: Kind, value: f64) -> fmt::Result {
    match kind {
        Kind::Counter => ConstCounter::new(value).encode(encoder),
        Kind::Gauge => ConstGauge::new(value).encode(encoder),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct OfDevice(&'static str);

    impl Collector for OfDevice {
        fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
            let samples = [(vec![("device", self.0)], 1.0)];
            Writer(encoder).described("packets", "Packets", COUNTER, samples)
        }
    }

    #[test]
    fn labels_are_escaped_for_format_and_terminal() {
        let text = text_of(("", Vec::new()), Box::new(OfDevice("e\"\\\n\u{1b}"))).unwrap();
        let sample = r#"tcpilot_packets_total{device="e\"\\ \\u{1b}"} 1.0"#;
        assert!(text.lines().any(|line| line == sample), "{text}");
    }
}
