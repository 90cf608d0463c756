//! A folder as an engine: a file per key. For one machine, for a shared file system, for tests.
//!
//! The engine's clock is the file system's. There are no rights by host: whoever can write in the folder can speak for each
//! host. A writer killed between the making of its file and the renaming leaves one file `.tcpilot-…`.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use tcpilot_fleet::Name;

use super::{Entry, HOSTS_MAX, Store, StoreError, VALUE_BYTES_MAX, check_size};
use crate::key::{Host, Key};

/// Files that a listing looks at. A fleet of 10,000 hosts with 64 shards each does not belong in a folder.
const FILES_MAX: usize = 200_000;

/// A folder. Its files are for the owner to write and for the folder's group to read.
#[derive(Clone, Debug)]
pub struct DirStore {
    folder: PathBuf,
    timeout: Duration,
}

impl DirStore {
    /// The engine of an existing folder.
    ///
    /// # Errors
    /// [`StoreError::NotSetUp`] without the folder.
    pub fn new(folder: &Path, timeout: Duration) -> Result<Self, StoreError> {
        if !folder.is_dir() {
            let text = format!("{} is not a folder", folder.display());
            return Err(StoreError::NotSetUp(text));
        }
        let folder = folder.to_owned();
        Ok(Self { folder, timeout })
    }

    /// Does it in a thread of its own: a network's file system may hang.
    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let folder = self.folder.clone();
        let work = tokio::task::spawn_blocking(move || work(&folder));
        let unreachable = |text: &str| StoreError::Unreachable(text.to_owned());
        match tokio::time::timeout(self.timeout, work).await {
            Ok(Ok(done)) => done,
            Ok(Err(_)) => Err(unreachable("the work was given up")),
            Err(_) => Err(unreachable("the folder does not answer")),
        }
    }
}

/// The reason of a failed file.
fn failed(path: &Path, error: &io::Error) -> StoreError {
    let text = format!("{}: {error}", path.display());
    match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => StoreError::Denied(text),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreError::Full(text),
        ErrorKind::InvalidInput => StoreError::NotSetUp(text),
        ErrorKind::FileTooLarge => StoreError::TooLarge(path.display().to_string()),
        _ => StoreError::Unreachable(text),
    }
}

impl Store for DirStore {
    async fn put(&self, key: &Key, value: &[u8]) -> Result<(), StoreError> {
        check_size(key, value)?;
        let (name, value) = (key.to_string(), value.to_owned());
        self.work(move |folder| {
            let path = folder.join(name);
            tcpilot_file::replace(&path, tcpilot_file::GROUP, &value)
                .map_err(|error| failed(&path, &error))
        })
        .await
    }

    async fn get(&self, key: &Key) -> Result<Option<Entry>, StoreError> {
        let name = key.to_string();
        self.work(move |folder| {
            let path = folder.join(name);
            let (value, found) = match tcpilot_file::read(&path, VALUE_BYTES_MAX) {
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(failed(&path, &error)),
            };
            let written = found.modified().map_err(|error| failed(&path, &error))?;
            let since = written.duration_since(UNIX_EPOCH).unwrap_or_default();
            let written_s = since.as_secs_f64();
            Ok(Some(Entry { value, written_s }))
        })
        .await
    }

    async fn hosts(&self, place: &Name) -> Result<Vec<Host>, StoreError> {
        let place = place.clone();
        self.work(move |folder| {
            let fail = |error| failed(folder, &error);
            let mut hosts = Vec::new();
            for (count, entry) in fs::read_dir(folder).map_err(fail)?.enumerate() {
                let name = entry.map_err(fail)?.file_name();
                if count == FILES_MAX || hosts.len() == HOSTS_MAX {
                    return Err(StoreError::TooLarge(folder.display().to_string()));
                }
                let key = name.to_str();
                hosts.extend(key.and_then(|key| Key::host_of_manifest(key, &place)));
            }
            hosts.sort();
            Ok(hosts)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn host() -> Host {
        let name = |name| Name::new(name).unwrap();
        Host {
            place: name("fra1"),
            name: name("web-07"),
        }
    }

    fn run<T>(work: impl std::future::Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(work)
    }

    const TIMEOUT: Duration = Duration::from_secs(5);

    #[test]
    fn newest_value_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let store = DirStore::new(folder.path(), TIMEOUT).unwrap();
        let key = Key::manifest(&host());
        run(async {
            assert_eq!(store.get(&key).await, Ok(None));
            store.put(&key, b"old").await.unwrap();
            store.put(&key, b"new").await.unwrap();
            assert_eq!(store.get(&key).await.unwrap().unwrap().value, b"new");
            assert_eq!(store.hosts(&host().place).await.unwrap().len(), 1);
        });
        let mode = fs::metadata(folder.path().join(key.to_string())).unwrap();
        assert_eq!(mode.permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn links_and_long_files_are_no_values() {
        let folder = tempfile::tempdir().unwrap();
        let store = DirStore::new(folder.path(), TIMEOUT).unwrap();
        let key = Key::manifest(&host());
        let path = folder.path().join(key.to_string());
        let long = folder.path().join("long");
        fs::write(&long, vec![0; VALUE_BYTES_MAX + 1]).unwrap();
        symlink(&long, &path).unwrap();
        run(async {
            let reason = store.get(&key).await.unwrap_err();
            assert_eq!(reason.reason(), "not_set_up", "{reason}");
            assert!(
                store.put(&key, b"x").await.is_err(),
                "a link is never replaced"
            );
            fs::rename(&long, &path).unwrap();
            let reason = store.get(&key).await.unwrap_err();
            assert_eq!(reason.reason(), "too_large", "{reason}");
            let large = vec![0; VALUE_BYTES_MAX + 1];
            assert!(store.put(&key, &large).await.is_err());
        });
    }
}
