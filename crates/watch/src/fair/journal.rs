//! A journal of the qdisc replaced by `--fair`, on disk before the change. So the qdisc comes back however
//! tcpilot ends: on exit, by a guard process waiting for our end, at the next start, or by `tcpilot watch
//! DEV --restore`. The journal stays until one of them has put the qdisc back.

use std::{
    fs, io,
    os::unix::{
        fs::{DirBuilderExt, MetadataExt},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tcpilot_kernel::{
    codel,
    file::{self, Held},
    host,
};
use tcpilot_netlink::tc::{CLSACT_INGRESS, Device as Tc, Qdisc, ROOT};
use tcpilot_show::failure::{Failure, Kind};

/// The handle of our qdisc, which identifies it.
pub const HANDLE: u32 = 0x07c2_0000;
/// The priority of our filter at a clsact qdisc.
pub const PRIORITY: u16 = 0x7c2;
const FOLDER: &str = "/run/tcpilot";
/// Kinds of qdisc with a way back: they have no classes, and the kernel accepts their parameters as it reports
/// them.
const RESTORABLE: [&str; 9] = [
    "pfifo",
    "bfifo",
    "pfifo_fast",
    "codel",
    "fq_codel",
    "fq",
    "sfq",
    "pie",
    "tbf",
];

/// A root qdisc with a way back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Root {
    /// The kernel's default. It returns when ours is deleted.
    Default,
    /// A qdisc set by somebody.
    Explicit {
        /// Its kind.
        kind: String,
        /// Its number.
        handle: u32,
        /// Its parameters, in the form of the kernel's messages.
        options: Option<Vec<u8>>,
    },
}

/// The change to be undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    ifindex: u32,
    root: Root,
    /// Whether a clsact qdisc of ours must be undone too.
    clsact: bool,
}

/// The journal of one device, held by this process alone.
pub struct Journal {
    device: String,
    path: PathBuf,
    entry: Entry,
    guard: Child,
    is_ended: bool,
    _lock: Held,
}

fn failure(device: &str, error: &io::Error) -> Failure {
    Failure::new(Kind::Failed, format!("{device}: {error}"), "")
}

fn not_put_back(device: &str, error: &io::Error) -> Failure {
    let message = format!("{device}: its former root qdisc could not be put back: {error}");
    let remedy = format!(
        "`tcpilot watch {device} --restore` tries again; `tc qdisc del dev {device} root` sets the kernel's \
         default instead"
    );
    Failure::new(Kind::Failed, message, remedy)
}

fn path_of(device: &str) -> PathBuf {
    let netns = host::own_netns_inum().unwrap_or_default();
    Path::new(FOLDER).join(format!("fair-{netns}-{device}.json"))
}

