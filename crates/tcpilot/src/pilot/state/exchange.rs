//! The state as a JSON document, to move it to another host or to look at it.

use std::collections::HashSet;
use std::io::Write;

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
    /// Writes all paths as `{"tcpilot_state":1,"paths":[...]}`, the latest first, on one line without an
    /// end; returns how many.
    ///
    /// # Errors
    /// The database cannot be read, or the writer fails.
    pub fn export_json(&self, writer: &mut dyn Write) -> Result<usize, StateError> {
        let paths = rows::all(&self.db).map_err(|error| error.or(self))?;
        let document = Document {
            tcpilot_state: VERSION,
            paths: &paths,
        };
        serde_json::to_writer(writer, &document)
            .map_err(|error| StateError::Export(error.into()))?;
        Ok(paths.len())
    }

    /// Adds paths, in place of those of the same namespace, prefix and policy. With anything wrong nothing
    /// is changed.
    ///
    /// # Errors
    /// A path is impossible, or the database cannot be written.
    pub fn import(&mut self, paths: &[StoredPath]) -> Result<(), StateError> {
        check(paths)?;
        let result = (|| {
            let transaction = self
                .db
                .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            rows::upsert(&transaction, paths)?;
            transaction.commit()
        })();
        result.map_err(|error| self.error(error))
    }
}

/// The paths of a document that [`Store::export_json`] wrote.
///
/// # Errors
/// The document cannot be used.
pub fn parse(text: &str) -> Result<Vec<StoredPath>, StateError> {
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
    check(&document.paths)?;
    Ok(document.paths)
}

fn check(paths: &[StoredPath]) -> Result<(), StateError> {
    let refuse = |why: String| Err(StateError::Document(why));
    if paths.len() > rows::MAX_PATHS {
        return refuse(format!(
            "{} paths, there is room for {}",
            paths.len(),
            rows::MAX_PATHS
        ));
    }
    let mut keys = HashSet::new();
    for path in paths {
        if let Some(fault) = path.fault() {
            return refuse(fault);
        }
        if !keys.insert((&path.netns, path.prefix, &path.policy)) {
            return refuse(format!("path {} stands there twice", path.prefix));
        }
    }
    Ok(())
}
