//! The state that a host says: its own knowledge, group by group.

use tcpilot_learner::MAX_ARMS;
use tcpilot_learner::gaussian::Information;

use crate::{Group, Losses, Message, Refusal};

/// Bytes of an algorithm's name (`TCP_CA_NAME_MAX` of Linux, with a version such as `@2`).
pub const NAME_MAX: usize = 20;

/// From so many paths on a group is said, or from [`CONNECTIONS_MIN`] connections: one user is no group.
pub const PATHS_MIN: u32 = 3;

/// See [`PATHS_MIN`].
pub const CONNECTIONS_MIN: u32 = 8;

/// A host's own knowledge of one group. It grows by the host's own paths only, so a foreign message, which
/// is merged by [`crate::merge()`] into another type, never comes back as the host's own.
#[derive(Clone, Debug)]
pub struct Own<const C: usize> {
    sum: Information<C>,
    paths: u32,
    connections: u32,
}

impl<const C: usize> Default for Own<C> {
    fn default() -> Self {
        Self {
            sum: Information::NONE,
            paths: 0,
            connections: 0,
        }
    }
}

impl<const C: usize> Own<C> {
    /// Adds the message of one of the host's paths to its group, and the number of its connections.
    pub fn add_path(&mut self, told: &Information<C>, connections: u32) -> &mut Self {
        self.sum.add(told, 1.0);
        self.paths = self.paths.saturating_add(1);
        self.connections = self.connections.saturating_add(connections);
        self
    }

    /// Adds the remaining knowledge of forgotten paths.
    pub fn add_forgotten(&mut self, gone: &Information<C>) -> &mut Self {
        self.sum.add(gone, 1.0);
        self
    }

    /// All own knowledge.
    #[must_use]
    pub fn sum(&self) -> &Information<C> {
        &self.sum
    }

    /// Whether enough paths or connections are behind it to be said.
    #[must_use]
    pub fn is_enough(&self) -> bool {
        self.paths >= PATHS_MIN || self.connections >= CONNECTIONS_MIN
    }

    /// The row to say of a group: `doubt` counts the group's alarms, `age_s` is the time since its last sample.
    ///
    /// # Errors
    /// As [`Message::of`].
    pub fn row(&self, group: Group, doubt: u8, age_s: f64) -> Result<Row, Refusal> {
        let paths_log2 = self.paths.checked_ilog2().map_or(0, |log| log as u8);
        Ok(Row {
            group,
            paths_log2,
            doubt,
            age_quarters: (age_s / QUARTER_S).clamp(0.0, 255.0) as u8,
            losses: Losses::default(),
            said: Message::of(&self.sum)?,
        })
    }
}

/// Seconds of a quarter of an hour, the unit of a row's age.
pub const QUARTER_S: f64 = 900.0;

/// A state's knowledge of one group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// The group.
    pub group: Group,
    /// Binary logarithm of the number of paths behind it.
    pub paths_log2: u8,
    /// Counter of alarms: it grows when the group is found to have changed, and wraps.
    pub doubt: u8,
    /// Quarters of an hour since the group's last sample when the state was made. People see it; ageing uses
    /// [`State::age_s`], since the sender ages its messages up to the state's own time.
    pub age_quarters: u8,
    /// Its bouts of loss.
    pub losses: Losses,
    /// The knowledge.
    pub said: Message,
}

/// All that a host says under one policy.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Meaning of the rewards: a hash of the objective's weights and of the version of its code.
    pub reward: u64,
    /// A random number per start of the sender.
    pub boot: u64,
    /// Number of the state within its boot.
    pub sequence: u64,
    /// Seconds between the time up to which the rows are aged, and the writing of the state.
    pub age_s: u32,
    algorithms: Vec<String>,
    rows: Vec<Row>,
}

