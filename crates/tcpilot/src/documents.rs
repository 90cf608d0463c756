//! The tables of fields in `docs/use/commands.md` follow from the figures. `TCPILOT_RENEW=1 cargo test -p
//! tcpilot documents` renews them.

use std::{fs, path::Path, sync::Mutex};

use tcpilot_abi::Why;
use tcpilot_pilot::check::{CheckReport, CheckView};
use tcpilot_pilot::figures::{
    AddressView, AlgorithmView, ChangeView, ChoicesView, CohortView, DecisionView, DrawnAlgorithm,
    EffectReport, ExplainedPath, Explanation, FleetStatus, FleetView, FlowView, GroupView,
    HistogramView, LearningStatus, MeasureView, PathView, PointView, PolicyEffect, PolicyStatus,
    RescueStatus, ShownView, StateSummary, Status, StopView, TrafficView, TuneView, TuningView,
    TuningsStatus, Upgrades,
};
use tcpilot_show::figure::View;
use tcpilot_watch::{census, fair, link, views as watch};

use crate::cc;

const BEGIN: &str = "<!-- generated from the figures: begin -->\n";
const END: &str = "<!-- generated from the figures: end -->\n";

/// The rows of a view; `place` is its prefix in the document.
fn rows<V: View>(place: &str) -> String {
    V::FIGURES
        .iter()
        .map(|f| {
            let cells = [&format!("`{place}{}`", f.key), f.unit.name(), f.doc.trim()];
            format!("| {} |\n", cells.join(" | ")).replace("|  |", "| |")
        })
        .collect()
}

fn section(command: &str, text: &str, rows: &[String]) -> String {
    let head = "| field | unit | meaning |\n|---|---|---|\n";
    format!("### {command}\n\n{text}\n\n{head}{}\n", rows.concat())
}

fn reasons() -> String {
    let rows = Why::ALL.map(|why| format!("| `{}` | {} |\n", why.word(), why.sentence()));
    format!(
        "`why` is one of\n\n| word | meaning |\n|---|---|\n{}\n",
        rows.concat()
    )
}

/// Commands of the pilot.
fn sections_of_the_pilot() -> String {
    let (tuning, tune) = ("paths[].tuning.", "paths[].tuning.tunings[].");
    [
        section(
            "paths",
            "All paths, the most recently used first.",
            &[
                rows::<PathView>("paths[]."),
                rows::<AlgorithmView>("paths[].algorithms[]."),
                rows::<FleetView>("paths[].fleet."),
            ],
        ),
        section("flows", "All live connections.", &[rows::<FlowView>("flows[].")]),
        reasons(),
        section(
            "explain",
            "It also takes the remote end of a connection as `flows` shows it, such as `203.0.113.9:443` or `[fe80::1%eth0]:443`.\n\
             If you ask about a name with several addresses, it prints an object for each. If you ask about a path, such\n\
             as `203.0.113.0/24`, `flows[]` lists the connections to all of its addresses.",
            &[
                rows::<Explanation>(""),
                rows::<ExplainedPath>("paths[]."),
                rows::<DecisionView>("paths[].decisions[]."),
                rows::<TuningView>(tuning),
                rows::<TuneView>(tune),
                rows::<CohortView>(&format!("{tune}with.")),
            ],
        ),
        section(
            "report",
            "Whether steering helps. Each field of `sums` is a sum over pairs, so you can add it up over hosts.",
            &[
                rows::<EffectReport>(""),
                rows::<MeasureView>("measures[]."),
                rows::<PolicyEffect>("policies[]."),
                rows::<GroupView>("worst[]."),
                rows::<StopView>("stops[]."),
                rows::<PointView>("history[]."),
                rows::<ChoicesView>("choices[]."),
            ],
        ),
        section_of_status(),
    ]
    .concat()
}

fn section_of_status() -> String {
    section(
        "status",
        "The daemon.",
        &[
            rows::<Status>(""),
            rows::<AddressView>("gains[]."),
            rows::<TrafficView>("traffic."),
            rows::<RescueStatus>("rescued."),
            rows::<LearningStatus>("learning."),
            rows::<PolicyStatus>("learning.policies[]."),
            rows::<DrawnAlgorithm>("learning.policies[].algorithms[]."),
            rows::<ShownView>("learning.policies[].algorithms[].shown[]."),
            rows::<HistogramView>("learning.policies[].algorithms[].shown[].goodput."),
            rows::<ChangeView>("learning.changes[]."),
            rows::<FleetStatus>("fleet."),
            rows::<TuningsStatus>("tunings."),
            rows::<Upgrades>("take_overs."),
        ],
    )
}

/// Commands without a daemon.
fn sections_of_the_watch() -> String {
    [
        section(
            "check",
            "Whether tcpilot can run here. `traffic` has the fields of `status`.",
            &[rows::<CheckReport>(""), rows::<CheckView>("checks[].")],
        ),
        section("cc list", "All congestion controls.", &[rows::<cc::Algorithm>("algorithms[].")]),
        section("state show", "A summary of the knowledge that is kept.", &[rows::<StateSummary>("")]),
        section(
            "watch",
            "Each line is a document. One of `type` `flow` has `t_s`, the seconds since the watch began, and",
            &[rows::<link::FlowView>("")],
        ),
        "One of `type` `totals` has\n\n".to_owned(),
        "| field | unit | meaning |\n|---|---|---|\n".to_owned(),
        rows::<watch::View>("").lines().filter(|row| !row.starts_with("| `flows`")).fold(
            String::new(),
            |text, row| text + row + "\n",
        ),
        rows::<link::GroupView>("groups[]."),
        rows::<fair::FairView>("fair."),
        rows::<fair::QueuesView>("fair.groups[]."),
        rows::<watch::CaptureView>("capture."),
        "\nWith `--census` there is a line of `type` `census` for each minute, and at the end, and nothing else. It has\n\n"
            .to_owned(),
        "| field | unit | meaning |\n|---|---|---|\n".to_owned(),
        rows::<census::Census>(""),
        rows::<census::CensusRow>("rows[]."),
        "\n".to_owned(),
    ]
    .concat()
}

/// Compares the text between two marks of `docs/use/commands.md`, or writes it if `TCPILOT_RENEW` is set.
pub(crate) fn assert_manual(begin: &str, end: &str, generated: &str) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _only = ONE_AT_A_TIME.lock();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/use/commands.md");
    let text = fs::read_to_string(&file).unwrap();
    let (before, rest) = text.split_once(begin).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    let renewed = format!("{before}{begin}{generated}{end}{after}");
    if std::env::var_os("TCPILOT_RENEW").is_some() {
        fs::write(&file, &renewed).unwrap();
    }
    let stored = fs::read_to_string(&file).unwrap();
    let mut lines = stored.lines().zip(renewed.lines());
    let differs = lines.position(|(a, b)| a != b).map(|at| at + 1);
    assert!(
        stored == renewed,
        "docs/use/commands.md differs from line {differs:?} on; TCPILOT_RENEW=1 renews it"
    );
}

#[test]
fn the_manual_has_every_field_of_json() {
    assert_manual(
        BEGIN,
        END,
        &format!(
            "\n{}",
            [sections_of_the_pilot(), sections_of_the_watch()].concat()
        ),
    );
}
