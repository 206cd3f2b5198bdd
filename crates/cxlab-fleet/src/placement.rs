//! Which host a VM is placed on: the catalog of placements.

use cxlab_engine::catalog::{Entry, ParamError, read_params};
use cxlab_engine::choice;
use cxlab_engine::rng::StreamRng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A host as placement sees it. Its memory is all that its VMs have, local or not, against the DRAM
/// that it has without a pool: what is preferred does not depend on how memory is divided.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HostSeen {
    /// Cores that it has.
    pub cores: u32,
    /// Cores that are free.
    pub cores_free: u32,
    /// The part of its memory that is free; 0 where its VMs have more.
    pub memory_free: f64,
}

/// Ranks the hosts that a VM fits on.
pub trait Placement: std::fmt::Debug + Send + Sync {
    /// The host with the least number takes the VM, the first of those that are equal. `memory` is
    /// what the VM asks for, as a part of a host's.
    fn rank(&self, cores: u32, memory: f64, host: &HostSeen, rng: &mut StreamRng) -> f64;
}

macro_rules! placement {
    ($(#[$doc:meta])* $name:ident, $entry:literal, $summary:literal, $rank:expr) => {
        $(#[$doc])*
        #[derive(Clone, Default, Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        struct $name {}

        impl Placement for $name {
            fn rank(&self, cores: u32, memory: f64, host: &HostSeen, rng: &mut StreamRng) -> f64 {
                let rank: fn(u32, f64, &HostSeen, &mut StreamRng) -> f64 = $rank;
                rank(cores, memory, host, rng)
            }
        }

        impl $name {
            const ENTRY: Entry<Box<dyn Placement>> = Entry {
                name: $entry,
                summary: $summary,
                schema: <$name as JsonSchema>::json_schema,
                build: |params| built::<$name>(params),
            };
        }
    };
}

placement!(
    /// The host with the fewest free cores, and among those the least free memory.
    BestFit, "best-fit", "the fullest host by cores, then by memory",
    |_, _, host, _| f64::from(host.cores_free) + 0.5 * host.memory_free
);
placement!(
    /// The host with the most free cores, and among those the most free memory.
    WorstFit, "worst-fit", "the emptiest host by cores, then by memory",
    |_, _, host, _| -f64::from(host.cores_free) - 0.5 * host.memory_free
);
placement!(
    /// The first host that it fits on.
    FirstFit, "first-fit", "the first host that it fits on",
    |_, _, _, _| 0.0
);
placement!(
    /// Any host that it fits on.
    Random, "random", "any host that it fits on",
    |_, _, _, rng| rng.unit()
);
placement!(
    /// The host whose free cores and free memory go best with what the VM asks for: the largest
    /// dot product of the two, in parts of the host (Panigrahy et al., "Heuristics for Vector Bin
    /// Packing", 2011).
    DotProduct, "dot-product", "the host whose free cores and memory go best with the VM's",
    |cores, memory, host, _| {
        let all = f64::from(host.cores);
        -(f64::from(cores) * f64::from(host.cores_free) / (all * all) + memory * host.memory_free)
    }
);
placement!(
    /// The host that is left with parts of free cores and free memory that differ least, and among
    /// those the one with fewer free cores.
    Balanced, "balanced", "the host whose free cores and memory stay in proportion",
    |cores, memory, host, _| {
        let left = f64::from(host.cores_free - cores) / f64::from(host.cores);
        (left - (host.memory_free - memory)).abs() + 1e-3 * left
    }
);

/// Every placement, in the order of `cxlab list`.
pub const CATALOG: &[Entry<Box<dyn Placement>>] = &[
    BestFit::ENTRY,
    WorstFit::ENTRY,
    FirstFit::ENTRY,
    Random::ENTRY,
    DotProduct::ENTRY,
    Balanced::ENTRY,
];

fn built<P: Placement + serde::de::DeserializeOwned + 'static>(
    params: &serde_json::Value,
) -> Result<Box<dyn Placement>, ParamError> {
    Ok(Box::new(read_params::<P>(params)?))
}

choice!(
    /// A placement from the catalog.
    PlacementChoice,
    CATALOG,
    Box<dyn Placement>
);

impl Default for PlacementChoice {
    fn default() -> Self {
        PlacementChoice {
            kind: "balanced".to_owned(),
            params: serde_json::Map::new(),
        }
    }
}
