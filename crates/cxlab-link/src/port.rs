//! A port: one end of a link, transmitter and receiver together.

use cxlab_engine::save_state;
use cxlab_engine::units::{Picos, SimTime};
use cxlab_engine::{CACHE_LINE, Ctx, Kept, prefetch_first};
use cxlab_protocol::{Channel, Extent, LongStage, Message};

use crate::credit::{Buffer, FlowControl, Windows};
use crate::params::LinkParams;
use crate::parcel::{Credits, Parcel};
use crate::transmitter::{Blocked, Transmitter};
use crate::waits::{Waited, Waits};

/// Nothing follows the line.
const NO_TRAILER: Extent = Extent::Slots { trailer: false };

/// What a port needs to know besides its link's parameters.
#[derive(Clone, Debug)]
pub struct PortConfig<'a> {
    /// The port's number in its component.
    pub port: u16,
    /// Constant time before the link in the sending component (a requester's processing), which
    /// every message spends and none can be passed in.
    pub egress: Picos,
    /// Constant time behind the link in the receiving component (switching time, a device's
    /// controller), likewise.
    pub ingress: Picos,
    /// Virtual channels of the link.
    pub vcs: u8,
    /// Messages of each class that may be between this port and the component at the far end, on each
    /// virtual channel ([`LinkParams::windows`]). The same at both ends.
    pub windows: Windows,
    /// The run's seed, for error injection.
    pub seed: u64,
    /// A unique name of this direction, for error injection.
    pub name: &'a str,
}

/// A message's way over a link, in picoseconds.
struct Way {
    /// When it leaves.
    start: SimTime,
    arrival: SimTime,
    /// Waiting, and serialization with propagation.
    queue: u64,
    link: u32,
}

/// One end of a link.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct LinkPort {
    /// Everything between a message's departure and its handling by the receiver.
    fixed: u64,
    flight: u32,
    ports: u32,
    port: u16,
    /// The stage of a message that waits here for the wire.
    stage: LongStage,
    /// Buffers at the far end that are starved now.
    starving: u8,
    /// Messages of a switch that wait for it; other owners have an account of their own. It lies here because
    /// it is looked at with the rest.
    pub waiting: u32,
    flow: FlowControl,
    /// What is sent when.
    pub transmitter: Transmitter,
    /// When the last message on H2D Rsp arrives.
    response_arrives: SimTime,
    /// Allocated when something first waits.
    waits: Option<Box<Waits>>,
}

save_state!(LinkPort {
    values: waiting, response_arrives, starving, waits;
    states: flow, transmitter;
    built: fixed, flight, ports, port, stage;
});

impl LinkPort {
    /// One end of a link with these parameters.
    pub fn new(params: &LinkParams, config: &PortConfig<'_>) -> Self {
        LinkPort {
            transmitter: Transmitter::new(params, config.seed, config.name),
            fixed: Self::min_latency(params, config.egress, config.ingress).0,
            flight: params.flight_ps() as u32,
            ports: params.ports_ps() as u32,
            port: config.port,
            stage: LongStage::HostQueue,
            starving: 0,
            waits: None,
            waiting: 0,
            flow: FlowControl::new(&config.windows, config.vcs, params.returns()),
            response_arrives: SimTime(0),
        }
    }

    /// The same port in a component whose messages wait in `stage` for the wire: where nothing is said they
    /// wait in the host.
    #[must_use]
    pub fn waiting_in(self, stage: LongStage) -> Self {
        LinkPort { stage, ..self }
    }

    /// Something will be sent soon, on a link of so many virtual channels: asks for the cache lines that are
    /// looked at then.
    #[inline(always)]
    pub fn fetch(&self, vcs: u8) {
        self.fetch_credits(vcs);
        prefetch_first::<CACHE_LINE, _>(&self.transmitter);
    }

    /// Something will arrive soon. The credits of virtual channel 0 lie in the first line.
    #[inline(always)]
    pub fn fetch_credits(&self, vcs: u8) {
        match vcs {
            0..=1 => prefetch_first::<CACHE_LINE, _>(self),
            _ => prefetch_first::<{ 2 * CACHE_LINE }, _>(self),
        }
    }

    /// The least time from this end to the handling by the far end: the wire's minimum latency.
    pub fn min_latency(params: &LinkParams, egress: Picos, ingress: Picos) -> Picos {
        Picos(params.crossing_ps()) + egress + ingress
    }

    /// Sends a message on virtual channel `vc` if it can go at `at`, now or later; returns when
    /// it leaves. `note` completes what is sent; the time until its arrival is noted in its
    /// stages. (Changing the message first and copying it afterwards would cost more: the copy
    /// would wait for the changes to reach the cache.) Credits ride along with a message that
    /// goes now; one that is sent ahead of its time would delay them.
    ///
    /// # Errors
    /// [`Blocked`] says what it waits for; nothing has changed then.
    #[inline(always)]
    pub fn send(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        message: &Message,
        vc: u8,
        at: SimTime,
        note: impl FnOnce(&mut Message),
    ) -> Result<SimTime, Blocked> {
        self.send_as(ctx, message, message.channel(), vc, at, note)
    }

