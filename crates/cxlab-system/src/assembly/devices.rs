//! The reports on devices.

use cxlab_device::{DcohStats, DeviceStats};

use super::Context;
use super::measures::{mean_ns, values};
use crate::intervals::Intervals;
use crate::report::{Denied, DeviceCoherence, DeviceLoad, DeviceReport, DeviceViral, Wait};
use crate::system::{Node, System};

/// The reports on all devices but accelerators.
pub(super) fn all(
    system: &System,
    context: &Context<'_>,
    intervals: &Intervals<'_>,
) -> Vec<DeviceReport> {
    let devices = (0..system.devices).filter_map(|number| {
        let node = system.simulation.component(system.hosts + number).inside();
        let read = context.readings.devices.get(number)?.as_ref()?;
        let (coherence, told, medium) = match node {
            // What a medium counts cannot be divided into what was measured and what was not.
            _ if context.sampling.is_some() => (None, None, Vec::new()),
            Node::Device(device) => (
                None,
                device.reported_loads(),
                device.medium_statistics(context.end),
            ),
            Node::Coherent(device) => (
                Some(device.coherence_stats()),
                device.reported_loads(),
                device.medium_statistics(context.end),
            ),
            _ => return None,
        };
        let (stats, waits) = (&read.stats, &read.waits);
        Some(DeviceReport {
            name: context.plan.devices[number].name.clone(),
            reads: stats.reads,
            writes: stats.writes,
            speculative_reads: (stats.speculative_reads > 0).then_some(stats.speculative_reads),
            denied: context.denied(Denied {
                reads: stats.denied_reads,
                writes: stats.denied_writes,
            }),
            load: told.map(DeviceLoad::of),
            media_errors: match node {
                Node::Device(device) => device.media_errors(),
                _ => None,
            },
            viral: context.plan.devices[number].viral().map(|at| DeviceViral {
                since_ns: at.0 as f64 / 1e3,
                dropped_writes: stats.dropped_writes,
            }),
            bandwidth_gb_per_s: context.bandwidth(stats.reads, stats.writes),
            wait_ns: Wait::of(&waits.all, taken(stats)),
            medium_wait_ns: mean_ns(waits.medium_ps, taken(stats)),
            ci95: intervals.of_device(number),
            coherence: coherence.map(DeviceCoherence::from),
            medium: values(medium),
        })
    });
    devices.collect()
}

/// Requests that a device took: served or denied.
fn taken(stats: &DeviceStats) -> u64 {
    stats.reads + stats.writes + stats.denied_reads + stats.denied_writes
}

impl DeviceLoad {
    fn of([light, optimal, moderate, severe]: [u64; 4]) -> DeviceLoad {
        DeviceLoad {
            light,
            optimal,
            moderate,
            severe,
        }
    }
}

impl From<DcohStats> for DeviceCoherence {
    fn from(stats: DcohStats) -> Self {
        DeviceCoherence {
            requests: stats.requests(),
            filter_hits: stats.filter_hits,
            filter_misses: stats.filter_misses,
            evictions: stats.evictions,
            snoops: stats.snoops.iter().sum(),
            block_snoops: stats.block_snoops,
            joined_snoops: (stats.joined_snoops > 0).then_some(stats.joined_snoops),
            invalidated: stats.invalidated,
            writebacks: stats.writebacks,
            conflicts: stats.conflicts,
            peak_entries: stats.peak_entries,
            line_wait_ns: stats.line_wait.as_nanos_f64(),
            entry_wait_ns: stats.entry_wait.as_nanos_f64(),
            snoop_wait_ns: stats.snoop_wait.as_nanos_f64(),
        }
    }
}
