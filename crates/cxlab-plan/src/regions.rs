//! Regions: memory of Type 3 devices that is assigned to hosts.

use std::collections::BTreeSet;

use cxlab_engine::units::Bytes;
use cxlab_scenario::{FabricKind, RegionGroup, Scenario, Sharing};

use crate::endpoints::NamedGroups;
use crate::extents::DECODER_UNIT;
use crate::problem::{Problem, Problems, unknown};

/// Most blocks of a pooled region: each block takes a decoder of its host.
pub(crate) const MOST_BLOCKS: u64 = 4096;

/// Checks the parameters of regions that do not depend on the fabric.
pub(crate) fn check(scenario: &Scenario, named: &NamedGroups, problems: &mut Problems) {
    let mut names = BTreeSet::new();
    for (at, region) in scenario.regions.iter().enumerate() {
        let path = format!("regions[{at}]");
        if !names.insert(&region.name) {
            let found = format_args!("`{}` twice", region.name);
            problems.refuse(format!("{path}.name"), found, "a new name");
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
                problems.extend(check_capacity(region, &path, devices.len()).err());
            }
            _ => problems.extend([devices.err(), hosts.err()].into_iter().flatten()),
        }
    }
    for (at, group) in scenario.devices.iter().enumerate() {
        let mut fields = problems.below(format!("devices[{at}]"));
        if group.g_fam && scenario.fabric.kind != FabricKind::Pbr {
            fields.refuse(
                "g_fam",
                "true in a fabric of virtual CXL switches",
                "false, or `fabric.kind = \"pbr\"` (a G-FAM device is below a PBR switch, CXL 3.1 sections \
                 2.8 and 7.7.6.8)",
            );
        }
        if group.g_fam && group.logical_devices.is_some() {
            fields.refuse(
                "g_fam",
                "true with `logical_devices`",
                "one of them (a G-FAM device tells hosts apart by SPID and not by LD-ID, CXL 3.1 section \
                 7.7.2.3)",
            );
        }
        if group.logical_devices.is_some() && scenario.regions.is_empty() {
            let found = "logical devices that nothing says the hosts of";
            fields.refuse("logical_devices", found, "with [[regions]]");
        }
    }
}

fn check_capacity(region: &RegionGroup, path: &str, devices: usize) -> Result<(), Problem> {
    let refused = |field: &str, found: String, allowed: String| {
        Err(Problem::refused(format!("{path}.{field}"), found, allowed))
    };
    let capacity = region.capacity;
    if devices == 0 {
        let found = "a system without Type 3 devices".to_owned();
        return refused("devices", found, "with [[devices]]".to_owned());
    }
    let (unit, block) = (DECODER_UNIT * devices as u64, Bytes(DECODER_UNIT));
    if capacity.0 == 0 || !capacity.0.is_multiple_of(unit) {
        let found = format!("{capacity} over {devices} device(s)");
        return refused("capacity", found, format!("multiples of {}", Bytes(unit)));
    }
    let most = Bytes(MOST_BLOCKS * DECODER_UNIT);
    if region.sharing == Sharing::Pooled && capacity > most {
        let allowed = format!("at most {most} in blocks of {block}");
        return refused("capacity", format!("{capacity}, pooled"), allowed);
    }
    Ok(())
}

/// Numbers of the devices of a region, in order; the error is a name that matches no device.
pub(crate) fn devices_of(
    scenario: &Scenario,
    named: &NamedGroups,
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
    named: &NamedGroups,
    region: &RegionGroup,
) -> Result<Vec<usize>, String> {
    let all = &named.names.requesters;
    let groups = scenario.hosts.iter().map(|group| group.name.as_str());
    let groups: Vec<&str> = groups.collect();
    select(&region.hosts, all, &named.host_group, &groups)
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
