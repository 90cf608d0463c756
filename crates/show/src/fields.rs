//! The fields of a command's JSON, explained for `--help` and the manual pages.

use std::fmt::Write as _;

use crate::{
    figure::{Figure, Unit, View, plain},
    wrap::wrapped,
};

/// The screen that explanations have to fit, in columns.
const WIDTH: usize = 80;

/// A field of a document, see [`fields`].
pub struct Field {
    /// The object with the field, as a prefix: `paths[].algorithms[].`.
    place: String,
    key: &'static str,
    unit: Unit,
    doc: &'static str,
}

/// The fields of a view. `place` is its prefix in the document: `paths[].algorithms[].`.
pub fn fields<V: View>(place: &str) -> Vec<Field> {
    let field = |f: &Figure<V>| Field {
        place: place.to_owned(),
        key: f.key,
        unit: f.unit,
        doc: f.doc.trim(),
    };
    V::FIGURES.iter().map(field).collect()
}

/// The unit, if neither the name nor the text has it.
fn unit(field: &Field) -> String {
    let name = field.unit.name();
    let suffix = match field.unit {
        Unit::Plain => return String::new(),
        Unit::Microseconds => "_us",
        Unit::Nanoseconds => "_ns",
        Unit::Seconds => "_s",
        Unit::Packets => "packets",
        Unit::Bytes => "bytes",
        Unit::BytesPerSecond | Unit::Share | Unit::Millionths => return format!(" ({name})"),
    };
    let words = format!("{} {}", field.key, field.doc.to_lowercase());
    let has_unit = field.key.ends_with(suffix)
        || words.contains(suffix)
        || (suffix == "packets" && words.contains("segments"));
    if has_unit {
        String::new()
    } else {
        format!(" ({name})")
    }
}

/// The fields of an object, each with its own fields below. Neighbours with the same text share a line.
fn list(all: &[Field], place: &str, depth: usize) -> String {
    let mut out = String::new();
    let here: Vec<&Field> = all.iter().filter(|f| f.place == place).collect();
    for same in here.chunk_by(|a, b| a.doc == b.doc && a.unit == b.unit) {
        let below = |end: &str| {
            let mut places = same.iter().map(|f| format!("{place}{}{end}", f.key));
            places.find(|p| all.iter().any(|f| f.place == *p))
        };
        let (suffix, below) = match (below("[]."), below(".")) {
            (Some(place), _) => ("[]", Some(place)),
            (None, place) => ("", place),
        };
        let names: Vec<String> = same.iter().map(|f| format!("{}{suffix}", f.key)).collect();
        let text = format!(
            "{}{}: {}",
            names.join(", "),
            unit(same[0]),
            plain(same[0].doc)
        );
        let indent = "  ".repeat(depth + 1);
        // Deeper than the fields of this one.
        let lines = wrapped(&text, WIDTH - indent.len() - 4);
        let lines: Vec<_> = lines.iter().map(|line| line.trim_start()).collect();
        let _ = writeln!(out, "{indent}{}", lines.join(&format!("\n{indent}    ")));
        if let Some(below) = below {
            out += &list(all, &below, depth + 1);
        }
    }
    out
}

/// The explanation of the fields of `all`, those of the object `root` first. `of` names it.
pub fn json(of: &str, root: &str, all: Vec<Vec<Field>>) -> String {
    let all: Vec<Field> = all.into_iter().flatten().collect();
    format!("Fields of {of}:\n{}", list(&all, root, 0))
}
