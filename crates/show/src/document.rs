//! The JSON documents of the commands, for scripts.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::output::printable_json;

/// The version of the documents. It rises when a field is renamed or removed, or changes its meaning. A new
/// field does not raise it.
pub const SCHEMA: u32 = 1;

/// Renamed keys, new and old. Documents have both for one minor version.
pub const RENAMED: [(&str, &str); 7] = [
    ("choice_dists", "rows"),
    ("choice_dists_expired", "rows_voided"),
    ("choice_dists_max", "rows_max"),
    ("choice_dists_valid", "rows_valid"),
    ("light_tracking", "naps"),
    ("rejected", "silent"),
    ("updates", "taught"),
];

/// Adds the former name of each renamed key, with the same value.
pub fn with_former_names(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(with_former_names);
            for (new, old) in RENAMED {
                if let Some(value) = fields.get(new).cloned() {
                    fields.entry(old).or_insert(value);
                }
            }
        }
        Value::Array(entries) => entries.iter_mut().for_each(with_former_names),
        _ => {}
    }
}

/// The JSON of a command, with the version at its top.
#[derive(Debug, Serialize)]
pub struct Document<T> {
    schema: u32,
    #[serde(flatten)]
    content: T,
}

impl<T: Serialize> Document<T> {
    /// `content` must be an object.
    pub fn new(content: T) -> Document<T> {
        Document {
            schema: SCHEMA,
            content,
        }
    }

    /// The JSON with line breaks and indents, readable for people too.
    ///
    /// # Errors
    /// The content is no object.
    pub fn pretty(&self) -> std::io::Result<String> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        let has = |key: &str| text.contains(&format!("\"{key}\":"));
        if !RENAMED.iter().any(|(new, _)| has(new)) {
            return Ok(printable_json(&text)); // with its fields in the order of their declaration
        }
        let mut content = serde_json::to_value(&self.content)?;
        with_former_names(&mut content);
        let document = Document::new(content);
        Ok(printable_json(&serde_json::to_string_pretty(&document)?) + "\n")
    }

    /// The JSON on a line. The fields are in the order of their declaration, then come the former names of the
    /// document's own fields.
    ///
    /// # Errors
    /// The content is no object.
    pub fn line(&self) -> std::io::Result<String> {
        #[derive(Serialize)]
        struct Line<'a, T> {
            #[serde(flatten)]
            document: &'a Document<T>,
            #[serde(flatten)]
            former: Map<String, Value>,
        }
        let fields = serde_json::to_value(self)?;
        let former = RENAMED.iter().filter_map(|(new, old)| {
            let value = fields.get(new)?.clone();
            Some(((*old).to_owned(), value))
        });
        let line = Line {
            document: self,
            former: former.collect(),
        };
        Ok(printable_json(&serde_json::to_string(&line)?) + "\n")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_document_begins_with_its_version() {
        let document = Document::new(BTreeMap::from([("paths", [7])]));
        let text = serde_json::to_string(&document).unwrap();
        assert_eq!(text, "{\"schema\":1,\"paths\":[7]}");
    }

    #[test]
    fn renamed_keys_are_printed_under_both_names() {
        for (new, old) in RENAMED {
            let mut value = serde_json::json!({ "entries": [{ new: 7 }] });
            with_former_names(&mut value);
            assert_eq!(
                value,
                serde_json::json!({ "entries": [{ new: 7, old: 7 }] })
            );
            let line = Document::new(BTreeMap::from([(new, 7)])).line().unwrap();
            let expected = format!("{{\"schema\":1,\"{new}\":7,\"{old}\":7}}\n");
            assert_eq!(line, expected);
        }
    }
}
