//! Checks media errors: lines for which their device returns poison.

use cxlab_engine::units::{Bytes, LINE_BYTES};
use cxlab_scenario::Scenario;

use crate::events::keeps_lines;
use crate::problem::Problems;

/// Whether lines of some device may be poisoned.
pub(crate) fn has_any(scenario: &Scenario) -> bool {
    let mut groups = scenario.devices.iter();
    groups.any(|group| group.media_errors.is_some())
}

/// Checks the errors, and that all components define their behaviour under poison.
pub(crate) fn check(scenario: &Scenario, problems: &mut Problems) {
    for (at, group) in scenario.devices.iter().enumerate() {
        let Some(errors) = &group.media_errors else {
            continue;
        };
        let path = format!("devices[{at}].media_errors");
        if group.is_hdm_db() {
            let found = "media errors of a device with class = \"hdm-db\"";
            problems.refuse(&path, found, "with \"hdm-h\"");
        }
        let Bytes(capacity) = group.capacity;
        let wrong = |dpa: &u64| !dpa.is_multiple_of(LINE_BYTES) || *dpa >= capacity;
        if let Some((place, dpa)) = errors.poison.iter().enumerate().find(|(_, dpa)| wrong(dpa)) {
            let allowed = format_args!("multiples of 64 below the capacity, {capacity}");
            problems.refuse(format!("{path}.poison[{place}]"), dpa, allowed);
        }
    }
    if !has_any(scenario) {
        return;
    }
    for (at, group) in scenario.hosts.iter().enumerate() {
        if let Some(part) = keeps_lines(group) {
            problems.refuse(
                format!("hosts[{at}].{part}"),
                format_args!("`{part}` beside devices with media_errors"),
                "requesters without caches, with `issue` alone, and processors",
            );
        }
    }
}
