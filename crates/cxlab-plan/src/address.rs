//! Lays devices out in the address space of each host that reaches them.

use std::collections::BTreeMap;
use std::sync::Arc;

use cxlab_engine::units::{Bytes, Dpa, Hpa};
use cxlab_fabric::graph::FabricGraph;
use cxlab_host::{AddressMap, AddressWindow};
use cxlab_protocol::hdm::{InterleaveSet, legal_targets};
use cxlab_protocol::{DecoderTable, DeviceDecoder, PortId};
use cxlab_scenario::{Arithmetic, Scenario};

use crate::allotment::allot;
use crate::endpoints::NamedGroups;
use crate::enumeration;
use crate::extents::{DECODER_UNIT, Extent, RegionDecoder, ways};
use crate::manager;
use crate::problem::{Problem, Problems};

/// The address layout of the whole system.
pub(crate) struct Maps {
    /// Address map of each host, by host number.
    pub(crate) host_maps: Vec<Arc<AddressMap>>,
    /// Decoders of each device, by device number.
    pub(crate) decoders: Vec<DecoderTable>,
    /// The device decoders that belong to regions.
    pub(crate) extents: Vec<RegionDecoder>,
}

/// Checks the parts of the address map that do not depend on the fabric.
pub(crate) fn check(scenario: &Scenario, problems: &mut Problems) {
    for (at, group) in scenario.devices.iter().enumerate() {
        let mut fields = problems.below(format!("devices[{at}]"));
        fields.multiple("capacity", group.capacity, DECODER_UNIT, 1 << 50);
    }
    for (at, group) in scenario.accelerators.iter().enumerate() {
        if let Some(memory) = &group.memory {
            let mut fields = problems.below(format!("accelerators[{at}].memory"));
            fields.multiple("capacity", memory.capacity, DECODER_UNIT, 1 << 50);
        }
    }
    let map = &scenario.address_map;
    let mut fields = problems.below("address_map");
    let granularity = map.granularity.0;
    if !granularity.is_power_of_two() || !(256..=16384).contains(&granularity) {
        let allowed = "256 B, 512 B, 1 KiB, 2 KiB, 4 KiB, 8 KiB, 16 KiB";
        fields.refuse("granularity", map.granularity, allowed);
    }
    if map.xor_maps.is_some() && map.arithmetic == Arithmetic::Modulo {
        let found = "maps with `arithmetic = \"modulo\"`";
        fields.refuse("xor_maps", found, "with `arithmetic = \"xor\"`");
    }
    if let Some(ways) = map.ways
        && !legal_targets().any(|legal| legal == ways)
    {
        let allowed = "2^k and 3 * 2^k (1, 2, 3, 4, 6, 8, 12, 16, ...)";
        fields.refuse("ways", ways, allowed);
    }
}

/// Lays out the memory that each host sees: its regions, or all memory that it reaches if the
/// scenario has no regions. Hosts with equal layouts share a map.
pub(crate) fn lay_out(
    scenario: &Scenario,
    named: &NamedGroups,
    graph: &FabricGraph,
    reach: &[Vec<usize>],
    manager: &manager::Account<'_>,
) -> Result<Maps, Vec<Problem>> {
    let regions = allot(scenario, named, reach, manager)?;
    let mut known: BTreeMap<(Vec<Extent>, Vec<u32>), Arc<AddressMap>> = BTreeMap::new();
    let mut lists = vec![vec![Vec::new(); reach.len()]; named.names.devices.len()];
    let mut host_maps = Vec::with_capacity(reach.len());
    let mut region_decoders = Vec::new();
    for (host, reached) in reach.iter().enumerate() {
        let name = &named.names.requesters[host];
        let visible = |device: &usize| {
            capacity_of(scenario, named, *device).0 > 0
                && match owner_of(scenario, named, *device) {
                    Some(owner) => owner == name,
                    None => regions.is_none(),
                }
        };
        let devices: Vec<usize> = reached.iter().copied().filter(visible).collect();
        let granted = regions.as_ref().map_or(&[][..], |regions| &regions[host]);
        let mut extents: Vec<Extent> = granted.iter().map(|one| one.extent.clone()).collect();
        extents.extend(whole_devices(scenario, named, &devices)?);
        if reached.is_empty() || extents.is_empty() && !has_own_memory(scenario, named, host) {
            return Err(nothing_to_see(scenario, named, host).into());
        }
        let bridges = |extent: &Extent| {
            let devices = extent.shares.iter().map(|(device, _)| *device);
            enumeration::host_bridges(scenario, graph, host, devices)
        };
        let bridges: Vec<u32> = extents.iter().map(bridges).collect();
        let windows = windows(scenario, named, &extents, &bridges)?;
        for (at, (window, extent)) in windows.iter().zip(&extents).enumerate() {
            for (target, (device, first)) in (0..).zip(&extent.shares) {
                let decoder = DeviceDecoder {
                    set: window.set,
                    target,
                    first: *first,
                };
                let list = &mut lists[*device][host];
                if list.is_empty() {
                    // Most lists keep one entry, and there are as many lists as hosts times devices.
                    list.reserve_exact(1);
                }
                list.push(decoder);
                region_decoders.extend(granted.get(at).map(|one| RegionDecoder {
                    part: one.part,
                    host,
                    device: *device,
                    decoder,
                    window: (window.base, window.size),
                }));
            }
        }
        let map = known.entry((extents, bridges));
        let map = map.or_insert_with(|| Arc::new(AddressMap::new(windows)));
        host_maps.push(Arc::clone(map));
    }
    let table = |list| match manager::changes_capacity(scenario) {
        true => DecoderTable::by_host(list),
        false => table(list, regions.is_some()),
    };
    Ok(Maps {
        host_maps,
        decoders: lists.into_iter().map(table).collect(),
        extents: region_decoders,
    })
}

