//! The windows of a run: the ends of its warm-up and of its measurement.

use cxlab_engine::units::Picos;
use serde::{Deserialize, Serialize};

use crate::endpoints::PlannedHost;
use crate::plan::Plan;
use crate::problem::Problem;
use crate::routes;

/// Number of measured requests if the scenario gives none.
pub const DEFAULT_REQUESTS: u64 = 100_000;
/// Most measured requests if the scenario asks only for a precision or for sampling.
const MOST_REQUESTS: u64 = 10_000_000;

/// The condition that ends a window.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub enum WindowEnd {
    /// This number of requests has completed since the window began.
    Requests(u64),
    /// This much time has passed since the window began.
    Time(Picos),
    /// No work is left.
    End,
    /// Total bandwidth and mean latency have settled, or this number of requests has completed
    /// since the window began. The window lasts for at least a tenth of these requests.
    SettledRequests(u64),
    /// As [`WindowEnd::SettledRequests`], with a simulated time in place of requests.
    SettledTime(Picos),
}

/// Whether the workload of a host ends by itself.
pub fn ends(plan: &Plan, host: &PlannedHost) -> bool {
    let limited = plan.scenario.hosts[host.group].requests.is_some();
    limited || host.leaves.is_some() || plan.is_finite(host)
}

/// Whether a run has a steady state and measures it in one window. Workloads that end have no
/// steady state, and events happen at times since the beginning. The requests of a sampled run are
/// warmed up without time.
pub fn is_steady(plan: &Plan) -> bool {
    let sampled = plan.scenario.measure.sampling.is_some();
    !sampled && !plan.has_events() && !plan.hosts.iter().any(|host| ends(plan, host))
}

/// The warm-up and the measurement window of a plan, with defaults resolved.
pub fn windows(plan: &Plan) -> (WindowEnd, WindowEnd) {
    let measure = &plan.scenario.measure;
    let finite = plan.hosts.iter().all(|host| ends(plan, host));
    let window = match (measure.requests, measure.duration) {
        (Some(requests), _) => WindowEnd::Requests(requests),
        (None, Some(duration)) => WindowEnd::Time(duration),
        (None, None) if finite => WindowEnd::End,
        (None, None) if measure.precision.is_some() || measure.sampling.is_some() => {
            WindowEnd::Requests(MOST_REQUESTS)
        }
        (None, None) => WindowEnd::Requests(DEFAULT_REQUESTS),
    };
    let auto = measure.warmup.is_some() || is_steady(plan);
    let warmup = match (measure.warmup_requests, measure.warmup_time, window) {
        (Some(requests), _, _) => WindowEnd::Requests(requests),
        (None, Some(time), _) => WindowEnd::Time(time),
        (None, None, WindowEnd::Requests(requests)) if auto => match measure.precision {
            Some(_) => WindowEnd::SettledRequests(requests.min(DEFAULT_REQUESTS)),
            None => WindowEnd::SettledRequests(requests),
        },
        (None, None, WindowEnd::Time(time)) if auto => WindowEnd::SettledTime(time),
        (None, None, _) if auto => WindowEnd::SettledRequests(DEFAULT_REQUESTS),
        (None, None, WindowEnd::Requests(requests)) => WindowEnd::Requests(requests / 10),
        (None, None, _) => WindowEnd::Requests(0),
    };
    (warmup, window)
}

/// Number of requests that the run will complete, for a progress bar; `None` if unknown.
pub fn expected_requests(plan: &Plan) -> Option<u64> {
    match windows(plan) {
        (WindowEnd::Requests(warmup), WindowEnd::Requests(requests)) => Some(warmup + requests),
        (WindowEnd::SettledRequests(most), WindowEnd::Requests(requests)) => {
            Some(most / 10 + requests)
        }
        (_, WindowEnd::End) => plan
            .hosts
            .iter()
            .map(|host| plan.scenario.hosts[host.group].requests)
            .sum(),
        _ => None,
    }
}

/// Refuses a run that ends before any request can have completed.
pub(crate) fn check(plan: &Plan) -> Result<(), Problem> {
    let measure = &plan.scenario.measure;
    let (Some(duration), None) = (measure.duration, measure.warmup_requests) else {
        return Ok(());
    };
    let Some(first) = routes::first_completion_ps(plan) else {
        return Ok(());
    };
    let least = match measure.warmup_time {
        Some(warmup) => first.saturating_sub(warmup.0),
        // An automatic warm-up lasts no longer than the window.
        None => first.div_ceil(2),
    };
    if duration.0 >= least {
        return Ok(());
    }
    let allowed = format!(
        "{} and more (the latency of the nearest device is {} without load and medium)",
        Picos(least),
        Picos(first)
    );
    Err(Problem::refused("measure.duration", duration, allowed))
}
