//! The plan of a system, and what it says about its hosts, devices and links.

use std::sync::Arc;

use cxlab_agent::Access;
use cxlab_engine::units::Bytes;
use cxlab_fabric::graph::FabricGraph;
use cxlab_fabric::routing::RoutingTables;
use cxlab_protocol::LatencyStages;
use cxlab_protocol::coherence::fields::CoherenceClass;
use cxlab_scenario::{AcceleratorGroup, DeviceGroup, LinkClass, Note, Scenario};
use cxlab_workload::Workload;

use crate::endpoints::{PlannedDevice, PlannedHost};
use crate::enumeration::Hierarchy;
use crate::failures::{self, Failures};
use crate::fleet::PlannedFleet;
use crate::inputs::{Files, Inputs};
use crate::links::{End, PlannedLink};
use crate::manager::{self, PlannedCommand, PlannedPool};
use crate::media::PlannedMedia;
use crate::media_errors;
use crate::problem::Problem;
use crate::qos::Qos;
use crate::sharing::SharedPart;

/// A system, ready to be built.
pub struct Plan {
    /// The scenario with all defaults filled in.
    pub scenario: Scenario,
    /// Hash of everything that can change a result except the seed.
    pub hash: String,
    /// The hash without the windows of warm-up and measurement: it covers all inputs of the
    /// state of a run.
    pub state_hash: String,
    /// The fabric's graph of switches, ports and endpoints.
    pub graph: FabricGraph,
    /// The fabric's routing tables.
    pub tables: Arc<RoutingTables>,
    /// Hosts, by number. The number is also the PID of the host's edge port.
    pub hosts: Vec<PlannedHost>,
    /// Devices, by number: Type 3 devices, then accelerators. Their PIDs follow the hosts'.
    pub devices: Vec<PlannedDevice>,
    /// Links, by their numbers.
    pub links: Vec<PlannedLink>,
    /// The classes of links that the scenario has, by number.
    pub link_classes: Vec<LinkClass>,
    /// Notes on surprising properties of the system, for the user.
    pub notes: Vec<Note>,
    /// Media of devices, hosts and accelerators.
    pub media: PlannedMedia,
    /// Whether any medium comes from a shared library.
    pub has_plugins: bool,
    /// Workloads, by host group.
    pub workloads: Vec<Box<dyn Workload>>,
    /// Second workload that runs beside the first one, by host group.
    pub beside: Vec<Option<Box<dyn Workload>>>,
    /// Number of the host of each accelerator.
    pub accelerator_hosts: Vec<usize>,
    /// By host: its parts of shared regions with values.
    pub shared: Vec<SharedPart>,
    /// By host: whether it reaches memory that devices keep coherent.
    pub caching: Vec<bool>,
    /// The hierarchy that each host enumerates; empty if the scenario does not enumerate.
    pub hierarchies: Vec<Hierarchy>,
    /// The commands of the fabric manager, in the order in which they are issued.
    pub commands: Vec<PlannedCommand>,
    /// Pooled regions, with the outcome of the hosts' demands.
    pub pools: Vec<PlannedPool>,
    /// Failures and repairs, if the scenario has any.
    pub(crate) failures: Option<Failures>,
    /// The fleet, if the scenario has one.
    pub fleet: Option<PlannedFleet>,
    /// The base of relative paths, and a trace from the command line.
    pub files: Files,
    /// Trace files of the workloads, with their metadata when the plan was made.
    pub inputs: Inputs,
    /// Load telemetry of devices and throttles of hosts.
    pub qos: Qos,
}

impl Plan {
    /// The accelerators of a host: device numbers and scenario parameters.
    pub fn accelerators_of(&self, host: usize) -> impl Iterator<Item = (usize, &AcceleratorGroup)> {
        let all = self.devices.iter().enumerate();
        let accelerators = all.filter_map(|(number, device)| {
            Some((number, &self.scenario.accelerators[device.accelerator()?]))
        });
        let all = accelerators.zip(&self.accelerator_hosts);
        all.filter_map(move |(accelerator, of)| (*of == host).then_some(accelerator))
    }

