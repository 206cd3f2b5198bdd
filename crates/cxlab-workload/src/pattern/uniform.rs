//! Lines drawn uniformly at random, as GUPS accesses memory.

use cxlab_engine::catalog::{Entry, ParamError};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::units::Bytes;

use super::common::{Mixer, Region, pattern_params, untimed};
use crate::error::WorkloadError;
use crate::op::{MemOp, OpSource};
use crate::params::entry;
use crate::workload::{SourceContext, Workload};

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

impl Workload for Uniform {
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
        }))
    }
}

impl OpSource for Source {
    fn next_op(&mut self, rng: &mut StreamRng) -> Option<MemOp> {
        let line = rng.below(self.region.lines);
        Some(untimed(self.region.line(line), self.mixer.kind(rng)))
    }
}
