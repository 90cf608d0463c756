//! Writes the figures as the text of metrics.

use std::fmt;

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder, registry::Unit};
use tcpilot_show::metrics::{
    BYTES, BYTES_SUM, COUNTER, GAUGE, Histogram, Labels, SECONDS, SECONDS_SPENT, Writer, text_of,
};

use crate::figures::{
    EffectReport, FleetStatus, HistogramView, LearningStatus, MeasureView, PolicyStatus, ShownView,
    Status, TrafficView,
};

impl<'a> From<&'a HistogramView> for Histogram<'a> {
    fn from(view: &'a HistogramView) -> Histogram<'a> {
        Histogram {
            bounds: &view.bounds,
            counts: &view.counts,
            sum: view.sum,
        }
    }
}

/// The answers of the daemon.
#[derive(Debug)]
struct Figures {
    status: Status,
    effect: Option<EffectReport>,
}

/// The metrics of a daemon, as OpenMetrics; `effect` if its learner compares with held-out connections.
///
/// # Errors
/// None: the text is written to memory.
pub fn text(status: Status, effect: Option<EffectReport>) -> Result<String, fmt::Error> {
    let build = vec![
        ("version", status.version.clone()),
        ("kernel", status.kernel.clone()),
        ("learner", status.learner.clone()),
    ];
    let about = "Versions of tcpilot and of the kernel, and the learner in force";
    text_of((about, build), Box::new(Figures { status, effect }))
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
    out.singles::<Status>([
        (
            "attached",
            "attached",
            GAUGE,
            f64::from(u8::from(s.attached)),
        ),
        ("dry_run", "dry_run", GAUGE, f64::from(u8::from(s.dry_run))),
        ("uptime", "uptime_s", SECONDS, s.uptime_s as f64),
        ("live_flows", "live_flows", GAUGE, s.live_flows as f64),
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
    if let Some(traffic) = &s.traffic {
        host_traffic(out, traffic)?;
    }
    if let Some(part) = &s.fleet {
        fleet(out, part)?;
    }
    let valid = f64::from(u8::from(s.choice_dists_valid));
    out.singles::<Status>([
        ("rows_valid", "choice_dists_valid", GAUGE, valid),
        (
            "rows_voided",
            "choice_dists_expired",
            COUNTER,
            s.choice_dists_expired as f64,
        ),
    ])?;
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

fn fleet(out: &mut Writer<'_>, f: &FleetStatus) -> fmt::Result {
    let groups = [("said", f.groups_said), ("heard", f.groups_heard)];
    let groups = groups.map(|(direction, count)| (vec![("direction", direction)], count as f64));
    out.described(
        "fleet_groups",
        "Groups of addresses that this host says something of to its fleet, and those that it hears of",
        GAUGE,
        groups,
    )?;
    let ages = [("said", f.said_ago_s), ("heard", f.heard_ago_s)];
    let ages = ages
        .into_iter()
        .filter_map(|(direction, ago_s)| Some((vec![("direction", direction)], ago_s?)));
    out.described(
        "fleet_age",
        "Time since what this host says to its fleet, and what it hears, was written",
        SECONDS,
        ages,
    )?;
    let refused = f.refused.iter();
    let refused = refused.map(|(why, count)| (vec![("reason", why.as_str())], *count as f64));
    out.family::<FleetStatus>("fleet_refused", "refused", COUNTER, refused)
}

fn host_traffic(out: &mut Writer<'_>, t: &TrafficView) -> fmt::Result {
    let directions = [("sent", t.sent_bytes), ("received", t.received_bytes)];
    let directions =
        directions.map(|(direction, bytes)| (vec![("direction", direction)], bytes as f64));
    out.described(
        "host_traffic",
        "Bytes that the devices of this host sent and received since the daemon attached",
        BYTES_SUM,
        directions,
    )?;
    let steered = [(
        "steered_traffic",
        "steered_bytes",
        BYTES_SUM,
        t.steered_bytes as f64,
    )];
    out.singles::<TrafficView>(steered)?;
    let share = t.share.map(|share| (Vec::new(), share));
    out.family::<TrafficView>("steered_traffic_ratio", "share", GAUGE, share)
}

/// The measures of each algorithm's connections: goodput, and segments sent and retransmitted.
fn shown(out: &mut Writer<'_>, l: &LearningStatus) -> fmt::Result {
    let all = || {
        l.policies.iter().flat_map(|policy| {
            policy.algorithms.iter().flat_map(move |algorithm| {
                algorithm.shown.iter().map(move |shown| {
                    let labels = vec![
                        ("policy", policy.policy.as_str()),
                        ("algorithm", algorithm.name.as_str()),
                        ("group", shown.group.as_str()),
                    ];
                    (labels, shown)
                })
            })
        })
    };
    let goodput = all().map(|(labels, shown)| (labels, &shown.goodput));
    let name = "goodput_bytes_per_second";
    out.histograms::<ShownView, _>(name, "goodput", None, goodput)?;
    let least = all().map(|(labels, shown)| (labels, &shown.min_rtt));
    out.histograms::<ShownView, _>("min_rtt", "min_rtt", Some(&Unit::Seconds), least)?;
    let smoothed = all().map(|(labels, shown)| (labels, &shown.srtt));
    out.histograms::<ShownView, _>("srtt", "srtt", Some(&Unit::Seconds), smoothed)?;
    let segments = all().map(|(labels, shown)| (labels, shown.segments as f64));
    out.family::<ShownView>("segments", "segments", COUNTER, segments)?;
    let again = all().map(|(labels, shown)| (labels, shown.retransmitted as f64));
    out.family::<ShownView>("retransmitted_segments", "retransmitted", COUNTER, again)
}

fn learner(out: &mut Writer<'_>, l: &LearningStatus) -> fmt::Result {
    shown(out, l)?;
    let turns = [(Vec::new(), &l.turns)];
    out.histograms::<LearningStatus, _>("learner_turn", "turns", Some(&Unit::Seconds), turns)?;
    out.singles::<LearningStatus>([
        ("learner_paths", "paths", GAUGE, l.paths as f64),
        ("learner_nodes", "nodes", GAUGE, l.nodes as f64),
        ("learner_rows", "choice_dists", GAUGE, l.choice_dists as f64),
        (
            "learner_rows_limit",
            "choice_dists_max",
            GAUGE,
            l.choice_dists_max as f64,
        ),
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
    let rejected = l.rejected.iter().map(|(why, count)| (why.as_str(), *count));
    let records = std::iter::once(("taught", l.updates)).chain(rejected);
    let records = records.map(|(result, count)| (vec![("result", result)], count as f64));
    out.described(
        "learner_records",
        "Records of connections that updated the learner, or were rejected, by the reason",
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
    out.family::<PolicyStatus>("choices", "algorithms", COUNTER, choices)
}

/// The known ends of a measure's interval.
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
mod tests;
