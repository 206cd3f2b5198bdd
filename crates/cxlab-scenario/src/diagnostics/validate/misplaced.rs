//! Help at a key or a value that its table does not take, but another key of the scenario does.

use serde_json::{Map, Value};

use super::super::path::{Path, Segment};
use super::{Walker, words};
use crate::keys::{KeyTable, SchemaKeys, did_you_mean};

/// Most kinds of a table that a hint names, and most keys of an unknown table that are searched for.
const MOST_NAMES: usize = 4;

impl<'s> Walker<'s> {
    /// Where the key belongs that the table at `path` does not have, in sentences. The keys of an unknown
    /// table are searched for where the scenario has no key of its name.
    pub(super) fn places_of(&mut self, key: &str, value: &Value, path: &Path) -> Vec<String> {
        if self.hints == 0 {
            return Vec::new();
        }
        self.hints -= 1;
        let keys = SchemaKeys::new(self.schemas.root);
        if let Some(place) = place_of(keys, key, &names(path)) {
            return vec![place];
        }
        let inside = value.as_object().into_iter().flat_map(Map::keys);
        let places = inside.take(MOST_NAMES).filter_map(|name| {
            let place = place_of(keys, name, &[])?;
            Some(format!("for `{name}`, {place}"))
        });
        places.collect()
    }

    /// The key of the same table that takes the refused value of `key`: `warmup_time` for a time at
    /// `warmup`. A quantity without its unit is no other key's value.
    pub(super) fn meant_key<'n>(
        &self,
        key: &str,
        value: &Value,
        map: &Map<String, Value>,
        properties: &[(&'n str, &'s Value)],
    ) -> Option<&'n str> {
        let own = properties.iter().find(|(name, _)| *name == key)?.1;
        if value.is_object() || value.is_array() || self.takes_quantity(own) {
            return None;
        }
        let mut longer = properties.iter().filter(|(name, _)| {
            let rest = name.strip_prefix(key);
            rest.is_some_and(|rest| rest.starts_with('_')) && !map.contains_key(*name)
        });
        let takes = |schema: &'s Value| {
            let mut trial = self.trial();
            trial.check_child(value, schema, &Path::default());
            trial.found.is_empty()
        };
        let meant = longer.find(|(_, schema)| takes(schema));
        meant.map(|(name, _)| *name)
    }

    /// Whether a schema takes a time, a size, a rate or a percentage.
    fn takes_quantity(&self, schema: &'s Value) -> bool {
        let choices = super::schema::list(schema, "anyOf").iter();
        let mut all = std::iter::once(schema).chain(choices);
        all.any(|one| self.schemas.chain(one).any(words::is_quantity))
    }
}

/// Where a key belongs that the table at `here` does not have: with another `kind` of this table, below
/// it, or, if the table has no `kind`, anywhere.
fn place_of(keys: SchemaKeys<'_>, key: &str, here: &[&str]) -> Option<String> {
    let tables = keys.at(here);
    if let Some(kinds) = kinds_with(keys, &tables, key) {
        return Some(format!("`{key}` is allowed with {kinds}"));
    }
    let own = [here, &[key]].concat().join(".");
    let mut paths = keys.paths_of(key, here);
    let has_kind = tables.iter().any(|table| table.kind.is_some());
    if paths.is_empty() && !here.is_empty() && !has_kind {
        paths = keys.paths_of::<&str>(key, &[]);
    }
    paths.retain(|path| *path != own);
    let kinds = match &paths[..] {
        [] => return None,
        [only] => {
            let above: Vec<&str> = only.split('.').collect();
            kinds_with(keys, &keys.at(&above[..above.len() - 1]), key)
        }
        _ => None,
    };
    let kinds = kinds.map_or_else(String::new, |kinds| format!(" It needs {kinds}"));
    Some(did_you_mean(&paths) + &kinds)
}

/// The kinds of table that have a key, where the table has kinds.
fn kinds_with(keys: SchemaKeys<'_>, tables: &[KeyTable<'_>], key: &str) -> Option<String> {
    let found = keys.find(tables, key);
    let kinds = found.iter().flat_map(|one| &one.kinds);
    let kinds: Vec<String> = kinds.map(|kind| format!("\"{kind}\"")).collect();
    let more = match kinds.len() > MOST_NAMES {
        true => ", ...",
        false => "",
    };
    let named = kinds[..kinds.len().min(MOST_NAMES)].join(", ");
    (!kinds.is_empty()).then(|| format!("kind = {named}{more}"))
}

/// The names of a path, without positions in lists.
fn names(path: &Path) -> Vec<&str> {
    let keys = path.0.iter().filter_map(|segment| match segment {
        Segment::Key(key) => Some(key.as_str()),
        Segment::Index(_) => None,
    });
    keys.collect()
}
