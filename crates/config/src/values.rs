//! The types of the keys' values.

use std::fmt;

use crate::names;
use tcpilot_abi::TP_CC_NAME_MAX;
use tcpilot_core::Prefix;
use toml::Spanned;
use toml::de::DeValue;

use super::settings::{KeyPlace, Value, kind};
use super::{SeparateByInterface, SeparateByNamespace};

/// The kernel's name of a congestion control: 1 to 15 of `a`-`z`, `A`-`Z`, `0`-`9`, `_`, `-`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Algorithm(String);

impl Algorithm {
    /// Checks a name; `None` if no congestion control can have it.
    pub fn new(name: &str) -> Option<Algorithm> {
        let valid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let fits = (1..TP_CC_NAME_MAX as usize).contains(&name.len());
        (fits && name.bytes().all(valid)).then(|| Algorithm(name.to_owned()))
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it needs ECN: without ECN dctcp silently behaves like reno. It takes more than its share on a
    /// path whose queues do not mark early (RFC 8257), so it is not for the public Internet.
    pub fn needs_ecn(&self) -> bool {
        matches!(self.as_str(), "dctcp" | "prague" | "tp_dctcp" | "tp_prague")
    }

    /// Whether it follows a model of the path, as BBR does, and not each loss: its losses say nothing about a
    /// queue, and heavy loss is no reason to replace it.
    pub fn is_model_based(&self) -> bool {
        self.as_str().trim_start_matches("tp_").starts_with("bbr")
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl PartialEq<str> for Algorithm {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

/// Ports from `first` to `last`, both included. Port 0 is never among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The lowest port, host byte order.
    pub first: u16,
    /// The highest port, host byte order.
    pub last: u16,
}

/// A cgroup: a path relative to the cgroup file system's root, without slashes around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupPath(String);

impl CgroupPath {
    /// The path.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `other` is this cgroup or below it.
    pub fn covers(&self, other: &CgroupPath) -> bool {
        other
            .0
            .strip_prefix(&self.0)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// A network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespace {
    /// Its name under /run/netns; `host` is the daemon's own.
    Name(String),
    /// The inode number, as shown by `ls -i` or `readlink /proc/PID/ns/net`.
    Inode(u32),
}

/// The kind of learner: a number of `enum tp_learner_kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearnerKind(u32);

impl LearnerKind {
    /// Chooses the algorithm of least cost, and for one connection in epsilon any algorithm.
    pub const EPSILON_GREEDY: LearnerKind = LearnerKind(tcpilot_abi::TP_LEARNER_EPSILON_GREEDY);
    /// The learner in the daemon. It carries knowledge from path to path.
    pub const THOMPSON: LearnerKind = LearnerKind(tcpilot_abi::TP_LEARNER_THOMPSON);

    /// The names of all kinds in the configuration, from number 1 on.
    fn names() -> impl Iterator<Item = &'static str> {
        let names = std::str::from_utf8(tcpilot_abi::TP_LEARNER_NAMES).unwrap_or_default();
        names.trim_end_matches('\0').split(' ')
    }

    fn by_name(name: &str) -> Option<LearnerKind> {
        let numbered = (1..).zip(LearnerKind::names());
        numbered
            .filter(|(_, known)| *known == name)
            .map(|(number, _)| LearnerKind(number))
            .next()
    }

    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        (1..)
            .zip(LearnerKind::names())
            .find_map(|(number, name)| (number == self.0).then_some(name))
            .unwrap_or_default()
    }

    /// Its number for the kernel side.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// The held-out connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldOut {
    /// tcpilot chooses one of the others to suit the host.
    Auto,
    /// Groups of addresses for a week.
    Prefix,
    /// Each group for blocks of time.
    Block,
    /// All groups at once for blocks of time.
    Host,
}

impl HoldOut {
    const ALL: [HoldOut; 4] = [
        HoldOut::Auto,
        HoldOut::Prefix,
        HoldOut::Block,
        HoldOut::Host,
    ];

    /// Its name in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            HoldOut::Auto => "auto",
            HoldOut::Prefix => "prefix",
            HoldOut::Block => "block",
            HoldOut::Host => "host",
        }
    }

    /// The variant of this name.
    pub fn by_word(word: &str) -> Option<HoldOut> {
        HoldOut::ALL.into_iter().find(|known| known.word() == word)
    }
}

/// The use of the knowledge of other hosts of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hear {
    /// Choices use it.
    On,
    /// It is shown only.
    Show,
    /// It is not read.
    Off,
}

impl Hear {
    const ALL: [Hear; 3] = [Hear::On, Hear::Show, Hear::Off];

    /// Its name in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            Hear::On => "on",
            Hear::Show => "show",
            Hear::Off => "off",
        }
    }
}

