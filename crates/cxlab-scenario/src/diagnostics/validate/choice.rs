//! `oneOf` and `anyOf`: optional values, lists of names, and tables chosen by a `kind`.

use serde_json::{Map, Value};

use super::super::diagnostic::{Diagnostic, Diagnostics};
use super::super::path::Path;
use super::super::suggest::nearest;
use super::{ApplicableSchemas, Walker, literal, object, schema, words};

/// A property that tells alternatives apart, with the constant of each.
struct Tag<'s> {
    name: &'s str,
    variants: Vec<(&'s Value, &'s Value)>,
}

impl<'s> Walker<'s> {
    /// Finds the alternative that the user meant and gathers it, or reports why none fits.
    pub(super) fn choose(
        &mut self,
        alternatives: &'s [Value],
        gathered: &mut ApplicableSchemas<'_, 's>,
    ) {
        let kept = alternatives.iter();
        let kept = kept.filter(|schema| !schema::only_null(schema));
        let kept: Vec<&'s Value> = kept.collect();
        if let [only] = kept[..] {
            return self.gather(only, gathered);
        }
        let (value, path) = (gathered.value, gathered.path);
        let constants = kept.iter().map(|schema| self.schemas.constants(schema));
        if let Some(lists) = constants.collect::<Option<Vec<_>>>() {
            let allowed = lists.concat();
            if !allowed.contains(&value) {
                self.report(literal::not_allowed(value, &allowed, path), gathered);
            }
            return;
        }
        let fitting = kept.iter().copied();
        let fitting = fitting.filter(|schema| self.schemas.admits(schema, value));
        let fitting: Vec<&'s Value> = fitting.collect();
        match (fitting.as_slice(), value) {
            ([], _) => self.report(self.no_type_fits(value, &kept, path), gathered),
            ([only], _) => self.gather(only, gathered),
            (_, Value::Object(map)) => match self.tag(&fitting) {
                Some(tag) => self.choose_by_tag(map, &tag, gathered),
                None => self.choose_by_keys(map, &fitting, gathered),
            },
            _ => self.choose_by_trial(&fitting, gathered),
        }
    }

    fn no_type_fits(&self, value: &Value, kept: &[&'s Value], path: &Path) -> Diagnostic {
        let chains = kept.iter().flat_map(|schema| self.schemas.chain(schema));
        let names = words::either(chains.flat_map(schema::types).map(words::type_name));
        let message = format!("`{path}`: expected {names}, found {}", words::found(value));
        let diagnostic = Diagnostic::new(path, message).with_label(format!("expected {names}"));
        let Some(tag) = self.tag(kept) else {
            return diagnostic;
        };
        let near = value.as_str().and_then(|text| nearest(text, tag.names()));
        let write = near.map(|near| format!("write {{ {} = \"{near}\" }}", tag.name));
        let help = write.into_iter().chain([tag.list()]);
        help.fold(diagnostic, Diagnostic::with_help)
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
        map: &Map<String, Value>,
        tag: &Tag<'s>,
        gathered: &mut ApplicableSchemas<'_, 's>,
    ) {
        let Some(found) = map.get(tag.name) else {
            gathered.open = true;
            return self.missing_tag(map, tag, gathered.path);
        };
        let chosen = tag.variants.iter().find(|(constant, _)| *constant == found);
        if let Some((_, schema)) = chosen {
            return self.gather(schema, gathered);
        }
        gathered.open = true;
        self.found.push(tag.unknown(found, gathered.path));
    }

    /// Reports a table without its tag, or the misspelt key that was meant to be the tag.
    fn missing_tag(&mut self, map: &Map<String, Value>, tag: &Tag<'s>, path: &Path) {
        let schemas = self.schemas;
        let of_some_variant = |key: &str| {
            let mut variants = tag.variants.iter();
            variants.any(|(_, schema)| schemas.property(schema, key).is_some())
        };
        let mut strangers = map.keys().filter(|key| !of_some_variant(key));
        let misspelt = strangers.find(|key| nearest(key, [tag.name]).is_some());
        if let Some(key) = misspelt {
            let help = format!("did you mean `{}`?", tag.name);
            let diagnostic = object::stranger(key, key, path).with_help(help);
            return self.found.push(diagnostic.with_help(tag.list()));
        }
        let missing = object::missing_key(tag.name, None, path);
        self.found.push(missing.with_help(tag.list()));
    }

    /// Tables without a tag: the one whose required keys are all there, else by trial.
    fn choose_by_keys(
        &mut self,
        map: &Map<String, Value>,
        fitting: &[&'s Value],
        gathered: &mut ApplicableSchemas<'_, 's>,
    ) {
        let complete = fitting.iter().filter(|schema| {
            let required = self.schemas.required(schema);
            !required.is_empty() && required.iter().all(|name| map.contains_key(*name))
        });
        match complete.collect::<Vec<_>>()[..] {
            [only] => self.gather(only, gathered),
            _ => self.choose_by_trial(fitting, gathered),
        }
    }

    /// Tries each alternative and keeps the mistakes of the one with the fewest.
    fn choose_by_trial(&mut self, fitting: &[&'s Value], gathered: &mut ApplicableSchemas<'_, 's>) {
        gathered.open = true;
        let trials = fitting.iter().map(|schema| {
            let mut trial = self.trial();
            let active = gathered.active.clone();
            trial.check(gathered.value, schema, gathered.path, active);
            trial.found
        });
        // The first of those with the fewest.
        let best = trials.min_by_key(Diagnostics::len).unwrap_or_default();
        gathered.reported = !best.is_empty();
        self.found.extend(best);
    }
}

impl<'s> Tag<'s> {
    fn names(&self) -> impl Iterator<Item = &'s str> {
        let constants = self.variants.iter();
        constants.filter_map(|(constant, _)| constant.as_str())
    }

    /// `allowed kinds: "ring", "mesh"`.
    fn list(&self) -> String {
        let names = self.variants.iter().map(|(constant, _)| *constant);
        literal::list(&format!("allowed {}s", self.name), names)
    }

    fn unknown(&self, found: &Value, path: &Path) -> Diagnostic {
        let name = self.name;
        let tag_path = path.key(name);
        let Some(text) = found.as_str() else {
            return literal::no_string(found, &tag_path).with_help(self.list());
        };
        let literal = words::literal(found);
        let message = format!("unknown {name} {literal} {}", object::within(path));
        let label = format!("unknown {name}");
        let diagnostic = Diagnostic::new(&tag_path, message).with_label(label);
        let near = nearest(text, self.names());
        let meant = near.map(|near| format!("did you mean \"{near}\"?"));
        let help = meant.into_iter().chain([self.list()]);
        help.fold(diagnostic, Diagnostic::with_help)
    }
}
