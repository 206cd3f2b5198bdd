//! Runs of a plan's system with a workload that is written here.

use std::collections::BTreeMap;
use std::sync::Arc;

use cxlab_engine::{Monitor, Threads};
use cxlab_plan::{Externals, Plan};
use cxlab_scenario::{HostGroup, Measure};
use cxlab_system::report::Report;
use cxlab_system::run::{RunError, RunOptions, run};
use cxlab_workload::Workload;
use serde_json::json;

/// Name of the workload.
const NAME: &str = "external";

/// Runs a workload to its end on the first group of a plan's hosts, after a change of that group.
///
/// # Errors
/// The error of the change, of the plan or of the run.
pub fn run_external(
    plan: &Plan,
    workload: impl Workload + 'static,
    monitor: &Monitor,
    change: impl FnOnce(&mut HostGroup) -> Result<(), RunError>,
) -> Result<Report, RunError> {
    let mut scenario = plan.scenario.clone();
    scenario.measure = Measure::default();
    let group = &mut scenario.hosts[0];
    group.requests = None;
    change(group)?;
    let named = json!({ "kind": "external", "name": NAME });
    group.workload = serde_json::from_value(named)
        .map_err(|error| RunError::Law(format!("a workload from outside: {error}")))?;
    let workload: Arc<dyn Workload> = Arc::new(workload);
    let externals: Externals = BTreeMap::from([(NAME.to_owned(), workload)]);
    let plan = Plan::with_externals(scenario, plan.files.clone(), &externals)?;
    let options = RunOptions {
        seed: plan.scenario.seed,
        threads: Threads::Exactly(1),
        monitor,
        rows: None,
    };
    run(&plan, options)
}
