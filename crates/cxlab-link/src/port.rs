//! A port: one end of a link, with a transmitter and a receiver.

use cxlab_engine::save_state;
use cxlab_engine::units::{Picos, SimTime};
use cxlab_engine::{CACHE_LINE, Ctx, KeptPayload, prefetch_first};
use cxlab_protocol::{Channel, LongStage, Message, WireSpace};

use crate::credit::{BufferId, CreditWindows, FlowControl};
use crate::params::LinkParams;
use crate::parcel::{Credits, Parcel};
use crate::transmitter::{Blocked, Transmitter};
use crate::waits::{PortWaits, WaitTimes};

/// Space of a message without byte enables.
const NO_TRAILER: WireSpace = WireSpace::Slots { trailer: false };

/// Configuration of a port besides its link's parameters.
#[derive(Clone, Debug)]
pub struct PortConfig<'a> {
    /// The port's number in its component.
    pub port: u16,
    /// Constant time before the link in the sending component (a requester's processing). Every message
    /// spends this time, and none overtakes another in it.
    pub egress: Picos,
    /// Constant time after the link in the receiving component (switching time, a device's controller), in
    /// which no message overtakes another.
    pub ingress: Picos,
    /// Number of virtual channels of the link.
    pub vcs: u8,
    /// Most messages of each class between this port and the component at the far end, on each virtual
    /// channel ([`LinkParams::windows`]). Both ends have the same windows.
    pub windows: CreditWindows,
    /// The run's seed, for error injection.
    pub seed: u64,
    /// A unique name of this direction, for error injection.
    pub name: &'a str,
}

/// The times of a message's crossing of a link.
struct Crossing {
    /// When the message leaves.
    start: SimTime,
    /// When the component at the far end handles the message.
    arrival: SimTime,
    /// Wait for the wire and for the response order, in picoseconds.
    queue_ps: u64,
    /// Serialization with propagation, in picoseconds.
    link_ps: u32,
}

/// One end of a link: what a component sends through and receives from.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct LinkPort {
    /// Constant time between a message's departure and its handling by the receiver, in picoseconds.
    fixed_ps: u64,
    /// The part of `fixed_ps` between the two ports: wire and retimers ([`LinkParams::flight_ps`]).
    flight_ps: u32,
    /// The part of `fixed_ps` in the two ports ([`LinkParams::ports_ps`]).
    ports_ps: u32,
    /// The port's number in its component.
    port: u16,
    /// Stage to which the wait of a message for the wire is charged.
    stage: LongStage,
    /// Number of buffers at the far end that are starved now.
    starved_buffers: u8,
    /// Number of a switch's messages that wait for this port. Other owners count their own. Stored here
    /// because the switch reads it with the other fields.
    pub waiting: u32,
    flow: FlowControl,
    /// The transmitting side: what is sent when.
    pub transmitter: Transmitter,
    /// When the last H2D Rsp message arrives at the far end.
    response_arrives: SimTime,
    /// Wait statistics, allocated when a message first waits.
    waits: Option<Box<PortWaits>>,
}

save_state!(LinkPort {
    values: waiting, response_arrives, starved_buffers, waits;
    states: flow, transmitter;
    built: fixed_ps, flight_ps, ports_ps, port, stage;
});

impl LinkPort {
    /// The end of a link with these parameters.
    pub fn new(params: &LinkParams, config: &PortConfig<'_>) -> Self {
        LinkPort {
            transmitter: Transmitter::new(params, config.seed, config.name),
            fixed_ps: Self::min_latency(params, config.egress, config.ingress).0,
            flight_ps: params.flight_ps() as u32,
            ports_ps: params.ports_ps() as u32,
            port: config.port,
            stage: LongStage::HostQueue,
            starved_buffers: 0,
            waits: None,
            waiting: 0,
            flow: FlowControl::new(&config.windows, config.vcs, params.returns()),
            response_arrives: SimTime(0),
        }
    }

    /// The same port in a component whose messages wait for the wire in `stage`. The default is the host's queue.
    #[must_use]
    pub fn waiting_in(self, stage: LongStage) -> Self {
        LinkPort { stage, ..self }
    }

    /// Prefetches the cache lines that a send on a link of `vcs` virtual channels reads.
    #[inline(always)]
    pub fn prefetch(&self, vcs: u8) {
        self.prefetch_credits(vcs);
        prefetch_first::<CACHE_LINE, _>(&self.transmitter);
    }

