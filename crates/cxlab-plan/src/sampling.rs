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
        let message = format!(
            "found {every}; allowed with warmup = {warmup} and detailed = {detailed}: {least} and more, \
             twice both together"
        );
        fields.wrong("sampling.every", message);
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
        let message = format!(
            "found a time, and sampling too, where most requests take none; allowed with sampling: \
             {instead}"
        );
        fields.wrong(field, message);
    }
}

/// Refuses sampling for a system with a component to which requests cannot be applied without time.
/// The problem names the first such component.
pub(crate) fn check(plan: &Plan) -> Result<(), Problem> {
    let scenario = &plan.scenario;
    if scenario.measure.sampling.is_none() {
        return Ok(());
    }
    let of_hosts = || {
        let mut hosts = plan.hosts.iter().zip(&plan.caching);
        hosts.find_map(|(host, caching)| of_host(host, &scenario.hosts[host.group], *caching))
    };
    let of_media = || {
        let mut media = plan.media.devices.iter();
        let number = media.position(|medium| !medium.can_be_warmed())?;
        Some((format!("devices[{number}].memory"), "media of cxlab's own"))
    };
    let found = of_system(scenario).or_else(of_hosts).or_else(of_media);
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
    let errors = media_errors::has_any(scenario);
    let stays = "a system that stays as it is";
    let begin = "hosts that begin with their workload";
    let given = [
        (
            "accelerators",
            !scenario.accelerators.is_empty(),
            "hosts alone",
        ),
        ("events", !scenario.events.is_empty(), stays),
        ("failures", scenario.failures.is_some(), stays),
        ("devices[].media_errors", errors, "media without errors"),
        ("enumeration", scenario.enumeration.is_some(), begin),
    ];
    let (found, _, allowed) = given.into_iter().find(|(_, given, _)| *given)?;
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
    let allowed = "memory that hosts keep coherent (`coherence.model = \"hdm-h\"`)";
    caching.then(|| (format!("{at} with a coherent cache"), allowed))
}
