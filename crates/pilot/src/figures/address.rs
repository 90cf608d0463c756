//! The figures of an address: its paths, one for each class of handshakes, in one row for people.

use serde::{Deserialize, Serialize};
use tcpilot_show::figure::figures;

use super::path::{AlgorithmView, PathView};

figures! {
    /// An address, with and without steering.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub AddressView {
        /// Address or prefix; then namespace, interface and policy, if unusual.
        path: String;
        /// Most likely algorithm of its next connection.
        algorithm: String;
        /// `expected_rate` with it, as in `paths`.
        rate: Option<u64>, BytesPerSecond;
        /// End of its 95 % interval.
        rate_low: Option<u64>, BytesPerSecond;
        /// End of its 95 % interval.
        rate_high: Option<u64>, BytesPerSecond;
        /// The same with the kernel's default.
        rate_without: Option<u64>, BytesPerSecond;
        /// End of its 95 % interval.
        rate_without_low: Option<u64>, BytesPerSecond;
        /// End of its 95 % interval.
        rate_without_high: Option<u64>, BytesPerSecond;
        /// Gain of reward over the kernel's default; `null` for the default.
        effect: Option<f64>, Share;
        /// End of its 95 % interval.
        effect_low: Option<f64>, Share;
        /// End of its 95 % interval.
        effect_high: Option<f64>, Share;
        /// Whether the whole interval of the effect is above 0.
        sure: bool;
        /// Retransmitted share of segments.
        loss_ratio: Option<f64>, Share;
        /// Smoothed RTT.
        srtt_us: Option<u32>, Microseconds;
        /// Ended and open connections.
        connections: u64;
    }
}

/// The addresses with the most connections, for the page.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Busiest {
    /// The one with the most connections first.
    pub addresses: Vec<AddressView>,
    /// Number of paths behind them: an address has one for each class of handshakes.
    pub paths: u64,
}

impl AddressView {
    /// The view of an address with these paths: the one with the most experience decides, and connections add up.
    /// `None` without a path. `name` names a path without its class.
    pub fn of(paths: &[&PathView], name: impl Fn(&PathView) -> String) -> Option<AddressView> {
        let rank = |path: &&&PathView| (path.experience * 10.0) as u64;
        let main = paths
            .iter()
            .max_by_key(|path| (rank(path), path.connections))?;
        let most = |a: &&AlgorithmView, b: &&AlgorithmView| a.share.total_cmp(&b.share);
        // Of equal shares the first counts, and the default comes first.
        let best = main.algorithms.iter().rev().max_by(most)?;
        let of_name = |name: &String| main.algorithms.iter().find(|a| a.name == *name);
        let without = main.baseline.as_ref().and_then(of_name);
        Some(AddressView {
            path: name(main),
            algorithm: best.name.clone(),
            rate: best.expected_rate,
            rate_low: best.expected_rate_low,
            rate_high: best.expected_rate_high,
            rate_without: without.and_then(|a| a.expected_rate),
            rate_without_low: without.and_then(|a| a.expected_rate_low),
            rate_without_high: without.and_then(|a| a.expected_rate_high),
            effect: best.effect,
            effect_low: best.effect_low,
            effect_high: best.effect_high,
            sure: best.effect_low.is_some_and(|low| low > 0.0),
            loss_ratio: main.loss_ratio,
            srtt_us: main.srtt_us,
            connections: paths.iter().map(|path| path.connections).sum(),
        })
    }

    /// The views of all addresses with these paths, each where its first path stands.
    pub fn all(paths: &[PathView], name: impl Fn(&PathView) -> String) -> Vec<AddressView> {
        let mut order: Vec<String> = Vec::new();
        let mut groups: std::collections::HashMap<String, Vec<&PathView>> = Default::default();
        for path in paths {
            let group = groups.entry(name(path)).or_insert_with_key(|key| {
                order.push(key.clone());
                Vec::new()
            });
            group.push(path);
        }
        let views = order
            .iter()
            .filter_map(|key| AddressView::of(groups.get(key)?, &name));
        views.collect()
    }

    /// Bytes per second gained; negative for a loss, 0 if unknown.
    pub fn gain(&self) -> i64 {
        let pair = self.rate.zip(self.rate_without);
        pair.map_or(0, |(with, without)| with as i64 - without as i64)
    }
}
