//! How far the form can be from the engine, by what the plan has and the network does not know.

use cxlab_analytic::{Classes, ErrorClass, Network, Solution, classify};

use super::Media;
use super::demand::Demand;
use crate::plan::Plan;

/// What the classes of a report are.
pub(super) struct Judged {
    /// Of the whole system's numbers.
    pub(super) all: Classes,
    /// Of each host's.
    pub(super) hosts: Vec<Classes>,
}

/// Kinds of media whose state what is drawn of the hosts' operations brings to where it stays. Others may be filled for
/// much longer, or are not known.
const SHORT_MEMORY: [&str; 3] = ["fixed", "dram", "pmem"];

/// The class of what goes to a medium without a constant latency, of a group of devices, that is used so much.
pub(super) fn of_medium(plan: &Plan, group: usize, used: f64) -> (ErrorClass, &'static str) {
    let kind = plan.scenario.devices[group].memory.kind.as_str();
    if !SHORT_MEMORY.contains(&kind) {
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
    (class, "banks and rows of a medium that was measured alone")
}

/// Judges a solution that is the mean of so many phases.
pub(super) fn judge(
    plan: &Plan,
    network: &Network,
    media: &Media,
    demand: &Demand,
    (solution, phases): (&Solution, usize),
) -> Judged {
    use ErrorClass::{DoNotUse, TenPercent, ThirtyPercent};
    let (mut all, mut hosts) = classify(network, solution);
    // By host: at best these.
    let mut at_best = |host: usize, class: ErrorClass, why: &str| {
        hosts[host].at_best(class, class, why);
        all.at_best(class, class, why);
    };
    for (host, one) in demand.hosts.iter().enumerate() {
        let group = plan.hosts[host].group;
        if plan.scenario.hosts[group].issue.cache.is_some() {
            at_best(host, TenPercent, "a private cache by its steady state");
        }
        if one.is_cold() {
            at_best(
                host,
                DoNotUse,
                "the warm-up does not fill the private cache",
            );
        }
        if plan.is_finite(&plan.hosts[host]) {
            at_best(host, ThirtyPercent, "the workload ends");
        }
        if one.is_timed() {
            at_best(host, ThirtyPercent, "requests come at times of their own");
        }
        for (device, counts) in one.devices.iter().enumerate() {
            let asked = counts.iter().sum::<u64>() > 0;
            let medium = plan.devices[device]
                .memory()
                .and_then(|group| Some((group, media[group]?)));
            let Some((group, _)) = medium.filter(|(_, medium)| asked && !medium.constant) else {
                continue;
            };
            let used = solution.stations[2 * plan.links.len() + device].used;
            let (class, why) = of_medium(plan, group, used);
            at_best(host, class, why);
        }
    }
    if phases > 1 {
        for (host, classes) in hosts.iter_mut().enumerate() {
            let ends = plan.scenario.hosts[plan.hosts[host].group]
                .requests
                .is_some();
            let class = if ends { DoNotUse } else { ThirtyPercent };
            classes.at_best(class, class, "hosts end");
        }
        all.at_best(ThirtyPercent, ThirtyPercent, "hosts end");
    }
    Judged { all, hosts }
}
