//! A folder that another user may rename or replace while we use it.

use std::{
    fs::{self, File, Metadata},
    io,
    os::{
        fd::AsRawFd,
        unix::fs::{MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

/// An open folder. Its files are reached through its descriptor, so they stay those of this folder, whatever happens to
/// its name.
#[derive(Debug)]
pub struct Folder(File);

impl Folder {
    /// Opens a folder, through links if the path has some: the path is a setting of the administrator.
    ///
    /// # Errors
    /// It is no folder, or cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        open(path, 0)
    }

    /// Opens a folder in this one. A link is refused: the owner of this folder may have made it.
    ///
    /// # Errors
    /// As [`Folder::open`].
    pub fn sub(&self, name: &str) -> io::Result<Self> {
        open(&self.path(name), libc::O_NOFOLLOW)
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::new("/proc/self/fd")
            .join(self.0.as_raw_fd().to_string())
            .join(name)
    }

    /// Replaces a file, as [`crate::replace`] does; its group is that of the folder, so this needs to be one of ours.
    ///
    /// # Errors
    /// As [`crate::replace`].
    pub fn replace(&self, name: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        let group = self.0.metadata()?.gid();
        let fill = |file: &mut File| io::Write::write_all(file, content);
        crate::write(&self.path(name), mode, Some(group), fill).map(drop)
    }

    /// Reads a file, as [`crate::read`] does.
    ///
    /// # Errors
    /// As [`crate::read`].
    pub fn read(&self, name: &str, bytes_max: usize) -> io::Result<(Vec<u8>, Metadata)> {
        crate::read(&self.path(name), bytes_max)
    }

    /// What is there of this name, without following a link.
    ///
    /// # Errors
    /// There is nothing.
    pub fn metadata(&self, name: &str) -> io::Result<Metadata> {
        fs::symlink_metadata(self.path(name))
    }

    /// The names in the folder.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(self.path("."))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        Ok(names.collect())
    }

    /// Removes a file or link.
    ///
    /// # Errors
    /// There is none, or it cannot be removed.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name))
    }
}

fn open(path: &Path, more: i32) -> io::Result<Folder> {
    let mut options = File::options();
    options.read(true).custom_flags(libc::O_DIRECTORY | more);
    options.open(path).map(Folder)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_replaced_folder_leads_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        let (own, goal) = (dir.path().join("own"), dir.path().join("goal"));
        fs::create_dir(&own).unwrap();
        fs::create_dir(&goal).unwrap();
        let top = Folder::open(dir.path()).unwrap();
        let folder = top.sub("own").unwrap();
        // Its owner moves it away, and puts a link in its place.
        fs::rename(&own, dir.path().join("moved")).unwrap();
        symlink(&goal, &own).unwrap();
        folder.replace("f", crate::GROUP, b"x").unwrap();
        assert_eq!(fs::read(dir.path().join("moved/f")).unwrap(), b"x");
        assert_eq!(folder.names().unwrap(), ["f"]);
        assert_eq!(fs::read_dir(&goal).unwrap().count(), 0);
        top.sub("own").unwrap_err();
        // A link to a file is not read, and not written.
        fs::write(goal.join("secret"), "precious").unwrap();
        symlink(goal.join("secret"), dir.path().join("moved/link")).unwrap();
        folder.read("link", 100).unwrap_err();
        folder.replace("link", crate::GROUP, b"x").unwrap_err();
        assert_eq!(fs::read(goal.join("secret")).unwrap(), b"precious");
        folder.remove("link").unwrap();
        assert_eq!(folder.names().unwrap(), ["f"]);
        let (content, found) = folder.read("f", 1).unwrap();
        assert_eq!(
            (content.as_slice(), found.mode() & 0o777),
            (&b"x"[..], 0o640)
        );
    }
}
