//! Tables: unknown, missing and known keys.

use serde_json::{Map, Value};

use super::super::diagnostic::Diagnostic;
use super::super::path::{Path, quoted_if_needed};
use super::super::suggest::nearest;
use super::{ApplicableSchemas, Walker, schema, words};

impl<'s> Walker<'s> {
    /// Checks a table. A misspelt key that stands for a missing one is reported once, as unknown.
    pub(super) fn check_object(
        &mut self,
        map: &Map<String, Value>,
        gathered: &ApplicableSchemas<'_, 's>,
    ) {
        let path = gathered.path;
        let properties = properties(&gathered.all);
        let rest = rest_schema(&gathered.all);
        let closed = rest.is_none() && is_closed(&gathered.all) && !gathered.open;
        let schema_of = |key: &str| {
            let known = properties.iter().find(|(name, _)| *name == key);
            known.map(|(_, schema)| *schema)
        };
        let mut meant = Vec::new();
        for (key, value) in map {
            if let Some(schema) = schema_of(key).or(rest) {
                let before = self.found.len();
                self.check_child(value, schema, &path.key(key));
                if self.found.len() > before
                    && let Some(name) = self.meant_key(key, value, map, &properties)
                {
                    let literal = words::literal(value);
                    self.found.help_last(format!("write {name} = {literal}"));
                }
            } else if closed {
                let names = properties.iter().map(|(name, _)| *name);
                meant.extend(self.unknown_key(key, map, &names.collect::<Vec<_>>(), path));
            }
        }
        for name in required(&gathered.all) {
            if !map.contains_key(name) && !meant.contains(&name) {
                let what = schema_of(name).and_then(|schema| self.schemas.description(schema));
                self.found.push(missing_key(name, what, path));
                meant.push(name);
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
        let all = names.iter().copied();
        let absent = all.clone().filter(|name| !map.contains_key(*name));
        let near = nearest(key, absent).or_else(|| nearest(key, all));
        let mut diagnostic = stranger(key, &quoted_if_needed(key), path);
        let hints = match (near, map.get(key)) {
            (Some(name), _) => vec![format!("did you mean `{name}`?")],
            (None, Some(value)) => self.places_of(key, value, path),
            (None, None) => Vec::new(),
        };
        diagnostic = hints.iter().fold(diagnostic, Diagnostic::with_help);
        let help = match names {
            [] => "no keys are allowed here".to_owned(),
            names => format!("allowed keys: `{}`", names.join("`, `")),
        };
        self.found.push(diagnostic.with_help(help));
        near
    }
}

/// An unknown key, as `shown`.
pub(super) fn stranger(key: &str, shown: &str, path: &Path) -> Diagnostic {
    let message = format!("unknown key `{shown}` {}", within(path));
    let diagnostic = Diagnostic::new(&path.key(key), message);
    diagnostic.with_label("unknown key").at_key()
}

/// A required key that is missing; `what` describes the key.
pub(super) fn missing_key(name: &str, what: Option<&str>, path: &Path) -> Diagnostic {
    let shown = quoted_if_needed(name);
    let message = format!("missing required key `{shown}` {}", within(path));
    let label = format!("`{name}` is missing");
    let diagnostic = Diagnostic::new(&path.key(name), message).with_label(label);
    match what.and_then(first_paragraph) {
        Some(what) => diagnostic.with_help(format!("`{name}`: {what}")),
        None => diagnostic,
    }
}

fn first_paragraph(text: &str) -> Option<String> {
    let lines = text.trim().lines().map(str::trim);
    let lines = lines.take_while(|line| !line.is_empty());
    let line = lines.collect::<Vec<_>>().join(" ");
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
    let of_schema = |schema: &&'s Value| schema.get("properties")?.as_object();
    for (name, schema) in all.iter().filter_map(of_schema).flatten() {
        if !properties.iter().any(|(other, _)| other == name) {
            properties.push((name, schema));
        }
    }
    properties
}

fn required<'s>(all: &[&'s Value]) -> impl Iterator<Item = &'s str> {
    let lists = all.iter().map(|schema| schema::list(schema, "required"));
    lists.flatten().filter_map(Value::as_str)
}

/// The schema of keys that are not listed, as of a map.
fn rest_schema<'s>(all: &[&'s Value]) -> Option<&'s Value> {
    let mut additional = all
        .iter()
        .filter_map(|schema| schema.get("additionalProperties"));
    additional.find(|schema| **schema != Value::Bool(false))
}

/// Whether some schema refuses keys that none of them lists.
fn is_closed(all: &[&Value]) -> bool {
    let refuses = |schema: &Value, keyword| schema.get(keyword) == Some(&Value::Bool(false));
    all.iter().any(|schema| {
        refuses(schema, "additionalProperties") || refuses(schema, "unevaluatedProperties")
    })
}
