//! What a reader of a model sees of the engine: components, payloads and wires.

mod ctx;
mod hints;
mod partition_events;

pub(crate) use ctx::NOWHERE;
pub use ctx::{Ctx, ReservedWake};
pub use hints::{ExecutionHints, KeptPayloads};
pub(crate) use partition_events::{
    Blocks, Body, ComponentRecord, CrossEvent, NO_BLOCK, Outgoing, PartitionEvents, Route,
    combine_digests,
};

use crate::units::Picos;
use hints::NoHints;

/// The number of a component: its index in the list given to [`Simulation::new`](crate::Simulation::new), below 2^24.
///
/// The number is the *source* in the [order of events](Component#order-of-events).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ComponentId(pub u32);

/// The number of the component with this index.
impl From<usize> for ComponentId {
    fn from(index: usize) -> Self {
        ComponentId(index as u32)
    }
}

/// The type of the values that components send to each other: of fixed size and without pointers.
pub trait Payload: Copy + Default + Send + 'static {
    /// A few bits that identify the value. The order digest ([`Outcome::digest`](crate::Outcome::digest))
    /// hashes them with the key of each event.
    fn fingerprint(&self) -> u64;
}

/// An active part of the simulated system. It handles events and sends payloads to other components.
///
/// A component owns all of its state; components share nothing. For each event the engine calls one method:
/// [`receive`](Component::receive) when a payload arrives at a port, and [`wake`](Component::wake) when a wake-up is
/// due. The method acts on the simulation through its [`Ctx`] alone.
///
/// All components of a [`Simulation`](crate::Simulation) have one type. A system with several kinds of
/// components uses an enum with a variant for each kind.
///
/// # Order of events
/// Of its pending events, a component handles the first in the order *(time, source, sequence number)*:
/// - the *time* at which the payload arrives or the wake-up is due;
/// - the *source*, the number of the component that sent the payload or requested the wake-up;
/// - the *sequence number*, which counts the payloads and wake-ups of this source over all its ports.
///
/// The order does not depend on which event was sent first, nor on the number of threads: sources count
/// their own events. Events of different components have no order among them. They need none, because a
/// [`Wire`] takes at least 1 ps, so no event can affect another component at the same instant.
///
/// ```
/// use cxlab_engine::units::{Picos, SimTime};
/// use cxlab_engine::{Component, ComponentId, Ctx, Monitor, Payload, Simulation, Wire};
///
/// #[derive(Clone, Copy, Default)]
/// struct Note(u64);
///
/// impl Payload for Note {
///     fn fingerprint(&self) -> u64 {
///         self.0
///     }
/// }
///
/// /// Component 0 keeps a list of what it handles. Components 1 and 2 send notes to it.
/// struct Node {
///     number: u32,
///     handled: Vec<u64>,
/// }
///
/// impl Component for Node {
///     type Payload = Note;
///
///     fn start(&mut self, ctx: &mut Ctx<'_, Note>) {
///         match self.number {
///             0 => ctx.wake_at(SimTime(8), 0),
///             1 => ctx.wake_at(SimTime(5), 0),
///             _ => {
///                 // The first to be sent, at time 0.
///                 ctx.send(0, SimTime(10), Note(20));
///                 ctx.send(0, SimTime(10), Note(21));
///                 ctx.send(0, SimTime(9), Note(22));
///             }
///         }
///     }
///
///     fn receive(&mut self, _: &mut Ctx<'_, Note>, _port: u16, note: &Note) {
///         self.handled.push(note.0);
///     }
///
///     fn wake(&mut self, ctx: &mut Ctx<'_, Note>, token: u32) {
///         match (self.number, token) {
///             // The last to be requested, at time 8.
///             (0, 0) => ctx.wake_at(SimTime(10), 1),
///             (0, _) => self.handled.push(1),
///             _ => ctx.send(0, SimTime(10), Note(10)),
///         }
///     }
/// }
///
/// let nodes = (0..3).map(|number| Node { number, handled: Vec::new() }).collect();
/// let wire = |peer: u32, peer_port| Wire::new(ComponentId(peer), peer_port, Picos(1));
/// let wires = vec![vec![wire(1, 0), wire(2, 0)], vec![wire(0, 0)], vec![wire(0, 1)]];
/// let mut simulation = Simulation::new(nodes, wires);
/// simulation.run(1, SimTime::NEVER, &Monitor::default());
///
/// // By time: note 22 at 9 ps, all others at 10 ps. Those by source: the own wake-up of component 0,
/// // then component 1, then component 2. Those of component 2 in the order in which it sent them.
/// assert_eq!(simulation.component(0).handled, [22, 1, 10, 20, 21]);
/// ```
pub trait Component: Send + 'static {
    /// The payloads that the component sends and receives.
    type Payload: Payload;

    /// Called once at time zero, before any event, in the order of component numbers. Called again when
    /// the simulation is [started again](crate::Simulation::restart).
    fn start(&mut self, ctx: &mut Ctx<'_, Self::Payload>);

    /// A payload arrives at `port`.
    fn receive(&mut self, ctx: &mut Ctx<'_, Self::Payload>, port: u16, payload: &Self::Payload);

    /// A wake-up is due that the component requested by [`Ctx::wake_at`] with this `token`.
    fn wake(&mut self, ctx: &mut Ctx<'_, Self::Payload>, token: u32);

    /// A payload arrives at `port`; a replacement of [`receive`](Component::receive) that copies nothing.
    ///
    /// The component reads the payload in the event queue ([`Ctx::received`]) and may
    /// [pass it on](Ctx::pass_on) or [keep it](Ctx::keep) there. The engine calls this method for each
    /// payload; by default it copies the payload and calls `receive`.
    #[inline(always)]
    fn arrive(&mut self, ctx: &mut Ctx<'_, Self::Payload>, port: u16) {
        let payload = *ctx.received();
        self.receive(ctx, port, &payload);
    }

    /// What speeds up the execution of this component's events. No result depends on it. By default the
    /// component has no hints.
    #[inline(always)]
    fn hints(&self) -> &impl ExecutionHints<Self::Payload>
    where
        Self: Sized,
    {
        &NoHints
    }

    /// How payloads that the component [keeps](Ctx::keep) move to another queue. A component that never
    /// keeps a payload needs none, which is the default.
    fn hand_over(&mut self) -> Option<&mut dyn KeptPayloads<Self::Payload>> {
        None
    }
}

/// A payload that has arrived and stays in the event queue ([`Ctx::keep`]) until its component sends it
/// ([`Ctx::send_kept`]) or drops it ([`Ctx::forget`]).
///
/// The default value stands for no payload. A component that stores values of this type between two
/// events implements [`KeptPayloads`].
#[derive(PartialEq, Eq, Default, Debug)]
pub struct KeptPayload(pub(crate) u32);

impl KeptPayload {
    /// Whether this is a kept payload, and not the default value.
    #[inline]
    pub fn is_some(&self) -> bool {
        self.0 != NOWHERE
    }
}

/// One direction of a wire, from the component in whose list of ports it is to its peer.
///
/// A wire connects one port of a component with one port of another and has two directions. Each end
/// lists its own direction; the two latencies may differ.
///
/// # Latency
/// Each direction takes at least 1 ps; [`Simulation::new`](crate::Simulation::new) refuses less. So an
/// event never affects another component at the same instant, and the events of two components at one
/// instant can be handled in either order, or at once on two threads.
///
/// ```
/// use cxlab_engine::units::{Picos, SimTime};
/// use cxlab_engine::{Component, ComponentId, Ctx, Payload, Simulation, Wire};
///
/// # #[derive(Clone, Copy, Default)]
/// # struct Nothing;
/// # impl Payload for Nothing {
/// #     fn fingerprint(&self) -> u64 {
/// #         0
/// #     }
/// # }
/// struct Idle;
/// # impl Component for Idle {
/// #     type Payload = Nothing;
/// #     fn start(&mut self, _: &mut Ctx<'_, Nothing>) {}
/// #     fn receive(&mut self, _: &mut Ctx<'_, Nothing>, _: u16, _: &Nothing) {}
/// #     fn wake(&mut self, _: &mut Ctx<'_, Nothing>, _: u32) {}
/// # }
///
/// let two_with = |min_latency| {
///     let wire = |peer| Wire { peer: ComponentId(peer), peer_port: 0, min_latency };
///     let connected = move || Simulation::new(vec![Idle, Idle], vec![vec![wire(1)], vec![wire(0)]]);
///     std::panic::catch_unwind(connected).is_ok()
/// };
/// assert!(!two_with(Picos(0)), "a wire without latency is refused");
/// assert!(two_with(Picos(1)), "1 ps is enough");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wire {
    /// The component that receives.
    pub peer: ComponentId,
    /// The receiver's port, an index into its list of wires.
    pub peer_port: u16,
    /// The shortest time from sending to arrival of any payload; at least 1 ps.
    ///
    /// [`Ctx::send`] panics where a payload would arrive sooner. The lookahead between threads is the
    /// shortest latency of a wire between them, so a wire should declare all of its latency.
    pub min_latency: Picos,
}

impl Wire {
    /// A wire to that port of a component.
    pub const fn new(peer: ComponentId, peer_port: u16, min_latency: Picos) -> Wire {
        Wire {
            peer,
            peer_port,
            min_latency,
        }
    }
}
