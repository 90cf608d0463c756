//! Errors as people see them: one line (error, place, remedy) and an exit status by kind.

use std::path::Path;

use crate::output::printable;
use tcpilot_kernel::Refusal;

/// Exit status by kind; `--help` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Anything else.
    Failed = 1,
    /// Arguments or configuration.
    Usage = 2,
    /// Privileges or the control socket's mode.
    NotPermitted = 3,
    /// The host lacks something.
    Unsupported = 4,
    /// A second daemon, or none.
    Running = 5,
}

/// An error on its way to the user.
#[derive(Debug)]
pub struct Failure {
    /// Decides the exit status.
    pub kind: Kind,
    /// One line: the error and its place.
    pub message: String,
    /// The remedy.
    pub remedy: String,
    /// Further mistakes, a line each.
    pub others: Vec<String>,
}

impl Failure {
    /// A failure with its remedy.
    pub fn new(kind: Kind, message: impl Into<String>, remedy: impl Into<String>) -> Failure {
        Failure {
            kind,
            message: message.into(),
            remedy: remedy.into(),
            others: Vec::new(),
        }
    }

    /// This failure, and the other failures after it, a line each.
    pub fn with(mut self, other: Result<(), Failure>) -> Failure {
        if let Err(other) = other {
            self.others.push(other.to_string());
            self.others.extend(other.others);
        }
        self
    }

    /// The failure of a step refused by this host.
    fn of_refusal(error: impl std::fmt::Display, refusal: Refusal) -> Failure {
        let message = format!("{error}: {}", refusal.sentence());
        Failure::new(Kind::Unsupported, message, refusal.remedy())
    }

    /// The failure of an unusable file.
    pub fn of_file(path: &Path, error: &dyn std::fmt::Display) -> Failure {
        Failure::new(Kind::Usage, format!("{}: {error}", path.display()), "")
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let message = printable(&self.message);
        if self.remedy.is_empty() {
            write!(f, "{message}")
        } else {
            write!(f, "{message}; {}", printable(&self.remedy))
        }
    }
}

impl From<tcpilot_kernel::Error> for Failure {
    fn from(error: tcpilot_kernel::Error) -> Failure {
        use tcpilot_kernel::Error as E;
        if let Some(refusal) = error.refusal() {
            return Failure::of_refusal(&error, refusal);
        }
        let kind = match &error {
            E::Privileges(_) | E::UserNamespace => Kind::NotPermitted,
            E::NoBtf | E::NoCgroup2 | E::PartOfCgroups(_) | E::NoStructOps | E::NoQdiscs => {
                Kind::Unsupported
            }
            E::Cgroup { .. }
            | E::NoSuchCc(_)
            | E::CcName(_)
            | E::CcNameLong(_)
            | E::CcForeign(_)
            | E::CcFile { .. } => Kind::Usage,
            E::AlreadyAttached(_) => Kind::Running,
            E::Claims { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
                Kind::NotPermitted
            }
            _ => Kind::Failed,
        };
        Failure::new(kind, error.to_string(), error.remedy())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::new(Kind::Failed, error.to_string(), "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line() {
        let failure = Failure::new(Kind::Failed, "a\nb", "do c");
        assert_eq!(failure.to_string(), "a b; do c");
    }

    #[test]
    fn the_unit_gives_up_on_refusing_hosts() {
        let unit = include_str!("../../../packaging/tcpilot.service");
        let statuses = unit
            .lines()
            .find_map(|line| line.strip_prefix("RestartPreventExitStatus="));
        let statuses: Vec<&str> = statuses.unwrap_or_default().split(' ').collect();
        for kind in [Kind::NotPermitted, Kind::Unsupported] {
            assert!(statuses.contains(&(kind as u8).to_string().as_str()));
        }
    }

    #[test]
    fn refusals_of_the_host_end_with_status_4() {
        let failure = Failure::of_refusal("cannot load: Invalid argument", Refusal::Lockdown);
        assert_eq!(failure.kind, Kind::Unsupported);
        assert_eq!(
            failure.to_string(),
            "cannot load: Invalid argument: this kernel is locked down (confidentiality), so BPF programs may not read \
             its memory; boot with lockdown=integrity or without lockdown; /sys/kernel/security/lockdown shows the mode"
        );
    }

    #[test]
    fn later_failure_is_a_further_line() {
        let first = || Failure::new(Kind::Usage, "a", "");
        assert!(first().with(Ok(())).others.is_empty());
        let failure = first().with(Err(Failure::new(Kind::Failed, "b", "do c")));
        assert_eq!(
            (failure.kind, failure.others),
            (Kind::Usage, vec!["b; do c".to_owned()])
        );
    }

    #[test]
    fn no_terminal_obeys_what_a_file_says() {
        let failure = Failure::new(Kind::Failed, "key `\x1b[2J\u{9b}m`", "");
        assert_eq!(failure.to_string(), "key `\\u{1b}[2J\\u{9b}m`");
    }
}
