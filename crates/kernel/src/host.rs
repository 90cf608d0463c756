//! The host's facilities: privileges, BTF, the cgroup v2 hierarchy, its congestion controls.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use crate::Error;

/// The id of the first cgroup of a hierarchy: kernfs numbers its files from 1 (fs/kernfs/dir.c).
const ROOT_CGROUP: u64 = 1;

const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_PTRACE: u32 = 19;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// Checks the requirements before anything is loaded, for a clear error.
///
/// # Errors
/// [`Error::Privileges`], [`Error::NoBtf`].
pub fn check_requirements() -> Result<(), Error> {
    let status = fs::read_to_string("/proc/self/status").map_err(|source| Error::System {
        action: "read /proc/self/status",
        source,
    })?;
    if !is_initial_user_namespace() {
        return Err(Error::UserNamespace);
    }
    let missing = missing_capabilities(effective_capabilities(&status));
    if !missing.is_empty() {
        return Err(Error::Privileges(missing));
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Err(Error::NoBtf);
    }
    Ok(())
}

/// Whether this is the first user namespace. For BPF, capabilities of another one do not count
/// (user_namespaces(7)). The first one has a fixed inode number (PROC_USER_INIT_INO of the kernel's
/// include/linux/proc_ns.h). If the number cannot be read, the answer is yes.
fn is_initial_user_namespace() -> bool {
    const INITIAL: u64 = 0xEFFF_FFFD;
    fs::metadata("/proc/self/ns/user").map_or(true, |meta| meta.ino() == INITIAL)
}

/// Whether the process was started with a signal ignored, as by nohup(1).
pub fn ignores_signal(number: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    is_ignored(&status, number)
}

/// Whether this process belongs to a terminal's session, proc(5): a service does not.
pub fn has_terminal() -> bool {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    terminal_of(&stat).is_some_and(|number| number != 0)
}

/// The field tty_nr of a stat file; the name before it may contain spaces and parentheses.
fn terminal_of(stat: &str) -> Option<i32> {
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(4)?.parse().ok()
}

fn is_ignored(status: &str, number: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .is_some_and(|mask| mask >> (number - 1) & 1 == 1)
}

/// Whether this process may enter other network namespaces (setns(2)): without CAP_SYS_ADMIN only the connections
/// of its own are listed.
pub fn may_enter_netns() -> bool {
    fs::read_to_string("/proc/self/status")
        .is_ok_and(|status| effective_capabilities(&status) >> CAP_SYS_ADMIN & 1 == 1)
}

/// Whether [`all_netns`] finds the network namespace of every process: the process identifiers must be the host's, and
/// the links in /proc readable (ptrace(2), "Ptrace access mode checking").
pub fn sees_all_netns() -> bool {
    // PROC_PID_INIT_INO of the kernel's include/linux/proc_ns.h.
    const INITIAL: u64 = 0xEFFF_FFFC;
    let is_hosts = fs::metadata("/proc/self/ns/pid").is_ok_and(|meta| meta.ino() == INITIAL);
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    is_hosts && effective_capabilities(&status) >> CAP_SYS_PTRACE & 1 == 1 && may_enter_netns()
}

fn effective_capabilities(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0)
}

/// The names of missing capabilities. CAP_SYS_ADMIN includes CAP_BPF and CAP_PERFMON (capabilities(7)).
fn missing_capabilities(effective: u64) -> Vec<&'static str> {
    let has = |bit: u32| effective >> bit & 1 == 1;
    [
        (CAP_BPF, "CAP_BPF"),
        (CAP_NET_ADMIN, "CAP_NET_ADMIN"),
        (CAP_PERFMON, "CAP_PERFMON"),
    ]
    .into_iter()
    .filter(|&(bit, _)| !has(bit) && (bit == CAP_NET_ADMIN || !has(CAP_SYS_ADMIN)))
    .map(|(_, name)| name)
    .collect()
}

/// The root of the cgroup v2 hierarchy, from /proc/self/mountinfo: on hybrid systems it is not
/// /sys/fs/cgroup.
///
/// # Errors
/// [`Error::NoCgroup2`] if none is mounted.
pub fn cgroup2_root() -> Result<PathBuf, Error> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(|source| Error::System {
        action: "read /proc/self/mountinfo",
        source,
    })?;
    let is_first = |path: &Path| cgroup_id(path).is_ok_and(|id| id == ROOT_CGROUP);
    find_cgroup2(&mounts, is_first).ok_or(Error::NoCgroup2)
}

