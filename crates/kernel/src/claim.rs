//! Which cgroups the tcpilots of this host steer: no two may steer the same sockets.
//!
//! A claim is a file named after the cgroup's id. A daemon locks it by flock(2) as long as it is
//! attached. However the daemon ends, the kernel frees the lock. Only root may open the files. A lock
//! on the cgroup's own directory would not do: everybody may read the directory, and so may lock it.

use std::{
    collections::HashSet,
    fs::{self, DirBuilder, File, Permissions},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::{DirBuilderExt, DirEntryExt, MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

use tcpilot_file::{lock, open_lock};

use crate::{Error, host};

/// One folder for all daemons, wherever their control sockets are: otherwise they would not see each other.
const FOLDER: &str = "/run/tcpilot";
/// A process locks it while it looks for claims and makes one: if two start at once, one of them sees
/// the other.
const TURN: &str = "claims.lock";

/// A claimed cgroup: until this is dropped, no other tcpilot may steer it, or one above or below it.
#[derive(Debug)]
pub(crate) struct Claim {
    id: u64,
    path: PathBuf,
    lock: File,
}

impl Claim {
    /// Claims a cgroup; `dir` is its open directory.
    ///
    /// # Errors
    /// [`Error::AlreadyAttached`], [`Error::Claims`].
    pub fn take(cgroup: &Path, dir: &File) -> Result<Claim, Error> {
        Claim::take_in(Path::new(FOLDER), cgroup, dir)
    }

    fn take_in(folder: &Path, cgroup: &Path, dir: &File) -> Result<Claim, Error> {
        let fail = |source| Error::Claims {
            path: folder.to_path_buf(),
            source,
        };
        let id = dir.metadata().map_err(fail)?.ino();
        make(folder).map_err(fail)?;
        let turn = open_lock(&folder.join(TURN), true).map_err(fail)?;
        lock::wait_for(&turn).map_err(fail)?;
        let claimed = claimed(folder).map_err(fail)?;
        if !claimed.is_empty() && is_related(cgroup, id, &claimed).map_err(fail)? {
            return Err(Error::AlreadyAttached(cgroup.to_path_buf()));
        }
        let path = folder.join(name(id));
        let lock = open_lock(&path, true).map_err(fail)?;
        if !lock::try_lock(&lock).map_err(fail)? {
            return Err(fail(io::ErrorKind::WouldBlock.into()));
        }
        Ok(Claim { id, path, lock })
    }

    /// The claim of this process's former program.
    pub fn kept(id: u64, lock: OwnedFd) -> Claim {
        Claim {
            id,
            path: Path::new(FOLDER).join(name(id)),
            lock: lock.into(),
        }
    }

    /// The claim's lock.
    pub fn lock(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }

    /// The id of the claimed cgroup.
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // The file goes before the lock: afterwards a file of this name may be another daemon's.
        let _ = forget(&self.path);
    }
}

fn name(id: u64) -> String {
    format!("cgroup-{id}.lock")
}

/// Makes the folder, or restricts it to root if another command of ours made it.
fn make(folder: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    if fs::metadata(folder)?.mode() & 0o077 != 0 {
        fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// The ids that running tcpilots have claimed. Removes the files of killed ones: nobody else opens
/// them meanwhile, since it is our turn.
fn claimed(folder: &Path) -> io::Result<HashSet<u64>> {
    let mut ids = HashSet::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let file_name = entry.file_name();
        let id = file_name.to_str().and_then(|n| n.strip_prefix("cgroup-"));
        let id = id.and_then(|n| n.strip_suffix(".lock")?.parse().ok());
        let Some(id) = id else { continue };
        let file = match open_lock(&entry.path(), false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            result => result?,
        };
        if lock::try_lock(&file)? {
            forget(&entry.path())?;
        } else {
            ids.insert(id);
        }
    }
    Ok(ids)
}

/// Removes a file. It may be gone already if its daemon ended at this moment.
fn forget(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether a cgroup, one above it, or one below it is among those claimed.
fn is_related(cgroup: &Path, id: u64, claimed: &HashSet<u64>) -> io::Result<bool> {
    // The directories above a link or a relative path are not those above the cgroup.
    let cgroup = cgroup.canonicalize()?;
    let above = cgroup.ancestors().skip(1);
    let above = above.map_while(|dir| host::cgroup_id(dir).ok());
    let below = host::subtree(&cgroup).map(|entry| entry.ino());
    let mut related = std::iter::once(id).chain(above).chain(below);
    Ok(related.any(|id| claimed.contains(&id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Directories that pass for cgroups, and a folder for the claims.
    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new() -> Tree {
            let tree = Tree(tempfile::tempdir().unwrap());
            for cgroup in ["root", "root/a", "root/a/b", "root/a/b/c", "root/ab"] {
                let dir = tree.0.path().join(cgroup);
                fs::create_dir(&dir).unwrap();
                fs::write(dir.join("cgroup.controllers"), "").unwrap();
            }
            tree
        }

        fn folder(&self) -> PathBuf {
            self.0.path().join("run/claims")
        }

        fn claim(&self, cgroup: &str) -> Result<Claim, Error> {
            let path = self.0.path().join(cgroup);
            let dir = File::open(&path).unwrap();
            Claim::take_in(&self.folder(), &path, &dir)
        }

        fn is_refused(&self, cgroup: &str) -> bool {
            matches!(self.claim(cgroup), Err(Error::AlreadyAttached(_)))
        }
    }

    #[test]
    fn claim_covers_ancestors_and_descendants_not_siblings() {
        let tree = Tree::new();
        let claim = tree.claim("root/a/b").unwrap();
        for cgroup in ["root/a/b", "root/a", "root", "root/a/b/c"] {
            assert!(tree.is_refused(cgroup), "{cgroup}");
        }
        let beside = tree.claim("root/ab").unwrap();
        drop(claim);
        let below = tree.claim("root/a/b/c").unwrap();
        assert!(tree.is_refused("root/a/b"));
        drop((beside, below));
        tree.claim("root").unwrap();
    }

    #[test]
    fn symlink_into_claimed_cgroup_is_refused() {
        let tree = Tree::new();
        std::os::unix::fs::symlink("root/a/b", tree.0.path().join("link")).unwrap();
        let _above = tree.claim("root/a").unwrap();
        assert!(tree.is_refused("link"));
    }

    #[test]
    fn stale_claim_file_is_ignored_and_removed() {
        let tree = Tree::new();
        drop(tree.claim("root").unwrap());
        let left = tree.folder().join("cgroup-77.lock");
        fs::write(&left, "").unwrap();
        let id = fs::metadata(tree.0.path().join("root/a")).unwrap().ino();
        fs::write(tree.folder().join(name(id)), "").unwrap();
        let claim = tree.claim("root/a").unwrap();
        assert!(!left.exists());
        let path = claim.path.clone();
        assert!(path.exists());
        drop(claim);
        assert!(!path.exists());
    }

    #[test]
    fn nobody_else_can_open_a_claim() {
        let tree = Tree::new();
        fs::create_dir(tree.0.path().join("run")).unwrap();
        fs::create_dir(tree.folder()).unwrap();
        fs::set_permissions(tree.folder(), Permissions::from_mode(0o755)).unwrap();
        let claim = tree.claim("root").unwrap();
        for (path, mode) in [
            (tree.folder(), 0o700),
            (tree.folder().join(TURN), 0o600),
            (claim.path.clone(), 0o600),
        ] {
            assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, mode);
        }
    }

    #[test]
    fn concurrent_claims_have_one_winner() {
        let tree = Tree::new();
        let cgroups = ["root", "root/a", "root/a/b", "root/a/b/c"];
        for _ in 0..50 {
            let start = std::sync::Barrier::new(cgroups.len());
            let claims: Vec<_> = std::thread::scope(|scope| {
                let try_one = |cgroup| {
                    start.wait();
                    tree.claim(cgroup).ok()
                };
                let threads = cgroups.map(|c| scope.spawn(move || try_one(c)));
                threads.into_iter().map(|t| t.join().unwrap()).collect()
            });
            assert_eq!(claims.iter().flatten().count(), 1);
        }
    }
}
