//! A report as tables to read.

use cxlab_plan::Plan;
use serde_json::{Map, Value};

use crate::layout::{
    SHOWN, busiest_links, count, listed, more_than, nanos, plus_minus, plus_minus_nanos, row, size,
    stages, table,
};
use crate::report::{Denied, HostReport, Latency, Report, Wait};

fn latency_row(name: &str, latency: &Latency, width: Option<f64>) -> Vec<String> {
    let Latency {
        min,
        p50,
        p90,
        p99,
        p999,
        max,
        ..
    } = *latency;
    let mean = [
        name.to_owned(),
        nanos(latency.mean),
        plus_minus_nanos(width),
    ];
    let values = [min, p50, p90, p99, p999, max].map(nanos);
    mean.into_iter().chain(values).collect()
}

fn programs(report: &Report) -> String {
    let cores = report.hosts.iter();
    let cores = cores.filter_map(|host| Some((&host.name, host.core.as_ref()?)));
    let head = "program | phase | operations | time, us | op/s | GB/s | load, ns";
    listed(head, &cores.collect::<Vec<_>>(), |(name, core)| {
        let phases = core.phases.iter().filter(|phase| phase.steps > 0);
        phases.map(|phase| {
            vec![
                (*name).clone(),
                phase.name.clone(),
                count(phase.operations),
                format!("{:.3}", phase.time_ns / 1e3),
                format!("{:.0}", phase.operations_per_second),
                format!("{:.3}", phase.bandwidth_gb_per_s),
                nanos(phase.load_latency_ns),
            ]
        })
    })
}

/// Statistics of the threads of processors and accelerators.
fn threads(report: &Report) -> String {
    let all = report.hosts.iter().chain(&report.accelerators);
    let running: Vec<&HostReport> = all.filter(|one| !one.phases.is_empty()).collect();
    let head = "threads | phase | operations | time, us | op/s | GB/s | p50, ns | p99, ns";
    listed(head, &running, |one| {
        one.phases.iter().map(|phase| {
            vec![
                one.name.clone(),
                phase.name.clone(),
                count(phase.operations),
                format!("{:.3}", phase.time_ns / 1e3),
                format!("{:.0}", phase.operations_per_second),
                format!("{:.3}", phase.bandwidth_gb_per_s),
                nanos(phase.latency_ns.p50),
                nanos(phase.latency_ns.p99),
            ]
        })
    })
}

/// A row of statistics by name: counts as they are, times with a digit.
fn statistics(name: &str, values: &Map<String, Value>, fields: &str) -> Option<Vec<String>> {
    let cell = |field: &str| {
        let value = values.get(field)?.as_f64()?;
        Some(match field.ends_with("_ns") {
            true => nanos(value),
            false => count(value as u64),
        })
    };
    let name = [Some(name.to_owned())].into_iter();
    name.chain(fields.split_whitespace().map(cell)).collect()
}
/// Statistics of address translation and page migration, if there is an operating system.
fn translation(report: &Report) -> String {
    let fields = "tlb_misses page_walk_ns page_faults page_fault_ns page_requests pages_promoted \
                  pages_demoted page_move_ns";
    let head = "memory of | TLB misses | walk, ns | faults | ns each | of devices | promoted | \
                demoted | move, ns";
    let hosts = report.hosts.iter();
    let hosts = hosts.filter_map(|one| statistics(&one.name, &one.processor, fields));
    let text = listed(head, &hosts.collect::<Vec<_>>(), |row| [row.clone()]);
    let fields = "atc_hits atc_misses atc_miss_ns page_requests atc_invalidations page_blocks \
                  page_block_ns";
    let head = "translation of | ATC hits | misses | ns each | page requests | invalidations | \
                blocked | ns each";
    let devices = report.accelerators.iter();
    let devices = devices.filter_map(|one| statistics(&one.name, &one.accelerator, fields));
    text + &listed(head, &devices.collect::<Vec<_>>(), |row| [row.clone()])
}

/// Denied requests, by host and by device.
fn denials(report: &Report) -> String {
    let hosts = report.hosts.iter().map(|one| (&one.name, one.denied));
    let devices = report.devices.iter().map(|one| (&one.name, one.denied));
    let list = |head: &str, all: Vec<(&String, Option<Denied>)>| {
        let some = |(name, denied): (&String, Option<Denied>)| {
            let denied = denied.filter(|denied| denied.total() > 0)?;
            Some(vec![
                name.clone(),
                count(denied.reads),
                count(denied.writes),
            ])
        };
        let found: Vec<Vec<String>> = all.into_iter().filter_map(some).collect();
        listed(&format!("{head} | reads | writes"), &found, |row| {
            [row.clone()]
        })
    };
    list("denied to", hosts.collect()) + &list("denied by", devices.collect())
}

