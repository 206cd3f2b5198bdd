//! The hierarchy that each host enumerates, and the decoders that the host has to program.
//!
//! With PCIe-style switches, each physical switch contains a virtual switch for each host. A fabric of PBR switches
//! shows each host one virtual switch, at its edge, with a downstream port for each device bound to the host, however
//! far away (CXL 3.1, section 7.7, *recollection*). A device of several hosts shows each of them a logical device with
//! registers of its own. The memory of a logical device is the host's share of the device, in one piece (CXL 3.1,
//! section 2.5); the fabric manager says which memory of the device that is.
//!
//! The root ports of a host are distributed over its host bridges round-robin. The platform has a
//! fixed memory window (CFMWS of the CEDT; CXL 3.1, section 9.18.1.3) for each window of the host's
//! address map, over the host bridges of its devices in interleaving order.

use std::collections::BTreeSet;

use cxlab_device::AcceleratorKind;
use cxlab_engine::units::{Bytes, Hpa};
use cxlab_fabric::graph::FabricGraph;
use cxlab_fabric::routing::{PortPeer, RoutingTables};
use cxlab_protocol::PortId;
use cxlab_protocol::hdm::InterleaveError;
use cxlab_protocol::io::enumerate::{EnumerateError, EnumerationLog, Goal, Region, enumerate};
use cxlab_protocol::io::space::{DeviceType, FunctionSpec};
use cxlab_protocol::io::tree::{ComponentBelow, FixedWindow, RootComplex};
use cxlab_scenario::{Arithmetic, FabricKind, Scenario};

use crate::endpoints::{DeviceKind, PlannedDevice, PlannedHost};
use crate::problem::{Problem, Problems};

/// Address of the registers of the first host bridge: above all memory. *Assumed*.
const HOST_BRIDGE: Hpa = Hpa(1 << 52);
/// First address for BARs. *Assumed*.
const MMIO_BASE: Hpa = Hpa(1 << 52 | 1 << 32);
const MMIO_BYTES: u64 = 1 << 32;
/// Max_Read_Request_Size of every function, in bytes: Linux keeps the value after reset.
const MAX_READ_REQUEST: u32 = 512;
/// Most devices on a bus, of one function each: downstream ports of a switch, and root ports.
const MOST_PORTS: usize = 32;
/// Most logical devices of a device (CXL 3.1, section 2.5).
const MOST_LOGICAL: usize = 16;

/// Most host bridges: the targets of a window (CXL 3.1, section 8.2.4.20.7).
const MOST_BRIDGES: u32 = 16;

/// The hierarchy that a host enumerates.
pub struct Hierarchy {
    host: usize,
    /// The root complex after reset, with the components below it.
    pub root: RootComplex,
    /// The memory that the host has to map.
    pub goal: Goal,
    /// The log of the same enumeration without simulated time.
    pub log: EnumerationLog,
    /// By root port, counted through the host bridges: the number of its link, and an edge port reached through it.
    pub roots: Vec<(u16, PortId)>,
    /// The host's virtual switches, depth first.
    pub switches: Vec<VirtualSwitch>,
    /// Numbers of the devices, depth first.
    pub devices: Vec<usize>,
}

/// A virtual switch of a host.
pub struct VirtualSwitch {
    /// Number of the physical switch that contains it.
    pub switch: usize,
    /// By downstream port: an edge port reached through it.
    pub towards: Vec<PortId>,
}

/// Checks the parts of enumeration that do not depend on the fabric.
pub(crate) fn check(scenario: &Scenario, problems: &mut Problems) {
    let Some(params) = &scenario.enumeration else {
        return;
    };
    let mut fields = problems.below("enumeration");
    fields.delay("software_time", params.software_time);
    fields.delay("register_time", params.register_time);
    if !(1..=MOST_BRIDGES).contains(&params.host_bridges) {
        let allowed =
            format_args!("1 to {MOST_BRIDGES} (targets of a window, CXL 3.1 section 8.2.4.20.7)");
        fields.refuse("host_bridges", params.host_bridges, allowed);
    }
    if scenario.address_map.arithmetic != Arithmetic::Modulo && params.host_bridges == 1 {
        problems.refuse(
            "address_map.arithmetic",
            "\"xor\" with enumeration",
            "\"modulo\", or `enumeration.host_bridges` of 2 or more (XOR chooses among host bridges, of \
             which a host has one there)",
        );
    }
    let routing = scenario.fabric.routing.name();
    if routing != "shortest" {
        problems.refuse(
            "fabric.routing",
            format_args!("\"{routing}\" with enumeration"),
            "\"shortest\" (reads of registers may not pass writes, which several paths would let them)",
        );
    }
}

