//! The pilot's errors as people see them.

use crate::failure::{Failure, Kind};
use crate::pilot::{config::ConfigError, protocol::AskError, state::StateError};

impl From<AskError> for Failure {
    fn from(error: AskError) -> Failure {
        let (kind, remedy) = match &error {
            AskError::NotRunning(_) => (
                Kind::Running,
                "start it with `tcpilot run`, or give its --socket",
            ),
            AskError::NotPermitted(_) => (
                Kind::NotPermitted,
                "ask as root, or as a member of the group that `group` in [socket] names",
            ),
            AskError::ReadOnly(_) => (Kind::NotPermitted, "ask as root"),
            AskError::Silent(_) => (
                Kind::Failed,
                "it is busy: ask again; or stopped: `kill -CONT` lets it go on",
            ),
            AskError::CutOff(_) => (
                Kind::Failed,
                "tcpilot ended, or has too many clients: ask again",
            ),
            AskError::Refused(_) => (Kind::Failed, ""),
            AskError::Broken(_) => (Kind::Failed, "is it of another version? restart it"),
        };
        Failure::new(kind, error.to_string(), remedy)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Failure {
        let ConfigError::Invalid(problems) = error else {
            return Failure::new(Kind::Usage, error.to_string(), "name another file");
        };
        let mut lines = problems.iter().map(ToString::to_string);
        let first = lines.next().unwrap_or_default();
        Failure {
            others: lines.collect(),
            ..Failure::new(Kind::Usage, first, "")
        }
    }
}

impl From<StateError> for Failure {
    fn from(error: StateError) -> Failure {
        Failure::new(Kind::Failed, error.to_string(), "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pilot::config::Config;

    #[test]
    fn each_mistake_is_a_line() {
        let error = Config::from_toml("a = 1\nb = 2\n", "t").unwrap_err();
        let failure = Failure::from(error);
        assert!(failure.message.starts_with("t:1: "), "{failure}");
        assert_eq!(failure.others.len(), 1);
        assert!(
            failure.others[0].starts_with("t:2: "),
            "{:?}",
            failure.others
        );
    }
}
