//! `docs/reference/topologies-and-routing.md` has the virtual channels that each topology needs. With
//! `CXLAB_UPDATE_DOCS=1` the test writes the file.
#![allow(clippy::unwrap_used)]

#[path = "../../../tests/shared/documents.rs"]
mod documents;

use cxlab_fabric::graph::Endpoints;
use cxlab_fabric::routing::{self, RoutingTables};
use cxlab_fabric::topology;
use serde_json::json;

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
fn the_document_has_the_virtual_channels_of_every_topology() {
    documents::compare(
        "reference/topologies-and-routing.md",
        &[("defaults", defaults())],
    );
}
