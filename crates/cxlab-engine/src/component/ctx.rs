//! What a component may do while it handles an event.

use serde::{Deserialize, Serialize};

use super::partition_events::{ComponentRecord, PartitionEvents, Route};
use super::{KeptPayload, Payload};
use crate::queue::{EventKey, EventQueue, Target};
use crate::units::SimTime;

/// Access of a component to the simulation while it handles an event.
///
/// # Time
/// [`now`](Ctx::now) does not change while an event is handled. A payload arrives at a time that the
/// sender chooses, at least the latency of the wire from now. A wake-up may be due now or later.
///
/// ```
/// use cxlab_engine::units::{Picos, SimTime};
/// use cxlab_engine::{Component, ComponentId, Ctx, Monitor, Payload, Simulation, Wire};
///
/// # #[derive(Clone, Copy, Default)]
/// # struct Ping;
/// # impl Payload for Ping {
/// #     fn fingerprint(&self) -> u64 {
/// #         1
/// #     }
/// # }
/// /// Sends a ping so many picoseconds after time zero.
/// struct Sender {
///     after: u64,
/// }
///
/// impl Component for Sender {
///     type Payload = Ping;
///
///     fn start(&mut self, ctx: &mut Ctx<'_, Ping>) {
///         assert_eq!(ctx.now(), SimTime::ZERO);
///         ctx.send(0, SimTime(self.after), Ping);
///     }
///
///     fn receive(&mut self, ctx: &mut Ctx<'_, Ping>, _port: u16, _: &Ping) {
///         // A wake-up at this instant: it is handled next, at the same time.
///         ctx.wake_at(ctx.now(), 7);
///     }
///
///     fn wake(&mut self, ctx: &mut Ctx<'_, Ping>, token: u32) {
///         assert_eq!((ctx.now(), token), (SimTime(self.after), 7));
///     }
/// }
///
/// let run_with = |after| {
///     let run = move || {
///         let wire = |peer| Wire::new(ComponentId(peer), 0, Picos(100));
///         let senders = vec![Sender { after }, Sender { after }];
///         let mut simulation = Simulation::new(senders, vec![vec![wire(1)], vec![wire(0)]]);
///         simulation.run(1, SimTime::NEVER, &Monitor::default()).events
///     };
///     std::panic::catch_unwind(run)
/// };
/// assert!(run_with(99).is_err(), "faster than the wire");
/// assert_eq!(run_with(100).ok(), Some(4), "two pings and two wake-ups");
/// ```
pub struct Ctx<'a, P: Payload> {
    pub(crate) now: SimTime,
    pub(crate) record: &'a mut ComponentRecord,
    pub(crate) routes: &'a [Route],
    pub(crate) pending: &'a mut PartitionEvents<P>,
    /// The place in the event queue of the payload that has arrived; [`NOWHERE`] when there is none.
    pub(crate) place: u32,
}

/// The place in the order of a wake-up that has no time yet ([`Ctx::reserve_wake`]).
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct ReservedWake(pub(crate) u64);

/// The place of no payload: none has arrived, or it was passed on. The first place of a queue has none.
pub(crate) const NOWHERE: u32 = 0;