impl State {
    /// A state without rows. The first algorithm is the sender's default.
    ///
    /// # Errors
    /// [`Refusal::Algorithms`].
    pub fn new(reward: u64, algorithms: Vec<String>) -> Result<Self, Refusal> {
        let is_known_twice = |i: usize| algorithms[..i].contains(&algorithms[i]);
        let is_valid = (2..=MAX_ARMS).contains(&algorithms.len())
            && algorithms.iter().all(|name| is_name(name))
            && !(0..algorithms.len()).any(is_known_twice);
        if !is_valid {
            return Err(Refusal::Algorithms);
        }
        Ok(Self {
            reward,
            boot: 0,
            sequence: 0,
            age_s: 0,
            algorithms,
            rows: Vec::new(),
        })
    }

    /// A state with the same head and without rows.
    #[must_use]
    pub fn empty(&self) -> Self {
        Self {
            algorithms: self.algorithms.clone(),
            rows: Vec::new(),
            ..*self
        }
    }

    /// Adds a row behind the others.
    ///
    /// # Errors
    /// [`Refusal::Unordered`] if its group is not behind the last one, [`Refusal::Algorithms`] if it has
    /// another number of contrasts.
    pub fn push(&mut self, row: Row) -> Result<(), Refusal> {
        if self.rows.last().is_some_and(|last| last.group >= row.group) {
            return Err(Refusal::Unordered);
        }
        if row.said.contrasts() + 1 != self.algorithms.len() {
            return Err(Refusal::Algorithms);
        }
        self.rows.push(row);
        Ok(())
    }

    /// Names of the algorithms; the first is the default.
    #[must_use]
    pub fn algorithms(&self) -> &[String] {
        &self.algorithms
    }

    /// The rows in the order of their groups.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Whether this state replaces an earlier one of the same host. Within a boot the sequence decides; of
    /// different boots the later written one counts, by the engine's clock.
    #[must_use]
    pub fn replaces(&self, written_s: f64, old: &Self, old_written_s: f64) -> bool {
        if self.boot == old.boot {
            self.sequence > old.sequence
        } else {
            written_s > old_written_s
        }
    }
}

/// A kernel's name of an algorithm, with our version behind it: `bbr3@2`.
fn is_name(name: &str) -> bool {
    let is_plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"_-@.".contains(&c);
    (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn lists_of_algorithms_are_checked() {
        assert!(State::new(0, names(&["cubic", "bbr3@2"])).is_ok());
        let long = "a".repeat(NAME_MAX + 1);
        for bad in [
            &["cubic"][..],
            &["cubic", "cubic"],
            &["cubic", ""],
            &["Cubic", "x"],
            &["a", &long],
        ] {
            assert_eq!(
                State::new(0, names(bad)),
                Err(Refusal::Algorithms),
                "{bad:?}"
            );
        }
        let nine: Vec<String> = (0..9).map(|i| format!("a{i}")).collect();
        assert_eq!(State::new(0, nine), Err(Refusal::Algorithms));
    }

    #[test]
    fn a_group_twice_is_unordered() {
        let group = Group::new(0xffff_0808_0800, 0).unwrap();
        let mut own = Own::<1>::default();
        own.add_path(&Information::isotropic(0.2, 0.3), 5);
        let row = own.row(group, 0, 0.0).unwrap();
        let mut state = State::new(0, names(&["cubic", "bbr"])).unwrap();
        assert_eq!(state.push(row), Ok(()));
        assert_eq!(state.push(row), Err(Refusal::Unordered));
    }

    #[test]
    fn one_users_group_is_not_said() {
        let mut own = Own::<1>::default();
        let told = Information::isotropic(0.2, 0.3);
        assert!(!own.add_path(&told, 2).is_enough());
        assert!(own.clone().add_path(&told, 6).is_enough());
        assert!(own.add_path(&told, 1).add_path(&told, 1).is_enough());
    }

    #[test]
    fn late_and_repeated_states_replace_nothing() {
        let state = |boot, sequence| State {
            boot,
            sequence,
            ..State::new(0, names(&["cubic", "bbr"])).unwrap()
        };
        assert!(state(1, 2).replaces(0.0, &state(1, 1), 9.0));
        assert!(!state(1, 2).replaces(9.0, &state(1, 2), 0.0));
        assert!(!state(1, 1).replaces(9.0, &state(1, 2), 0.0));
        assert!(state(2, 1).replaces(9.0, &state(1, 2), 0.0));
    }
}
