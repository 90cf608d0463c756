//! Writes the effective configuration as a file, each key with the reason of its default.

use std::fmt::Write;

use super::Config;
use super::settings::{Key, Section};

/// Width of a comment, in columns.
const WIDTH: usize = 100;

impl Config {
    /// The whole configuration as TOML, for [`Config::from_toml`] to read back.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        write_section(&mut text, "", &self.keys());
        for (name, section) in self.sections() {
            write_section(&mut text, &format!("\n[{name}]\n"), &section.keys());
        }
        if let Some(fleet) = &self.fleet {
            write_section(&mut text, "\n[fleet]\n", &fleet.keys());
        }
        for policy in &self.policies {
            let mut keys = policy.keys();
            keys.extend(policy.matches.keys());
            write_changed(&mut text, "\n[[policy]]\n", &keys);
            let prefix = policy.prefix.keys();
            if prefix.iter().any(|key| !key.is_default) {
                write_changed(&mut text, "[policy.prefix]\n", &prefix);
            }
        }
        text
    }

    /// The sections with their names, in the order of the documentation.
    pub(super) fn sections(&self) -> [(&'static str, &dyn Section); 9] {
        [
            ("learner", &self.learner),
            ("effect", &self.effect),
            ("rescue", &self.rescue),
            ("ssthresh", &self.ssthresh),
            ("prefix", &self.prefix),
            ("tuning", &self.tuning),
            ("state", &self.state),
            ("socket", &self.socket),
            ("leave_alone", &self.leave_alone),
        ]
    }
}

fn write_section(text: &mut String, header: &str, keys: &[Key]) {
    text.push_str(header);
    for key in keys {
        for line in wrap(&format!("{}{}", key.doc, range(key)), WIDTH - 2) {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "# {line}");
        }
        write_key(text, key);
    }
}

/// The range of a key as a sentence; empty if it may have any value of its type.
pub(super) fn range(key: &Key) -> String {
    let Some(range) = &key.range else {
        return String::new();
    };
    let is_list = key
        .value
        .as_ref()
        .is_some_and(|value| value.starts_with('['));
    let unit = if is_list { " entries" } else { "" };
    format!(" {} to {}{unit}.", range.start(), range.end())
}

fn write_changed(text: &mut String, header: &str, keys: &[Key]) {
    text.push_str(header);
    for key in keys.iter().filter(|key| !key.is_default) {
        write_key(text, key);
    }
}

fn write_key(text: &mut String, key: &Key) {
    if let Some(value) = &key.value {
        let _ = writeln!(text, "{} = {value}", key.name);
    }
}

/// Breaks a text into lines of at most `width` columns, if its words are not longer.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