impl<P: Payload> Ctx<'_, P> {
    /// The current time.
    #[inline]
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// The key of the component's next event, at time `at`.
    #[inline]
    fn next_key(&mut self, at: SimTime) -> EventKey {
        let order = u64::from(self.record.id) << EventKey::SEQUENCE_BITS | self.record.sequence;
        self.record.sequence += 1;
        EventKey { time: at.0, order }
    }

    /// Sends `payload` through `port`, to arrive at time `at`.
    ///
    /// # Panics
    /// As [`Ctx::send_in_place`].
    #[inline(always)]
    pub fn send(&mut self, port: u16, at: SimTime, payload: P) {
        *self.send_in_place(port, at) = payload;
    }

    /// Sends through `port`, to arrive at time `at`, the payload that the caller writes to the returned reference.
    ///
    /// The referenced value is arbitrary until the caller writes it. A payload that is built there is
    /// copied once less than with [`Ctx::send`].
    ///
    /// # Panics
    /// If the port has no wire, or if `at` is sooner than the wire's
    /// [minimum latency](super::Wire::min_latency) allows: both are errors of the model.
    #[inline(always)]
    pub fn send_in_place(&mut self, port: u16, at: SimTime) -> &mut P {
        let (block, key, target) = self.leave(port, at);
        self.pending.push(block, key, target)
    }

    /// The payload that has arrived, in the event queue. It is the default value in [`start`](super::Component::start)
    /// and [`wake`](super::Component::wake), and after the payload was passed on or kept.
    #[inline(always)]
    pub fn received(&self) -> &P {
        self.pending.queue.carried(self.place)
    }

    /// The payload that has arrived, in the event queue, to be changed.
    ///
    /// # Panics
    /// If no payload has arrived, or if it was passed on or kept.
    #[inline]
    pub fn received_mut(&mut self) -> &mut P {
        assert!(self.place != NOWHERE, "nothing has arrived");
        self.pending.queue.carried_mut(self.place)
    }

    /// Sends the payload that has arrived through `port`, to arrive at time `at`. Returns a reference by
    /// which the caller may change it.
    ///
    /// Within a thread the payload is not copied.
    ///
    /// # Panics
    /// As [`Ctx::send_in_place`], and if no payload has arrived or it was passed on or kept.
    #[inline(always)]
    pub fn pass_on(&mut self, port: u16, at: SimTime) -> &mut P {
        let arrived = self.keep();
        self.send_kept(arrived, port, at)
    }

    /// Keeps the payload that has arrived in the event queue after this event. The component stores the
    /// returned handle and implements [`KeptPayloads`](super::KeptPayloads).
    ///
    /// # Panics
    /// If no payload has arrived, or if it was passed on or kept.
    #[inline(always)]
    pub fn keep(&mut self) -> KeptPayload {
        let place = std::mem::replace(&mut self.place, NOWHERE);
        assert!(place != NOWHERE, "nothing to pass on or to keep");
        KeptPayload(place)
    }

    /// The payload behind a handle; the default payload for the default [`KeptPayload`].
    #[inline(always)]
    pub fn kept(&self, kept: &KeptPayload) -> &P {
        self.pending.queue.carried(kept.0)
    }

    /// Drops a kept payload.
    ///
    /// # Panics
    /// If `kept` is the default [`KeptPayload`].
    pub fn forget(&mut self, kept: KeptPayload) {
        assert!(kept.is_some(), "nothing was kept");
        self.pending.queue.release(kept.0);
    }

    /// Sends a kept payload through `port`, to arrive at time `at`. Returns a reference by which the
    /// caller may change it.
    ///
    /// # Panics
    /// As [`Ctx::send_in_place`], and if `kept` is the default [`KeptPayload`].
    #[inline(always)]
    pub fn send_kept(&mut self, kept: KeptPayload, port: u16, at: SimTime) -> &mut P {
        assert!(kept.is_some(), "nothing was kept");
        let (block, key, target) = self.leave(port, at);
        self.pending.pass_on(block, kept.0, key, target)
    }

    /// The receiver's block, the event's key and its target, for a payload sent through `port`.
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

    /// Requests a call of [`Component::wake`](super::Component::wake) with `token` at time `at`, which may be now.
    ///
    /// A wake-up cannot be cancelled: a component that no longer needs it ignores it. A wake-up at the current time is
    /// handled after this event, in the [order](super::Component#order-of-events) of the events that are then pending.
    ///
    /// # Panics
    /// If `at` is in the past.
    #[inline]
    pub fn wake_at(&mut self, at: SimTime, token: u32) {
        assert!(at >= self.now, "a wake-up in the past");
        let key = self.next_key(at);
        let (block, target) = (self.pending.block, Target::wake(self.record.local, token));
        self.pending.push(block, key, target);
    }

    /// Takes the place in the order of a wake-up whose time is not known yet. Between two runs,
    /// [`Simulation::wake_reserved`](crate::Simulation::wake_reserved) gives it a time.
    ///
    /// The wake-up has the same [order](super::Component#order-of-events) as one that [`Ctx::wake_at`] would request
    /// now. So it makes no difference when its time becomes known.
    pub fn reserve_wake(&mut self) -> ReservedWake {
        ReservedWake(self.next_key(SimTime::ZERO).order)
    }

    /// Adds finished units of work, such as completed requests, to [`Monitor::work`](crate::Monitor::work).
    #[inline]
    pub fn count_work(&mut self, units: u64) {
        self.pending.work += units;
    }
}
