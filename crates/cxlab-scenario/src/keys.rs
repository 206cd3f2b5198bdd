//! The keys of a scenario by their path, as its JSON Schema describes them: for `cxlab explain`, and for
//! the hint at a key in the wrong table.
//!
//! A path has names only, without positions in lists: `hosts.workload.kind`.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;

/// Longest chain of references that is followed; a longer one is a loop.
const LONGEST_CHAIN: usize = 32;

/// Most paths that a hint names.
const MOST_PATHS: usize = 3;

/// The keys that a JSON Schema describes.
#[derive(Clone, Copy)]
pub struct SchemaKeys<'s> {
    root: &'s Value,
}

/// The schema of a table, and the `kind` of the table where it has one.
#[derive(Clone)]
pub struct KeyTable<'s> {
    /// The schema with the properties.
    pub schema: &'s Value,
    /// The value of the table's key `kind`; that of the table above where the table has none of its own.
    pub kind: Option<String>,
}

/// A key's schema in the tables that have it.
pub struct FoundKey<'s> {
    /// The schema of the key's value.
    pub schema: &'s Value,
    /// The kinds of the tables with this schema for the key.
    pub kinds: Vec<String>,
    /// Whether these tables need the key.
    pub required: bool,
}

impl<'s> SchemaKeys<'s> {
    /// The keys of the whole schema `root`.
    pub fn new(root: &'s Value) -> SchemaKeys<'s> {
        SchemaKeys { root }
    }

    /// The tables that the value at a path can be; none where there is no such path, or no table.
    pub fn at<P: AsRef<str>>(self, path: &[P]) -> Vec<KeyTable<'s>> {
        let below = |tables: Vec<KeyTable<'s>>, name: &P| {
            let found = self.find(&tables, name.as_ref()).into_iter();
            found.flat_map(|one| self.tables(one.schema)).collect()
        };
        path.iter().fold(self.tables(self.root), below)
    }

    /// The tables that a value with this schema can be: through references, `null`, choices and items of
    /// a list.
    pub fn tables(self, schema: &'s Value) -> Vec<KeyTable<'s>> {
        let mut tables = Vec::new();
        self.add_tables(schema, None, 0, &mut tables);
        tables
    }

    fn add_tables(
        self,
        schema: &'s Value,
        kind: Option<&str>,
        depth: usize,
        tables: &mut Vec<KeyTable<'s>>,
    ) {
        if depth > LONGEST_CHAIN {
            return;
        }
        if schema.get("properties").is_some() || any_name(schema).is_some() {
            let own = schema.pointer("/properties/kind/const");
            let kind = own.and_then(Value::as_str).or(kind).map(str::to_owned);
            tables.push(KeyTable { schema, kind });
        }
        for next in self.next(schema) {
            self.add_tables(next, kind, depth + 1, tables);
        }
    }

    /// The schemas that a schema refers to, chooses from, or has for items.
    pub fn next(self, schema: &'s Value) -> Vec<&'s Value> {
        let target = schema.get("$ref").and_then(Value::as_str);
        let target = target.and_then(|at| self.root.pointer(at.strip_prefix('#')?));
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
    pub fn find(self, tables: &[KeyTable<'s>], key: &str) -> Vec<FoundKey<'s>> {
        let mut found: Vec<FoundKey<'s>> = Vec::new();
        for table in tables {
            let properties = table.schema.get("properties");
            let named = properties.and_then(|all| all.get(key));
            let Some(schema) = named.or_else(|| any_name(table.schema)) else {
                continue;
            };
            let required = table.schema.get("required").and_then(Value::as_array);
            let required = required.is_some_and(|all| all.iter().any(|name| name == key));
            let constant = schema.get("const").is_some();
            let same = |one: &&mut FoundKey<'s>| {
                one.schema == schema && one.required == required && !constant
            };
            match found.iter_mut().find(same) {
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

    /// The names of all keys in these tables, but those that a user chooses.
    pub fn names(self, tables: &[KeyTable<'s>]) -> BTreeSet<&'s str> {
        let maps = tables
            .iter()
            .filter_map(|table| table.schema.get("properties")?.as_object());
        maps.flat_map(|map| map.keys().map(String::as_str))
            .collect()
    }

    /// The paths of the keys with this name in or below the table at `from`, at most three of those with
    /// the fewest tables above them.
    pub fn paths_of<P: AsRef<str>>(self, name: &str, from: &[P]) -> Vec<String> {
        let prefix: String = from.iter().flat_map(|part| [part.as_ref(), "."]).collect();
        let mut level = vec![(prefix, self.at(from))];
        let mut seen: HashSet<*const Value> = HashSet::new();
        while !level.is_empty() {
            let found = level
                .iter()
                .filter(|(_, tables)| self.names(tables).contains(name));
            let found: Vec<String> = found.map(|(path, _)| format!("{path}{name}")).collect();
            if !found.is_empty() {
                return found.into_iter().take(MOST_PATHS).collect();
            }
            let mut below = Vec::new();
            for (path, tables) in &level {
                for next in self.names(tables) {
                    let of = self.find(tables, next).into_iter();
                    let of = of.flat_map(|one| self.tables(one.schema));
                    let new: Vec<KeyTable<'s>> = of
                        .filter(|table| !seen.contains(&std::ptr::from_ref(table.schema)))
                        .collect();
                    if !new.is_empty() {
                        below.push((format!("{path}{next}."), new));
                    }
                }
            }
            let all = below.iter().flat_map(|(_, tables)| tables);
            seen.extend(all.map(|table| std::ptr::from_ref(table.schema)));
            level = below;
        }
        Vec::new()
    }
}

/// The hint at keys that may have been meant: ``did you mean `a`, `b` or `c`?``. Empty for no keys.
pub fn did_you_mean(paths: &[String]) -> String {
    let quoted: Vec<String> = paths.iter().map(|path| format!("`{path}`")).collect();
    match quoted.split_last() {
        None => String::new(),
        Some((last, [])) => format!("did you mean {last}?"),
        Some((last, others)) => format!("did you mean {} or {last}?", others.join(", ")),
    }
}

/// The schema of every key in a table whose names the user chooses.
pub fn any_name(table: &Value) -> Option<&Value> {
    let schema = table.get("additionalProperties")?;
    schema.is_object().then_some(schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HINTS: &str = "
routing => did you mean `fabric.routing`?
threads => did you mean `execution.threads`?
devices.bandwidth => did you mean `devices.link.bandwidth`, `devices.memory.bandwidth` or `devices.qos.bandwidth`?
switches => did you mean `fabric.topology.switches` or `failures.random.switches`?
no_such_key => \nno_such_table.bandwidth => ";

    #[test]
    fn a_key_is_found_below_a_table_and_in_the_whole_scenario() {
        let schema = crate::schema();
        for row in HINTS.lines().skip(1) {
            let (path, hint) = row.split_once(" => ").unwrap();
            let (table, key) = path.rsplit_once('.').unwrap_or(("", path));
            let table: Vec<&str> = table.split_terminator('.').collect();
            let found = SchemaKeys::new(&schema).paths_of(key, &table);
            assert_eq!(did_you_mean(&found), hint);
        }
    }

    #[test]
    fn a_key_knows_the_kinds_of_table_that_have_it() {
        let schema = crate::schema();
        let keys = SchemaKeys::new(&schema);
        let media = keys.at(&["devices", "memory"]);
        let found = keys.find(&media, "bank_cycle");
        let kinds: Vec<&String> = found.iter().flat_map(|one| &one.kinds).collect();
        assert_eq!(kinds, ["fixed"]);
        let links = keys.at(&["fabric", "links", "a name of the user"]);
        assert!(keys.names(&links).contains("lanes"));
    }
}
