//! A root complex: its host bridges, and the windows by which the platform divides addresses among them.

use cxlab_engine::units::{Bytes, Dpa, Hpa};

use super::{
    ComponentBelow, Function, HostBridge, RegisterPlace, Request, Step, Switch, all_ones, descend,
};
use crate::hdm::{InterleaveError, InterleaveSet};
use crate::io::space::{AccessError, COMPONENT_BYTES};

/// A CXL Fixed Memory Window (CFMWS structure of the CEDT; CXL 3.1, section 9.18.1.3 and table
/// 9-22): addresses that the platform interleaves over its host bridges. Firmware sets the window
/// up; software cannot change it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FixedWindow {
    /// First address of the window.
    pub base: Hpa,
    /// Size of the window.
    pub size: Bytes,
    /// Number of consecutive bytes that each host bridge gets.
    pub granularity: Bytes,
    /// The interleave target list: numbers of host bridges, 1, 2, 3, 4, 6, 8, 12 or 16 of them.
    pub host_bridges: Vec<usize>,
    /// The XOR maps (CXIMS structure), one for each bit of the ways. Empty for modulo arithmetic.
    pub xor_maps: Vec<u64>,
}

impl FixedWindow {
    /// A window of all addresses on one host bridge.
    pub fn whole(host_bridge: usize) -> FixedWindow {
        FixedWindow {
            base: Hpa(0),
            size: Bytes(1 << 52),
            granularity: Bytes(256),
            host_bridges: vec![host_bridge],
            xor_maps: Vec::new(),
        }
    }

    /// A window that sends its granules, from the base on, to these host bridges in this order. Its
    /// target list has another order if XOR maps are given, or if the base is not a multiple of
    /// ways times granularity.
    ///
    /// # Errors
    /// If the interleave is invalid.
    pub fn in_turns(
        base: Hpa,
        size: Bytes,
        granularity: Bytes,
        host_bridges: &[usize],
        xor_maps: &[u64],
    ) -> Result<FixedWindow, InterleaveError> {
        let mut set = InterleaveSet::new(base, size, granularity, host_bridges.len() as u32)?;
        if !xor_maps.is_empty() {
            set = set.with_xor(xor_maps)?;
        }
        let mut window = FixedWindow {
            base,
            size,
            granularity,
            host_bridges: host_bridges.to_vec(),
            xor_maps: xor_maps.to_vec(),
        };
        for (turn, host_bridge) in (0..).zip(host_bridges) {
            let place = window.place(set.encode(turn, Dpa(0)));
            window.host_bridges[place] = *host_bridge;
        }
        Ok(window)
    }

    /// Whether all of these addresses belong to the window.
    pub fn contains(&self, base: Hpa, size: Bytes) -> bool {
        let end = u128::from(base.0) + u128::from(size.0);
        base >= self.base && end <= u128::from(self.base.0) + u128::from(self.size.0)
    }

    /// The entry of the target list that an address of the window leads to (CXL 3.1, section
    /// 8.2.4.20.13 and table 9-22). The bits of XOR maps are those of Linux `cxl_xor_calc_n`. For 6
    /// and 12 ways, Linux takes the remainder modulo three without shifting the address first,
    /// which may exchange two thirds of the list.
    pub fn place(&self, hpa: Hpa) -> usize {
        let (ways, shift) = (self.host_bridges.len(), self.granularity.0.ilog2());
        let bits = ways.trailing_zeros();
        let low = match self.xor_maps.is_empty() {
            true => hpa.0 >> shift & ((1 << bits) - 1),
            false => (0..)
                .zip(&self.xor_maps[..bits as usize])
                .fold(0, |low, (bit, map)| {
                    low | u64::from((hpa.0 & map).count_ones() & 1) << bit
                }),
        };
        let group = match ways.is_multiple_of(3) {
            true => (hpa.0 >> (shift + bits)) % 3,
            false => 0,
        };
        (group << bits | low) as usize
    }

    /// The host bridge that an address of the window leads to.
    pub fn host_bridge(&self, hpa: Hpa) -> usize {
        self.host_bridges[self.place(hpa)]
    }
}

/// What firmware tells software about a host bridge: a CHBS structure of the CEDT, and the buses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostBridgeTable {
    /// Address of the component registers.
    pub component_base: Hpa,
    /// The bus of the root ports.
    pub first_bus: u8,
    /// The last bus that may be below the host bridge.
    pub last_bus: u8,
}

/// What firmware tells software about a root complex: the CEDT.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlatformTables {
    /// The host bridges, in the order of the CEDT.
    pub host_bridges: Vec<HostBridgeTable>,
    /// The fixed memory windows.
    pub windows: Vec<FixedWindow>,
}

impl PlatformTables {
    /// The window that contains all of these addresses, if there is one.
    pub fn window(&self, base: Hpa, size: Bytes) -> Option<&FixedWindow> {
        self.windows
            .iter()
            .find(|window| window.contains(base, size))
    }
}

