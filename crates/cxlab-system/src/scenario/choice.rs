//! An entry chosen from a catalog: a table with `kind` and the entry's own parameters.

use std::borrow::Cow;

use cxlab_engine::catalog::{Entry, ParamError, find};
use cxlab_fabric::routing::{self, RoutingKind};
use cxlab_fabric::topology::{self, Topology};
use cxlab_memory::Medium;
use cxlab_workload::{Workload, pattern};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident, $catalog:expr, $built:ty) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Debug)]
        pub struct $name {
            /// The entry's name.
            pub kind: String,
            /// Its parameters.
            pub params: Map<String, Value>,
        }

        impl $name {
            /// Builds what was chosen.
            ///
            /// # Errors
            /// An unknown kind, or parameters that the entry refuses.
            pub fn build(&self) -> Result<$built, ParamError> {
                let catalog: &[Entry<$built>] = $catalog;
                let entry = find(catalog, &self.kind).ok_or_else(|| {
                    let known: Vec<&str> = catalog.iter().map(|entry| entry.name).collect();
                    let kind = &self.kind;
                    ParamError::new("kind", format!("`{kind}` is none of {}", known.join(", ")))
                })?;
                (entry.build)(&Value::Object(self.params.clone()))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut all = self.params.clone();
                all.insert("kind".to_owned(), Value::String(self.kind.clone()));
                all.serialize(serializer)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let mut params = Map::deserialize(deserializer)?;
                match params.remove("kind") {
                    Some(Value::String(kind)) => Ok($name { kind, params }),
                    _ => Err(serde::de::Error::custom("`kind` is missing or not a string")),
                }
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                let catalog: &[Entry<$built>] = $catalog;
                one_of(generator, catalog)
            }
        }
    };
}

choice!(
    /// A topology from the catalog.
    TopologyChoice,
    topology::CATALOG,
    Box<dyn Topology>
);
choice!(
    /// A workload from the catalog.
    WorkloadChoice,
    pattern::CATALOG,
    Box<dyn Workload>
);
choice!(
    /// A memory medium from the catalog.
    MediumChoice,
    cxlab_memory::CATALOG,
    Box<dyn Medium>
);

choice!(
    /// A victim policy from the catalog.
    VictimChoice,
    cxlab_memory::victim::CATALOG,
    Box<dyn cxlab_memory::victim::VictimPolicy>
);

impl Default for VictimChoice {
    fn default() -> Self {
        VictimChoice {
            kind: "lru".to_owned(),
            params: Map::new(),
        }
    }
}

impl Default for MediumChoice {
    fn default() -> Self {
        MediumChoice {
            kind: "fixed".to_owned(),
            params: Map::new(),
        }
    }
}

/// A kind of routing from the catalog. The entries have no parameters, so a name is enough.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RoutingChoice(pub RoutingKind);

impl RoutingChoice {
    /// The entry's name.
    pub fn name(self) -> &'static str {
        let built = |entry: &&Entry<RoutingKind>| {
            (entry.build)(&Value::Object(Map::new())).is_ok_and(|kind| kind == self.0)
        };
        routing::CATALOG
            .iter()
            .find(built)
            .map_or("", |entry| entry.name)
    }
}

impl Serialize for RoutingChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.name().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RoutingChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let entry = find(routing::CATALOG, &name).ok_or_else(|| {
            let known: Vec<&str> = routing::CATALOG.iter().map(|entry| entry.name).collect();
            serde::de::Error::custom(format!("`{name}` is none of {}", known.join(", ")))
        })?;
        let kind = (entry.build)(&Value::Object(Map::new())).map_err(serde::de::Error::custom)?;
        Ok(RoutingChoice(kind))
    }
}

impl JsonSchema for RoutingChoice {
    fn schema_name() -> Cow<'static, str> {
        "RoutingChoice".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let known: Vec<&str> = routing::CATALOG.iter().map(|entry| entry.name).collect();
        schemars::json_schema!({ "type": "string", "enum": known })
    }
}

/// The schema of a choice: one alternative for each entry, told apart by `kind`.
fn one_of<B>(generator: &mut SchemaGenerator, catalog: &[Entry<B>]) -> Schema {
    let alternatives: Vec<Value> = catalog
        .iter()
        .map(|entry| {
            let mut value = (entry.schema)(generator).to_value();
            if let Some(object) = value.as_object_mut() {
                let properties = object
                    .entry("properties")
                    .or_insert_with(|| Value::Object(Map::new()));
                if let Some(properties) = properties.as_object_mut() {
                    properties.insert(
                        "kind".to_owned(),
                        serde_json::json!({ "type": "string", "const": entry.name }),
                    );
                }
                let required = object
                    .entry("required")
                    .or_insert_with(|| Value::Array(Vec::new()));
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
