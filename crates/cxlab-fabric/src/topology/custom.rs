//! A custom topology: a fabric written out link by link.

use std::collections::BTreeMap;

use cxlab_engine::catalog::{Entry, ParamError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::size::MAX_SWITCHES;
use super::{Topology, entry};
use crate::graph::{Attachment, Endpoints, FabricGraph, SwitchLink};

pub(super) const ENTRY: Entry<Box<dyn Topology>> =
    entry::<Custom>("custom", "switches and links written out by name");

/// Each endpoint occurs in one link, except that an endpoint without a switch may have several links to
/// endpoints of the other kind.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Custom {
    /// Names of the switches.
    #[serde(default)]
    pub switches: Vec<String>,
    /// Pairs of names, such as `["a", "b"]` or `["host0", "a"]`. An optional third name is a link
    /// of `fabric.links`. An endpoint is linked either to one switch, or without a switch to any
    /// number of other endpoints: a requester by root ports, a device by heads. Two switches may
    /// be linked several times.
    pub links: Vec<Vec<String>>,
}

/// The part of the fabric that has a name.
#[derive(Clone, Copy)]
enum NamedNode {
    Switch(usize),
    Requester(usize),
    Device(usize),
}

impl Topology for Custom {
    fn build(&self, endpoints: &Endpoints) -> Result<FabricGraph, ParamError> {
        if self.switches.len() > MAX_SWITCHES {
            let found = self.switches.len();
            return Err(ParamError::new(
                "switches",
                format!("{found} is over {MAX_SWITCHES}"),
            ));
        }
        let mut graph = FabricGraph::new(endpoints);
        let mut nodes = BTreeMap::new();
        for (endpoint, name) in endpoints.names().enumerate() {
            let requester = endpoints.is_requester(endpoint);
            let node = if requester {
                NamedNode::Requester(endpoint)
            } else {
                NamedNode::Device(endpoint)
            };
            nodes.insert(name, node);
        }
        for name in &self.switches {
            nodes.insert(name, NamedNode::Switch(graph.add_switch(name, 0)));
        }
        let mut mistakes = Vec::new();
        for (number, link) in self.links.iter().enumerate() {
            if let Err(mistake) = add(&mut graph, &nodes, link) {
                mistakes.push(format!("link {number}: {mistake}"));
            }
        }
        if mistakes.is_empty() {
            mistakes.extend(graph.problems().iter().map(ToString::to_string));
        }
        if mistakes.is_empty() {
            Ok(graph)
        } else {
            Err(ParamError::new("links", mistakes.join("; ")))
        }
    }
}

/// Adds one link to the graph.
fn add(
    graph: &mut FabricGraph,
    nodes: &BTreeMap<&str, NamedNode>,
    link: &[String],
) -> Result<(), String> {
    let (a, b, class) = match link {
        [a, b] => (a, b, None),
        [a, b, class] => (a, b, Some(class.clone())),
        _ => {
            return Err(format!("{link:?} is not two names and perhaps a link's"));
        }
    };
    match (look_up(nodes, a)?, look_up(nodes, b)?) {
        (NamedNode::Switch(a), NamedNode::Switch(b)) => {
            graph.links.push(SwitchLink { a, b, class })
        }
        (
            NamedNode::Switch(switch),
            NamedNode::Requester(endpoint) | NamedNode::Device(endpoint),
        )
        | (
            NamedNode::Requester(endpoint) | NamedNode::Device(endpoint),
            NamedNode::Switch(switch),
        ) => {
            graph.attachments.push(Attachment {
                endpoint,
                switch,
                class,
            });
        }
        (NamedNode::Requester(requester), NamedNode::Device(device))
        | (NamedNode::Device(device), NamedNode::Requester(requester)) => {
            graph.direct.push((requester, device));
            if let Some(class) = class {
                graph.direct_classes.insert((requester, device), class);
            }
        }
        (NamedNode::Requester(_), NamedNode::Requester(_)) => {
            return Err(format!("`{a}` and `{b}` are both requesters"));
        }
        (NamedNode::Device(_), NamedNode::Device(_)) => {
            return Err(format!("`{a}` and `{b}` are both devices"));
        }
    }
    Ok(())
}

/// Finds the node with a name. The error suggests a known name within two edits.
fn look_up(nodes: &BTreeMap<&str, NamedNode>, name: &str) -> Result<NamedNode, String> {
    if let Some(node) = nodes.get(name) {
        return Ok(*node);
    }
    let near = nodes
        .keys()
        .map(|known| (distance(known, name), known))
        .min();
    let hint = match near {
        Some((distance, known)) if distance <= 2 => format!(" (did you mean `{known}`?)"),
        _ => String::new(),
    };
    Err(format!("`{name}` is no switch, requester or device{hint}"))
}

/// Levenshtein distance of two names.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(links: &[&[&str]]) -> Result<FabricGraph, ParamError> {
        let links = links
            .iter()
            .map(|l| l.iter().map(ToString::to_string).collect())
            .collect();
        Custom {
            switches: vec!["left".into(), "right".into()],
            links,
        }
        .build(&Endpoints::numbered(1, 1))
    }

    #[test]
    fn links_are_told_apart_by_what_they_join() {
        let graph = build(&[
            &["left", "right", "wide"],
            &["right", "left"],
            &["host0", "left", "narrow"],
            &["right", "device0"],
        ])
        .unwrap();
        assert_eq!(graph.links.len(), 2);
        assert_eq!(graph.links[0].class.as_deref(), Some("wide"));
        assert_eq!(graph.attachments[0].class.as_deref(), Some("narrow"));
        assert_eq!(
            (graph.attachments[1].endpoint, graph.attachments[1].switch),
            (1, 1)
        );
    }

    #[test]
    fn every_mistake_is_reported_with_a_hint() {
        let error = build(&[&["lfet", "right"], &["left"], &["nothing", "left"]]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`links`: link 0: `lfet` is no switch, requester or device (did you mean `left`?); \
             link 1: [\"left\"] is not two names and perhaps a link's; \
             link 2: `nothing` is no switch, requester or device"
        );
        let error =
            build(&[&["host0", "left"], &["host0", "right"], &["left", "left"]]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`links`: switch `left` is linked to itself; endpoint `host0` is attached twice; \
             endpoint `device0` is attached to nothing"
        );
    }
}
