//! `cxlab explain`: what a key of a scenario is, from the schema.

mod default;
mod example;
mod value_type;

use std::collections::BTreeSet;

use clap::Args;
use cxlab_scenario::diagnostics::nearest;
use cxlab_scenario::keys::{FoundKey, KeyTable, SchemaKeys, any_name, did_you_mean};
use default::Described;

use super::failure::Failure;
use super::{list, print};

#[derive(Args)]
pub(super) struct ExplainArgs {
    /// The key, from the top of the file, e.g. fabric.topology.switches or hosts.workload.kind, or an entry of
    /// `cxlab list`, e.g. spine-leaf; without, the tables of a scenario
    key: Option<String>,
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
    let schema = cxlab_scenario::schema();
    let keys = SchemaKeys::new(&schema);
    let mut tables = keys.tables(&schema);
    let Some(key) = &args.key else {
        return print(&key_list("A scenario has these keys:", keys, &tables));
    };
    let mut path = names_of(key);
    // A name alone is that of the only key with this name.
    if path.len() == 1
        && let [only] = &keys.paths_of::<&str>(key, &[])[..]
    {
        path = names_of(only);
    }
    let mut found = Vec::new();
    for (depth, name) in path.iter().enumerate() {
        found = keys.find(&tables, name);
        if found.is_empty() {
            let entries = list::entries_named(key);
            if !entries.is_empty() {
                return print(&entries);
            }
            return Err(unknown(keys, &path, depth, &keys.names(&tables)));
        }
        tables = found
            .iter()
            .flat_map(|one| keys.tables(one.schema))
            .collect();
    }
    let mut text = format!("{}\n", path.join("."));
    text += &describe(keys, &found);
    if let Some((file, lines)) = example::of(&path) {
        text += &format!("\nExample (scenarios/{file}.toml):\n");
        text.extend(lines.iter().map(|line| format!("  {line}\n")));
    }
    if !tables.is_empty() {
        text += &key_list("\nIts keys:", keys, &tables);
    }
    print(&text)
}

/// What a key is, once for each group of kinds in which it is the same.
fn describe(keys: SchemaKeys<'_>, found: &[FoundKey<'_>]) -> String {
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
        text += &format!("  type: {}\n", value_type::in_words(keys, one.schema));
        let described = Described::of(one);
        text += &match described.default {
            _ if described.is_required => "  required\n".to_owned(),
            Some(default) => format!("  default: {}\n", default.whole),
            None => "  may be left out\n".to_owned(),
        };
        if !described.text.is_empty() {
            text += &format!("  {}\n", described.text);
        }
        for (value, what) in value_type::described_values(keys, one.schema) {
            text += &format!("    {value}: {what}\n");
        }
    }
    text
}

/// The keys of tables, a line each, by the kinds of table.
fn key_list(title: &str, keys: SchemaKeys<'_>, tables: &[KeyTable<'_>]) -> String {
    let mut text = format!("{title}\n");
    for of_one_kind in tables.chunk_by(|one, other| one.kind == other.kind) {
        if let Some(kind) = &of_one_kind[0].kind {
            let summary = of_one_kind[0].schema.get("description");
            let summary = summary.and_then(|text| text.as_str()).unwrap_or_default();
            text += &format!("  with kind = \"{kind}\": {summary}\n");
        }
        for name in keys.names(of_one_kind) {
            text += &key_line(keys, of_one_kind, name);
        }
        let any = of_one_kind.iter().find_map(|table| any_name(table.schema));
        if let Some(schema) = any {
            let value = value_type::in_words(keys, schema);
            text += &line(of_one_kind, "NAME", &format!("Any name; {value}."));
        }
    }
    text
}

/// A key of tables, with the first sentence of what it is, and its default. Nothing for `kind` itself, which
/// stands above.
fn key_line(keys: SchemaKeys<'_>, tables: &[KeyTable<'_>], name: &str) -> String {
    if name == "kind" && tables[0].kind.is_some() {
        return String::new();
    }
    let found = keys.find(tables, name);
    let described: Vec<Described> = found.iter().map(Described::of).collect();
    let text = described.iter().find(|one| !one.text.is_empty());
    let text = text.map_or("", |one| one.text.as_str());
    let first = text.split_inclusive(". ").next().unwrap_or_default();
    let default = described.iter().find_map(|one| one.default.as_ref());
    let note = match default {
        _ if described.iter().all(|one| one.is_required) => "[required]".to_owned(),
        Some(default) => format!("[default: {}]", default.short),
        None => String::new(),
    };
    line(tables, name, &format!("{} {note}", first.trim_end()))
}

/// A line of a list: a key with what it is.
fn line(tables: &[KeyTable<'_>], name: &str, what: &str) -> String {
    let indent = if tables[0].kind.is_some() { 4 } else { 2 };
    let line = format!("{:indent$}{name:<18} {}", "", what.trim_start());
    format!("{}\n", line.trim_end())
}

/// The mistake of a path whose key at `depth` is none of its table's `names`, with paths that may be meant.
fn unknown(keys: SchemaKeys<'_>, path: &[String], depth: usize, names: &BTreeSet<&str>) -> Failure {
    let (before, name, below) = (&path[..depth], &path[depth], &path[depth + 1..]);
    let table = before.join(".");
    if names.is_empty() {
        return Failure::mistake(format!(
            "`{table}` is a single value, so it has no key `{name}`"
        ));
    }
    let near = nearest(name, names.iter().copied()).map(|near| {
        let whole: Vec<&str> = before.iter().map(String::as_str).chain([near]).collect();
        whole.join(".")
    });
    // A name alone may be that of a key anywhere; in a path it is more likely misspelt, or a key further below.
    let meant = match (before.is_empty(), near) {
        (false, Some(near)) => vec![near],
        (_, near) => match keys.paths_of(name, before) {
            paths if paths.is_empty() => Vec::from_iter(near),
            paths => paths,
        },
    };
    // The rest of the path belongs to the hint if the table that is meant has the next key.
    let keys_of = |table: &str| keys.names(&keys.at(&names_of(table)));
    let with_rest = |meant: String| match below.first() {
        Some(next) if keys_of(&meant).contains(next.as_str()) => {
            format!("{meant}.{}", below.join("."))
        }
        _ => meant,
    };
    let meant: Vec<String> = meant.into_iter().map(with_rest).collect();
    let hint = match meant.is_empty() {
        true => {
            let allowed: Vec<&str> = names.iter().copied().collect();
            let of_reports = match before.is_empty() {
                true => {
                    "; words of a run's output are in docs/reference/waits.md and docs/reference/report.md"
                }
                false => "",
            };
            format!("allowed: {}{of_reports}", allowed.join(", "))
        }
        false => did_you_mean(&meant),
    };
    let table = match before.is_empty() {
        true => "a scenario".to_owned(),
        false => format!("`{table}`"),
    };
    Failure::mistake(format!("`{name}` is no key of {table}; {hint}"))
}
