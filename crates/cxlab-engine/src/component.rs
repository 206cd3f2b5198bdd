//! Components, their ports and wiring, and what a component may do while it handles an event.

use crate::prefetch::prefetch_to_write;
use crate::queue::{EventKey, EventQueue, Target, WheelQueue};
use crate::rng::mix;
use crate::units::{Picos, SimTime};

/// The number of a component, its place in the system and in the order of events: below 2^24.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ComponentId(pub u32);

/// What components send each other: a fixed-size value without pointers.
pub trait Payload: Copy + Default + Send + 'static {
    /// A few bits that identify the value in the order digest.
    fn fingerprint(&self) -> u64;
}

/// An active part of the system: it receives events and sends others. Everything inside it is
/// passive and owned; components share nothing.
pub trait Component: Send + 'static {
    /// What it sends and receives.
    type Payload: Payload;

    /// Called once at time zero, before any event.
    fn start(&mut self, ctx: &mut Ctx<'_, Self::Payload>);
    /// A payload arrives at one of its ports.
    fn receive(&mut self, ctx: &mut Ctx<'_, Self::Payload>, port: u16, payload: &Self::Payload);
    /// The same, for a component that looks at the payload where it lies ([`Ctx::received`]) and may
    /// [pass it on](Ctx::pass_on) from there, so that it need not be copied.
    #[inline(always)]
    fn arrive(&mut self, ctx: &mut Ctx<'_, Self::Payload>, port: u16) {
        let payload = *ctx.received();
        self.receive(ctx, port, &payload);
    }
    /// A wake-up that the component asked for.
    fn wake(&mut self, ctx: &mut Ctx<'_, Self::Payload>, token: u32);
    /// A payload will arrive soon: the component may [`prefetch`](crate::prefetch()) what it will
    /// look at. Nothing may depend on whether it is called.
    #[inline]
    fn fetch(&self, port: u16, payload: &Self::Payload) {
        let _ = (port, payload);
    }
    /// It will arrive sooner still, what was fetched before is there: the component may ask for what that leads
    /// to. Returns the port through which it will send, if it knows.
    #[inline]
    fn fetch_next(&self, port: u16, payload: &Self::Payload) -> Option<u16> {
        let _ = (port, payload);
        None
    }
    /// How long one of its events takes, in comparison with those of other components: only how evenly
    /// threads share the work depends on it.
    fn event_cost(&self) -> u64 {
        1
    }
    /// It will run on another thread, or its state will be saved: whoever [keeps](Ctx::keep) payloads
    /// takes each of them with `take` into its own memory.
    fn take_in(&mut self, take: &mut dyn FnMut(Kept) -> Self::Payload) {
        let _ = take;
    }
    /// It goes on, perhaps on another thread or from a restored state: what it took in may be kept again.
    fn put_back(&mut self, keep: &mut dyn FnMut(Self::Payload) -> Kept) {
        let _ = keep;
    }
}

/// A payload that has arrived and stays where it lies ([`Ctx::keep`]) until its component sends it on or
/// forgets it. The default is none.
#[derive(PartialEq, Eq, Default, Debug)]
pub struct Kept(pub(crate) u32);

impl Kept {
    /// Whether it is one.
    #[inline]
    pub fn is_some(&self) -> bool {
        self.0 != NOWHERE
    }
}

/// One direction of a wire as its sender sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wire {
    /// Who receives.
    pub peer: ComponentId,
    /// At which of its ports.
    pub peer_port: u16,
    /// No payload takes less than this, credits included; at least 1 ps. It is what lets
    /// partitions run apart, so declare it as long as it truly is.
    pub min_latency: Picos,
}

/// A wire whose receiver is known by its place in a partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub(crate) min_latency: u64,
    /// Index of the receiver in its partition.
    pub(crate) local: u32,
    /// The number of the receiver's block, among those of all partitions.
    pub(crate) block: u16,
    pub(crate) port: u16,
}

/// What a pending event is, between runs.
#[derive(Clone, Copy)]
pub(crate) enum Body<P> {
    Payload(u16, P),
    Wake(u32),
}

/// An event for a component of another partition.
#[derive(Clone, Copy)]
pub(crate) struct CrossEvent<P> {
    pub(crate) key: EventKey,
    pub(crate) target: Target,
    pub(crate) payload: P,
}

/// Cross-partition events to one partition, until the end of the window.
pub(crate) struct Outgoing<P> {
    pub(crate) events: Vec<CrossEvent<P>>,
    /// The time of the earliest of them, `u64::MAX` when there are none.
    pub(crate) earliest: u64,
}

impl<P> Default for Outgoing<P> {
    fn default() -> Self {
        Outgoing {
            events: Vec::new(),
            earliest: u64::MAX,
        }
    }
}

impl<P: Payload> Outgoing<P> {
    /// How many events ahead the memory of the next ones is fetched to be written: another core has read it last.
    const AHEAD: usize = 8;

