//! Values out of a fixed list: `enum` and `const`.

use serde_json::Value;

use super::super::diagnostic::Diagnostic;
use super::super::path::Path;
use super::super::suggest::nearest;
use super::{schema, words};

/// The mistake of a value that is not in the first list of constants that excludes it.
pub(super) fn wrong(value: &Value, all: &[&Value], path: &Path) -> Option<Diagnostic> {
    let lists = all.iter().filter_map(|schema| schema::constants(schema));
    let allowed = lists
        .into_iter()
        .find(|allowed| !allowed.contains(&value))?;
    Some(not_allowed(value, &allowed, path))
}

/// The constants that the schemas name.
pub(super) fn allowed<'s>(all: &[&'s Value]) -> Vec<&'s Value> {
    all.iter()
        .find_map(|schema| schema::constants(schema))
        .unwrap_or_default()
}

/// A value that is not one of those allowed.
pub(super) fn not_allowed(value: &Value, allowed: &[&Value], path: &Path) -> Diagnostic {
    let found = words::found(value);
    if !value.is_string() && allowed.iter().all(|value| value.is_string()) {
        let message = format!("`{path}`: expected a string, found {found}");
        return Diagnostic::new(path.to_string(), message)
            .with_label("expected a string")
            .with_help(list("allowed values", allowed));
    }
    let found = words::literal(value);
    let message = format!("`{path}`: found {found}; {}", list("allowed", allowed));
    let diagnostic = Diagnostic::new(path.to_string(), message).with_label("not an allowed value");
    let near = value
        .as_str()
        .and_then(|text| nearest(text, strings(allowed)));
    match near {
        Some(name) => diagnostic.with_help(format!("did you mean \"{name}\"?")),
        None => diagnostic,
    }
}

/// The strings among constants.
pub(super) fn strings<'a>(allowed: &[&'a Value]) -> impl Iterator<Item = &'a str> {
    allowed.iter().filter_map(|value| value.as_str())
}

/// `allowed values: "fast", "slow"`.
pub(super) fn list(title: &str, allowed: &[&Value]) -> String {
    let literals: Vec<String> = allowed.iter().map(|value| value.to_string()).collect();
    format!("{title}: {}", literals.join(", "))
}
