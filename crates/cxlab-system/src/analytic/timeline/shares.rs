//! Windows of memory that several guests share.

use cxlab_engine::units::{Bytes, Dpa};
use cxlab_plan::{Plan, Problem};

/// A line of memory that guests share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SharedLine {
    /// Number of the shared memory.
    pub memory: usize,
    /// Offset of the line in that memory, in bytes.
    pub offset: u64,
    /// Whether the device keeps the caches of guests coherent (HDM-DB), so that software need not.
    pub coherent: bool,
}

/// Memory that at least two guests share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedRegion {
    /// Size in bytes.
    pub size: u64,
    /// Whether the devices keep the caches of guests coherent (HDM-DB).
    pub coherent: bool,
    /// The devices with the first DPA of each share. Guests with the same shares see the same memory.
    shares: Vec<(usize, Dpa)>,
}

/// Size of a window, and its devices, each with the first DPA.
type Share = (Bytes, Vec<(usize, Dpa)>);

/// Shared memories, and the number of the one behind each window of each guest, if any.
#[derive(Clone, Default)]
pub(super) struct SharedMemories {
    pub(super) regions: Vec<SharedRegion>,
    pub(super) windows: Vec<Vec<Option<usize>>>,
}

impl SharedMemories {
    /// The memory that these hosts share. Without `[[regions]]` nothing is shared, because then
    /// every host takes all memory for its own.
    pub(super) fn new(plan: &Plan, hosts: &[usize]) -> SharedMemories {
        let first = plan.hosts.len();
        let shares_of = |host: usize| -> Vec<Share> {
            let windows = plan.hosts[host].map.windows().iter();
            let shares = windows.map(|window| {
                let devices = window.targets.iter().map(|port| port.0 as usize - first);
                let shares = devices.zip(window.first.iter().copied()).collect();
                (window.size, shares)
            });
            shares.collect()
        };
        let all: Vec<_> = hosts.iter().map(|host| shares_of(*host)).collect();
        let is_shared = |one: &Share| {
            let members = all.iter().filter(|windows| windows.contains(one));
            !plan.scenario.regions.is_empty() && members.count() > 1
        };
        let mut found = SharedMemories::default();
        for windows in &all {
            let number = |one: &Share| is_shared(one).then(|| found.number(plan, one.0.0, &one.1));
            let numbers = windows.iter().map(number).collect();
            found.windows.push(numbers);
        }
        found
    }

    fn number(&mut self, plan: &Plan, size: u64, shares: &[(usize, Dpa)]) -> usize {
        let known = self.regions.iter().position(|one| one.shares == shares);
        known.unwrap_or_else(|| {
            let coherent = |(device, _): &(usize, Dpa)| is_coherent(plan, *device);
            self.regions.push(SharedRegion {
                size,
                coherent: shares.iter().all(coherent),
                shares: shares.to_vec(),
            });
            self.regions.len() - 1
        })
    }

    /// Refuses memory that a device keeps coherent, where it is not shared as a whole.
    pub(super) fn check(&self, plan: &Plan, hosts: &[usize]) -> Result<(), Vec<Problem>> {
        let first = plan.hosts.len();
        for (host, numbers) in hosts.iter().zip(&self.windows) {
            for (window, number) in plan.hosts[*host].map.windows().iter().zip(numbers) {
                let shared = number.is_some_and(|number| self.regions[number].coherent);
                let mut devices = window.targets.iter().map(|port| port.0 as usize - first);
                let Some(device) = devices.find(|device| is_coherent(plan, *device)) else {
                    continue;
                };
                if !shared {
                    let group = plan.devices[device].memory().unwrap_or_default();
                    return Err(vec![Problem::new(
                        format!("devices[{group}].coherence.class"),
                        format!(
                            "found \"hdm-db\", of which guest `{}` has memory for itself; allowed in \
                             guests: memory of class hdm-db in [[regions]] with sharing = \"shared\", which \
                             at least two guests have",
                            plan.hosts[*host].name
                        ),
                    )]);
                }
            }
        }
        Ok(())
    }
}

/// Whether a device keeps its memory coherent by back-invalidation.
pub(super) fn is_coherent(plan: &Plan, device: usize) -> bool {
    let group = plan.devices[device].memory();
    group.is_some_and(|group| plan.scenario.devices[group].is_hdm_db())
}
