//! Declares, reads and writes the sections of the configuration.
//!
//! [`settings!`] declares a section once: each key with its type, default, range, and a doc comment with its
//! reason. The same text is the item's documentation, the comment in `config show`, and the entry in
//! `docs/use/configuration.md`.

use std::cell::RefCell;
use std::ops::RangeInclusive;

use tcpilot_show::output::printable;

use crate::names;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Problem;

/// The text, and the mistakes found so far.
pub(super) struct Source<'a> {
    file: &'a str,
    /// The byte offset of each line's end.
    ends: Vec<usize>,
    problems: RefCell<Vec<Problem>>,
}

/// Renamed keys with their former names, still accepted.
const FORMER: [(&str, &str); 3] = [
    ("algorithms", "arms"),
    ("separate_by_namespace", "part_namespaces"),
    ("separate_by_interface", "part_interfaces"),
];

/// Maximum number of reported mistakes; nobody reads more.
const PROBLEMS_MAX: usize = 100;

impl<'a> Source<'a> {
    pub(super) fn new(file: &'a str, text: &'a str) -> Source<'a> {
        Source {
            file,
            ends: text.match_indices('\n').map(|(at, _)| at).collect(),
            problems: RefCell::default(),
        }
    }

    /// Notes a problem at a byte of the text.
    pub(super) fn report(&self, offset: usize, message: impl Into<String>) {
        if self.is_full() {
            return;
        }
        let line = 1 + self.ends.partition_point(|end| *end < offset);
        // A quoted text may contain line breaks; the message must be one line.
        let message = printable(&message.into());
        self.problems.borrow_mut().push(Problem {
            file: self.file.to_owned(),
            line,
            message,
        });
    }

    /// Whether the maximum number of mistakes has been found.
    pub(super) fn is_full(&self) -> bool {
        self.problems.borrow().len() >= PROBLEMS_MAX
    }

    /// The mistakes, in the order of lines.
    pub(super) fn into_problems(self) -> Vec<Problem> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| problem.line);
        problems
    }
}

/// A table of the text. It remembers the requested keys.
pub(super) struct Table<'a> {
    pub(super) source: &'a Source<'a>,
    /// The table in messages, such as ` in [learner]`; empty at the top level.
    place: String,
    start: usize,
    entries: &'a DeTable<'a>,
    known: RefCell<Vec<&'static str>>,
}

impl<'a> Table<'a> {
    pub(super) fn new(
        source: &'a Source<'a>,
        place: &str,
        start: usize,
        entries: &'a DeTable<'a>,
    ) -> Table<'a> {
        Table {
            source,
            place: place.to_owned(),
            start,
            entries,
            known: RefCell::default(),
        }
    }

    /// The value of a key, by its present or former name. The key counts as known from now on.
    pub(super) fn get(&self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        let key = self.as_written(key);
        self.known.borrow_mut().push(key);
        self.entries.get(key)
    }

    fn as_written<'k>(&self, key: &'k str) -> &'k str {
        let former = FORMER.iter().find(|(name, _)| *name == key);
        match former {
            Some((_, old))
                if !self.entries.contains_key(key) && self.entries.contains_key(*old) =>
            {
                old
            }
            _ => key,
        }
    }

    /// Reads a key into `field`. A missing or wrong key leaves the value unchanged.
    pub(super) fn read<T: Value>(
        &self,
        key: &'static str,
        range: Option<RangeInclusive<u64>>,
        field: &mut T,
    ) {
        let Some(value) = self.get(key) else { return };
        let what = KeyPlace {
            source: self.source,
            name: format!("`{key}`{}", self.place),
            range,
        };
        if let Some(value) = T::read(value, &what) {
            *field = value;
        }
    }

    /// The table under a key, if there is one.
    pub(super) fn sub(&self, key: &'static str, place: &str) -> Option<Table<'a>> {
        let value = self.get(key)?;
        match value.get_ref() {
            DeValue::Table(entries) => {
                Some(Table::new(self.source, place, value.span().start, entries))
            }
            other => {
                let message = format!("`{key}`{} must be a table, not {}", self.place, kind(other));
                self.source.report(value.span().start, message);
                None
            }
        }
    }

    /// Notes a problem with the value of a key, or with the table if the key is missing.
    pub(super) fn report(&self, key: &str, message: impl Into<String>) {
        let offset = self
            .entries
            .get(self.as_written(key))
            .map_or(self.start, |value| value.span().start);
        self.source.report(offset, message);
    }

    /// Notes a problem with an entry of the list under a key.
    pub(super) fn report_entry(&self, key: &str, index: usize, message: impl Into<String>) {
        let list = self
            .entries
            .get(self.as_written(key))
            .and_then(|value| value.get_ref().as_array());
        let offset = list
            .and_then(|list| list.get(index))
            .map_or(self.start, |entry| entry.span().start);
        self.source.report(offset, message);
    }

    /// Reports each key not asked for; call it last. `elsewhere` finds the right section of a key.
    pub(super) fn refuse_others(&self, elsewhere: impl Fn(&str) -> Option<String>) {
        let known = self.known.borrow();
        for key in self
            .entries
            .keys()
            .filter(|key| !known.contains(&key.get_ref().as_ref()))
        {
            if self.source.is_full() {
                return; // finding a hint takes time
            }
            let name = key.get_ref().as_ref();
            let hint = match elsewhere(name) {
                Some(section) => format!("; it belongs {section}"),
                None => names::hint(name, known.iter().copied()),
            };
            self.source.report(
                key.span().start,
                format!("unknown key `{name}`{}{hint}", self.place),
            );
        }
    }
}

