//! Regions: memory of Type 3 devices that is assigned to hosts, and its location in the devices.

use std::collections::BTreeSet;

use cxlab_engine::units::{Bytes, Dpa};
use cxlab_scenario::{FabricKind, RegionGroup, Scenario, Sharing};

use super::Problem;
use super::address::{DECODER_UNIT, Extent, ways};
use super::endpoints::{Named, unknown};
use super::manager::Account;

/// Most blocks of a pooled region: each block takes a decoder of its host.
pub(crate) const MOST_BLOCKS: u64 = 4096;

/// Checks the parameters of regions that do not depend on the fabric.
pub(crate) fn check(scenario: &Scenario, named: &Named, problems: &mut Vec<Problem>) {
    let mut names = BTreeSet::new();
    for (at, region) in scenario.regions.iter().enumerate() {
        let path = format!("regions[{at}]");
        if !names.insert(&region.name) {
            problems.push(Problem::new(
                format!("{path}.name"),
                format!("found `{}` twice; allowed: a new name", region.name),
            ));
        }
        let devices = devices_of(scenario, named, region);
        let devices = devices.map_err(|name| {
            let known = &named.names.devices[..named.first_accelerator];
            unknown(format!("{path}.devices"), &name, "a Type 3 device", known)
        });
        let hosts = hosts_of(scenario, named, region).map_err(|name| {
            let known = &named.names.requesters;
            unknown(format!("{path}.hosts"), &name, "a host", known)
        });
        match (&devices, &hosts) {
            (Ok(devices), Ok(_)) => {
                if let Err(problem) = check_capacity(region, &path, devices.len()) {
                    problems.push(problem);
                }
            }
            _ => problems.extend([devices.err(), hosts.err()].into_iter().flatten()),
        }
    }
    for (at, group) in scenario.devices.iter().enumerate() {
        let field = format!("devices[{at}].g_fam");
        if group.g_fam && scenario.fabric.kind != FabricKind::Pbr {
            problems.push(Problem::new(
                &field,
                "found true in a fabric of virtual CXL switches; allowed: false, or `fabric.kind = \"pbr\"` (a G-FAM device \
                 is below a PBR switch, CXL 3.1 sections 2.8 and 7.7.6.8)",
            ));
        }
        if group.g_fam && group.logical_devices.is_some() {
            problems.push(Problem::new(
                field,
                "found true with `logical_devices`; allowed: one of them (a G-FAM device tells hosts apart by \
                 SPID and not by LD-ID, CXL 3.1 section 7.7.2.3)",
            ));
        }
        if group.logical_devices.is_some() && scenario.regions.is_empty() {
            problems.push(Problem::new(
                format!("devices[{at}].logical_devices"),
                "found logical devices that nothing says the hosts of; allowed: with [[regions]]",
            ));
        }
    }
}

fn check_capacity(region: &RegionGroup, path: &str, devices: usize) -> Result<(), Problem> {
    let capacity = region.capacity;
    let unit = DECODER_UNIT * devices as u64;
    if devices == 0 {
        return Err(Problem::new(
            format!("{path}.devices"),
            "found a system without Type 3 devices; allowed: with [[devices]]",
        ));
    }
    if capacity.0 == 0 || !capacity.0.is_multiple_of(unit) {
        return Err(Problem::new(
            format!("{path}.capacity"),
            format!(
                "found {capacity} over {devices} device(s); allowed: multiples of {}",
                Bytes(unit)
            ),
        ));
    }
    let most = Bytes(MOST_BLOCKS * DECODER_UNIT);
    if region.sharing == Sharing::Pooled && capacity > most {
        return Err(Problem::new(
            format!("{path}.capacity"),
            format!(
                "found {capacity}, pooled; allowed: at most {most} in blocks of {}",
                Bytes(DECODER_UNIT)
            ),
        ));
    }
    Ok(())
}