/// Commands of the fabric manager with their times.
fn commands(report: &Report) -> String {
    let head = "command | of | issued, us | done, us | response";
    listed(head, &report.commands, |one| {
        let done = one.done_ns.map(|done| format!("{:.3}", done / 1e3));
        [vec![
            format!("{} ({})", one.command, one.opcode),
            one.of.clone(),
            format!("{:.3}", one.issued_ns / 1e3),
            done.unwrap_or_default(),
            one.response.clone().unwrap_or_default(),
        ]]
    })
}

fn pools(report: &Report) -> String {
    let head = "pool, GiB | policy | of | demands | refused | needed | held | idle | unmet | \
                stranded | free runs | extents";
    listed(head, &report.pools, |one| {
        let means = [
            one.needed_gib,
            one.held_gib,
            one.idle_gib,
            one.unmet_gib,
            one.stranded_gib,
        ];
        let first = [
            one.region.clone(),
            one.policy.clone(),
            format!("{}", one.capacity_gib),
            count(one.demands),
            count(one.refused),
        ];
        let most = [count(one.most_free_runs), count(one.most_extents)];
        let means = means.map(|mean| format!("{mean:.2}"));
        [first.into_iter().chain(means).chain(most).collect()]
    })
}

/// Enumeration of the host that took longest; empty if no host enumerates.
fn enumeration(report: &Report) -> String {
    let all = report.hosts.iter();
    let all = all.filter_map(|host| Some((&host.name, host.enumeration.as_ref()?)));
    let Some((name, last)) = all.max_by(|a, b| a.1.duration_ns.total_cmp(&b.1.duration_ns)) else {
        return String::new();
    };
    format!(
        "  enumeration {:.3} us: {} accesses, {} functions, {} devices ({name}, the last host)\n",
        last.duration_ns / 1e3,
        count(last.accesses.total()),
        last.functions,
        last.devices,
    )
}

/// The units of a sampled run, and the estimated time of all its requests.
fn sampling(report: &Report) -> String {
    let Some(sampling) = &report.extent.sampling else {
        return String::new();
    };
    let time = match sampling.time_ns {
        Some(time) => format!(
            "{:.3} {} us",
            time / 1e3,
            plus_minus(sampling.time_ci95_ns.map(|width| width / 1e3), 3)
        ),
        None => "an unknown time".to_owned(),
    };
    format!(
        "  sampled: {} units measured {:.2} % of {} requests, which take {time} (estimated); counts and percentiles \
         are of the units\n",
        count(sampling.units),
        100.0 * sampling.measured_fraction,
        count(sampling.requests),
    )
}

/// Counts of the window's requests that completed otherwise than by a response from memory.
fn outcomes(report: &Report) -> String {
    let mut text = String::new();
    if report.requests.cache_hits > 0 {
        text.push_str(&format!(
            "  {} answered by private caches, {} dirty lines written back\n",
            count(report.requests.cache_hits),
            count(report.requests.writebacks)
        ));
    }
    if report.requests.overfetched > 0 {
        let lines = count(report.requests.overfetched);
        text.push_str(&format!("  {lines} lines read in vain besides\n"));
    }
    if let Some(denied) = &report.requests.denied {
        text.push_str(&format!(
            "  {} of them denied ({} reads without data, {} writes dropped)\n",
            count(denied.total()),
            count(denied.reads),
            count(denied.writes)
        ));
    }
    if let Some(failed) = &report.requests.failed {
        text.push_str(&format!(
            "  {} of them failed ({} timed out, {} cut off, {} poisoned)",
            count(failed.total()),
            count(failed.timed_out_reads + failed.timed_out_writes),
            count(failed.cut_off_reads + failed.cut_off_writes),
            count(failed.poisoned_reads + failed.poisoned_writes),
        ));
        if let Some(all) = &report.failures {
            text.push_str(&format!(
                "; {} messages lost, {} responses after their timeout\n  {} failures and repairs, {} changes of the \
                 routing",
                count(all.lost_messages),
                count(all.late_answers),
                count(all.changes),
                count(all.routing_changes),
            ));
            if all.delayed_routing_changes > 0 {
                text.push_str(&format!(
                    ", {} of them delayed by up to {} ns",
                    count(all.delayed_routing_changes),
                    nanos(all.longest_routing_delay_ns)
                ));
            }
            if all.discarded_messages > 0 {
                let discarded = count(all.discarded_messages);
                text.push_str(&format!("; {discarded} messages discarded"));
            }
        }
        text.push('\n');
    }
    text
}

