//! Builds a scenario's fleet from the catalogs, and checks what the schema cannot.

use cxlab_fleet::{Demand, Placement, PoolPolicy};
use cxlab_scenario::Scenario;

use super::{Files, Problem};

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
    problems: &mut Vec<Problem>,
) -> Option<PlannedFleet> {
    let fleet = scenario.fleet.as_ref()?;
    if let Err(errors) = fleet.check() {
        problems.extend(
            errors
                .into_iter()
                .map(|error| Problem::of_param("fleet", error)),
        );
    }
    let demand = fleet
        .demand
        .build()
        .map(|mut demand| match demand.open(&files.scenario_dir) {
            Ok(()) => Some(demand),
            Err(error) => {
                problems.push(Problem::new("fleet.demand.path", error.to_string()));
                None
            }
        });
    let demand = built("demand", demand, problems).flatten();
    let placement = built("placement", fleet.placement.build(), problems);
    let policy = built("pool", fleet.pool.build(), problems);
    Some(PlannedFleet {
        demand: demand?,
        placement: placement?,
        policy: policy?,
    })
}

fn built<T>(
    field: &str,
    built: Result<T, cxlab_engine::catalog::ParamError>,
    problems: &mut Vec<Problem>,
) -> Option<T> {
    built
        .map_err(|error| problems.push(Problem::of_param(&format!("fleet.{field}"), error)))
        .ok()
}
