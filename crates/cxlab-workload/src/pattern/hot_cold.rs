//! Operations of which most access a small hot part of the footprint, and the others the cold rest.

use cxlab_engine::catalog::{Entry, ParamError};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;

use super::common::{Mixer, Pattern, Region, pattern_params, unit_interval, untimed};
use crate::error::WorkloadError;
use crate::op::{MemOp, OpSource};
use crate::params::{entry, require};
use crate::workload::Workload;

pub(super) const ENTRY: Entry<Box<dyn Workload>> = entry::<HotCold>(
    "hot-cold",
    "a hot fraction of the footprint takes most of the operations",
);

pattern_params! {
    /// Most of the operations access a hot fraction of the footprint, its first lines. Hot and cold lines are each
    /// drawn uniformly. The defaults are those of ESF, Fig. 14: 90 % of the requests to 10 % of the footprint.
    HotCold {
        /// Hot fraction of the footprint, above 0 and below 1.
        #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
        hot_footprint: f64 = 0.1,
        /// Fraction of the operations that access hot lines, 0 to 1.
        #[schemars(range(min = 0, max = 1))]
        hot_accesses: f64 = 0.9,
    }
}

struct Source {
    region: Region,
    mixer: Mixer,
    hot_lines: u64,
    hot_accesses: f64,
}

save_state!(Source {
    values: mixer;
    built: region, hot_lines, hot_accesses;
});

impl Pattern for HotCold {
    fn check_own(&self) -> Result<(), ParamError> {
        unit_interval("hot_accesses", self.hot_accesses)?;
        let (field, part) = ("hot_footprint", self.hot_footprint);
        require(part > 0.0 && part < 1.0, field, part, "above 0 and below 1")
    }

    fn source_of(&self, region: Region, mixer: Mixer) -> Result<Box<dyn OpSource>, WorkloadError> {
        let (found, allowed) = (
            "64 B for a requester",
            "128 B and more, a hot and a cold line",
        );
        require(region.lines > 1, "footprint", found, allowed)?;
        let hot_lines = (region.lines as f64 * self.hot_footprint).round() as u64;
        Ok(Box::new(Source {
            region,
            mixer,
            hot_lines: hot_lines.clamp(1, region.lines - 1),
            hot_accesses: self.hot_accesses,
        }))
    }
}

impl OpSource for Source {
    fn next_op(&mut self, rng: &mut StreamRng) -> Option<MemOp> {
        let line = if rng.chance(self.hot_accesses) {
            rng.below(self.hot_lines)
        } else {
            self.hot_lines + rng.below(self.region.lines - self.hot_lines)
        };
        Some(untimed(self.region.line(line), self.mixer.kind(rng)))
    }
}
