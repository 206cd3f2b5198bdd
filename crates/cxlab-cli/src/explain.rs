//! `cxlab explain`: what a key of a scenario is, from the schema.

use std::collections::BTreeSet;

use clap::Args;
use cxlab_scenario::diagnostics::{Document, nearest};
use serde_json::Value;

use super::failure::Failure;
use super::print;
use super::templates::SHIPPED;

/// Longest chain of references that is followed.
const LONGEST_CHAIN: usize = 32;

/// Most paths that a hint names.
const MOST_PATHS: usize = 3;

#[derive(Args)]
pub(super) struct ExplainArgs {
    /// The key, from the top of the file, e.g. fabric.topology.switches or hosts.workload.kind; without, the
    /// tables of a scenario
    key: Option<String>,
}

/// A schema, and the kind of the tables that it belongs to.
#[derive(Clone)]
struct KeySchema<'s> {
    schema: &'s Value,
    kind: Option<String>,
}

/// A key's schema in the tables that have it.
struct FoundKey<'s> {
    schema: &'s Value,
    kinds: Vec<String>,
    required: bool,
}

struct Schema(Value);

impl Schema {
    /// The tables that a schema can be: through references, `null`, choices and items of a list.
    fn tables<'s>(
        &'s self,
        schema: &'s Value,
        kind: Option<&str>,
        depth: usize,
    ) -> Vec<KeySchema<'s>> {
        if depth > LONGEST_CHAIN {
            return Vec::new();
        }
        let mut places = Vec::new();
        if schema.get("properties").is_some()
            || schema
                .get("additionalProperties")
                .is_some_and(Value::is_object)
        {
            let own = schema
                .pointer("/properties/kind/const")
                .and_then(Value::as_str);
            let kind = own.or(kind).map(str::to_owned);
            places.push(KeySchema { schema, kind });
        }
        for next in self.next(schema) {
            places.extend(self.tables(next, kind, depth + 1));
        }
        places
    }

    /// What a schema refers to, chooses from, or has items of.
    fn next<'s>(&'s self, schema: &'s Value) -> Vec<&'s Value> {
        let target = schema.get("$ref").and_then(Value::as_str);
        let target = target.and_then(|at| self.0.pointer(at.strip_prefix('#')?));
        let choices = ["anyOf", "oneOf", "allOf"]
            .into_iter()
            .filter_map(|key| schema.get(key)?.as_array());
        target
            .into_iter()
            .chain(choices.flatten())
            .chain(schema.get("items"))
            .collect()
    }

    /// The schemas of a key in these tables, each with the kinds of table that have it.
    fn find<'s>(&'s self, tables: &[KeySchema<'s>], key: &str) -> Vec<FoundKey<'s>> {
        let mut found: Vec<FoundKey<'s>> = Vec::new();
        for table in tables {
            let named = table
                .schema
                .pointer("/properties")
                .and_then(|all| all.get(key));
            // Any other name in a table whose names are the user's.
            let own = table
                .schema
                .get("additionalProperties")
                .filter(|schema| schema.is_object());
            let Some(schema) = named.or(own) else {
                continue;
            };
            let required = table.schema.get("required").and_then(Value::as_array);
            let required = required.is_some_and(|all| all.iter().any(|name| name == key));
            let constant = schema.get("const").is_some();
            match found
                .iter_mut()
                .find(|one| one.schema == schema && one.required == required && !constant)
            {
                Some(same) => same.kinds.extend(table.kind.clone()),
                None => found.push(FoundKey {
                    schema,
                    kinds: table.kind.iter().cloned().collect(),
                    required,
                }),
            }
        }
        found
    }

    /// The names of all keys in these tables.
    fn names<'s>(&self, tables: &[KeySchema<'s>]) -> BTreeSet<&'s str> {
        let maps = tables
            .iter()
            .filter_map(|table| table.schema.get("properties")?.as_object());
        maps.flat_map(|map| map.keys().map(String::as_str))
            .collect()
    }

    /// The paths of the keys with this name, at most [`MOST_PATHS`] of those with the fewest tables above them.
    fn paths_of(&self, name: &str) -> Vec<String> {
        let mut level = vec![(String::new(), self.tables(&self.0, None, 0))];
        let mut seen: Vec<*const Value> = Vec::new();
        while !level.is_empty() {
            let has = |tables: &[KeySchema<'_>]| self.names(tables).contains(name);
            let found = level.iter().filter(|(_, tables)| has(tables));
            let found: Vec<String> = found.map(|(path, _)| format!("{path}{name}")).collect();
            if !found.is_empty() {
                return found.into_iter().take(MOST_PATHS).collect();
            }
            let mut below = Vec::new();
            for (path, tables) in &level {
                for next in self.names(tables) {
                    let of = self.find(tables, next);
                    let of = of.iter().flat_map(|one| self.tables(one.schema, None, 0));
                    let new = of.filter(|table| !seen.contains(&std::ptr::from_ref(table.schema)));
                    below.push((format!("{path}{next}."), new.collect::<Vec<_>>()));
                }
            }
            below.retain(|(_, tables)| !tables.is_empty());
            let all = below.iter().flat_map(|(_, tables)| tables);
            seen.extend(all.map(|table| std::ptr::from_ref(table.schema)));
            level = below;
        }
        Vec::new()
    }

    /// The type of a value, and its range, in words.
    fn describe_type(&self, schema: &Value) -> String {
        let mut parts: BTreeSet<String> = BTreeSet::new();
        self.types(schema, &mut parts, 0);
        match parts.is_empty() {
            true => "any value".to_owned(),
            false => in_order(parts).join(", or "),
        }
    }

    fn types(&self, schema: &Value, parts: &mut BTreeSet<String>, depth: usize) {
        if depth > LONGEST_CHAIN {
            return;
        }
        if let Some(constant) = schema.get("const") {
            parts.insert(constant.to_string());
        } else if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            parts.extend(
                values
                    .iter()
                    .filter(|value| !value.is_null())
                    .map(Value::to_string),
            );
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
                    "array" => format!(
                        "a list of {}",
                        schema
                            .get("items")
                            .map_or("values".to_owned(), |items| self.describe_type(items))
                    ),
                    "object" => "a table".to_owned(),
                    "integer" | "number" => format!("{name}{}", range(schema)),
                    "string" => unit(schema).unwrap_or_else(|| "string".to_owned()),
                    other => other.to_owned(),
                });
            }
        }
        let items = schema.get("items");
        for next in self
            .next(schema)
            .into_iter()
            .filter(|next| items.is_none_or(|items| *next != items))
        {
            self.types(next, parts, depth + 1);
        }
    }
}

