//! Shared regions with values: regions on which threads of several hosts compute.

use std::collections::BTreeSet;

use cxlab_engine::units::{Dpa, LINE_BYTES, LineAddr};
use cxlab_scenario::{Scenario, Sharing};
use cxlab_workload::Workload;

use crate::endpoints::PlannedHost;
use crate::extents::RegionDecoder;

/// A host's part of the shared regions with values.
#[derive(Clone, Default)]
pub struct SharedPart {
    /// Address ranges in the host's address space: first line, and the line after the last.
    pub lines: BTreeSet<(LineAddr, LineAddr)>,
    /// Address ranges in devices: number of the device, beginning and end.
    pub shares: BTreeSet<(usize, Dpa, Dpa)>,
}

/// The parts of all hosts, by host number. A host takes part if it runs threads at physical
/// addresses; an operating system would hand out a shared region as memory of its own. A region has
/// values if at least two hosts take part.
pub(crate) fn parts(
    scenario: &Scenario,
    hosts: &[PlannedHost],
    workloads: &[Box<dyn Workload>],
    extents: &[RegionDecoder],
) -> Vec<SharedPart> {
    let takes_part = |host: usize| {
        let group = &scenario.hosts[hosts[host].group];
        let threads = workloads.get(hosts[host].group);
        group.processor().is_some()
            && group.os.is_none()
            && threads.is_some_and(|workload| workload.needs_threads())
    };
    let mut parts = vec![SharedPart::default(); hosts.len()];
    for (at, region) in scenario.regions.iter().enumerate() {
        if region.sharing != Sharing::Shared {
            continue;
        }
        let is_of = |one: &&RegionDecoder| one.part.0 == at && takes_part(one.host);
        let decoders: Vec<&RegionDecoder> = extents.iter().filter(is_of).collect();
        let members: BTreeSet<usize> = decoders.iter().map(|one| one.host).collect();
        if members.len() < 2 {
            continue;
        }
        for one in decoders {
            let (base, size) = one.window;
            let lines = |bytes: u64| LineAddr(bytes / LINE_BYTES);
            let part = &mut parts[one.host];
            part.lines.insert((lines(base.0), lines(base.0 + size.0)));
            let (first, end) = (one.decoder.first, one.decoder.end());
            part.shares.insert((one.device, first, end));
        }
    }
    parts
}
