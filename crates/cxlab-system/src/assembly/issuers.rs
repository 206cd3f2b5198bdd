//! The reports on hosts and accelerators.

use cxlab_agent::HwThreads;
use cxlab_engine::units::SimTime;
use cxlab_host::{CoherenceStats, Core, ThreadTimes, ThrottleStats};
use cxlab_memory::Statistic;

use super::measures::{all_latency, latency, values};
use super::{Context, Totals, stages_ns};
use crate::host::Host;
use crate::intervals::Intervals;
use crate::readings::IssuerReadings;
use crate::report::{
    CoreReport, CoreThread, Denied, FailedRequests, HostCi95, HostCoherence, HostReport,
    PhaseReport, ThreadPhaseReport, ThrottleReport, UnservedLatency,
};
use crate::system::System;

/// The reports on hosts and on accelerators, and the sums over all of them.
///
/// # Errors
/// An issuer that was not read, which is our own mistake.
pub(super) fn all(
    system: &System,
    context: &Context<'_>,
    intervals: &Intervals<'_>,
) -> Result<(Vec<HostReport>, Vec<HostReport>, Totals), String> {
    let mut totals = Totals::default();
    let mut hosts = Vec::with_capacity(system.hosts);
    let mut accelerators = Vec::new();
    let mut issuers = 0;
    for number in 0..system.hosts + system.devices {
        let Some(host) = system.simulation.component(number).host() else {
            continue;
        };
        let Some(read) = context.readings.issuers.get(issuers) else {
            return Err(format!("issuer {issuers} was not read"));
        };
        totals.add(&read.stats, host.requests_in_flight(), read.integral);
        let ci95 = intervals.of_issuer(issuers);
        issuers += 1;
        let (list, name) = match number.checked_sub(system.hosts) {
            None => (&mut hosts, &context.plan.hosts[number].name),
            Some(device) => (&mut accelerators, &context.plan.devices[device].name),
        };
        list.push(host_report(name, host, read, ci95, context));
    }
    for (host, done) in hosts.iter_mut().zip(&system.enumerated) {
        host.enumeration = Some(done.into());
    }
    Ok((hosts, accelerators, totals))
}

fn host_report(
    name: &str,
    host: &Host,
    read: &IssuerReadings<'_>,
    ci95: HostCi95,
    context: &Context<'_>,
) -> HostReport {
    let stats = &read.stats;
    let (denied, failed) = (Denied::of(stats), FailedRequests::of(stats));
    let served = stats.latency();
    let counts = |counts: Option<Vec<Statistic>>| values(counts.unwrap_or_default());
    HostReport {
        name: name.to_owned(),
        issued: stats.issued,
        completed: stats.reads + stats.writes,
        reads: stats.reads,
        writes: stats.writes,
        cache_hits: stats.cache_hits,
        denied: context.denied(denied),
        failed: context.failed(failed),
        throttle: host.throttle().map(ThrottleReport::from),
        bandwidth_gb_per_s: context.bandwidth(
            stats.reads - denied.reads - failed.reads(),
            stats.writes - denied.writes - failed.writes(),
        ),
        latency_ns: latency(&served),
        stages_ns: stages_ns(stats.stages_ps.map(u128::from), served.count()),
        unserved_latency_ns: UnservedLatency::of(stats.unserved()),
        all_latency_ns: all_latency(&served, stats.unserved()),
        in_flight: read.integral as f64 / 1e3 / context.window_ns().max(1e-3),
        ci95,
        enumeration: None,
        coherence: host.coherence().map(HostCoherence::from),
        core: host.core().map(|core| CoreReport::of(core, context.end)),
        phases: host
            .hw_threads()
            .map_or_else(Vec::new, ThreadPhaseReport::all),
        processor: counts(
            host.processor()
                .map(|processor| processor.counts(context.end)),
        ),
        accelerator: counts(host.accelerator().map(|device| device.counts(context.end))),
    }
}