/// The key of a value, for messages.
pub(super) struct KeyPlace<'a> {
    pub(super) source: &'a Source<'a>,
    /// The key and its table, such as "`epsilon` in [learner]".
    pub(super) name: String,
    /// The range of an integer, or of the number of entries of a list.
    pub(super) range: Option<RangeInclusive<u64>>,
}

impl KeyPlace<'_> {
    /// Notes a wrong value.
    pub(super) fn report(&self, value: &Spanned<DeValue<'_>>, message: &str) {
        self.source
            .report(value.span().start, format!("{} {message}", self.name));
    }

    /// The same, and returns `None`.
    pub(super) fn refuse<T>(&self, value: &Spanned<DeValue<'_>>, message: &str) -> Option<T> {
        self.report(value, message);
        None
    }

    /// Notes a value of the wrong type.
    pub(super) fn refuse_type<T>(&self, value: &Spanned<DeValue<'_>>, wanted: &str) -> Option<T> {
        self.refuse(
            value,
            &format!("must be {wanted}, not {}", kind(value.get_ref())),
        )
    }
}

/// A TOML type in words.
pub(super) fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// A key's type.
pub(super) trait Value: Sized {
    /// Reads a value of TOML; a wrong value is reported and gives `None`.
    fn read(value: &Spanned<DeValue<'_>>, place: &KeyPlace<'_>) -> Option<Self>;
    /// The value in TOML; `None` if the key need not be written.
    fn to_toml(&self) -> Option<String>;
}

/// A key with its value in a configuration.
pub(super) struct Key {
    pub(super) name: &'static str,
    /// Its unit and reason.
    pub(super) doc: &'static str,
    pub(super) value: Option<String>,
    pub(super) range: Option<RangeInclusive<u64>>,
    pub(super) is_default: bool,
}

/// A table with fixed keys.
pub(super) trait Section {
    /// Reads the keys of this section from a table.
    fn read(&mut self, table: &Table<'_>);
    /// Its keys, in the order of their declaration.
    fn keys(&self) -> Vec<Key>;
}

/// Declares a section: `name: type = default, range;`, each with a doc comment of its unit and reason. After
/// `with` come fields with sections of their own.
macro_rules! settings {
    (
        $(#[$meta:meta])*
        $name:ident {
            $( $(#[doc = $doc:literal])+ $key:ident: $type:ty = $default:expr $(, $low:literal ..= $high:literal)?; )*
        }
        $( with { $( $(#[doc = $sub_doc:literal])+ $sub:ident: $sub_type:ty; )* } )?
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $( $(#[doc = $doc])+ pub $key: $type, )*
            $( $( $(#[doc = $sub_doc])+ pub $sub: $sub_type, )* )?
        }

        impl Default for $name {
            fn default() -> $name {
                $name {
                    $( $key: $default, )*
                    $( $( $sub: Default::default(), )* )?
                }
            }
        }

        impl $crate::settings::Section for $name {
            fn read(&mut self, table: &$crate::settings::Table<'_>) {
                $( table.read(stringify!($key), settings!(@range $($low ..= $high)?), &mut self.$key); )*
            }

            fn keys(&self) -> Vec<$crate::settings::Key> {
                use $crate::settings::Value as _;
                let default = $name::default();
                vec![ $( $crate::settings::Key {
                    name: stringify!($key),
                    doc: concat!($($doc),+),
                    value: self.$key.to_toml(),
                    range: settings!(@range $($low ..= $high)?),
                    is_default: self.$key == default.$key,
                } ),* ]
            }
        }
    };
    (@range) => { None };
    (@range $low:literal ..= $high:literal) => { Some($low ..= $high) };
}
pub(super) use settings;
