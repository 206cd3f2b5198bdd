//! Lines drawn by Zipf's law, as are the keys of key-value stores and the pages of the web.

use cxlab_engine::catalog::{Entry, ParamError};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;

use super::common::{Mixer, Pattern, Region, pattern_params, untimed};
use super::permutation::Cycle;
use crate::error::WorkloadError;
use crate::op::{MemOp, OpSource};
use crate::params::{entry, require};
use crate::workload::Workload;
use crate::zipf::Zipf as Law;

pub(super) const ENTRY: Entry<Box<dyn Workload>> = entry::<Zipf>(
    "zipf",
    "independent lines by Zipf's law: a few are asked for most of the time",
);

pattern_params! {
    /// Independent lines by Zipf's law: the line of rank k, from 1, is drawn with a probability in
    /// proportion to k^-exponent (rejection-inversion, Hörmann and Derflinger, ACM TOMACS 1996).
    Zipf {
        /// Exponent of the law, above 0, at most 4. Default 0.99 (YCSB, Cooper et al., SoCC 2010).
        #[schemars(range(max = 4), extend("exclusiveMinimum" = 0))]
        exponent: f64 = 0.99,
        /// Whether ranks are scattered over the footprint, as in YCSB's scrambled Zipfian. Otherwise the k-th line of
        /// the footprint has rank k. The scattered order is random and the same for all requesters, runs and seeds.
        scramble: bool = false,
    }
}

struct Source {
    region: Region,
    mixer: Mixer,
    law: Law,
    /// The line of each rank, if ranks are scattered.
    order: Option<Cycle>,
}

save_state!(Source {
    values: mixer;
    built: region, law, order;
});

impl Pattern for Zipf {
    fn check_own(&self) -> Result<(), ParamError> {
        let known = self.exponent > 0.0 && self.exponent <= 4.0;
        require(known, "exponent", self.exponent, "above 0, at most 4")
    }

    fn source_of(&self, region: Region, mixer: Mixer) -> Result<Box<dyn OpSource>, WorkloadError> {
        let mut fixed = StreamRng::new(0, "zipf");
        Ok(Box::new(Source {
            region,
            mixer,
            law: Law::new(region.lines, self.exponent),
            order: self.scramble.then(|| Cycle::new(region.lines, &mut fixed)),
        }))
    }
}

impl OpSource for Source {
    fn next_op(&mut self, rng: &mut StreamRng) -> Option<MemOp> {
        let rank = self.law.draw(rng);
        let line = self.order.as_ref().map_or(rank, |order| order.place(rank));
        Some(untimed(self.region.line(line), self.mixer.kind(rng)))
    }
}
