//! Filters: `KEY=VALUE`, `KEY!=VALUE`, `KEY<VALUE`, `KEY<=VALUE`, `KEY>VALUE`, `KEY>=VALUE`, `KEY~TEXT`, or a
//! text: it matches rows with this text in one of the usual columns.

use std::{
    cmp::Ordering,
    net::{IpAddr, SocketAddr},
};

use serde_json::Value;
use tcpilot_core::Prefix;

use super::{Key, Listed};
use crate::{
    failure::{Failure, Kind},
    figure::{NONE, Unit},
};

/// Longer operators stand first, because `>=` begins with `>`.
const OPERATORS: [(&str, Operator); 7] = [
    ("!=", Operator::Other),
    (">=", Operator::AtLeast),
    ("<=", Operator::AtMost),
    ("=", Operator::Same),
    (">", Operator::More),
    ("<", Operator::Less),
    ("~", Operator::Has),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Same,
    Other,
    Less,
    AtMost,
    More,
    AtLeast,
    Has,
}

/// A condition on rows.
pub(super) enum Filter<L: Listed> {
    /// One of the usual columns has this text. The text is in small letters.
    Text { text: String, keys: Vec<Key<L>> },
    /// A column passes a comparison.
    Column { key: Key<L>, comparison: Comparison },
}

/// The operator, and the value to compare with, in all its possible readings.
pub(super) struct Comparison {
    operator: Operator,
    text: String,
    /// The number in the unit of the column, if the value is one.
    number: Option<f64>,
    prefix: Option<Prefix>,
}

impl<L: Listed> Filter<L> {
    /// # Errors
    /// There is no such column, or the operator needs a number and the value is none.
    pub(super) fn parse(text: &str) -> Result<Filter<L>, Failure> {
        let Some((word, operator, value)) = parts(text) else {
            let keys = Key::all().into_iter().filter(Key::is_usual).collect();
            let text = text.trim().to_lowercase();
            return Ok(Filter::Text { text, keys });
        };
        let key = Key::<L>::named(word)?;
        let comparison = Comparison {
            operator,
            text: value.to_lowercase(),
            number: number(value, key.unit()),
            prefix: value.parse().ok(),
        };
        let orders = !matches!(operator, Operator::Same | Operator::Other | Operator::Has);
        if orders && comparison.number.is_none() {
            let unit = match units(key.unit()) {
                [] => "a number".to_owned(),
                units => {
                    let names: Vec<_> = units.iter().map(|(name, _)| *name).collect();
                    format!("a number, alone or with {}", names.join(", "))
                }
            };
            return Err(Failure::new(
                Kind::Usage,
                format!("`{value}` in the filter `{text}` is no number"),
                format!("write {unit}"),
            ));
        }
        Ok(Filter::Column { key, comparison })
    }

    pub(super) fn key(&self) -> Option<&Key<L>> {
        match self {
            Filter::Text { .. } => None,
            Filter::Column { key, .. } => Some(key),
        }
    }

    /// Whether a row passes the filter.
    pub(super) fn matches(&self, item: &L, part: Option<&L::Part>) -> bool {
        match self {
            Filter::Text { text, keys } => {
                let has = |key: &Key<L>| key.text(item, part).to_lowercase().contains(text);
                keys.iter().any(has)
            }
            Filter::Column { key, comparison } => comparison.holds(&key.value(item, part)),
        }
    }
}

/// The column, the operator and the value; `None` for a text.
fn parts(text: &str) -> Option<(&str, Operator, &str)> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let end = text.find(|c| !is_word(c)).filter(|end| *end > 0)?;
    let (word, rest) = text.split_at(end);
    let rest = rest.trim_start();
    let (sign, operator) = OPERATORS.iter().find(|(sign, _)| rest.starts_with(sign))?;
    Some((word, *operator, rest[sign.len()..].trim()))
}