    /// Prefetches the cache lines that an arrival reads. The credits of virtual channel 0 are stored in the first line.
    #[inline(always)]
    pub fn prefetch_credits(&self, vcs: u8) {
        match vcs {
            0..=1 => prefetch_first::<CACHE_LINE, _>(self),
            _ => prefetch_first::<{ 2 * CACHE_LINE }, _>(self),
        }
    }

    /// The minimum latency of the wire: the least time from this end to the handling at the far end.
    pub fn min_latency(params: &LinkParams, egress: Picos, ingress: Picos) -> Picos {
        Picos(params.crossing_ps()) + egress + ingress
    }

    /// Sends a message on virtual channel `vc` if it can go at `at`, now or later; returns when it leaves.
    /// `change` completes the sent message, and the time until its arrival is added to its stages. Credits
    /// ride only on a message that leaves now, because a message sent ahead of its time would delay them.
    ///
    /// The message is changed in place, because changing it first and copying it afterwards would cost
    /// more: the copy would stall until the changes reach the cache.
    ///
    /// # Errors
    /// [`Blocked`] if the message has to wait; its reason says for what. Nothing has been sent then.
    #[inline(always)]
    pub fn send(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        message: &Message,
        vc: u8,
        at: SimTime,
        change: impl FnOnce(&mut Message),
    ) -> Result<SimTime, Blocked> {
        self.send_as(ctx, message, message.channel(), vc, at, change)
    }

    /// Sends a message as [`LinkPort::send`] does, if `change` turns it into a message of class `channel`.
    ///
    /// # Errors
    /// The errors of [`LinkPort::send`].
    #[inline(always)]
    pub fn send_as(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        message: &Message,
        channel: Channel,
        vc: u8,
        at: SimTime,
        change: impl FnOnce(&mut Message),
    ) -> Result<SimTime, Blocked> {
        let crossing = self.reserve(channel, vc, at, || message.wire_space(channel))?;
        let credits = self.piggybacked_credits(at == ctx.now());
        let parcel = ctx.send_in_place(self.port, crossing.arrival);
        parcel.credits = credits;
        let sent = parcel.message.insert(*message);
        self.complete(sent, vc, &crossing);
        change(sent);
        Ok(crossing.start)
    }

    /// Forwards the message that has just arrived, in class `channel`, as [`LinkPort::send`] does, without copying it.
    ///
    /// # Errors
    /// The errors of [`LinkPort::send`].
    #[inline(always)]
    pub fn pass_on(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        channel: Channel,
        vc: u8,
        at: SimTime,
        change: impl FnOnce(&mut Message),
    ) -> Result<SimTime, Blocked> {
        let crossing = self.reserve(channel, vc, at, || {
            let message = ctx.received().message.as_ref();
            message.map_or(NO_TRAILER, |message| message.wire_space(channel))
        })?;
        let credits = self.piggybacked_credits(at == ctx.now());
        let parcel = ctx.pass_on(self.port, crossing.arrival);
        self.send_parcel(parcel, credits, vc, &crossing, change);
        Ok(crossing.start)
    }

    /// Sends a [kept](Ctx::keep) message now, as [`LinkPort::send`] does. `kept` is empty afterwards.
    ///
    /// # Errors
    /// The errors of [`LinkPort::send`].
    #[inline(always)]
    pub fn send_kept(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        kept: &mut KeptPayload,
        channel: Channel,
        vc: u8,
        change: impl FnOnce(&mut Message),
    ) -> Result<(), Blocked> {
        let crossing = self.reserve(channel, vc, ctx.now(), || {
            let message = ctx.kept(kept).message.as_ref();
            message.map_or(NO_TRAILER, |message| message.wire_space(channel))
        })?;
        let credits = self.piggybacked_credits(true);
        let parcel = ctx.send_kept(std::mem::take(kept), self.port, crossing.arrival);
        self.send_parcel(parcel, credits, vc, &crossing, change);
        Ok(())
    }

    /// The credits that ride on a message: none if it is sent ahead of its time.
    #[inline(always)]
    fn piggybacked_credits(&mut self, now: bool) -> Credits {
        match now {
            true => self.flow.take(self.transmitter.flit()),
            false => Credits::NONE,
        }
    }

