//! Tables: unknown, missing and known keys.

use serde_json::{Map, Value};

use super::super::diagnostic::Diagnostic;
use super::super::path::{Path, quoted_if_needed};
use super::super::suggest::nearest;
use super::{Gathered, Walker, schema};

impl<'s> Walker<'s> {
    /// Checks a table. A misspelt key that stands for a missing one is reported once, as unknown.
    pub(super) fn check_object(
        &mut self,
        map: &Map<String, Value>,
        gathered: &Gathered<'s>,
        path: &Path,
    ) {
        let properties = properties(&gathered.all);
        let rest = rest_schema(&gathered.all);
        let closed = rest.is_none() && is_closed(&gathered.all) && !gathered.open;
        let mut meant = Vec::new();
        for (key, value) in map {
            let known = properties
                .iter()
                .find(|(name, _)| name == key)
                .map(|(_, schema)| *schema);
            if let Some(schema) = known.or(rest) {
                self.check_child(value, schema, &path.key(key));
            } else if closed {
                let names = properties.iter().map(|(name, _)| *name);
                meant.extend(self.unknown_key(key, map, &names.collect::<Vec<_>>(), path));
            }
        }
        for (index, name) in required(&gathered.all).enumerate() {
            let again = required(&gathered.all)
                .take(index)
                .any(|other| other == name);
            if !map.contains_key(name) && !meant.contains(&name) && !again {
                let schema = properties.iter().find(|(key, _)| *key == name);
                let what = schema.and_then(|(_, schema)| self.schemas.description(schema));
                self.found.push(missing_key(name, what, path));
            }
        }
    }

    /// Reports an unknown key and returns the one that was probably meant.
    pub(super) fn unknown_key<'n>(
        &mut self,
        key: &str,
        map: &Map<String, Value>,
        names: &[&'n str],
        path: &Path,
    ) -> Option<&'n str> {
        let absent = names
            .iter()
            .copied()
            .filter(|name| !map.contains_key(*name));
        let near = nearest(key, absent).or_else(|| nearest(key, names.iter().copied()));
        let key_path = path.key(key);
        let message = format!("unknown key `{}` {}", quoted_if_needed(key), within(path));
        let mut diagnostic = Diagnostic::new(key_path.to_string(), message)
            .with_label("unknown key")
            .at_key();
        if let Some(name) = near {
            diagnostic = diagnostic.with_help(format!("did you mean `{name}`?"));
        }
        let help = match names {
            [] => "no keys are allowed here".to_owned(),
            names => format!("allowed keys: `{}`", names.join("`, `")),
        };
        self.found.push(diagnostic.with_help(help));
        near
    }
}

/// A required key that is not there; `what` is what it is.
pub(super) fn missing_key(name: &str, what: Option<&str>, path: &Path) -> Diagnostic {
    let message = format!(
        "missing required key `{}` {}",
        quoted_if_needed(name),
        within(path)
    );
    let diagnostic = Diagnostic::new(path.key(name).to_string(), message)
        .with_label(format!("`{name}` is missing"));
    match what.and_then(first_paragraph) {
        Some(what) => diagnostic.with_help(format!("`{name}`: {what}")),
        None => diagnostic,
    }
}

/// The first paragraph of a description, on one line.
fn first_paragraph(text: &str) -> Option<String> {
    let lines = text
        .trim()
        .lines()
        .take_while(|line| !line.trim().is_empty());
    let line = lines.map(str::trim).collect::<Vec<_>>().join(" ");
    (!line.is_empty()).then_some(line)
}

/// `in `fabric.topology``, or the top of the file.
pub(super) fn within(path: &Path) -> String {
    if path.0.is_empty() {
        "at the top level".to_owned()
    } else {
        format!("in `{path}`")
    }
}

/// Each property with its schema; the first schema that has a property decides.
fn properties<'s>(all: &[&'s Value]) -> Vec<(&'s str, &'s Value)> {
    let mut properties: Vec<(&str, &Value)> = Vec::new();
    for map in all
        .iter()
        .filter_map(|schema| schema.get("properties")?.as_object())
    {
        for (name, schema) in map {
            if !properties.iter().any(|(other, _)| other == name) {
                properties.push((name, schema));
            }
        }
    }
    properties
}

fn required<'s>(all: &[&'s Value]) -> impl Iterator<Item = &'s str> {
    all.iter()
        .flat_map(|schema| schema::list(schema, "required"))
        .filter_map(Value::as_str)
}

/// The schema of keys that are not listed, as of a map.
fn rest_schema<'s>(all: &[&'s Value]) -> Option<&'s Value> {
    let additional = all
        .iter()
        .filter_map(|schema| schema.get("additionalProperties"));
    additional
        .into_iter()
        .find(|schema| **schema != Value::Bool(false))
}

/// Whether some schema refuses keys that none of them lists.
fn is_closed(all: &[&Value]) -> bool {
    let refuses = |schema: &Value, keyword| schema.get(keyword) == Some(&Value::Bool(false));
    all.iter().any(|schema| {
        refuses(schema, "additionalProperties") || refuses(schema, "unevaluatedProperties")
    })
}
