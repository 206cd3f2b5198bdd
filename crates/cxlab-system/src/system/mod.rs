//! The system: components and wiring, made from a plan.

mod devices;
mod hosts;
mod links;
mod node;

use std::sync::Arc;

use cxlab_agent::{LineVersions, PoisonedLines, SharedMemory};
use cxlab_engine::units::SimTime;
use cxlab_engine::{Monitor, Outcome, Simulation, Stop, Threads, Wire};
use cxlab_fabric::bus::{Bus, BusConfig};
use cxlab_link::LinkPort;
use cxlab_memory::{FaultList, RunContext};
use cxlab_plan::{End, Plan, Problem};
use cxlab_workload::Image;
use cxlab_workload::thread::ThreadedKernel;

pub use node::Node;

use crate::host::Host;
use crate::wrapper::enumeration::{self, EnumerationResult};
use crate::wrapper::failures;
use crate::wrapper::tracing::Tracing;

/// The transmitting component and port of each direction of a planned link, where the direction is measured.
#[derive(Clone, Copy, Debug)]
pub struct Directions {
    /// From end `a` to end `b`.
    pub forward: (usize, u16),
    /// From end `b` to end `a`.
    pub backward: (usize, u16),
}

/// Records of a run that a system keeps in addition to its counters. No record changes the run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RecordOptions {
    /// A row for each request that completes, for [`Host::take_rows`].
    pub rows: bool,
    /// Values, for checkers: those that accesses to coherent caches read or wrote, for [`Host::take_observations`],
    /// those stored in devices with HDM-DB memory, for [`cxlab_device::CoherentDevice::value`], and those that plain
    /// requesters read from devices with events, in their rows.
    pub values: bool,
    /// The operations of threads, so that the system can be saved.
    pub states: bool,
    /// Arrivals at each component and the levels of its ports, for [`crate::perfetto`].
    pub arrivals: bool,
}

/// A built system.
pub struct System {
    /// Hosts, then devices, switches and buses.
    pub simulation: Simulation<Node>,
    /// By planned link.
    pub directions: Vec<Directions>,
    /// Number of hosts; devices follow them in `simulation`.
    pub hosts: usize,
    /// Number of devices, with accelerators.
    pub devices: usize,
    /// By host: the kernel whose threads run there and on its accelerators, and their memory.
    pub domains: Vec<Option<Domain>>,
    /// By host: the result of its enumeration; empty if the scenario has none.
    pub enumerated: Vec<EnumerationResult>,
    /// Errors of media that cannot continue.
    pub faults: FaultList,
}

/// The coherence domain of a host and its accelerators: their threads share one memory.
pub struct Domain {
    /// Kernel of the domain's threads.
    pub kernel: Box<dyn ThreadedKernel>,
    /// Memory that the domain's threads share.
    pub image: Image,
    /// Versions of the image's lines, by which builds with debug assertions check that no component uses a copy
    /// that it should have lost.
    versions: Option<LineVersions>,
    /// The image's lines that are poison, if a device's medium may return poison.
    poison: Option<PoisonedLines>,
}

/// Collects ports and wires while links are laid.
struct Builder<'a> {
    plan: &'a Plan,
    seed: u64,
    record: RecordOptions,
    /// Number of virtual channels of a link.
    vcs: u8,
    /// By endpoint: whether its memory is HDM-D.
    hdm_d: Arc<[bool]>,
    domains: Vec<Option<Domain>>,
    context: RunContext,
    /// The values of regions that hosts share, as the devices store them.
    shared: SharedMemory,
    /// By component: its ports in order, and their wires.
    ports: Vec<Vec<Option<(LinkPort, Wire)>>>,
}

impl System {
    /// Lets hosts enumerate the devices. All components start again afterwards. Does nothing if the scenario has
    /// no enumeration.
    ///
    /// # Errors
    /// A broken law of the enumeration.
    pub fn enumerate(
        &mut self,
        plan: &Plan,
        threads: Threads,
        monitor: &Monitor,
    ) -> Result<Option<Outcome>, String> {
        if plan.scenario.enumeration.is_none() {
            return Ok(None);
        }
        let outcome = self.simulation.run(threads, SimTime::NEVER, monitor);
        if outcome.stop == Stop::Exhausted {
            let nodes = self.simulation.components();
            if let Some(number) = nodes.map(Node::in_flight).position(|count| count > 0) {
                return Err(format!("component {number} did not end its enumeration"));
            }
            self.enumerated = enumeration::finish(self.unwrap(), plan)?;
            self.simulation.restart();
        } else {
            drop(self.unwrap());
        }
        Ok(Some(outcome))
    }

