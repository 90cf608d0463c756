//! Every file that we write or lock. Others may be able to write in its folder: they must not lead us to another
//! file by a link, nor guess a name that we will use.

use std::{
    fs::{self, File, Permissions},
    io::{self, ErrorKind, Read as _, Write as _},
    os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

mod folder;
pub mod lock;

pub use folder::Folder;

/// The mode of a file for its owner alone: most of ours name the host's peers.
pub const PRIVATE: u32 = 0o600;
/// The mode of a file for its owner's group to read, such as states that hosts exchange in a folder.
pub const GROUP: u32 = 0o640;
/// The mode of a file for everybody to read, such as metrics for the node exporter.
pub const PUBLIC: u32 = 0o644;

/// The longest content of a lock: a process's number.
const LOCK_BYTES_MAX: usize = 32;

/// Begins a file that is empty, and takes the place of the former one at once. It is for files that grow.
///
/// # Errors
/// The folder cannot be written, or there is something else of this name than a file.
pub fn begin(path: &Path, mode: u32) -> io::Result<File> {
    write(path, mode, None, |_| Ok(()))
}

/// Replaces a file, on disk too: readers see the former content or this one, also after a crash.
///
/// # Errors
/// The folder cannot be written, or there is something else of this name than a file. The former content is left.
pub fn replace(path: &Path, mode: u32, content: &[u8]) -> io::Result<()> {
    write(path, mode, None, |file| file.write_all(content)).map(drop)
}

/// Fills a file of a random name, which must be a new one, and renames it.
fn write(
    path: &Path,
    mode: u32,
    group: Option<u32>,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<File> {
    // Renaming would replace a link, which may be meant, or /dev/stdout.
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => return Err(no_regular_file()),
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let folder = folder_of(path);
    let mut new = tempfile::Builder::new()
        .prefix(".tcpilot-")
        .tempfile_in(folder)?;
    let file = new.as_file_mut();
    fill(file)?;
    if let Some(group) = group {
        std::os::unix::fs::fchown(&*file, None, Some(group))?;
    }
    file.set_permissions(Permissions::from_mode(mode))?; // whatever the umask is
    file.sync_all()?;
    let file = new.persist(path)?;
    File::open(folder)?.sync_all()?;
    Ok(file)
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

fn no_regular_file() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "it is not a regular file")
}

/// Opens a file to be read and written in its place, such as a database. If `create` is true and there is none, it
/// is made for its owner alone.
///
/// # Errors
/// The last part of the path is a link, or something else than a file.
pub fn open(path: &Path, create: bool) -> io::Result<File> {
    let mut options = File::options();
    options
        .read(true)
        .write(true)
        .create(create)
        .truncate(false);
    // Without O_NONBLOCK opening a FIFO would wait for its reader.
    options
        .mode(PRIVATE)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = options.open(path).map_err(link_is_no_file)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(no_regular_file()),
    }
}

/// Reads a file of at most `bytes_max`, which others may have written.
///
/// # Errors
/// The last part of the path is a link, or something else than a file ([`ErrorKind::InvalidInput`]), or the file is
/// longer ([`ErrorKind::FileTooLarge`]).
pub fn read(path: &Path, bytes_max: usize) -> io::Result<(Vec<u8>, fs::Metadata)> {
    let mut options = File::options();
    options
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = options.open(path).map_err(link_is_no_file)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(no_regular_file());
    }
    let mut content = Vec::new();
    file.take(bytes_max as u64 + 1).read_to_end(&mut content)?;
    match content.len() <= bytes_max {
        true => Ok((content, found)),
        false => Err(ErrorKind::FileTooLarge.into()),
    }
}

fn link_is_no_file(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ELOOP) => no_regular_file(),
        _ => error,
    }
}

/// Opens a lock of ours. A file of somebody else, or with another content than a process's number, is refused: its
/// name was taken by mistake, or to have us overwrite it.
///
/// # Errors
/// It is not a lock of ours, or cannot be opened.
pub fn open_lock(path: &Path, create: bool) -> io::Result<File> {
    let file = open(path, create)?;
    let foreign = || io::Error::new(ErrorKind::InvalidInput, "it is not a lock of tcpilot");
    let mut content = [0; LOCK_BYTES_MAX + 1];
    let length = std::os::unix::fs::FileExt::read_at(&file, &mut content, 0)?;
    let is_number = |byte: &u8| byte.is_ascii_digit() || *byte == b'\n';
    let content = content.get(..length).unwrap_or_default();
    let is_ours = is_own(&file.metadata()?) && length <= LOCK_BYTES_MAX;
    match is_ours && content.iter().all(is_number) {
        true => Ok(file),
        false => Err(foreign()),
    }
}

/// Whether root or this user owns a file.
fn is_own(found: &fs::Metadata) -> bool {
    [0, rustix::process::geteuid().as_raw()].contains(&found.uid())
}

/// Takes a lock of ours, which is removed when it is given back, so that no lock outlives what it is for. `None` if
/// another process has it.
///
/// # Errors
/// Those of [`open_lock`].
pub fn try_take(path: &Path) -> io::Result<Option<Held>> {
    loop {
        let file = open_lock(path, true)?;
        if !lock::try_lock(&file)? {
            return Ok(None);
        }
        // Between the two its owner may have removed it. Then others will lock another file of this name.
        let is_same = |found: &fs::Metadata| {
            let own = file.metadata()?;
            Ok::<_, io::Error>((found.dev(), found.ino()) == (own.dev(), own.ino()))
        };
        match fs::symlink_metadata(path) {
            Ok(found) if is_same(&found)? => {
                let path = path.to_owned();
                return Ok(Some(Held { path, _file: file }));
            }
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
}

/// A lock that this process has.
#[derive(Debug)]
pub struct Held {
    path: PathBuf,
    _file: File,
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path); // before the lock ends
    }
}