/// Makes the folder of journals and locks. It refuses a folder writable by others.
fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder)?;
    let meta = fs::symlink_metadata(folder)?;
    let own = rustix::process::geteuid().as_raw();
    if !meta.is_dir() || ![0, own].contains(&meta.uid()) || meta.mode() & 0o022 != 0 {
        let message = format!(
            "others may write in {}: give it to root with mode 0700",
            folder.display()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    Ok(())
}

/// Locks a device of this network namespace against other processes, until the file is closed. The guard
/// does not inherit it: the standard library opens files with O_CLOEXEC.
///
/// The lock is a file, not an abstract socket name, because any user of the namespace can take a name.
/// Anybody who may open a file can lock it, flock(2), and only the owner may open this one.
fn lock(device: &str) -> io::Result<Held> {
    make_folder(Path::new(FOLDER))?;
    let path = path_of(device).with_extension("lock");
    for _ in 0..20 {
        if let Some(held) = file::try_take(&path)? {
            return Ok(held);
        }
        thread::sleep(Duration::from_millis(100)); // a guard may be restoring the qdisc right now
    }
    Err(io::ErrorKind::WouldBlock.into())
}

/// Why a device could not be locked; `running` if another process has the lock.
fn lock_failure(device: &str, error: &io::Error, running: Failure) -> Failure {
    match error.kind() {
        io::ErrorKind::WouldBlock => running,
        _ => failure(device, error),
    }
}

/// The root of a device, if it can be put back exactly.
fn root_of(tc: &Tc, device: &str, has_rate: bool) -> Result<Root, Failure> {
    let all = tc.qdiscs().map_err(|e| failure(device, &e))?;
    let Some(root) = all.iter().find(|q| q.parent == ROOT) else {
        return Ok(Root::Default); // the kernel does not always report noqueue
    };
    if root.handle == 0 {
        return Ok(Root::Default);
    }
    let refuse = |why: &str, remedy: &str| {
        let message = format!("{device}: its root qdisc {} {why}", root.kind);
        Err(Failure::new(Kind::Usage, message, remedy))
    };
    let has_more = all.iter().any(|q| q.parent >> 16 == root.handle >> 16);
    if has_more || !RESTORABLE.contains(&root.kind.as_str()) {
        let remedy = format!(
            "take it away first (tc qdisc del dev {device} root); the kernel's default can be put back, \
             and without classes {}",
            RESTORABLE.join(", ")
        );
        return refuse("could not be put back as it is", &remedy);
    }
    if root.kind == "tbf" && !has_rate {
        return refuse("limits its rate", "give --rate, so that it stays limited");
    }
    Ok(Root::Explicit {
        kind: root.kind.clone(),
        handle: root.handle,
        options: root.options.clone(),
    })
}

impl Journal {
    /// Puts back the qdisc replaced by a killed process, and notes the present one in the journal.
    ///
    /// # Errors
    /// Another process makes this device fair, its root qdisc could not be put back later, or the journal
    /// cannot be written.
    pub fn open(device: &str, ifindex: u32, tc: &Tc, has_rate: bool) -> Result<Journal, Failure> {
        let lock = lock(device).map_err(|error| {
            let message = format!("another tcpilot makes {device} fair");
            let running = Failure::new(Kind::Running, message, "stop it first");
            lock_failure(device, &error, running)
        })?;
        restore_locked(device)?;
        let root = root_of(tc, device, has_rate)?;
        let entry = Entry {
            ifindex,
            root,
            clsact: false,
        };
        let path = path_of(device);
        write(&path, &entry).map_err(|e| Failure::of_file(&path, &e))?;
        Ok(Journal {
            device: device.to_owned(),
            path,
            entry,
            guard: start_guard(device).map_err(|e| failure(device, &e))?,
            is_ended: false,
            _lock: lock,
        })
    }

    /// Notes the coming clsact qdisc.
    pub fn note_clsact(&mut self) -> io::Result<()> {
        self.entry.clsact = true;
        write(&self.path, &self.entry)
    }
}

impl Journal {
    /// Puts the former root qdisc back. Dropping the journal does the same, but can only log an error.
    ///
    /// # Errors
    /// The kernel refused. Our qdisc is still there then, and so is the journal.
    pub fn end(mut self) -> Result<(), Failure> {
        self.put_back()
    }

    fn put_back(&mut self) -> Result<(), Failure> {
        self.is_ended = true;
        let result = undo(&self.entry);
        match &result {
            Ok(()) => {
                let _ = fs::remove_file(&self.path);
            }
            // The guard would wait for our lock, and then report the same once more.
            Err(_) => {
                let _ = self.guard.kill();
            }
        }
        // The guard's standard input ends. It finds no journal, and ends.
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
        result.map_err(|error| not_put_back(&self.device, &error))
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if !self.is_ended {
            if let Err(failure) = self.put_back() {
                tracing::warn!("{failure}");
            }
        }
    }
}

/// Puts back the qdisc replaced by a killed process; does nothing if there is no journal.
///
/// # Errors
/// A running process makes this device fair, or the qdisc cannot be put back.
pub fn restore(device: &str) -> Result<(), Failure> {
    let path = path_of(device);
    // Without the right to read the folder nobody knows whether there is a journal.
    if !path.try_exists().map_err(|e| Failure::of_file(&path, &e))? {
        return Ok(());
    }
    let _lock = lock(device).map_err(|error| {
        let message = format!("a tcpilot that runs makes {device} fair");
        let running = Failure::new(Kind::Running, message, "stop it: it puts back itself");
        lock_failure(device, &error, running)
    })?;
    restore_locked(device)
}

fn restore_locked(device: &str) -> Result<(), Failure> {
    let path = path_of(device);
    let Ok(text) = fs::read_to_string(&path) else {
        return Ok(());
    };
    if let Ok(entry) = serde_json::from_str::<Entry>(&text) {
        undo(&entry).map_err(|e| not_put_back(device, &e))?;
    }
    fs::remove_file(&path).map_err(|e| Failure::of_file(&path, &e))
}

/// Starts the guard: a process that restores the qdisc if we are killed. It has a process group of its own,
/// so Ctrl-C does not reach it.
fn start_guard(device: &str) -> io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(["watch", device, "--restore", "--at-end-of-input"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
}

/// Writes the journal to disk before anything is replaced. If the write fails, the former qdisc stays.
fn write(path: &Path, entry: &Entry) -> io::Result<()> {
    file::replace(path, file::PRIVATE, &serde_json::to_vec(entry)?)
}

/// Puts the former qdisc in the place of ours, in one step: if the kernel refuses, ours stays, so a later try
/// still finds it. Does nothing if ours is no longer there: the device is gone, or somebody replaced the qdisc.
fn undo(entry: &Entry) -> io::Result<()> {
    let tc = Tc::new(entry.ifindex)?;
    if entry.clsact {
        let _ = tc.delete_filter(CLSACT_INGRESS, PRIORITY);
        if tc.count_filters(CLSACT_INGRESS).unwrap_or(0) == 0 {
            let _ = tc.delete_clsact();
        }
    }
    let found = tc.qdiscs()?;
    if !found.iter().any(|q| q.parent == ROOT && q.handle == HANDLE) {
        return Ok(());
    }
    let Root::Explicit {
        kind,
        handle,
        options,
    } = &entry.root
    else {
        return tc.delete(ROOT); // the kernel sets its default
    };
    let told = Qdisc {
        kind: kind.clone(),
        handle: *handle,
        parent: ROOT,
        options: options.clone(),
    };
    tc.put(&Qdisc {
        options: options.as_deref().map(|o| codel::as_given(kind, o)),
        ..told.clone()
    })?;
    if !tc.qdiscs()?.contains(&told) {
        tracing::warn!(kind, "the kernel tells the restored root qdisc differently");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn rewritten_journal_is_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fair-1-eth0.json");
        fs::write(&path, "of a version before").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let entry = Entry {
            ifindex: 7,
            root: Root::Default,
            clsact: false,
        };
        write(&path, &entry).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(serde_json::from_str::<Entry>(&text).unwrap(), entry);
    }

    #[test]
    fn a_folder_writable_by_others_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("run");
        make_folder(&folder).unwrap();
        make_folder(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        for mode in [0o770, 0o702, 0o1777] {
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            let error = make_folder(&folder).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{mode:o}");
        }
    }
}
