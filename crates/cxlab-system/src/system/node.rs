//! A component of the system, whatever its kind.

use cxlab_device::{CoherentDevice, MemoryDevice};
use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};
use cxlab_engine::units::SimTime;
use cxlab_engine::{Component, Ctx, ExecutionHints, KeptPayload, KeptPayloads};
use cxlab_fabric::bus::Bus;
use cxlab_fabric::switch::Switch;
use cxlab_link::{LinkPort, LostMessages, Parcel};

use crate::host::Host;
use crate::wrapper::enumeration::Enumerating;
use crate::wrapper::failures::FailingComponent;
use crate::wrapper::tracing::Tracing;
use crate::wrapper::{Inner, Kind};

/// A component of a CXL system. Its kind, which every event reads, is stored first.
#[allow(clippy::large_enum_variant)]
#[repr(u8)]
pub enum Node {
    /// A host or an accelerator: a component that issues requests.
    Host(Host),
    /// A Type 3 device whose memory the hosts keep coherent.
    Device(MemoryDevice),
    /// A Type 3 device that keeps its memory coherent.
    Coherent(CoherentDevice),
    /// A switch of the fabric.
    Switch(Switch),
    /// A half-duplex bus.
    Bus(Box<Bus>),
    /// Any of these in a system with failures.
    Failing(Box<FailingComponent<Node>>),
    /// Any of these while hosts enumerate, before the run begins.
    Enumerating(Box<Enumerating<Node>>),
    /// Any of these except `Enumerating`, in a run that is traced.
    Tracing(Box<Tracing<Node>>),
}

/// Evaluates one expression for the component of any kind.
macro_rules! of_node {
    ($self:expr, $node:ident => $what:expr) => {
        match $self {
            Node::Host($node) => $what,
            Node::Device($node) => $what,
            Node::Coherent($node) => $what,
            Node::Switch($node) => $what,
            Node::Bus($node) => $what,
            Node::Failing($node) => $what,
            Node::Enumerating($node) => $what,
            Node::Tracing($node) => $what,
        }
    };
}

impl Node {
    /// The component without its wrappers for failures and tracing.
    pub fn inside(&self) -> &Node {
        match self {
            Node::Failing(wrapped) => wrapped.node(),
            Node::Tracing(wrapped) => wrapped.node().inside(),
            other => other,
        }
    }

    /// The component without any wrapper.
    fn innermost_mut(&mut self) -> &mut Node {
        match self {
            Node::Failing(wrapped) => wrapped.node_mut().innermost_mut(),
            Node::Enumerating(wrapped) => wrapped.node_mut().innermost_mut(),
            Node::Tracing(wrapped) => wrapped.node_mut().innermost_mut(),
            other => other,
        }
    }

    /// The wrapper that traces the component, in a run that is traced.
    pub(crate) fn tracing_mut(&mut self) -> Option<&mut Tracing<Node>> {
        match self {
            Node::Tracing(wrapped) => Some(wrapped),
            _ => None,
        }
    }

    /// The host or accelerator, if it is one.
    pub fn host(&self) -> Option<&Host> {
        match self.inside() {
            Node::Host(host) => Some(host),
            _ => None,
        }
    }

    /// The host, if the component is one.
    pub fn host_mut(&mut self) -> Option<&mut Host> {
        match self.kind() {
            Kind::Host(host) => Some(host),
            _ => None,
        }
    }

    /// Messages that failures have destroyed in the component, ever.
    pub fn lost(&self) -> LostMessages {
        match self {
            Node::Failing(wrapped) => wrapped.lost(),
            Node::Tracing(wrapped) => wrapped.node().lost(),
            _ => LostMessages::default(),
        }
    }

    /// Number of lost messages whose virtual channel a later routing state took, ever.
    pub fn discarded(&self) -> u64 {
        match self {
            Node::Failing(wrapped) => wrapped.discarded(),
            Node::Tracing(wrapped) => wrapped.node().discarded(),
            _ => 0,
        }
    }

    /// Resets the statistics at the start of measurement.
    pub fn begin_measurement(&mut self, now: SimTime) {
        of_node!(self, node => node.begin_measurement(now));
    }

    /// The port with this number.
    pub fn port_mut(&mut self, port: u16) -> &mut LinkPort {
        match self {
            Node::Host(host) => &mut host.ports_mut()[port as usize],
            Node::Device(device) => device.port_mut(port),
            Node::Coherent(device) => device.port_mut(port),
            Node::Switch(switch) => switch.port_mut(port),
            Node::Bus(bus) => &mut bus.ports_mut()[port as usize],
            Node::Failing(wrapped) => wrapped.port_mut(port),
            Node::Enumerating(wrapped) => wrapped.port_mut(port),
            Node::Tracing(wrapped) => wrapped.port_mut(port),
        }
    }