/// A root complex: host bridges and the windows over them.
#[derive(Clone)]
pub struct RootComplex {
    /// The host bridges, in the order of the CEDT.
    pub bridges: Vec<HostBridge>,
    /// The fixed memory windows, which do not overlap.
    pub windows: Vec<FixedWindow>,
}

impl RootComplex {
    /// A root complex of one host bridge, with these components below its root ports.
    pub fn one(
        component_base: Hpa,
        below: impl IntoIterator<Item = ComponentBelow>,
    ) -> RootComplex {
        RootComplex {
            bridges: vec![HostBridge::new(component_base, below)],
            windows: vec![FixedWindow::whole(0)],
        }
    }

    /// A root complex of 1 to 16 host bridges, each with these components below its root ports. The
    /// registers of the host bridges follow each other from `component_base` on, and each host
    /// bridge has an equal part of the 256 buses.
    pub fn new(
        component_base: Hpa,
        below: Vec<Vec<ComponentBelow>>,
        windows: Vec<FixedWindow>,
    ) -> RootComplex {
        let buses = 256 / below.len().max(1);
        let bridge = |(number, below): (usize, Vec<ComponentBelow>)| HostBridge {
            first_bus: (number * buses) as u8,
            last_bus: ((number + 1) * buses - 1) as u8,
            ..HostBridge::new(
                Hpa(component_base.0 + number as u64 * COMPONENT_BYTES),
                below,
            )
        };
        RootComplex {
            bridges: below.into_iter().enumerate().map(bridge).collect(),
            windows,
        }
    }

    /// The tables that firmware provides to software.
    pub fn tables(&self) -> PlatformTables {
        let table = |bridge: &HostBridge| HostBridgeTable {
            component_base: bridge.component_base,
            first_bus: bridge.first_bus,
            last_bus: bridge.last_bus,
        };
        PlatformTables {
            host_bridges: self.bridges.iter().map(table).collect(),
            windows: self.windows.clone(),
        }
    }

    /// Serves a request of software, or names the root port through which it leaves. Requests to
    /// configuration space come as [`RegisterPlace::Bus`]. Root ports are counted through all host bridges.
    pub fn serve(&mut self, request: Request) -> Step {
        let mut first = 0;
        for bridge in &mut self.bridges {
            match bridge.serve(request) {
                Step::Nobody => first += bridge.ports.len(),
                Step::Below(place, request) => return Step::Below(first + place, request),
                done @ Step::Done(_) => return done,
            }
        }
        Step::Nobody
    }

    /// Reads a register in the whole hierarchy, or writes it. A read that no component answers
    /// returns all ones, and such a write does nothing.
    ///
    /// # Errors
    /// If the width or the offset is not allowed.
    pub fn access(
        &mut self,
        place: RegisterPlace,
        width: u32,
        write: Option<u64>,
    ) -> Result<u64, AccessError> {
        let request = Request {
            place,
            width,
            write,
        };
        let mut step = Step::Nobody;
        for bridge in &mut self.bridges {
            step = descend(bridge.serve(request), &mut bridge.ports);
            if step != Step::Nobody {
                break;
            }
        }
        match step {
            Step::Done(result) => result,
            _ => Ok(all_ones(width)),
        }
    }

    /// All switches, by host bridge and depth first.
    pub fn switches(&self) -> Vec<&Switch> {
        self.bridges.iter().flat_map(HostBridge::switches).collect()
    }

    /// All devices, by host bridge and depth first. Regions name devices by their index in this list.
    pub fn endpoints(&self) -> Vec<&Function> {
        self.bridges
            .iter()
            .flat_map(HostBridge::endpoints)
            .collect()
    }

    /// A copy of the root complex that has the registers of these switches and devices instead of
    /// its own, in the order of [`RootComplex::switches`] and [`RootComplex::endpoints`]. The
    /// components below these switches' ports are ignored.
    pub fn assembled(
        &self,
        switches: impl IntoIterator<Item = Switch>,
        devices: impl IntoIterator<Item = Function>,
    ) -> RootComplex {
        let (mut switches, mut devices) = (switches.into_iter(), devices.into_iter());
        let bridges = self.bridges.iter();
        RootComplex {
            bridges: bridges
                .map(|bridge| bridge.assembled(&mut switches, &mut devices))
                .collect(),
            windows: self.windows.clone(),
        }
    }

    /// The device and the DPA that an address leads to: by its window to a host bridge, and from
    /// there by the committed HDM decoders. `None` if no window has the address, or a decoder on
    /// the path does not decode it.
    pub fn decode(&self, hpa: Hpa) -> Option<(usize, Dpa)> {
        let mut windows = self.windows.iter();
        let window = windows.find(|window| window.contains(hpa, Bytes(1)))?;
        let number = window.host_bridge(hpa);
        let (device, dpa) = self.bridges.get(number)?.decode(hpa)?;
        let before = self.bridges[..number].iter();
        let before: usize = before.map(|bridge| bridge.endpoints().len()).sum();
        Some((before + device, dpa))
    }
}