    /// The same where `note` changes the message into one that travels in `channel`.
    ///
    /// # Errors
    /// As [`LinkPort::send`].
    #[inline(always)]
    pub fn send_as(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        message: &Message,
        channel: Channel,
        vc: u8,
        at: SimTime,
        note: impl FnOnce(&mut Message),
    ) -> Result<SimTime, Blocked> {
        let way = self.book(channel, vc, at, || message.extent(channel))?;
        let credits = self.riding(at == ctx.now());
        let parcel = ctx.place(self.port, way.arrival);
        parcel.credits = credits;
        let sent = parcel.message.insert(*message);
        self.complete(sent, vc, &way);
        note(sent);
        Ok(way.start)
    }

    /// The same for the message that has arrived and goes on, in `channel`: it need not be copied.
    ///
    /// # Errors
    /// As [`LinkPort::send`].
    #[inline(always)]
    pub fn pass_on(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        channel: Channel,
        vc: u8,
        at: SimTime,
        note: impl FnOnce(&mut Message),
    ) -> Result<SimTime, Blocked> {
        let way = self.book(channel, vc, at, || {
            let message = ctx.received().message.as_ref();
            message.map_or(NO_TRAILER, |message| message.extent(channel))
        })?;
        let credits = self.riding(at == ctx.now());
        let parcel = ctx.pass_on(self.port, way.arrival);
        self.go_on(parcel, credits, vc, &way, note);
        Ok(way.start)
    }

    /// The same for a message that was [kept](Ctx::keep) and goes on now. Nothing is kept then.
    ///
    /// # Errors
    /// As [`LinkPort::send`].
    #[inline(always)]
    pub fn send_kept(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        kept: &mut Kept,
        channel: Channel,
        vc: u8,
        note: impl FnOnce(&mut Message),
    ) -> Result<(), Blocked> {
        let way = self.book(channel, vc, ctx.now(), || {
            let message = ctx.kept(kept).message.as_ref();
            message.map_or(NO_TRAILER, |message| message.extent(channel))
        })?;
        let credits = self.riding(true);
        let parcel = ctx.send_kept(std::mem::take(kept), self.port, way.arrival);
        self.go_on(parcel, credits, vc, &way, note);
        Ok(())
    }

    /// The credits that ride along with a message that goes now, or ahead of its time.
    #[inline(always)]
    fn riding(&mut self, now: bool) -> Credits {
        match now {
            true => self.flow.take(self.transmitter.flit()),
            false => Credits::NONE,
        }
    }

    /// Completes what goes on from where it lies.
    #[inline(always)]
    fn go_on(
        &self,
        parcel: &mut Parcel,
        credits: Credits,
        vc: u8,
        way: &Way,
        note: impl FnOnce(&mut Message),
    ) {
        parcel.credits = credits;
        if let Some(sent) = &mut parcel.message {
            self.complete(sent, vc, way);
            note(sent);
        }
    }

    /// Takes a credit and a place on the wire for a message that can go at `at`. `packet` tells what it
    /// is in CXL.io.
    #[inline(always)]
    fn book(
        &mut self,
        channel: Channel,
        vc: u8,
        at: SimTime,
        extent: impl FnOnce() -> Extent,
    ) -> Result<Way, Blocked> {
        let Some(buffer) = self.flow.with_credit(Buffer::of(channel, vc)) else {
            self.flow.stall(channel);
            return Err(Blocked::Credits);
        };
        let sent = match channel.is_mem() {
            true => self.transmitter.send_mem(at, channel, extent),
            false => self.transmitter.send(at, channel, extent),
        };
        let departure = match sent {
            Ok(departure) => departure,
            Err(time) => return Err(Blocked::Until(time)),
        };
        buffer.spend();
        self.flow.count_sent();
        let mut arrival = SimTime(departure.end.0 + self.fixed);
        let held = match channel.is_mem() {
            true => 0,
            false => self.in_order(channel, &mut arrival),
        };
        Ok(Way {
            start: departure.start,
            arrival,
            queue: departure.start.0 - at.0 + held,
            link: (departure.end.0 - departure.start.0) as u32 + self.flight,
        })
    }

    /// Notes its way in a message.
    #[inline(always)]
    fn complete(&self, sent: &mut Message, vc: u8, way: &Way) {
        sent.vc = vc;
        sent.stages.add(self.stage, way.queue);
        sent.stages.link += way.link;
        sent.stages.port += self.ports;
    }

    /// "Snoop pushes GO": a snoop arrives no earlier than the responses that went before it (CXL 3.1,
    /// section 3.2.5.2), also where these lie in the second half of a flit and it in the first.
    /// Returns for how long it is held, in picoseconds.
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

    /// Books a parcel's credits. True when there were any.
    #[inline]
    pub fn receive(&mut self, parcel: &Parcel) -> bool {
        self.take_back(parcel.credits)
    }

    /// Books credits that have come back. True when there were any.
    #[inline]
    pub fn take_back(&mut self, credits: Credits) -> bool {
        if credits.is_empty() {
            return false;
        }
        for (buffer, count) in credits.entries {
            if count == 0 {
                break;
            }
            self.flow.credit(Buffer(buffer), count);
        }
        true
    }