/// Number of the host bridge of a device that is linked directly to the host; `None` if a switch is between them.
fn host_bridge(
    scenario: &Scenario,
    graph: &FabricGraph,
    host: usize,
    device: usize,
) -> Option<usize> {
    let bridges = scenario.enumeration.as_ref()?.host_bridges as usize;
    let mut links = graph.direct.iter().filter(|(from, _)| *from == host);
    let hosts = graph.endpoints.requesters.len();
    let place = links.position(|(_, to)| *to == hosts + device)?;
    Some(place % bridges.max(1))
}

/// Number of host bridges that a window over these devices uses. Without enumeration each device
/// has a host bridge of its own.
pub(crate) fn host_bridges(
    scenario: &Scenario,
    graph: &FabricGraph,
    host: usize,
    devices: impl Iterator<Item = usize>,
) -> u32 {
    if scenario.enumeration.is_none() {
        return devices.count() as u32;
    }
    let bridges = devices.map(|device| host_bridge(scenario, graph, host, device).unwrap_or(0));
    bridges.collect::<BTreeSet<_>>().len() as u32
}

/// The resolved fabric, from which the hierarchies are made.
pub(crate) struct ResolvedFabric<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) graph: &'a FabricGraph,
    pub(crate) tables: &'a RoutingTables,
    pub(crate) hosts: &'a [PlannedHost],
    pub(crate) devices: &'a [PlannedDevice],
    /// Numbers of the devices that each host reaches.
    pub(crate) reach: &'a [Vec<usize>],
    /// Number of the host of each accelerator.
    pub(crate) accelerator_hosts: &'a [usize],
}

