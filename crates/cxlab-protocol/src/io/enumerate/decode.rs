//! Programming of the HDM decoders of each region: in the host bridges, the switches and the devices.
//!
//! A target's number is its interleave position, written in mixed radix. The window selects the host bridge
//! by the lowest digit, the host bridge its root port by the next, and so on. Each level uses the address
//! bits just above those of its parent ([`crate::hdm::InterleaveSet`]; Linux `cxl_port_setup_targets`: the
//! granularity of a level is that of its parent times the ways of its parent).
//!
//! A factor of three is for the window over host bridges and for devices alone (CXL 3.1, section
//! 8.2.4.20.7). The levels below the window use its ways without that factor, and select by bits
//! that change as the window's modulo advances. Each target list is therefore in the order of the
//! positions of its own host bridge. Configurations that Linux refuses are refused: see
//! [`check_window`] and [`ways`].

use std::collections::BTreeMap;

use cxlab_engine::units::{Dpa, Hpa};

use super::{Bus, EnumerateError, FoundFunction, Goal, Region, Software, Work};
use crate::hdm::{InterleaveSet, LEGAL_WAYS};
use crate::io::component::{
    ENABLE, MAX_LIST, control, encode_granularity, encode_ways, hdm_offset,
};
use crate::io::space::{device_dvsec, dvsec_id};
use crate::io::tree::FixedWindow;

/// A component that selects a port.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PortSelector {
    /// The host bridge with this number.
    HostBridge(usize),
    /// The switch whose upstream port is the function with this index.
    Switch(usize),
}

/// The register values of a decoder to be programmed.
struct Setting {
    ways: u32,
    granularity: u64,
    list: u64,
}

/// The decoders of all components.
struct Decoders {
    /// By host bridge: address of the HDM decoder capability, and number of decoders.
    host_bridges: Vec<Option<(Hpa, u8)>>,
    /// Number of decoders in use, by the address of the HDM decoder capability.
    used: BTreeMap<Hpa, u8>,
}

impl<B: Bus> Software<B> {
    /// Programs every region, lowest address first, and then enables the decoders and the protocols.
    pub(super) async fn decode(
        &mut self,
        goal: &Goal,
        host_bridges: Vec<Option<(Hpa, u8)>>,
    ) -> Result<(), EnumerateError> {
        let devices = self.devices();
        let used = BTreeMap::new();
        let mut decoders = Decoders { host_bridges, used };
        let mut order: Vec<usize> = (0..goal.regions.len()).collect();
        order.sort_by_key(|region| goal.regions[*region].base);
        for number in order {
            let region = &goal.regions[number];
            let window = self.platform.window(region.base, region.size);
            let why = "no fixed memory window of the platform has it";
            let window = window.ok_or(inexpressible(number, why))?.clone();
            let set = region.set(&window)?;
            check_window(region, &window).map_err(|why| inexpressible(number, why))?;
            let place = |target: &usize| devices.get(*target).copied();
            let targets: Option<Vec<usize>> = region.targets.iter().map(place).collect();
            let why = "it names a device that does not exist";
            let targets = targets.ok_or(inexpressible(number, why))?;
            let twice = |(place, target): (usize, &usize)| targets[..place].contains(target);
            if targets.iter().enumerate().any(twice) {
                return Err(inexpressible(number, "it names a device twice"));
            }
            let paths: Vec<Vec<(PortSelector, u8)>> =
                targets.iter().map(|target| self.path(*target)).collect();
            let host_bridges = turns(&set, &window, &paths);
            let why = "its devices are not in the order in which its window takes the host bridges";
            let host_bridges = host_bridges.ok_or(inexpressible(number, why))?;
            // The levels below the window select by powers of two alone.
            let stride = 1 << window.host_bridges.len().trailing_zeros();
            for targets in host_bridges {
                self.choose(
                    &mut decoders,
                    (number, region),
                    &paths,
                    targets,
                    (0, stride),
                )
                .await?;
            }
            let setting = Setting {
                ways: targets.len() as u32,
                granularity: region.granularity.0,
                list: 0,
            };
            for target in targets {
                let component = self.functions[target].decoders;
                self.program(&mut decoders, number, region, component, &setting)
                    .await?;
            }
        }
        for at in decoders.used.keys() {
            self.mmio_write(Hpa(at.0 + hdm_offset::GLOBAL_CONTROL), ENABLE)
                .await?;
        }
        self.enable_protocols(&devices).await
    }

