//! Checks which systems can be sampled: requests between measured units must be applied to all
//! caches, buffers and mappings without time.

use cxlab_scenario::{HostGroup, HostKind, Sampling, Scenario};

use crate::endpoints::PlannedHost;
use crate::media_errors;
use crate::plan::Plan;
use crate::problem::{Problem, Problems};

/// Fewest requests measured in a unit.
const FEWEST: u64 = 10;

/// Checks the numbers of a sampled run, and refuses keys that exclude sampling.
pub(crate) fn check_keys(scenario: &Scenario, problems: &mut Problems) {
    let measure = &scenario.measure;
    let Some(Sampling {
        every,
        detailed,
        warmup,
    }) = measure.sampling
    else {
        return;
    };
    let mut fields = problems.below("measure");
    if detailed < FEWEST {
        let allowed = format_args!("{FEWEST} and more");
        fields.refuse("sampling.detailed", detailed, allowed);
    }
    let least = warmup.saturating_add(detailed).saturating_mul(2);
    if every < least {
        fields.wrong(
            "sampling.every",
            format!(
                "found {every}; allowed with warmup = {warmup} and detailed = {detailed}: {least} and more, \
                 twice both together"
            ),
        );
    }
    let given = [
        ("warmup", measure.warmup.is_some(), "warmup_requests"),
        (
            "warmup_time",
            measure.warmup_time.is_some(),
            "warmup_requests",
        ),
        ("duration", measure.duration.is_some(), "requests"),
    ];
    for (field, _, instead) in given.iter().filter(|(_, given, _)| *given) {
        fields.wrong(
            field,
            format!(
                "found a time, and sampling too, where most requests take none; allowed with sampling: \
                 {instead}"
            ),
        );
    }
}

/// Refuses sampling for a system with a component to which requests cannot be applied without time.
/// The problem names the first such component.
pub(crate) fn check(plan: &Plan) -> Result<(), Problem> {
    let scenario = &plan.scenario;
    if scenario.measure.sampling.is_none() {
        return Ok(());
    }
    let found = of_system(scenario)
        .or_else(|| {
            plan.hosts
                .iter()
                .zip(&plan.caching)
                .find_map(|(host, caching)| of_host(host, &scenario.hosts[host.group], *caching))
        })
        .or_else(|| {
            let number = plan
                .media
                .devices
                .iter()
                .position(|medium| !medium.can_be_warmed())?;
            Some((format!("devices[{number}].memory"), "media of cxlab's own"))
        });
    let Some((found, allowed)) = found else {
        return Ok(());
    };
    Err(Problem::new(
        "measure.sampling",
        format!(
            "found, and {found} too, to which requests cannot be applied without time; allowed with sampling: \
             {allowed} (docs/guide/sampling.md)"
        ),
    ))
}

fn of_system(scenario: &Scenario) -> Option<(String, &'static str)> {
    let given = [
        ("accelerators", !scenario.accelerators.is_empty()),
        ("events", !scenario.events.is_empty()),
        ("failures", scenario.failures.is_some()),
        ("devices[].media_errors", media_errors::has_any(scenario)),
        ("enumeration", scenario.enumeration.is_some()),
    ];
    let (found, _) = given.into_iter().find(|(_, given)| *given)?;
    let allowed = match found {
        "accelerators" => "hosts alone",
        "enumeration" => "hosts that begin with their workload",
        "devices[].media_errors" => "media without errors",
        _ => "a system that stays as it is",
    };
    Some((found.to_owned(), allowed))
}

fn of_host(host: &PlannedHost, group: &HostGroup, caching: bool) -> Option<(String, &'static str)> {
    let at = format!("hosts[{}]", host.group);
    let allowed = "hosts that issue lines as `issue` says";
    match &group.kind {
        HostKind::Core(_) => return Some((format!("{at}.core"), allowed)),
        HostKind::Processor(_) => return Some((format!("{at}.processor"), allowed)),
        HostKind::Requester(issue) if issue.throttle.is_some() => {
            let allowed = "a rate that does not adapt to devices";
            return Some((format!("{at}.issue.throttle"), allowed));
        }
        HostKind::Requester(_) => {}
    }
    caching.then(|| {
        (
            format!("{at} with a coherent cache"),
            "memory that hosts keep coherent (`coherence.model = \"hdm-h\"`)",
        )
    })
}
