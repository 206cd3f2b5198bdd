//! Dependent operations along a random cycle through every line of the footprint, as in latency
//! benchmarks (`lat_mem_rd`, Intel MLC).

use cxlab_engine::catalog::{Entry, ParamError};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::units::Bytes;

use super::common::{Mixer, Region, pattern_params, untimed};
use super::permutation::Cycle;
use crate::error::WorkloadError;
use crate::op::{MemOp, OpSource};
use crate::params::entry;
use crate::workload::{SourceContext, Workload};

pub(super) const ENTRY: Entry<Box<dyn Workload>> = entry::<PointerChase>(
    "pointer-chase",
    "dependent operations round a random cycle through every line of the footprint",
);

pattern_params! {
    /// Dependent operations along a random cycle through every line of the footprint. The cycle is
    /// computed, not stored, so the footprint may have any size. Each requester has its own cycle.
    PointerChase {}
}

struct Source {
    region: Region,
    mixer: Mixer,
    cycle: Option<Cycle>,
}

save_state!(Source {
    values: mixer, cycle;
    built: region;
});

impl Workload for PointerChase {
    fn check(&self) -> Result<(), ParamError> {
        self.common().check()
    }

    fn request(&self) -> Bytes {
        self.common().request()
    }

    fn source(&self, ctx: &SourceContext) -> Result<Box<dyn OpSource>, WorkloadError> {
        let common = self.common();
        Ok(Box::new(Source {
            region: common.region(ctx)?,
            mixer: common.mixer(),
            cycle: None,
        }))
    }
}

impl OpSource for Source {
    fn next_op(&mut self, rng: &mut StreamRng) -> Option<MemOp> {
        let lines = self.region.lines;
        let line = self
            .cycle
            .get_or_insert_with(|| Cycle::new(lines, rng))
            .next();
        let kind = self.mixer.kind(rng);
        Some(MemOp {
            dependent: true,
            ..untimed(self.region.line(line), kind)
        })
    }
}