/// Numbers of the devices of a region, in order; the error is a name that matches no device.
pub(crate) fn devices_of(
    scenario: &Scenario,
    named: &Named,
    region: &RegionGroup,
) -> Result<Vec<usize>, String> {
    let all = &named.names.devices[..named.first_accelerator];
    let groups = scenario.devices.iter().map(|group| group.name.as_str());
    let groups: Vec<&str> = groups.collect();
    select(&region.devices, all, &named.device_group, &groups)
}

/// Numbers of the hosts of a region, in order; the error is a name that matches no host.
pub(crate) fn hosts_of(
    scenario: &Scenario,
    named: &Named,
    region: &RegionGroup,
) -> Result<Vec<usize>, String> {
    let groups = scenario.hosts.iter().map(|group| group.name.as_str());
    let groups: Vec<&str> = groups.collect();
    select(
        &region.hosts,
        &named.names.requesters,
        &named.host_group,
        &groups,
    )
}

/// The members whose own name or group name is in `chosen`; all members if `chosen` is empty.
fn select(
    chosen: &[String],
    names: &[String],
    group_of: &[usize],
    groups: &[&str],
) -> Result<Vec<usize>, String> {
    let is = |member: usize, name: &str| names[member] == name || groups[group_of[member]] == name;
    for name in chosen {
        if !(0..names.len()).any(|member| is(member, name)) {
            return Err(name.clone());
        }
    }
    let wanted = |member: &usize| chosen.is_empty() || chosen.iter().any(|name| is(*member, name));
    Ok((0..names.len()).filter(wanted).collect())
}

/// The assigned part of each device, and the hosts that have logical devices.
struct Allotment {
    /// By device: the address at which the free part begins.
    free: Vec<u64>,
    /// By device: the hosts that own a logical device of it.
    bound: Vec<BTreeSet<usize>>,
}

/// Memory of a region that a host has at some time during the run.
#[derive(Clone)]
pub(crate) struct Granted {
    /// Number of the region.
    pub(crate) region: usize,
    /// Number of the block if the region is pooled; otherwise 0.
    pub(crate) block: u32,
    /// Location of the memory in the devices.
    pub(crate) extent: Extent,
}

/// The memory granted to each host, in the order of regions; `None` if the scenario has no regions.
pub(crate) fn allot(
    scenario: &Scenario,
    named: &Named,
    reach: &[Vec<usize>],
    manager: &Account<'_>,
) -> Result<Option<Vec<Vec<Granted>>>, Vec<Problem>> {
    if scenario.regions.is_empty() {
        return Ok(None);
    }
    let mut allotment = Allotment {
        free: vec![0; named.first_accelerator],
        bound: vec![BTreeSet::new(); named.first_accelerator],
    };
    let mut granted = vec![Vec::new(); reach.len()];
    for (at, region) in scenario.regions.iter().enumerate() {
        let path = format!("regions[{at}]");
        // Unknown names have been refused.
        let devices = devices_of(scenario, named, region).unwrap_or_default();
        let hosts = hosts_of(scenario, named, region).unwrap_or_default();
        check_reach(named, reach, &path, &hosts, &devices)?;
        if region.sharing == Sharing::Pooled {
            let first = allotment.take_parts(scenario, named, &path, region, &devices)?;
            let blocks = (region.capacity.0 / DECODER_UNIT) as usize / devices.len();
            for host in hosts {
                allotment.bind(scenario, named, &path, region, &devices, host)?;
                for block in manager.blocks(at, host).unwrap_or_default() {
                    let (device, number) = (block as usize / blocks, block as usize % blocks);
                    let dpa = Dpa(first[device].0 + number as u64 * DECODER_UNIT);
                    let extent = Extent {
                        shares: vec![(devices[device], dpa)],
                        share: Bytes(DECODER_UNIT),
                    };
                    granted[host].push(Granted {
                        region: at,
                        block,
                        extent,
                    });
                }
            }
            continue;
        }
        let mut shared = None;
        for host in hosts {
            let taken = match (region.sharing, &shared) {
                (Sharing::Shared | Sharing::Moving, Some(taken)) => Vec::clone(taken),
                _ => allotment.take(scenario, named, &path, region, &devices)?,
            };
            if region.sharing != Sharing::Exclusive {
                shared = Some(taken.clone());
            }
            allotment.bind(scenario, named, &path, region, &devices, host)?;
            let own = taken.into_iter();
            granted[host].extend(own.map(|extent| Granted {
                region: at,
                block: 0,
                extent,
            }));
        }
    }
    Ok(Some(granted))
}

