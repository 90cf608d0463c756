//! The configuration's errors as people see them.

use tcpilot_show::failure::{Failure, Kind};

use crate::ConfigError;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

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
