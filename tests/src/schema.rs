//! Checks JSON against a schema, with the keywords of `tcpilot watch --schema`. Another keyword is a panic,
//! because it would stay unchecked. A field missing in the schema is an error: all fields of this version are
//! described.

use std::collections::BTreeSet;

use serde_json::Value;

/// Keywords that say nothing about a value, or are checked together with another.
const REMARKS: [&str; 6] = [
    "$schema",
    "$defs",
    "title",
    "description",
    "format",
    "default",
];

/// Checks a value; an error says what is wrong.
///
/// # Errors
/// The value does not fulfil the schema.
pub fn check(schema: &Value, value: &Value) -> Result<(), String> {
    let mut known = BTreeSet::new();
    part(schema, schema, value, &mut known)?;
    all_are_known(value, &known)
}

fn all_are_known(value: &Value, known: &BTreeSet<String>) -> Result<(), String> {
    let fields = value.as_object().into_iter().flatten();
    let mut unknown = fields.filter(|(key, _)| !known.contains(*key));
    unknown
        .next()
        .map_or(Ok(()), |(key, _)| Err(format!("{key} is not described")))
}

/// Checks a value against a part of the schema; `known` gets the fields that it describes.
fn part(
    root: &Value,
    part_of: &Value,
    value: &Value,
    known: &mut BTreeSet<String>,
) -> Result<(), String> {
    let rules = part_of.as_object().expect("a schema is an object");
    for (keyword, rule) in rules {
        match keyword.as_str() {
            word if REMARKS.contains(&word) => {}
            "$ref" => {
                let name = rule.as_str().unwrap().strip_prefix('#').unwrap();
                part(root, root.pointer(name).expect("it is there"), value, known)?;
            }
            "allOf" => list(rule).try_for_each(|one| part(root, one, value, known))?,
            "anyOf" | "oneOf" => alternatives(root, keyword, rule, value, known)?,
            "type" => has_type(rule, value)?,
            "const" if value != rule => return Err(format!("{value} is not {rule}")),
            "const" => {}
            "enum" if !list(rule).any(|one| one == value) => {
                return Err(format!("{value} is none of {rule}"));
            }
            "enum" => {}
            "minimum" if value.is_number() && value.as_f64() < rule.as_f64() => {
                return Err(format!("{value} is less than {rule}"));
            }
            "maximum" if value.is_number() && value.as_f64() > rule.as_f64() => {
                return Err(format!("{value} is more than {rule}"));
            }
            "minimum" | "maximum" => {}
            "required" => {
                let mut missing =
                    list(rule).filter(|key| value.get(key.as_str().unwrap()).is_none());
                if let Some(key) = missing.next() {
                    return Err(format!("{key} is missing"));
                }
            }
            "properties" => {
                for (key, of_field) in rule.as_object().unwrap() {
                    known.insert(key.clone());
                    if let Some(field) = value.get(key) {
                        whole(root, of_field, field).map_err(|why| format!("{key}: {why}"))?;
                    }
                }
            }
            "items" => {
                let items = value.as_array().into_iter().flatten();
                items.clone().try_for_each(|item| whole(root, rule, item))?;
            }
            other => panic!("the keyword {other} is not known here"),
        }
    }
    Ok(())
}

fn whole(root: &Value, part_of: &Value, value: &Value) -> Result<(), String> {
    let mut known = BTreeSet::new();
    part(root, part_of, value, &mut known)?;
    all_are_known(value, &known)
}

fn list(rule: &Value) -> impl Iterator<Item = &Value> {
    rule.as_array().expect("a list").iter()
}

/// At least one, or exactly one, must hold; then its fields are known.
fn alternatives(
    root: &Value,
    keyword: &str,
    rule: &Value,
    value: &Value,
    known: &mut BTreeSet<String>,
) -> Result<(), String> {
    let mut wrong = Vec::new();
    let mut right = 0;
    for one in list(rule) {
        let mut own = BTreeSet::new();
        match part(root, one, value, &mut own) {
            Ok(()) => {
                right += 1;
                known.extend(own);
            }
            Err(why) => wrong.push(why),
        }
    }
    match right {
        0 => Err(format!("none fits: {}", wrong.join("; "))),
        1 => Ok(()),
        _ if keyword == "anyOf" => Ok(()),
        _ => Err("more than one fits".to_owned()),
    }
}

fn has_type(rule: &Value, value: &Value) -> Result<(), String> {
    let is = |word: &str| match word {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("the type {other} is not known here"),
    };
    let fits = match rule {
        Value::String(word) => is(word),
        words => list(words).any(|word| is(word.as_str().unwrap())),
    };
    fits.then_some(())
        .ok_or_else(|| format!("{value} is no {rule}"))
}
