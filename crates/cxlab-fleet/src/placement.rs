//! Placement of VMs on hosts: the catalog of placements.

pub mod hosts;

use cxlab_engine::catalog::{Entry, ParamError, read_params};
use cxlab_engine::choice;
use cxlab_engine::rng::StreamRng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use hosts::Hosts;

/// A host as a placement sees it. Its used memory is all memory of its VMs, local or not, and its
/// capacity is its DRAM without a pool. So the preference does not depend on how memory is divided.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HostUsage {
    /// Number of its cores.
    pub cores: u32,
    /// Number of its free cores.
    pub cores_free: u32,
    /// Share of its memory that is free, 0 if its VMs have more.
    pub memory_free: f64,
}

/// How a placement chooses among the hosts that accept a VM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// The host of the least rank, and among equals the first.
    ByRank,
    /// The first host.
    ByNumber,
    /// Each host with the same probability.
    Random,
}

/// Ranks the hosts that accept a VM.
pub trait Placement: std::fmt::Debug + Send + Sync {
    /// How the placement chooses.
    fn order(&self) -> Order;

    /// Rank of a host for a VM. The host with the least rank gets the VM, and among equals the
    /// first. `memory` is the VM's memory, as a share of a host's.
    fn rank(&self, cores: u32, memory: f64, host: &HostUsage) -> f64;

    /// The free memory, as a share of a host's, at which hosts with `cores_free` of `all` cores
    /// have their least rank. With the distance from it, upwards or downwards, the rank never
    /// decreases. It may be outside 0 to 1.
    fn preferred(&self, cores: u32, memory: f64, all: u32, cores_free: u32) -> f64;

    /// The host that this placement chooses for a VM, and the value of `offer` for it.
    /// Candidates are hosts with enough free cores for which `offer` returns a value.
    /// `memory_mib` is the memory that the VM requests.
    fn find(
        &self,
        hosts: &mut Hosts,
        cores: u32,
        memory_mib: u32,
        rng: &mut StreamRng,
        offer: &mut dyn FnMut(usize) -> Option<u32>,
    ) -> Option<(usize, u32)>;
}

macro_rules! placement {
    ($(#[$doc:meta])* $name:ident, $entry:literal, $summary:literal, $order:ident, $rank:expr, $preferred:expr) => {
        $(#[$doc])*
        #[derive(Clone, Default, Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        struct $name {}

        impl Placement for $name {
            fn order(&self) -> Order {
                Order::$order
            }

            #[inline]
            fn rank(&self, cores: u32, memory: f64, host: &HostUsage) -> f64 {
                let rank: fn(u32, f64, &HostUsage) -> f64 = $rank;
                rank(cores, memory, host)
            }

            #[inline]
            fn preferred(&self, cores: u32, memory: f64, all: u32, cores_free: u32) -> f64 {
                let preferred: fn(u32, f64, u32, u32) -> f64 = $preferred;
                preferred(cores, memory, all, cores_free)
            }

            fn find(
                &self,
                hosts: &mut Hosts,
                cores: u32,
                memory_mib: u32,
                rng: &mut StreamRng,
                offer: &mut dyn FnMut(usize) -> Option<u32>,
            ) -> Option<(usize, u32)> {
                hosts.find(self, cores, memory_mib, rng, offer)
            }
        }

        impl $name {
            const ENTRY: Entry<Box<dyn Placement>> = Entry {
                name: $entry,
                summary: $summary,
                schema: <$name as JsonSchema>::json_schema,
                build: built::<$name>,
            };
        }
    };
}

placement!(
    /// The host with the fewest free cores, and among those the least free memory.
    BestFit, "best-fit", "the fullest host by cores, then by memory", ByRank,
    |_, _, host| f64::from(host.cores_free) + 0.5 * host.memory_free,
    |_, _, _, _| 0.0
);
placement!(
    /// The host with the most free cores, and among those the most free memory.
    WorstFit, "worst-fit", "the emptiest host by cores, then by memory", ByRank,
    |_, _, host| -f64::from(host.cores_free) - 0.5 * host.memory_free,
    |_, _, _, _| 1.0
);
placement!(
    /// The first host that the VM fits on.
    FirstFit, "first-fit", "the first host that it fits on", ByNumber,
    |_, _, _| 0.0,
    |_, _, _, _| 0.0
);
placement!(
    /// Any host that the VM fits on.
    Random, "random", "any host that it fits on", Random,
    |_, _, _| 0.0,
    |_, _, _, _| 0.0
);
placement!(
    /// The host whose free cores and free memory match the VM's best: the largest
    /// dot product of the two, in shares of the host (Panigrahy et al.,
    /// "Heuristics for Vector Bin Packing", 2011).
    DotProduct, "dot-product", "the host whose free cores and memory go best with the VM's", ByRank,
    |cores, memory, host| {
        let all = f64::from(host.cores);
        -(f64::from(cores) * f64::from(host.cores_free) / (all * all) + memory * host.memory_free)
    },
    |_, _, _, _| 1.0
);
placement!(
    /// The host whose remaining shares of free cores and free memory differ least, and among those
    /// the one with fewer free cores.
    Balanced, "balanced", "the host whose free cores and memory stay in proportion", ByRank,
    |cores, memory, host| {
        let left = f64::from(host.cores_free - cores) / f64::from(host.cores);
        (left - (host.memory_free - memory)).abs() + 1e-3 * left
    },
    |cores, memory, all, cores_free| f64::from(cores_free - cores) / f64::from(all) + memory
);

/// All placements, in the order of `cxlab list`.
pub static CATALOG: &[Entry<Box<dyn Placement>>] = &[
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
