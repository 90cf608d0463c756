//! The JSON schema of the lines of `watch --json`, from the declarations of the figures.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};
use tcpilot_show::{
    document::{RENAMED, SCHEMA},
    figure::{self, Unit},
};

use super::{
    census::{Census, CensusRow},
    views::{CaptureView, View},
};
use crate::{
    fair::{FairView, QueuesView},
    link::{FlowView, GroupView},
};

/// The schema, as text with line breaks.
///
/// # Errors
/// None: the text is written to memory.
pub fn text() -> std::io::Result<String> {
    Ok(serde_json::to_string_pretty(&schema())? + "\n")
}

/// A schema fulfilled by each line.
fn schema() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut generator = settings.into_generator();
    let line = |kind: &str, content: schemars::Schema, more: &[(&str, Value)]| {
        let mut properties = Map::new();
        properties.insert("schema".to_owned(), json!({"const": SCHEMA}));
        properties.insert("type".to_owned(), json!({"const": kind}));
        properties.extend(
            more.iter()
                .map(|(key, value)| ((*key).to_owned(), value.clone())),
        );
        let required: Vec<String> = properties.keys().cloned().collect();
        json!({"title": kind, "allOf": [content], "properties": properties, "required": required})
    };
    let t_s = json!({"type": "number", "description": "Time since the watch began. Unit: s"});
    let lines = [
        line(
            "flow",
            generator.subschema_for::<FlowView>(),
            &[("t_s", t_s)],
        ),
        line("totals", generator.subschema_for::<View>(), &[]),
        line("census", generator.subschema_for::<Census>(), &[]),
    ];
    let mut parts = generator.take_definitions(true);
    describe::<FlowView>(&mut parts);
    describe::<GroupView>(&mut parts);
    describe::<View>(&mut parts);
    describe::<FairView>(&mut parts);
    describe::<CaptureView>(&mut parts);
    describe::<QueuesView>(&mut parts);
    describe::<Census>(&mut parts);
    describe::<CensusRow>(&mut parts);
    parts.values_mut().for_each(add_former_names);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of `tcpilot watch --json`",
        "oneOf": lines,
        "$defs": parts,
    })
}

/// Adds the units to the descriptions.
fn describe<V: figure::View + JsonSchema>(parts: &mut Map<String, Value>) {
    let properties = parts.get_mut(&*V::schema_name());
    let Some(properties) = properties.and_then(|part| part.get_mut("properties")) else {
        return;
    };
    for figure in V::FIGURES
        .iter()
        .filter(|figure| figure.unit != Unit::Plain)
    {
        let doc = figure.doc.trim();
        if let Some(property) = properties.get_mut(figure.key) {
            property["description"] = format!("{doc} Unit: {}", figure.unit.name()).into();
        }
    }
}

/// Adds the former names of renamed figures.
fn add_former_names(part: &mut Value) {
    let Some(properties) = part.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for (new, old) in RENAMED {
        if let Some(mut property) = properties.get(new).cloned() {
            property["description"] = format!("The former name of `{new}`.").into();
            properties.insert(old.to_owned(), property);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_its_type_and_its_sentence() {
        let schema = schema();
        let rate = &schema["$defs"]["FlowView"]["properties"]["rate"];
        assert_eq!(rate["type"], "integer");
        let description = rate["description"].as_str().unwrap_or_default();
        assert!(
            description.starts_with("Rate of") && description.ends_with("Unit: bytes/s"),
            "{rate}"
        );
        let parts = schema["$defs"].as_object().unwrap();
        for name in [
            "FlowView",
            "GroupView",
            "View",
            "FairView",
            "QueuesView",
            "CaptureView",
            "Census",
            "CensusRow",
        ] {
            let properties = parts[name]["properties"].as_object().unwrap();
            for (key, property) in properties {
                assert!(
                    property.get("description").is_some(),
                    "{name}.{key}: {property}"
                );
            }
        }
        assert!(
            parts["View"]["properties"].get("flows").is_none(),
            "flows have lines of their own"
        );
    }
}
