//! A Type 3 device: a controller in front of a medium, HDM-H (the host manages coherence; the
//! device responds to every request and ignores metadata).
//!
//! A request passes the controller's pipeline (a constant time) and waits in the receive buffer
//! until the medium accepts it. When the medium is done, the device responds: to reads with
//! `MemData` (S2M DRS), to writes with `Cmp` (S2M NDR). The buffer's credit is returned when the
//! request enters the medium. A context stays allocated until the response leaves. The number of
//! contexts is bounded, so a blocked response path stalls requests all the way back to their
//! requesters. If the medium knows the completion time on acceptance, the response is scheduled on
//! the link immediately, and the request costs the device one event.
//!
//! A request to an address that no decoder of its host maps is denied as soon as a context is free,
//! without access to the medium. A denied read returns `MemData-NXM`; a denied write is dropped and
//! returns `Cmp` (CXL 3.1, section 3.3, *recollection*).
//!
//! The capacity that the device serves, and the shares of hosts, change at times that are known at
//! build time. So does viral (CXL 3.1, section 12.4.2). A device with a persistent medium drops the
//! writes of hosts that are in viral, and returns `Cmp` without access to the medium. Writes that
//! the medium accepted earlier are kept, and reads are served.

use std::collections::VecDeque;
use std::mem::offset_of;

use cxlab_agent::SharedShare;
use cxlab_engine::catalog::Preset;
use cxlab_engine::save_state;
use cxlab_engine::state::StateError;
use cxlab_engine::units::{Dpa, Hpa, Picos, SimTime};
use cxlab_engine::{Ctx, prefetch, prefetch_first};
use cxlab_link::{BufferId, LinkPort, LostMessages, Outbox, Parcel};
use cxlab_memory::{Completion, MemoryBackend, MemoryRequest, Statistic};
use cxlab_protocol::{
    CacheMeta, Channel, DecoderTable, DevLoad, LongStage, MemMeta, Message, Opcode, PortId,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::capacity::{ChangeTimeline, DeviceChange, LineValues};
use crate::media_errors::{MediaErrorParams, MediaErrorStats, MediaErrors};
use crate::qos::{QosConfig, Telemetry};
use crate::speculation::{SpeculativeRead, SpeculativeReads};
use crate::waits::{DeviceWait, DeviceWaits};

/// Named parameters of a device's controller.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum ControllerPreset {
    /// Controller of ESF (Table III): a process time of 40 ns.
    Esf,
}

impl Preset for ControllerPreset {
    fn keys(&self) -> serde_json::Value {
        match self {
            ControllerPreset::Esf => serde_json::json!({ "process_time": "40 ns" }),
        }
    }
}

/// When a device sends the completion of a write.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum WriteCompletion {
    /// When the medium has accepted the write. Every later read returns its data.
    #[default]
    Accepted,
    /// When the medium has finished the write.
    Written,
}

/// User parameters of a device's controller.
// `remote`: the derived code reads and writes all fields; `with_preset` resolves presets.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct DeviceParams {
    /// A named controller, which supplies the default process time. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<ControllerPreset>,
    /// Time of a request and its response in the controller, without port and medium. Default 25
    /// ns: Meta's Vistara takes about 50 ns from its pins and back without the medium (ISCA 2026,
    /// section III-A), of which its port has 25.
    pub process_time: Picos,
    /// Maximum number of requests in the device, from acceptance by the medium until their response
    /// has left. 1 to
    /// 65536. Default 256 (*assumed*).
    #[schemars(range(min = 1, max = 65536))]
    pub contexts: u32,
    /// When a write is complete (`Cmp`). Default when the medium accepts the write: the
    /// specification recommends 40 ns from a write to its `Cmp`, where a read takes 80 (CXL 3.1
    /// table 13-2), so the device does not wait for the medium. A device that manages the coherence
    /// of its memory (`hdm-db`) always completes writes on acceptance.
    pub write_completion: WriteCompletion,
}

cxlab_engine::with_preset!(DeviceParams, ControllerPreset);

impl Default for DeviceParams {
    fn default() -> Self {
        DeviceParams {
            preset: None,
            process_time: Picos::from_nanos(25),
            contexts: 256,
            write_completion: WriteCompletion::default(),
        }
    }
}

