//! The type of a key's value, in words.

use std::collections::BTreeSet;

use cxlab_scenario::keys::SchemaKeys;
use serde_json::Value;

/// Longest chain of references that is followed.
const LONGEST_CHAIN: usize = 32;

/// The type of a value, and its range: `integer, 1 to 16`, `a list of tables`.
pub(super) fn in_words(keys: SchemaKeys<'_>, schema: &Value) -> String {
    let parts = alternatives(keys, schema);
    match parts.is_empty() {
        true => "any value".to_owned(),
        false => parts.join(", or "),
    }
}

/// The values that a schema lists with a description each, in its order.
pub(super) fn described_values(keys: SchemaKeys<'_>, schema: &Value) -> Vec<(String, String)> {
    let own = schema
        .get("const")
        .zip(schema.get("description").and_then(Value::as_str));
    let own = own.map(|(value, text)| (value.to_string(), text.replace('\n', " ")));
    let items = schema.get("items");
    let next = keys.next(schema).into_iter();
    let next = next.filter(|next| items != Some(*next) && next.get("properties").is_none());
    let below = next.flat_map(|next| described_values(keys, next));
    own.into_iter().chain(below).collect()
}

/// The types that a value can have: numbers first, by value, and then the others, by their text.
fn alternatives(keys: SchemaKeys<'_>, schema: &Value) -> Vec<String> {
    let mut parts = BTreeSet::new();
    add(keys, schema, &mut parts, 0);
    let mut parts: Vec<String> = parts.into_iter().collect();
    let number = |part: &String| part.parse::<f64>().unwrap_or(f64::INFINITY);
    parts.sort_by(|one, other| number(one).total_cmp(&number(other)));
    parts
}

fn add(keys: SchemaKeys<'_>, schema: &Value, parts: &mut BTreeSet<String>, depth: usize) {
    if depth > LONGEST_CHAIN {
        return;
    }
    if let Some(constant) = schema.get("const") {
        parts.insert(constant.to_string());
    } else if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let values = values.iter().filter(|value| !value.is_null());
        parts.extend(values.map(Value::to_string));
    } else if schema.get("properties").is_some() {
        parts.insert("a table".to_owned());
    } else {
        let names = match schema.get("type") {
            Some(Value::String(name)) => vec![name.as_str()],
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        for name in names.into_iter().filter(|name| *name != "null") {
            parts.insert(match name {
                "array" => format!("a list of {}", items(keys, schema)),
                "object" => "a table".to_owned(),
                "integer" | "number" => format!("{name}{}", range(schema)),
                "string" => unit(schema).unwrap_or_else(|| "string".to_owned()),
                other => other.to_owned(),
            });
        }
    }
    let items = schema.get("items");
    for next in keys.next(schema) {
        if items != Some(next) {
            add(keys, next, parts, depth + 1);
        }
    }
}

/// What a list has, in words.
fn items(keys: SchemaKeys<'_>, list: &Value) -> String {
    let items = list.get("items").map(|items| alternatives(keys, items));
    let items: Vec<String> = items.iter().flatten().map(|one| plural(one)).collect();
    match items.is_empty() {
        true => "values".to_owned(),
        false => items.join(", or "),
    }
}

/// The plural of a type: `integers, 1 to 16` of `integer, 1 to 16`, `tables` of `a table`. A value of a list
/// of allowed values remains as it is.
fn plural(of_type: &str) -> String {
    let noun = of_type.strip_prefix("a ").unwrap_or(of_type);
    let end = noun.find(|character: char| !character.is_ascii_alphabetic());
    match noun.split_at(end.unwrap_or(noun.len())) {
        ("", _) => of_type.to_owned(),
        (word, rest) => format!("{word}s{rest}"),
    }
}

/// The range of a number, in words.
fn range(schema: &Value) -> String {
    let bound = |key| schema.get(key).filter(|bound| !bound.is_null());
    if let (Some(low), Some(high)) = (bound("minimum"), bound("maximum")) {
        return format!(", {low} to {high}");
    }
    let bounds = [
        ("minimum", "at least"),
        ("exclusiveMinimum", "more than"),
        ("maximum", "at most"),
        ("exclusiveMaximum", "less than"),
    ];
    let bounds = bounds
        .into_iter()
        .filter_map(|(key, words)| Some((words, bound(key)?)));
    let bounds: Vec<String> = bounds
        .map(|(words, bound)| format!("{words} {bound}"))
        .collect();
    match bounds.is_empty() {
        true => String::new(),
        false => format!(", {}", bounds.join(" and ")),
    }
}

/// What a string with a unit is, in the words of its type.
fn unit(schema: &Value) -> Option<String> {
    schema.get("pattern")?;
    schema.get("description")?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = r#"
{"type": "array", "items": {"properties": {}}} => a list of tables
{"type": "array", "items": {"type": "string"}} => a list of strings
{"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 100}} => a list of integers, 0 to 100
{"type": "array", "items": {"type": "array", "items": {"type": "string"}}} => a list of lists of strings
{"type": "array", "items": {"enum": ["a", "b"]}} => a list of "a", or "b"
{"type": "array", "items": {}} => a list of values
{"type": "number", "minimum": 0, "maximum": 1} => number, 0 to 1
{"type": "number", "minimum": 2} => number, at least 2
{"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1} => number, more than 0 and less than 1
{"type": "number"} => number
"#;

    #[test]
    fn a_type_is_told_with_its_range_and_its_items() {
        for row in ROWS.lines().filter(|row| !row.is_empty()) {
            let (schema, words) = row.split_once(" => ").unwrap();
            let schema: Value = serde_json::from_str(schema).unwrap();
            assert_eq!(in_words(SchemaKeys::new(&schema), &schema), words);
        }
    }
}
