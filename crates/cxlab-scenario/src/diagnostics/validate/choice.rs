//! `oneOf` and `anyOf`: optional values, lists of names, and tables chosen by a `kind`.

use serde_json::{Map, Value};

use super::super::diagnostic::{Diagnostic, Diagnostics};
use super::super::path::Path;
use super::super::suggest::nearest;
use super::{Gathered, Walker, literal, object, schema, words};

/// A property that tells alternatives apart, with the constant of each.
struct Tag<'s> {
    name: &'s str,
    variants: Vec<(&'s Value, &'s Value)>,
}

impl<'s> Walker<'s> {
    /// Finds the alternative that the user meant and gathers it, or reports why none fits.
    pub(super) fn choose(
        &mut self,
        value: &Value,
        alternatives: &'s [Value],
        path: &Path,
        active: &mut Vec<&'s Value>,
        gathered: &mut Gathered<'s>,
    ) {
        let kept = alternatives
            .iter()
            .filter(|schema| !schema::only_null(schema));
        let kept: Vec<&'s Value> = kept.collect();
        if let [only] = kept[..] {
            return self.gather(value, only, path, active, gathered);
        }
        let constants = kept.iter().map(|schema| self.schemas.constants(schema));
        if let Some(lists) = constants.collect::<Option<Vec<_>>>() {
            return self.choose_constant(value, &lists.concat(), path, gathered);
        }
        let fitting = kept
            .iter()
            .copied()
            .filter(|schema| self.schemas.admits(schema, value));
        let fitting: Vec<&'s Value> = fitting.collect();
        match (fitting.as_slice(), value) {
            ([], _) => {
                self.found.push(self.no_type_fits(value, &kept, path));
                gathered.reported = true;
            }
            ([only], _) => self.gather(value, only, path, active, gathered),
            (_, Value::Object(map)) => match self.tag(&fitting) {
                Some(tag) => self.choose_by_tag(value, map, &tag, path, active, gathered),
                None => self.choose_by_keys(value, map, &fitting, path, active, gathered),
            },
            _ => self.choose_by_trial(value, &fitting, path, active, gathered),
        }
    }

