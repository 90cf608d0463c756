//! Finds impossible values in a stored path.

use tcpilot_abi::{TP_CC_NAME_MAX, TP_COST_SCALE, TP_MAX_ARMS};

use crate::figures::{StoredAlgorithm, StoredPath};

/// The highest rate without an overflow of the cost, in bytes per second: `TP_RATE_MAX` of
/// `bpf/core/sample.h`.
const RATE_MAX: u64 = u64::MAX / TP_COST_SCALE as u64;

/// Whether a policy or a namespace can have this name.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= 255 && !text.contains(char::is_control)
}

impl StoredPath {
    /// The impossible value, if there is one.
    pub(super) fn fault(&self) -> Option<String> {
        if !is_name(&self.netns) || !is_name(&self.policy) {
            return Some(format!(
                "path {}: `netns` and `policy` must be names",
                self.prefix
            ));
        }
        if self.max_delivery_rate > RATE_MAX {
            return Some(format!("path {}: an impossible delivery rate", self.prefix));
        }
        if self.algorithms.len() > TP_MAX_ARMS as usize {
            return Some(format!(
                "path {}: more than {TP_MAX_ARMS} algorithms",
                self.prefix
            ));
        }
        let fault = |(i, algorithm): (usize, &StoredAlgorithm)| {
            let name = &algorithm.name;
            if name.is_empty() || name.len() >= TP_CC_NAME_MAX as usize || !name.is_ascii() {
                return Some(format!(
                    "path {}: `{name}` cannot be an algorithm",
                    self.prefix
                ));
            }
            if self.algorithms[..i].iter().any(|other| other.name == *name) {
                return Some(format!(
                    "path {}: algorithm {name} stands there twice",
                    self.prefix
                ));
            }
            let impossible = algorithm.max_delivery_rate > RATE_MAX;
            impossible.then(|| {
                format!(
                    "path {}: algorithm {name} has an impossible delivery rate",
                    self.prefix
                )
            })
        };
        self.algorithms.iter().enumerate().find_map(fault)
    }
}