    /// Adds an event; returns its payload, to be changed.
    fn write(&mut self, key: EventKey, target: Target, payload: P) -> &mut P {
        self.earliest = self.earliest.min(key.time);
        let at = self.events.len();
        self.events.push(CrossEvent {
            key,
            target,
            payload,
        });
        if let Some(ahead) = self.events.spare_capacity_mut().get(Self::AHEAD) {
            prefetch_to_write(ahead);
        }
        &mut self.events[at].payload
    }
}

/// A partition's side of the executor: its queue and its outgoing events.
pub(crate) struct Lane<P: Payload> {
    pub(crate) queue: WheelQueue<P>,
    pub(crate) outgoing: Vec<Outgoing<P>>,
    pub(crate) partition: u16,
    /// The block whose events are handled, by its number among those of all partitions.
    pub(crate) block: u16,
    /// The same, where its events go into a wheel; [`NO_BLOCK`] where blocks take turns.
    pub(crate) wheel_of: u16,
    pub(crate) blocks: Blocks,
    pub(crate) work: u64,
}

/// Where a partition's blocks are.
#[derive(Default)]
pub(crate) struct Blocks {
    /// The number of the first of them.
    pub(crate) first: u16,
    /// How many components each has.
    pub(crate) counts: Vec<usize>,
    /// Of each of the partition's components, its block.
    pub(crate) of_local: Vec<u16>,
    /// The partition of every block.
    pub(crate) partitions: Vec<u16>,
    /// The shortest latency of a wire between two of them.
    pub(crate) span: u64,
}

impl<P: Payload> Lane<P> {
    /// Adds an event of one of its components, whatever block that is in.
    #[inline]
    pub(crate) fn arrive(&mut self, key: EventKey, target: Target) -> &mut P {
        let block = self.blocks.of_local[target.component()];
        let block = usize::from(block - self.blocks.first);
        self.queue.push_to(block, key, target)
    }

    /// Takes what a component has kept.
    pub(crate) fn take(&mut self, kept: Kept) -> P {
        let payload = *self.queue.carried(kept.0);
        self.queue.release(kept.0);
        payload
    }

    /// Keeps what a component took in.
    pub(crate) fn keep(&mut self, payload: P) -> Kept {
        Kept(self.queue.hold(payload))
    }

    /// What is sent is of this block.
    pub(crate) fn turn_to(&mut self, block: usize) {
        self.block = self.blocks.first + block as u16;
    }

    /// Adds an event of a block.
    #[inline(always)]
    fn push(&mut self, block: u16, key: EventKey, target: Target) -> &mut P {
        if block == self.wheel_of {
            self.queue.push(key, target)
        } else {
            self.place_elsewhere(block, key, target)
        }
    }

    /// Adds an event of another block, or of one that takes turns.
    #[inline(never)]
    fn place_elsewhere(&mut self, block: u16, key: EventKey, target: Target) -> &mut P {
        let own = usize::from(block.wrapping_sub(self.blocks.first));
        if own < self.queue.blocks() {
            return self.queue.push_to(own, key, target);
        }
        self.cross(block, NOWHERE, key, target)
    }

    /// Makes an event of another block, or of one that takes turns, of one that is handled.
    #[inline(never)]
    fn pass_elsewhere(&mut self, block: u16, place: u32, key: EventKey, target: Target) -> &mut P {
        let own = usize::from(block.wrapping_sub(self.blocks.first));
        if own < self.queue.blocks() {
            return self.queue.pass_to(own, place, key, target);
        }
        self.queue.release(place);
        self.cross(block, place, key, target)
    }

    /// Makes an event of another partition, which carries what lies at `place`.
    #[inline(never)]
    fn cross(&mut self, block: u16, place: u32, key: EventKey, target: Target) -> &mut P {
        let to = self.blocks.partitions[usize::from(block)];
        let payload = *self.queue.carried(place);
        self.outgoing[usize::from(to)].write(key, target, payload)
    }
}

/// Per-component bookkeeping of the engine.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) id: u32,
    pub(crate) local: u32,
    pub(crate) sequence: u64,
    pub(crate) digest: u64,
}

