//! Every open list is a catalog: one static slice of entries that feeds configuration names, the
//! JSON Schema, `cxlab list`, the reference page and the law tests.
//!
//! An entry is chosen in a scenario by a table with a `kind`:
//! `topology = { kind = "ring", switches = 8 }`. The other keys are the entry's own parameters, a
//! serde structure with `deny_unknown_fields` that is the single home of their defaults.

use serde::de::{DeserializeOwned, Deserializer, Error};
use serde_json::{Map, Value};

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

/// The schema of a choice: one alternative for each entry, told apart by `kind`.
pub fn one_of<B>(
    generator: &mut schemars::SchemaGenerator,
    catalog: &[Entry<B>],
) -> schemars::Schema {
    let alternatives: Vec<serde_json::Value> = catalog
        .iter()
        .map(|entry| {
            let mut value = (entry.schema)(generator).to_value();
            if let Some(object) = value.as_object_mut() {
                let properties = object
                    .entry("properties")
                    .or_insert_with(|| serde_json::Value::Object(serde_json::Map::new()));
                if let Some(properties) = properties.as_object_mut() {
                    properties.insert(
                        "kind".to_owned(),
                        serde_json::json!({ "type": "string", "const": entry.name }),
                    );
                }
                let required = object
                    .entry("required")
                    .or_insert_with(|| serde_json::Value::Array(Vec::new()));
                if let Some(required) = required.as_array_mut() {
                    required.push("kind".into());
                }
                object.insert("description".to_owned(), entry.summary.into());
            }
            value
        })
        .collect();
    schemars::json_schema!({ "oneOf": alternatives })
}

/// A part by name: what stands behind the `preset` of its table.
pub trait Preset: DeserializeOwned {
    /// The keys that it says, with their values: a table.
    fn keys(&self) -> Value;
}

/// Lays a table over another, and tables in it over those in the other. Any other value replaces the old one.
pub fn lay_over(there: &mut Value, given: Value) {
    match (there, given) {
        (Value::Object(there), Value::Object(given)) => {
            for (key, value) in given {
                lay_over(there.entry(key).or_insert(Value::Null), value);
            }
        }
        (there, given) => *there = given,
    }
}

/// A table, over what its `preset` says.
///
/// # Errors
/// What is no table, or an unknown preset.
pub fn over_preset<'de, P: Preset, D: Deserializer<'de>>(table: D) -> Result<Value, D::Error> {
    let given: Map<String, Value> = serde::Deserialize::deserialize(table)?;
    let mut all = match given.get("preset") {
        None | Some(Value::Null) => return Ok(Value::Object(given)),
        Some(name) => P::deserialize(name).map_err(D::Error::custom)?.keys(),
    };
    lay_over(&mut all, Value::Object(given));
    Ok(all)
}

/// Reads and writes a structure that derives both with `#[serde(remote = "Self")]`, and reads its table over
/// what the table's `preset` says. The calling crate depends on `serde`.
#[macro_export]
macro_rules! with_preset {
    ($params:ident, $preset:ty) => {
        impl ::serde::Serialize for $params {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $params::serialize(self, serializer)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $params {
            fn deserialize<D: ::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Self, D::Error> {
                let all = $crate::catalog::over_preset::<$preset, D>(deserializer)?;
                $params::deserialize(all).map_err(::serde::de::Error::custom)
            }
        }
    };
}

/// Defines the type of a choice from a catalog: a table with `kind` and the entry's parameters,
/// which serializes, has a schema, and builds what was chosen. The calling crate depends on `serde`,
/// `serde_json` and `schemars`.
#[macro_export]
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident, $catalog:expr, $built:ty) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Debug)]
        pub struct $name {
            /// The entry's name.
            pub kind: String,
            /// Its parameters.
            pub params: ::serde_json::Map<String, ::serde_json::Value>,
        }

        impl $name {
            /// Builds what was chosen.
            ///
            /// # Errors
            /// An unknown kind, or parameters that the entry refuses.
            pub fn build(&self) -> Result<$built, $crate::catalog::ParamError> {
                let catalog: &[$crate::catalog::Entry<$built>] = $catalog;
                let entry = $crate::catalog::find(catalog, &self.kind).ok_or_else(|| {
                    let known: Vec<&str> = catalog.iter().map(|entry| entry.name).collect();
                    let kind = &self.kind;
                    $crate::catalog::ParamError::new("kind", format!("`{kind}` is none of {}", known.join(", ")))
                })?;
                (entry.build)(&::serde_json::Value::Object(self.params.clone()))
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut all = self.params.clone();
                all.insert("kind".to_owned(), ::serde_json::Value::String(self.kind.clone()));
                ::serde::Serialize::serialize(&all, serializer)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let mut params: ::serde_json::Map<String, ::serde_json::Value> =
                    ::serde::Deserialize::deserialize(deserializer)?;
                match params.remove("kind") {
                    Some(::serde_json::Value::String(kind)) => Ok($name { kind, params }),
                    _ => Err(::serde::de::Error::custom("`kind` is missing or not a string")),
                }
            }
        }

        impl ::schemars::JsonSchema for $name {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            // Two crates may have catalogs of one name.
            fn schema_id() -> ::std::borrow::Cow<'static, str> {
                concat!(module_path!(), "::", stringify!($name)).into()
            }

            fn json_schema(generator: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                let catalog: &[$crate::catalog::Entry<$built>] = $catalog;
                $crate::catalog::one_of(generator, catalog)
            }
        }
    };
}
