//! The system: components and wiring, made from a plan.

use std::sync::Arc;

use cxlab_agent::{
    LineVersions, PoisonedLines, SharedMemory, SharedShare, SharedWindows, ThreadProgram,
};
use cxlab_device::{
    Accelerator, AcceleratorConfig, CoherentConfig, CoherentDevice, DeviceConfig, MemoryDevice,
    OwnMemoryConfig, QosConfig,
};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};
use cxlab_engine::units::{Bytes, BytesPerSec, Dpa, Hpa, LINE_BYTES, LineAddr, Picos, SimTime};
use cxlab_engine::{
    Component, ComponentId, Ctx, ExecutionHints, HandOver, Kept, Monitor, Outcome, Simulation,
    Stop, Threads, Wire,
};
use cxlab_fabric::bus::{Bus, BusConfig};
use cxlab_fabric::switch::{Switch, SwitchConfig};
use cxlab_host::{
    CachingConfig, CachingRequester, Core, CoreConfig, LocalConfig, PreparedMemory, Processor,
    ProcessorConfig, ProcessorError, Requester, RequesterConfig, RequesterParams,
};
use cxlab_link::{
    CreditWindows, Duplex, LinkParams, LinkPort, LostMessages, PacketHeader, Parcel, PortConfig,
    Transmission,
};
use cxlab_memory::{DeferredMedium, FaultList, MediumSite, RunContext};
use cxlab_plan::{DeviceKind, End, Plan, PlannedLink, PlannedProgram, Problem, Source};
use cxlab_protocol::{LongStage, PortId};
use cxlab_workload::thread::{Place, Thread, ThreadedKernel};
use cxlab_workload::{Image, LOCAL_BASE};

use crate::enumeration::{self, Enumerated, Enumerating};
use crate::failures::{self, Failing};
use crate::host::{Agent, Host};

/// A component of a CXL system. Its kind, which every event asks for, lies first.
#[allow(clippy::large_enum_variant)]
#[repr(u8)]
pub enum Node {
    /// A host or accelerator: what issues.
    Host(Host),
    /// A Type 3 device whose memory the hosts keep coherent.
    Device(MemoryDevice),
    /// A Type 3 device that keeps its memory coherent.
    Coherent(CoherentDevice),
    /// A switch.
    Switch(Switch),
    /// A half-duplex bus.
    Bus(Box<Bus>),
    /// Any of these in a system in which something fails.
    Failing(Box<Failing>),
    /// Any of these while hosts enumerate, before the run proper.
    Enumerating(Box<Enumerating>),
}

impl Node {
    /// The component itself, where it is wrapped because something fails.
    pub fn inside(&self) -> &Node {
        match self {
            Node::Failing(wrapped) => wrapped.node(),
            other => other,
        }
    }

    /// The component itself, however it is wrapped.
    fn innermost_mut(&mut self) -> &mut Node {
        match self {
            Node::Failing(wrapped) => wrapped.node_mut().innermost_mut(),
            Node::Enumerating(wrapped) => wrapped.node_mut().innermost_mut(),
            other => other,
        }
    }

