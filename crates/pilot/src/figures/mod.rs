//! The pilot's figures: each is declared here, once. The daemon fills the views ([`crate::read`]),
//! and commands print them as tables ([`crate::table`]) or as JSON.
//!
//! Rates are bytes per second, RTTs microseconds, ages seconds. `null` means no sample.

use serde::Serialize;

mod address;
mod check;
mod effect;
mod fleet;
mod flow;
pub(crate) mod measure;
mod path;
mod status;
mod stored;
mod tuning;

pub use address::{AddressView, Busiest};
pub use check::{CheckReport, CheckView};
pub use effect::{
    ChoicesView, EffectReport, GroupView, MeasureView, PointView, PolicyEffect, StopView,
};
pub use fleet::{FleetComparison, FleetReport, FleetStatus, FleetView};
pub use flow::{DecisionView, ExplainedPath, Explanation, FlowView};
pub use path::{AlgorithmView, PathView};
pub use status::{
    ChangeView, DrawnAlgorithm, HistogramView, LearningStatus, PolicyStatus, RescueStatus,
    ShownView, StateSummary, Status, TrafficView, Upgrades,
};
pub use stored::{StoredAlgorithm, StoredPath};
pub use tuning::{CohortView, TuneView, TuningView, TuningsStatus};

/// The document of `tcpilot paths`: an object, so it can have a version.
#[derive(Debug, Serialize)]
pub struct Paths {
    /// The most recently used first.
    pub paths: Vec<PathView>,
}

/// The document of `tcpilot flows`.
#[derive(Debug, Serialize)]
pub struct Flows {
    /// Live connections.
    pub flows: Vec<FlowView>,
}
