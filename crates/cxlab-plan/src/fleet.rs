//! A scenario's fleet: its choices, built, and what the schema cannot check.

use cxlab_fleet::{Demand, Placement, PoolPolicy};
use cxlab_scenario::Scenario;

use super::{Files, Problem};

/// What a fleet chose from the catalogs.
pub struct PlannedFleet {
    /// Who comes when.
    pub demand: Box<dyn Demand>,
    /// Who goes where.
    pub placement: Box<dyn Placement>,
    /// Who gets pool memory.
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