impl ResolvedFabric<'_> {
    /// The hierarchy of each host; empty if the scenario does not enumerate.
    pub(crate) fn hierarchies(&self) -> Result<Vec<Hierarchy>, Problem> {
        if self.scenario.enumeration.is_none() {
            return Ok(Vec::new());
        }
        let hosts = 0..self.hosts.len();
        let bound: Vec<Vec<usize>> = hosts.clone().map(|host| self.bound(host)).collect();
        for (device, planned) in self.devices.iter().enumerate() {
            let sharing = bound.iter().filter(|devices| devices.contains(&device));
            let found = sharing.count();
            if found > MOST_LOGICAL {
                return Err(Problem::refused(
                    "enumeration",
                    format_args!("{found} hosts that reach device `{}`", planned.name),
                    format_args!(
                        "at most {MOST_LOGICAL}, each with a logical device of its own (CXL 3.1 section 2.5)"
                    ),
                ));
            }
        }
        let hierarchy = |host: usize| self.hierarchy(host, &bound[host]);
        hosts.map(hierarchy).collect()
    }

    /// Bytes of a Type 3 device's memory that a host sees.
    fn share(&self, host: usize, device: usize) -> Bytes {
        let port = self.port_id(device);
        let windows = self.hosts[host].map.windows().iter();
        let shares = windows.filter(|window| window.targets.contains(&port));
        Bytes(shares.map(|window| window.set.target_size().0).sum())
    }

    /// The devices in a host's hierarchy: its accelerators, and the other devices of which it sees memory.
    fn bound(&self, host: usize) -> Vec<usize> {
        let first = self.devices.len() - self.accelerator_hosts.len();
        let own = |device: &usize| match device.checked_sub(first) {
            Some(accelerator) => self.accelerator_hosts[accelerator] == host,
            None => self.share(host, *device) > Bytes(0),
        };
        self.reach[host].iter().copied().filter(own).collect()
    }

    fn hierarchy(&self, host: usize, bound: &[usize]) -> Result<Hierarchy, Problem> {
        let mut found = Hierarchy {
            host,
            root: RootComplex::one(HOST_BRIDGE, []),
            goal: self.goal(host, &[]),
            log: EnumerationLog::default(),
            roots: Vec::new(),
            switches: Vec::new(),
            devices: Vec::new(),
        };
        let below: Vec<Vec<ComponentBelow>> = match self.tables.ports().edge(host) {
            Some((switch, _)) => {
                found.roots.push((0, self.behind(bound)));
                vec![vec![match self.scenario.fabric.kind {
                    FabricKind::Pbr => self.flat(switch, bound, &mut found),
                    FabricKind::SingleVcs | FabricKind::MultipleVcs => {
                        self.nested(switch, bound, &mut found)
                    }
                }]]
            }
            None => self.direct(host, bound, &mut found),
        };
        self.check_bridges(host, found.roots.len())?;
        for ports in &below {
            self.check_ports(host, "root ports", ports.len())?;
        }
        for switch in &found.switches {
            self.check_ports(host, "downstream ports", switch.towards.len())?;
        }
        found.goal = self.goal(host, &found.devices);
        let windows = self.fixed_windows(host, &found);
        let windows = windows.map_err(|error| self.refused(host, &error.into()))?;
        found.root = RootComplex::new(HOST_BRIDGE, below, windows);
        found.log = enumerate(&mut found.root.clone(), &found.goal)
            .map_err(|error| self.refused(host, &error))?;
        Ok(found)
    }

    fn check_ports(&self, host: usize, what: &str, found: usize) -> Result<(), Problem> {
        if found <= MOST_PORTS {
            return Ok(());
        }
        let name = &self.hosts[host].name;
        Err(Problem::refused(
            "enumeration",
            format_args!("{found} {what} side by side in the hierarchy of host `{name}`"),
            format_args!("at most {MOST_PORTS} (device numbers of a bus)"),
        ))
    }

    /// Checks that each host bridge of a host has a root port.
    fn check_bridges(&self, host: usize, root_ports: usize) -> Result<(), Problem> {
        let found = self.bridges();
        if found <= root_ports {
            return Ok(());
        }
        let name = &self.hosts[host].name;
        Err(Problem::refused(
            "enumeration.host_bridges",
            format_args!("{found}, and host `{name}` has {root_ports} root port(s)"),
            "at most so many (a host has a root port for each link without a switch, and one behind which \
             its switches are)",
        ))
    }

    fn bridges(&self) -> usize {
        let params = self.scenario.enumeration.as_ref();
        params.map_or(1, |params| params.host_bridges as usize)
    }

    /// The platform's window for each region of a host, over the host bridges of its devices in interleaving order.
    fn fixed_windows(
        &self,
        host: usize,
        found: &Hierarchy,
    ) -> Result<Vec<FixedWindow>, InterleaveError> {
        let maps = self.scenario.address_map.xor_maps().unwrap_or_default();
        let window = |region: &Region| {
            let bridge = |target: &usize| {
                let device = found.devices[*target];
                host_bridge(self.scenario, self.graph, host, device).unwrap_or(0)
            };
            let turns: Vec<usize> = region.targets.iter().map(bridge).collect();
            let ways = turns.iter().collect::<BTreeSet<_>>().len();
            let (base, size) = (region.base, region.size);
            FixedWindow::in_turns(base, size, region.granularity, &turns[..ways], &maps)
        };
        found.goal.regions.iter().map(window).collect()
    }

    fn port_id(&self, device: usize) -> PortId {
        PortId((self.hosts.len() + device) as u16)
    }

    /// An edge port that is reached through a port which leads to these devices.
    fn behind(&self, devices: &[usize]) -> PortId {
        self.port_id(devices.first().copied().unwrap_or(0))
    }

    /// A device below a port, numbered as the next one of the hierarchy.
    fn endpoint(&self, device: usize, found: &mut Hierarchy) -> ComponentBelow {
        found.devices.push(device);
        let none = Bytes(0);
        let (kind, memory) = match self.devices[device].group {
            DeviceKind::Memory(_) => (DeviceType::Type3, self.share(found.host, device)),
            DeviceKind::Accelerator(group) => {
                let group = &self.scenario.accelerators[group];
                match (group.device.kind, &group.memory) {
                    (AcceleratorKind::Pcie, _) => (DeviceType::Pcie, none),
                    (AcceleratorKind::Type1, None) => (DeviceType::Type1, none),
                    (AcceleratorKind::Type1, Some(memory)) => (DeviceType::Type2, memory.capacity),
                }
            }
        };
        ComponentBelow::endpoint(FunctionSpec::endpoint(kind, memory.0))
    }

    /// By host bridge: the root ports that have one device each, in the order of their links.
    fn direct(
        &self,
        host: usize,
        bound: &[usize],
        found: &mut Hierarchy,
    ) -> Vec<Vec<ComponentBelow>> {
        let links = self.graph.direct.iter().filter(|(from, _)| *from == host);
        let links: Vec<usize> = links.map(|(_, to)| *to - self.hosts.len()).collect();
        let mut one = |link: usize| {
            let device = links[link];
            found.roots.push((link as u16, self.port_id(device)));
            match bound.contains(&device) {
                true => self.endpoint(device, found),
                false => ComponentBelow::Nothing,
            }
        };
        let bridges = self.bridges();
        let ports = |bridge: usize| (bridge..links.len()).step_by(bridges);
        let below = |bridge: usize| ports(bridge).map(&mut one).collect();
        (0..bridges).map(below).collect()
    }

    /// A single virtual switch with a downstream port for each device.
    fn flat(&self, switch: usize, bound: &[usize], found: &mut Hierarchy) -> ComponentBelow {
        let towards = bound.iter().map(|device| self.port_id(*device)).collect();
        found.switches.push(VirtualSwitch { switch, towards });
        let below = bound.iter().map(|device| self.endpoint(*device, found));
        ComponentBelow::switch(below.collect::<Vec<_>>())
    }

    /// A virtual switch in each switch on the path, with a port for each link that leads to devices.
    fn nested(&self, switch: usize, bound: &[usize], found: &mut Hierarchy) -> ComponentBelow {
        let mut ports: Vec<(u16, Vec<usize>)> = Vec::new();
        for device in bound {
            let to = self.hosts.len() + device;
            let Some(port) = self.tables.candidates(switch, to).first() else {
                continue;
            };
            match ports.iter_mut().find(|(known, _)| known == port) {
                Some((_, devices)) => devices.push(*device),
                None => ports.push((*port, vec![*device])),
            }
        }
        ports.sort_unstable_by_key(|(port, _)| *port);
        let towards = ports.iter().map(|(_, devices)| self.behind(devices));
        let towards = towards.collect();
        found.switches.push(VirtualSwitch { switch, towards });
        let mut below = Vec::new();
        for (port, devices) in ports {
            below.push(match self.tables.ports().of(switch)[usize::from(port)] {
                PortPeer::Endpoint(_) => self.endpoint(devices[0], found),
                PortPeer::Switch { index, .. } => self.nested(index, &devices, found),
                PortPeer::Cut => continue,
            });
        }
        ComponentBelow::switch(below)
    }

    /// The windows of a host's address map, as memory regions of these devices.
    fn goal(&self, host: usize, devices: &[usize]) -> Goal {
        let first = self.hosts.len();
        let place = |port: &PortId| {
            let number = usize::from(port.0) - first;
            devices.iter().position(|device| *device == number)
        };
        let windows = self.hosts[host].map.windows().iter();
        let regions = windows.map(|window| {
            let device = window.targets.first();
            let device = device.map(|port| &self.devices[usize::from(port.0) - first]);
            let group = device.and_then(PlannedDevice::memory);
            Region {
                base: window.base,
                size: window.size,
                granularity: self.scenario.address_map.granularity,
                targets: window.targets.iter().filter_map(place).collect(),
                host_only: group.is_some_and(|group| !self.scenario.devices[group].is_hdm_db()),
                lock: false,
            }
        });
        Goal {
            mmio_base: MMIO_BASE,
            mmio_bytes: MMIO_BYTES,
            max_read_request: MAX_READ_REQUEST,
            regions: match devices.is_empty() {
                true => Vec::new(),
                false => regions.collect(),
            },
        }
    }

    fn refused(&self, host: usize, error: &EnumerateError) -> Problem {
        let path = match error {
            EnumerateError::Inexpressible { .. }
            | EnumerateError::Decoders(_)
            | EnumerateError::Refused { .. }
            | EnumerateError::Interleave(_) => "address_map",
            EnumerateError::Access(_)
            | EnumerateError::Aborted(_)
            | EnumerateError::Buses
            | EnumerateError::Mmio { .. } => "enumeration",
        };
        Problem::new(
            path,
            format!(
                "found a system whose HDM decoders host `{}` cannot program: {error}; allowed with \
                 enumeration: what registers can express (`address_map.ways`, \
                 `enumeration.host_bridges` and the order of devices decide it)",
                self.hosts[host].name
            ),
        )
    }
}
