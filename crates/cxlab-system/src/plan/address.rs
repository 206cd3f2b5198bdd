//! Laying devices out in the address space of the hosts that reach them.

use std::collections::BTreeMap;
use std::sync::Arc;

use cxlab_engine::units::{Bytes, Hpa};
use cxlab_host::{AddressMap, Window};
use cxlab_protocol::PortId;
use cxlab_protocol::hdm::{InterleaveSet, legal_targets};

use super::Problem;
use super::endpoints::Named;
use crate::scenario::Scenario;

/// The unit of an HDM decoder's base and size (CXL 3.1 section 8.2.4.20).
const DECODER_UNIT: u64 = 256 << 20;

/// What laying out makes.
pub(super) struct Maps {
    /// By host.
    pub(super) host_maps: Vec<Arc<AddressMap>>,
    /// By device.
    pub(super) decoders: Vec<Option<(InterleaveSet, u32)>>,
}

/// Checks what does not depend on the fabric.
pub(super) fn check(scenario: &Scenario, problems: &mut Vec<Problem>) {
    let devices = scenario.devices.iter().enumerate();
    let devices = devices.map(|(at, group)| (format!("devices[{at}].capacity"), group.capacity));
    let accelerators = scenario.accelerators.iter().enumerate();
    let accelerators = accelerators.filter_map(|(at, group)| {
        let memory = group.memory.as_ref()?;
        Some((
            format!("accelerators[{at}].memory.capacity"),
            memory.capacity,
        ))
    });
    for (path, found) in devices.chain(accelerators) {
        let capacity = found.0;
        if capacity == 0 || !capacity.is_multiple_of(DECODER_UNIT) || capacity > 1 << 50 {
            problems.push(Problem::new(
                path,
                format!("found {found}; allowed: multiples of 256 MiB up to 1024 TiB"),
            ));
        }
    }
    let granularity = scenario.address_map.granularity.0;
    if !granularity.is_power_of_two() || !(256..=16384).contains(&granularity) {
        problems.push(Problem::new(
            "address_map.granularity",
            format!(
                "found {}; allowed: 256 B, 512 B, 1 KiB, 2 KiB, 4 KiB, 8 KiB, 16 KiB",
                scenario.address_map.granularity
            ),
        ));
    }
    if let Some(ways) = scenario.address_map.ways
        && !legal_targets().any(|legal| legal == ways)
    {
        problems.push(Problem::new(
            "address_map.ways",
            format!("found {ways}; allowed: 2^k and 3 * 2^k (1, 2, 3, 4, 6, 8, 12, 16, ...)"),
        ));
    }
}

/// Lays out the devices that each host reaches. Hosts that reach the same devices share a map.
pub(super) fn lay_out(
    scenario: &Scenario,
    named: &Named,
    reach: &[Vec<usize>],
) -> Result<Maps, Vec<Problem>> {
    let mut decoders = vec![None; named.names.devices.len()];
    let mut known: BTreeMap<Vec<usize>, Arc<AddressMap>> = BTreeMap::new();
    let mut host_maps = Vec::with_capacity(reach.len());
    for (host, reached) in reach.iter().enumerate() {
        let name = &named.names.requesters[host];
        let has_memory = |device: &usize| {
            capacity_of(scenario, named, *device).0 > 0
                && owner_of(scenario, named, *device).is_none_or(|owner| owner == name)
        };
        let devices: Vec<usize> = reached.iter().copied().filter(has_memory).collect();
        if reached.is_empty() || devices.is_empty() && !has_own_memory(scenario, named, host) {
            return Err(vec![Problem::new(
                format!("hosts[{}]", named.host_group[host]),
                format!(
                    "no device is reachable from host `{}`",
                    named.names.requesters[host]
                ),
            )]);
        }
        let map = match known.get(&devices) {
            Some(map) => Arc::clone(map),
            None => {
                let map = Arc::new(one_map(scenario, named, &devices, &mut decoders)?);
                known.insert(devices, Arc::clone(&map));
                map
            }
        };
        host_maps.push(map);
    }
    Ok(Maps {
        host_maps,
        decoders,
    })
}

