//! Named links, and which links of a fabric have one of their own.

use std::borrow::Cow;

use cxlab_engine::catalog::{Preset, merge_table};
use cxlab_link::{LinkParams, LinkPreset};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Scenario;

/// Parameters in the table of a named link. Missing ones are those of `fabric.link`, or of `fabric.edge_link` for devices.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, Debug)]
#[serde(transparent)]
pub struct LinkTable(Map<String, Value>);

impl JsonSchema for LinkTable {
    fn schema_name() -> Cow<'static, str> {
        LinkParams::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        LinkParams::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        LinkParams::json_schema(generator)
    }
}

/// Keys of a table, each with the key of `fabric.link` that it makes void: a rate in bytes is of its generation and
/// lanes, a flit format of its generation and transmission, and sync headers of its generation and rate.
const VOID: [(&str, &str); 6] = [
    ("generation", "bandwidth"),
    ("lanes", "bandwidth"),
    ("generation", "flit"),
    ("transmission", "flit"),
    ("generation", "sync_header_bypass"),
    ("bandwidth", "sync_header_bypass"),
];

impl LinkTable {
    /// The parameters of the table, with missing ones from `base`.
    pub(crate) fn over(&self, base: &LinkParams) -> Result<LinkParams, serde_json::Error> {
        let mut all = serde_json::to_value(base)?;
        if let Some(base) = all.as_object_mut() {
            for (said, void) in VOID {
                if self.0.contains_key(said) {
                    base.remove(void);
                }
            }
        }
        if let Some(name) = self.0.get("preset") {
            merge_table(&mut all, LinkPreset::deserialize(name)?.keys());
        }
        merge_table(&mut all, Value::Object(self.0.clone()));
        serde_json::from_value(all)
    }
}

/// Links between some components that have the parameters of a named link.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct LinkOverride {
    /// The names of the components at the two ends, in either order: hosts, devices, accelerators and
    /// switches. `*` stands for any characters, such as in `leaf*`.
    pub between: [String; 2],
    /// The name of the link in `fabric.links`.
    pub link: String,
}

impl LinkOverride {
    /// Whether the override applies to a link between components of these names.
    pub fn matches(&self, a: &str, b: &str) -> bool {
        let [first, second] = &self.between;
        let both = |a, b| is_like(first, a) && is_like(second, b);
        both(a, b) || both(b, a)
    }
}

/// Whether a name is as a pattern says, in which `*` stands for any characters.
fn is_like(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(name) = name.strip_prefix(start) else {
        return false;
    };
    let ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
    ends.into_iter().any(|at| is_like(rest, &name[at..]))
}

/// Parameters of a class of links, and their path in the scenario.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkClass {
    /// Path: `fabric.link`, `fabric.edge_link`, `fabric.links.NAME`, or `devices[GROUP].link`.
    pub path: String,
    /// The name of a named link.
    pub name: Option<String>,
    /// The group of Type 3 devices whose `link` table gives the parameters.
    pub devices: Option<usize>,
    /// Parameters of the link.
    pub params: LinkParams,
}

impl LinkClass {
    /// Whether missing parameters come from `fabric.link` or `fabric.edge_link`.
    pub fn inherits(&self) -> bool {
        self.name.is_some() || self.devices.is_some()
    }
}

impl Scenario {
    /// All classes of links: that of `fabric.link` first, then that of `fabric.edge_link` if there is one, then named
    /// links in the order of their names, then those of device groups with a `link` table.
    pub fn link_classes(&self) -> Vec<LinkClass> {
        let fabric = &self.fabric;
        let class = |path: String, params: LinkParams| LinkClass {
            path,
            name: None,
            devices: None,
            params,
        };
        let mut classes = vec![class("fabric.link".to_owned(), fabric.link.clone())];
        let edge = fabric.edge_link.iter().cloned();
        classes.extend(edge.map(|link| class("fabric.edge_link".to_owned(), link)));
        // The schema accepts only what can be read (tests/fuzz_scenario.rs).
        let over = |table: &LinkTable, base| table.over(base).unwrap_or_default();
        classes.extend(fabric.links.iter().map(|(name, table)| LinkClass {
            name: Some(name.clone()),
            ..class(format!("fabric.links.{name}"), over(table, &fabric.link))
        }));
        let base = fabric.edge_link.as_ref().unwrap_or(&fabric.link);
        let groups = self.devices.iter().enumerate();
        let own = groups.filter_map(|(at, group)| Some((at, group.link.as_ref()?)));
        classes.extend(own.map(|(at, table)| LinkClass {
            devices: Some(at),
            ..class(format!("devices[{at}].link"), over(table, base))
        }));
        classes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, name, like) in [
            ("leaf1", "leaf1", true),
            ("leaf1", "leaf10", false),
            ("leaf*", "leaf10", true),
            ("leaf*", "leaf", true),
            ("*f1*", "leaf10", true),
            ("*", "", true),
            ("*1", "leaf10", false),
            ("l*f*0", "leaf10", true),
        ] {
            assert_eq!(is_like(pattern, name), like, "{pattern} {name}");
        }
    }

    #[test]
    fn a_table_says_what_differs_and_a_generation_voids_a_rate() {
        let base: LinkParams = serde_json::from_value(serde_json::json!({
            "generation": "5", "bandwidth": "10 GB/s", "flit": "68B", "port_delay": "7 ns",
            "credits": { "m2s_req": 3, "m2s_rwd": 4 },
        }))
        .unwrap();
        let over = |table: Value| LinkTable(table.as_object().unwrap().clone()).over(&base);
        let same = over(serde_json::json!({})).unwrap();
        assert_eq!(same, base);
        let fast = over(serde_json::json!({ "generation": "6" })).unwrap();
        assert_eq!((fast.bandwidth, fast.flit), (None, None));
        assert_eq!(fast.port_delay, base.port_delay);
        let few = over(serde_json::json!({ "credits": { "m2s_req": 9 } })).unwrap();
        assert_eq!(few.credits.m2s_req, Some(9));
        assert_eq!(few.credits.m2s_rwd, Some(4));
        assert_eq!(few.bandwidth, base.bandwidth);
    }

    #[test]
    fn a_preset_comes_over_the_base_and_under_the_table() {
        let base: LinkParams =
            serde_json::from_value(serde_json::json!({ "generation": "5", "port_delay": "7 ns" }))
                .unwrap();
        let over = |table: Value| {
            LinkTable(table.as_object().unwrap().clone())
                .over(&base)
                .unwrap()
        };
        let esf = over(serde_json::json!({ "preset": "esf" }));
        assert_eq!(esf.generation, base.generation);
        assert_eq!(esf.crossing_ps(), 51_000);
        let far = over(serde_json::json!({ "preset": "esf", "propagation": "40 ns" }));
        assert_eq!(far.crossing_ps(), 90_000);
    }
}