    /// The host or accelerator, if it is one.
    pub fn host(&self) -> Option<&Host> {
        match self.inside() {
            Node::Host(host) => Some(host),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub fn host_mut(&mut self) -> Option<&mut Host> {
        match self {
            Node::Host(host) => Some(host),
            Node::Failing(wrapped) => wrapped.node_mut().host_mut(),
            _ => None,
        }
    }

    /// What it has lost because something failed, ever.
    pub fn lost(&self) -> LostMessages {
        match self {
            Node::Failing(wrapped) => wrapped.lost(),
            _ => LostMessages::default(),
        }
    }

    /// Messages among those lost whose virtual channel a later routing state took, ever.
    pub fn discarded(&self) -> u64 {
        match self {
            Node::Failing(wrapped) => wrapped.discarded(),
            _ => 0,
        }
    }

    /// Measurement begins.
    pub fn begin_measurement(&mut self, now: SimTime) {
        match self {
            Node::Host(host) => host.begin_measurement(now),
            Node::Device(device) => device.begin_measurement(now),
            Node::Coherent(device) => device.begin_measurement(now),
            Node::Switch(switch) => switch.begin_measurement(now),
            Node::Bus(bus) => bus.begin_measurement(now),
            Node::Failing(wrapped) => wrapped.node_mut().begin_measurement(now),
            Node::Enumerating(_) => {}
        }
    }

    /// Its port of that number.
    pub fn port_mut(&mut self, port: u16) -> &mut LinkPort {
        match self {
            Node::Host(host) => &mut host.ports_mut()[port as usize],
            Node::Device(device) => device.port_mut(port),
            Node::Coherent(device) => device.port_mut(port),
            Node::Switch(switch) => switch.port_mut(port),
            Node::Bus(bus) => &mut bus.ports_mut()[port as usize],
            Node::Failing(wrapped) => wrapped.node_mut().port_mut(port),
            Node::Enumerating(wrapped) => wrapped.node_mut().port_mut(port),
        }
    }

    /// Requests and messages inside it, as far as it holds any.
    pub fn holds(&self) -> u64 {
        match self {
            Node::Host(host) => host.in_flight(),
            Node::Device(device) => device.in_flight(),
            Node::Coherent(device) => device.in_flight(),
            Node::Switch(switch) => switch.in_flight(),
            Node::Bus(bus) => bus.in_flight(),
            Node::Failing(wrapped) => wrapped.holds(),
            Node::Enumerating(wrapped) => wrapped.holds(),
        }
    }
}

impl Component for Node {
    type Payload = Parcel;

    fn start(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        match self {
            Node::Host(host) => host.start(ctx),
            Node::Failing(wrapped) => wrapped.start(ctx),
            Node::Enumerating(wrapped) => wrapped.start(ctx),
            Node::Device(device) => device.start(ctx),
            Node::Coherent(device) => device.start(ctx),
            Node::Switch(_) | Node::Bus(_) => {}
        }
    }

    #[inline(always)]
    fn arrive(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16) {
        // Most events are a switch's, and a branch is easier to predict than a jump to one of many places.
        if let Node::Switch(switch) = self {
            return switch.arrive(ctx, port);
        }
        if let Node::Device(device) = self {
            return device.arrive(ctx, port);
        }
        let parcel = *ctx.received();
        self.receive(ctx, port, &parcel);
    }

    #[inline(always)]
    fn receive(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, parcel: &Parcel) {
        match self {
            // These look at the parcel where it lies.
            Node::Switch(switch) => switch.arrive(ctx, port),
            Node::Device(device) => device.arrive(ctx, port),
            Node::Host(host) => host.receive(ctx, port, parcel),
            Node::Coherent(device) => device.receive(ctx, port, parcel),
            Node::Bus(bus) => bus.receive(ctx, port, parcel),
            Node::Failing(wrapped) => wrapped.receive(ctx, port, parcel),
            Node::Enumerating(wrapped) => wrapped.receive(ctx, port, parcel),
        }
    }

    #[inline(always)]
    fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        match self {
            Node::Switch(switch) => switch.wake(ctx, token),
            Node::Host(host) => host.wake(ctx, token),
            Node::Device(device) => device.wake(ctx, token),
            Node::Coherent(device) => device.wake(ctx, token),
            Node::Bus(bus) => bus.wake(ctx, token),
            Node::Failing(wrapped) => wrapped.wake(ctx, token),
            Node::Enumerating(wrapped) => wrapped.wake(ctx, token),
        }
    }

    #[inline(always)]
    fn hints(&self) -> &impl ExecutionHints<Parcel> {
        self
    }

    fn hand_over(&mut self) -> Option<&mut dyn HandOver<Parcel>> {
        Some(self)
    }
}

impl ExecutionHints<Parcel> for Node {
    #[inline]
    fn prefetch(&self, port: u16, parcel: &Parcel) {
        match self {
            Node::Switch(switch) => switch.fetch(port, parcel),
            Node::Host(host) => host.fetch(port, parcel),
            Node::Device(device) => device.fetch(port),
            _ => {}
        }
    }

    #[inline]
    fn prefetch_next(&self, port: u16, parcel: &Parcel) -> Option<u16> {
        match self {
            Node::Switch(switch) => switch.fetch_next(parcel),
            Node::Host(host) => {
                host.fetch_next(parcel);
                Some(port)
            }
            Node::Device(device) => {
                device.fetch_next();
                Some(port)
            }
            _ => None,
        }
    }

    /// In 30 ns of an AMD EPYC, measured over the shipped scenarios; a device has DRAM in most of them.
    fn event_cost(&self) -> u64 {
        match self.inside() {
            Node::Switch(_) | Node::Bus(_) | Node::Failing(_) | Node::Enumerating(_) => 2,
            Node::Device(_) | Node::Coherent(_) => 8,
            Node::Host(host) => host.event_cost(),
        }
    }
}

impl HandOver<Parcel> for Node {
    fn take_in(&mut self, take: &mut dyn FnMut(Kept) -> Parcel) {
        if let Node::Switch(switch) = self.innermost_mut() {
            switch.take_in(take);
        }
    }

