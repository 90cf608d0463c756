use super::*;
use crate::{figures::StopView, table::tests::learning};
use tcpilot_show::metrics::classic;

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
    let mut status = learning();
    status.fleet = Some(FleetStatus {
        groups_said: 210,
        said_ago_s: Some(41.0),
        groups_heard: 5400,
        heard_ago_s: Some(380.0),
        refused: [("version".to_owned(), 2)].into(),
        ..Default::default()
    });
    text(status, Some(effect)).unwrap()
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
        "tcpilot_steered_traffic_ratio 0.613",
        "tcpilot_host_traffic_bytes_total{direction=\"sent\"} 15200000000.0",
        "tcpilot_rows_valid 1.0",
        "tcpilot_rows_voided_total 1.0",
        "tcpilot_learner_turn_seconds_bucket{le=\"0.01\"} 147600",
        "tcpilot_learner_turn_seconds_count 147602",
        "tcpilot_goodput_bytes_per_second_bucket{le=\"+Inf\",policy=\"default\",algorithm=\"bbr\",group=\"treated\"} 730",
        "tcpilot_retransmitted_segments_total{policy=\"default\",algorithm=\"cubic\",group=\"control\"} 420.0",
        "tcpilot_effect_ratio{measure=\"goodput\",bound=\"low\"} 0.07",
        "tcpilot_effect_ratio{measure=\"RTT inflation\",bound=\"estimate\"} 0.12",
        "tcpilot_guard_stops{scope=\"group\"} 1.0",
        "tcpilot_guard_stops{scope=\"host\"} 0.0",
        "tcpilot_fleet_groups{direction=\"heard\"} 5400.0",
        "tcpilot_fleet_age_seconds{direction=\"said\"} 41.0",
        "tcpilot_fleet_refused_total{reason=\"version\"} 2.0",
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
fn each_family_has_help_and_type() {
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

/// scripts/promtool checks the same text. `TCPILOT_RENEW=1` renews it.
#[test]
fn scrape_is_the_stored_copy() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/metrics/example.prom");
    if std::env::var_os("TCPILOT_RENEW").is_some() {
        std::fs::write(file, classic(&told())).unwrap();
    }
    assert_eq!(std::fs::read_to_string(file).unwrap(), classic(&told()));
}

/// Every name of a metric in a text, with the labels between its braces.
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
fn dashboard_and_alerts_use_existing_metrics() {
    let exposed = classic(&told());
    let families = exposed.lines().filter(|l| l.starts_with("# TYPE "));
    let families = families
        .filter_map(|l| l.split(' ').nth(2))
        .map(str::to_owned);
    // A histogram's samples have names of their own.
    let histograms = exposed.lines().filter_map(|l| l.strip_suffix(" histogram"));
    let histograms = histograms.filter_map(|l| Some(format!("{}_bucket", l.split(' ').nth(2)?)));
    let families: Vec<String> = families.chain(histograms).collect();
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
            assert!(families.contains(&name), "{file}: {name}");
            for label in labels {
                assert!(has_label(&name, &label), "{file}: {name} by {label}");
            }
        }
    }
}