    /// Whether a host of the group reaches memory that devices keep coherent.
    pub fn is_coherent(&self, group: usize) -> bool {
        let mut hosts = self.hosts.iter().zip(&self.caching);
        hosts.any(|(host, caching)| host.group == group && *caching)
    }

    /// Whether a host of the group reaches a device that reports its load.
    pub fn is_told_load(&self, group: usize) -> bool {
        let hosts = self.hosts.iter().filter(|host| host.group == group);
        let mut devices = hosts.flat_map(|host| host.targets(self.hosts.len()));
        devices.any(|device| {
            let memory = self.memory_group(&self.devices[device]);
            memory.is_some_and(|memory| memory.qos.is_some())
        })
    }

    /// Whether the hosts of the group run threads.
    pub fn runs_threads(&self, group: usize) -> bool {
        self.workloads[group].needs_threads()
    }

    /// Whether a host of the group has an accelerator.
    pub fn has_accelerator(&self, group: usize) -> bool {
        let mut hosts = self.accelerator_hosts.iter();
        hosts.any(|host| self.hosts[*host].group == group)
    }

    /// Whether an accelerator of the group translates virtual addresses.
    pub fn translates(&self, group: usize) -> bool {
        let groups = self.devices.iter().filter_map(PlannedDevice::accelerator);
        let mut all = groups.zip(&self.accelerator_hosts);
        all.any(|(of, host)| of == group && self.has_os(*host))
    }

    /// The problem of a run in which a thread of a device without CXL.cache accesses host memory.
    /// `number` is the device's number among the accelerators.
    pub fn refused_access(&self, number: usize, access: &Access) -> Problem {
        let (group, name) = self.accelerator(number);
        Problem::refused(
            format!("accelerators[{group}].device.kind"),
            format_args!(
                "\"pcie\", and a thread on `{name}` asks for {:?} at {:#x} of host memory, which needs \
                 CXL.cache",
                access.kind, access.addr
            ),
            "\"type1\", or threads that use DMA",
        )
    }

    fn accelerator(&self, number: usize) -> (usize, &str) {
        let mut accelerators = (self.devices.iter())
            .filter_map(|device| Some((device.accelerator()?, device.name.as_str())));
        accelerators.nth(number).unwrap_or_default()
    }

    /// The problem of a request that waited for too long. `issuer` is the number of a host, or of
    /// an accelerator counted after the hosts.
    pub fn too_long(&self, issuer: usize) -> Problem {
        let (path, name) = match self.hosts.get(issuer) {
            Some(host) => (format!("hosts[{}]", host.group), host.name.as_str()),
            None => {
                let (group, name) = self.accelerator(issuer - self.hosts.len());
                (format!("accelerators[{group}]"), name)
            }
        };
        let longest = LatencyStages::LONGEST.0 as f64 / 1e12;
        Problem::refused(
            path,
            format_args!("a request of `{name}` that spent more than {longest:.4} s in one place"),
            "less, so faster media and links, or fewer requests at once",
        )
    }

    /// Whether the memory of hosts changes while the workloads run, or is not
    /// complete from the beginning.
    pub fn changes_capacity(&self) -> bool {
        manager::changes_capacity(&self.scenario)
    }

    /// Whether lines of some device may be poisoned.
    pub fn has_media_errors(&self) -> bool {
        media_errors::has_any(&self.scenario)
    }

    /// Whether the system changes while the workloads run: memory of hosts, presence
    /// of hosts, or failures.
    pub fn has_events(&self) -> bool {
        self.changes_capacity()
            || !self.scenario.events.is_empty()
            || failures::has_any(&self.scenario)
    }

    /// Failures and repairs, if the scenario has any.
    pub fn failures(&self) -> Option<&Failures> {
        self.failures.as_ref()
    }

    /// Number of virtual channels of each link.
    pub fn virtual_channels(&self) -> u8 {
        let failures = self.failures.as_ref();
        failures.map_or(self.tables.virtual_channels(), |all| all.virtual_channels)
    }