    /// A received message has left its buffer. Its credit waits for a ride, or goes alone when
    /// many wait.
    #[inline(always)]
    pub fn release(&mut self, ctx: &mut Ctx<'_, Parcel>, buffer: Buffer) {
        if self.flow.free(buffer) {
            self.return_alone(ctx, buffer);
        }
    }

    /// Sends back the credits of a buffer, with no message to ride on: in the next flit.
    #[cold]
    fn return_alone(&mut self, ctx: &mut Ctx<'_, Parcel>, buffer: Buffer) {
        let credits = self.flow.take_first(buffer);
        let leaves = self.transmitter.send_credits(ctx.now());
        let at = SimTime(leaves.0 + self.fixed);
        ctx.send(
            self.port,
            at,
            Parcel {
                message: None,
                credits,
            },
        );
    }

    /// For how long the buffer has been starved up to `now`, in picoseconds: a message that begins to wait
    /// keeps it for [`LinkPort::waited`].
    #[inline]
    pub fn starved_ps(&self, now: SimTime, buffer: Buffer) -> u64 {
        let waits = self.waits.as_deref();
        waits.map_or(0, |waits| waits.starved_ps(buffer.0, now.0))
    }

    /// Whether messages wait for credits.
    pub fn is_starved(&self) -> bool {
        self.starving > 0
    }

    /// A message could not go for want of a credit.
    #[inline(never)]
    pub fn starve(&mut self, now: SimTime, buffer: Buffer) {
        let since = self.transmitter.closed_until(now).unwrap_or(now);
        let waits = self.waits.get_or_insert_default();
        self.starving += u8::from(waits.starve(buffer.0, since.0));
    }

    /// Credits may have come at `now`.
    #[inline]
    pub fn feed(&mut self, now: SimTime) {
        if self.starving > 0
            && let Some(waits) = &mut self.waits
        {
            let flow = &self.flow;
            self.starving -= waits.feed(now.0, |buffer| flow.credits(Buffer(buffer)) > 0);
        }
    }

    /// How long, and for what, a message has waited up to `now` that began to at `since`, when its buffer had
    /// been starved for `before`.
    #[inline]
    pub fn waited(&self, now: SimTime, buffer: Buffer, since: SimTime, before: u64) -> Waited {
        let wait = now.0 - since.0;
        let starved = self.starved_ps(now, buffer).saturating_sub(before);
        let credits = starved.min(wait);
        Waited {
            queue: wait - credits,
            credits,
        }
    }

    /// Counts the wait of a message that has gone, if there was one.
    #[inline]
    pub fn count_wait(&mut self, waited: Waited) {
        if waited != Waited::default() {
            self.waits.get_or_insert_default().count(waited);
        }
    }

    /// The stage of a message that waits here for the wire.
    #[inline]
    pub fn stage(&self) -> LongStage {
        self.stage
    }

    /// The waits in front of the transmitter since measurement began; `None` if nothing ever waited.
    pub fn waits(&self) -> Option<&Waits> {
        self.waits.as_deref()
    }

    /// Measurement begins.
    pub fn begin_measurement(&mut self, now: SimTime) {
        self.flow.reset();
        self.transmitter.reset_stats(now);
        if let Some(waits) = &mut self.waits {
            waits.reset();
        }
    }

    /// The link is lost: nothing can be sent, for want of credits, until it is restored. What has
    /// been sent is on its way, and the far end's to lose.
    pub fn fail(&mut self) {
        self.flow.fail();
    }

    /// The link is trained again, for this time (from 1 on): flow control begins anew. `occupied` tells
    /// how many places of each buffer messages still take that came before. The far end knows by
    /// [`Credits::begins`], which arrives behind all that was sent before.
    pub fn restore(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        time: u32,
        occupied: impl Fn(Buffer) -> u16,
    ) {
        self.flow.restore(occupied);
        let mut leaves = self.transmitter.last_end().max(ctx.now());
        let mut credits = Credits::begin(time);
        while !credits.is_empty() {
            self.transmitter.sends_credits_until(leaves);
            let (at, message) = (SimTime(leaves.0 + self.fixed), None);
            ctx.send(self.port, at, Parcel { message, credits });
            credits = self.flow.take_all();
            leaves = SimTime(leaves.0 + self.transmitter.credits_ps());
        }
    }

    /// Credits at hand for a buffer at the far end.
    pub fn credits(&self, buffer: Buffer) -> u16 {
        self.flow.credits(buffer)
    }

    /// Messages sent whose credits have not come back: what waits at the far end or is on its
    /// way.
    #[inline]
    pub fn unreturned(&self) -> u32 {
        self.flow.unreturned()
    }

    /// Credits that wait for a ride, for conservation checks.
    pub fn waiting_returns(&self, buffer: Buffer) -> u16 {
        self.flow.waiting(buffer)
    }

    /// Whether a message of this class has waited for a credit since measurement began.
    pub fn has_stalled(&self, channel: Channel) -> bool {
        self.flow.has_stalled(channel)
    }
}
