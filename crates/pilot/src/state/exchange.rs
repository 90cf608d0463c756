//! The state as a JSON document, to move it to another host or to read it.

use std::collections::HashSet;
use std::io::Write;

use serde::{Deserialize, Serialize};

use super::{
    Knowledge, StateError, Store, StoredPath,
    knowledge::write,
    learned::{self, Learned},
    rows,
};

/// Versions of the document. Version 2 added the knowledge of thompson. A document without it is still
/// written as version 1, for older versions of tcpilot.
const VERSIONS: std::ops::RangeInclusive<u64> = 1..=2;

#[derive(Serialize)]
struct Document<'a> {
    tcpilot_state: u64,
    paths: &'a [StoredPath],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    learned: Vec<Learned>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadDocument {
    tcpilot_state: u64,
    paths: Vec<StoredPath>,
    #[serde(default)]
    learned: Vec<Learned>,
}

/// The content of a document.
#[derive(Debug, Default, PartialEq)]
pub struct Exported {
    /// Paths with the measures of epsilon-greedy and of the tunings.
    pub paths: Vec<StoredPath>,
    /// The knowledge of thompson, an entry per policy.
    pub learned: Vec<Knowledge>,
}

impl Store {
    /// Writes all paths as `{"tcpilot_state":1,"paths":[...]}`, the latest first, on one line without a line
    /// break at the end. If thompson has knowledge, it follows as `"learned":[...]`. Returns the number of
    /// paths.
    ///
    /// # Errors
    /// The database cannot be read, or the writer fails.
    pub fn export_json(&self, writer: &mut dyn Write) -> Result<usize, StateError> {
        let paths = rows::all(&self.db).map_err(|error| error.or(self))?;
        let learned = self.learned()?;
        let document = Document {
            tcpilot_state: if learned.is_empty() { 1 } else { 2 },
            paths: &paths,
            learned,
        };
        serde_json::to_writer(writer, &document)
            .map_err(|error| StateError::Export(error.into()))?;
        Ok(paths.len())
    }

    /// Adds paths, and replaces those of the same namespace, prefix and policy. If any path is wrong,
    /// nothing changes.
    ///
    /// # Errors
    /// A path is impossible, or the database cannot be written.
    pub fn import(&mut self, paths: &[StoredPath]) -> Result<(), StateError> {
        check(paths)?;
        self.put(paths, &[])
    }

    /// Adds all of a document. The knowledge of thompson about a policy is replaced as a whole.
    ///
    /// # Errors
    /// Those of [`Store::import`].
    pub fn import_all(&mut self, document: &Exported) -> Result<(), StateError> {
        check(&document.paths)?;
        check_learned(&document.learned)?;
        self.put(&document.paths, &document.learned)
    }

    fn put(&mut self, paths: &[StoredPath], learned: &[Knowledge]) -> Result<(), StateError> {
        let result = (|| {
            let transaction = self
                .db
                .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            rows::upsert(&transaction, paths)?;
            learned
                .iter()
                .try_for_each(|one| write(&transaction, one, &mut self.whole))?;
            transaction.commit()
        })();
        result.map_err(|error| self.error(error))
    }
}

/// Parses a document of [`Store::export_json`].
///
/// # Errors
/// The document cannot be used.
pub fn parse(text: &str) -> Result<Exported, StateError> {
    let refuse = |why: String| Err(StateError::Document(why));
    let document: ReadDocument = match serde_json::from_str(text) {
        Ok(document) => document,
        Err(error) => return refuse(format!("this is no export of tcpilot: {error}")),
    };
    if !VERSIONS.contains(&document.tcpilot_state) {
        return refuse(format!(
            "version {} of the export, this tcpilot reads {} and {}",
            document.tcpilot_state,
            VERSIONS.start(),
            VERSIONS.end()
        ));
    }
    let exported = Exported {
        paths: document.paths,
        learned: document.learned.into_iter().map(Knowledge::from).collect(),
    };
    check(&exported.paths)?;
    check_learned(&exported.learned)?;
    Ok(exported)
}

fn check_learned(all: &[Knowledge]) -> Result<(), StateError> {
    match learned::fault(all) {
        Some(fault) => Err(StateError::Document(fault)),
        None => Ok(()),
    }
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