fn rates(report: &Report) -> String {
    let (bandwidth, ci95) = (&report.bandwidth_gb_per_s, &report.ci95);
    let with = |value: f64, width: Option<f64>, digits: usize| match width {
        Some(width) => format!("{value:.digits$} +-{width:.digits$}"),
        None => format!("{value:.digits$}"),
    };
    let mut text = format!(
        "  bandwidth {} GB/s (read {}, write {}); {} requests in flight\n",
        with(bandwidth.total, ci95.total_gb_per_s, 3),
        with(bandwidth.read, ci95.read_gb_per_s, 3),
        with(bandwidth.write, ci95.write_gb_per_s, 3),
        with(report.littles_law.in_flight, ci95.in_flight, 1),
    );
    text.push_str(&match &ci95.reason {
        Some(reason) => format!("  rows with - have no interval: {reason}\n"),
        None => "  +- is half of a 95 % confidence interval; percentiles have none\n".to_owned(),
    });
    text
}

/// Most issuers that are shown where each is the first of its group.
const MOST_GROUPS: usize = 32;

/// Which issuers have a row, of those with these groups: the first of each group, and the first others up to
/// [`SHOWN`] in all.
fn shown(groups: &[usize]) -> Vec<usize> {
    let is_first = |number: &usize| !groups[..*number].contains(&groups[*number]);
    let (mut shown, others): (Vec<usize>, Vec<usize>) = (0..groups.len()).partition(is_first);
    shown.truncate(MOST_GROUPS);
    let left = SHOWN.saturating_sub(shown.len());
    shown.extend(others.into_iter().take(left));
    shown.sort_unstable();
    shown
}

/// Latencies of requests by how they ended, and by issuer.
fn latencies(plan: &Plan, report: &Report) -> String {
    let mut rows = vec![row(
        "latency, ns | mean | +- | min | p50 | p90 | p99 | p99.9 | max",
    )];
    let unserved = &report.unserved_latency_ns;
    let name = match unserved.named().next() {
        None => "all requests",
        Some(_) => "served",
    };
    let width = report.ci95.latency_ns;
    rows.push(latency_row(name, &report.latency_ns, width));
    if report.requests.reads > 0 && report.requests.writes > 0 {
        let width = report.ci95.read_latency_ns;
        rows.push(latency_row("reads", &report.read_latency_ns, width));
    }
    for (name, latency) in unserved.named() {
        rows.push(latency_row(name, latency, None));
    }
    if let Some(all) = &report.all_latency_ns {
        rows.push(latency_row("all requests", all, None));
    }
    if let Some(operations) = &report.operations {
        rows.push(latency_row("operations", &operations.latency_ns, None));
    }
    let hosts = report.hosts.iter().zip(&plan.hosts);
    let hosts = hosts.map(|(one, planned)| (one, planned.group));
    // Accelerators have one group, apart from those of hosts.
    let accelerators = report.accelerators.iter().map(|one| (one, usize::MAX));
    let issuers = hosts.chain(accelerators);
    let busy: Vec<_> = issuers.filter(|(one, _)| one.completed > 0).collect();
    if busy.len() > 1 {
        let groups: Vec<usize> = busy.iter().map(|(_, group)| *group).collect();
        let shown = shown(&groups);
        for (one, _) in shown.iter().map(|number| busy[*number]) {
            rows.push(latency_row(&one.name, &one.latency_ns, one.ci95.latency_ns));
        }
        rows.extend(more_than(shown.len(), busy.len()));
    }
    format!(
        "{}  p50 to p99.9 are upper bounds (0.1 %, or 0.128 ns); all else is exact\n\n",
        table(&rows)
    )
}