    /// Completes a parcel that is forwarded in place.
    #[inline(always)]
    fn send_parcel(
        &self,
        parcel: &mut Parcel,
        credits: Credits,
        vc: u8,
        crossing: &Crossing,
        change: impl FnOnce(&mut Message),
    ) {
        parcel.credits = credits;
        if let Some(sent) = &mut parcel.message {
            self.complete(sent, vc, crossing);
            change(sent);
        }
    }

    /// Takes a credit and reserves the wire for a message that can go at `at`. `wire_space` returns the space
    /// that the message takes beyond its class.
    #[inline(always)]
    fn reserve(
        &mut self,
        channel: Channel,
        vc: u8,
        at: SimTime,
        wire_space: impl FnOnce() -> WireSpace,
    ) -> Result<Crossing, Blocked> {
        let Some(buffer) = self.flow.with_credit(BufferId::of(channel, vc)) else {
            self.flow.stall(channel);
            return Err(Blocked::Credits);
        };
        let sent = match channel.is_mem() {
            true => self.transmitter.send_mem(at, channel, wire_space),
            false => self.transmitter.send(at, channel, wire_space),
        };
        let departure = match sent {
            Ok(departure) => departure,
            Err(time) => return Err(Blocked::Until(time)),
        };
        buffer.spend();
        self.flow.count_sent();
        let mut arrival = SimTime(departure.end.0 + self.fixed_ps);
        let delayed = match channel.is_mem() {
            true => 0,
            false => self.in_order(channel, &mut arrival),
        };
        Ok(Crossing {
            start: departure.start,
            arrival,
            queue_ps: departure.start.0 - at.0 + delayed,
            link_ps: (departure.end.0 - departure.start.0) as u32 + self.flight_ps,
        })
    }

    /// Adds the times of its crossing to a sent message.
    #[inline(always)]
    fn complete(&self, sent: &mut Message, vc: u8, crossing: &Crossing) {
        sent.vc = vc;
        sent.stages.add(self.stage, crossing.queue_ps);
        sent.stages.link += crossing.link_ps;
        sent.stages.port += self.ports_ps;
    }

    /// "Snoop pushes GO": a snoop arrives no earlier than the responses that were sent before it (CXL 3.1,
    /// section 3.2.5.2). That includes responses in the second half of a flit whose first half carries the
    /// snoop. Returns how long the snoop is delayed, in picoseconds.
    #[inline(never)]
    fn in_order(&mut self, channel: Channel, arrival: &mut SimTime) -> u64 {
        let before = *arrival;
        match channel {
            Channel::H2dRsp => self.response_arrives = self.response_arrives.max(before),
            Channel::H2dReq => *arrival = before.max(self.response_arrives),
            _ => {}
        }
        arrival.0 - before.0
    }

    /// Adds a parcel's credits to those at hand. Returns true if there were any.
    #[inline]
    pub fn receive(&mut self, parcel: &Parcel) -> bool {
        self.take_back(parcel.credits)
    }

    /// Adds returned credits to those at hand. Returns true if there were any.
    #[inline]
    pub fn take_back(&mut self, credits: Credits) -> bool {
        if credits.is_empty() {
            return false;
        }
        for (buffer, count) in credits.entries {
            if count == 0 {
                break;
            }
            self.flow.credit(BufferId(buffer), count);
        }
        true
    }

    /// Frees the buffer of a received message. Its credit waits for a message to ride on, or goes back
    /// alone when enough have gathered.
    #[inline(always)]
    pub fn release(&mut self, ctx: &mut Ctx<'_, Parcel>, buffer: BufferId) {
        if self.flow.free(buffer) {
            self.return_alone(ctx, buffer);
        }
    }

    /// Returns the credits of a buffer in the next flit, without a message.
    #[cold]
    fn return_alone(&mut self, ctx: &mut Ctx<'_, Parcel>, buffer: BufferId) {
        let credits = self.flow.take_first(buffer);
        let leaves = self.transmitter.send_credits(ctx.now());
        let arrival = SimTime(leaves.0 + self.fixed_ps);
        ctx.send(
            self.port,
            arrival,
            Parcel {
                message: None,
                credits,
            },
        );
    }

    /// How long the buffer has been starved up to `now`, in picoseconds. A message that begins to wait
    /// stores this value for [`LinkPort::waited`].
    #[inline]
    pub fn starved_ps(&self, now: SimTime, buffer: BufferId) -> u64 {
        let waits = self.waits.as_deref();
        waits.map_or(0, |waits| waits.starved_ps(buffer.0, now.0))
    }

