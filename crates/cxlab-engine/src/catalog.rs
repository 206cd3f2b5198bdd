//! Catalogs: static slices of named entries that a configuration chooses from. One slice is the source
//! of the names in scenarios, of the JSON Schema, of `cxlab list`, of the reference page and of the
//! tests of laws.
//!
//! A table with a `kind` chooses an entry: `topology = { kind = "ring", switches = 8 }`. The other keys
//! are parameters of the entry. They are a serde structure with `deny_unknown_fields`, which alone
//! defines their defaults.
//!
//! The module needs the feature `schema`.

use std::fmt::Display;
use std::ops::RangeInclusive;

use serde::de::{DeserializeOwned, Deserializer, Error};
use serde_json::{Map, Value, json};

/// An entry of a catalog. `B` is the type of a built entry, usually a boxed trait object.
pub struct Entry<B: 'static> {
    /// The name that users write as `kind`, in kebab case.
    pub name: &'static str,
    /// A description in one line, for `cxlab list` and the schema.
    pub summary: &'static str,
    /// The JSON Schema of the parameters (without `kind`).
    pub schema: fn(&mut schemars::SchemaGenerator) -> schemars::Schema,
    /// Builds the entry from its parameters (a JSON object without `kind`).
    pub build: fn(&serde_json::Value) -> Result<B, ParamError>,
}

/// A parameter that an entry cannot accept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParamError {
    /// The parameter's name; empty when the error concerns the whole entry.
    pub field: String,
    /// What is wrong: the value found and the values allowed.
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

/// An error that says what was found and what is allowed.
pub fn refused(field: &str, found: impl Display, allowed: impl Display) -> ParamError {
    ParamError::new(field, format!("found {found}; allowed: {allowed}"))
}

/// Refuses a parameter that is out of range.
///
/// # Errors
/// The value found and the range.
pub fn in_range<T: PartialOrd + Display>(
    field: &str,
    found: T,
    range: RangeInclusive<T>,
) -> Result<(), ParamError> {
    match range.contains(&found) {
        true => Ok(()),
        false => {
            let allowed = format!("{} to {}", range.start(), range.end());
            Err(refused(field, found, allowed))
        }
    }
}

/// Prefixes the field of an error with the name of the part that refuses its parameters.
///
/// # Errors
/// The error of `found`, with the longer field.
pub fn in_part<T>(part: &str, found: Result<T, ParamError>) -> Result<T, ParamError> {
    found.map_err(|error| {
        let field = match error.field.as_str() {
            "" => part.to_owned(),
            field => format!("{part}.{field}"),
        };
        ParamError::new(field, error.message)
    })
}

/// Reads an entry's parameter structure from its JSON object.
///
/// # Errors
/// A [`ParamError`] with serde's message when a key is unknown or a value has the wrong type.
pub fn read_params<P: DeserializeOwned>(params: &serde_json::Value) -> Result<P, ParamError> {
    P::deserialize(params).map_err(|error| ParamError::new("", error.to_string()))
}

/// Finds the entry with this name.
pub fn find<'a, B>(catalog: &'a [Entry<B>], name: &str) -> Option<&'a Entry<B>> {
    catalog.iter().find(|entry| entry.name == name)
}

/// The schema of a choice: one alternative for each entry, distinguished by `kind`.
pub fn one_of<B>(
    generator: &mut schemars::SchemaGenerator,
    catalog: &[Entry<B>],
) -> schemars::Schema {
    let alternatives: Vec<Value> = catalog
        .iter()
        .map(|entry| {
            let mut value = (entry.schema)(generator).to_value();
            if value.is_object() {
                value["properties"]["kind"] = json!({ "type": "string", "const": entry.name });
                match &mut value["required"] {
                    Value::Array(required) => required.push("kind".into()),
                    none => *none = json!(["kind"]),
                }
                value["description"] = entry.summary.into();
            }
            value
        })
        .collect();
    schemars::json_schema!({ "oneOf": alternatives })
}

/// A real or published part: values that a table begins with if its key `preset` names the part.
#[derive(Debug)]
pub struct Part {
    /// The name that users write as `preset`, in kebab case.
    pub name: &'static str,
    /// A description in one line, for `cxlab list presets` and the schema.
    pub summary: &'static str,
    /// The sources of the values. Values without a source are marked *assumed*, fitted ones *fitted*.
    pub source: &'static str,
    /// The measurements that the part was compared with, or *not validated*.
    pub validated: &'static str,
    /// The table of the keys that the part sets, with their values.
    pub keys: fn() -> Value,
}

