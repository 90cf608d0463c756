//! What this host offers: privileges, BTF, the cgroup v2 hierarchy, its congestion controls.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use crate::Error;

const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// Checks what loading needs before it is tried, so that the answer is a clear one.
///
/// # Errors
/// [`Error::Privileges`], [`Error::NoBtf`].
pub fn check_requirements() -> Result<(), Error> {
    let status = fs::read_to_string("/proc/self/status").map_err(|source| Error::System {
        action: "read /proc/self/status",
        source,
    })?;
    let missing = missing_capabilities(effective_capabilities(&status));
    if !missing.is_empty() {
        return Err(Error::Privileges(missing));
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Err(Error::NoBtf);
    }
    Ok(())
}

/// Whether this process may enter other network namespaces, setns(2): without CAP_SYS_ADMIN only the
/// connections of its own are listed.
pub fn may_enter_netns() -> bool {
    fs::read_to_string("/proc/self/status")
        .is_ok_and(|status| effective_capabilities(&status) >> CAP_SYS_ADMIN & 1 == 1)
}

fn effective_capabilities(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0)
}

/// CAP_SYS_ADMIN includes CAP_BPF and CAP_PERFMON, capabilities(7).
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

/// The root of the cgroup v2 hierarchy, from /proc/mounts: on hybrid systems it is not /sys/fs/cgroup.
///
/// # Errors
/// [`Error::NoCgroup2`] where none is mounted.
pub fn cgroup2_root() -> Result<PathBuf, Error> {
    let mounts = fs::read_to_string("/proc/mounts").map_err(|source| Error::System {
        action: "read /proc/mounts",
        source,
    })?;
    find_cgroup2(&mounts).ok_or(Error::NoCgroup2)
}

fn find_cgroup2(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let target = fields.nth(1)?;
        (fields.next()? == "cgroup2").then(|| PathBuf::from(unescape(target)))
    })
}

/// /proc/mounts writes blanks in octal, proc(5).
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
/// [`Error::Cgroup`] where `path` is not a directory of a cgroup v2 hierarchy.
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

/// The directories below a directory.
pub(crate) fn subtree(dir: &Path) -> Box<dyn Iterator<Item = fs::DirEntry>> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let below = entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
    Box::new(below.flat_map(|e| {
        let further = subtree(&e.path());
        std::iter::once(e).chain(further)
    }))
}

/// The inode number of a named network namespace (`ip netns`), or of any namespace file; `None` when
/// it is not there. A plain number stands for itself.
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

/// Every network namespace that has a name or a process, each once, opened so that it can be entered.
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
        .filter(|file| file.metadata().is_ok_and(|meta| seen.insert(meta.ino())))
        .collect()
}

/// Identifies this boot: namespace cookies mean nothing after another one.
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
}

/// The congestion controls that are registered now.
pub fn registered_algorithms() -> Vec<String> {
    words("/proc/sys/net/ipv4/tcp_available_congestion_control")
}

/// The default congestion control of this network namespace.
pub fn default_algorithm() -> Option<String> {
    words("/proc/sys/net/ipv4/tcp_congestion_control").pop()
}

/// The congestion control that the kernel was built to start with (CONFIG_DEFAULT_TCP_CONG), from
/// /proc/config.gz or the file beside the kernel; `None` where neither can be read.
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

/// Whether an accepted connection announces more than 64 KiB at first where it is told to: Linux 6.11 and newer.
pub fn raises_receive_windows() -> bool {
    let release = kernel_release();
    let mut numbers = release.split(['.', '-']).map(|n| n.parse().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6), Some(11))
}

/// Names of the congestion control modules that could be loaded: tcp_*.ko below /lib/modules.
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
    fn all_capabilities_are_named_when_none_is_there() {
        assert_eq!(
            missing_capabilities(0),
            ["CAP_BPF", "CAP_NET_ADMIN", "CAP_PERFMON"]
        );
    }

    #[test]
    fn sys_admin_stands_for_bpf_and_perfmon_but_not_for_net_admin() {
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

    #[test]
    fn the_hybrid_mount_is_found_where_it_is() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                      cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(find_cgroup2(mounts), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(find_cgroup2("proc /proc proc rw 0 0\n"), None);
    }

    #[test]
    fn the_default_of_the_build_is_read() {
        let text = "CONFIG_DEFAULT_BBR=y\nCONFIG_DEFAULT_TCP_CONG=\"bbr\"\n";
        assert_eq!(built_in_of(text), Some("bbr".into()));
        assert_eq!(built_in_of("CONFIG_NET=y\n"), None);
    }

    #[test]
    fn blanks_in_a_mount_point_are_unescaped() {
        assert_eq!(
            find_cgroup2("x /a\\040b cgroup2 rw 0 0"),
            Some("/a b".into())
        );
    }
}