    fn put_back(&mut self, keep: &mut dyn FnMut(Parcel) -> Kept) {
        if let Node::Switch(switch) = self.innermost_mut() {
            switch.put_back(keep);
        }
    }
}

impl SaveState for Node {
    fn save(&self, out: &mut StateWriter) {
        match self {
            Node::Host(host) => host.save(out),
            Node::Device(device) => device.save(out),
            Node::Coherent(device) => device.save(out),
            Node::Switch(switch) => switch.save(out),
            Node::Bus(bus) => bus.save(out),
            Node::Failing(wrapped) => wrapped.save(out),
            Node::Enumerating(_) => out.refuse("hosts that still enumerate"),
        }
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        match self {
            Node::Host(host) => host.restore(from),
            Node::Device(device) => device.restore(from),
            Node::Coherent(device) => device.restore(from),
            Node::Switch(switch) => switch.restore(from),
            Node::Bus(bus) => bus.restore(from),
            Node::Failing(wrapped) => wrapped.restore(from),
            Node::Enumerating(_) => Err(StateError::new("hosts still enumerate")),
        }
    }
}

/// Where the two directions of a planned link are measured: component and port that transmit.
#[derive(Clone, Copy, Debug)]
pub struct Directions {
    /// From end `a` to end `b`.
    pub forward: (usize, u16),
    /// From end `b` to end `a`.
    pub backward: (usize, u16),
}

/// What a system notes of its run, beside what it counts. None of it changes the run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Notes {
    /// A row for each request that completes, for [`Host::take_rows`].
    pub rows: bool,
    /// For checkers, the value that each access to a coherent cache saw or left, for
    /// [`Host::take_observations`], and the values that lie in devices with HDM-DB memory, for
    /// [`CoherentDevice::value`]; what plain requesters read of devices with events, in their rows.
    pub values: bool,
    /// What happens to threads, so that the system can be saved.
    pub states: bool,
}

/// A built system.
pub struct System {
    /// Hosts, then devices, switches and buses.
    pub simulation: Simulation<Node>,
    /// By planned link.
    pub directions: Vec<Directions>,
    /// How many hosts there are; devices follow.
    pub hosts: usize,
    /// How many devices there are, accelerators included.
    pub devices: usize,
    /// By host: the kernel whose threads run there and on its accelerators, and their memory.
    pub domains: Vec<Option<Domain>>,
    /// By host: what its enumeration was; empty where the scenario has none.
    pub enumerated: Vec<Enumerated>,
    /// What media have said that cannot go on.
    pub faults: FaultList,
}

/// What threads of one host and its accelerators share.
pub struct Domain {
    /// Their kernel.
    pub kernel: Box<dyn ThreadedKernel>,
    /// Their memory.
    pub image: Image,
    /// The versions of its lines, by which builds with debug assertions check that nobody uses a
    /// copy that it should have lost.
    versions: Option<LineVersions>,
    /// Which of them are poison, where a device's medium may give such.
    poison: Option<PoisonedLines>,
}

/// Collects ports and wires while links are laid.
struct Builder<'a> {
    plan: &'a Plan,
    seed: u64,
    notes: Notes,
    vcs: u8,
    /// By endpoint: whether its memory is HDM-D.
    hdm_d: Arc<[bool]>,
    domains: Vec<Option<Domain>>,
    context: RunContext,
    /// What devices hold of the regions that hosts share with their values.
    shared: SharedMemory,
    /// By component: its ports in order, and their wires.
    ports: Vec<Vec<Option<(LinkPort, Wire)>>>,
}

impl System {
    /// Lets hosts enumerate, and all components start behind that. Does nothing where the scenario
    /// has no enumeration.
    ///
    /// # Errors
    /// A law that does not hold.
    pub fn enumerate(
        &mut self,
        plan: &Plan,
        threads: Threads,
        monitor: &Monitor,
    ) -> Result<Option<Outcome>, String> {
        if plan.scenario.enumeration.is_none() {
            return Ok(None);
        }
        let simulation = &mut self.simulation;
        let outcome = simulation.run(threads, SimTime::NEVER, monitor);
        if outcome.stop == Stop::Exhausted {
            self.enumerated = enumeration::finish(simulation, plan)?;
            simulation.start_again();
        } else {
            drop(enumeration::unwrap(simulation));
        }
        Ok(Some(outcome))
    }

