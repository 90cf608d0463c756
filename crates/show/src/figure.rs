//! The declaration of figures: once, for all uses of a figure.
//!
//! [`figures!`] declares a view: each figure with its type, its unit, its heading, and a doc comment to
//! explain it. JSON, the columns of lists, and `--help` follow from this row. `settings!` does the same for the
//! configuration.

use serde_json::Value;
use tcpilot_core::Prefix;

use crate::output::printable;

/// The unit of a figure. JSON has the number in this unit; tables have it in a unit for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number, a name, or a part with figures of its own.
    Plain,
    /// For times of packets; people read milliseconds.
    Microseconds,
    /// For times of programs in the kernel.
    Nanoseconds,
    /// For ages.
    Seconds,
    /// For rates; people read Mbit/s, as links are rated.
    BytesPerSecond,
    /// For data.
    Bytes,
    /// TCP segments.
    Packets,
    /// A part of a whole, 0 to 1; people read percent.
    Share,
    /// Millionths of a cost.
    Millionths,
}

impl Unit {
    /// The unit's name in the tables of the manual.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Plain => "",
            Unit::Microseconds => "µs",
            Unit::Nanoseconds => "ns",
            Unit::Seconds => "s",
            Unit::BytesPerSecond => "bytes/s",
            Unit::Bytes => "bytes",
            Unit::Packets => "packets",
            Unit::Share => "0 to 1",
            Unit::Millionths => "10⁻⁶",
        }
    }

    /// A value as people read it. A whole column has one unit, to make rows comparable. `None` if people read
    /// the bare number.
    fn text(self, value: f64) -> Option<String> {
        match self {
            Unit::Microseconds => {
                let digits = if value < 10_000.0 { 3 } else { 1 };
                Some(format!("{:.digits$} ms", value / 1000.0))
            }
            Unit::BytesPerSecond => {
                let mbit = value * 8.0 / 1e6;
                let digits = if mbit < 1.0 { 3 } else { 1 };
                Some(format!("{mbit:.digits$} Mbit/s"))
            }
            Unit::Seconds => Some(format!("{value:.0} s")),
            Unit::Nanoseconds => Some(format!("{value:.0} ns")),
            // Rounded first: a small loss is not "-0.0%".
            Unit::Share => Some(format!("{:.1}%", (value * 1000.0).round() / 10.0 + 0.0)),
            Unit::Plain | Unit::Bytes | Unit::Packets | Unit::Millionths => None,
        }
    }
}

/// The cell of a table if there is no sample.
pub const NONE: &str = "-";

/// A value for a table.
pub trait Shown {
    /// Words stand on the left of their column, numbers on the right.
    const IS_WORD: bool = false;
    /// The value as people read it.
    fn shown(&self, unit: Unit) -> String;
}

macro_rules! shown_numbers {
    ($($type:ty),*) => { $(
        impl Shown for $type {
            fn shown(&self, unit: Unit) -> String {
                unit.text(*self as f64).unwrap_or_else(|| self.to_string())
            }
        }
    )* };
}
shown_numbers!(u8, u32, u64, usize, f64);

