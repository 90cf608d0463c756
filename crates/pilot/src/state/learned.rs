//! The knowledge of the learner thompson in an exported document: for each policy its algorithms and rows.
//!
//! The rows are in the learner's own encoding, as hexadecimal digits. They belong together, because samples
//! are kept as deviations from the expectations of the host's learner. So an import replaces a policy's
//! knowledge as a whole.

use std::{
    collections::HashSet,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use tcpilot_abi::{TP_CC_NAME_MAX, TP_MAX_ARMS};
use tcpilot_learner::{Settings, Thompson};

use super::{Knowledge, StateError, Store, is_of_costs, model::is_name};

/// The knowledge about a policy.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Learned {
    policy: String,
    /// The default first.
    algorithms: Vec<String>,
    /// Keys and rows.
    rows: Vec<(Hex, Hex)>,
}

/// Bytes, written as two hexadecimal digits each.
#[derive(Debug)]
struct Hex(Vec<u8>);

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        use std::fmt::Write;
        let mut text = String::with_capacity(2 * self.0.len());
        for byte in &self.0 {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        to.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Hex, D::Error> {
        let text = String::deserialize(from)?;
        let digit = |digit: &u8| char::from(*digit).to_digit(16).map(|digit| digit as u8);
        let digits: Option<Vec<u8>> = text.as_bytes().iter().map(digit).collect();
        match digits {
            Some(digits) if digits.len() % 2 == 0 => {
                let bytes = digits.chunks_exact(2).map(|two| two[0] << 4 | two[1]);
                Ok(Hex(bytes.collect()))
            }
            _ => Err(D::Error::custom(
                "a row must be pairs of hexadecimal digits",
            )),
        }
    }
}

impl From<Knowledge> for Learned {
    fn from(knowledge: Knowledge) -> Learned {
        let rows = knowledge.rows.into_iter();
        Learned {
            policy: knowledge.policy,
            algorithms: knowledge.arms,
            rows: rows.map(|(key, row)| (Hex(key), Hex(row))).collect(),
        }
    }
}

impl From<Learned> for Knowledge {
    fn from(learned: Learned) -> Knowledge {
        let rows = learned.rows.into_iter();
        Knowledge {
            policy: learned.policy,
            arms: learned.algorithms,
            is_all: true,
            rows: rows.map(|(key, row)| (key.0, row.0)).collect(),
            gone: Vec::new(),
            has_more: false,
        }
    }
}

impl Store {
    /// The knowledge of thompson. It does not say which connections are held out: each host draws its own.
    pub(super) fn learned(&self) -> Result<Vec<Learned>, StateError> {
        let mut all = Vec::new();
        for policy in self.known_policies()? {
            if !is_name(&policy) || policy.contains('/') {
                continue;
            }
            let mut knowledge = Knowledge {
                arms: self.known_arms(&policy)?.unwrap_or_default(),
                policy,
                ..Knowledge::default()
            };
            let policy = &knowledge.policy;
            let rows = &mut knowledge.rows;
            self.for_each_row(policy, |key, row| rows.push((key.to_vec(), row.to_vec())))?;
            all.push(knowledge.into());
        }
        Ok(all)
    }
}

/// The reason why the knowledge cannot be used, if there is one.
pub(super) fn fault(all: &[Knowledge]) -> Option<String> {
    let mut policies = HashSet::new();
    all.iter().find_map(|knowledge| {
        let policy = &knowledge.policy;
        if !is_name(policy) || policy.contains('/') {
            return Some("`policy` of what was learned must be a name".to_owned());
        }
        if !policies.insert(policy) {
            return Some(format!(
                "what was learned for policy {policy} stands there twice"
            ));
        }
        let why = fault_of(knowledge)?;
        Some(format!("what was learned for policy {policy}: {why}"))
    })
}

fn fault_of(knowledge: &Knowledge) -> Option<String> {
    let names = &knowledge.arms;
    if !(1..=TP_MAX_ARMS as usize).contains(&names.len()) {
        return Some(format!(
            "{} algorithms, not 1 to {TP_MAX_ARMS}",
            names.len()
        ));
    }
    for (number, name) in names.iter().enumerate() {
        let is_algorithm = (1..TP_CC_NAME_MAX as usize).contains(&name.len())
            && name.chars().all(|c| c.is_ascii_graphic() && c != ',');
        if !is_algorithm {
            return Some(format!("`{name}` cannot be an algorithm"));
        }
        if names[..number].contains(name) {
            return Some(format!("algorithm {name} stands there twice"));
        }
    }
    let mut keys = HashSet::new();
    if !knowledge.rows.iter().all(|(key, _)| keys.insert(key)) {
        return Some("a row stands there twice".to_owned());
    }
    let of_estimates = knowledge.rows.iter().filter(|(key, _)| !is_of_costs(key));
    let rows = of_estimates.map(|(key, row)| (key, row));
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_s = now.unwrap_or_default().as_secs_f64();
    let read = Thompson::restore(names.len(), Settings::default(), rows, now_s);
    match read.map(|(_, read)| read) {
        Ok(read) if read.damaged > 0 => Some(format!("{} rows are damaged", read.damaged)),
        Ok(read) if !read.head => Some("its head is missing".to_owned()),
        Ok(_) => None,
        Err(error) => Some(error.to_string()),
    }
}