    /// The hosts and the accelerators, in order.
    pub fn issuers(&self) -> impl Iterator<Item = &Host> {
        self.simulation.components().filter_map(Node::host)
    }

    /// Builds a plan's system.
    ///
    /// # Errors
    /// Workloads whose files have become unusable since the plan was made.
    pub fn build(plan: &Plan, seed: u64, notes: Notes) -> Result<System, Vec<Problem>> {
        plan.rehearse_media()?;
        let faults = FaultList::default();
        let context = plan.media_context(faults.clone());
        let sources = plan.sources(seed)?;
        let (hosts, devices) = (plan.hosts.len(), plan.devices.len());
        let switches = plan.graph.switches.len();
        let mut builder = Builder {
            plan,
            seed,
            notes,
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
        let directions = plan
            .links
            .iter()
            .map(|link| builder.lay(link, &mut buses))
            .collect();

        let mut wires = Vec::new();
        let mut components = Vec::new();
        let mut sources = sources.into_iter();
        for (number, slots) in std::mem::take(&mut builder.ports).into_iter().enumerate() {
            let (ports, own): (Vec<LinkPort>, Vec<Wire>) = slots.into_iter().flatten().unzip();
            wires.push(own);
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
        let both = |end: End| plan.egress(end) + plan.ingress(end);
        let constants = enumeration::Constants {
            host: &|host| both(End::Host(host, 0)),
            device: &|device| both(End::Device(device, 0)),
        };
        let components = failures::wrap(components, plan);
        let components = enumeration::wrap(components, plan, &constants);
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

impl Builder<'_> {
    fn component_of(&self, end: End) -> (usize, u16) {
        let (hosts, devices) = (self.plan.hosts.len(), self.plan.devices.len());
        match end {
            End::Host(number, port) => (number, port),
            End::Device(number, port) => (hosts + number, port),
            End::Switch(number, port) => (hosts + devices + number, port),
        }
    }

    /// Adds both ends of one wire.
    fn join(
        &mut self,
        (from, from_port): (usize, u16),
        (to, to_port): (usize, u16),
        there: (&LinkParams, Picos, Picos),
        back: (&LinkParams, Picos, Picos),
        windows: &CreditWindows,
        names: (&str, &str),
    ) {
        let (seed, vcs) = (self.seed, self.vcs);
        let hosts = self.plan.hosts.len();
        let ends = hosts + self.plan.devices.len();
        let stage = |component: usize| match component {
            host if host < hosts => LongStage::HostQueue,
            device if device < ends => LongStage::DeviceQueue,
            _ => LongStage::SwitchQueue,
        };
        let mut add =
            |at: (usize, u16), peer: (usize, u16), way: (&LinkParams, Picos, Picos), name| {
                let (params, egress, ingress) = way;
                let config = PortConfig {
                    port: at.1,
                    egress,
                    ingress,
                    vcs,
                    windows: *windows,
                    seed,
                    name,
                };
                let wire = Wire {
                    peer: ComponentId::from(peer.0),
                    peer_port: peer.1,
                    min_latency: LinkPort::min_latency(params, egress, ingress),
                };
                let slots = &mut self.ports[at.0];
                if slots.len() <= at.1 as usize {
                    slots.resize_with(at.1 as usize + 1, || None);
                }
                let port = LinkPort::new(params, &config).waiting_in(stage(at.0));
                slots[at.1 as usize] = Some((port, wire));
            };
        add((from, from_port), (to, to_port), there, names.0);
        add((to, to_port), (from, from_port), back, names.1);
    }

    /// Lays a planned link, with a bus in between when it is half duplex.
    fn lay(&mut self, link: &PlannedLink, buses: &mut Vec<LinkParams>) -> Directions {
        let (a, b) = (self.component_of(link.a), self.component_of(link.b));
        let names = (
            format!(
                "{}->{}#{}.{}",
                self.plan.end_name(link.a),
                self.plan.end_name(link.b),
                a.1,
                b.1
            ),
            format!(
                "{}->{}#{}.{}",
                self.plan.end_name(link.b),
                self.plan.end_name(link.a),
                b.1,
                a.1
            ),
        );
        let names = (names.0.as_str(), names.1.as_str());
        let (out, back) = (
            (self.plan.egress(link.a), self.plan.ingress(link.b)),
            (self.plan.egress(link.b), self.plan.ingress(link.a)),
        );
        let windows = &link.params.windows(self.plan.pipelines(link));
        if link.params.duplex == Duplex::Full {
            let params = &link.params;
            self.join(
                a,
                b,
                (params, out.0, out.1),
                (params, back.0, back.1),
                windows,
                names,
            );
            return Directions {
                forward: a,
                backward: b,
            };
        }
        // Each end hands its messages to the bus in 1 ps, which the wire gives back.
        let attach = LinkParams {
            transmission: Transmission::Packet,
            packet: PacketHeader {
                header: Bytes(0),
                data_header: Bytes(0),
                staging: Bytes(0),
            },
            bandwidth: Some(BytesPerSec(u64::MAX)),
            propagation: Picos(1),
            port_delay: Picos::ZERO,
            fec_delay: Some(Picos::ZERO),
            retimers: 0,
            flit_error_rate: Default::default(),
            duplex: Duplex::Full,
            ..link.params.clone()
        };
        let mut wire = link.params.clone();
        wire.propagation.0 = wire.propagation.0.saturating_sub(1);
        let bus = self.ports.len();
        self.ports.push(Vec::new());
        buses.push(link.params.clone());
        let zero = Picos::ZERO;
        self.join(
            a,
            (bus, 0),
            (&attach, out.0, zero),
            (&wire, zero, back.1),
            windows,
            ("attach", names.1),
        );
        self.join(
            b,
            (bus, 1),
            (&attach, back.0, zero),
            (&wire, zero, out.1),
            windows,
            ("attach", names.0),
        );
        Directions {
            forward: (bus, 1),
            backward: (bus, 0),
        }
    }

    fn host(
        &mut self,
        number: usize,
        ports: Vec<LinkPort>,
        source: Source,
    ) -> Result<Node, Problem> {
        let host = &self.plan.hosts[number];
        let group = &self.plan.scenario.hosts[host.group];
        let port_to = self.root_ports(number, ports.len());
        self.domains.push(None);
        let source = match (source, &group.core) {
            (Source::Processor(kernel, programs), _) => {
                return self.processor(number, ports, kernel, programs);
            }
            (Source::Program(program), Some(core)) => {
                let core = CoreConfig {
                    params: core.clone(),
                    number: number as u16,
                    port_id: PortId(number as u16),
                    port_to,
                    ports,
                    first_device: self.plan.hosts.len() as u16,
                    map: Arc::clone(&host.map),
                    local: self.local_memory(number),
                    program,
                    rng: StreamRng::new(self.seed, &host.name),
                    limit: group.requests,
                    log: self.notes.rows,
                };
                return Ok(Node::Host(Host::new(Agent::Core(Core::new(core)))));
            }
            (Source::Lines(source), _) => source,
            (Source::Program(_), None) => unreachable!("programs are made for cores"),
        };
        let throttle = self.plan.qos.throttles[number].as_ref();
        let requester = RequesterConfig {
            params: RequesterParams {
                throttle: throttle.map(|throttle| throttle.params.clone()),
                ..group.issue.clone()
            },
            steps: throttle.map_or(Vec::new(), |throttle| throttle.steps.clone()),
            number: number as u16,
            port_id: PortId(number as u16),
            port_to,
            ports,
            first_device: self.plan.hosts.len() as u16,
            map: Arc::clone(&host.map),
            source,
            rng: StreamRng::new(self.seed, &host.name),
            limit: group.requests,
            log: self.notes.rows,
            partial: self.plan.workloads[host.group].request().0 < LINE_BYTES,
            values: self.notes.values,
            joins: host.joins,
            leaves: host.leaves,
        };
        let agent = match &group.issue.cache {
            Some(cache) if self.plan.caching[number] => {
                let policy = cache.policy.as_ref().map(|choice| match choice.build() {
                    Ok(policy) => policy,
                    Err(error) => unreachable!("the plan checked the victim policy: {error}"),
                });
                let made = CachingRequester::new(CachingConfig {
                    requester,
                    cache: cache.clone(),
                    classes: self.plan.classes(),
                    policy,
                    policy_rng: StreamRng::new(self.seed, &format!("{}/cache", host.name)),
                    observe: self.notes.values,
                });
                match made {
                    Ok(agent) => Agent::Caching(agent),
                    Err(error) => unreachable!("the plan checked the cache: {error}"),
                }
            }
            _ => Agent::Plain(Requester::new(requester)),
        };
        Ok(Node::Host(Host::new(agent)))
    }

    /// A processor with its kernel's threads; the memory that they share is as the kernel prepares
    /// it.
    fn processor(
        &mut self,
        number: usize,
        ports: Vec<LinkPort>,
        kernel: Box<dyn ThreadedKernel>,
        programs: Vec<PlannedProgram>,
    ) -> Result<Node, Problem> {
        let host = &self.plan.hosts[number];
        let group = &self.plan.scenario.hosts[host.group];
        let Some(params) = group.processor.clone() else {
            unreachable!("threads are made for processors")
        };
        let image = Image::new();
        let os = match self.plan.os_config(number, self.seed) {
            Some(os) => {
                let prepared = PreparedMemory {
                    image: Image::new(),
                    touched: kernel.first_touches(),
                };
                kernel.prepare(&prepared.image);
                Some((os, prepared))
            }
            None => {
                kernel.prepare(&image);
                None
            }
        };
        let versions = cfg!(debug_assertions).then(LineVersions::default);
        let poison = self.plan.has_media_errors().then(PoisonedLines::default);
        let with_threads = params.cores - group.cores_beside();
        let threads = (0..with_threads as usize).flat_map(|core| {
            let threads = kernel.threads(Place::Core { core });
            threads.into_iter().map(move |thread| (core as u16, thread))
        });
        let mut threads: Vec<(u16, Thread)> = threads.collect();
        if self.notes.states && kernel.can_run_again() {
            threads.iter_mut().for_each(|(_, thread)| thread.keep_log());
        }
        let mut phases = kernel.phases().to_vec();
        let first_phase = phases.len() as u8;
        if let Some(one) = programs.first() {
            phases.extend_from_slice(one.program.phases());
        }
        let bases = self.plan.thread_context(number, self.seed).bases;
        let programs = programs.into_iter().map(|one| {
            let name = format!("{}/core{}", host.name, one.core);
            let program = ThreadProgram {
                program: one.program,
                rng: StreamRng::new(self.seed, &name),
                window: params.reorder,
                limit: one.limit,
                bases,
                cxl_end: one.cxl_end,
                first_phase,
            };
            (one.core, program)
        });
        let programs = programs.collect();
        let mut base = LOCAL_BASE;
        let media = self.plan.node_media[host.group].iter();
        let nodes = group.nodes.iter().zip(media).enumerate();
        let nodes = nodes.map(|(at, (node, medium))| {
            let site = MediumSite {
                capacity: node.capacity,
                rng: StreamRng::new(self.seed, &format!("{}/node{at}", host.name)),
                context: self.context.clone(),
            };
            let config = LocalConfig {
                base,
                backend: medium.backend(site),
                capacity: node.capacity,
                latency: node.latency + params.distance(node.at),
            };
            base.0 += node.capacity.0;
            config
        });
        let nodes = nodes.collect();
        let accelerators = self.plan.accelerators_of(number);
        let accelerators = accelerators.map(|(device, group)| {
            let port = (self.plan.hosts.len() + device) as u16;
            (PortId(port), group.is_hdm_db())
        });
        let accelerators: Vec<(PortId, bool)> = accelerators.collect();
        let made = Processor::new(ProcessorConfig {
            number: number as u16,
            port_id: PortId(number as u16),
            port_to: self.root_ports(number, ports.len()),
            ports,
            first_device: self.plan.hosts.len() as u16,
            map: Arc::clone(&host.map),
            nodes,
            devices: accelerators.iter().map(|(device, _)| *device).collect(),
            device_coherent: accelerators
                .iter()
                .filter_map(|(device, coherent)| coherent.then_some(*device))
                .collect(),
            os,
            threads,
            programs,
            phases,
            shared: self.shared_windows(number, &image),
            image: image.clone(),
            log: self.notes.rows,
            versions: versions.clone(),
            poison: poison.clone(),
            may_fail: self.plan.changes_capacity()
                || self.plan.failures.is_some()
                || self.plan.has_media_errors(),
            params,
        });
        self.domains[number] = Some(Domain {
            kernel,
            image,
            versions,
            poison,
        });
        match made {
            Ok(processor) => Ok(Node::Host(Host::new(Agent::Processor(Box::new(processor))))),
            Err(ProcessorError::Os(error)) => Err(Problem::of_param(
                &format!("hosts[{}].os", host.group),
                error,
            )),
            Err(ProcessorError::Cache(error)) => {
                unreachable!("the plan checked the caches: {error}")
            }
        }
    }

    /// What a host shares of its addresses. What its kernel has prepared there lies in the devices.
    fn shared_windows(&self, number: usize, image: &Image) -> Option<SharedWindows> {
        let part = &self.plan.shared[number];
        if part.lines.is_empty() {
            return None;
        }
        let windows = SharedWindows {
            memory: self.shared.clone(),
            lines: part.lines.iter().copied().collect(),
        };
        let map = &self.plan.hosts[number].map;
        let lines = image.pages().into_iter().flat_map(|Hpa(page)| {
            let lines = (page..page + 4096).step_by(LINE_BYTES as usize);
            lines.map(Hpa)
        });
        for hpa in lines.filter(|hpa| windows.holds(LineAddr(hpa.0 / LINE_BYTES))) {
            if let Some((device, dpa)) = map.locate(hpa) {
                self.shared.prepare(device, dpa, image, hpa);
            }
        }
        Some(windows)
    }

    /// What a device holds that hosts share with their values.
    fn shared_share(&self, number: usize) -> Option<SharedShare> {
        let parts = (0..).zip(&self.plan.shared);
        let hosts = parts.flat_map(|(host, part)| {
            let here = part.shares.iter().filter(|share| share.0 == number);
            here.map(move |(_, first, end)| (PortId(host), *first, *end))
        });
        let hosts: Vec<(PortId, Dpa, Dpa)> = hosts.collect();
        (!hosts.is_empty()).then(|| SharedShare {
            memory: self.shared.clone(),
            device: PortId((self.plan.hosts.len() + number) as u16),
            hosts,
        })
    }

    /// An accelerator with its threads of its host's kernel.
    fn accelerator(&self, number: usize, group: usize, ports: Vec<LinkPort>) -> Node {
        let (hosts, devices) = (self.plan.hosts.len(), self.plan.devices.len());
        let first = devices - self.plan.accelerator_hosts.len();
        let host = self.plan.accelerator_hosts[number - first];
        let mut siblings = self.plan.accelerators_of(host);
        let accelerator = siblings.position(|(device, _)| device == number);
        let (Some(accelerator), Some(domain)) = (accelerator, &self.domains[host]) else {
            unreachable!("the plan gave every accelerator a host that runs threads")
        };
        let params = self.plan.scenario.accelerators[group].device.clone();
        let threads = (0..params.elements as usize).flat_map(|element| {
            domain.kernel.threads(Place::Element {
                accelerator,
                element,
            })
        });
        let mut threads: Vec<Thread> = threads.collect();
        if self.notes.states && domain.kernel.can_run_again() {
            threads.iter_mut().for_each(Thread::keep_log);
        }
        let made = Accelerator::new(AcceleratorConfig {
            threads,
            number: (hosts + number) as u16,
            port_id: PortId((hosts + number) as u16),
            host: PortId(host as u16),
            ports,
            memory: self.own_memory(number, group),
            translates: self.plan.has_os(host),
            rng: StreamRng::new(self.seed, &self.plan.devices[number].name),
            prefetch: params
                .cache
                .prefetch
                .as_ref()
                .and_then(|choice| choice.build().ok()),
            reach: self.reach_of(host),
            phases: domain.kernel.phases().to_vec(),
            image: domain.image.clone(),
            log: self.notes.rows,
            versions: domain.versions.clone(),
            poison: domain.poison.clone(),
            params,
        });
        match made {
            Ok(accelerator) => Node::Host(Host::new(Agent::Accelerator(Box::new(accelerator)))),
            Err(error) => unreachable!("the plan checked the caches: {error:?}"),
        }
    }

    /// The memory that accelerators of a host may ask it for: first lines, and those after the last.
    fn reach_of(&self, host: usize) -> Vec<(u64, u64)> {
        let planned = &self.plan.hosts[host];
        let own = self.plan.scenario.hosts[planned.group].own_memory();
        let first = LOCAL_BASE.0 / 64;
        vec![(0, planned.map.span().0 / 64), (first, first + own.0 / 64)]
    }

    /// The memory of a Type 2 device.
    fn own_memory(&self, number: usize, group: usize) -> Option<OwnMemoryConfig> {
        let device = &self.plan.devices[number];
        let params = self.plan.scenario.accelerators[group].memory.as_ref()?;
        let medium = self.plan.accelerator_media[group].as_ref()?;
        let backend = medium.backend(MediumSite {
            capacity: params.capacity,
            rng: StreamRng::new(self.seed, &format!("{}/medium", device.name)),
            context: self.context.clone(),
        });
        Some(OwnMemoryConfig {
            backend,
            decoder: device
                .decoders
                .decoders()
                .first()
                .map(|one| (one.set, one.target))?,
            lines: params.capacity.0 / 64,
            bias_page: self.plan.scenario.accelerators[group].device.bias_page,
            class: params.class,
        })
    }

    /// The memory of a host's own.
    fn local_memory(&self, number: usize) -> Option<LocalConfig> {
        let host = &self.plan.hosts[number];
        let local = self.plan.scenario.hosts[host.group].local.as_ref()?;
        let medium = self.plan.local_media[host.group].as_ref()?;
        Some(LocalConfig {
            base: LOCAL_BASE,
            backend: medium.backend(MediumSite {
                capacity: local.capacity,
                rng: StreamRng::new(self.seed, &format!("{}/memory", host.name)),
                context: self.context.clone(),
            }),
            capacity: local.capacity,
            latency: local.latency,
        })
    }

    /// Which of a host's several root ports leads to each edge port, without a switch.
    fn root_ports(&self, number: usize, ports: usize) -> Vec<u16> {
        if ports <= 1 {
            return Vec::new();
        }
        let mut port_to = vec![0; self.plan.hosts.len() + self.plan.devices.len()];
        for link in &self.plan.links {
            if let (End::Host(host, port), End::Device(device, _)) = (link.a, link.b)
                && host == number
            {
                port_to[self.plan.hosts.len() + device] = port;
            }
        }
        port_to
    }

    fn device(&self, number: usize, ports: Vec<LinkPort>) -> Node {
        let device = &self.plan.devices[number];
        let at = match device.group {
            DeviceKind::Memory(group) => group,
            DeviceKind::Accelerator(group) => return self.accelerator(number, group, ports),
        };
        let group = &self.plan.scenario.devices[at];
        let params = group.controller.clone();
        let backend = self.plan.media[at].backend(MediumSite {
            capacity: group.capacity,
            rng: StreamRng::new(self.seed, &format!("{}/medium", device.name)),
            context: self.context.clone(),
        });
        if !group.is_hdm_db() {
            let shared = self.shared_share(number);
            let qos = self.telemetry(number);
            // What is to be lost or denied must not have been answered ahead of time, and what is
            // inside is known when it is time.
            let persistent = (device.memory())
                .is_some_and(|group| self.plan.media[group].is_persistent() == Some(true));
            let changes = !device.changes.is_empty() || self.plan.failures.is_some();
            let backend = match changes || qos.is_some() || shared.is_some() {
                true => Box::new(DeferredMedium::new(backend)),
                false => backend,
            };
            return Node::Device(MemoryDevice::new(DeviceConfig {
                params,
                ports,
                backend,
                changes: device.changes.clone(),
                persistent,
                qos,
                media_errors: group
                    .media_errors
                    .clone()
                    .map(|params| (params, self.seed, device.name.clone())),
                values: self.notes.values && changes,
                shared,
                decoders: device.decoders.clone(),
            }));
        }
        let hosts = self.plan.hosts.len();
        let made = group.coherence.victim.build().map(|policy| {
            CoherentDevice::new(CoherentConfig {
                params,
                filter: group.coherence.filter.clone(),
                policy,
                policy_rng: StreamRng::new(self.seed, &format!("{}/filter", device.name)),
                ports,
                backend,
                decoders: device.decoders.clone(),
                port_id: PortId((hosts + number) as u16),
                peers: (0..hosts as u16).map(PortId).collect(),
                qos: self.telemetry(number),
                shares: device.share_changes(),
                observe: self.notes.values,
            })
        });
        match made {
            Ok(Ok(device)) => Node::Coherent(device),
            Ok(Err(error)) => unreachable!("the plan checked the snoop filter: {error}"),
            Err(error) => unreachable!("the plan checked the victim policy: {error}"),
        }
    }

    /// Telemetry of a device, if it tells its load.
    fn telemetry(&self, number: usize) -> Option<QosConfig> {
        let qos = self.plan.qos.devices[number].as_ref()?;
        Some(qos.config.clone())
    }

    fn switch(&self, number: usize, ports: Vec<LinkPort>) -> Node {
        let name = &self.plan.graph.switches[number].name;
        Node::Switch(Switch::new(SwitchConfig {
            params: self.plan.scenario.fabric.switch.clone(),
            index: number,
            hdm_d: Arc::clone(&self.hdm_d),
            ports,
            tables: Arc::clone(&self.plan.tables),
            virtual_channels: self.vcs,
            rng: StreamRng::new(self.seed, name),
        }))
    }
}