/// Counters of a device, from the beginning of measurement except those marked *ever*.
#[derive(Clone, Copy, Default, Serialize, Deserialize, Debug)]
pub struct DeviceStats {
    /// Number of lines read.
    pub reads: u64,
    /// Number of lines written, including dropped writes.
    pub writes: u64,
    /// Reads that the device denied.
    pub denied_reads: u64,
    /// Writes that the device denied.
    pub denied_writes: u64,
    /// Lines read before their request arrived, for `MemSpecRd`.
    pub speculative_reads: u64,
    /// Writes dropped in viral; these also count as `writes`.
    pub dropped_writes: u64,
    /// Requests denied, ever.
    pub denied_ever: u64,
    /// Requests accepted from the link, ever.
    pub accepted: u64,
    /// Responses sent, ever.
    pub answered: u64,
}

impl DeviceStats {
    /// Adds the counters of another window. For those counted *ever*, the larger value is kept.
    pub fn merge(&mut self, other: &DeviceStats) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.denied_reads += other.denied_reads;
        self.denied_writes += other.denied_writes;
        self.dropped_writes += other.dropped_writes;
        self.speculative_reads += other.speculative_reads;
        self.denied_ever = self.denied_ever.max(other.denied_ever);
        self.accepted = self.accepted.max(other.accepted);
        self.answered = self.answered.max(other.answered);
    }
}

/// A request in the medium or in a receive buffer.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Request {
    message: Message,
    /// The port that the request arrived through; the response leaves through it.
    port: u16,
    /// When the request arrived, or when the medium accepted it.
    since: SimTime,
    /// Total time in which the medium had refused requests, at the arrival of
    /// this one, in picoseconds.
    refused: u64,
    /// Whether the response was sent on acceptance, while the medium still works on the request.
    answered: bool,
}

/// A request that the device is about to accept.
#[derive(Clone, Copy)]
struct IncomingRequest<'a> {
    /// The message, if it was buffered; `None` for the message that has just arrived, which
    /// need not be copied.
    waited: Option<&'a Message>,
    hpa: Hpa,
    source: PortId,
    buffer: BufferId,
    write: bool,
    /// Whether the data written or read are poison.
    poison: bool,
    lines: u8,
    port: u16,
    /// When the request arrived.
    since: SimTime,
    /// Total time in which the medium had refused requests at arrival, if the request was buffered.
    refused: u64,
}

impl<'a> IncomingRequest<'a> {
    #[inline(always)]
    fn of(message: &Message, port: u16, since: SimTime) -> IncomingRequest<'a> {
        let channel = message.channel();
        IncomingRequest {
            waited: None,
            hpa: message.hpa,
            source: message.source,
            buffer: BufferId::of(channel, message.vc),
            write: message.writes(),
            poison: false,
            lines: message.lines,
            port,
            since,
            refused: 0,
        }
    }

    /// A request taken from the receive buffer.
    fn waited(request: &'a Request) -> IncomingRequest<'a> {
        IncomingRequest {
            waited: Some(&request.message),
            refused: request.refused,
            poison: request.message.cache.has(CacheMeta::POISON),
            ..IncomingRequest::of(&request.message, request.port, request.since)
        }
    }

    /// The whole message.
    fn message(&self, ctx: &Ctx<'_, Parcel>) -> Message {
        match self.waited.copied().or(ctx.received().message) {
            Some(message) => message,
            None => unreachable!("what is taken has arrived"),
        }
    }
}

/// A port with its queued responses, and the departure times of responses already
/// scheduled on the link.
#[repr(C)]
struct Port {
    link: LinkPort,
    leaving: VecDeque<SimTime>,
    outbox: Outbox,
}

save_state!(Port {
    values: leaving;
    states: link, outbox;
});

/// Everything that a device is built from.
pub struct DeviceConfig {
    /// Parameters of the controller.
    pub params: DeviceParams,
    /// One port for each link, in order.
    pub ports: Vec<LinkPort>,
    /// The medium behind the controller.
    pub backend: Box<dyn MemoryBackend>,
    /// Whether the medium keeps its data without power, so that writes in viral are dropped.
    pub persistent: bool,
    /// Map of each host's addresses to device physical addresses.
    pub decoders: DecoderTable,
    /// Changes while the device runs, in order of time. With changes, the medium must not return
    /// completion times in advance ([`cxlab_memory::DeferredMedium`]).
    pub changes: Vec<DeviceChange>,
    /// Load telemetry, if any; the medium must not return completion times in advance.
    pub qos: Option<QosConfig>,
    /// Lines with media errors, if any, with the run's seed and the device's name.
    pub media_errors: Option<(MediaErrorParams, u64, String)>,
    /// Whether lines hold stand-in values, for checkers; the medium must not return
    /// completion times in advance.
    pub values: bool,
    /// Memory that hosts share with its data, if any; the medium must not return
    /// completion times in advance.
    pub shared: Option<SharedShare>,
}