macro_rules! shown_words {
    ($($type:ty),*) => { $(
        impl Shown for $type {
            const IS_WORD: bool = true;
            fn shown(&self, _: Unit) -> String {
                self.to_string()
            }
        }
    )* };
}
shown_words!(&'static str, Prefix);

/// A text may be a name from outside.
impl Shown for String {
    const IS_WORD: bool = true;
    fn shown(&self, _: Unit) -> String {
        printable(self)
    }
}

impl<T: Shown> Shown for Option<T> {
    const IS_WORD: bool = T::IS_WORD;
    fn shown(&self, unit: Unit) -> String {
        self.as_ref()
            .map_or_else(|| NONE.to_owned(), |v| v.shown(unit))
    }
}

impl Shown for Vec<String> {
    const IS_WORD: bool = true;
    fn shown(&self, _: Unit) -> String {
        if self.is_empty() {
            return NONE.to_owned();
        }
        printable(&self.join(","))
    }
}

/// A figure of the view `V`.
pub struct Figure<V> {
    /// Its name in JSON.
    pub key: &'static str,
    /// Its unit in JSON.
    pub unit: Unit,
    /// Its explanation: a sentence or two.
    pub doc: &'static str,
    /// Its column in a table, if it has one.
    pub column: Option<Column<V>>,
    /// Its value in a view, as JSON has it.
    pub value: fn(&V) -> Value,
}

impl<V> Figure<V> {
    /// Its value in a view, as people read it, even if tables do not usually show the figure.
    pub fn text(&self, view: &V) -> String {
        match &self.column {
            Some(column) => (column.text)(view),
            None => text_of(&(self.value)(view), self.unit),
        }
    }
}

/// A JSON value as people read it.
fn text_of(value: &Value, unit: Unit) -> String {
    let number = |value: &Value| unit.text(value.as_f64()?);
    match value {
        Value::Null => NONE.to_owned(),
        Value::String(text) => printable(text),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        Value::Array(entries) if entries.is_empty() => NONE.to_owned(),
        Value::Array(entries) => {
            let entries: Vec<String> = entries.iter().map(|entry| text_of(entry, unit)).collect();
            entries.join(",")
        }
        value => number(value).unwrap_or_else(|| value.to_string()),
    }
}

/// A figure's value as JSON. [`figures!`] calls it, so its users need no library for it.
pub fn json<T: serde::Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// The column of a figure of the view `V`.
pub struct Column<V> {
    /// The text above the column.
    pub heading: &'static str,
    /// Whether its values are words, not numbers.
    pub is_word: bool,
    /// Its value in a view, as people read it.
    pub text: fn(&V) -> String,
}

/// A view declared by [`figures!`].
pub trait View: Sized + 'static {
    /// The figures, in the order of their declaration.
    const FIGURES: &'static [Figure<Self>];

    /// The figures with a column, words before numbers.
    fn columns() -> impl Iterator<Item = &'static Column<Self>> {
        let all = || Self::FIGURES.iter().filter_map(|f| f.column.as_ref());
        all()
            .filter(|c| c.is_word)
            .chain(all().filter(|c| !c.is_word))
    }
}

/// An explanation without its links, for a terminal.
pub fn plain(doc: &str) -> String {
    let mut parts = doc.trim().split("](");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // The text of the link is before it, and its target up to the parenthesis.
        if let Some(at) = out.rfind('[') {
            out.remove(at);
        }
        out += part.split_once(')').map_or(part, |(_, rest)| rest);
    }
    out
}

/// Declares a view: `key: type, Unit, "Heading";` with a doc comment to explain the figure. Without a unit
/// the figure is `Plain`; without a heading no table shows it.
#[macro_export]
macro_rules! figures {
    (
        $(#[$meta:meta])*
        $vis:vis $name:ident {
            $( $(#[doc = $doc:literal])+ $(#[serde $serde:tt])* $key:ident: $type:ty $(, $unit:ident)? $(, $heading:literal)?; )*
        }
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $( $(#[doc = $doc])+ $(#[serde $serde])* pub $key: $type, )*
        }

        impl $crate::figure::View for $name {
            const FIGURES: &'static [$crate::figure::Figure<$name>] = &[ $(
                $crate::figure::Figure {
                    key: stringify!($key),
                    unit: $crate::figure::figures!(@unit $($unit)?),
                    doc: concat!($($doc),+),
                    column: $crate::figure::figures!(@column $name, $key: $type, ($($unit)?) $(, $heading)?),
                    value: |view: &$name| $crate::figure::json(&view.$key),
                }
            ),* ];
        }
    };
    (@unit) => { $crate::figure::Unit::Plain };
    (@unit $unit:ident) => { $crate::figure::Unit::$unit };
    (@column $name:ident, $key:ident: $type:ty, ($($unit:ident)?)) => { None };
    (@column $name:ident, $key:ident: $type:ty, ($($unit:ident)?), $heading:literal) => {
        Some($crate::figure::Column {
            heading: $heading,
            is_word: <$type as $crate::figure::Shown>::IS_WORD,
            text: |view: &$name| {
                $crate::figure::Shown::shown(&view.$key, $crate::figure::figures!(@unit $($unit)?))
            },
        })
    };
}
pub use figures;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_no_text_for_terminals() {
        assert_eq!(plain("as a [b](c.md#d) e"), "as a b e");
        assert_eq!(plain("`paths[]` stays"), "`paths[]` stays");
    }

    #[test]
    fn column_of_rates_has_one_unit() {
        assert_eq!(125_u64.shown(Unit::BytesPerSecond), "0.001 Mbit/s");
        assert_eq!(125_000_000_u64.shown(Unit::BytesPerSecond), "1000.0 Mbit/s");
        assert_eq!(None::<u64>.shown(Unit::BytesPerSecond), "-");
        assert_eq!(89_u32.shown(Unit::Microseconds), "0.089 ms");
        assert_eq!((-0.0004).shown(Unit::Share), "0.0%");
        assert_eq!((-0.0006).shown(Unit::Share), "-0.1%");
        assert_eq!(25_900_u32.shown(Unit::Microseconds), "25.9 ms");
    }
}