/// The range of a number, in words.
fn range(schema: &Value) -> String {
    let bound = |key| schema.get(key).filter(|bound| !bound.is_null());
    match (bound("minimum"), bound("maximum")) {
        (Some(low), Some(high)) => format!(", {low} to {high}"),
        (Some(low), None) => format!(", at least {low}"),
        (None, Some(high)) => format!(", at most {high}"),
        (None, None) => String::new(),
    }
}

/// What a string with a unit is, in the words of its type.
fn unit(schema: &Value) -> Option<String> {
    schema.get("pattern")?;
    schema.get("description")?.as_str().map(str::to_owned)
}

/// The names of a key's path; positions in lists are left out.
fn names_of(key: &str) -> Vec<String> {
    let mut outside = String::new();
    let mut inside = false;
    for character in key.chars() {
        match character {
            '[' => inside = true,
            ']' => inside = false,
            other if !inside => outside.push(other),
            _ => {}
        }
    }
    outside.split('.').map(str::to_owned).collect()
}

/// Prints what a key is.
pub(super) fn explain(args: &ExplainArgs) -> Result<(), Failure> {
    let schema = Schema(cxlab_scenario::schema());
    let mut tables = schema.tables(&schema.0, None, 0);
    let Some(key) = &args.key else {
        return print(&list("A scenario has these keys:", &schema, &tables));
    };
    let path = names_of(key);
    let mut found = Vec::new();
    for (depth, name) in path.iter().enumerate() {
        found = schema.find(&tables, name);
        if found.is_empty() {
            let elsewhere = match depth {
                0 => schema.paths_of(name),
                _ => Vec::new(),
            };
            let names = schema.names(&tables);
            return Err(unknown(key, &path[..depth], name, &names, &elsewhere));
        }
        tables = found
            .iter()
            .flat_map(|one| schema.tables(one.schema, None, 0))
            .collect();
    }
    let mut text = format!("{}\n", path.join("."));
    text += &describe(&schema, &found);
    if let Some((file, line)) = example(&path) {
        text += &format!("\nExample (scenarios/{file}.toml):\n  {line}\n");
    }
    if !tables.is_empty() {
        text += &list("\nIts keys:", &schema, &tables);
    }
    print(&text)
}

