//! Builds a scenario's fleet from the catalogs, and checks what the schema cannot.

use cxlab_fleet::{Demand, Placement, PoolPolicy};
use cxlab_scenario::Scenario;

use crate::inputs::Files;
use crate::problem::{Problem, Problems};

/// The catalog entries that a fleet uses.
pub struct PlannedFleet {
    /// When virtual machines arrive, and how long they stay.
    pub demand: Box<dyn Demand>,
    /// On which host each virtual machine is placed.
    pub placement: Box<dyn Placement>,
    /// Which hosts get pool memory.
    pub policy: Box<dyn PoolPolicy>,
}

/// Builds the fleet of a scenario that has one.
pub(crate) fn resolve(
    scenario: &Scenario,
    files: &Files,
    problems: &mut Problems,
) -> Option<PlannedFleet> {
    let fleet = scenario.fleet.as_ref()?;
    if let Err(errors) = fleet.check() {
        let errors = errors.into_iter();
        problems.extend(errors.map(|error| Problem::of_param("fleet", error)));
    }
    let demand = problems.built("fleet.demand", fleet.demand.build());
    let demand = demand.and_then(|mut demand| match demand.open(&files.scenario_dir) {
        Ok(()) => Some(demand),
        Err(error) => {
            problems.push(Problem::new("fleet.demand.path", error.to_string()));
            None
        }
    });
    let placement = problems.built("fleet.placement", fleet.placement.build());
    let policy = problems.built("fleet.pool", fleet.pool.build());
    Some(PlannedFleet {
        demand: demand?,
        placement: placement?,
        policy: policy?,
    })
}
