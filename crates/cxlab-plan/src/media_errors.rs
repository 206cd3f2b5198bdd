//! Checks media errors: lines for which their device returns poison.

use cxlab_engine::units::{Bytes, LINE_BYTES};
use cxlab_scenario::Scenario;

use super::Problem;
use super::events::keeps_lines;

/// Whether lines of some device may be poisoned.
pub(crate) fn has_any(scenario: &Scenario) -> bool {
    let mut groups = scenario.devices.iter();
    groups.any(|group| group.media_errors.is_some())
}

/// Checks the errors, and that all components define their behaviour under poison.
pub(crate) fn check(scenario: &Scenario, problems: &mut Vec<Problem>) {
    for (at, group) in scenario.devices.iter().enumerate() {
        let Some(errors) = &group.media_errors else {
            continue;
        };
        if group.is_hdm_db() {
            problems.push(Problem::new(
                format!("devices[{at}].media_errors"),
                "found media errors of a device with class = \"hdm-db\"; allowed: with \"hdm-h\"",
            ));
        }
        let Bytes(capacity) = group.capacity;
        let wrong = |dpa: &u64| !dpa.is_multiple_of(LINE_BYTES) || *dpa >= capacity;
        if let Some((place, dpa)) = errors.poison.iter().enumerate().find(|(_, dpa)| wrong(dpa)) {
            problems.push(Problem::new(
                format!("devices[{at}].media_errors.poison[{place}]"),
                format!("found {dpa}; allowed: multiples of 64 below the capacity, {capacity}"),
            ));
        }
    }
    if !has_any(scenario) {
        return;
    }
    for (at, group) in scenario.hosts.iter().enumerate() {
        if let Some(part) = keeps_lines(group) {
            problems.push(Problem::new(
                format!("hosts[{at}].{part}"),
                format!(
                    "found `{part}` beside devices with media_errors; allowed: requesters without caches, with \
                     `issue` alone, and processors"
                ),
            ));
        }
    }
}