/// Reads one of a few words.
fn read_word<T: Copy>(
    value: &Spanned<DeValue<'_>>,
    place: &KeyPlace<'_>,
    known: &[T],
    word: impl Fn(T) -> &'static str,
) -> Option<T> {
    let words: Vec<&'static str> = known.iter().map(|one| word(*one)).collect();
    let all: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
    let all = all.join(" or ");
    let Some(name) = value.get_ref().as_str() else {
        return place.refuse_type(value, &all);
    };
    let found = known.iter().copied().find(|one| word(*one) == name);
    found.or_else(|| {
        let hint = names::hint(name, words);
        place.refuse(value, &format!("cannot be {name:?}, only {all}{hint}"))
    })
}

/// The most entries of a list without another limit: more than there can be rules.
const ENTRIES_MAX: u64 = 1000;

/// A string in TOML's quotes.
fn quoted(text: &str) -> Option<String> {
    Some(toml::Value::String(text.to_owned()).to_string())
}

macro_rules! whole_number {
    ($($type:ty),*) => { $(
        impl Value for $type {
            fn read(value: &Spanned<DeValue<'_>>, place: &KeyPlace<'_>) -> Option<$type> {
                let (low, high) = match &place.range {
                    Some(range) => (*range.start(), *range.end()),
                    None => (0, <$type>::MAX.into()),
                };
                let DeValue::Integer(number) = value.get_ref() else {
                    return place.refuse_type(value, &format!("a whole number from {low} to {high}"));
                };
                let number = i128::from_str_radix(number.as_str(), number.radix()).unwrap_or(-1);
                match <$type>::try_from(number) {
                    Ok(fits) if (low..=high).contains(&fits.into()) => Some(fits),
                    _ => place.refuse(value, &format!("is {number}, it must be from {low} to {high}")),
                }
            }

            fn to_toml(&self) -> Option<String> {
                Some(self.to_string())
            }
        }
    )* };
}
whole_number!(u8, u32, u64);

impl Value for bool {
    fn read(value: &Spanned<DeValue<'_>>, place: &KeyPlace<'_>) -> Option<bool> {
        value
            .get_ref()
            .as_bool()
            .or_else(|| place.refuse_type(value, "true or false"))
    }

