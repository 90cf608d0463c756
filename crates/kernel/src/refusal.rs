//! Hosts that refuse BPF on purpose: the kernel answers EINVAL or EPERM, and the cause stands in another file.

use std::fs;

use libbpf_rs::ErrorKind;

use crate::Error;

/// Why a host refuses BPF to a process that has the privileges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// kernel_lockdown(7) in its stricter mode: BPF programs may not read the kernel's memory.
    Lockdown,
    /// The sysctl net.core.bpf_jit_enable is 0.
    JitOff,
    /// A security module or a seccomp filter.
    Policy,
}

/// The files that show the cause.
struct Host {
    /// /sys/kernel/security/lockdown; empty if there is none.
    lockdown: String,
    /// /proc/sys/net/core/bpf_jit_enable.
    jit_enable: String,
}

impl Host {
    fn read() -> Host {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Host {
            lockdown: read("/sys/kernel/security/lockdown"),
            jit_enable: read("/proc/sys/net/core/bpf_jit_enable"),
        }
    }

    /// The cause of this answer of the kernel; `None` if it is another one.
    fn cause(&self, answer: ErrorKind) -> Option<Refusal> {
        let is_denied = answer == ErrorKind::PermissionDenied;
        // Without these the kernel does not know the helpers or calls that a program needs: EINVAL, or ENOTSUPP,
        // which has no name in user space.
        let is_lacking = matches!(
            answer,
            ErrorKind::InvalidInput | ErrorKind::Unsupported | ErrorKind::Other
        );
        if self.lockdown.contains("[confidentiality]") && (is_denied || is_lacking) {
            return Some(Refusal::Lockdown);
        }
        if self.jit_enable.trim() == "0" && is_lacking {
            return Some(Refusal::JitOff);
        }
        is_denied.then_some(Refusal::Policy)
    }
}

impl Refusal {
    /// The cause, as one clause.
    pub fn sentence(self) -> &'static str {
        match self {
            Refusal::Lockdown => {
                "this kernel is locked down (confidentiality), so BPF programs may not read its memory"
            }
            Refusal::JitOff => "this kernel's BPF compiler is off (net.core.bpf_jit_enable is 0)",
            Refusal::Policy => {
                "this host denies BPF even to a process with the privileges: a security module or a seccomp filter"
            }
        }
    }

    /// The remedy, as one clause.
    pub fn remedy(self) -> &'static str {
        match self {
            Refusal::Lockdown => {
                "boot with lockdown=integrity or without lockdown; /sys/kernel/security/lockdown shows the mode"
            }
            Refusal::JitOff => {
                "sysctl -w net.core.bpf_jit_enable=1, and look for it in /etc/sysctl.d"
            }
            Refusal::Policy => {
                "the kernel's log (dmesg) and the audit log name the rule; allow bpf and perf_event_open there"
            }
        }
    }
}

impl Error {
    /// Why this host refuses BPF, if that is behind this error.
    pub fn refusal(&self) -> Option<Refusal> {
        let answer = match self {
            Error::Rejected { source, .. }
            | Error::Load(source)
            | Error::Map { source, .. }
            | Error::CcLoad { source, .. }
            | Error::CcRegister { source, .. } => source.kind(),
            _ => return None,
        };
        // A verifier that rejects often answers as a security module does.
        let is_rejected = matches!(self, Error::Rejected { .. });
        let cause = Host::read().cause(answer);
        cause.filter(|cause| !(is_rejected && *cause == Refusal::Policy))
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn kind(errno: i32) -> ErrorKind {
        libbpf_rs::Error::from(io::Error::from_raw_os_error(errno)).kind()
    }

    #[test]
    fn the_cause_follows_from_errno_and_host() {
        const ENOTSUPP: i32 = 524;
        let [eperm, einval, enomem] = [1, 22, 12].map(kind);
        let cause = |lockdown: &str, jit_enable: &str, answer| {
            let [lockdown, jit_enable] = [lockdown, jit_enable].map(str::to_owned);
            Host {
                lockdown,
                jit_enable,
            }
            .cause(answer)
        };
        let (open, locked) = (
            "[none] integrity confidentiality\n",
            "none integrity [confidentiality]\n",
        );
        for answer in [eperm, einval] {
            assert_eq!(cause(locked, "1\n", answer), Some(Refusal::Lockdown));
        }
        for answer in [einval, kind(ENOTSUPP)] {
            assert_eq!(cause(open, "0\n", answer), Some(Refusal::JitOff));
            assert_eq!(
                cause("none [integrity] confidentiality\n", "1\n", answer),
                None
            );
            assert_eq!(cause("", "2\n", answer), None);
        }
        assert_eq!(cause(open, "1\n", eperm), Some(Refusal::Policy));
        assert_eq!(cause(locked, "0\n", enomem), None);
    }
}
