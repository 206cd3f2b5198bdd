//! Where the memory of regions is in the devices, and which hosts have which of it.

use std::collections::BTreeSet;

use cxlab_engine::units::{Bytes, Dpa};
use cxlab_scenario::{RegionGroup, Scenario, Sharing};

use crate::endpoints::NamedGroups;
use crate::extents::{DECODER_UNIT, Extent, GrantedExtent, ways};
use crate::manager::Account;
use crate::problem::Problem;
use crate::regions::{devices_of, hosts_of};

/// The assigned part of each device, and the hosts that have logical devices.
struct Allotment<'a> {
    scenario: &'a Scenario,
    named: &'a NamedGroups,
    /// By device: the address at which the free part begins.
    free: Vec<u64>,
    /// By device: the hosts that own a logical device of it.
    bound: Vec<BTreeSet<usize>>,
}

/// A region with its place in the scenario and the numbers of its devices.
struct Site<'a> {
    path: String,
    region: &'a RegionGroup,
    devices: Vec<usize>,
}

impl Site<'_> {
    /// Bytes of the region on each of its devices.
    fn share(&self) -> Bytes {
        Bytes(self.region.capacity.0 / self.devices.len() as u64)
    }

    fn refused(&self, field: &str, found: String, allowed: &str) -> Problem {
        Problem::refused(format!("{}.{field}", self.path), found, allowed)
    }
}

/// The memory granted to each host, in the order of regions; `None` if the scenario has no regions.
pub(crate) fn allot(
    scenario: &Scenario,
    named: &NamedGroups,
    reach: &[Vec<usize>],
    manager: &Account<'_>,
) -> Result<Option<Vec<Vec<GrantedExtent>>>, Problem> {
    if scenario.regions.is_empty() {
        return Ok(None);
    }
    let mut allotment = Allotment {
        scenario,
        named,
        free: vec![0; named.first_accelerator],
        bound: vec![BTreeSet::new(); named.first_accelerator],
    };
    let mut granted = vec![Vec::new(); reach.len()];
    for (at, region) in scenario.regions.iter().enumerate() {
        // Unknown names have been refused.
        let hosts = hosts_of(scenario, named, region).unwrap_or_default();
        let site = Site {
            path: format!("regions[{at}]"),
            region,
            devices: devices_of(scenario, named, region).unwrap_or_default(),
        };
        allotment.check_reach(reach, &site, &hosts)?;
        if region.sharing == Sharing::Pooled {
            let first = allotment.take_parts(&site)?;
            let blocks = (region.capacity.0 / DECODER_UNIT) as usize / site.devices.len();
            for host in hosts {
                allotment.bind(&site, host)?;
                for block in manager.blocks(at, host).unwrap_or_default() {
                    let (device, number) = (block as usize / blocks, block as usize % blocks);
                    let dpa = Dpa(first[device].0 + number as u64 * DECODER_UNIT);
                    granted[host].push(GrantedExtent {
                        part: (at, block),
                        extent: Extent {
                            shares: vec![(site.devices[device], dpa)],
                            share: Bytes(DECODER_UNIT),
                        },
                    });
                }
            }
            continue;
        }
        let mut shared = None;
        for host in hosts {
            let taken = match (region.sharing, &shared) {
                (Sharing::Shared | Sharing::Moving, Some(taken)) => Vec::clone(taken),
                _ => allotment.take(&site)?,
            };
            if region.sharing != Sharing::Exclusive {
                shared = Some(taken.clone());
            }
            allotment.bind(&site, host)?;
            let part = (at, 0);
            granted[host].extend(
                taken
                    .into_iter()
                    .map(|extent| GrantedExtent { part, extent }),
            );
        }
    }
    Ok(Some(granted))
}

impl Allotment<'_> {
    /// Checks that every host reaches every device of its region.
    fn check_reach(
        &self,
        reach: &[Vec<usize>],
        site: &Site<'_>,
        hosts: &[usize],
    ) -> Result<(), Problem> {
        for host in hosts {
            let missing = |device: &&usize| !reach[*host].contains(device);
            if let Some(device) = site.devices.iter().find(missing) {
                let names = &self.named.names;
                let (host, device) = (&names.requesters[*host], &names.devices[*device]);
                return Err(site.refused(
                    "hosts",
                    format!("host `{host}`, which does not reach device `{device}` of the region"),
                    "hosts that reach all its devices",
                ));
            }
        }
        Ok(())
    }

    /// Takes a region's capacity from the free part of its devices.
    fn take(&mut self, site: &Site<'_>) -> Result<Vec<Extent>, Problem> {
        let ways = ways(self.scenario, site.devices.len())?;
        let first = self.take_parts(site)?;
        let shares: Vec<(usize, Dpa)> = site.devices.iter().copied().zip(first).collect();
        let extents = shares.chunks(ways).map(|shares| Extent {
            shares: shares.to_vec(),
            share: site.share(),
        });
        Ok(extents.collect())
    }

    /// Takes an equal part of each device of a region; returns the address at which each part begins.
    fn take_parts(&mut self, site: &Site<'_>) -> Result<Vec<Dpa>, Problem> {
        let share = site.share();
        let mut parts = Vec::with_capacity(site.devices.len());
        for device in &site.devices {
            let whole = self.scenario.devices[self.named.device_group[*device]].capacity;
            let first = self.free[*device];
            self.free[*device] = first.saturating_add(share.0);
            if self.free[*device] > whole.0 {
                let (name, left) = (&self.named.names.devices[*device], Bytes(whole.0 - first));
                return Err(site.refused(
                    "capacity",
                    format!(
                        "{}, {share} of them on device `{name}`, which has {left} left of {whole}",
                        site.region.capacity
                    ),
                    "what is left",
                ));
            }
            parts.push(Dpa(first));
        }
        Ok(parts)
    }

    /// Gives a host a logical device on every multi-logical device of the region.
    fn bind(&mut self, site: &Site<'_>, host: usize) -> Result<(), Problem> {
        for device in &site.devices {
            let group = &self.scenario.devices[self.named.device_group[*device]];
            let Some(most) = group.logical_devices else {
                continue;
            };
            let name = &self.named.names.devices[*device];
            if site.region.sharing == Sharing::Shared {
                return Err(site.refused(
                    "sharing",
                    format!("\"shared\" on `{name}`, whose logical devices have one host each"),
                    "\"exclusive\", or devices without logical_devices",
                ));
            }
            self.bound[*device].insert(host);
            if self.bound[*device].len() > most as usize {
                return Err(site.refused(
                    "hosts",
                    format!("more hosts on `{name}` than its {most} logical device(s)"),
                    "at most so many, or devices without logical_devices",
                ));
            }
        }
        Ok(())
    }
}