    /// Takes all components out of the wrappers of enumeration; returns the wrappers' parts by component.
    fn unwrap(&mut self) -> Vec<(usize, enumeration::EnumerationRole)> {
        let mut parts = Vec::new();
        let count = self.simulation.components().len();
        for number in 0..count {
            let node = self.simulation.component_mut(number);
            if let Node::Enumerating(wrapped) = node
                && let Some(inside) = wrapped.take()
                && let Node::Enumerating(wrapped) = std::mem::replace(node, inside)
            {
                parts.push((number, wrapped.into_part()));
            }
        }
        parts
    }

    /// The hosts and the accelerators, in the order of components.
    pub fn issuers(&self) -> impl Iterator<Item = &Host> {
        self.simulation.components().filter_map(Node::host)
    }

    pub(crate) fn each_issuer(&mut self, mut change: impl FnMut(&mut Host)) {
        self.simulation.for_each_mut(|node| {
            if let Some(host) = node.host_mut() {
                change(host);
            }
        });
    }

    /// Builds a plan's system.
    ///
    /// # Errors
    /// Workloads whose files have become unusable since the plan was made.
    pub fn build(plan: &Plan, seed: u64, record: RecordOptions) -> Result<System, Vec<Problem>> {
        plan.rehearse_media()?;
        let faults = FaultList::default();
        let context = plan.media_context(faults.clone());
        let sources = plan.sources(seed)?;
        let (hosts, devices) = (plan.hosts.len(), plan.devices.len());
        let switches = plan.graph.switches.len();
        let mut builder = Builder {
            plan,
            seed,
            record,
            vcs: plan.virtual_channels(),
            hdm_d: plan.hdm_d().collect(),
            domains: Vec::new(),
            context,
            shared: SharedMemory::default(),
            ports: (0..hosts + devices + switches)
                .map(|_| Vec::new())
                .collect(),
        };
        let mut buses = Vec::new();
        let lay = |link| builder.lay(link, &mut buses);
        let directions = plan.links.iter().map(lay).collect();

        let mut wires = Vec::new();
        let mut components = Vec::new();
        let mut sources = sources.into_iter();
        for (number, slots) in std::mem::take(&mut builder.ports).into_iter().enumerate() {
            let (ports, port_wires): (Vec<LinkPort>, Vec<Wire>) =
                slots.into_iter().flatten().unzip();
            wires.push(port_wires);
            let node = if number < hosts {
                let source = sources.next();
                let made = source.map(|source| builder.host(number, ports, source));
                made.transpose().map_err(|problem| vec![problem])?
            } else if number < hosts + devices {
                Some(builder.device(number - hosts, ports))
            } else if number < hosts + devices + switches {
                Some(builder.switch(number - hosts - devices, ports))
            } else {
                let bus = &buses[number - hosts - devices - switches];
                let ports: Result<[LinkPort; 2], _> = ports.try_into();
                ports.ok().map(|ports| {
                    Node::Bus(Box::new(Bus::new(BusConfig {
                        ports,
                        turnaround_ps: bus.turnaround.0,
                        burst: bus.turnaround_burst,
                    })))
                })
            };
            match node {
                Some(node) => components.push(node),
                None => unreachable!("every host has a source and every bus two ports"),
            }
        }
        let pipeline = |end: End| plan.egress(end) + plan.ingress(end);
        let constants = enumeration::Constants {
            host: &|host| pipeline(End::Host(host, 0)),
            device: &|device| pipeline(End::Device(device, 0)),
        };
        let components = failures::wrap(components, plan, Node::Failing);
        let components = match record.arrivals {
            true => traced(components, &wires, plan),
            false => components,
        };
        let components = enumeration::wrap(components, plan, &constants, Node::Enumerating);
        Ok(System {
            simulation: Simulation::new(components, wires),
            enumerated: Vec::new(),
            faults,
            directions,
            hosts,
            devices,
            domains: builder.domains,
        })
    }
}

/// Wraps all components for tracing, except buses, which are parts of links.
fn traced(nodes: Vec<Node>, wires: &[Vec<Wire>], plan: &Plan) -> Vec<Node> {
    let nodes = nodes.into_iter().zip(wires).enumerate();
    let vcs = plan.virtual_channels();
    let wrapped = nodes.map(|(number, (node, ports))| match node {
        Node::Bus(_) => node,
        _ => Node::Tracing(Box::new(Tracing::new(node, number, ports.len(), vcs))),
    });
    wrapped.collect()
}