/// The units a user may write for a column, each with its size in the unit of JSON.
fn units(unit: Unit) -> &'static [(&'static str, f64)] {
    match unit {
        Unit::Microseconds => &[("us", 1.0), ("ms", 1e3), ("s", 1e6)],
        Unit::Nanoseconds => &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)],
        Unit::Seconds => &[("s", 1.0), ("min", 60.0), ("h", 3600.0), ("d", 86_400.0)],
        Unit::BytesPerSecond => &[("kbit", 125.0), ("Mbit", 125e3), ("Gbit", 125e6)],
        Unit::Bytes => &[("kB", 1e3), ("MB", 1e6), ("GB", 1e9)],
        Unit::Share => &[("%", 0.01)],
        Unit::Plain | Unit::Packets | Unit::Millionths => &[],
    }
}

/// Parses a number with a unit, or without one in the unit of JSON; the result is in the unit of JSON.
fn number(text: &str, unit: Unit) -> Option<f64> {
    let text = text.strip_suffix("/s").unwrap_or(text);
    let end = text.find(|c: char| c.is_alphabetic() || c == '%');
    let (digits, name) = text.split_at(end.unwrap_or(text.len()));
    let number: f64 = digits.trim().parse().ok()?;
    let factor = match name {
        "" => 1.0,
        name => {
            let mut known = units(unit).iter();
            known.find(|(known, _)| known.eq_ignore_ascii_case(name))?.1
        }
    };
    Some(number * factor)
}

impl Comparison {
    /// A list passes if one of its entries does.
    fn holds(&self, value: &Value) -> bool {
        match (self.operator, value) {
            (Operator::Other, value) => !self.is_same(value),
            (Operator::Same, value) => self.is_same(value),
            (Operator::Has, Value::Array(entries)) => entries.iter().any(|entry| self.has(entry)),
            (Operator::Has, value) => self.has(value),
            (_, value) => self.is_ordered(value),
        }
    }

    fn has(&self, value: &Value) -> bool {
        plain(value).to_lowercase().contains(&self.text)
    }

    /// An address equals a prefix that contains it.
    fn is_same(&self, value: &Value) -> bool {
        match value {
            Value::Null => self.text == NONE,
            Value::Array(entries) if entries.is_empty() => self.text == NONE,
            Value::Array(entries) => entries.iter().any(|entry| self.is_same(entry)),
            Value::Number(number) => number.as_f64() == self.number,
            Value::String(text) if text.to_lowercase() == self.text => true,
            Value::String(text) => match (self.prefix, address(text)) {
                (Some(prefix), Some(address)) => prefix.covers(&address),
                _ => false,
            },
            other => plain(other) == self.text,
        }
    }

    fn is_ordered(&self, value: &Value) -> bool {
        let (Some(value), Some(bound)) = (value.as_f64(), self.number) else {
            return false; // there is no sample
        };
        match self.operator {
            Operator::Less => value < bound,
            Operator::AtMost => value <= bound,
            Operator::More => value > bound,
            _ => value >= bound,
        }
    }
}

/// A value as text, without the quotes of JSON.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The addresses that a text stands for: a prefix, an address, or an address with its port.
fn address(text: &str) -> Option<Prefix> {
    let of_socket = |socket: SocketAddr| Prefix::around(socket.ip().to_canonical(), 128);
    text.parse()
        .ok()
        .or_else(|| text.parse().ok().map(of_socket))
}

/// The place of an address in the order: IPv4 first, then by number.
pub(super) fn place(text: &str) -> Option<(IpAddr, u16)> {
    let socket = text.parse::<SocketAddr>().ok();
    let socket = socket.map(|socket| (socket.ip(), socket.port()));
    let word = text.split([' ', '/']).next().unwrap_or(text);
    socket.or_else(|| Some((word.parse::<IpAddr>().ok()?, 0)))
}

/// Compares numbers by size, addresses by [`place`], and everything else as text.
pub(super) fn compare(a: &Value, b: &Value) -> Ordering {
    if let (Some(a), Some(b)) = (a.as_f64(), b.as_f64()) {
        return a.total_cmp(&b);
    }
    let (a, b) = (plain(a), plain(b));
    match (place(&a), place(&b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => a.cmp(&b),
    }
}
