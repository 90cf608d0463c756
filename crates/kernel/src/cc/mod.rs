//! Congestion controls as BPF struct_ops: listing, loading, registering, updating, removing.
//!
//! A registration lives in one of two ways. It is *held* by a link of this process, and ends with it
//! (the daemon's arms, `cc load --foreground`). Or it is *pinned* by a file in a BPF file system,
//! until it is unloaded or the host boots (`cc load`). Connections keep their algorithm until they
//! end, even if its registration ends before. Kernels before 6.4 have no links: there a registration
//! outlives a killed process.

mod catalog;
mod object;
mod traffic;
mod users;
mod verify;

use std::{
    fs, io,
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle,
    libbpf_sys::{bpf_link_get_fd_by_id, bpf_map_delete_elem},
    query::{LinkInfoIter, LinkTypeInfo},
};
use serde::{Deserialize, Serialize};

use crate::{Error, error::CC_NAME_LEN_MAX, host, process::inherited};
pub use catalog::{About, PREFIX, describe, ours};
pub use object::{Counting, Ecn, Loaded, Variant, ecn_of, is_path, name_in};
pub use traffic::Watch as SocketWatch;
pub use users::sockets_by_algorithm;
pub use verify::verify;

/// The folder for pins of registrations, unless another is named: systemd's BPF file system.
pub const DEFAULT_BPFFS: &str = "/sys/fs/bpf";

/// A registration that ends when this value is dropped.
pub struct Held {
    link: Link,
    loaded: Loaded,
}

impl Held {
    /// Registers a loaded algorithm.
    ///
    /// # Errors
    /// [`Error::CcRegister`], [`Error::CcTaken`].
    pub fn register(mut loaded: Loaded) -> Result<Held, Error> {
        if is_registered(loaded.name()) {
            return Err(Error::CcTaken(loaded.name().to_owned()));
        }
        let link = loaded.attach()?;
        Ok(Held { link, loaded })
    }

    /// The name it is registered under.
    pub fn name(&self) -> &str {
        self.loaded.name()
    }

    /// The numbers to leave it to another program: see [`Kept::take`].
    pub fn descriptor(&self) -> KeptDescriptor {
        KeptDescriptor {
            fd: self.link.as_fd().as_raw_fd(),
            links: self.loaded.has_links(),
        }
    }

    /// A loaded algorithm.
    pub fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// Pins the registration to a file.
    ///
    /// # Errors
    /// [`Error::CcName`], [`Error::Pin`].
    pub fn pin(mut self, bpffs: &Path) -> Result<(), Error> {
        let path = pin_path(bpffs, self.name())?;
        let fail = |source| Error::Pin {
            path: path.clone(),
            source,
        };
        let dir = path.parent().unwrap_or(bpffs);
        fs::create_dir_all(dir).map_err(fail)?;
        // On kernels without links this descriptor is the map's, and the map gets pinned.
        self.link
            .pin(&path)
            .map_err(|e| fail(io::Error::other(e.to_string())))?;
        self.link.disconnect();
        Ok(())
    }
}

/// The descriptor of a registration by its number, for the program inheriting it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptDescriptor {
    /// The link's; before 6.4 the map's.
    pub fd: i32,
    /// Whether it is a link's.
    pub links: bool,
}

/// A registration of this process's former program; it ends with this value.
pub struct Kept {
    fd: OwnedFd,
    links: bool,
}

impl Kept {
    /// Takes the inherited registration. Call it only once.
    ///
    /// # Errors
    /// [`Error::System`] if it is not open.
    pub fn take(descriptor: KeptDescriptor) -> Result<Kept, Error> {
        Ok(Kept {
            fd: inherited(descriptor.fd)?,
            links: descriptor.links,
        })
    }

    /// Shares the registration of another process, so that it does not end with that process. `None` if this kernel
    /// has no links, or this process may not ask for them (CAP_SYS_ADMIN).
    pub fn share(name: &str) -> Option<Kept> {
        // The map's only value is a `struct tcp_congestion_ops`, with the name in it.
        let value = |map: u32| {
            let map = MapHandle::from_map_id(map).ok()?;
            map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()?
        };
        let named = [name.as_bytes(), b"\0"].concat();
        let is_of = |map: u32| {
            value(map).is_some_and(|ops| ops.windows(named.len()).any(|part| part == named))
        };
        let link = LinkInfoIter::default().find(|link| match &link.info {
            LinkTypeInfo::StructOps(info) => is_of(info.map_id),
            _ => false,
        })?;
        // SAFETY: no pointers.
        let fd = unsafe { bpf_link_get_fd_by_id(link.id) };
        (fd >= 0).then(|| Kept {
            // SAFETY: the kernel has just made it for this process.
            fd: unsafe { OwnedFd::from_raw_fd(fd) },
            links: true,
        })
    }

