//! Sequential lines through the footprint, over and over, as STREAM and `memcpy` access memory.

use cxlab_engine::catalog::Entry;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;

use super::common::{Mixer, Pattern, Region, pattern_params, untimed};
use crate::error::WorkloadError;
use crate::op::{MemOp, OpSource};
use crate::params::entry;
use crate::workload::Workload;

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

impl Pattern for Stream {
    fn source_of(&self, region: Region, mixer: Mixer) -> Result<Box<dyn OpSource>, WorkloadError> {
        Ok(Box::new(Source {
            region,
            mixer,
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