/// A choice among the parts of a catalog, which a table makes by the key `preset`.
pub trait Preset: DeserializeOwned {
    /// The parts to choose from.
    const PARTS: &'static [Part];

    /// The table of the keys that the preset sets, with their values.
    fn keys(&self) -> Value;
}

/// The schema of a choice among parts: one constant for each.
pub fn preset_schema(parts: &[Part]) -> schemars::Schema {
    let alternatives = parts.iter().map(|part| {
        let description = format!("{} {} {}", part.summary, part.source, part.validated);
        json!({
            "type": "string",
            "const": part.name,
            "description": description.trim(),
        })
    });
    schemars::json_schema!({ "oneOf": alternatives.collect::<Vec<Value>>() })
}

/// Defines the type of a choice among parts, by name. The calling crate depends on `serde` and `schemars`.
#[macro_export]
macro_rules! preset {
    ($(#[$doc:meta])* $name:ident, $parts:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name(&'static $crate::catalog::Part);

        impl $crate::catalog::Preset for $name {
            const PARTS: &'static [$crate::catalog::Part] = $parts;

            fn keys(&self) -> ::serde_json::Value {
                (self.0.keys)()
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.0.name == other.0.name
            }
        }

        impl Eq for $name {}

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.0.name)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = <String as ::serde::Deserialize>::deserialize(deserializer)?;
                let parts = <$name as $crate::catalog::Preset>::PARTS;
                $crate::catalog::find_part(parts, &name).map($name).map_err(::serde::de::Error::custom)
            }
        }

        impl ::schemars::JsonSchema for $name {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                $crate::catalog::preset_schema(<$name as $crate::catalog::Preset>::PARTS)
            }
        }
    };
}

/// Finds the part with this name.
///
/// # Errors
/// A message with the names of all parts if none has it.
pub fn find_part(parts: &'static [Part], name: &str) -> Result<&'static Part, String> {
    let names = || parts.iter().map(|part| part.name).collect::<Vec<_>>();
    let found = parts.iter().find(|part| part.name == name);
    found.ok_or_else(|| format!("`{name}` is none of {}", names().join(", ")))
}

/// Writes the values of the table `given` over those of the table `there`, and so for tables in tables. A
/// value that is not a table replaces the old one, as does a table of another `kind`, whose keys mean
/// other things.
pub fn merge_table(there: &mut Value, given: Value) {
    let differ = |(there, given): (&Value, &Value)| there != given;
    let kinds = there.get("kind").zip(given.get("kind"));
    if kinds.is_some_and(differ) {
        *there = given;
        return;
    }
    match (there, given) {
        (Value::Object(there), Value::Object(given)) => {
            for (key, value) in given {
                merge_table(there.entry(key).or_insert(Value::Null), value);
            }
        }
        (there, given) => *there = given,
    }
}

/// Reads a table and lays it over the values of its `preset`, if it has one.
///
/// # Errors
/// If the value is not a table, or if the preset is unknown.
pub fn with_preset<'de, P: Preset, D: Deserializer<'de>>(table: D) -> Result<Value, D::Error> {
    let given: Map<String, Value> = serde::Deserialize::deserialize(table)?;
    let mut all = match given.get("preset") {
        None | Some(Value::Null) => return Ok(Value::Object(given)),
        Some(name) => P::deserialize(name).map_err(D::Error::custom)?.keys(),
    };
    merge_table(&mut all, Value::Object(given));
    Ok(all)
}

/// Implements `Serialize` and `Deserialize` for a structure that derives both with
/// `#[serde(remote = "Self")]`. The structure's table is laid over the values of its `preset`. The calling
/// crate depends on `serde`.
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
                let all = $crate::catalog::with_preset::<$preset, D>(deserializer)?;
                $params::deserialize(all).map_err(::serde::de::Error::custom)
            }
        }
    };
}

/// Defines the type of a choice from a catalog: a table with `kind` and the parameters of the entry. The
/// type serializes, has a JSON Schema, and builds the chosen entry. The calling crate depends on `serde`,
/// `serde_json` and `schemars`.
#[macro_export]
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident, $catalog:expr, $built:ty) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Debug)]
        pub struct $name {
            /// The name of the chosen entry.
            pub kind: String,
            /// The parameters of the entry, without `kind`.
            pub params: ::serde_json::Map<String, ::serde_json::Value>,
        }

        impl $name {
            /// Builds the chosen entry.
            ///
            /// # Errors
            /// If the kind is unknown, or if the entry refuses the parameters.
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

            // Catalogs in two modules may have the same name.
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
