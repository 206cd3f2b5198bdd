//! Checks the workloads of processors: patterns, traces, programs, threads, and what runs beside them.

use cxlab_scenario::Scenario;
use cxlab_workload::Workload;

use crate::problem::Problems;

const MOST_REORDER: u32 = 1 << 16;

/// Checks the workloads that only processors can run, and the distribution of cores. `workloads` and
/// `beside` have the workloads of every host group, in order, or none if some could not be built.
pub(crate) fn check(
    scenario: &Scenario,
    workloads: &[Box<dyn Workload>],
    beside: &[Option<Box<dyn Workload>>],
    problems: &mut Problems,
) {
    for (at, group) in scenario.hosts.iter().enumerate() {
        let path = format!("hosts[{at}]");
        let Some(processor) = group.processor() else {
            let given = [
                ("span", group.span.is_some()),
                ("beside", group.beside.is_some()),
            ];
            for (field, _) in given.iter().filter(|(_, there)| *there) {
                let found = format_args!("`{field}` on a host without a processor");
                problems.refuse(format!("{path}.{field}"), found, "with processor = {}");
            }
            continue;
        };
        let mut fields = problems.below(format!("{path}.processor"));
        fields.count("reorder", processor.reorder, MOST_REORDER);
        let (Some(workload), Some(runs)) = (workloads.get(at), beside.get(at)) else {
            continue;
        };
        let threads = workload.needs_threads();
        if threads && group.requests.is_some() {
            problems.refuse(
                format!("{path}.requests"),
                "`requests` with a workload of threads, which end by themselves",
                "with patterns, traces and programs",
            );
        }
        if group.span.is_some() && (threads || workload.needs_core()) {
            refuse_span(&path, &group.workload.kind, problems);
        }
        let (Some(beside), Some(runs)) = (&group.beside, runs) else {
            continue;
        };
        let path = format!("{path}.beside");
        if !threads {
            let kind = &group.workload.kind;
            problems.refuse(
                &path,
                format_args!("`beside` with \"{kind}\", which runs on every core"),
                "with a workload of threads, such as \"circus-tent\"",
            );
        }
        let kind = &beside.workload.kind;
        if runs.needs_threads() {
            problems.refuse(
                format!("{path}.workload.kind"),
                format_args!("\"{kind}\", which is made of threads"),
                "patterns, traces and programs",
            );
        } else if beside.span.is_some() && runs.needs_core() {
            refuse_span(&path, kind, problems);
        }
        if beside.cores == 0 || beside.cores >= processor.cores {
            let allowed = match processor.cores {
                1 => "a processor of 2 cores or more, as one is left to the threads".to_owned(),
                cores => format!("1 to {}, as one core is left to the threads", cores - 1),
            };
            problems.refuse(format!("{path}.cores"), beside.cores, allowed);
        }
    }
}

fn refuse_span(path: &str, kind: &str, problems: &mut Problems) {
    problems.refuse(
        format!("{path}.span"),
        format_args!("`span` with \"{kind}\", which says itself where its data lie"),
        "with patterns and traces",
    );
}