/// The decoders of a device. One list is shared if all hosts that reach the device have the same
/// one and no host has to be kept out.
fn table(lists: Vec<Vec<DeviceDecoder>>, isolates: bool) -> DecoderTable {
    let mut used = lists.iter().filter(|list| isolates || !list.is_empty());
    match used.next().cloned() {
        Some(first) if used.all(|list| *list == first) => DecoderTable::common(first),
        Some(_) => DecoderTable::by_host(lists),
        None => DecoderTable::default(),
    }
}

fn nothing_to_see(scenario: &Scenario, named: &NamedGroups, host: usize) -> Problem {
    let name = &named.names.requesters[host];
    let path = format!("hosts[{}]", named.host_group[host]);
    match scenario.regions.is_empty() {
        true => Problem::new(path, format!("no device is reachable from host `{name}`")),
        false => Problem::refused(
            path,
            format_args!("no region for host `{name}`"),
            "hosts that a region names, and that are granted some of it if it is pooled",
        ),
    }
}

/// The host of a Type 2 device, the only one that reaches its memory; `None` for a Type 3 device.
fn owner_of<'a>(
    scenario: &'a Scenario,
    named: &'a NamedGroups,
    device: usize,
) -> Option<&'a String> {
    if device < named.first_accelerator {
        return None;
    }
    let group = &scenario.accelerators[named.device_group[device]];
    group.host.as_ref().or(named.names.requesters.first())
}

/// The capacity of a device; 0 for a device without memory.
fn capacity_of(scenario: &Scenario, named: &NamedGroups, device: usize) -> Bytes {
    let group = named.device_group[device];
    if device < named.first_accelerator {
        return scenario.devices[group].capacity;
    }
    let memory = scenario.accelerators[group].memory.as_ref();
    memory.map_or(Bytes(0), |memory| memory.capacity)
}

/// Whether a host runs threads on its own memory, and so needs no CXL memory.
fn has_own_memory(scenario: &Scenario, named: &NamedGroups, host: usize) -> bool {
    let group = &scenario.hosts[named.host_group[host]];
    group.processor().is_some() && !group.nodes.is_empty()
}

/// Extents over whole devices: consecutive devices of equal capacity are interleaved.
fn whole_devices(
    scenario: &Scenario,
    named: &NamedGroups,
    devices: &[usize],
) -> Result<Vec<Extent>, Problem> {
    let same_capacity = |a: &usize, b: &usize| {
        // The memory of a Type 2 device is not interleaved with that of other devices.
        let plain = |device: usize| device < named.first_accelerator;
        let capacity = |device: usize| capacity_of(scenario, named, device);
        plain(*a) && plain(*b) && capacity(*a) == capacity(*b)
    };
    let mut extents = Vec::new();
    for run in devices.chunk_by(same_capacity) {
        let ways = ways(scenario, run.len())?;
        extents.extend(run.chunks(ways).map(|members| Extent {
            shares: members.iter().map(|device| (*device, Dpa(0))).collect(),
            share: capacity_of(scenario, named, run[0]),
        }));
    }
    Ok(extents)
}

/// The windows of a host, one after another. `bridges` has the number of host bridges of each window.
fn windows(
    scenario: &Scenario,
    named: &NamedGroups,
    extents: &[Extent],
    bridges: &[u32],
) -> Result<Vec<AddressWindow>, Problem> {
    let first = named.names.requesters.len();
    let mut base = Hpa(0);
    let mut windows = Vec::with_capacity(extents.len());
    for (extent, bridges) in extents.iter().zip(bridges) {
        let ways = extent.shares.len();
        let size = Bytes(extent.share.0 * ways as u64);
        let granularity = scenario.address_map.granularity;
        let set = InterleaveSet::new(base, size, granularity, ways as u32);
        let mut set = set.map_err(|error| Problem::new("address_map", error.to_string()))?;
        if let Some(maps) = scenario.address_map.xor_maps() {
            let xored = set.with_xor_over(&maps, *bridges);
            set = xored
                .map_err(|error| Problem::refused("address_map.xor_maps", error, "maps that do"))?;
        }
        let port = |(device, _): &(usize, Dpa)| PortId((first + device) as u16);
        windows.push(AddressWindow {
            base,
            size,
            set,
            targets: extent.shares.iter().map(port).collect(),
            first: extent.shares.iter().map(|(_, first)| *first).collect(),
        });
        base.0 += size.0;
    }
    Ok(windows)
}
