//! The fields of the JSON of each command, for its `--help` and its manual page.

use tcpilot_show::{
    fields::{fields, json},
    select,
};

use crate::figures::{
    AddressView, ChangeView, CheckReport, CheckView, ChoicesView, CohortView, DecisionView,
    DrawnAlgorithm, EffectReport, ExplainedPath, Explanation, FleetComparison, FleetReport,
    FleetStatus, FleetView, GroupView, HistogramView, LearningStatus, MeasureView, PathView,
    PointView, PolicyEffect, PolicyStatus, RescueStatus, ShownView, StateSummary, Status, StopView,
    TrafficView, TuneView, TuningView, TuningsStatus, Upgrades,
};

/// The columns of `paths`, and their places in its JSON.
pub fn paths() -> String {
    format!(
        "{}\n--json has them by the same names in `paths[]`. Those from `algorithm` on (there\n\
         `name`) stand in its `algorithms[]`.\n\n{}",
        select::help::<PathView>(),
        json("`fleet`", "fleet.", vec![fields::<FleetView>("fleet.")])
    )
}

/// The JSON of `explain`.
pub fn explain() -> String {
    let (tuning, tune) = ("paths[].tuning.", "paths[].tuning.tunings[].");
    json(
        "--json",
        "",
        vec![
            fields::<Explanation>(""),
            fields::<ExplainedPath>("paths[]."),
            fields::<DecisionView>("paths[].decisions[]."),
            fields::<TuningView>(tuning),
            fields::<TuneView>(tune),
            fields::<CohortView>(&format!("{tune}with.")),
        ],
    )
}

/// The JSON of `report`.
pub fn report() -> String {
    let effect = vec![
        fields::<EffectReport>(""),
        fields::<MeasureView>("measures[]."),
        fields::<PolicyEffect>("policies[]."),
        fields::<GroupView>("worst[]."),
        fields::<StopView>("stops[]."),
        fields::<PointView>("history[]."),
        fields::<ChoicesView>("choices[]."),
    ];
    let fleet = vec![
        fields::<FleetReport>(""),
        fields::<FleetComparison>("first."),
    ];
    json("--json", "", effect) + "\n" + &json("--fleet --json", "", fleet)
}

/// The JSON of `status`.
pub fn status() -> String {
    json(
        "--json",
        "",
        vec![
            fields::<Status>(""),
            fields::<AddressView>("gains[]."),
            fields::<TrafficView>("traffic."),
            fields::<RescueStatus>("rescued."),
            fields::<LearningStatus>("learning."),
            fields::<PolicyStatus>("learning.policies[]."),
            fields::<DrawnAlgorithm>("learning.policies[].algorithms[]."),
            fields::<ShownView>("learning.policies[].algorithms[].shown[]."),
            fields::<HistogramView>("learning.policies[].algorithms[].shown[].goodput."),
            fields::<ChangeView>("learning.changes[]."),
            fields::<FleetStatus>("fleet."),
            fields::<TuningsStatus>("tunings."),
            fields::<Upgrades>("take_overs."),
        ],
    )
}

/// The JSON of `check`.
pub fn check() -> String {
    let parts = vec![fields::<CheckReport>(""), fields::<CheckView>("checks[].")];
    json("--json", "", parts)
}

/// The JSON of `state show`.
pub fn state_show() -> String {
    json("--json", "", vec![fields::<StateSummary>("")])
}

#[cfg(test)]
mod tests {
    use tcpilot_show::figure::View;

    use super::*;

    #[test]
    fn every_field_is_explained_on_a_narrow_terminal() {
        for help in [
            paths(),
            explain(),
            report(),
            status(),
            check(),
            state_show(),
        ] {
            for line in help.lines() {
                assert!(line.chars().count() <= 80, "{line}");
            }
        }
        let status = status();
        let keys = Status::FIGURES.iter().map(|figure| figure.key);
        for key in keys.chain(["resident_bytes", "withheld", "bounds"]) {
            assert!(status.contains(&format!("  {key}")), "{key}");
        }
        assert!(status.contains("\n    rate (bytes/s): "), "{status}");
    }
}
