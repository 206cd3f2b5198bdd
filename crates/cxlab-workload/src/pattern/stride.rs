//! One line every `stride` bytes, as when a column is read from a matrix stored by rows.

use cxlab_engine::catalog::{Entry, ParamError};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::units::Bytes;

use super::common::{Mixer, Pattern, Region, pattern_params, untimed, whole_lines};
use crate::error::WorkloadError;
use crate::op::{MemOp, OpSource};
use crate::params::{entry, require};
use crate::workload::Workload;

pub(super) const ENTRY: Entry<Box<dyn Workload>> = entry::<Stride>(
    "stride",
    "one line every `stride` bytes; each pass begins one line later",
);

pattern_params! {
    /// One line every `stride` bytes. Each pass through the footprint begins one line after the
    /// beginning of the previous pass, so that `stride` / 64 B passes access every line once.
    Stride {
        /// Bytes from one operation to the next: a multiple of 64 B, less than the footprint.
        /// Default 4 KiB, one line a page (*assumed*).
        stride: Bytes = Bytes(4096),
    }
}

struct Source {
    region: Region,
    mixer: Mixer,
    stride: u64,
    start: u64,
    next: u64,
}

save_state!(Source {
    values: mixer, start, next;
    built: region, stride;
});

impl Pattern for Stride {
    fn check_own(&self) -> Result<(), ParamError> {
        require(self.stride.0 > 0, "stride", "0 B", "64 B and more")?;
        whole_lines("stride", self.stride)
    }

    fn source_of(&self, region: Region, mixer: Mixer) -> Result<Box<dyn OpSource>, WorkloadError> {
        let stride = self.stride.0 / region.bytes;
        let whole = self.stride.0.is_multiple_of(region.bytes);
        let allowed = format_args!("multiples of {}, the request", Bytes(region.bytes));
        require(whole, "stride", self.stride, allowed)?;
        let footprint = Bytes(region.lines * region.bytes);
        let allowed = format_args!("less than {footprint}, the footprint");
        require(stride < region.lines, "stride", self.stride, allowed)?;
        Ok(Box::new(Source {
            region,
            mixer,
            stride,
            start: 0,
            next: 0,
        }))
    }
}

impl OpSource for Source {
    fn next_op(&mut self, rng: &mut StreamRng) -> Option<MemOp> {
        let line = self.next;
        self.next += self.stride;
        if self.next >= self.region.lines {
            self.start = if self.start + 1 == self.stride {
                0
            } else {
                self.start + 1
            };
            self.next = self.start;
        }
        Some(untimed(self.region.line(line), self.mixer.kind(rng)))
    }
}
