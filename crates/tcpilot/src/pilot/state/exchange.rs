//! The state as a JSON document, to move it to another host or to look at it.

use std::collections::HashSet;
use std::io::{Read, Write};

use serde::{Deserialize, Serialize};

use super::{StateError, Store, StoredPath, rows};

/// The version of the document.
const VERSION: u64 = 1;

#[derive(Serialize)]
struct Document<'a> {
    tcpilot_state: u64,
    paths: &'a [StoredPath],
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadDocument {
    tcpilot_state: u64,
    paths: Vec<StoredPath>,
}

impl Store {
    /// Writes all paths as `{"tcpilot_state":1,"paths":[...]}`, the latest first; returns how many.
    ///
    /// # Errors
    /// The database cannot be read, or the writer fails.
    pub fn export_json(&self, mut writer: impl Write) -> Result<usize, StateError> {
        let paths = rows::all(&self.db).map_err(|error| error.or(self))?;
        let document = Document {
            tcpilot_state: VERSION,
            paths: &paths,
        };
        serde_json::to_writer_pretty(&mut writer, &document)
            .map_err(|error| StateError::Export(error.into()))?;
        writer
            .write_all(b"\n")
            .and_then(|()| writer.flush())
            .map_err(StateError::Export)?;
        Ok(paths.len())
    }

    /// Adds the paths of a document that [`Store::export_json`] wrote, in place of those of the same
    /// namespace, prefix and policy; returns how many. A document with anything wrong changes nothing.
    ///
    /// # Errors
    /// The document cannot be used, or the database not be written.
    pub fn import_json(&mut self, mut reader: impl Read) -> Result<usize, StateError> {
        let mut text = String::new();
        reader
            .read_to_string(&mut text)
            .map_err(|error| StateError::Document(error.to_string()))?;
        let paths = parse(&text)?;
        let result = (|| {
            let transaction = self
                .db
                .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            rows::upsert(&transaction, &paths)?;
            transaction.commit()
        })();
        result.map_err(|error| self.error(error))?;
        Ok(paths.len())
    }
}

fn parse(text: &str) -> Result<Vec<StoredPath>, StateError> {
    let refuse = |why: String| Err(StateError::Document(why));
    let document: ReadDocument = match serde_json::from_str(text) {
        Ok(document) => document,
        Err(error) => return refuse(format!("this is no export of tcpilot: {error}")),
    };
    if document.tcpilot_state != VERSION {
        return refuse(format!(
            "version {} of the export, this tcpilot reads {VERSION}",
            document.tcpilot_state
        ));
    }
    if document.paths.len() > rows::MAX_PATHS {
        return refuse(format!(
            "{} paths, there is room for {}",
            document.paths.len(),
            rows::MAX_PATHS
        ));
    }
    let mut keys = HashSet::new();
    for path in &document.paths {
        if let Some(fault) = path.fault() {
            return refuse(fault);
        }
        if !keys.insert((&path.netns, path.prefix, &path.policy)) {
            return refuse(format!("path {} stands there twice", path.prefix));
        }
    }
    Ok(document.paths)
}
