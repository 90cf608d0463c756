//! What can go wrong between the process and the kernel, by kind.

use std::{io, path::PathBuf};

/// An error of the kernel side. Each message is one line: what and where; the remedy is in [`Error::remedy`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel was built without CONFIG_DEBUG_INFO_BTF.
    #[error("this kernel has no BTF: /sys/kernel/btf/vmlinux is missing")]
    NoBtf,
    /// Capabilities are missing; their names.
    #[error("missing privileges: {}", .0.join(", "))]
    Privileges(Vec<&'static str>),
    /// No cgroup v2 hierarchy is mounted.
    #[error("no cgroup v2 hierarchy is mounted")]
    NoCgroup2,
    /// The chosen cgroup is not there, or not a cgroup v2 directory.
    #[error("{}: {source}", path.display())]
    Cgroup {
        /// The directory asked for.
        path: PathBuf,
        /// Why it cannot be used.
        source: io::Error,
    },
    /// Another tcpilot steers the same sockets.
    #[error("another tcpilot is already attached to {}, or to a cgroup above or below it", .0.display())]
    AlreadyAttached(PathBuf),
    /// The kernel refused a program, most likely the verifier.
    #[error("the kernel refused tcpilot's BPF programs: {0}")]
    Load(#[source] libbpf_rs::Error),
    /// The program was loaded but could not be attached.
    #[error("cannot attach to {}: {source}", path.display())]
    Attach {
        /// The cgroup.
        path: PathBuf,
        /// The kernel's answer.
        source: libbpf_rs::Error,
    },
    /// A map operation failed.
    #[error("cannot {action}: {source}")]
    Map {
        /// What was tried.
        action: &'static str,
        /// The kernel's answer.
        source: libbpf_rs::Error,
    },
    /// A system call failed.
    #[error("{action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl Error {
    /// What the user can do about it; one clause.
    pub fn remedy(&self) -> &'static str {
        match self {
            Error::NoBtf => {
                "boot a kernel built with CONFIG_DEBUG_INFO_BTF (every distribution kernel since 2021)"
            }
            Error::Privileges(_) => "run as root, or grant CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON",
            Error::NoCgroup2 => "mount one: mount -t cgroup2 none /sys/fs/cgroup",
            Error::Cgroup { .. } => {
                "give --cgroup a directory of the cgroup v2 hierarchy (see /proc/mounts)"
            }
            Error::AlreadyAttached(_) => "stop the other one first, or choose another --cgroup",
            Error::Load(_) => {
                "run with RUST_LOG=libbpf=debug for the verifier's log, and report it with the kernel's version"
            }
            Error::Attach { .. } => {
                "another sockops program may be attached exclusively: bpftool cgroup tree"
            }
            Error::Map { .. } | Error::System { .. } => "run with RUST_LOG=debug for details",
        }
    }
}
