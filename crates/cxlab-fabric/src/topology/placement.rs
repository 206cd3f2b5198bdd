//! Placement: which endpoint attaches to which edge switch.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::graph::FabricGraph;

/// How endpoints are placed on the edge switches of a topology.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Requesters evenly on the first half of the edge switches, devices evenly on the other half, so that
    /// all traffic crosses the middle of the fabric. This is the arrangement of the bridge-bandwidth law of
    /// the ESF paper (its Fig. 10).
    #[default]
    Split,
    /// Requesters evenly on all edge switches, and devices evenly on all edge switches. With equal numbers,
    /// requester i and device i share a switch.
    Paired,
}

impl Placement {
    /// Attaches all endpoints to the switches `edge`. Under [`Placement::Split`], requesters use the
    /// switches before index `middle`, and devices the others. If `edge` is a single switch, all
    /// endpoints attach to it.
    pub(super) fn attach(self, graph: &mut FabricGraph, edge: &[usize], middle: usize) {
        let (left, right) = match self {
            Placement::Split if edge.len() > 1 => edge.split_at(middle),
            Placement::Split | Placement::Paired => (edge, edge),
        };
        let requesters = graph.endpoints.requesters.len();
        let devices = graph.endpoints.devices.len();
        for i in 0..requesters {
            graph.attach(i, left[i * left.len() / requesters]);
        }
        for i in 0..devices {
            graph.attach(requesters + i, right[i * right.len() / devices]);
        }
    }

    /// Attaches all endpoints to the switches `0..edge` as [`Placement::attach`] does, with the
    /// middle at half of them.
    pub(super) fn attach_halves(self, graph: &mut FabricGraph, edge: usize) {
        let edge: Vec<usize> = (0..edge).collect();
        self.attach(graph, &edge, edge.len() / 2);
    }
}
