//! The direct topology: no switch, with devices on the root ports of their requesters.

use cxlab_engine::catalog::{Entry, ParamError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Topology, entry};
use crate::graph::{Arrangement, Endpoints, FabricGraph};

pub(super) const ENTRY: Entry<Box<dyn Topology>> = entry::<Direct>(
    "direct",
    "no switch: each device on a root port of its requester, and reached by it alone",
);

/// Device j has a link to requester j mod r and to nothing else. The number of devices must be a multiple
/// of the number r of requesters. A requester reaches only its own devices.
#[derive(Clone, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Direct {}

impl Topology for Direct {
    fn build(&self, endpoints: &Endpoints) -> Result<FabricGraph, ParamError> {
        let (requesters, devices) = (endpoints.requesters.len(), endpoints.devices.len());
        if requesters == 0 || !devices.is_multiple_of(requesters) {
            return Err(ParamError::new(
                "",
                format!(
                    "a direct topology gives every requester devices of its own, in equal number, but there are \
                     {requesters} requesters and {devices} devices; requesters that share devices need a switch, \
                     such as {{ kind = \"chain\", switches = 1 }}"
                ),
            ));
        }
        let mut graph = FabricGraph::new(endpoints);
        graph.arrangement = Arrangement::Line;
        graph.direct = (0..devices)
            .map(|j| (j % requesters, endpoints.device(j)))
            .collect();
        Ok(graph)
    }
}