impl Account {
    #[inline]
    pub(crate) fn absorb(&mut self, key: EventKey, what: u64) {
        let word = key.time ^ key.order.rotate_left(17) ^ what.rotate_left(34);
        self.digest = (self.digest.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

/// Combines per-component digests, in component order, into the run's digest.
pub(crate) fn combine_digests(digests: impl Iterator<Item = u64>) -> u64 {
    digests.fold(0, |all, one| mix(all.rotate_left(1) ^ one))
}

/// What a component may do while it handles an event.
pub struct Ctx<'a, P: Payload> {
    pub(crate) now: SimTime,
    pub(crate) account: &'a mut Account,
    pub(crate) routes: &'a [Route],
    pub(crate) lane: &'a mut Lane<P>,
    /// Where the payload lies that has arrived; [`NOWHERE`] when there is none.
    pub(crate) place: u32,
}

/// The number of no block.
pub(crate) const NO_BLOCK: u16 = u16::MAX;

/// No payload has arrived, or it was passed on: the first place of a queue holds none.
pub(crate) const NOWHERE: u32 = 0;

impl<P: Payload> Ctx<'_, P> {
    /// The current time.
    #[inline]
    pub fn now(&self) -> SimTime {
        self.now
    }

    #[inline]
    fn next_key(&mut self, at: SimTime) -> EventKey {
        let order = u64::from(self.account.id) << EventKey::SEQUENCE_BITS | self.account.sequence;
        self.account.sequence += 1;
        EventKey { time: at.0, order }
    }

    /// Sends `payload` through `port`, to arrive at time `at`.
    ///
    /// # Panics
    /// As [`Ctx::place`].
    #[inline(always)]
    pub fn send(&mut self, port: u16, at: SimTime, payload: P) {
        *self.place(port, at) = payload;
    }

    /// Sends through `port`, to arrive at time `at`, what the caller then writes to the place that
    /// is shown. That holds anything as yet; written there at once, a payload is copied once.
    ///
    /// # Panics
    /// If the port is not wired or `at` is sooner than the wire's minimum latency allows: both
    /// are our own mistakes.
    #[inline(always)]
    pub fn place(&mut self, port: u16, at: SimTime) -> &mut P {
        let (block, key, target) = self.leave(port, at);
        self.lane.push(block, key, target)
    }

    /// What has arrived, where it lies, until it is passed on. While a component starts or is woken,
    /// and behind [`Ctx::pass_on`], it is the default.
    #[inline(always)]
    pub fn received(&self) -> &P {
        self.lane.queue.carried(self.place)
    }

    /// The same, to be changed.
    ///
    /// # Panics
    /// Where nothing has arrived or it was passed on before.
    #[inline]
    pub fn received_mut(&mut self) -> &mut P {
        assert!(self.place != NOWHERE, "nothing has arrived");
        self.lane.queue.carried_mut(self.place)
    }

    /// Sends what has arrived on through `port`, to arrive at time `at`, and shows it, to be changed.
    /// Within a thread it stays where it lies.
    ///
    /// # Panics
    /// As [`Ctx::place`], and where nothing has arrived or it was passed on before.
    #[inline(always)]
    pub fn pass_on(&mut self, port: u16, at: SimTime) -> &mut P {
        let arrived = self.keep();
        self.send_kept(arrived, port, at)
    }

    /// Keeps what has arrived, for later.
    ///
    /// # Panics
    /// Where nothing has arrived or it was passed on or kept before.
    #[inline(always)]
    pub fn keep(&mut self) -> Kept {
        let place = std::mem::replace(&mut self.place, NOWHERE);
        assert!(place != NOWHERE, "nothing to pass on or to keep");
        Kept(place)
    }

    /// What was kept; the default for the default of [`Kept`].
    #[inline(always)]
    pub fn kept(&self, kept: &Kept) -> &P {
        self.lane.queue.carried(kept.0)
    }

    /// Forgets what was kept.
    ///
    /// # Panics
    /// For the default of [`Kept`].
    pub fn forget(&mut self, kept: Kept) {
        assert!(kept.is_some(), "nothing was kept");
        self.lane.queue.release(kept.0);
    }

    /// Sends what was kept through `port`, as [`Ctx::pass_on`] does.
    ///
    /// # Panics
    /// As [`Ctx::place`], and for the default of [`Kept`].
    #[inline(always)]
    pub fn send_kept(&mut self, kept: Kept, port: u16, at: SimTime) -> &mut P {
        assert!(kept.is_some(), "nothing was kept");
        let place = kept.0;
        let (block, key, target) = self.leave(port, at);
        if block == self.lane.wheel_of {
            self.lane.queue.pass_on(place, key, target)
        } else {
            self.lane.pass_elsewhere(block, place, key, target)
        }
    }

    /// Where what is sent through a port goes: its block, its place in the order, and whom it is for.
    #[inline(always)]
    fn leave(&mut self, port: u16, at: SimTime) -> (u16, EventKey, Target) {
        let route = self.routes[port as usize];
        assert!(
            at.0 >= self.now.0 + route.min_latency,
            "sent faster than the wire's latency"
        );
        let target = Target::port(route.local, route.port);
        (route.block, self.next_key(at), target)
    }

    /// Asks for [`Component::wake`] with `token` at time `at` (not before now).
    ///
    /// # Panics
    /// If `at` lies in the past.
    #[inline]
    pub fn wake_at(&mut self, at: SimTime, token: u32) {
        assert!(at >= self.now, "a wake-up in the past");
        let key = self.next_key(at);
        let (block, target) = (self.lane.block, Target::wake(self.account.local, token));
        self.lane.push(block, key, target);
    }

    /// Reports finished units of work (completed requests), for the progress bar.
    #[inline]
    pub fn count_work(&mut self, units: u64) {
        self.lane.work += units;
    }
}