    /// The components that select a port on the path to a device, from its host bridge on, each
    /// with the port to select.
    fn path(&self, device: usize) -> Vec<(PortSelector, u8)> {
        let mut path = Vec::new();
        let mut below = device;
        while let Some(port) = self.functions[below].parent {
            let FoundFunction {
                parent,
                host_bridge,
                port_number,
                ..
            } = self.functions[port];
            let chooser =
                parent.map_or(PortSelector::HostBridge(host_bridge), PortSelector::Switch);
            path.push((chooser, port_number));
            match parent {
                Some(upstream) => below = upstream,
                None => break,
            }
        }
        path.reverse();
        path
    }

    /// Programs the component that selects a port for these targets, and the components below it.
    /// `stride` is the product of the ways above, without the window's factor of three.
    fn choose<'a>(
        &'a mut self,
        decoders: &'a mut Decoders,
        (number, region): (usize, &'a Region),
        paths: &'a [Vec<(PortSelector, u8)>],
        targets: Vec<usize>,
        (depth, stride): (usize, u64),
    ) -> Work<'a> {
        Box::pin(async move {
            let step = |target: &usize| paths[*target].get(depth).copied();
            let Some((chooser, _)) = targets.first().and_then(step) else {
                return Ok(());
            };
            // Below one port is one device or one switch, so all targets have the same chooser.
            let ports: Vec<(usize, u8)> = targets
                .iter()
                .filter_map(|target| Some((*target, step(target)?.1)))
                .collect();
            let list = ways(&ports, stride as usize).map_err(|why| inexpressible(number, why))?;
            let setting = Setting {
                ways: list.len() as u32,
                granularity: region.granularity.0 * stride,
                list: list
                    .iter()
                    .rev()
                    .fold(0, |list, port| list << 8 | u64::from(*port)),
            };
            let component = match chooser {
                PortSelector::HostBridge(host_bridge) => decoders.host_bridges[host_bridge],
                PortSelector::Switch(upstream) => self.functions[upstream].decoders,
            };
            self.program(decoders, number, region, component, &setting)
                .await?;
            for port in &list {
                let behind = |(target, at): &(usize, u8)| (at == port).then_some(*target);
                let below = ports.iter().filter_map(behind).collect();
                let next = (depth + 1, stride * list.len() as u64);
                self.choose(decoders, (number, region), paths, below, next)
                    .await?;
            }
            Ok(())
        })
    }

    /// Writes and commits one decoder of a component.
    async fn program(
        &mut self,
        decoders: &mut Decoders,
        number: usize,
        region: &Region,
        component: Option<(Hpa, u8)>,
        setting: &Setting,
    ) -> Result<(), EnumerateError> {
        let (capability, count) = component.ok_or(EnumerateError::Decoders(number))?;
        let used = decoders.used.entry(capability).or_default();
        if *used == count {
            return Err(EnumerateError::Decoders(number));
        }
        let at = capability.0 + hdm_offset::DECODERS + hdm_offset::STRIDE * u64::from(*used);
        *used += 1;
        let ways = encode_ways(setting.ways);
        let ways = ways.ok_or(inexpressible(number, "no decoder has so many ways"))?;
        let granularity = encode_granularity(setting.granularity);
        let why = "a decoder's granularity ends at 16 KiB";
        let granularity = granularity.ok_or(inexpressible(number, why))?;
        let (base, size) = (region.base.0, region.size.0);
        let halves = [base, base >> 32, size, size >> 32];
        for (word, value) in halves.into_iter().enumerate() {
            self.mmio_write(Hpa(at + 4 * word as u64), value as u32)
                .await?;
        }
        self.mmio_write(Hpa(at + 0x14), setting.list as u32).await?;
        self.mmio_write(Hpa(at + 0x18), (setting.list >> 32) as u32)
            .await?;
        let flag = |on: bool, bit: u32| if on { bit } else { 0 };
        let fields = granularity | ways << 4 | control::COMMIT;
        let flags = flag(region.host_only, control::HOST_ONLY) | flag(region.lock, control::LOCK);
        let register = Hpa(at + 0x10);
        self.mmio_write(register, fields | flags).await?;
        let control = self.mmio_read(register).await?;
        if control & control::COMMITTED == 0 {
            let (region, at) = (number, register);
            return Err(EnumerateError::Refused { region, at });
        }
        Ok(())
    }

    async fn enable_protocols(&mut self, devices: &[usize]) -> Result<(), EnumerateError> {
        for place in devices {
            let protocols = self.functions[*place].protocols;
            if let Some(at) = self.dvsec(*place, dvsec_id::DEVICE) {
                let bdf = self.functions[*place].bdf;
                let register = at + device_dvsec::CONTROL;
                self.config_write(bdf, register, 2, protocols.into())
                    .await?;
            }
        }
        Ok(())
    }
}

