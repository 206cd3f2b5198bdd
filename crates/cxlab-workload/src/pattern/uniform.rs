//! Lines drawn uniformly at random, as GUPS accesses memory.

use cxlab_engine::catalog::Entry;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::units::Bytes;

use super::common::{Mixer, Region, pattern_params, untimed};
use crate::error::WorkloadError;
use crate::op::{MemOp, OpSource};
use crate::params::read;
use crate::workload::{SourceContext, Workload};

pub(super) const ENTRY: Entry<Box<dyn Workload>> = Entry {
    name: "uniform",
    summary: "independent lines, uniformly at random over the footprint",
    schema: <Uniform as schemars::JsonSchema>::json_schema,
    build: |params| {
        let params: Uniform = read(params)?;
        params.common().check()?;
        Ok(Box::new(params))
    },
};

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