    /// The numbers to leave it to another program once more.
    pub fn descriptor(&self) -> KeptDescriptor {
        KeptDescriptor {
            fd: self.fd.as_raw_fd(),
            links: self.links,
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if !self.links {
            let key = 0u32;
            // SAFETY: the map is open, and its keys have four bytes.
            unsafe { bpf_map_delete_elem(self.fd.as_raw_fd(), (&raw const key).cast()) };
        }
    }
}

/// Whether the kernel knows the name now.
pub fn is_registered(name: &str) -> bool {
    host::registered_algorithms().iter().any(|n| n == name)
}

/// Refuses a text if it cannot be the name of a pinned algorithm. A name has only letters, digits and
/// `_`. The kernel takes dots, too, but a BPF file system does not.
///
/// # Errors
/// [`Error::CcName`], [`Error::CcNameLong`].
pub fn check_name(name: &str) -> Result<(), Error> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(is_plain) {
        return Err(Error::CcName(name.to_owned()));
    }
    if name.len() > CC_NAME_LEN_MAX {
        return Err(Error::CcNameLong(name.to_owned()));
    }
    Ok(())
}

/// The pin's path. Refuses a path as a name: joined to the folder, it would lead out of it.
fn pin_path(bpffs: &Path, name: &str) -> Result<PathBuf, Error> {
    check_name(name)?;
    Ok(bpffs.join("tcpilot").join(name))
}

/// Refuses a name that another algorithm of this host has: one of the kernel's, or of another program.
///
/// # Errors
/// [`Error::CcForeign`].
pub fn check_free(bpffs: &Path, name: &str) -> Result<(), Error> {
    if name.starts_with(PREFIX) || !is_registered(name) || is_pinned(bpffs, name) {
        return Ok(());
    }
    Err(Error::CcForeign(name.to_owned()))
}

/// Whether a file keeps the registration of this name.
pub fn is_pinned(bpffs: &Path, name: &str) -> bool {
    pin_path(bpffs, name).is_ok_and(|path| is_registration(&path))
}

/// Whether a file is the pin of a registration: of a struct_ops link, or before 6.4 of the map.
fn is_registration(path: &Path) -> bool {
    // This opens pins of every kind, and nothing else.
    let Ok(pin) = Link::open(path) else {
        return false;
    };
    let about = format!("/proc/self/fdinfo/{}", pin.as_fd().as_raw_fd());
    let about = fs::read_to_string(about).unwrap_or_default();
    let is_link = about.lines().any(|line| line.starts_with("link_id:"));
    let of_struct_ops = || {
        pin.info()
            .map(|i| matches!(i.info, LinkTypeInfo::StructOps(_)))
    };
    // BPF_MAP_TYPE_STRUCT_OPS of linux/bpf.h
    let is_map = about.lines().any(|line| line == "map_type:\t26");
    is_map || is_link && of_struct_ops().unwrap_or(false)
}

/// The names of the pinned registrations.
pub fn pinned(bpffs: &Path) -> Vec<String> {
    let entries = fs::read_dir(bpffs.join("tcpilot"));
    let names = entries.into_iter().flatten().flatten();
    names
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

/// Replaces a pinned version by a new one; open connections keep the old one.
///
/// # Errors
/// [`Error::CcName`], [`Error::CcNotLoaded`], [`Error::CcNotPinned`], or as for loading.
pub fn update_pinned(bpffs: &Path, mut new: Loaded) -> Result<(), Error> {
    let name = new.name().to_owned();
    if !is_pinned(bpffs, &name) {
        return Err(not_pinned(name));
    }
    if !new.has_links() {
        remove_pinned(bpffs, &name)?;
        return Held::register(new)?.pin(bpffs);
    }
    let path = pin_path(bpffs, &name)?;
    let link = Link::open(&path).map_err(|e| Error::Pin {
        path,
        source: io::Error::other(e.to_string()),
    })?;
    new.replace(link.as_fd())
}

fn not_pinned(name: String) -> Error {
    if is_registered(&name) {
        Error::CcNotPinned(name)
    } else {
        Error::CcNotLoaded(name)
    }
}

/// Removes a pinned registration, and waits until the name is free. Connections keep the algorithm.
///
/// # Errors
/// [`Error::CcName`], [`Error::CcNotLoaded`], [`Error::CcNotPinned`], [`Error::Pin`].
pub fn remove_pinned(bpffs: &Path, name: &str) -> Result<(), Error> {
    let path = pin_path(bpffs, name)?;
    if !is_registration(&path) {
        return Err(not_pinned(name.to_owned()));
    }
    if !Variant::detect()?.links {
        let map = MapHandle::from_pinned_path(&path).map_err(|e| Error::Pin {
            path: path.clone(),
            source: io::Error::other(e.to_string()),
        })?;
        let key = 0u32.to_ne_bytes();
        map.delete(&key).map_err(|source| Error::Map {
            action: "take the registration back",
            source,
        })?;
    }
    fs::remove_file(&path).map_err(|source| Error::Pin { path, source })?;
    let start = Instant::now();
    while is_registered(name) && start.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(5));
    }
    if is_registered(name) {
        return Err(Error::CcStillThere(name.to_owned()));
    }
    Ok(())
}
