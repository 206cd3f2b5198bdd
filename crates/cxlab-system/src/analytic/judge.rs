//! Error classes of the form, from features of the plan that the queueing network does not model.

use cxlab_analytic::{ErrorClass, ErrorClasses, Network, Solution, classify};
use cxlab_plan::Plan;

use super::{Media, UnjudgedForm};

/// The error classes of a report.
pub(super) struct ClassJudgements {
    /// Classes of the whole system's numbers.
    pub(super) all: ErrorClasses,
    /// Classes of each host's numbers.
    pub(super) hosts: Vec<ErrorClasses>,
}

/// Kinds of media whose state settles within the drawn operations. Other media may take much longer, or are not known.
const SHORT_MEMORY: [&str; 4] = ["fixed", "curves", "dram", "pmem"];

/// Whether the medium of a device group may need more than the drawn operations to settle.
fn is_long(plan: &Plan, group: usize) -> bool {
    !SHORT_MEMORY.contains(&plan.scenario.devices[group].memory.kind.as_str())
}

/// Error class of requests to the medium of a device group, without a constant latency, at utilization `used`; and its reason.
fn of_medium(plan: &Plan, group: usize, used: f64) -> (ErrorClass, &'static str) {
    if is_long(plan, group) {
        return (
            ErrorClass::DoNotUse,
            "a medium whose state is longer than what is drawn",
        );
    }
    let class = match used {
        ..0.15 => ErrorClass::TenPercent,
        ..0.4 => ErrorClass::ThirtyPercent,
        _ => ErrorClass::DoNotUse,
    };
    let why = match plan.media.devices[group].latency_follows_load() {
        true => "curves of a medium, whose waits were measured at half load alone",
        false => "banks and rows of a medium that was measured alone",
    };
    (class, why)
}

/// Error classes of hosts whose requests differ from their workloads, also to devices without a constant latency.
pub(super) fn of_others(
    plan: &Plan,
    (network, solution): (&Network, &Solution),
    changing: impl Iterator<Item = usize>,
) -> Vec<ErrorClasses> {
    let (_, mut hosts) = classify(network, solution);
    for device in changing {
        let Some(group) = plan.devices[device].memory() else {
            continue;
        };
        let used = solution.stations[2 * plan.links.len() + device].used;
        let (class, why) = of_medium(plan, group, used);
        for classes in &mut hosts {
            classes.at_best(class, class, why);
        }
    }
    hosts
}

/// The devices whose media have no constant latency, by number.
pub(super) fn changing(plan: &Plan, media: &Media) -> Vec<usize> {
    let changes = |device: &usize| {
        let group = plan.devices[*device].memory();
        group
            .and_then(|group| media[group])
            .is_some_and(|medium| !medium.constant)
    };
    (0..plan.devices.len()).filter(changes).collect()
}

/// Origin of the numbers to be judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Of {
    /// Numbers of the form alone.
    Form,
    /// Numbers that event runs have corrected: only effects that these runs do not reach can still be wrong.
    Runs,
}

/// Judges the numbers of a form. The classes of all and of each host are `found` at best.
pub(super) fn judge(
    plan: &Plan,
    computed: &UnjudgedForm,
    found: (ErrorClasses, Vec<ErrorClasses>),
    of: Of,
) -> ClassJudgements {
    use ErrorClass::{DoNotUse, TenPercent, ThirtyPercent};
    let (mut all, mut hosts) = found;
    let UnjudgedForm {
        demand,
        media,
        solution,
        ..
    } = computed;
    // Limits the classes of a host, and of all.
    let mut at_best = |host: usize, class: ErrorClass, why: &str| {
        hosts[host].at_best(class, class, why);
        all.at_best(class, class, why);
    };
    for (host, one) in demand.hosts.iter().enumerate() {
        let group = plan.hosts[host].group;
        let issue = plan.scenario.hosts[group].requester();
        if of == Of::Form && issue.is_some_and(|issue| issue.cache.is_some()) {
            at_best(host, TenPercent, "a private cache by its steady state");
        }
        if one.is_cold() {
            let why = "the warm-up does not fill the private cache";
            at_best(host, DoNotUse, why);
        }
        if plan.is_finite(&plan.hosts[host]) {
            // A trace or a program has phases, and no mixture of them is one of them.
            let why = "the workload ends, and asks for other things as it goes on";
            at_best(host, DoNotUse, why);
        }
        if one.is_timed() {
            at_best(host, ThirtyPercent, "requests come at times of their own");
        }
        for (device, counts) in one.devices.iter().enumerate() {
            let asked = counts.iter().sum::<u64>() > 0;
            let medium = plan.devices[device].memory().filter(|_| asked);
            let medium = medium.and_then(|group| Some((group, media[group]?)));
            let Some((group, _)) = medium.filter(|(_, medium)| !medium.constant) else {
                continue;
            };
            let used = solution.stations[2 * plan.links.len() + device].used;
            let (class, why) = of_medium(plan, group, used);
            if of == Of::Form || is_long(plan, group) {
                at_best(host, class, why);
            }
        }
    }
    // A host that has ended before the window may still have its last requests in it.
    let group = |host: usize| &plan.scenario.hosts[plan.hosts[host].group];
    let limited = |host: usize| group(host).requests.is_some();
    let over = (0..hosts.len()).any(|host| limited(host) && solution.rates[host] <= 0.0);
    if computed.phases > 1 || over {
        for (host, classes) in hosts.iter_mut().enumerate() {
            let ends = limited(host);
            let class = if ends { DoNotUse } else { ThirtyPercent };
            classes.at_best(class, class, "hosts end");
        }
        all.at_best(ThirtyPercent, ThirtyPercent, "hosts end");
    }
    ClassJudgements { all, hosts }
}