/// The same, if it is the whole hierarchy. A container sees its own part of it as if it were all
/// (cgroup_namespaces(7)), and a program attached there sees none of the host's other sockets.
///
/// # Errors
/// [`Error::PartOfCgroups`]; [`Error::NoCgroup2`] if none is mounted.
pub fn whole_cgroup2_root() -> Result<PathBuf, Error> {
    let root = cgroup2_root()?;
    match cgroup_id(&root)? {
        ROOT_CGROUP => Ok(root),
        _ => Err(Error::PartOfCgroups(root)),
    }
}

/// Prefers the mount of the first cgroup: in a container a part of the hierarchy is called `/`, too.
fn find_cgroup2(mounts: &str, is_first: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let found = mounts.lines().filter_map(cgroup2_mount);
    let found: Vec<_> = found
        .map(|(root, target)| (root, PathBuf::from(unescape(target))))
        .collect();
    let first = found.iter().find(|(_, target)| is_first(target));
    let whole = first.or_else(|| found.iter().find(|(root, _)| *root == "/"));
    let (_, target) = whole.or(found.first())?;
    Some(target.clone())
}

/// The root and the mount point in a line of mountinfo, if it is of the cgroup v2 hierarchy.
fn cgroup2_mount(line: &str) -> Option<(&str, &str)> {
    let (mount, source) = line.split_once(" - ")?;
    let mut fields = mount.split(' ').skip(3);
    let place = (fields.next()?, fields.next()?);
    source.starts_with("cgroup2 ").then_some(place)
}

/// Decodes a field of mountinfo: it has blanks in octal (proc(5)).
fn unescape(field: &str) -> String {
    field
        .replace("\\040", " ")
        .replace("\\011", "\t")
        .replace("\\012", "\n")
        .replace("\\134", "\\")
}

/// The kernel's id of a cgroup: the inode number of its directory.
///
/// # Errors
/// [`Error::Cgroup`] if `path` is not a directory of a cgroup v2 hierarchy.
pub fn cgroup_id(path: &Path) -> Result<u64, Error> {
    let refuse = |source| Error::Cgroup {
        path: path.to_path_buf(),
        source,
    };
    let meta = fs::metadata(path).map_err(refuse)?;
    if !path.join("cgroup.controllers").exists() {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "not a cgroup v2 directory");
        return Err(refuse(source));
    }
    Ok(meta.ino())
}

/// All directories below a directory, at any depth.
pub(crate) fn subtree(dir: &Path) -> Box<dyn Iterator<Item = fs::DirEntry>> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let below = entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
    Box::new(below.flat_map(|e| {
        let further = subtree(&e.path());
        std::iter::once(e).chain(further)
    }))
}

/// The inode number of a named network namespace (`ip netns`), or of any namespace file; `None` if it does not
/// exist. A plain number stands for itself.
pub fn netns_inum(name: &str) -> Option<u32> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    let path = Path::new("/run/netns").join(name);
    u32::try_from(fs::metadata(path).ok()?.ino()).ok()
}

/// The inode number of this process's network namespace.
pub fn own_netns_inum() -> Option<u32> {
    u32::try_from(fs::metadata("/proc/self/ns/net").ok()?.ino()).ok()
}

/// The inode number of the calling thread's network namespace.
pub fn thread_netns_inum() -> Option<u32> {
    u32::try_from(fs::metadata("/proc/thread-self/ns/net").ok()?.ino()).ok()
}

/// Names of the network namespaces in /run/netns with their inode numbers.
pub fn named_netns() -> Vec<(u32, String)> {
    let Ok(entries) = fs::read_dir("/run/netns") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let inum = u32::try_from(fs::metadata(entry.path()).ok()?.ino()).ok()?;
            Some((inum, entry.file_name().to_string_lossy().into_owned()))
        })
        .collect()
}

/// Whether a file is a namespace. A name of a namespace that is being made, or has ended, is an ordinary file.
fn is_namespace(file: &fs::File) -> bool {
    /// The type of the file system of namespaces (statfs(2)).
    const NSFS_MAGIC: u64 = 0x6e73_6673;
    rustix::fs::fstatfs(file)
        .is_ok_and(|found| u64::try_from(found.f_type).is_ok_and(|kind| kind == NSFS_MAGIC))
}

