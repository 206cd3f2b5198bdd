//! External ports: hosts whose requests another program hands over while the simulation runs.

use cxlab_host::LoadMiss;
use cxlab_scenario::{HostGroup, HostKind, Scenario};

use crate::plan::Plan;
use crate::problem::{Problem, Problems};

/// Checks the keys of external ports, and that every other host has a workload.
pub(crate) fn check(scenario: &Scenario, problems: &mut Problems) {
    for (at, group) in scenario.hosts.iter().enumerate() {
        let path = format!("hosts[{at}]");
        match group.external {
            true => check_port(group, &path, problems),
            false => check_host(group, &path, problems),
        }
    }
    let ports = scenario.hosts.iter().any(|group| group.external);
    if ports && scenario.measure.sampling.is_some() {
        let found = "a sampled run of a system with an external port, whose requests cannot be taken in advance";
        problems.refuse("measure.sampling", found, "hosts with a workload");
    }
}

fn check_port(group: &HostGroup, path: &str, problems: &mut Problems) {
    const ALLOWED: &str = "without this key: the program that uses the port decides it";
    let given = [
        ("workload", group.has_workload),
        ("requests", group.requests.is_some()),
    ];
    for (field, _) in given.iter().filter(|(_, given)| *given) {
        let found = format_args!("`{field}` on a host of kind \"external\"");
        problems.refuse(format!("{path}.{field}"), found, ALLOWED);
    }
    for kind in group.kinds() {
        if !matches!(kind, HostKind::Requester(_)) {
            let found = format_args!("`{}` on a host of kind \"external\"", kind.key());
            let allowed = "`issue`, which limits the requests of the port";
            problems.refuse(format!("{path}.{}", kind.key()), found, allowed);
        }
    }
    if group.snooped {
        check_snooped(group, path, problems);
    }
}

/// Checks a port whose program has caches. The port's own cache has all lines that they have.
fn check_snooped(group: &HostGroup, path: &str, problems: &mut Problems) {
    let cache = group.requester().and_then(|issue| issue.cache.as_ref());
    match cache {
        None => problems.refuse(
            format!("{path}.snooped"),
            "true without `issue.cache`",
            "issue = { cache = { size = ... } }, at least the size of the program's caches",
        ),
        Some(cache) if cache.load_request == LoadMiss::MemRdSnpCur => problems.refuse(
            format!("{path}.issue.cache.load_request"),
            "\"MemRd-SnpCur\" with `snooped`, so that the program's caches have lines that the port has not",
            "\"MemRd-SnpData\" or \"MemRdData\"",
        ),
        Some(_) => {}
    }
}

fn check_host(group: &HostGroup, path: &str, problems: &mut Problems) {
    let given = [("depth", group.depth.is_some()), ("snooped", group.snooped)];
    for (field, _) in given.iter().filter(|(_, given)| *given) {
        let found = format_args!("`{field}` on a host with a workload");
        problems.refuse(format!("{path}.{field}"), found, "with kind = \"external\"");
    }
    if !group.has_workload {
        let message = "missing required key `workload`; allowed: a workload such as { kind = \"uniform\" } (`cxlab \
                       list workloads`), or a kind of host without one such as kind = \"external\"";
        problems.push(Problem::new(path, message));
    }
}

impl Plan {
    /// Whether a host is an external port.
    pub fn is_external(&self, host: usize) -> bool {
        self.scenario.hosts[self.hosts[host].group].external
    }

    /// Refuses a plan with external ports, for everything that runs without the program that uses them.
    ///
    /// # Errors
    /// A problem for each group of external ports.
    pub fn refuse_external(&self) -> Result<(), Vec<Problem>> {
        let mut problems = Problems::default();
        let groups = self.scenario.hosts.iter().enumerate();
        for (at, group) in groups.filter(|(_, group)| group.external) {
            problems.refuse(
                format!("hosts[{at}].kind"),
                format_args!(
                    "\"external\": the requests of `{}` come from another program, and none is attached",
                    group.name
                ),
                "a program that loads the scenario through libcxlab (include/cxlab.h), or a `workload` \
                 in place of `kind`",
            );
        }
        problems.into_result(())
    }

    /// Refuses events after which an external port issues nothing, so that its requests would never complete.
    pub(crate) fn check_external_events(&self) -> Result<(), Problem> {
        let mut hosts = (0..self.hosts.len()).filter(|host| self.is_external(*host));
        match hosts.find(|host| self.hosts[*host].leaves.is_some()) {
            Some(host) => Err(Problem::refused(
                "events",
                format_args!(
                    "an event by which `{}`, a host of kind \"external\", leaves",
                    self.hosts[host].name
                ),
                "hosts with a workload",
            )),
            None => Ok(()),
        }
    }
}
