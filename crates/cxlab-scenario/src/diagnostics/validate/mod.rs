//! Checks a document against a JSON Schema as schemars 1 generates it from serde structures.
//!
//! For each value the walker first gathers every subschema that applies to it (its own, through `$ref` and `allOf`, and
//! the chosen alternative of `oneOf` or `anyOf`), then checks the value against all of them at once and goes down. A
//! value that is wrong in kind or type is reported once, and its contents are not checked.

mod choice;
mod literal;
mod misplaced;
mod object;
mod scalar;
mod schema;
mod words;

use serde_json::Value;

use super::diagnostic::{Diagnostic, Diagnostics};
use super::document::{Document, Spot};
use super::path::Path;
use schema::Schemas;

/// Most keys that are searched for in other tables. A text with more unknown keys is no scenario, and a
/// search walks through the whole schema.
const MOST_HINTS: usize = 100;

/// Every mistake of the document under the schema, in the order of the file.
pub fn validate(document: &Document, schema: &Value) -> Diagnostics {
    let mut walker = Walker {
        schemas: Schemas { root: schema },
        found: Diagnostics::new(),
        hints: MOST_HINTS,
    };
    walker.check_child(&document.value, schema, &Path::default());
    let mut found = walker.found;
    found.sort_by_cached_key(|diagnostic| match document.spot(diagnostic) {
        Spot::File => (0, 0, 0),
        Spot::Line(marked) => (1, marked.line, marked.column),
        Spot::Set(_) => (2, 0, 0),
    });
    found
}

/// Walks document and schema together and collects the mistakes.
struct Walker<'s> {
    schemas: Schemas<'s>,
    found: Diagnostics,
    /// Number of unknown keys that may still be searched for in other tables.
    hints: usize,
}

/// Every subschema that applies to one value.
struct ApplicableSchemas<'v, 's> {
    value: &'v Value,
    path: &'v Path,
    /// The schemas being applied to this very value. A schema that refers to itself must not enter them again.
    active: Vec<&'s Value>,
    /// The schemas that apply together.
    all: Vec<&'s Value>,
    /// The value's alternative is unknown or already checked, so which keys are allowed is too.
    open: bool,
    /// A mistake of the value as a whole has been reported: look no further.
    reported: bool,
}

impl<'s> Walker<'s> {
    /// Checks one value, to which the schemas of `active` are being applied.
    fn check(&mut self, value: &Value, schema: &'s Value, path: &Path, active: Vec<&'s Value>) {
        let mut gathered = ApplicableSchemas {
            value,
            path,
            active,
            all: Vec::new(),
            open: false,
            reported: false,
        };
        self.gather(schema, &mut gathered);
        if !gathered.reported {
            self.check_gathered(&gathered);
        }
    }

    /// A walker over the same schema that has found nothing.
    fn trial(&self) -> Walker<'s> {
        Walker {
            schemas: self.schemas,
            found: Diagnostics::new(),
            hints: self.hints,
        }
    }

    fn check_child(&mut self, value: &Value, schema: &'s Value, path: &Path) {
        self.check(value, schema, path, Vec::new());
    }

    fn gather(&mut self, schema: &'s Value, gathered: &mut ApplicableSchemas<'_, 's>) {
        let is_it = |other: &&Value| std::ptr::eq(*other, schema);
        if gathered.reported || gathered.active.iter().any(is_it) {
            return;
        }
        gathered.active.push(schema);
        if schema == &Value::Bool(false) {
            let message = format!("`{}` is not allowed here", gathered.path);
            let diagnostic = Diagnostic::new(gathered.path, message).with_label("not allowed");
            return self.report(diagnostic, gathered);
        }
        gathered.all.push(schema);
        if let Some(target) = self.schemas.target(schema) {
            self.gather(target, gathered);
        }
        for part in schema::list(schema, "allOf") {
            self.gather(part, gathered);
        }
        for choice in ["oneOf", "anyOf"] {
            let alternatives = schema::list(schema, choice);
            if !alternatives.is_empty() {
                self.choose(alternatives, gathered);
            }
        }
    }

    /// Reports a mistake of the value as a whole.
    fn report(&mut self, diagnostic: Diagnostic, gathered: &mut ApplicableSchemas<'_, 's>) {
        self.found.push(diagnostic);
        gathered.reported = true;
    }

    fn check_gathered(&mut self, gathered: &ApplicableSchemas<'_, 's>) {
        let ApplicableSchemas {
            value, path, all, ..
        } = gathered;
        let wrong = wrong_type(value, all, path).or_else(|| literal::wrong(value, all, path));
        if let Some(diagnostic) = wrong {
            self.found.push(diagnostic);
            return;
        }
        match value {
            Value::Object(map) => self.check_object(map, gathered),
            Value::Array(entries) => self.check_array(entries, all, path),
            Value::String(text) => self.found.extend(scalar::check_string(text, all, path)),
            Value::Number(number) => self.found.extend(scalar::check_number(number, all, path)),
            Value::Null | Value::Bool(_) => {}
        }
    }
}

fn wrong_type(value: &Value, all: &[&Value], path: &Path) -> Option<Diagnostic> {
    let wrong = all.iter().find(|schema| !schema::admits(schema, value))?;
    let (expected, found) = (words::expected(wrong), words::found(value));
    let at = match path.0.is_empty() {
        true => String::new(),
        false => format!("`{path}`: "),
    };
    let label = format!("expected {}", words::short_expected(wrong));
    let message = format!("{at}expected {expected}, found {found}");
    let mut diagnostic = Diagnostic::new(path, message).with_label(label);
    let is_list_of_tables = value.is_object() && schema::types(wrong) == ["array"];
    if is_list_of_tables && path.0.len() == 1 {
        diagnostic = diagnostic.with_help(format!("write [[{path}]]"));
    } else if let Some(conversion) = words::conversion(value, wrong) {
        let read = conversion.value.as_ref();
        if read.is_none_or(|value| is_allowed(value, all, path)) {
            diagnostic = diagnostic.with_help(conversion.help);
        }
    }
    let allowed = literal::allowed(all);
    if !allowed.is_empty() {
        diagnostic = diagnostic.with_help(literal::list("allowed values", allowed.into_iter()));
    }
    Some(diagnostic)
}

/// Whether all schemas take a scalar of the right type.
fn is_allowed(value: &Value, all: &[&Value], path: &Path) -> bool {
    let is_in_range = match value {
        Value::String(text) => scalar::check_string(text, all, path).is_empty(),
        Value::Number(number) => scalar::check_number(number, all, path).is_empty(),
        _ => true,
    };
    is_in_range && literal::wrong(value, all, path).is_none()
}
