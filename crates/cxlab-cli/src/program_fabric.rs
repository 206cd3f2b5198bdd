//! A plan's pools as an attached program meets them.

use cxlab_attach::fabric::{Demand, Fabric, PoolResponse};
use cxlab_system::analytic::{PlanFabric, PoolDemand};

/// The analytic form as a [`Fabric`] of `cxlab-attach`.
pub(crate) struct ProgramFabric<'a>(pub(crate) PlanFabric<'a>);

impl Fabric for ProgramFabric<'_> {
    fn pools(&self) -> Vec<String> {
        self.0.pools()
    }

    fn pool_of(&self, offset: u64) -> usize {
        self.0.pool_of(offset)
    }

    fn answer(&mut self, demand: &[Demand], in_flight: f64) -> Vec<PoolResponse> {
        let of_pool = |one: &Demand| PoolDemand {
            reads_per_ns: one.reads_per_ns,
            writes_per_ns: one.writes_per_ns,
        };
        let demand: Vec<PoolDemand> = demand.iter().map(of_pool).collect();
        let answers = self.0.answer(&demand, in_flight).into_iter();
        let answer = |one: cxlab_system::analytic::PoolResponse| PoolResponse {
            latency_ns: one.latency_ns,
            stretch: one.stretch,
        };
        answers.map(answer).collect()
    }
}
