//! Names for things that tests make on the host.

use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

/// Every name begins with this; [`crate::sweep`] recognises it.
pub const PREFIX: &str = "tp";

/// A name unique in this run and in other runs; short enough for an interface.
pub fn unique() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{PREFIX}{}-{count}", std::process::id())
}

/// A folder for a test's files, removed on drop.
///
/// # Panics
/// When it cannot be made.
pub fn folder() -> TempDir {
    let mut builder = tempfile::Builder::new();
    builder.prefix(&(unique() + ".")).tempdir().unwrap()
}
