//! `cxlab fleet`: a scenario's pod, thousands of times. `docs/explain/fleet.md` has the model.

mod picture;
mod report;
mod seeds;
mod sweep;
mod text;

use cxlab_fleet::{PodFabric, Sizing, Study, Watch};
use cxlab_plan::{Plan, Problem};

use crate::analytic::PodModel;

pub use picture::svg;
pub use report::{FleetReport, series_csv};
pub use seeds::{SeedsReport, over_seeds, seeds_csv, seeds_text};
pub use sweep::{SweepPoint, sweep_csv, sweep_svg, sweep_text};
pub use text::summary;

/// A fleet, ready to be studied.
pub struct Fleet<'a> {
    plan: &'a Plan,
    fabric: PodFabric,
    device_slices: u32,
}

impl<'a> Fleet<'a> {
    /// The fleet of a plan's scenario. Latency and bandwidth come from the analytic form.
    ///
    /// # Errors
    /// A scenario without `[fleet]`, plans that the analytic form does not cover, and devices that do not make a pool.
    pub fn new(plan: &'a Plan, seed: u64) -> Result<Fleet<'a>, Vec<Problem>> {
        let (Some(params), Some(_)) = (&plan.scenario.fleet, &plan.fleet) else {
            return Err(vec![Problem::new(
                "",
                "found no `fleet` table; `cxlab fleet` needs one: see docs/guide/fleet.md",
            )]);
        };
        let groups = &plan.scenario.devices;
        for (at, group) in groups.iter().enumerate() {
            if group.capacity != groups[0].capacity {
                return Err(vec![Problem::new(
                    format!("devices[{at}].capacity"),
                    format!(
                        "found {}; allowed in a fleet: {}, as devices[0]",
                        group.capacity, groups[0].capacity
                    ),
                )]);
            }
        }
        let capacity = groups.first().map_or(0, |group| group.capacity.0);
        let slices = capacity / params.slice.0;
        if params.sizing == Sizing::Given && slices == 0 {
            let slice = params.slice;
            return Err(vec![Problem::new(
                "fleet.slice",
                format!("found {slice}; allowed: at most the capacity of a device"),
            )]);
        }
        let fabric = PodFabric::new(&mut PodModel::new(plan, seed)?);
        Ok(Fleet {
            plan,
            fabric,
            device_slices: slices.min(u64::from(u32::MAX >> 8)) as u32,
        })
    }

    /// Carries out the study. The result is the same for every number of threads.
    pub fn run(&self, seed: u64, threads: usize, watch: &Watch) -> Option<FleetReport> {
        let scenario = &self.plan.scenario;
        let (params, chosen) = (scenario.fleet.as_ref()?, self.plan.fleet.as_ref()?);
        let study = Study {
            params,
            fabric: &self.fabric,
            device_slices: self.device_slices,
            demand: chosen.demand.as_ref(),
            placement: chosen.placement.as_ref(),
            policy: chosen.policy.as_ref(),
            seed,
            threads,
        };
        let result = study.run(watch);
        let (plan, fabric) = (self.plan, &self.fabric);
        Some(report::assemble(plan, params, fabric, seed, &result))
    }
}