    fn to_toml(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Value for Option<bool> {
    fn read(value: &Spanned<DeValue<'_>>, place: &KeyPlace<'_>) -> Option<Option<bool>> {
        bool::read(value, place).map(Some)
    }

    fn to_toml(&self) -> Option<String> {
        self.as_ref().and_then(Value::to_toml)
    }
}

impl Value for String {
    fn read(value: &Spanned<DeValue<'_>>, place: &KeyPlace<'_>) -> Option<String> {
        let text = value.get_ref().as_str().map(str::to_owned);
        text.or_else(|| place.refuse_type(value, "a string"))
    }

    fn to_toml(&self) -> Option<String> {
        quoted(self)
    }
}

macro_rules! or_none {
    ($($type:ty),*) => { $(
        /// An optional key.
        impl Value for Option<$type> {
            fn read(value: &Spanned<DeValue<'_>>, place: &KeyPlace<'_>) -> Option<Option<$type>> {
                <$type>::read(value, place).map(Some)
            }

            fn to_toml(&self) -> Option<String> {
                self.as_ref().and_then(Value::to_toml)
            }
        }
    )* };
}
or_none!(u8, u32, SeparateByNamespace, SeparateByInterface);

impl Value for Algorithm {
    fn read(value: &Spanned<DeValue<'_>>, place: &KeyPlace<'_>) -> Option<Algorithm> {
        let Some(name) = value.get_ref().as_str() else {
            return place.refuse_type(value, "a congestion control's name");
        };
        Algorithm::new(name).or_else(|| {
            let why = "the kernel's names have 1 to 15 of a-z, 0-9, _ and -";
            place.refuse(value, &format!("cannot be {name:?}: {why}"))
        })
    }

    fn to_toml(&self) -> Option<String> {
        quoted(self.as_str())
    }
}

/// An algorithm, or "" for none.
impl Value for Option<Algorithm> {
    fn read(value: &Spanned<DeValue<'_>>, place: &KeyPlace<'_>) -> Option<Option<Algorithm>> {
        match value.get_ref().as_str() {
            Some("") => Some(None),
            _ => Algorithm::read(value, place).map(Some),
        }
    }

    fn to_toml(&self) -> Option<String> {
        quoted(self.as_ref().map_or("", Algorithm::as_str))
    }
}

impl Value for LearnerKind {
    fn read(value: &Spanned<DeValue<'_>>, place: &KeyPlace<'_>) -> Option<LearnerKind> {
        let all = || {
            LearnerKind::names()
                .map(|name| format!("{name:?}"))
                .collect::<Vec<_>>()
        };
        let Some(name) = value.get_ref().as_str() else {
            return place.refuse_type(value, &all().join(" or "));
        };
        LearnerKind::by_name(name).or_else(|| {
            let hint = names::hint(name, LearnerKind::names());
            let all = all().join(" or ");
            place.refuse(value, &format!("cannot be {name:?}, only {all}{hint}"))
        })
    }

    fn to_toml(&self) -> Option<String> {
        quoted(self.name())
    }
}

macro_rules! words {
    ($($type:ty),*) => { $(
        impl Value for $type {
            fn read(value: &Spanned<DeValue<'_>>, place: &KeyPlace<'_>) -> Option<$type> {
                read_word(value, place, &<$type>::ALL, <$type>::word)
            }

            fn to_toml(&self) -> Option<String> {
                quoted(self.word())
            }
        }
    )* };
}
words!(Hear, HoldOut, SeparateByNamespace, SeparateByInterface);

impl Value for Prefix {
    fn read(value: &Spanned<DeValue<'_>>, place: &KeyPlace<'_>) -> Option<Prefix> {
        let Some(text) = value.get_ref().as_str() else {
            return place.refuse_type(value, "a prefix such as \"10.1.0.0/16\"");
        };
        text.parse().map_or_else(
            |error| place.refuse(value, &format!("cannot be used: {error}")),
            Some,
        )
    }

    fn to_toml(&self) -> Option<String> {
        quoted(&self.to_string())
    }
}

impl Value for Ports {
    fn read(value: &Spanned<DeValue<'_>>, place: &KeyPlace<'_>) -> Option<Ports> {
        let refuse = |written: &str| {
            let wanted = "a port from 1 to 65535 or a range such as \"8000-8100\"";
            place.refuse(value, &format!("cannot be {written}: write {wanted}"))
        };
        let text = match value.get_ref() {
            DeValue::Integer(number) => number.to_string(),
            DeValue::String(text) => text.to_string(),
            other => return refuse(kind(other)),
        };
        let (first, last) = text.split_once('-').unwrap_or((&text, &text));
        match (first.trim().parse(), last.trim().parse()) {
            (Ok(first), Ok(last)) if 0 < first && first <= last => Some(Ports { first, last }),
            _ => refuse(&format!("`{text}`")),
        }
    }

    fn to_toml(&self) -> Option<String> {
        if self.first == self.last {
            return Some(self.first.to_string());
        }
        quoted(&format!("{}-{}", self.first, self.last))
    }
}

impl Value for CgroupPath {
    fn read(value: &Spanned<DeValue<'_>>, place: &KeyPlace<'_>) -> Option<CgroupPath> {
        let Some(text) = value.get_ref().as_str() else {
            return place.refuse_type(value, "a cgroup's path");
        };
        let path = text.trim_matches('/');
        if path
            .split('/')
            .any(|part| part.is_empty() || part == "." || part == "..")
        {
            let wanted =
                "write a path below the cgroup root, such as \"system.slice/nginx.service\"";
            return place.refuse(value, &format!("cannot be {text:?}: {wanted}"));
        }
        Some(CgroupPath(path.to_owned()))
    }

    fn to_toml(&self) -> Option<String> {
        quoted(&self.0)
    }
}

impl Value for Namespace {
    fn read(value: &Spanned<DeValue<'_>>, place: &KeyPlace<'_>) -> Option<Namespace> {
        let refuse = |written: &str| {
            let wanted = "a name under /run/netns, \"host\" or an inode number";
            place.refuse(value, &format!("cannot be {written}: write {wanted}"))
        };
        match value.get_ref() {
            DeValue::Integer(number) => match number.to_string().parse() {
                Ok(inode) if inode > 0 => Some(Namespace::Inode(inode)),
                _ => refuse(&format!("`{number}`")),
            },
            DeValue::String(name)
                if !matches!(name.as_ref(), "" | "." | "..") && !name.contains('/') =>
            {
                Some(Namespace::Name(name.to_string()))
            }
            DeValue::String(name) => refuse(&format!("{name:?}")),
            other => refuse(kind(other)),
        }
    }

    fn to_toml(&self) -> Option<String> {
        match self {
            Namespace::Name(name) => quoted(name),
            Namespace::Inode(inode) => Some(inode.to_string()),
        }
    }
}

impl<T: Value + PartialEq> Value for Vec<T> {
    fn read(value: &Spanned<DeValue<'_>>, place: &KeyPlace<'_>) -> Option<Vec<T>> {
        let DeValue::Array(entries) = value.get_ref() else {
            return place.refuse_type(value, "a list");
        };
        let range = place.range.clone().unwrap_or(0..=ENTRIES_MAX);
        if !range.contains(&(entries.len() as u64)) {
            let (low, high) = (range.start(), range.end());
            return place.refuse(
                value,
                &format!(
                    "has {} entries, it must have {low} to {high}",
                    entries.len()
                ),
            );
        }
        let entry_place = KeyPlace {
            source: place.source,
            name: format!("an entry of {}", place.name),
            range: None,
        };
        let mut list = Vec::with_capacity(entries.len());
        let mut complete = true;
        for entry in entries.iter() {
            match T::read(entry, &entry_place) {
                Some(new) if list.contains(&new) => {
                    let written = new.to_toml().unwrap_or_default();
                    entry_place.report(entry, &format!("stands there twice: {written}"));
                    complete = false;
                }
                Some(new) => list.push(new),
                None => complete = false,
            }
        }
        complete.then_some(list)
    }

    fn to_toml(&self) -> Option<String> {
        let entries: Vec<String> = self.iter().filter_map(Value::to_toml).collect();
        Some(format!("[{}]", entries.join(", ")))
    }
}
