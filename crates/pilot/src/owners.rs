//! Finds the processes and pods of a connection. The command searches, not the daemon: the daemon may not
//! look into other processes. The user who asks may look into their own, and root into all.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    os::unix::fs::DirEntryExt,
    path::{Path, PathBuf},
};

use tcpilot_core::Prefix;
use tcpilot_kernel::host;

use crate::figures::{FlowView, PathView};

/// Fills in the processes, the cgroup and the pod of each connection.
pub fn name_owners(flows: &mut [FlowView]) {
    let holders = holders(Path::new("/proc"));
    let root = host::cgroup2_root().ok();
    let cgroups = root.as_deref().map(cgroups).unwrap_or_default();
    let pods = pod_names(Path::new("/var/log/pods"));
    for flow in flows {
        if let Some(holders) = flow.inode.and_then(|inode| holders.get(&inode)) {
            let names: BTreeSet<_> = holders.iter().map(|holder| holder.name.clone()).collect();
            flow.processes = names.into_iter().collect();
            flow.pids = holders.iter().map(|holder| holder.pid).collect();
        }
        flow.cgroup = flow.cgroup_id.and_then(|id| cgroups.get(&id)).cloned();
        let uid = flow.cgroup.as_deref().and_then(pod_of);
        flow.pods = uid
            .map(|uid| pods.get(&uid).cloned().unwrap_or(uid))
            .into_iter()
            .collect();
    }
}

/// Fills in the processes and pods of the open connections of each path.
pub fn name_owners_of_paths(paths: &mut [PathView], flows: &[FlowView]) {
    let mut of_prefix: HashMap<Prefix, Vec<usize>> = HashMap::new();
    for (number, path) in paths.iter().enumerate() {
        of_prefix.entry(path.prefix).or_default().push(number);
    }
    let lengths: BTreeSet<(bool, u8)> = of_prefix
        .keys()
        .map(|p| (p.is_ipv4(), p.family_len()))
        .collect();
    for flow in flows {
        let Ok(remote) = flow.remote.parse::<std::net::SocketAddr>() else {
            continue;
        };
        let ip = remote.ip().to_canonical();
        for (_, length) in lengths
            .iter()
            .filter(|(is_ipv4, _)| *is_ipv4 == ip.is_ipv4())
        {
            let prefix = Prefix::around(ip, *length);
            for number in of_prefix.get(&prefix).into_iter().flatten() {
                if let Some(path) = paths.get_mut(*number).filter(|path| is_on(flow, path)) {
                    add(&mut path.processes, &flow.processes);
                    add(&mut path.pods, &flow.pods);
                }
            }
        }
    }
}

/// Whether a connection is on a path. A path shared by all namespaces has the connections of all namespaces.
fn is_on(flow: &FlowView, path: &PathView) -> bool {
    let of_all = path.netns == "all";
    path.policy == flow.policy && (of_all || path.netns == flow.netns)
}

fn add(all: &mut Vec<String>, some: &[String]) {
    for name in some {
        if let Err(place) = all.binary_search(name) {
            all.insert(place, name.clone());
        }
    }
}

/// A process with an open socket.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Holder {
    pid: u32,
    name: String,
}

/// The processes of each socket, by the socket's inode number, from /proc/PID/fd, proc(5). Processes hidden
/// from this user are left out.
fn holders(proc: &Path) -> HashMap<u64, Vec<Holder>> {
    let mut all: HashMap<u64, Vec<Holder>> = HashMap::new();
    for process in fs::read_dir(proc).into_iter().flatten().flatten() {
        let Some(pid) = process
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let sockets: BTreeSet<u64> = sockets_of(&process.path()).collect();
        if sockets.is_empty() {
            continue;
        }
        let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
        let holder = Holder {
            pid,
            name: name.trim_end().to_owned(),
        };
        for socket in sockets {
            all.entry(socket).or_default().push(holder.clone());
        }
    }
    all
}