/// Whether there is a socket of ours, which a killed process may have left.
///
/// # Errors
/// Something else has this name.
pub fn has_socket(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
        Ok(found) if found.file_type().is_socket() && is_own(&found) => Ok(true),
        Ok(_) => Err(io::Error::new(
            ErrorKind::AlreadyExists,
            "it is there, and is not a socket of tcpilot",
        )),
    }
}

/// Removes a socket of ours; does nothing if there is none.
///
/// # Errors
/// Something else has this name. It is left alone.
pub fn remove_socket(path: &Path) -> io::Result<()> {
    match has_socket(path)? {
        true => fs::remove_file(path),
        false => Ok(()),
    }
}

/// The same file by a path without links, for a library that follows none if it is told so. The last part of the
/// path is taken as it is.
///
/// # Errors
/// There is no such folder.
pub fn without_links(path: &Path) -> io::Result<PathBuf> {
    let folder = folder_of(path).canonicalize()?;
    Ok(folder.join(path.file_name().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::{fs::symlink, net::UnixListener};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().flatten();
        entries
            .map(|e| e.file_name().into_string().unwrap())
            .collect()
    }

    #[test]
    fn failed_write_keeps_former_file_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        replace(&path, PRIVATE, b"old").unwrap();
        let full = |file: &mut File| {
            file.write_all(b"half")?;
            Err(ErrorKind::StorageFull.into())
        };
        write(&path, PRIVATE, None, full).unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(dir.path()), ["f"]);
    }

    #[test]
    fn written_file_has_wanted_mode() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        for mode in [PRIVATE, PUBLIC, PRIVATE] {
            replace(&path, mode, b"x").unwrap();
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, mode);
        }
        let other = File::open(&path).unwrap();
        begin(&path, PRIVATE).unwrap().write_all(b"y").unwrap();
        assert_eq!(
            io::read_to_string(other).unwrap(),
            "x",
            "a reader keeps its file"
        );
        assert_eq!(fs::read(&path).unwrap(), b"y");
    }

    #[test]
    fn links_and_devices_are_never_written() {
        let dir = tempfile::tempdir().unwrap();
        let (path, goal) = (dir.path().join("f"), dir.path().join("goal"));
        fs::write(&goal, "precious").unwrap();
        symlink(&goal, &path).unwrap();
        for kind in ["link", "folder"] {
            replace(&path, PRIVATE, b"x").unwrap_err();
            begin(&path, PRIVATE).unwrap_err();
            open(&path, true).unwrap_err();
            open_lock(&path, true).unwrap_err();
            remove_socket(&path).unwrap_err();
            if kind == "link" {
                fs::remove_file(&path).unwrap();
                fs::create_dir(&path).unwrap();
            }
        }
        replace(Path::new("/dev/null"), PRIVATE, b"x").unwrap_err();
        assert_eq!(fs::read(&goal).unwrap(), b"precious");
    }

    #[test]
    fn reading_is_bounded_and_follows_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("f"), dir.path().join("link"));
        fs::write(&path, "four").unwrap();
        symlink(&path, &link).unwrap();
        assert_eq!(read(&path, 4).unwrap().0, b"four");
        let kind = |path, most| read(path, most).unwrap_err().kind();
        assert_eq!(kind(&path, 3), ErrorKind::FileTooLarge);
        assert_eq!(kind(&link, 4), ErrorKind::InvalidInput);
        assert_eq!(kind(dir.path(), 4), ErrorKind::InvalidInput);
        assert_eq!(kind(&dir.path().join("none"), 4), ErrorKind::NotFound);
    }

    #[test]
    fn foreign_content_is_no_lock_of_ours() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        for (content, is_ours) in [("", true), ("4711\n", true), ("precious", false)] {
            fs::write(&path, content).unwrap();
            assert_eq!(open_lock(&path, false).is_ok(), is_ours, "{content}");
        }
        fs::write(&path, "1".repeat(40)).unwrap();
        open_lock(&path, false).unwrap_err();
    }

    #[test]
    fn lock_given_back_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let held = try_take(&path).unwrap().unwrap();
        assert!(try_take(&path).unwrap().is_none());
        drop(held);
        assert!(names(dir.path()).is_empty());
        assert!(try_take(&path).unwrap().is_some());
    }

    #[test]
    fn one_of_many_has_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let inside = std::sync::atomic::AtomicUsize::new(0);
        let order = std::sync::atomic::Ordering::SeqCst;
        let take = || {
            for _ in 0..2000 {
                if let Some(_held) = try_take(&path).unwrap() {
                    assert_eq!(inside.fetch_add(1, order), 0);
                    inside.fetch_sub(1, order);
                }
            }
        };
        std::thread::scope(|scope| {
            (0..4).for_each(|_| drop(scope.spawn(take)));
        });
    }

    #[test]
    fn only_a_socket_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        remove_socket(&path).unwrap();
        drop(UnixListener::bind(&path).unwrap());
        remove_socket(&path).unwrap();
        assert!(!path.exists());
        fs::write(&path, "precious").unwrap();
        remove_socket(&path).unwrap_err();
        assert!(path.exists());
    }
}
