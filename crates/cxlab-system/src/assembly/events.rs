//! The reports on changes of the system during the run.

use cxlab_engine::units::Picos;
use cxlab_plan::{Failures, Plan, PlannedPool, Sample};

use crate::report::{CommandReport, FailuresReport, PoolReport};

impl FailuresReport {
    /// Counts failures, repairs and changes of the routing up to a time after the workloads begin.
    pub(super) fn count_changes(&mut self, failures: &Failures, until: Picos) {
        self.changes = failures.times.iter().filter(|at| **at <= until).count() as u64;
        for change in failures.routing.iter().filter(|one| one.at <= until) {
            let wait = change.at.0 - change.due.0;
            self.routing_changes += 1;
            self.delayed_routing_changes += u64::from(wait > 0);
            self.longest_routing_delay_ns = self.longest_routing_delay_ns.max(wait as f64 / 1e3);
        }
    }
}

impl CommandReport {
    /// The commands of a run up to time `lasted` after the workloads began.
    pub(super) fn all(plan: &Plan, lasted: Picos) -> Vec<CommandReport> {
        let commands = plan.commands.iter();
        let issued = commands.filter(|command| command.issued <= lasted);
        let reports = issued.map(|command| {
            let done = command.done <= lasted;
            CommandReport {
                command: command.name.to_owned(),
                opcode: format!("{:04X}h", command.opcode),
                of: command.of.clone(),
                issued_ns: command.issued.as_nanos_f64(),
                done_ns: done.then(|| command.done.as_nanos_f64()),
                response: done.then(|| command.response.describe()),
            }
        });
        reports.collect()
    }
}

impl PoolReport {
    /// The report of a pool at time `lasted` after the workloads began.
    pub(super) fn of(pool: &PlannedPool, lasted: Picos) -> PoolReport {
        let gib = |blocks: f64| blocks * PlannedPool::BLOCK.0 as f64 / f64::from(1 << 30);
        let samples = pool.samples.iter().filter(|(at, _)| *at <= lasted);
        let samples: Vec<_> = samples.collect();
        let mean = |what: &dyn Fn(&Sample) -> u32| {
            let ends = samples.iter().skip(1).map(|(at, _)| *at).chain([lasted]);
            let sums = samples.iter().zip(ends).map(|((since, sample), until)| {
                u128::from(what(sample)) * u128::from(until.0 - since.0)
            });
            let sum: u128 = sums.sum();
            gib(sum as f64 / lasted.0.max(1) as f64)
        };
        let most = |what: &dyn Fn(&Sample) -> u32| {
            let all = samples.iter().map(|(_, sample)| what(sample));
            u64::from(all.max().unwrap_or(0))
        };
        let demands = pool.demands.iter().filter(|(at, _)| *at <= lasted);
        PoolReport {
            region: pool.region.clone(),
            policy: pool.policy.clone(),
            capacity_gib: gib(f64::from(pool.total)),
            demands: demands.clone().count() as u64,
            refused: demands.filter(|(_, met)| !met).count() as u64,
            needed_gib: mean(&|one| one.needed),
            held_gib: mean(&|one| one.held),
            idle_gib: mean(&|one| one.idle),
            unmet_gib: mean(&|one| one.unmet),
            stranded_gib: mean(&|one| if one.unmet > 0 { one.free } else { 0 }),
            most_free_runs: most(&|one| one.free_runs),
            most_extents: most(&|one| one.extents),
        }
    }
}