    /// Number of requests and messages in the component.
    pub fn in_flight(&self) -> u64 {
        of_node!(self, node => node.in_flight())
    }
}

impl Inner for Node {
    fn kind(&mut self) -> Kind<'_> {
        match self {
            Node::Host(host) => Kind::Host(host),
            Node::Device(device) => Kind::Device(device),
            Node::Switch(switch) => Kind::Switch(switch),
            Node::Failing(wrapped) => wrapped.node_mut().kind(),
            Node::Tracing(wrapped) => wrapped.kind(),
            Node::Coherent(_) | Node::Bus(_) | Node::Enumerating(_) => Kind::Other,
        }
    }

    fn begin_measurement(&mut self, now: SimTime) {
        Node::begin_measurement(self, now);
    }

    fn port_mut(&mut self, port: u16) -> &mut LinkPort {
        Node::port_mut(self, port)
    }

    fn in_flight(&self) -> u64 {
        Node::in_flight(self)
    }
}

impl Component for Node {
    type Payload = Parcel;

    fn start(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        match self {
            Node::Host(host) => host.start(ctx),
            Node::Failing(wrapped) => wrapped.start(ctx),
            Node::Enumerating(wrapped) => wrapped.start(ctx),
            Node::Tracing(wrapped) => wrapped.start(ctx),
            Node::Device(device) => device.start(ctx),
            Node::Coherent(device) => device.start(ctx),
            Node::Switch(_) | Node::Bus(_) => {}
        }
    }

    #[inline(always)]
    fn arrive(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16) {
        // Most events are for switches, and a branch is easier to predict than a jump to one of many addresses.
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
            // These read the parcel in place.
            Node::Switch(switch) => switch.arrive(ctx, port),
            Node::Device(device) => device.arrive(ctx, port),
            Node::Host(host) => host.receive(ctx, port, parcel),
            Node::Coherent(device) => device.receive(ctx, port, parcel),
            Node::Bus(bus) => bus.receive(ctx, port, parcel),
            Node::Failing(wrapped) => wrapped.receive(ctx, port, parcel),
            Node::Enumerating(wrapped) => wrapped.receive(ctx, port, parcel),
            Node::Tracing(wrapped) => wrapped.receive(ctx, port, parcel),
        }
    }

    #[inline(always)]
    fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        of_node!(self, node => node.wake(ctx, token));
    }

    #[inline(always)]
    fn hints(&self) -> &impl ExecutionHints<Parcel> {
        self
    }

    fn hand_over(&mut self) -> Option<&mut dyn KeptPayloads<Parcel>> {
        Some(self)
    }
}

impl ExecutionHints<Parcel> for Node {
    #[inline]
    fn prefetch(&self, port: u16, parcel: &Parcel) {
        match self {
            Node::Switch(switch) => switch.prefetch(port, parcel),
            Node::Host(host) => host.prefetch(port, parcel),
            Node::Device(device) => device.prefetch(port),
            _ => {}
        }
    }

    #[inline]
    fn prefetch_next(&self, port: u16, parcel: &Parcel) -> Option<u16> {
        match self {
            Node::Switch(switch) => switch.prefetch_next(parcel),
            Node::Host(host) => {
                host.prefetch_next(parcel);
                Some(port)
            }
            Node::Device(device) => {
                device.prefetch_next();
                Some(port)
            }
            _ => None,
        }
    }

    /// Mean time of an event in units of 30 ns, *measured* on an AMD EPYC over the shipped scenarios, in most of which
    /// a device has DRAM.
    fn event_cost(&self) -> u64 {
        match self.inside() {
            Node::Switch(_)
            | Node::Bus(_)
            | Node::Failing(_)
            | Node::Enumerating(_)
            | Node::Tracing(_) => 2,
            Node::Device(_) | Node::Coherent(_) => 8,
            Node::Host(host) => host.event_cost(),
        }
    }
}

impl KeptPayloads<Parcel> for Node {
    fn take_kept(&mut self, take: &mut dyn FnMut(KeptPayload) -> Parcel) {
        if let Node::Switch(switch) = self.innermost_mut() {
            switch.take_kept(take);
        }
    }

    fn restore_kept(&mut self, keep: &mut dyn FnMut(Parcel) -> KeptPayload) {
        if let Node::Switch(switch) = self.innermost_mut() {
            switch.restore_kept(keep);
        }
    }
}

impl SaveState for Node {
    fn save(&self, out: &mut StateWriter) {
        of_node!(self, node => node.save(out));
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        of_node!(self, node => node.restore(from))
    }
}