/// State that few devices need.
#[derive(Default, Serialize, Deserialize)]
struct OptionalState {
    errors: Option<MediaErrors>,
    speculations: SpeculativeReads,
}

/// The Type 3 device component. Fields that every request uses come first.
#[repr(C)]
pub struct MemoryDevice {
    ports: Vec<Port>,
    backend: Box<dyn MemoryBackend>,
    /// Requests in the receive buffers, in order of arrival.
    waiting: VecDeque<Request>,
    /// Requests in a medium that reports completions later, by their number in the medium.
    requests: Vec<Request>,
    /// Free numbers in `requests`.
    free: Vec<u32>,
    controller: u32,
    /// Whether a write is complete when the medium has accepted it.
    posts: bool,
    /// Whether the medium keeps its data without power.
    persistent: bool,
    /// Contexts in use: accepted requests whose responses have not left.
    contexts: u32,
    /// Requests in the medium that need no response: completed writes, and speculative reads.
    posted: u32,
    limit: u32,
    medium_wake: SimTime,
    telemetry: Option<Box<Telemetry>>,
    seldom: Option<Box<OptionalState>>,
    stats: DeviceStats,
    decoders: DecoderTable,
    timeline: ChangeTimeline,
    values: Option<LineValues>,
    waits: DeviceWaits,
    done: Vec<Completion>,
}

save_state!(MemoryDevice {
    values: requests, free, contexts, posted, waiting, medium_wake, stats, telemetry, seldom, waits;
    states: ports, backend, timeline, values;
    built: controller, posts, persistent, decoders, limit, done;
} then catch_up);

/// Token of the wake-up for the medium; ports use their number.
const MEDIUM: u32 = u32::MAX;
/// Number of departed responses of a port that may stay in `leaving` before they are removed.
const FEW: usize = 8;
/// Token of the wake-up for a change of capacity.
const CAPACITY: u32 = u32::MAX - 1;

impl MemoryDevice {
    /// Builds the component.
    pub fn new(mut config: DeviceConfig) -> Self {
        let mut telemetry =
            (config.qos.as_ref()).map(|qos| Box::new(Telemetry::new(qos, config.ports.len())));
        let shares = telemetry.as_deref_mut();
        let timeline = ChangeTimeline::new(config.changes, &mut config.decoders, shares);
        let limit = config.params.contexts;
        let ports = config.ports.into_iter().map(|link| Port {
            link,
            outbox: Outbox::default(),
            leaving: VecDeque::new(),
        });
        MemoryDevice {
            controller: config.params.process_time.0 as u32,
            posts: config.params.write_completion == WriteCompletion::Accepted,
            persistent: config.persistent,
            ports: ports.collect(),
            backend: config.backend,
            decoders: config.decoders,
            timeline,
            telemetry,
            seldom: config.media_errors.map(|(params, seed, name)| {
                Box::new(OptionalState {
                    errors: Some(MediaErrors::new(&params, seed, &name)),
                    ..OptionalState::default()
                })
            }),
            values: LineValues::new(config.values, config.shared),
            requests: Vec::new(),
            free: Vec::new(),
            contexts: 0,
            posted: 0,
            limit,
            waiting: VecDeque::new(),
            medium_wake: SimTime::NEVER,
            done: Vec::with_capacity(16),
            stats: DeviceStats::default(),
            waits: DeviceWaits::default(),
        }
    }

    /// The device's counters.
    pub fn stats(&self) -> DeviceStats {
        self.stats
    }

    /// How long requests waited for the medium, since measurement began.
    pub fn waits(&self) -> &DeviceWaits {
        &self.waits
    }

    /// Number of requests in the device: buffered, in the medium, or waiting to respond.
    pub fn in_flight(&self) -> u64 {
        let leaving: usize = self.ports.iter().map(|port| port.leaving.len()).sum();
        (self.waiting.len() + self.contexts as usize - leaving) as u64
    }

    /// Number of responses with each load since measurement began, if the device has telemetry.
    pub fn told(&self) -> Option<[u64; DevLoad::ALL.len()]> {
        self.telemetry.as_ref().map(|telemetry| telemetry.told)
    }