/// Checks that every host reaches every device of its region.
fn check_reach(
    named: &Named,
    reach: &[Vec<usize>],
    path: &str,
    hosts: &[usize],
    devices: &[usize],
) -> Result<(), Vec<Problem>> {
    for host in hosts {
        let missing = |device: &&usize| !reach[*host].contains(device);
        if let Some(device) = devices.iter().find(missing) {
            let (host, device) = (
                &named.names.requesters[*host],
                &named.names.devices[*device],
            );
            return Err(vec![Problem::new(
                format!("{path}.hosts"),
                format!(
                    "found host `{host}`, which does not reach device `{device}` of the region; \
                     allowed: hosts that reach all its devices"
                ),
            )]);
        }
    }
    Ok(())
}

impl Allotment {
    /// Takes a region's capacity from the free part of its devices.
    fn take(
        &mut self,
        scenario: &Scenario,
        named: &Named,
        path: &str,
        region: &RegionGroup,
        devices: &[usize],
    ) -> Result<Vec<Extent>, Vec<Problem>> {
        let share = Bytes(region.capacity.0 / devices.len() as u64);
        let ways = ways(scenario, devices.len())?;
        let first = self.take_parts(scenario, named, path, region, devices)?;
        let shares: Vec<(usize, Dpa)> = devices.iter().copied().zip(first).collect();
        let extents = shares.chunks(ways).map(|shares| Extent {
            shares: shares.to_vec(),
            share,
        });
        Ok(extents.collect())
    }

    /// Takes an equal part of each device of a region; returns the address at which each part begins.
    fn take_parts(
        &mut self,
        scenario: &Scenario,
        named: &Named,
        path: &str,
        region: &RegionGroup,
        devices: &[usize],
    ) -> Result<Vec<Dpa>, Vec<Problem>> {
        let share = Bytes(region.capacity.0 / devices.len() as u64);
        let mut parts = Vec::with_capacity(devices.len());
        for device in devices {
            let whole = scenario.devices[named.device_group[*device]].capacity;
            let first = self.free[*device];
            self.free[*device] = first.saturating_add(share.0);
            if self.free[*device] > whole.0 {
                return Err(vec![Problem::new(
                    format!("{path}.capacity"),
                    format!(
                        "found {}, {share} of them on device `{}`, which has {} left of {whole}; \
                         allowed: what is left",
                        region.capacity,
                        named.names.devices[*device],
                        Bytes(whole.0 - first),
                    ),
                )]);
            }
            parts.push(Dpa(first));
        }
        Ok(parts)
    }

    /// Gives a host a logical device on every multi-logical device of the region.
    fn bind(
        &mut self,
        scenario: &Scenario,
        named: &Named,
        path: &str,
        region: &RegionGroup,
        devices: &[usize],
        host: usize,
    ) -> Result<(), Vec<Problem>> {
        for device in devices {
            let group = &scenario.devices[named.device_group[*device]];
            let Some(most) = group.logical_devices else {
                continue;
            };
            let name = &named.names.devices[*device];
            if region.sharing == Sharing::Shared {
                return Err(vec![Problem::new(
                    format!("{path}.sharing"),
                    format!(
                        "found \"shared\" on `{name}`, whose logical devices have one host each; \
                         allowed: \"exclusive\", or devices without logical_devices"
                    ),
                )]);
            }
            self.bound[*device].insert(host);
            if self.bound[*device].len() > most as usize {
                return Err(vec![Problem::new(
                    format!("{path}.hosts"),
                    format!(
                        "found more hosts on `{name}` than its {most} logical device(s); allowed: at \
                         most so many, or devices without logical_devices"
                    ),
                )]);
            }
        }
        Ok(())
    }
}