/// Every network namespace with a name or a process, each once, opened so that a thread can enter it.
pub fn all_netns() -> Vec<fs::File> {
    let named = fs::read_dir("/run/netns")
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path());
    let of_processes = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path().join("ns/net"));
    let mut seen = std::collections::HashSet::new();
    named
        .chain(of_processes)
        .filter_map(|path| fs::File::open(path).ok())
        .filter(is_namespace)
        .filter(|file| file.metadata().is_ok_and(|meta| seen.insert(meta.ino())))
        .collect()
}

/// Identifies this boot: namespace cookies mean nothing after another one.
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
}

/// The congestion controls registered now.
pub fn registered_algorithms() -> Vec<String> {
    words("/proc/sys/net/ipv4/tcp_available_congestion_control")
}

/// Whether the kernel has this module, loaded or not, or built in: by the lists of depmod(8).
pub fn has_module(module: &str) -> bool {
    let release = kernel_release();
    let lists = ["modules.dep", "modules.builtin"];
    lists.iter().any(|list| {
        let text = fs::read_to_string(format!("/lib/modules/{release}/{list}"));
        text.is_ok_and(|text| lists_module(&text, module))
    })
}

fn lists_module(list: &str, module: &str) -> bool {
    list.lines().any(|line| {
        let path = line.split(':').next().unwrap_or_default();
        let file = path.rsplit('/').next().unwrap_or_default();
        file.split('.').next() == Some(module)
    })
}

/// The default congestion control of this network namespace.
pub fn default_algorithm() -> Option<String> {
    words("/proc/sys/net/ipv4/tcp_congestion_control").pop()
}

/// The kernel's built-in default congestion control (CONFIG_DEFAULT_TCP_CONG), from /proc/config.gz or
/// the file next to the kernel; `None` if neither can be read.
pub fn built_in_default() -> Option<String> {
    let release = kernel_release();
    let files = [
        format!("/boot/config-{release}"),
        format!("/lib/modules/{release}/config"),
    ];
    let text = fs::File::open("/proc/config.gz")
        .ok()
        .and_then(|file| io::read_to_string(flate2::read::GzDecoder::new(file)).ok())
        .or_else(|| files.iter().find_map(|file| fs::read_to_string(file).ok()))?;
    built_in_of(&text)
}

fn built_in_of(config: &str) -> Option<String> {
    let value = config
        .lines()
        .find_map(|line| line.strip_prefix("CONFIG_DEFAULT_TCP_CONG="))?;
    Some(value.trim_matches('"').to_owned())
}

fn words(path: &str) -> Vec<String> {
    fs::read_to_string(path)
        .map(|text| text.split_whitespace().map(str::to_owned).collect())
        .unwrap_or_default()
}

/// The kernel's release, as `uname -r`.
pub fn kernel_release() -> String {
    words("/proc/sys/kernel/osrelease")
        .pop()
        .unwrap_or_default()
}

/// The name of this host, in the daemon's own namespace of names; empty if it is not known.
pub fn name() -> String {
    words("/proc/sys/kernel/hostname").pop().unwrap_or_default()
}

/// Whether an accepted connection can announce more than 64 KiB at first: Linux 6.11 and newer.
pub fn raises_receive_windows() -> bool {
    is_release_from(6, 11)
}

/// Whether the iterator over TCP sockets leaves out a bucket of its table: before Linux 6.17.
pub(crate) fn iterator_leaves_out() -> bool {
    !is_release_from(6, 17)
}

fn is_release_from(major: u32, minor: u32) -> bool {
    let release = kernel_release();
    let mut numbers = release.split(['.', '-']).map(|n| n.parse().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(major), Some(minor))
}

