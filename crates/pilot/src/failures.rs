//! The pilot's errors as people see them.

use tcpilot_show::failure::{Failure, Kind};

use crate::{protocol::AskError, state::StateError};

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
            AskError::NoAnswer(_) => (
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

impl From<StateError> for Failure {
    fn from(error: StateError) -> Failure {
        Failure::new(Kind::Failed, error.to_string(), "")
    }
}
