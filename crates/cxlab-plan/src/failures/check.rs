//! Checks that all components define their behaviour under failures.

use cxlab_engine::units::Picos;
use cxlab_fabric::routing::RoutingKind;
use cxlab_link::Duplex;
use cxlab_scenario::{FailureParams, LinkClass, Scenario, Sharing};

use super::planned::has_any;
use super::random;
use crate::events::keeps_lines;
use crate::problem::{Problem, Problems};
use crate::sharing::SharedPart;

/// The shortest and the longest completion timeout.
const TIMEOUTS: [Picos; 2] = [Picos(1_000_000), Picos(64_000_000_000_000)];
/// The shortest and the longest time until tables change.
const RECONFIGURATIONS: [Picos; 2] = [Picos(1_000), Picos(1_000_000_000_000)];
/// The shortest and the longest response time of a root port in isolation.
const ISOLATIONS: [Picos; 2] = [Picos(1_000), Picos(1_000_000_000)];

/// Checks what does not depend on the fabric: that all components define
/// their behaviour under failures.
pub(crate) fn check(scenario: &Scenario, problems: &mut Problems) {
    let any = has_any(scenario);
    if let Some(params) = &scenario.failures {
        check_params(params, problems);
        if let Some(params) = &params.random {
            random::check(scenario, params, problems);
        }
        if !any {
            problems.refuse(
                "failures",
                "a table in a scenario in which nothing fails",
                "with [[events]] of kind \"link-down\", \"port-control\", \"switch-down\" or \"device-removed\", \
                 or with `random`",
            );
        }
    }
    if !any {
        return;
    }
    let mut wrong = |path: String, found: &str, allowed: &str| {
        problems.refuse(path, format_args!("{found} where components fail"), allowed);
    };
    for (at, group) in scenario.hosts.iter().enumerate() {
        if let Some(part) = keeps_lines(group) {
            wrong(
                format!("hosts[{at}].{part}"),
                &format!("`{part}`"),
                "requesters without caches, with `issue` alone, and processors",
            );
        }
    }
    for (at, group) in scenario.hosts.iter().enumerate() {
        let processor = group.processor();
        if processor.is_some_and(|one| one.llc.speculative_reads) {
            wrong(
                format!("hosts[{at}].processor.llc.speculative_reads"),
                "true",
                "false (`MemSpecRd` has no answer that could time out)",
            );
        }
    }
    for (at, group) in scenario.devices.iter().enumerate() {
        if group.is_hdm_db() {
            let path = format!("devices[{at}].coherence.class");
            let allowed = "\"hdm-h\" (what becomes of copies of lost lines is not modelled)";
            wrong(path, "\"hdm-db\"", allowed);
        }
    }
    if !scenario.accelerators.is_empty() {
        let path = "accelerators[0]".to_owned();
        wrong(path, "an accelerator", "hosts and Type 3 devices");
    }
    if scenario.fabric.routing.0 != RoutingKind::Shortest {
        let found = format!("\"{}\"", scenario.fabric.routing.name());
        wrong("fabric.routing".to_owned(), &found, "\"shortest\"");
    }
    let classes = scenario.link_classes();
    let half = |class: &&LinkClass| class.params.duplex == Duplex::Half;
    for class in classes.iter().filter(half) {
        let path = format!("{}.duplex", class.path);
        let allowed = "\"full\" (a bus does not lose what it holds)";
        wrong(path, "\"half\"", allowed);
    }
}

/// Refuses values shared by threads of several hosts: the threads would not notice lost messages.
pub(crate) fn check_shared(scenario: &Scenario, shared: &[SharedPart]) -> Result<(), Problem> {
    let shares = |part: &SharedPart| !part.lines.is_empty();
    if !has_any(scenario) || !shared.iter().any(shares) {
        return Ok(());
    }
    let mut regions = scenario.regions.iter();
    let at = regions.position(|region| region.sharing == Sharing::Shared);
    Err(Problem::refused(
        format!("regions[{}].sharing", at.unwrap_or(0)),
        "a shared region whose values threads of several hosts compute on, where components fail",
        "exclusive regions, or patterns, traces and programs",
    ))
}

fn check_params(params: &FailureParams, problems: &mut Problems) {
    let mut fields = problems.below("failures");
    let timeout = params.completion_timeout;
    fields.between("completion_timeout", timeout, TIMEOUTS);
    let reconfiguration = params.reconfiguration_time;
    fields.between("reconfiguration_time", reconfiguration, RECONFIGURATIONS);
    fields.between("isolation_time", params.isolation_time, ISOLATIONS);
    if let Some(drain) = params.drain_time {
        fields.between("drain_time", drain, TIMEOUTS);
    }
}
