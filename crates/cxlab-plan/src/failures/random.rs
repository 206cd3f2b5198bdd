//! Random failures: an alternating renewal process for each component, with exponentially
//! distributed times of operation and of repair.

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::Picos;
use cxlab_scenario::{EventParams, FailureRates, RandomFailures, Scenario, UnbindOption};

use crate::limits::LONGEST_WINDOW;
use crate::problem::Problems;

const MEANS: [Picos; 2] = [Picos(1_000_000), LONGEST_WINDOW];

/// Checks the parameters that do not depend on the fabric.
pub(crate) fn check(scenario: &Scenario, params: &RandomFailures, problems: &mut Problems) {
    let mut fields = problems.below("failures.random");
    fields.between("until", params.until, [Picos(1), LONGEST_WINDOW]);
    if params.classes().next().is_none() {
        let allowed = "at least one of `links`, `edge_links` and `switches`";
        problems.refuse("failures.random", "no class of components", allowed);
    }
    for (class, rates) in params.classes() {
        let mut fields = problems.below(format!("failures.random.{class}"));
        fields.between("mtbf", rates.mtbf, MEANS);
        fields.between("mttr", rates.mttr, MEANS);
    }
    let depends = |event: &EventParams| {
        let option = UnbindOption::WaitForLinkDown;
        matches!(event, EventParams::PortControl { .. })
            || matches!(event, EventParams::Unbind { option: with, .. } if *with == option)
    };
    if scenario.events.iter().any(depends) {
        problems.refuse(
            "failures.random",
            "random failures beside commands whose response depends on what has failed",
            "without \"port-control\" and without \"unbind\" with option = \"wait-for-link-down\"",
        );
    }
}

/// The times at which a component alternately fails and is repaired; at most `most` of them.
pub(crate) fn times(
    params: &RandomFailures,
    rates: &FailureRates,
    seed: u64,
    name: &str,
    most: usize,
) -> Vec<Picos> {
    let mut rng = StreamRng::new(params.seed.unwrap_or(seed), &format!("failures of {name}"));
    let mut span = |mean: Picos| {
        let drawn = -libm::log(rng.unit()) * mean.0 as f64;
        (drawn as u64).max(1)
    };
    let mut times = Vec::new();
    let mut at = span(rates.mtbf);
    while at <= params.until.0 && times.len() < most {
        times.push(Picos(at));
        at += span(rates.mttr);
        times.push(Picos(at));
        at += span(rates.mtbf);
    }
    times
}
