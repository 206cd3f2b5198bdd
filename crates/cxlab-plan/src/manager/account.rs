//! The memory that hosts have and the devices that they are bound to, over time.

use std::collections::BTreeMap;

use cxlab_device::HostShare;
use cxlab_engine::units::Picos;
use cxlab_fabric::manager::GrantPolicy;
use cxlab_scenario::{FabricManagerParams, Scenario, Sharing};

use super::pools::{BlockPool, PlannedPool};
use super::response::PlannedCommand;
use crate::endpoints::{NamedGroups, Presence};
use crate::extents::{RegionBlock, RegionDecoder};
use crate::problem::{Problem, Problems};

/// Whether a host has memory of a region, or is bound to a device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Holding {
    No,
    /// The host is giving the memory or the device up.
    Leaving,
    Yes,
}

/// A scheduled change of the hosts' memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// A host gets, gives up or loses a region's memory.
    Hold {
        part: RegionBlock,
        host: usize,
        has: Holding,
    },
    /// A host is bound to a device, prepares for unbinding, or is unbound.
    Bind {
        host: usize,
        device: usize,
        has: Holding,
    },
    /// A host's memory of a region is scrubbed.
    Scrub { part: RegionBlock, host: usize },
    /// A host's share of a device changes.
    Share { device: usize, share: HostShare },
}

/// The memory that hosts have, and the devices that they are bound to.
#[derive(Clone, Default, Debug)]
pub(super) struct Holdings {
    /// By part of a region and host: whether the host has the part. A host without an entry
    /// does not have it.
    pub(super) held: BTreeMap<(RegionBlock, usize), Holding>,
    /// By host and device: whether the host is bound. Missing entries mean that it is.
    pub(super) bound: BTreeMap<(usize, usize), Holding>,
}

/// The simulation of the fabric manager's commands over time.
pub(crate) struct Account<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) named: &'a NamedGroups,
    pub(super) params: FabricManagerParams,
    /// By region: the numbers of its hosts and of its devices.
    pub(super) members: Vec<(Vec<usize>, Vec<usize>)>,
    /// Holdings before the first event; `now` has the current ones.
    pub(super) first: Holdings,
    pub(super) now: Holdings,
    /// End of scrubbing, by part of a region, and by host if each host has memory of its own.
    pub(super) dirty: BTreeMap<(RegionBlock, Option<usize>), Picos>,
    /// Pooled regions, by number of the region.
    pub(super) pools: BTreeMap<usize, BlockPool>,
    pub(super) policy: Box<dyn GrantPolicy>,
    /// By device and host: allocated bandwidth and limit, in 256ths.
    pub(super) shares: BTreeMap<(usize, usize), (u16, Option<u16>)>,
    /// By host and device: the time until which their unbinding waits for a link to go down.
    pub(super) waits: BTreeMap<(usize, usize), Picos>,
    /// By device: the time at which an event removes it.
    pub(super) removed: BTreeMap<usize, Picos>,
    /// The time of the last event.
    pub(super) clock: Picos,
    /// Scheduled steps, by time and sequence number.
    pub(super) coming: BTreeMap<(Picos, u64), Step>,
    pub(super) next: u64,
    /// Completed steps, in order of time.
    pub(super) steps: Vec<(Picos, Step)>,
    pub(crate) presence: Vec<Presence>,
    pub(crate) commands: Vec<PlannedCommand>,
    pub(crate) problems: Problems,
}

impl Account<'_> {
    /// Carries out the scheduled steps up to `now`.
    pub(super) fn catch_up(&mut self, now: Picos) {
        while let Some(entry) = self.coming.first_entry()
            && entry.key().0 <= now
        {
            let ((at, _), step) = entry.remove_entry();
            self.step(at, step);
        }
    }

    pub(super) fn later(&mut self, at: Picos, step: Step) {
        self.coming.insert((at, self.next), step);
        self.next += 1;
    }

    /// Carries out a step, with its consequences.
    pub(super) fn step(&mut self, at: Picos, step: Step) {
        self.steps.push((at, step));
        match step {
            Step::Hold { part, host, has } => {
                self.now.held.insert((part, host), has);
                let memory = self.memory_of((part, host));
                let mut hosts = self.members[part.0].0.iter();
                let is_free = match memory.1 {
                    Some(_) => has == Holding::No,
                    None => hosts.all(|one| self.now.region((part, *one)) == Holding::No),
                };
                if is_free {
                    if let Some(pool) = self.pools.get_mut(&part.0) {
                        pool.release(part.1);
                    }
                    let clean = at + self.params.scrub_time;
                    self.dirty.insert(memory, clean);
                    self.later(clean, Step::Scrub { part, host });
                }
            }
            Step::Bind { host, device, has } => {
                self.now.bound.insert((host, device), has);
            }
            Step::Scrub { part, .. } => {
                if let Some(pool) = self.pools.get_mut(&part.0) {
                    pool.scrubbed(at, part.1);
                }
            }
            Step::Share { .. } => {}
        }
    }

    /// The memory behind a host's part of a region: the host's own, or (`None`) common
    /// to all its hosts.
    pub(super) fn memory_of(
        &self,
        (part, host): (RegionBlock, usize),
    ) -> (RegionBlock, Option<usize>) {
        let own = match self.scenario.regions[part.0].sharing {
            Sharing::Exclusive | Sharing::Pooled => true,
            Sharing::Shared | Sharing::Moving => false,
        };
        (part, own.then_some(host))
    }

    /// All blocks of a pooled region that a host has at some time, in the order of the first grant;
    /// `None` if the region is not pooled.
    pub(crate) fn blocks(&self, region: usize, host: usize) -> Option<Vec<u32>> {
        self.pools.get(&region).map(|pool| pool.ever(host))
    }

    /// Names of the region and of the host of some memory.
    pub(super) fn names(&self, (region, host): (usize, usize)) -> (&str, &str) {
        let host = &self.named.names.requesters[host];
        (&self.scenario.regions[region].name, host)
    }

    /// The outcome of the pooled regions, and the commands.
    pub(crate) fn finish(self) -> (Vec<PlannedPool>, Vec<PlannedCommand>) {
        let (regions, policy) = (&self.scenario.regions, &self.params.policy.kind);
        let pools = self.pools.into_iter();
        let pools = pools.map(|(region, pool)| pool.finish(&regions[region].name, policy));
        (pools.collect(), self.commands)
    }
}

impl Holdings {
    pub(super) fn region(&self, place: (RegionBlock, usize)) -> Holding {
        self.held.get(&place).copied().unwrap_or(Holding::No)
    }

    pub(super) fn device(&self, place: (usize, usize)) -> Holding {
        self.bound.get(&place).copied().unwrap_or(Holding::Yes)
    }

    /// Whether the device serves the memory of a decoder to its host.
    pub(super) fn of(&self, extent: &RegionDecoder) -> Holding {
        let region = self.region((extent.part, extent.host));
        region.min(self.device((extent.host, extent.device)))
    }
}

/// The problem of an event that cannot happen.
pub(super) fn wrong(path: &str, at: Picos, found: String, allowed: &str) -> Problem {
    let found = format_args!("{found} at {at}");
    Problem::refused(format!("{path}.kind"), found, allowed)
}