/// Summary of a report as text for the user.
pub fn summary(plan: &Plan, report: &Report) -> String {
    let mut text = format!(
        "{}{}: {}, {} {}\n",
        report.provenance.scenario,
        if report.provenance.partial {
            " (PARTIAL)"
        } else {
            ""
        },
        size(plan),
        plan.scenario.fabric.topology.kind,
        plan.routing_name(),
    );
    text.push_str(&enumeration(report));
    text.push_str(&format!(
        "  window {:.3} us after {:.3} us of warm-up; {} requests completed ({} reads, {} writes)\n",
        report.extent.window_ns / 1e3,
        (report.extent.warmup_ns - report.extent.enumeration_ns.unwrap_or(0.0)) / 1e3,
        count(report.requests.completed),
        count(report.requests.reads),
        count(report.requests.writes),
    ));
    text.push_str(&sampling(report));
    text.push_str(&outcomes(report));
    text.push_str(&rates(report));
    text.push('\n');
    text.push_str(&programs(report));
    text.push_str(&threads(report));
    text.push_str(&translation(report));
    text.push_str(&denials(report));
    text.push_str(&commands(report));
    text.push_str(&pools(report));
    text.push_str(&latencies(plan, report));
    let (mean_ns, ci95) = (report.latency_ns.mean, &report.ci95.stages_ns);
    text.push_str(&stages(mean_ns, &report.stages_ns, Some(ci95)));
    text.push_str("  what each stage is: docs/reference/waits.md\n");
    if report.by_hops.len() > 1 {
        text.push('\n');
        text.push_str(&hops(report));
    }
    text.push('\n');
    let links = report.links.iter().map(|link| {
        let ci95 = Some([link.ci95.utilization, link.ci95.payload_gb_per_s]);
        (
            link.direction.as_str(),
            link.utilization,
            link.efficiency,
            link.payload_gb_per_s,
            ci95,
        )
    });
    text.push_str(&busiest_links(links.collect()));
    text.push_str(&longest_waits(report));
    if let Some(bottleneck) = &report.bottleneck {
        text.push_str(&format!("\n  bottleneck: {}\n", bottleneck.text));
    }
    text.push_str(&format!(
        "\n  {} events in {:.3} s: {:.2} M events/s, {} requests/s; digest {}\n",
        count(report.extent.events),
        report.extent.wall_seconds,
        report.extent.events_per_second / 1e6,
        count(report.requests.per_wall_second as u64),
        report.provenance.digest
    ));
    text
}

fn hops(report: &Report) -> String {
    let mut rows = vec![row(
        "links crossed | requests | mean ns | +- | in queues ns | +-",
    )];
    for hops in &report.by_hops {
        rows.push(vec![
            hops.hops.to_string(),
            count(hops.count),
            nanos(hops.mean_ns),
            plus_minus_nanos(hops.ci95.mean_ns),
            nanos(hops.queue_ns),
            plus_minus_nanos(hops.ci95.queue_ns),
        ]);
    }
    table(&rows)
}

/// The places where requests wait longest in all: outputs of hosts, switches and devices, and devices.
fn longest_waits(report: &Report) -> String {
    let outputs = report.links.iter().map(|link| {
        let part = ("for credits", link.credit_wait_ns);
        (link.direction.as_str(), link.messages, link.wait_ns, part)
    });
    let devices = report.devices.iter().map(|device| {
        let part = ("for the medium", device.medium_wait_ns);
        (device.name.as_str(), device.taken(), device.wait_ns, part)
    });
    let mut all: Vec<_> = outputs.chain(devices).collect();
    // Waits that would show as 0.0 are left out.
    all.retain(|(_, _, wait, _)| wait.mean >= 0.05);
    let sum = |passed: u64, wait: Wait| wait.mean * passed as f64;
    all.sort_by(|a, b| sum(b.1, b.2).total_cmp(&sum(a.1, a.2)));
    if all.is_empty() {
        return String::new();
    }
    let head = "longest waits, ns | messages | mean | p99 | max | part of the mean";
    let waits = listed(head, &all, |(name, passed, wait, (what, part))| {
        [vec![
            (*name).to_owned(),
            count(*passed),
            nanos(wait.mean),
            nanos(wait.p99),
            nanos(wait.max),
            format!("{} {what}", nanos(*part)),
        ]]
    });
    let waits = waits.trim_end_matches('\n');
    format!("\n{waits}\n  p99 of waits are upper bounds (12.5 %)\n")
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn one_host_of_each_group_has_a_row() {
        assert_eq!(shown(&[0, 0, 0]), [0, 1, 2]);
        let neighbours = [[0; 8].as_slice(), &[1]].concat();
        assert_eq!(shown(&neighbours), [0, 1, 2, 3, 4, 5, 6, 8]);
        let groups: Vec<usize> = (0..40).flat_map(|group| [group, group]).collect();
        let firsts: Vec<usize> = (0..32).map(|group| 2 * group).collect();
        assert_eq!(shown(&groups), firsts);
    }
}
