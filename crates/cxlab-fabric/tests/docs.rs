//! `docs/reference/topologies-and-routing.md` has every topology, and the virtual channels that it needs.
//! With `CXLAB_UPDATE_DOCS=1` the test writes the file.
#![allow(clippy::unwrap_used)]

#[path = "../../../tests/shared/documents.rs"]
mod documents;

use cxlab_fabric::graph::Endpoints;
use cxlab_fabric::routing::{self, RoutingTables};
use cxlab_fabric::topology;
use serde_json::json;

/// Longest line of a list, in characters.
const WIDTH: usize = 100;

/// The topologies with their parameters, and what the schema of each says.
fn topologies() -> String {
    let mut text = String::new();
    for entry in topology::CATALOG {
        let schema = (entry.schema)(&mut schemars::SchemaGenerator::default()).to_value();
        let keys = schema["properties"].as_object();
        let keys = keys
            .into_iter()
            .flatten()
            .map(|(key, _)| format!("`{key}`"));
        let keys: Vec<String> = keys.collect();
        let keys = match keys.is_empty() {
            true => "no parameters".to_owned(),
            false => keys.join(", "),
        };
        let description = schema["description"].as_str().unwrap();
        let item = format!(
            "**{}** ({keys}): {}. {description}",
            entry.name, entry.summary
        );
        let mut line = String::from("-");
        for word in item.split_whitespace() {
            if line.len() + 1 + word.len() > WIDTH {
                text += &format!("{line}\n");
                line = String::from(" ");
            }
            line += &format!(" {word}");
        }
        text += &format!("{line}\n");
    }
    text
}

/// The topologies with their defaults, and the virtual channels that each routing needs.
fn defaults() -> String {
    let names = routing::CATALOG.iter().map(|entry| entry.name);
    let names: Vec<&str> = names.collect();
    let mut text = format!(
        "| topology | switches | links between them | VCs: {} |\n|---|---|---|{}\n",
        names.join(" | "),
        "---|".repeat(names.len())
    );
    for entry in topology::CATALOG
        .iter()
        .filter(|entry| entry.name != "custom")
    {
        let topology = (entry.build)(&json!({})).unwrap();
        let graph = topology.build(&Endpoints::numbered(16, 16)).unwrap();
        let (switches, links) = (graph.switches.len(), graph.links.len());
        let channels = routing::CATALOG.iter().map(|entry| {
            let kind = (entry.build)(&json!({})).unwrap();
            let tables = RoutingTables::build(&graph, kind).unwrap();
            tables.virtual_channels().to_string()
        });
        let channels: Vec<String> = channels.collect();
        text += &format!(
            "| {} | {switches} | {links} | {} |\n",
            entry.name,
            channels.join(" | ")
        );
    }
    text
}

#[test]
fn the_document_has_every_topology_and_its_virtual_channels() {
    documents::compare(
        "reference/topologies-and-routing.md",
        &[("topologies", topologies()), ("defaults", defaults())],
    );
}
