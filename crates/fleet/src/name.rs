//! Names of hosts, places and policies. They are parts of the engine's keys, and of files.

use std::fmt;

use crate::Refusal;

/// Bytes of the longest name.
pub const NAME_MAX: usize = 64;

/// A name of 1 to 64 lower-case letters, digits and hyphens: it has a meaning neither in a key of NATS (`.`, `*`, `>`) nor in
/// a path (`/`, `..`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

impl Name {
    /// A valid name.
    ///
    /// # Errors
    /// [`Refusal::Name`].
    pub fn new(name: &str) -> Result<Self, Refusal> {
        let is_plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        let is_valid = (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(is_plain);
        is_valid.then(|| Self(name.to_owned())).ok_or(Refusal::Name)
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_meaning_elsewhere() {
        assert_eq!(Name::new("web-07").unwrap().to_string(), "web-07");
        let long = "a".repeat(NAME_MAX + 1);
        for bad in ["", "Web", "a.b", "a/b", "..", "*", ">", "a b", "é", &long] {
            assert_eq!(Name::new(bad), Err(Refusal::Name), "{bad}");
        }
    }
}
