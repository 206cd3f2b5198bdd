//! Sequential lines through the footprint, over and over, as STREAM and `memcpy` access memory.

use cxlab_engine::catalog::{Entry, ParamError};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::units::Bytes;

use super::common::{Mixer, Region, pattern_params, untimed};
use crate::error::WorkloadError;
use crate::op::{MemOp, OpSource};
use crate::params::entry;
use crate::workload::{SourceContext, Workload};

pub(super) const ENTRY: Entry<Box<dyn Workload>> = entry::<Stream>(
    "stream",
    "sequential lines through the footprint, over and over",
);

pattern_params! {
    /// Sequential lines through the footprint, over and over.
    Stream {}
}

struct Source {
    region: Region,
    mixer: Mixer,
    next: u64,
}

save_state!(Source {
    values: mixer, next;
    built: region;
});

impl Workload for Stream {
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
            next: 0,
        }))
    }
}

impl OpSource for Source {
    fn next_op(&mut self, rng: &mut StreamRng) -> Option<MemOp> {
        let line = self.next;
        self.next = if line + 1 == self.region.lines {
            0
        } else {
            line + 1
        };
        Some(untimed(self.region.line(line), self.mixer.kind(rng)))
    }
}