/// The host of a Type 2 device, which alone reaches its memory; `None` for a Type 3 device.
fn owner_of<'a>(scenario: &'a Scenario, named: &'a Named, device: usize) -> Option<&'a String> {
    if device < named.first_accelerator {
        return None;
    }
    let group = &scenario.accelerators[named.device_group[device]];
    group.host.as_ref().or(named.names.requesters.first())
}

/// The capacity of a device; 0 where it has no memory.
fn capacity_of(scenario: &Scenario, named: &Named, device: usize) -> Bytes {
    let group = named.device_group[device];
    if device < named.first_accelerator {
        return scenario.devices[group].capacity;
    }
    let memory = scenario.accelerators[group].memory.as_ref();
    memory.map_or(Bytes(0), |memory| memory.capacity)
}

/// Whether a host runs threads on memory of its own, and needs no other.
fn has_own_memory(scenario: &Scenario, named: &Named, host: usize) -> bool {
    let group = &scenario.hosts[named.host_group[host]];
    group.processor.is_some() && !group.nodes.is_empty()
}

fn one_map(
    scenario: &Scenario,
    named: &Named,
    devices: &[usize],
    decoders: &mut [Option<(InterleaveSet, u32)>],
) -> Result<AddressMap, Vec<Problem>> {
    let mut windows = Vec::new();
    let mut base = 0;
    let same_capacity = |a: &usize, b: &usize| {
        // A Type 2 device's memory is not interleaved with others'.
        let plain = |device: usize| device < named.first_accelerator;
        let capacity = |device: usize| capacity_of(scenario, named, device);
        plain(*a) && plain(*b) && capacity(*a) == capacity(*b)
    };
    for run in devices.chunk_by(same_capacity) {
        let capacity = capacity_of(scenario, named, run[0]).0;
        let ways = ways(scenario, run.len())?;
        for members in run.chunks(ways) {
            let size = Bytes(capacity * members.len() as u64);
            let granularity = scenario.address_map.granularity;
            let set = InterleaveSet::new(Hpa(base), size, granularity, members.len() as u32)
                .map_err(|error| vec![Problem::new("address_map", error.to_string())])?;
            for (target, device) in members.iter().enumerate() {
                let decoder = (set, target as u32);
                if decoders[*device]
                    .replace(decoder)
                    .is_some_and(|other| other != decoder)
                {
                    return Err(vec![Problem::new(
                        "fabric.topology",
                        format!(
                            "device `{}` is reached by hosts that do not reach the same devices; \
                             each host would need a decoder of its own in it (multi-headed \
                             devices are not modelled yet)",
                            named.names.devices[*device]
                        ),
                    )]);
                }
            }
            let first = named.names.requesters.len();
            let targets = members
                .iter()
                .map(|device| PortId((first + device) as u16))
                .collect();
            windows.push(Window {
                base: Hpa(base),
                size,
                set,
                targets,
            });
            base += size.0;
        }
    }
    Ok(AddressMap::new(windows))
}

/// Ways of the windows over `count` devices of one capacity.
fn ways(scenario: &Scenario, count: usize) -> Result<usize, Vec<Problem>> {
    let dividing = |ways: &u32| count.is_multiple_of(*ways as usize);
    match scenario.address_map.ways {
        None => Ok(legal_targets().filter(dividing).max().unwrap_or(1) as usize),
        Some(ways) if dividing(&ways) => Ok(ways as usize),
        Some(ways) => Err(vec![Problem::new(
            "address_map.ways",
            format!(
                "found {ways}; allowed: a divisor of {count}, the devices of one capacity in a row \
                 that a host reaches"
            ),
        )]),
    }
}
