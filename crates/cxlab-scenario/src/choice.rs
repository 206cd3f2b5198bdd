//! An entry chosen from a catalog: a table with `kind` and the entry's own parameters.

use std::borrow::Cow;

use cxlab_engine::catalog::{Entry, find};
use cxlab_engine::choice;
use cxlab_fabric::routing::{self, RoutingKind};
use cxlab_fabric::topology::{self, Topology};
use cxlab_memory::Medium;
use cxlab_workload::{Workload, pattern};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

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
    cxlab_cache::victim::CATALOG,
    Box<dyn cxlab_cache::victim::VictimPolicy>
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
