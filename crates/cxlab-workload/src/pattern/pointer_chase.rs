//! Dependent operations along a random cycle through every line of the footprint, as in latency
//! benchmarks (`lat_mem_rd`, Intel MLC).

use cxlab_engine::catalog::Entry;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;

use super::common::{Mixer, Pattern, Region, pattern_params, untimed};
use super::permutation::Cycle;
use crate::error::WorkloadError;
use crate::op::{MemOp, OpSource};
use crate::params::entry;
use crate::workload::Workload;

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

impl Pattern for PointerChase {
    fn source_of(&self, region: Region, mixer: Mixer) -> Result<Box<dyn OpSource>, WorkloadError> {
        Ok(Box::new(Source {
            region,
            mixer,
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
