//! The JSON documents that commands print for scripts.

use serde::Serialize;

/// The version of the documents. It rises when a field is renamed or removed, or changes its meaning. A new
/// field does not raise it.
pub const SCHEMA: u32 = 1;

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

    /// The JSON with line breaks and indents, so that people can read it too.
    ///
    /// # Errors
    /// The content is no object.
    pub fn pretty(&self) -> std::io::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
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
}