/// Names of the loadable congestion control modules: tcp_*.ko below /lib/modules.
pub fn loadable_algorithms() -> Vec<String> {
    let dir = Path::new("/lib/modules")
        .join(kernel_release())
        .join("kernel/net/ipv4");
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| {
            let file = entry.file_name().to_string_lossy().into_owned();
            let name = file.strip_prefix("tcp_")?.split_once(".ko")?.0.to_owned();
            (name != "diag").then_some(name)
        })
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_is_seventh_field_despite_odd_name() {
        let stat = |tty| format!("41 (a) b (c) S 1 41 41 {tty} -1 4194560 1");
        assert_eq!(terminal_of(&stat(34816)), Some(34816));
        assert_eq!(terminal_of(&stat(0)), Some(0));
        assert_eq!(terminal_of(""), None);
    }

    #[test]
    fn all_capabilities_are_named_when_none_is_there() {
        assert_eq!(
            missing_capabilities(0),
            ["CAP_BPF", "CAP_NET_ADMIN", "CAP_PERFMON"]
        );
    }

    #[test]
    fn sys_admin_implies_bpf_perfmon_not_net_admin() {
        assert_eq!(missing_capabilities(1 << CAP_SYS_ADMIN), ["CAP_NET_ADMIN"]);
        let enough = 1 << CAP_SYS_ADMIN | 1 << CAP_NET_ADMIN;
        assert!(missing_capabilities(enough).is_empty());
    }

    #[test]
    fn capabilities_are_read_from_status() {
        assert_eq!(
            effective_capabilities("Name:\tx\nCapEff:\t00000000000000ff\n"),
            0xff
        );
        assert_eq!(effective_capabilities("Name:\tx\n"), 0);
    }

    fn no(_: &Path) -> bool {
        false
    }

    const HYBRID: &str = "24 1 0:22 / /sys/fs/cgroup rw shared:4 - tmpfs tmpfs rw\n\
        25 24 0:23 / /sys/fs/cgroup/cpu rw,nosuid shared:5 - cgroup cgroup rw,cpu\n\
        26 24 0:24 / /sys/fs/cgroup/unified rw,nosuid shared:6 - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_hybrid_mount_is_found_where_it_is() {
        assert_eq!(
            find_cgroup2(HYBRID, no),
            Some("/sys/fs/cgroup/unified".into())
        );
        assert_eq!(
            find_cgroup2("22 1 0:5 / /proc rw - proc proc rw\n", no),
            None
        );
    }

    #[test]
    fn full_cgroup_mount_precedes_partial_mount() {
        let part = "20 1 0:24 /machine.slice /srv/part rw - cgroup2 cgroup2 rw\n";
        assert_eq!(find_cgroup2(part, no), Some("/srv/part".into()));
        let both = part.to_owned() + HYBRID;
        assert_eq!(
            find_cgroup2(&both, no),
            Some("/sys/fs/cgroup/unified".into())
        );
    }

    #[test]
    fn container_prefers_host_hierarchy_to_its_own() {
        let own = "20 1 0:24 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        let hosts = "21 1 0:24 /../../.. /host/cgroup rw - cgroup2 cgroup2 rw\n";
        let mounts = own.to_owned() + hosts;
        let is_hosts = |path: &Path| path == Path::new("/host/cgroup");
        assert_eq!(find_cgroup2(&mounts, is_hosts), Some("/host/cgroup".into()));
        assert_eq!(find_cgroup2(&mounts, no), Some("/sys/fs/cgroup".into()));
    }

    #[test]
    fn ignored_signal_is_read_from_status() {
        let status = "Name:\tx\nSigIgn:\t0000000000001001\n";
        assert!(is_ignored(status, 1) && is_ignored(status, 13));
        assert!(!is_ignored(status, 15) && !is_ignored("", 1));
    }

    #[test]
    fn the_default_of_the_build_is_read() {
        let text = "CONFIG_DEFAULT_BBR=y\nCONFIG_DEFAULT_TCP_CONG=\"bbr\"\n";
        assert_eq!(built_in_of(text), Some("bbr".into()));
        assert_eq!(built_in_of("CONFIG_NET=y\n"), None);
    }

    #[test]
    fn modules_are_found_by_their_files() {
        let list = "kernel/net/ipv4/tcp_bbr.ko.xz: kernel/a.ko\nkernel/net/ipv4/tcp_htcp.ko:\n";
        let found = ["tcp_bbr", "tcp_htcp", "tcp_bb", "a"].map(|name| lists_module(list, name));
        assert_eq!(found, [true, true, false, false]);
    }

    #[test]
    fn blanks_in_a_mount_point_are_unescaped() {
        assert_eq!(
            find_cgroup2("20 1 0:24 / /a\\040b rw - cgroup2 cgroup2 rw", no),
            Some("/a b".into())
        );
    }
}
