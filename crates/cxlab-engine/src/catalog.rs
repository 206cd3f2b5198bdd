//! Every open list is a catalog: one static slice of entries that feeds configuration names, the
//! JSON Schema, `cxlab list`, the reference page and the law tests.
//!
//! An entry is chosen in a scenario by a table with a `kind`:
//! `topology = { kind = "ring", switches = 8 }`. The other keys are the entry's own parameters, a
//! serde structure with `deny_unknown_fields` that is the single home of their defaults.

use serde::de::DeserializeOwned;

/// One entry of a catalog. `B` is what a built entry is (usually a boxed trait object).
pub struct Entry<B: 'static> {
    /// The name users write as `kind`, in kebab case.
    pub name: &'static str,
    /// One line for `cxlab list`.
    pub summary: &'static str,
    /// The JSON Schema of the parameters (without `kind`).
    pub schema: fn(&mut schemars::SchemaGenerator) -> schemars::Schema,
    /// Builds the entry from its parameters (a JSON object without `kind`).
    pub build: fn(&serde_json::Value) -> Result<B, ParamError>,
}

/// A parameter that an entry cannot accept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParamError {
    /// The parameter's name, empty when the error is of the whole entry.
    pub field: String,
    /// What is wrong, with the value found and what is allowed.
    pub message: String,
}

impl ParamError {
    /// An error about one named parameter.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        ParamError {
            field: field.into(),
            message: message.into(),
        }
    }
}

impl std::fmt::Display for ParamError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.field.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "`{}`: {}", self.field, self.message)
        }
    }
}

impl std::error::Error for ParamError {}

/// Reads an entry's parameter structure from its JSON object.
///
/// # Errors
/// A [`ParamError`] with serde's message when a key is unknown or a value has the wrong type.
pub fn read_params<P: DeserializeOwned>(params: &serde_json::Value) -> Result<P, ParamError> {
    P::deserialize(params).map_err(|error| ParamError::new("", error.to_string()))
}

/// Finds the entry of that name.
pub fn find<'a, B>(catalog: &'a [Entry<B>], name: &str) -> Option<&'a Entry<B>> {
    catalog.iter().find(|entry| entry.name == name)
}
