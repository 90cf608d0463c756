//! Every key with its default and its reason, for the manual in Markdown and for tcpilot.toml(5).

use super::settings::{Key, Section};
use super::write::range;
use super::{Config, Fleet, Learner, Policy};

/// A table of the file.
pub struct Part {
    /// Its header, such as `[learner]`; empty for the top of the file.
    pub table: String,
    /// The learner with this key, if not all have it.
    pub kind: Option<&'static str>,
    /// Its keys.
    pub entries: Vec<Entry>,
}

/// A key.
pub struct Entry {
    /// The key with its default, as it is written in the file.
    pub key: String,
    /// Its effect and its possible values.
    pub doc: String,
}

/// All tables, in the order of the documentation.
pub fn parts() -> Vec<Part> {
    let config = Config::default();
    let mut parts = vec![part("", &config.keys())];
    for (name, section) in config.sections() {
        parts.push(part(&format!("[{name}]"), &section.keys()));
        if name == "learner" {
            parts.pop();
            parts.extend(learner(&config.learner));
        }
    }
    parts.push(part("[fleet]", &Fleet::default().keys()));
    let policy = Policy::default();
    let mut keys = policy.keys();
    keys.extend(policy.matches.keys());
    parts.push(of_policy("[[policy]]", &keys));
    parts.push(of_policy("[policy.prefix]", &policy.prefix.keys()));
    parts
}

/// The parts of all kinds of learner, not only of the default.
fn learner(learner: &Learner) -> Vec<Part> {
    let kinds = learner.kinds();
    let of_kinds = kinds.iter().map(|(kind, section)| Part {
        kind: Some(kind.name()),
        ..part("[learner]", &section.keys())
    });
    let mut of_all = learner.common.keys();
    of_all.extend(learner.estimates.keys());
    std::iter::once(part("[learner]", &of_all))
        .chain(of_kinds)
        .collect()
}

fn part(table: &str, keys: &[Key]) -> Part {
    Part {
        table: table.to_owned(),
        kind: None,
        entries: keys
            .iter()
            .map(|key| entry(key, key.value.clone()))
            .collect(),
    }
}

/// A part of policies. The default name is empty, so no name is shown.
fn of_policy(table: &str, keys: &[Key]) -> Part {
    let shown = |key: &Key| key.value.clone().filter(|value| value != "\"\"");
    Part {
        entries: keys.iter().map(|key| entry(key, shown(key))).collect(),
        ..part(table, &[])
    }
}

fn entry(key: &Key, value: Option<String>) -> Entry {
    Entry {
        key: value.map_or_else(
            || key.name.to_owned(),
            |value| format!("{} = {value}", key.name),
        ),
        doc: format!("{}{}", key.doc.trim(), range(key)),
    }
}
