//! Lines drawn uniformly at random, as GUPS accesses memory.

use cxlab_engine::catalog::Entry;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;

use super::common::{Mixer, Pattern, Region, pattern_params, untimed};
use crate::error::WorkloadError;
use crate::op::{MemOp, OpSource};
use crate::params::entry;
use crate::workload::Workload;

pub(super) const ENTRY: Entry<Box<dyn Workload>> = entry::<Uniform>(
    "uniform",
    "independent lines, uniformly at random over the footprint",
);

pattern_params! {
    /// Independent lines, uniformly at random over the footprint.
    Uniform {}
}

struct Source {
    region: Region,
    mixer: Mixer,
}

save_state!(Source {
    values: mixer;
    built: region;
});

impl Pattern for Uniform {
    fn source_of(&self, region: Region, mixer: Mixer) -> Result<Box<dyn OpSource>, WorkloadError> {
        Ok(Box::new(Source { region, mixer }))
    }
}

impl OpSource for Source {
    fn next_op(&mut self, rng: &mut StreamRng) -> Option<MemOp> {
        let line = rng.below(self.region.lines);
        Some(untimed(self.region.line(line), self.mixer.kind(rng)))
    }
}
