//! Values out of a fixed list: `enum` and `const`.

use serde_json::Value;

use super::super::diagnostic::Diagnostic;
use super::super::path::Path;
use super::super::suggest::nearest;
use super::{schema, words};

/// The mistake of a value that is not in the first list of constants that excludes it.
pub(super) fn wrong(value: &Value, all: &[&Value], path: &Path) -> Option<Diagnostic> {
    let mut lists = all.iter().filter_map(|schema| schema::constants(schema));
    let allowed = lists.find(|allowed| !allowed.contains(&value))?;
    Some(not_allowed(value, &allowed, path))
}

/// The constants that the schemas name.
pub(super) fn allowed<'s>(all: &[&'s Value]) -> Vec<&'s Value> {
    let mut lists = all.iter().filter_map(|schema| schema::constants(schema));
    lists.next().unwrap_or_default()
}

pub(super) fn not_allowed(value: &Value, allowed: &[&Value], path: &Path) -> Diagnostic {
    let all = allowed.iter().copied();
    if !value.is_string() && allowed.iter().all(|value| value.is_string()) {
        return no_string(value, path).with_help(list("allowed values", all));
    }
    let found = words::literal(value);
    let message = format!("`{path}`: found {found}; {}", list("allowed", all));
    let diagnostic = Diagnostic::new(path, message).with_label("not an allowed value");
    let strings = allowed.iter().filter_map(|value| value.as_str());
    let near = value.as_str().and_then(|text| nearest(text, strings));
    match near {
        Some(name) => diagnostic.with_help(format!("did you mean \"{name}\"?")),
        None => diagnostic,
    }
}

/// The mistake of a value that should be a string.
pub(super) fn no_string(value: &Value, path: &Path) -> Diagnostic {
    let found = words::found(value);
    let message = format!("`{path}`: expected a string, found {found}");
    Diagnostic::new(path, message).with_label("expected a string")
}

/// `allowed values: "fast", "slow"`.
pub(super) fn list<'a>(title: &str, allowed: impl Iterator<Item = &'a Value>) -> String {
    let literals: Vec<String> = allowed.map(Value::to_string).collect();
    format!("{title}: {}", literals.join(", "))
}
