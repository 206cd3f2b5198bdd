//! Placement on the node of the first toucher, or of the process.

use cxlab_engine::catalog::Entry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FirstTouch, Placement, PlacementPolicy, State};
use crate::frames::{NodePreference, NodeSet};
use crate::policy::NoParams;

/// Cohet, section III-C1: the first access of an XPU allocates in its own memory. For processors
/// the policy is Linux's default (`MPOL_DEFAULT`).
pub(super) const FIRST_TOUCH: Entry<Box<dyn PlacementPolicy>> = Entry {
    name: "first-touch",
    summary: "the node of whoever touches the page first, processor or accelerator",
    schema: <NoParams as JsonSchema>::json_schema,
    build: |params| {
        NoParams::check(params)?;
        Ok(Box::new(Near { toucher: true }))
    },
};

/// `MPOL_LOCAL`. A processor handles a device's fault, so that without Cohet's change to the kernel
/// the page is placed on that processor's node (Linux: `iommu_sva` page requests run
/// `handle_mm_fault` in a work queue).
pub(super) const LOCAL: Entry<Box<dyn PlacementPolicy>> = Entry {
    name: "local",
    summary: "the node of the processor that runs the process, also for pages that a device touches first",
    schema: <NoParams as JsonSchema>::json_schema,
    build: |params| {
        NoParams::check(params)?;
        Ok(Box::new(Near { toucher: false }))
    },
};

#[derive(Clone, Copy)]
struct Near {
    toucher: bool,
}

impl PlacementPolicy for Near {
    fn state(&self, nodes: NodeSet) -> Placement {
        let toucher = self.toucher;
        Placement(State::Near(NearState { toucher, nodes }))
    }
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct NearState {
    toucher: bool,
    nodes: NodeSet,
}

impl NearState {
    pub(super) fn place(&self, touch: FirstTouch) -> NodePreference {
        NodePreference {
            from: if self.toucher { touch.by } else { touch.home },
            first: NodeSet::NONE,
            allowed: self.nodes,
        }
    }
}