    /// Poison read and written since measurement began, if the device can have media errors.
    pub fn media_errors(&self) -> Option<MediaErrorStats> {
        let errors = self.seldom.as_ref()?.errors.as_ref();
        errors.map(|errors| errors.stats)
    }

    /// The medium's own statistics, up to `now`.
    pub fn medium_statistics(&self, now: SimTime) -> Vec<Statistic> {
        let mut list = Vec::new();
        self.backend.statistics(now, &mut list);
        list
    }

    /// One of the device's ports, for link statistics.
    pub fn port_mut(&mut self, port: u16) -> &mut LinkPort {
        &mut self.ports[port as usize].link
    }

    /// Resets the statistics at the beginning of measurement.
    pub fn begin_measurement(&mut self, now: SimTime) {
        self.backend.begin_measurement(now);
        self.stats.reads = 0;
        self.stats.writes = 0;
        self.stats.denied_reads = 0;
        self.stats.denied_writes = 0;
        self.stats.dropped_writes = 0;
        self.stats.speculative_reads = 0;
        self.waits.reset();
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.begin_measurement();
        }
        if let Some(seldom) = &mut self.seldom
            && let Some(errors) = &mut seldom.errors
        {
            errors.stats = MediaErrorStats::default();
        }
        for port in &mut self.ports {
            port.link.begin_measurement(now);
        }
    }

    /// Applies a line access to the medium's state without simulated time, in
    /// a sampled run ([`MemoryBackend::warm`]).
    #[inline]
    pub fn warm(&mut self, source: PortId, hpa: Hpa, write: bool) {
        if let Some(dpa) = self.decoders.decode(source, hpa) {
            self.backend.warm(MemoryRequest {
                id: 0,
                dpa,
                lines: 1,
                write,
            });
        }
    }

    /// Starts the device when the run begins.
    pub fn start(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.timeline.begin(ctx.now());
        self.await_change(ctx);
    }

    fn await_change(&self, ctx: &mut Ctx<'_, Parcel>) {
        if let Some(next) = self.timeline.next() {
            ctx.wake_at(next, CAPACITY);
        }
    }

    /// Repeats the changes of capacity that were made before the restored state was saved.
    fn catch_up(&mut self) -> Result<(), StateError> {
        self.timeline.catch_up(&mut self.decoders)
    }

    /// Makes the changes of capacity that are due.
    #[cold]
    fn change_capacity(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let (now, values) = (ctx.now(), self.values.as_mut());
        let telemetry = self.telemetry.as_deref_mut();
        self.timeline
            .apply(now, &mut self.decoders, values, telemetry);
        self.await_change(ctx);
        // A buffered request may no longer need the medium.
        self.admit_waiting(ctx);
    }

    /// Prefetches what the next parcel from a port will access.
    #[inline]
    pub fn fetch(&self, port: u16) {
        if let Some(port) = self.ports.get(port as usize) {
            port.link.fetch(1);
            prefetch_first::<{ size_of::<Port>() - offset_of!(Port, leaving) }, _>(&port.leaving);
        }
        prefetch_first::<{ offset_of!(Self, timeline) }, _>(self);
        prefetch(&*self.backend);
    }

    /// Second prefetch stage, shortly before the parcel arrives: the medium's data.
    #[inline]
    pub fn fetch_next(&self) {
        self.backend.fetch();
    }

    /// Handles a parcel that has arrived from a link.
    #[inline(always)]
    pub fn arrive(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16) {
        let now = ctx.now();
        let Parcel { credits, message } = ctx.received();
        let (credits, message) = (*credits, message.as_ref());
        let request = message.map(|message| IncomingRequest::of(message, port, now));
        let credited = self.ports[port as usize].link.take_back(credits);
        let ahead = message.is_some_and(|message| message.opcode == Opcode::MemSpecRd);
        if let (Some(request), true) = (request, ahead) {
            self.speculate(ctx, request);
        } else if let Some(request) = request {
            self.stats.accepted += 1;
            if let Some(telemetry) = &mut self.telemetry {
                telemetry.received(request.source);
            }
            if self.waiting.is_empty() && self.admit(ctx, request) {
                self.wake_medium(ctx);
            } else {
                self.waiting.push_back(Request {
                    message: request.message(ctx),
                    port,
                    since: now,
                    refused: self.waits.refused_ps(now),
                    answered: false,
                });
                self.admit_waiting(ctx);
            }
        }
        if credited && !self.ports[port as usize].outbox.is_empty() {
            self.pump(ctx, port, false);
        }
        self.note_backpressure(now);
    }

    /// Tells telemetry which ports have responses that wait for credits, after any change of that.
    #[inline]
    fn note_backpressure(&mut self, now: SimTime) {
        if let Some(telemetry) = &mut self.telemetry {
            let ports = self.ports.iter().map(|port| (&port.link, &port.outbox));
            telemetry.look_at(now, ports);
        }
    }

    /// Handles a wake-up for the medium, for a change of capacity, or for a port.
    #[inline(always)]
    pub fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        if token != MEDIUM {
            if token == CAPACITY {
                return self.change_capacity(ctx);
            }
            self.pump(ctx, token as u16, true);
            self.note_backpressure(ctx.now());
            return;
        }
        if ctx.now() == self.medium_wake {
            self.medium_wake = SimTime::NEVER;
        }
        let mut done = std::mem::take(&mut self.done);
        self.backend.advance(ctx.now(), &mut done);
        for completion in done.drain(..) {
            let request = self.requests[completion.id as usize];
            self.free.push(completion.id);
            if request.answered {
                self.posted -= 1;
                if let Some(seldom) = &mut self.seldom {
                    seldom.speculations.come(completion.id, ctx.now());
                }
                continue;
            }
            let now = ctx.now();
            let media = (now - request.since).0;
            let waited = DeviceWait::default();
            self.answer(ctx, IncomingRequest::waited(&request), waited, media, now);
        }
        self.done = done;
        self.admit_waiting(ctx);
        self.note_backpressure(ctx.now());
    }

    /// Discards the responses queued for a port, and returns their counts.
    pub fn discard(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16) -> LostMessages {
        let mut lost = LostMessages::default();
        while !self.ports[port as usize].outbox.is_empty() {
            lost += self.lose_responses(port);
            // A request that waited for a context may complete at once, and its
            // response is lost too.
            self.admit_waiting(ctx);
        }
        lost
    }

    fn lose_responses(&mut self, port: u16) -> LostMessages {
        let mut lost = LostMessages::default();
        let outbox = &mut self.ports[port as usize].outbox;
        outbox.discard(|message| lost.count(message));
        self.contexts -= lost.messages as u32;
        lost
    }

    /// Calls `each` with the buffer of each request that arrived through `port`
    /// and is still buffered.
    pub fn buffered(&self, port: u16, mut each: impl FnMut(BufferId)) {
        let waiting = self.waiting.iter().filter(|request| request.port == port);
        waiting.for_each(|one| each(BufferId::of(one.message.channel(), one.message.vc)));
    }

    /// Removes the device from the system, and returns the counts of what was inside.
    pub fn remove(&mut self) -> LostMessages {
        let mut lost = LostMessages::default();
        for port in 0..self.ports.len() {
            lost += self.lose_responses(port as u16);
        }
        lost += LostMessages::requests(self.in_flight());
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.removed();
        }
        lost
    }

    /// Moves requests from the receive buffers into the medium, as far as it accepts them.
    fn admit_waiting(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        while let Some(request) = self.waiting.front().copied() {
            if !self.admit(ctx, IncomingRequest::waited(&request)) {
                break;
            }
            self.waiting.pop_front();
        }
        self.wake_medium(ctx);
    }

    /// Moves a request into the medium, and returns whether that was possible. Denied and dropped
    /// requests also leave the buffer.
    #[inline]
    fn admit(&mut self, ctx: &mut Ctx<'_, Parcel>, mut incoming: IncomingRequest<'_>) -> bool {
        let now = ctx.now();
        let write = incoming.write;
        if !self.has_context(ctx) {
            self.waits.end_refusal(now);
            return false;
        }
        let decoded = self.decoders.decode(incoming.source, incoming.hpa);
        let leaving = || self.timeline.decode_leaving(&incoming.message(ctx));
        let Some(dpa) = decoded.or_else(leaving) else {
            self.deny(ctx, incoming);
            return true;
        };
        if write && self.persistent && self.timeline.is_viral(incoming.source) {
            self.drop_write(ctx, incoming);
            return true;
        }
        let ahead = match &self.seldom {
            Some(seldom) if !write => seldom.speculations.has(dpa),
            _ => false,
        };
        if !ahead && !self.backend.can_accept(now, write) {
            self.waits.refuse(now);
            return false;
        }
        let waited = self.end_wait(now, incoming);
        let link = &mut self.ports[incoming.port as usize].link;
        link.release(ctx, incoming.buffer);
        if write {
            self.stats.writes += 1;
        } else {
            self.stats.reads += 1;
        }
        self.contexts += 1;
        if self.seldom.is_some() {
            match self.take_seldom(ctx, incoming, dpa, waited) {
                Some(poison) => incoming.poison = poison,
                None => return true,
            }
        }
        let id = self.next_id();
        let request = MemoryRequest {
            id,
            dpa,
            lines: 1,
            write,
        };
        let posted = write && self.posts;
        if posted {
            self.backend.defer();
        }
        match self.backend.enqueue(now, request) {
            Some(at) => self.answer(ctx, incoming, waited, (at - now).0, at),
            None => {
                self.remember(ctx, id, dpa, incoming, waited, posted);
                if posted {
                    self.posted += 1;
                    let request = self.requests[id as usize];
                    self.answer(
                        ctx,
                        IncomingRequest::waited(&request),
                        DeviceWait::default(),
                        0,
                        now,
                    );
                }
            }
        }
        true
    }

    /// Handles `MemSpecRd`: the medium reads the line if it is free.
    #[cold]
    #[inline(never)]
    fn speculate(&mut self, ctx: &mut Ctx<'_, Parcel>, incoming: IncomingRequest<'_>) {
        let now = ctx.now();
        let link = &mut self.ports[incoming.port as usize].link;
        link.release(ctx, incoming.buffer);
        let Some(dpa) = self.decoders.decode(incoming.source, incoming.hpa) else {
            return;
        };
        // Buffered requests have priority over speculative reads.
        let busy = !self.waiting.is_empty() || !self.backend.can_accept(now, false);
        let speculations = &mut self.seldom.get_or_insert_default().speculations;
        if busy || speculations.has(dpa) {
            return;
        }
        self.stats.speculative_reads += 1;
        let id = self.next_id();
        let request = MemoryRequest {
            id,
            dpa,
            lines: 1,
            write: false,
        };
        let ahead = match self.backend.enqueue(now, request) {
            Some(at) => SpeculativeRead::At(at),
            None => {
                let request = Request {
                    message: incoming.message(ctx),
                    port: incoming.port,
                    since: now,
                    refused: 0,
                    answered: true,
                };
                self.keep(id, request);
                self.posted += 1;
                self.wake_medium(ctx);
                SpeculativeRead::InMedium(id)
            }
        };
        let speculations = &mut self.seldom.get_or_insert_default().speculations;
        speculations.begin(dpa, ahead);
    }

    /// Serves a read whose line was read speculatively, or is being read.
    fn claim(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        ahead: SpeculativeRead,
        dpa: Dpa,
        incoming: IncomingRequest<'_>,
        waited: DeviceWait,
    ) {
        let now = ctx.now();
        match ahead {
            SpeculativeRead::At(at) => {
                let (id, ready) = (self.next_id(), at.max(now));
                self.remember(ctx, id, dpa, incoming, waited, false);
                self.free.push(id);
                let request = self.requests[id as usize];
                let (request, noted) = (IncomingRequest::waited(&request), DeviceWait::default());
                self.answer(ctx, request, noted, (ready - now).0, ready);
            }
            SpeculativeRead::InMedium(id) => {
                // From now on the medium's completion belongs to this request.
                self.free.push(id);
                self.posted -= 1;
                self.remember(ctx, id, dpa, incoming, waited, false);
            }
        }
    }

    /// Handles the medium's acceptance of a request on a device with media errors or speculative
    /// reads. Returns whether the data written or read are poison; `None` if the line was read
    /// speculatively, so that the request does not need the medium.
    #[cold]
    #[inline(never)]
    fn take_seldom(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        incoming: IncomingRequest<'_>,
        dpa: Dpa,
        waited: DeviceWait,
    ) -> Option<bool> {
        let seldom = self.seldom.as_mut()?;
        let poison = match (&mut seldom.errors, incoming.write) {
            (None, _) => false,
            (Some(errors), true) => errors.take_write(dpa, &incoming.message(ctx)),
            (Some(errors), false) => errors.read(dpa),
        };
        let ahead = seldom.speculations.take(dpa);
        let Some(ahead) = ahead.filter(|_| !incoming.write) else {
            return Some(poison);
        };
        let incoming = IncomingRequest { poison, ..incoming };
        self.claim(ctx, ahead, dpa, incoming, waited);
        None
    }

    /// Ends a request's wait and returns its length: zero for a request that has just arrived,
    /// since no other is queued.
    #[inline]
    fn end_wait(&mut self, now: SimTime, incoming: IncomingRequest<'_>) -> DeviceWait {
        if incoming.waited.is_none() {
            return DeviceWait::default();
        }
        self.waits.end_refusal(now);
        let waited = self.waits.waited(now, incoming.since, incoming.refused);
        self.waits.count(waited);
        waited
    }

    /// Denies a request whose address no decoder of its host maps.
    #[cold]
    #[inline(never)]
    fn deny(&mut self, ctx: &mut Ctx<'_, Parcel>, incoming: IncomingRequest<'_>) {
        let waited = self.end_wait(ctx.now(), incoming);
        let link = &mut self.ports[incoming.port as usize].link;
        link.release(ctx, incoming.buffer);
        self.stats.denied_ever += 1;
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.denied(incoming.source);
        }
        let opcode = if incoming.write {
            self.stats.denied_writes += 1;
            Opcode::Cmp
        } else {
            self.stats.denied_reads += 1;
            Opcode::MemDataNxm
        };
        self.contexts += 1;
        let change = |answer: &mut Message| {
            answer.opcode = opcode;
            answer.lines = Message::DENIED;
            waited.note(answer);
        };
        let now = ctx.now();
        self.respond(ctx, incoming, opcode.channel(), now, change);
    }

    /// Drops a write of a host in viral, and completes it (CXL 3.1, section 12.4.2: "drop writes to
    /// the persistent HDM ranges", "always return a Completion response").
    #[cold]
    #[inline(never)]
    fn drop_write(&mut self, ctx: &mut Ctx<'_, Parcel>, incoming: IncomingRequest<'_>) {
        let now = ctx.now();
        let waited = self.end_wait(now, incoming);
        let link = &mut self.ports[incoming.port as usize].link;
        link.release(ctx, incoming.buffer);
        self.stats.writes += 1;
        self.stats.dropped_writes += 1;
        self.contexts += 1;
        self.answer(ctx, incoming, waited, 0, now);
    }

    /// Stores a request until the medium is done with it.
    fn remember(
        &mut self,
        ctx: &Ctx<'_, Parcel>,
        id: u32,
        dpa: Dpa,
        incoming: IncomingRequest<'_>,
        waited: DeviceWait,
        answered: bool,
    ) {
        let mut request = Request {
            message: incoming.message(ctx),
            port: incoming.port,
            since: ctx.now(),
            refused: 0,
            answered,
        };
        waited.note(&mut request.message);
        if incoming.poison {
            request.message.cache = request.message.cache.with(CacheMeta::POISON, true);
        }
        if let Some(values) = &mut self.values {
            values.access(dpa, &mut request.message);
        }
        self.keep(id, request);
    }

    /// The number that the next request in the medium gets.
    #[inline]
    fn next_id(&self) -> u32 {
        let free = self.free.last().copied();
        free.unwrap_or(self.requests.len() as u32)
    }

    /// Stores a request under the number of `next_id`.
    #[inline]
    fn keep(&mut self, id: u32, request: Request) {
        if self.free.pop().is_some() {
            self.requests[id as usize] = request;
        } else {
            self.requests.push(request);
        }
    }

    /// Whether a context is free. If only responses that have not yet departed occupy the contexts,
    /// the device wakes when the first of them has left.
    #[inline]
    fn has_context(&mut self, ctx: &mut Ctx<'_, Parcel>) -> bool {
        let mut first = SimTime::NEVER;
        let room = self.contexts < self.limit;
        for port in &mut self.ports {
            // Departed responses are removed in batches, because the branch for a single one cannot
            // be predicted. The batches are small, so that the list stays short and cached.
            if room && port.leaving.len() < FEW {
                continue;
            }
            while let Some(leaves) = port.leaving.front().copied() {
                if leaves > ctx.now() {
                    first = first.min(leaves);
                    break;
                }
                port.leaving.pop_front();
                self.contexts -= 1;
            }
        }
        if self.contexts < self.limit {
            return true;
        }
        self.wake_at(ctx, first);
        false
    }

    fn wake_medium(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        if let Some(at) = self.backend.next_event() {
            self.wake_at(ctx, at);
        }
    }

    #[inline]
    fn wake_at(&mut self, ctx: &mut Ctx<'_, Parcel>, at: SimTime) {
        // A medium that has not been advanced for a while may have work that is due now.
        let at = at.max(ctx.now());
        if at < self.medium_wake {
            self.medium_wake = at;
            ctx.wake_at(at, MEDIUM);
        }
    }

    /// Sends the response to a request that the medium finishes at `ready` (now or later). The
    /// request waited for `waited` before the medium, and took `media` picoseconds in it.
    #[inline]
    fn answer(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        request: IncomingRequest<'_>,
        waited: DeviceWait,
        media: u64,
        ready: SimTime,
    ) {
        let opcode = if request.write {
            Opcode::Cmp
        } else {
            Opcode::MemData
        };
        let inside = self.contexts + self.posted + self.waiting.len() as u32;
        let lines = match &mut self.telemetry {
            None => request.lines,
            Some(telemetry) => telemetry
                .answer(ready, request.source, request.port, inside)
                .lines(),
        };
        let change = |answer: &mut Message| {
            answer.opcode = opcode;
            answer.lines = lines;
            waited.note(answer);
            answer.stages.add(LongStage::Media, media);
        };
        if request.poison {
            return self.respond_poison(ctx, request, waited, media, lines, ready);
        }
        self.respond(ctx, request, opcode.channel(), ready, change);
    }

    /// [`Self::answer`] for a request whose data are poison.
    #[cold]
    #[inline(never)]
    fn respond_poison(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        request: IncomingRequest<'_>,
        waited: DeviceWait,
        media: u64,
        lines: u8,
        ready: SimTime,
    ) {
        let opcode = match request.write {
            true => Opcode::Cmp,
            false => Opcode::MemData,
        };
        let change = |answer: &mut Message| {
            answer.opcode = opcode;
            answer.lines = lines;
            answer.cache = CacheMeta::NONE.with(CacheMeta::POISON, !request.write);
            waited.note(answer);
            answer.stages.add(LongStage::Media, media);
        };
        self.respond(ctx, request, opcode.channel(), ready, change);
    }

    /// Sends the response that `change` makes of a request, in the class `channel`.
    ///
    /// The device stores no metadata, so MetaField is No-Op whatever the request had (CXL 3.1,
    /// tables 3-36, 3-49 and 3-52).
    #[inline(always)]
    fn respond(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        request: IncomingRequest<'_>,
        channel: Channel,
        ready: SimTime,
        change: impl Fn(&mut Message),
    ) {
        let controller = self.controller;
        let turn = |message: &mut Message| {
            std::mem::swap(&mut message.source, &mut message.destination);
            message.vc = 0;
            message.hops = 0;
            message.meta = MemMeta::NONE;
            message.stages.device += controller;
            change(message);
        };
        let now = ctx.now();
        let token = u32::from(request.port);
        let port = &mut self.ports[request.port as usize];
        let sent = sent(now, &mut port.leaving, &mut self.contexts, &mut self.stats);
        port.outbox.offer_response(
            ctx,
            &mut port.link,
            token,
            request.waited,
            channel,
            ready,
            turn,
            sent,
        );
    }

    /// Sends queued responses as far as link and credits allow.
    fn pump(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u16, woken: bool) {
        let full = self.contexts == self.limit;
        let now = ctx.now();
        let port = &mut self.ports[number as usize];
        let mut sent = sent(now, &mut port.leaving, &mut self.contexts, &mut self.stats);
        let sent = move |_: &Message, leaves| sent(leaves);
        let token = u32::from(number);
        if woken {
            port.outbox.wake(ctx, &mut port.link, token, sent);
        } else {
            port.outbox.pump(ctx, &mut port.link, token, sent);
        }
        if full && !self.waiting.is_empty() {
            self.admit_waiting(ctx);
        }
    }
}

/// Bookkeeping of a sent response: its context becomes free when the response leaves.
#[inline]
fn sent<'a>(
    now: SimTime,
    leaving: &'a mut VecDeque<SimTime>,
    contexts: &'a mut u32,
    stats: &'a mut DeviceStats,
) -> impl FnMut(SimTime) + 'a {
    move |leaves| {
        stats.answered += 1;
        if leaves > now {
            leaving.push_back(leaves);
        } else {
            *contexts -= 1;
        }
    }
}