    /// The name of the routing.
    pub fn routing_name(&self) -> &'static str {
        self.scenario.fabric.routing.name()
    }

    /// Number of links on the longest path between a host and a device it
    /// reaches, in either direction.
    pub fn longest_path(&self) -> Option<u32> {
        let first = self.hosts.len();
        let devices = first..first + self.devices.len();
        let from = |host: usize| {
            devices.clone().filter_map(move |device| {
                let there = self.tables.hops(host, device)?;
                Some(there.max(self.tables.hops(device, host)?))
            })
        };
        (0..first).flat_map(from).max()
    }

    /// Whether a host's workload ends by itself.
    pub fn is_finite(&self, host: &PlannedHost) -> bool {
        let workload = &self.workloads[host.group];
        let group = &self.scenario.hosts[host.group];
        let limited = group.beside.as_ref().and_then(|one| one.requests).is_some();
        let beside = self.beside[host.group].as_ref();
        (workload.is_finite() || workload.needs_threads())
            && beside.is_none_or(|one| limited || one.is_finite())
    }

    /// By device: the class of coherence of its memory.
    pub fn classes(&self) -> Vec<CoherenceClass> {
        let class = |device: &PlannedDevice| match self.memory_group(device) {
            Some(group) if group.is_hdm_db() => CoherenceClass::HdmDb,
            _ => CoherenceClass::HdmH,
        };
        self.devices.iter().map(class).collect()
    }

    /// The accelerators, which issue requests as hosts do.
    pub fn accelerators(&self) -> &[PlannedDevice] {
        &self.devices[self.devices.len() - self.accelerator_hosts.len()..]
    }

    /// Whether any workload replays a file.
    pub fn has_trace(&self) -> bool {
        let trace = self.files.trace_override.as_deref();
        let mut workloads = self.workloads.iter().chain(self.beside.iter().flatten());
        workloads.any(|one| one.file(&self.files.scenario_dir, trace).is_some())
    }

    /// By endpoint, hosts first: whether its memory is HDM-D, which only accelerators may have.
    pub fn hdm_d(&self) -> impl Iterator<Item = bool> {
        let hosts = self.hosts.iter().map(|_| false);
        let devices = self.devices.iter().map(|device| {
            let group = device.accelerator();
            group.is_some_and(|group| !self.scenario.accelerators[group].is_hdm_db())
        });
        hosts.chain(devices)
    }

    /// The scenario's parameters of a Type 3 device; `None` for an accelerator.
    pub fn memory_group(&self, device: &PlannedDevice) -> Option<&DeviceGroup> {
        device.memory().map(|group| &self.scenario.devices[group])
    }

    /// The sum of the devices' capacities.
    pub fn capacity(&self) -> Bytes {
        let groups = self
            .devices
            .iter()
            .filter_map(|device| self.memory_group(device));
        Bytes(groups.map(|group| group.capacity.0).sum())
    }

    /// Number of the component at the end of a link, counted over hosts, devices and switches.
    pub fn component(&self, end: End) -> usize {
        end.component(self.hosts.len(), self.devices.len())
    }

    /// The name of a component at the end of a link.
    pub fn end_name(&self, end: End) -> &str {
        match end {
            End::Host(host, _) => &self.hosts[host].name,
            End::Device(device, _) => &self.devices[device].name,
            End::Switch(switch, _) => &self.graph.switches[switch].name,
        }
    }

    /// The path of a link's parameters in the scenario.
    pub fn link_path(&self, link: &PlannedLink) -> &str {
        &self.link_classes[link.class].path
    }

    /// Most bandwidth of a host's links in one direction, in GB/s of cache lines.
    pub fn host_gb_per_s(&self, host: usize) -> f64 {
        let is_of_host =
            |link: &&PlannedLink| matches!(link.a, End::Host(number, _) if number == host);
        let links = self.links.iter().filter(is_of_host);
        links.map(PlannedLink::gb_per_s).sum()
    }
}
