//! Which host a VM is placed on: the catalog of placements.

use cxlab_engine::catalog::{Entry, ParamError, read_params};
use cxlab_engine::choice;
use cxlab_engine::rng::StreamRng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::policy::{HostView, Vm};

/// Ranks the hosts that a VM fits on.
pub trait Placement: std::fmt::Debug + Send + Sync {
    /// The host with the least number takes the VM, the first of those that are equal. `local_mib`
    /// is the local memory that the VM would take.
    fn rank(&self, vm: &Vm, host: &HostView, local_mib: u64, rng: &mut StreamRng) -> f64;
}

macro_rules! placement {
    ($(#[$doc:meta])* $name:ident, $entry:literal, $summary:literal, $rank:expr) => {
        $(#[$doc])*
        #[derive(Clone, Default, Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        struct $name {}

        impl Placement for $name {
            fn rank(&self, vm: &Vm, host: &HostView, local_mib: u64, rng: &mut StreamRng) -> f64 {
                let rank: fn(&Vm, &HostView, u64, &mut StreamRng) -> f64 = $rank;
                rank(vm, host, local_mib, rng)
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
    |_, host, _, _| f64::from(host.cores_free) + 0.5 * free_memory(host)
);
placement!(
    /// The host with the most free cores, and among those the most free memory.
    WorstFit, "worst-fit", "the emptiest host by cores, then by memory",
    |_, host, _, _| -f64::from(host.cores_free) - 0.5 * free_memory(host)
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
    |vm, host, local_mib, _| {
        let cores = f64::from(vm.cores) * f64::from(host.cores_free);
        let cores = cores / (f64::from(host.cores) * f64::from(host.cores));
        let memory = local_mib as f64 / host.local_mib.max(1) as f64 * free_memory(host);
        -(cores + memory)
    }
);
placement!(
    /// The host that is left with parts of free cores and free memory that differ least.
    Balanced, "balanced", "the host whose free cores and memory stay in proportion",
    |vm, host, local_mib, _| {
        let cores = f64::from(host.cores_free - vm.cores) / f64::from(host.cores);
        let taken = local_mib as f64 / host.local_mib.max(1) as f64;
        (cores - (free_memory(host) - taken)).abs() + 1e-3 * cores
    }
);

/// The part of local memory that is free.
fn free_memory(host: &HostView) -> f64 {
    host.local_free_mib as f64 / host.local_mib.max(1) as f64
}

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
            kind: "best-fit".to_owned(),
            params: serde_json::Map::new(),
        }
    }
}