    fn choose_constant(
        &mut self,
        value: &Value,
        allowed: &[&'s Value],
        path: &Path,
        gathered: &mut Gathered<'s>,
    ) {
        if !allowed.contains(&value) {
            self.found.push(literal::not_allowed(value, allowed, path));
            gathered.reported = true;
        }
    }

    fn no_type_fits(&self, value: &Value, kept: &[&'s Value], path: &Path) -> Diagnostic {
        let chains = kept.iter().flat_map(|schema| self.schemas.chain(schema));
        let names = words::either(chains.flat_map(schema::types).map(words::type_name));
        let message = format!("`{path}`: expected {names}, found {}", words::found(value));
        let mut diagnostic =
            Diagnostic::new(path.to_string(), message).with_label(format!("expected {names}"));
        let Some(tag) = self.tag(kept) else {
            return diagnostic;
        };
        let name = tag.name;
        let near = value.as_str().and_then(|text| nearest(text, tag.names()));
        if let Some(near) = near {
            diagnostic = diagnostic.with_help(format!("write {{ {name} = \"{near}\" }}"));
        }
        diagnostic.with_help(tag.list())
    }

    /// The property that has a constant in every alternative; `kind` before any other.
    fn tag(&self, alternatives: &[&'s Value]) -> Option<Tag<'s>> {
        let first = self.schemas.property_names(alternatives.first()?);
        let preferred = first.iter().filter(|name| **name == "kind");
        let others = first.iter().filter(|name| **name != "kind");
        preferred.chain(others).find_map(|name| {
            let variants = alternatives.iter().map(|schema| {
                let constants = self
                    .schemas
                    .constants(self.schemas.property(schema, name)?)?;
                match constants.as_slice() {
                    [only] => Some((*only, *schema)),
                    _ => None,
                }
            });
            Some(Tag {
                name,
                variants: variants.collect::<Option<_>>()?,
            })
        })
    }

    fn choose_by_tag(
        &mut self,
        value: &Value,
        map: &Map<String, Value>,
        tag: &Tag<'s>,
        path: &Path,
        active: &mut Vec<&'s Value>,
        gathered: &mut Gathered<'s>,
    ) {
        let Some(found) = map.get(tag.name) else {
            gathered.open = true;
            return self.missing_tag(map, tag, path);
        };
        let chosen = tag.variants.iter().find(|(constant, _)| *constant == found);
        if let Some((_, schema)) = chosen {
            return self.gather(value, schema, path, active, gathered);
        }
        gathered.open = true;
        self.found.push(tag.unknown(found, path));
    }

    /// Reports a table without its tag, or the misspelt key that was meant to be the tag.
    fn missing_tag(&mut self, map: &Map<String, Value>, tag: &Tag<'s>, path: &Path) {
        let schemas = self.schemas;
        let of_some_variant = |key: &str| {
            tag.variants
                .iter()
                .any(|(_, schema)| schemas.property(schema, key).is_some())
        };
        let mut strangers = map.keys().filter(|key| !of_some_variant(key));
        let misspelt = strangers.find(|key| nearest(key, [tag.name]).is_some());
        if let Some(key) = misspelt {
            let label = "unknown key";
            let message = format!("unknown key `{key}` {}", object::within(path));
            let diagnostic = Diagnostic::new(path.key(key).to_string(), message).with_label(label);
            let help = format!("did you mean `{}`?", tag.name);
            return self
                .found
                .push(diagnostic.at_key().with_help(help).with_help(tag.list()));
        }
        self.found
            .push(object::missing_key(tag.name, None, path).with_help(tag.list()));
    }

    /// Tables without a tag: the one whose required keys are all there, else by trial.
    fn choose_by_keys(
        &mut self,
        value: &Value,
        map: &Map<String, Value>,
        fitting: &[&'s Value],
        path: &Path,
        active: &mut Vec<&'s Value>,
        gathered: &mut Gathered<'s>,
    ) {
        let complete = fitting.iter().filter(|schema| {
            let required = self.schemas.required(schema);
            !required.is_empty() && required.iter().all(|name| map.contains_key(*name))
        });
        match complete.collect::<Vec<_>>()[..] {
            [only] => self.gather(value, only, path, active, gathered),
            _ => self.choose_by_trial(value, fitting, path, active, gathered),
        }
    }

    /// Tries each alternative and keeps the mistakes of the one with the fewest.
    fn choose_by_trial(
        &mut self,
        value: &Value,
        fitting: &[&'s Value],
        path: &Path,
        active: &mut Vec<&'s Value>,
        gathered: &mut Gathered<'s>,
    ) {
        gathered.open = true;
        let mut best: Option<Diagnostics> = None;
        for schema in fitting {
            let mut trial = Walker {
                schemas: self.schemas,
                found: Diagnostics::new(),
            };
            trial.check(value, schema, path, active);
            if best
                .as_ref()
                .is_none_or(|best| trial.found.len() < best.len())
            {
                best = Some(trial.found);
            }
        }
        let best = best.unwrap_or_default();
        gathered.reported = !best.is_empty();
        self.found.extend(best);
    }
}

impl<'s> Tag<'s> {
    fn names(&self) -> impl Iterator<Item = &'s str> {
        self.variants
            .iter()
            .filter_map(|(constant, _)| constant.as_str())
    }

    /// `allowed kinds: "ring", "mesh"`.
    fn list(&self) -> String {
        let names: Vec<&Value> = self
            .variants
            .iter()
            .map(|(constant, _)| *constant)
            .collect();
        literal::list(&format!("allowed {}s", self.name), &names)
    }

    fn unknown(&self, found: &Value, path: &Path) -> Diagnostic {
        let name = self.name;
        let tag_path = path.key(name);
        let Some(text) = found.as_str() else {
            let message = format!(
                "`{tag_path}`: expected a string, found {}",
                words::found(found)
            );
            return Diagnostic::new(tag_path.to_string(), message)
                .with_label("expected a string")
                .with_help(self.list());
        };
        let literal = words::literal(found);
        let message = format!("unknown {name} {literal} {}", object::within(path));
        let mut diagnostic =
            Diagnostic::new(tag_path.to_string(), message).with_label(format!("unknown {name}"));
        if let Some(near) = nearest(text, self.names()) {
            diagnostic = diagnostic.with_help(format!("did you mean \"{near}\"?"));
        }
        diagnostic.with_help(self.list())
    }
}
