//! The errors of this crate, by kind.

use std::{io, path::PathBuf};

use crate::verifier::take_objection;

/// The most characters of an algorithm's name (TCP_CA_NAME_MAX, with the end mark).
pub(crate) const CC_NAME_LEN_MAX: usize = 15;

/// An error of the kernel side. Each message is one line: the error and its place; the remedy is in [`Error::remedy`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel was built without CONFIG_DEBUG_INFO_BTF.
    #[error("this kernel has no BTF: /sys/kernel/btf/vmlinux is missing")]
    NoBtf,
    /// Capabilities are missing; these are their names.
    #[error("missing privileges: {}", .0.join(", "))]
    Privileges(Vec<&'static str>),
    /// The capabilities are those of a user namespace.
    #[error("this is a user namespace, whose root may not load BPF programs")]
    UserNamespace,
    /// No cgroup v2 hierarchy is mounted.
    #[error("no cgroup v2 hierarchy is mounted")]
    NoCgroup2,
    /// Only a part of the hierarchy is mounted: this is a container.
    #[error("{} is only a part of this host's cgroups: other sockets would not be steered", .0.display())]
    PartOfCgroups(PathBuf),
    /// The chosen cgroup does not exist, or is not a cgroup v2 directory.
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
    /// The folder with the claims of cgroups cannot be used.
    #[error("cannot claim the cgroup in {}: {source}", path.display())]
    Claims {
        /// The folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The kernel refused a program, and its verifier did not say why.
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
        /// The attempt.
        action: &'static str,
        /// The kernel's answer.
        source: libbpf_rs::Error,
    },
    /// The kernel cannot run congestion controls in BPF.
    #[error("this kernel has no struct_ops for congestion controls")]
    NoStructOps,
    /// The kernel has no qdiscs in BPF.
    #[error("this kernel has no BPF qdiscs")]
    NoQdiscs,
    /// No algorithm of this name comes with tcpilot.
    #[error("tcpilot has no congestion control {0}")]
    NoSuchCc(String),
    /// A file with a congestion control cannot be read.
    #[error("{}: {source}", path.display())]
    CcFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file libbpf cannot read.
    #[error("{0} is no compiled BPF object")]
    CcNoObject(String),
    /// An object is not a congestion control built with bpf/cc/lib/cc.h.
    #[error("{0} holds no congestion control built with bpf/cc/lib/cc.h")]
    CcObject(String),
    /// An algorithm with only one way to count acknowledgements.
    #[error("{0} counts acknowledgements in one way only")]
    CcCounting(String),
    /// A name that none of our algorithms can have.
    #[error("\"{}\" is no name of a congestion control", .0.escape_debug())]
    CcName(String),
    /// A name that is too long for the kernel.
    #[error("the name \"{}\" has more than {CC_NAME_LEN_MAX} characters", .0.escape_debug())]
    CcNameLong(String),
    /// The name is that of an algorithm which `tcpilot cc` did not load.
    #[error("{0} is another algorithm of this host, not loaded by `tcpilot cc load`")]
    CcForeign(String),
    /// The kernel's verifier rejected a program.
    #[error("the kernel's verifier rejects {name}: {objection}")]
    Rejected {
        /// What was loaded.
        name: String,
        /// The program in it, and the verifier's reason.
        objection: String,
        /// The kernel's answer.
        source: libbpf_rs::Error,
    },
    /// The kernel refused a congestion control, and its verifier did not say why.
    #[error("the kernel refused {name}: {source}")]
    CcLoad {
        /// The name or file asked for.
        name: String,
        /// The kernel's answer.
        source: libbpf_rs::Error,
    },
    /// The kernel verified it but did not register it.
    #[error("cannot register {name}: {source}")]
    CcRegister {
        /// Its name.
        name: String,
        /// The kernel's answer.
        source: libbpf_rs::Error,
    },
    /// The name is registered already.
    #[error("{0} is loaded already")]
    CcTaken(String),
    /// An unregistered name.
    #[error("{0} is not loaded")]
    CcNotLoaded(String),
    /// A name that is registered, but not by a pin.
    #[error("{0} was not loaded by `tcpilot cc load`")]
    CcNotPinned(String),
    /// Its pin is gone, but it is still registered.
    #[error("{0} is still registered: a process holds it")]
    CcStillThere(String),
    /// A connection with it did not carry its data.
    #[error("a loopback connection with {name} failed: {source}")]
    CcVerify {
        /// The algorithm.
        name: String,
        /// The error.
        source: io::Error,
    },
    /// A file in the BPF file system cannot be used.
    #[error("{}: {source}", path.display())]
    Pin {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A system call failed.
    #[error("{action}: {source}")]
    System {
        /// The attempt.
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl Error {
    /// The error of tcpilot's programs that this thread could not load.
    pub(crate) fn of_load(source: libbpf_rs::Error) -> Error {
        Error::of_refused("tcpilot's BPF programs", source, Error::Load)
    }

    /// The error of something that this thread could not load; `other` if the verifier did not say why.
    pub(crate) fn of_refused(
        name: &str,
        source: libbpf_rs::Error,
        other: impl FnOnce(libbpf_rs::Error) -> Error,
    ) -> Error {
        match take_objection() {
            Some(objection) => Error::Rejected {
                name: name.to_owned(),
                objection,
                source,
            },
            None => other(source),
        }
    }

    /// The remedy for the user; one clause.
    pub fn remedy(&self) -> &'static str {
        match self {
            Error::NoBtf => {
                "boot a kernel built with CONFIG_DEBUG_INFO_BTF (every distribution kernel since 2021)"
            }
            Error::Privileges(_) => "run as root, or grant CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON",
            Error::UserNamespace => "run it outside of the container or `unshare --user`",
            Error::NoCgroup2 => "mount one: mount -t cgroup2 none /sys/fs/cgroup",
            Error::PartOfCgroups(_) => {
                "give the container the host's /sys/fs/cgroup, or name this part with --cgroup"
            }
            Error::Cgroup { .. } => {
                "give --cgroup a directory of the cgroup v2 hierarchy (see /proc/mounts)"
            }
            Error::AlreadyAttached(_) => "stop the other one first, or choose another --cgroup",
            Error::Claims { .. } => "run as root, or make that folder this user's",
            Error::NoStructOps => {
                "boot a kernel with CONFIG_BPF_JIT and CONFIG_DEBUG_INFO_BTF, 5.13 or newer"
            }
            Error::NoQdiscs => {
                "boot one with CONFIG_NET_SCH_BPF, 6.16 or newer, or give --qdisc htb"
            }
            Error::NoSuchCc(_) => "`tcpilot cc list` shows what there is",
            Error::CcName(_) => {
                "a name has only letters, digits and _; `tcpilot cc list` shows what there is"
            }
            Error::CcNameLong(_) | Error::CcForeign(_) => {
                "give yours another name: that is `.name` of its struct tcp_congestion_ops"
            }
            Error::CcFile { .. } => "give the path of a compiled object (.bpf.o)",
            Error::CcNoObject(_) | Error::CcObject(_) => {
                "docs/use/own-algorithm.md shows how to build one"
            }
            Error::CcCounting(_) => "leave --as-module out; bic, hstcp and hybla have it",
            Error::CcTaken(_) => "unload it first, or put a new version in its place by --update",
            Error::CcNotPinned(_) => "stop the daemon or the `cc load --foreground` that holds it",
            Error::CcNotLoaded(_) => "`tcpilot cc list` shows what is; the kernel's own stay",
            Error::CcStillThere(_) => "stop that process",
            Error::CcVerify { .. } => "is lo up in this namespace? ip link set lo up",
            Error::Pin { .. } => {
                "it must be on a BPF file system (mount -t bpf bpf /sys/fs/bpf); or use --foreground"
            }
            Error::Rejected { .. } => {
                "run with RUST_LOG=libbpf=debug for its whole log; if the program is tcpilot's, report it with the kernel's version"
            }
            Error::Load(_) | Error::CcLoad { .. } | Error::CcRegister { .. } => {
                "run with RUST_LOG=libbpf=debug for the verifier's log, and report it with the kernel's version"
            }
            Error::Attach { .. } => {
                "another sockops program may be attached exclusively: bpftool cgroup tree"
            }
            Error::Map { .. } | Error::System { .. } => "run with RUST_LOG=debug for details",
        }
    }
}
