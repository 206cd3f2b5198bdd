//! HDM decoders of each region: the host bridge, the switches, the devices.
//!
//! A target's number is written in mixed radix: the host bridge chooses by the lowest digit, each
//! switch by the next, so each looks at the address bits just above those of its parent
//! ([`crate::hdm::InterleaveSet`]). A factor of three is for a window over host bridges, and there
//! is one here (CXL 3.1, section 8.2.4.20.7: 3, 6, 12 and 16 ways are for devices).

use std::collections::BTreeMap;

use cxlab_engine::units::Hpa;

use super::{Bus, EnumerateError, Goal, Region, Software, Work};
use crate::io::component::{
    ENABLE, MAX_LIST, control, encode_granularity, encode_ways, hdm_offset,
};
use crate::io::space::{device_dvsec, dvsec_id};

/// What chooses: the host bridge, or the switch with this upstream port.
type Chooser = Option<usize>;

/// A decoder to be.
struct Setting {
    ways: u32,
    granularity: u64,
    list: u64,
}

/// The decoders of all components.
struct Decoders {
    host: Option<(Hpa, u8)>,
    /// Decoders in use, by where the capability is.
    used: BTreeMap<Hpa, u8>,
}

impl<B: Bus> Software<B> {
    /// Programs every region, lowest first, and enables what was programmed.
    pub(super) async fn decode(
        &mut self,
        goal: &Goal,
        host: Option<(Hpa, u8)>,
    ) -> Result<(), EnumerateError> {
        let devices = self.devices();
        let used = BTreeMap::new();
        let mut decoders = Decoders { host, used };
        let mut order: Vec<usize> = (0..goal.regions.len()).collect();
        order.sort_by_key(|region| goal.regions[*region].base);
        for number in order {
            let region = &goal.regions[number];
            region.set()?;
            let place = |target: &usize| devices.get(*target).copied();
            let targets: Option<Vec<usize>> = region.targets.iter().map(place).collect();
            let why = "it names a device that does not exist";
            let targets = targets.ok_or(inexpressible(number, why))?;
            let twice = |(place, target): (usize, &usize)| targets[..place].contains(target);
            if targets.iter().enumerate().any(twice) {
                return Err(inexpressible(number, "it names a device twice"));
            }
            let all: Vec<usize> = (0..targets.len()).collect();
            let paths: Vec<Vec<(Chooser, u8)>> =
                targets.iter().map(|target| self.path(*target)).collect();
            self.choose(&mut decoders, (number, region), &paths, all, (0, 1))
                .await?;
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

    /// The choosers on the way to a device, from the host bridge on, with the port that each has
    /// to choose.
    fn path(&self, device: usize) -> Vec<(Chooser, u8)> {
        let mut path = Vec::new();
        let mut below = device;
        while let Some(port) = self.functions[below].parent {
            let chooser = self.functions[port].parent;
            path.push((chooser, self.functions[port].port_number));
            match chooser {
                Some(upstream) => below = upstream,
                None => break,
            }
        }
        path.reverse();
        path
    }

    /// Programs the chooser of these targets, and those below it. `stride` is the product of the
    /// ways above.
    fn choose<'a>(
        &'a mut self,
        decoders: &'a mut Decoders,
        (number, region): (usize, &'a Region),
        paths: &'a [Vec<(Chooser, u8)>],
        targets: Vec<usize>,
        (depth, stride): (usize, u64),
    ) -> Work<'a> {
        Box::pin(async move {
            let step = |target: &usize| paths[*target].get(depth).copied();
            let Some((chooser, _)) = targets.first().and_then(step) else {
                return Ok(());
            };
            // What hangs below one port is one device or one switch, so all have the same chooser.
            let ports: Vec<u8> = targets
                .iter()
                .filter_map(step)
                .map(|(_, port)| port)
                .collect();
            let (ways, setting) = choice(number, region, &ports, stride)?;
            let component = match chooser {
                None => decoders.host,
                Some(upstream) => self.functions[upstream].decoders,
            };
            self.program(decoders, number, region, component, &setting)
                .await?;
            for way in 0..ways {
                let below = targets.iter().skip(way).step_by(ways).copied().collect();
                let next = (depth + 1, stride * ways as u64);
                self.choose(decoders, (number, region), paths, below, next)
                    .await?;
            }
            Ok(())
        })
    }

    /// Writes and commits one decoder.
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

    /// Enables CXL.cache and CXL.mem where they are.
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

/// How many ways the targets behind these ports, in order of turns, are chosen by, and the decoder
/// that does it; `stride` is the product of the ways above.
fn choice(
    number: usize,
    region: &Region,
    ports: &[u8],
    stride: u64,
) -> Result<(usize, Setting), EnumerateError> {
    let ways = ways(ports).map_err(|why| inexpressible(number, why))?;
    let list = ports[..ways]
        .iter()
        .rev()
        .fold(0, |list, port| list << 8 | u64::from(*port));
    let setting = Setting {
        ways: ways as u32,
        granularity: region.granularity.0 * stride,
        list,
    };
    Ok((ways, setting))
}

fn inexpressible(region: usize, why: &'static str) -> EnumerateError {
    EnumerateError::Inexpressible { region, why }
}

/// The number of different ports that take turns, each at its place.
fn ways(ports: &[u8]) -> Result<usize, &'static str> {
    let first = ports.first();
    let mut later = ports.iter().skip(1);
    let turn = later.position(|port| Some(port) == first);
    let ways = turn.map_or(ports.len(), |place| place + 1);
    if ways > MAX_LIST {
        return Err("more than 8 ports would take turns, and a target list has 8 places");
    }
    if ways.is_multiple_of(3) {
        return Err(
            "3, 6 or 12 ports would take turns: a host bridge or switch chooses among 1, 2, 4 or 8",
        );
    }
    let mut places = ports.iter().enumerate();
    let regular = places.all(|(place, port)| *port == ports[place % ways]);
    let distinct = (0..ways).all(|place| !ports[..place].contains(&ports[place]));
    match regular && distinct && ports.len().is_multiple_of(ways) {
        true => Ok(ways),
        false => Err("its order of devices is not one in which each port takes regular turns"),
    }
}