/// What a key is, once for each group of kinds in which it is the same.
fn describe(schema: &Schema, found: &[FoundKey<'_>]) -> String {
    // The values of `kind` are one list.
    let constants: Option<Vec<String>> = found
        .iter()
        .map(|one| Some(one.schema.get("const")?.to_string()))
        .collect();
    if let Some(constants) = constants {
        let required = found.iter().all(|one| one.required);
        let need = if required {
            "required"
        } else {
            "may be left out"
        };
        return format!("  one of {}; {need}\n", constants.join(", "));
    }
    let mut text = String::new();
    for one in found {
        if !one.kinds.is_empty() {
            let quoted: Vec<String> = one.kinds.iter().map(|kind| format!("\"{kind}\"")).collect();
            text += &format!("  with kind = {}:\n", quoted.join(", "));
        }
        text += &format!("  type: {}\n", schema.describe_type(one.schema));
        let default = one
            .schema
            .get("default")
            .filter(|default| !default.is_null());
        let is_long = |default: &Value| default.is_object();
        text += &match (one.required, default) {
            (true, _) => "  required\n".to_owned(),
            (false, Some(default)) if !is_long(default) => format!("  default: {default}\n"),
            _ => "  may be left out\n".to_owned(),
        };
        if let Some(description) = one.schema.get("description").and_then(Value::as_str) {
            text += &format!("  {}\n", description.replace('\n', " "));
        }
    }
    text
}

/// The keys of tables, a line each, by the kinds of table.
fn list(title: &str, schema: &Schema, tables: &[KeySchema<'_>]) -> String {
    let mut text = format!("{title}\n");
    for of_one_kind in tables.chunk_by(|one, other| one.kind == other.kind) {
        if let Some(kind) = &of_one_kind[0].kind {
            let summary = of_one_kind[0].schema.get("description");
            let summary = summary.and_then(Value::as_str).unwrap_or_default();
            text += &format!("  with kind = \"{kind}\": {summary}\n");
        }
        for name in schema.names(of_one_kind) {
            text += &key_line(schema, of_one_kind, name);
        }
    }
    text
}

/// A key of tables, with the first sentence of what it is. Nothing for `kind` itself, which stands above.
fn key_line(schema: &Schema, tables: &[KeySchema<'_>], name: &str) -> String {
    if name == "kind" && tables[0].kind.is_some() {
        return String::new();
    }
    let found = schema.find(tables, name);
    let description = found
        .iter()
        .find_map(|one| one.schema.get("description")?.as_str());
    let first = description.unwrap_or_default().replace('\n', " ");
    let first = first.split_inclusive(". ").next().unwrap_or_default();
    let indent = if tables[0].kind.is_some() { 4 } else { 2 };
    let line = format!("{:indent$}{name:<18} {first}", "");
    format!("{}\n", line.trim_end())
}

/// Sorts alternatives of a type: numbers first, by value, and then the others, by their text.
fn in_order(parts: BTreeSet<String>) -> Vec<String> {
    let mut parts: Vec<String> = parts.into_iter().collect();
    let number = |part: &String| part.parse::<f64>().unwrap_or(f64::INFINITY);
    parts.sort_by(|one, other| number(one).total_cmp(&number(other)));
    parts
}

/// The mistake of a key that does not exist there, but perhaps elsewhere.
fn unknown(
    key: &str,
    before: &[String],
    name: &str,
    names: &BTreeSet<&str>,
    elsewhere: &[String],
) -> Failure {
    let table = match before.is_empty() {
        true => "a scenario".to_owned(),
        false => format!("`{}`", before.join(".")),
    };
    if names.is_empty() {
        return Failure::mistake(format!(
            "{key}: found `{name}` below {table}, which is a single value"
        ));
    }
    let near = nearest(name, names.iter().copied()).map(|near| {
        let whole: Vec<&str> = before.iter().map(String::as_str).chain([near]).collect();
        whole.join(".")
    });
    let meant = match elsewhere {
        [] => near,
        _ => Some(elsewhere.join("` or `")),
    };
    let hint = meant.map_or_else(
        || {
            let allowed: Vec<&str> = names.iter().copied().collect();
            format!("allowed: {}", allowed.join(", "))
        },
        |meant| format!("did you mean `{meant}`?"),
    );
    Failure::mistake(format!(
        "{key}: found `{name}`, which is no key of {table}; {hint}"
    ))
}

/// The first line of a shipped scenario that has the key, and the scenario's name.
fn example(path: &[String]) -> Option<(&'static str, String)> {
    SHIPPED.iter().find_map(|(file, text)| {
        let document = Document::parse(file, text).ok()?;
        let place = place_of(document.value(), path, String::new())?;
        let spans = document.spans(&place)?;
        let at = spans.key.as_ref().unwrap_or(&spans.value).start;
        let begin = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let line = text[begin..].lines().next()?;
        Some((*file, line.trim().to_owned()))
    })
}

/// Where a value first has a key, through lists.
fn place_of(value: &Value, path: &[String], place: String) -> Option<String> {
    if let Value::Array(items) = value {
        let mut items = items.iter().enumerate();
        // A list of values is the key's own value.
        return items
            .find_map(|(at, item)| place_of(item, path, format!("{place}[{at}]")))
            .or_else(|| path.is_empty().then_some(place));
    }
    let Some((name, rest)) = path.split_first() else {
        return Some(place);
    };
    let dot = if place.is_empty() { "" } else { "." };
    place_of(value.get(name)?, rest, format!("{place}{dot}{name}"))
}
