//! Random failures: an alternating renewal process for each component, with exponentially
//! distributed times of operation and of repair.

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::Picos;
use cxlab_scenario::{EventParams, FailureRates, RandomFailures, Scenario, UnbindOption};

use super::super::Problem;
use super::super::limits::LONGEST_WINDOW;

/// The shortest and the longest mean time.
const MEANS: [Picos; 2] = [Picos(1_000_000), LONGEST_WINDOW];

/// Checks the parameters that do not depend on the fabric.
pub(crate) fn check(scenario: &Scenario, params: &RandomFailures, problems: &mut Vec<Problem>) {
    let mut wrong = |path: &str, message: String| {
        problems.push(Problem::new(format!("failures.random{path}"), message));
    };
    if !(Picos(1)..=LONGEST_WINDOW).contains(&params.until) {
        let allowed = format!("allowed: 1 ps to {LONGEST_WINDOW}");
        wrong(".until", format!("found {}; {allowed}", params.until));
    }
    if params.classes().next().is_none() {
        let text = "found no class of components; allowed: at least one of `links`, `edge_links` and `switches`";
        wrong("", text.to_owned());
    }
    for (class, rates) in params.classes() {
        for (field, mean) in [("mtbf", rates.mtbf), ("mttr", rates.mttr)] {
            let [least, most] = MEANS;
            if !(least..=most).contains(&mean) {
                wrong(
                    &format!(".{class}.{field}"),
                    format!("found {mean}; allowed: {least} to {most}"),
                );
            }
        }
    }
    let commands = scenario.events.iter().any(|event| {
        matches!(
            event,
            EventParams::PortControl { .. }
                | EventParams::Unbind {
                    option: UnbindOption::WaitForLinkDown,
                    ..
                }
        )
    });
    if commands {
        let text = "found random failures beside commands whose response depends on what has failed; allowed: \
                    without \"port-control\" and without \"unbind\" with option = \"wait-for-link-down\"";
        wrong("", text.to_owned());
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