    /// Whether messages wait for credits.
    pub fn is_starved(&self) -> bool {
        self.starved_buffers > 0
    }

    /// Records that a message could not be sent for lack of a credit.
    #[inline(never)]
    pub fn begin_starvation(&mut self, now: SimTime, buffer: BufferId) {
        let since = self.transmitter.closed_until(now).unwrap_or(now);
        let waits = self.waits.get_or_insert_default();
        self.starved_buffers += u8::from(waits.begin_starvation(buffer.0, since.0));
    }

    /// Ends the starvation, at `now`, of buffers whose credits have come.
    #[inline]
    pub fn end_starvation(&mut self, now: SimTime) {
        if self.starved_buffers > 0
            && let Some(waits) = &mut self.waits
        {
            let flow = &self.flow;
            self.starved_buffers -=
                waits.end_starvation(now.0, |buffer| flow.credits(BufferId(buffer)) > 0);
        }
    }

    /// How long a message that began to wait at `since` has waited up to `now`, for the wire and for
    /// credits. `before` is how long its buffer had been starved when it began to wait, in picoseconds.
    #[inline]
    pub fn waited(&self, now: SimTime, buffer: BufferId, since: SimTime, before: u64) -> WaitTimes {
        let wait = now.0 - since.0;
        let starved = self.starved_ps(now, buffer).saturating_sub(before);
        let credits = starved.min(wait);
        WaitTimes {
            queue: wait - credits,
            credits,
        }
    }

    /// Counts the wait of a sent message, if it waited.
    #[inline]
    pub fn count_wait(&mut self, waited: WaitTimes) {
        if waited != WaitTimes::default() {
            self.waits.get_or_insert_default().count(waited);
        }
    }

    /// Stage to which the wait of a message for the wire is charged.
    #[inline]
    pub fn stage(&self) -> LongStage {
        self.stage
    }

    /// Waits in front of the transmitter since measurement began; `None` if no message ever waited.
    pub fn waits(&self) -> Option<&PortWaits> {
        self.waits.as_deref()
    }

    /// Resets the port's statistics at the start of measurement.
    pub fn begin_measurement(&mut self, now: SimTime) {
        self.flow.reset();
        self.transmitter.reset_stats(now);
        if let Some(waits) = &mut self.waits {
            waits.reset();
        }
    }

    /// Fails the link: nothing can be sent, for lack of credits, until the link is restored. Messages
    /// already sent are in flight, and the far end decides whether they are lost.
    pub fn fail(&mut self) {
        self.flow.fail();
    }

    /// Restores a link that is trained for the `time`-th time (from 1 on): flow control begins anew. `occupied` returns
    /// the number of places in a buffer that earlier messages still take. The far end learns of the restoration by
    /// [`Credits::begins`], which arrives after everything that was sent before.
    pub fn restore(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        time: u32,
        occupied: impl Fn(BufferId) -> u16,
    ) {
        self.flow.restore(occupied);
        let mut leaves = self.transmitter.last_end().max(ctx.now());
        let mut credits = Credits::begin(time);
        while !credits.is_empty() {
            self.transmitter.sends_credits_until(leaves);
            let (arrival, message) = (SimTime(leaves.0 + self.fixed_ps), None);
            ctx.send(self.port, arrival, Parcel { message, credits });
            credits = self.flow.take_all();
            leaves = SimTime(leaves.0 + self.transmitter.credits_ps());
        }
    }

    /// Credits at hand for a buffer at the far end.
    pub fn credits(&self, buffer: BufferId) -> u16 {
        self.flow.credits(buffer)
    }

    /// Number of sent messages whose credits have not come back: in flight, buffered at the far end, or
    /// with a credit on its way back.
    #[inline]
    pub fn unreturned(&self) -> u32 {
        self.flow.unreturned()
    }

    /// Credits that wait for a message to ride on; for conservation checks.
    pub fn waiting_returns(&self, buffer: BufferId) -> u16 {
        self.flow.waiting(buffer)
    }

    /// Whether a message of this class has waited for a credit since measurement began.
    pub fn has_stalled(&self, channel: Channel) -> bool {
        self.flow.has_stalled(channel)
    }
}