fn sockets_of(process: &Path) -> impl Iterator<Item = u64> + use<> {
    let files = fs::read_dir(process.join("fd"))
        .into_iter()
        .flatten()
        .flatten();
    files.filter_map(|file| {
        let target = fs::read_link(file.path()).ok()?;
        let number = target
            .to_str()?
            .strip_prefix("socket:[")?
            .strip_suffix(']')?;
        number.parse().ok()
    })
}

/// The cgroups below a root by their ids: the id of a cgroup is the inode number of its folder.
fn cgroups(root: &Path) -> HashMap<u64, String> {
    let mut found = HashMap::new();
    let mut left: Vec<PathBuf> = vec![root.to_owned()];
    while let Some(folder) = left.pop() {
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        for entry in entries.filter(|e| e.file_type().is_ok_and(|kind| kind.is_dir())) {
            let path = entry.path();
            let name = path.strip_prefix(root).unwrap_or(&path).display();
            found.insert(entry.ino(), format!("/{name}"));
            left.push(path);
        }
    }
    found
}

/// The id of a cgroup's pod. Kubernetes names a pod's folder `pod<id>` with the driver cgroupfs. With the
/// driver systemd it is `kubepods-…-pod<id>.slice`, with `_` instead of `-` in the id.
fn pod_of(cgroup: &str) -> Option<String> {
    cgroup.split('/').find_map(|folder| {
        let name = folder.strip_suffix(".slice").unwrap_or(folder);
        let (before, id) = name.rsplit_once("pod")?;
        let is_pods =
            before.is_empty() || (before.starts_with("kubepods") && before.ends_with('-'));
        let id = id.replace('_', "-");
        let is_id = id.len() == 36 && id.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
        (is_pods && is_id).then_some(id)
    })
}

/// The names of pods by their ids: the kubelet keeps the logs of each pod in a folder `NAMESPACE_NAME_ID`.
fn pod_names(logs: &Path) -> HashMap<String, String> {
    let folders = fs::read_dir(logs).into_iter().flatten().flatten();
    let named = folders.filter_map(|folder| {
        let folder = folder.file_name().into_string().ok()?;
        let (name, id) = folder.rsplit_once('_')?;
        Some((id.to_owned(), name.replacen('_', "/", 1)))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "3d9e4f0a-7f43-4b0c-9d4c-8f0b9a1c2d3e";

    #[test]
    fn pod_is_found_with_either_cgroup_driver() {
        let systemd = format!(
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice/cri-containerd-0f.scope",
            ID.replace('-', "_")
        );
        for cgroup in [
            systemd.as_str(),
            &format!("/kubepods/besteffort/pod{ID}/0f"),
            &format!("/kubepods/pod{ID}"),
        ] {
            assert_eq!(pod_of(cgroup).as_deref(), Some(ID), "{cgroup}");
        }
        for other in [
            "/system.slice/nginx.service",
            "/kubepods.slice/kubepods-burstable.slice",
            "/user/tripod",
            "/podman-12.scope",
        ] {
            assert_eq!(pod_of(other), None, "{other}");
        }
    }

    #[test]
    fn pod_has_the_name_of_its_logs() {
        let logs = tempfile::tempdir().unwrap();
        fs::create_dir(logs.path().join(format!("shop_web-7c9_{ID}"))).unwrap();
        assert_eq!(pod_names(logs.path())[ID], "shop/web-7c9");
        assert!(pod_names(Path::new("/nonexistent")).is_empty());
    }

    #[test]
    fn a_socket_of_this_process_is_this_processs() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let link = fs::read_link(format!(
            "/proc/self/fd/{}",
            std::os::fd::AsRawFd::as_raw_fd(&socket)
        ));
        let link = link.unwrap().to_str().unwrap().to_owned();
        let inode: u64 = link
            .trim_start_matches("socket:[")
            .trim_end_matches(']')
            .parse()
            .unwrap();
        let found = holders(Path::new("/proc"));
        let pids: Vec<u32> = found[&inode].iter().map(|holder| holder.pid).collect();
        assert!(pids.contains(&std::process::id()), "{pids:?}");
    }
}
