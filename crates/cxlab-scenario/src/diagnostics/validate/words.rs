//! The words of messages: what was found and what was expected.

use cxlab_engine::units::{Bytes, BytesPerSec, ParseQuantityError, PartsPerMillion, Picos};
use serde_json::Value;

use super::schema;

/// Most characters of a value that are repeated in a message.
const LONGEST_EXCERPT: usize = 60;

/// A value with its type: `the string "three"`.
pub(super) fn found(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(flag) => format!("the boolean {flag}"),
        Value::Number(number) if number.is_f64() => format!("the number {number}"),
        Value::Number(number) => format!("the integer {number}"),
        Value::String(_) => format!("the string {}", literal(value)),
        Value::Array(entries) if entries.is_empty() => "an empty array".to_owned(),
        Value::Array(entries) => format!("an array of {}", count(entries.len(), "value")),
        Value::Object(_) => "a table".to_owned(),
    }
}

/// A value as written, cut short when long.
pub(super) fn literal(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(LONGEST_EXCERPT) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// `1 entry`, `3 entries`.
pub(super) fn count(number: usize, noun: &str) -> String {
    match (number, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        (_, None) => format!("{number} {noun}s"),
    }
}

/// Values that a schema takes, in words: `an integer or a string`, or a quantity's own words.
pub(super) fn expected(schema: &Value) -> String {
    match quantity_error(schema, "") {
        Some(error) => error.expected.into_owned(),
        None => short_expected(schema),
    }
}

/// Values that a schema takes, in words short enough for a label.
pub(super) fn short_expected(schema: &Value) -> String {
    let quantity = match schema.get("format").and_then(Value::as_str) {
        Some("Picos") => "time",
        Some("Bytes") => "size",
        Some("PartsPerMillion") => "percentage",
        Some("BytesPerSec") => "rate",
        _ => return either(schema::types(schema).into_iter().map(type_name)),
    };
    format!("a {quantity} in quotes")
}

/// Joins alternatives with `or`, each once.
pub(super) fn either<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut once: Vec<&str> = Vec::new();
    for name in names {
        if !once.contains(&name) {
            once.push(name);
        }
    }
    match once.split_last() {
        None => "another value".to_owned(),
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
    }
}

/// A JSON type in the words of TOML.
pub(super) fn type_name(name: &str) -> &str {
    match name {
        "string" => "a string",
        "integer" => "an integer",
        "number" => "a number",
        "boolean" => "a boolean (true or false)",
        "array" => "an array",
        "object" => "a table",
        other => other,
    }
}

/// How a value of the wrong type would be written in the right one.
pub(super) struct Conversion {
    /// Advice to the user on what to write.
    pub(super) help: String,
    /// The value that is then read, where the help has a whole value.
    pub(super) value: Option<Value>,
}

/// How the value found would be written in the type expected, when that is plain. Whether the converted
/// value is in range, or in a list of allowed values, is not checked.
pub(super) fn conversion(value: &Value, schema: &Value) -> Option<Conversion> {
    let with = |help: String, value: Option<Value>| Some(Conversion { help, value });
    if let Some(error) = quantity_error(schema, "") {
        let help = format!("a quantity is a string with its unit: {}", error.expected);
        return with(help, None).filter(|_| value.is_number());
    }
    let types = schema::types(schema);
    match value {
        Value::String(text) => {
            let read: Value = serde_json::from_str(text.trim()).ok()?;
            let fits = !read.is_string() && !read.is_null() && schema::admits(schema, &read);
            with(format!("write {} without quotes", text.trim()), Some(read)).filter(|_| fits)
        }
        Value::Number(number) if types == ["integer"] => {
            let whole = number.as_f64().filter(|number| number.fract() == 0.0)?;
            let help = format!("write {whole:.0}");
            with(help, Some(Value::from(whole as i64))).filter(|_| whole.abs() < 1e15)
        }
        Value::Number(_) | Value::Bool(_) if types == ["string"] => {
            with(format!("write \"{value}\""), Some(value.to_string().into()))
        }
        _ if types == ["array"] && is_item(value, schema) => {
            with("put the value in brackets: [ ... ]".to_owned(), None)
        }
        _ => None,
    }
}

fn is_item(value: &Value, schema: &Value) -> bool {
    let item = schema.get("items");
    item.is_some_and(|item| !schema::types(item).is_empty() && schema::admits(item, value))
}

/// Why a text is not of the schema's quantity format; `None` if it is, or if the schema has none.
pub(super) fn quantity_error(schema: &Value, text: &str) -> Option<ParseQuantityError> {
    match schema.get("format")?.as_str()? {
        "Picos" => text.parse::<Picos>().err(),
        "PartsPerMillion" => text.parse::<PartsPerMillion>().err(),
        "Bytes" => text.parse::<Bytes>().err(),
        "BytesPerSec" => text.parse::<BytesPerSec>().err(),
        _ => None,
    }
}

/// Whether the schema's format is a quantity of the engine.
pub(super) fn is_quantity(schema: &Value) -> bool {
    let format = schema.get("format").and_then(Value::as_str);
    matches!(
        format,
        Some("Picos" | "PartsPerMillion" | "Bytes" | "BytesPerSec")
    )
}