/// Checks that a window and a region fit together, as Linux does. A window with more than one host
/// bridge must have the region's granularity (`interleave_granularity_store`). The ways of the
/// region must be those of the window times a power of two (`interleave_ways_store`).
fn check_window(region: &Region, window: &FixedWindow) -> Result<(), &'static str> {
    let host_bridges = window.host_bridges.len();
    if !LEGAL_WAYS.contains(&(host_bridges as u32)) {
        return Err("its window is over other than 1, 2, 3, 4, 6, 8, 12 or 16 host bridges");
    }
    if host_bridges > 1 && window.granularity != region.granularity {
        return Err("its granularity is not that of its window, which several host bridges share");
    }
    let ways = region.targets.len();
    let fits = ways.is_multiple_of(host_bridges) && (ways / host_bridges).is_power_of_two();
    if host_bridges > 1 && !fits {
        return Err("its ways are not those of its window over host bridges times a power of two");
    }
    // Maps apply to address bits, but the plan's maps apply to offsets from the base.
    let used = host_bridges.trailing_zeros() as usize;
    let maps = window.xor_maps.iter().take(used);
    let reach = maps.fold(0, |all, map| all | map);
    if region.base.0.trailing_zeros() < u64::BITS - reach.leading_zeros() {
        return Err("its XOR maps have bits at or above the alignment of its base");
    }
    Ok(())
}

/// The interleave positions of each host bridge of a region, in the order of their first positions.
/// `None` if a device is not below the host bridge to which the window sends its position (as in
/// Linux, which compares with `cxlrd->calc_hb`).
fn turns(
    set: &InterleaveSet,
    window: &FixedWindow,
    paths: &[Vec<(PortSelector, u8)>],
) -> Option<Vec<Vec<usize>>> {
    let mut found: Vec<(usize, Vec<usize>)> = Vec::new();
    for (turn, path) in paths.iter().enumerate() {
        let expected = window.host_bridge(set.encode(turn as u32, Dpa(0)));
        if path.first()?.0 != PortSelector::HostBridge(expected) {
            return None;
        }
        match found.iter_mut().find(|(number, _)| *number == expected) {
            Some((_, turns)) => turns.push(turn),
            None => found.push((expected, vec![turn])),
        }
    }
    Some(found.into_iter().map(|(_, turns)| turns).collect())
}

fn inexpressible(region: usize, why: &'static str) -> EnumerateError {
    EnumerateError::Inexpressible { region, why }
}

/// The target list of a decoder that sends each interleave position to the port given with it. `stride`
/// consecutive positions go to one port before the next. A decoder that selects ports has 1, 2, 4 or 8 ways.
fn ways(ports: &[(usize, u8)], stride: usize) -> Result<Vec<u8>, &'static str> {
    let mut different: Vec<u8> = ports.iter().map(|(_, port)| *port).collect();
    different.sort_unstable();
    different.dedup();
    let ways = different.len();
    if ways > MAX_LIST {
        return Err("more than 8 ports would take turns, and a target list has 8 places");
    }
    if ways.is_multiple_of(3) {
        return Err(
            "3, 6 or 12 ports would take turns: a host bridge or switch chooses among 1, 2, 4 or 8",
        );
    }
    let irregular = "its order of devices is not one in which each port takes regular turns";
    if !ways.is_power_of_two() || !ports.len().is_multiple_of(ways) {
        return Err(irregular);
    }
    let mut list = vec![None; ways];
    for (turn, port) in ports {
        let place = &mut list[turn / stride % ways];
        if place.is_some_and(|known| known != *port) {
            return Err(irregular);
        }
        *place = Some(*port);
    }
    // The list has as many entries as there are ports, and one port per entry: every entry is set.
    list.into_iter().collect::<Option<_>>().ok_or(irregular)
}