impl From<ThrottleStats> for ThrottleReport {
    fn from(stats: ThrottleStats) -> Self {
        ThrottleReport {
            faster: stats.faster,
            slower: stats.slower,
            held: stats.held as f64 / stats.periods.max(1) as f64,
            rate_gb_per_s: stats.rate.map(|rate| rate.as_gb_per_s()),
        }
    }
}

impl ThreadPhaseReport {
    fn all(hw_threads: &HwThreads) -> Vec<ThreadPhaseReport> {
        let used = hw_threads.phases().filter(|(_, stats)| stats.completed > 0);
        used.map(|(phase, stats)| {
            let time_ns = stats.time().0 as f64 / 1e3;
            let busy_ps = stats.busy().0;
            let per_ns = |count: f64| if time_ns > 0.0 { count / time_ns } else { 0.0 };
            ThreadPhaseReport {
                name: phase.name.clone(),
                operations: stats.operations,
                steps: stats.completed,
                time_ns,
                operations_per_second: 1e9 * per_ns(stats.operations as f64),
                on_memory: stats.on_memory,
                on_cxl: stats.on_cxl,
                from_own: stats.from_own,
                from_cxl: stats.from_cxl,
                bytes: stats.bytes,
                busy_ns: busy_ps as f64 / 1e3,
                bandwidth_gb_per_s: stats.bytes as f64 * 1e3 / busy_ps.max(1) as f64,
                latency_ns: latency(&stats.latency),
            }
        })
        .collect()
    }
}

impl CoreReport {
    fn of(core: &Core, end: SimTime) -> CoreReport {
        let stats = core.core_stats();
        let phases = core.phases().iter().zip(&stats.phases);
        CoreReport {
            loads: stats.loads,
            stores: stats.stores,
            flushes: stats.flushes,
            flushes_dirty: stats.flushes_dirty,
            hits: stats.hits.clone(),
            merged: stats.merged,
            misses: stats.misses,
            prefetches: Some(stats.prefetches).filter(|lines| *lines > 0),
            outstanding_ns: stats.outstanding_ps as f64 / 1e3,
            phases: phases
                .map(|(phase, stats)| {
                    let time_ns = stats.time().0 as f64 / 1e3;
                    let per_ns = |count: f64| if time_ns > 0.0 { count / time_ns } else { 0.0 };
                    PhaseReport {
                        name: phase.name.clone(),
                        operations: stats.operations,
                        steps: stats.issued,
                        time_ns,
                        operations_per_second: 1e9 * per_ns(stats.operations as f64),
                        bandwidth_gb_per_s: per_ns(stats.operations as f64 * phase.bytes.0 as f64),
                        load_latency_ns: stats.load_ps as f64 / 1e3 / stats.loads.max(1) as f64,
                    }
                })
                .collect(),
            threads: threads(core),
            memory: values(core.local_statistics(end).unwrap_or_default()),
        }
    }
}

/// Times of the threads of a program that has several.
fn threads(core: &Core) -> Vec<CoreThread> {
    let times = core.thread_times();
    let thread = |times: &ThreadTimes| CoreThread {
        begin_ns: times.begin.0 as f64 / 1e3,
        end_ns: times.end.0 as f64 / 1e3,
        waited_ns: times.waited.0 as f64 / 1e3,
    };
    let several = times.iter().filter(|_| times.len() > 1);
    several.map(thread).collect()
}

impl From<&CoherenceStats> for HostCoherence {
    fn from(stats: &CoherenceStats) -> Self {
        HostCoherence {
            hits: stats.hits,
            misses: stats.misses,
            merged: stats.merged,
            upgrades: stats.upgrades,
            clean_evictions: stats.clean_evictions,
            dirty_evictions: stats.dirty_evictions,
            invalidated: stats.invalidated,
            snoop_writebacks: stats.snoop_writebacks,
            conflicts: stats.conflicts,
        }
    }
}
