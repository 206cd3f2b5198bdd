//! A Type 3 device: a controller in front of a medium, HDM-H (the host manages coherence; the
//! device responds to every request and ignores metadata).
//!
//! A request passes the controller's pipeline (a constant time) and waits in the receive buffer until the medium
//! accepts it. When the medium is done, the device responds: to reads with `MemData` (S2M DRS), to writes with `Cmp`
//! (S2M NDR). The buffer's credit is returned when the request enters the medium. A context stays allocated until the
//! response leaves. The number of contexts is bounded, so a blocked response path stalls requests all the way back to
//! their requesters. If the medium knows the completion time on acceptance, the response is scheduled on the link
//! immediately, and the request costs the device one event.
//!
//! A request to an address that no decoder of its host maps is denied as soon as a context is free,
//! without access to the medium. A denied read returns `MemData-NXM`; a denied write is dropped and
//! returns `Cmp` (CXL 3.1, section 3.3, *recollection*).
//!
//! The capacity that the device serves, and the shares of hosts, change at times that are known at build time. So does
//! viral (CXL 3.1, section 12.4.2). A device with a persistent medium drops the writes of hosts that are in viral, and
//! returns `Cmp` without access to the medium. Writes that the medium accepted earlier are kept, and reads are served.

mod admission;
mod responses;

use std::collections::VecDeque;
use std::mem::offset_of;

use cxlab_agent::DeviceSharedMemory;
use cxlab_cache::{Completion, MemoryBackend, Statistic};
use cxlab_engine::save_state;
use cxlab_engine::state::StateError;
use cxlab_engine::units::{Hpa, SimTime};
use cxlab_engine::{Ctx, prefetch, prefetch_first};
use cxlab_link::{BufferId, LinkPort, LostMessages, Outbox, Parcel};
use cxlab_protocol::{DecoderTable, DevLoad, Message, Opcode, PortId};
use serde::{Deserialize, Serialize};

use admission::IncomingRequest;

use crate::capacity::{ChangeTimeline, DeviceChange, LineValues};
use crate::controller::{DeviceParams, DeviceStats, WriteCompletion, line_request};
use crate::media_errors::{MediaErrorParams, MediaErrorStats, MediaErrors};
use crate::qos::{QosConfig, Telemetry};
use crate::speculation::SpeculativeReads;
use crate::waits::{DeviceWait, DeviceWaits};

/// A request in the medium or in a receive buffer.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Request {
    message: Message,
    /// The port that the request arrived through; the response leaves through it.
    port: u16,
    /// When the request arrived; of a request in the medium, when that accepted it.
    since: SimTime,
    /// Total time in which the medium had refused requests, at the arrival of this one, in picoseconds.
    refused_ps: u64,
    /// Whether the response was sent on acceptance, while the medium still works on the request.
    answered: bool,
}

/// A port with its queued responses, and the departure times of responses already scheduled on the link.
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
    /// completion times in advance (`DeferredMedium` of `cxlab-memory`).
    pub changes: Vec<DeviceChange>,
    /// Load telemetry, if any; the medium must not return completion times in advance.
    pub qos: Option<QosConfig>,
    /// Lines with media errors, if any, with the run's seed and the device's name.
    pub media_errors: Option<(MediaErrorParams, u64, String)>,
    /// Whether lines hold stand-in values, for checkers; the medium must not return completion times in advance.
    pub values: bool,
    /// Memory that hosts share with its data, if any; the medium must not return completion times in advance.
    pub shared: Option<DeviceSharedMemory>,
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
    /// Time of a request and its response in the controller, in picoseconds.
    process_ps: u32,
    /// Whether a write is complete when the medium has accepted it.
    completes_writes_on_acceptance: bool,
    /// Whether the medium keeps its data without power.
    persistent: bool,
    /// Contexts in use: accepted requests whose responses have not left.
    contexts: u32,
    /// Requests in the medium that need no response: completed writes, and speculative reads.
    posted: u32,
    /// Number of contexts.
    max_contexts: u32,
    /// Time of the earliest wake-up that was requested for the medium, or `SimTime::NEVER`.
    medium_wake: SimTime,
    telemetry: Option<Box<Telemetry>>,
    optional: Option<Box<OptionalState>>,
    stats: DeviceStats,
    decoders: DecoderTable,
    timeline: ChangeTimeline,
    values: Option<LineValues>,
    waits: DeviceWaits,
    done: Vec<Completion>,
}

save_state!(MemoryDevice {
    values: requests, free, contexts, posted, waiting, medium_wake, stats, telemetry, optional, waits;
    states: ports, backend, timeline, values;
    built: process_ps, completes_writes_on_acceptance, persistent, decoders, max_contexts, done;
} then catch_up);

/// Token of the wake-up for the medium; ports use their number.
const MEDIUM: u32 = u32::MAX;
/// Token of the wake-up for a change of capacity.
const CAPACITY: u32 = u32::MAX - 1;
/// Number of departed responses of a port that may stay in `leaving` before they are removed (*assumed*).
const MAX_DEPARTED: usize = 8;

impl MemoryDevice {
    /// Builds the component.
    pub fn new(mut config: DeviceConfig) -> Self {
        let mut telemetry =
            (config.qos.as_ref()).map(|qos| Box::new(Telemetry::new(qos, config.ports.len())));
        let shares = telemetry.as_deref_mut();
        let timeline = ChangeTimeline::new(config.changes, &mut config.decoders, shares);
        let ports = config.ports.into_iter().map(|link| Port {
            link,
            outbox: Outbox::default(),
            leaving: VecDeque::new(),
        });
        MemoryDevice {
            process_ps: config.params.process_time.0 as u32,
            completes_writes_on_acceptance: config.params.write_completion
                == WriteCompletion::Accepted,
            persistent: config.persistent,
            ports: ports.collect(),
            backend: config.backend,
            decoders: config.decoders,
            timeline,
            telemetry,
            optional: config.media_errors.map(|(params, seed, name)| {
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
            max_contexts: config.params.contexts,
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
    pub fn reported_loads(&self) -> Option<[u64; DevLoad::ALL.len()]> {
        self.telemetry.as_ref().map(|telemetry| telemetry.reported)
    }

    /// Poison read and written since measurement began, if the device can have media errors.
    pub fn media_errors(&self) -> Option<MediaErrorStats> {
        let errors = self.optional.as_ref()?.errors.as_ref();
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
        if let Some(optional) = &mut self.optional
            && let Some(errors) = &mut optional.errors
        {
            errors.stats = MediaErrorStats::default();
        }
        for port in &mut self.ports {
            port.link.begin_measurement(now);
        }
    }

    /// Applies a line access to the medium's state without simulated time, in a sampled run ([`MemoryBackend::warm`]).
    #[inline]
    pub fn warm(&mut self, source: PortId, hpa: Hpa, write: bool) {
        if let Some(dpa) = self.decoders.decode(source, hpa) {
            self.backend.warm(line_request(0, dpa, write));
        }
    }

    /// Starts the device when the run begins.
    pub fn start(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.timeline.begin(ctx.now());
        self.await_change(ctx);
    }

    /// Requests a wake-up at the next change of capacity, if there is one.
    fn await_change(&self, ctx: &mut Ctx<'_, Parcel>) {
        if let Some(next) = self.timeline.next() {
            ctx.wake_at(next, CAPACITY);
        }
    }

    /// Repeats the changes of capacity that were made before the restored state was saved.
    fn catch_up(&mut self) -> Result<(), StateError> {
        self.timeline.catch_up(&mut self.decoders)
    }

    /// Applies the changes of capacity that are due, and admits requests that waited for them.
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
    pub fn prefetch(&self, port: u16) {
        if let Some(port) = self.ports.get(port as usize) {
            port.link.prefetch(1);
            prefetch_first::<{ size_of::<Port>() - offset_of!(Port, leaving) }, _>(&port.leaving);
        }
        prefetch_first::<{ offset_of!(Self, timeline) }, _>(self);
        prefetch(&*self.backend);
    }

    /// Second prefetch stage, shortly before the parcel arrives: the medium's data.
    #[inline]
    pub fn prefetch_next(&self) {
        self.backend.prefetch();
    }

    /// Handles a parcel that has arrived from a link.
    #[inline(always)]
    pub fn arrive(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16) {
        let now = ctx.now();
        let Parcel { credits, message } = ctx.received();
        let (credits, message) = (*credits, message.as_ref());
        let request = message.map(|message| IncomingRequest::of(message, port, now));
        let credited = self.ports[port as usize].link.take_back(credits);
        let is_speculative = message.is_some_and(|message| message.opcode == Opcode::MemSpecRd);
        if let (Some(request), true) = (request, is_speculative) {
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
                    refused_ps: self.waits.refused_ps(now),
                    answered: false,
                });
                self.admit_waiting(ctx);
            }
        }
        if credited && !self.ports[port as usize].outbox.is_empty() {
            self.pump(ctx, port, false);
        }
        self.check_backpressure(now);
    }

    /// Reports to telemetry which ports have responses that wait for credits, after any change of that.
    #[inline]
    fn check_backpressure(&mut self, now: SimTime) {
        if let Some(telemetry) = &mut self.telemetry {
            let ports = self.ports.iter().map(|port| (&port.link, &port.outbox));
            telemetry.check_backpressure(now, ports);
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
            self.check_backpressure(ctx.now());
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
                if let Some(optional) = &mut self.optional {
                    optional.speculations.complete(completion.id, ctx.now());
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
        self.check_backpressure(ctx.now());
    }

    /// Discards the responses queued for a port, and returns their counts.
    pub fn discard(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16) -> LostMessages {
        let mut lost = LostMessages::default();
        while !self.ports[port as usize].outbox.is_empty() {
            lost += self.lose_responses(port);
            // A request that waited for a context may complete at once, and its response is lost too.
            self.admit_waiting(ctx);
        }
        lost
    }

    /// Discards the responses in a port's outbox, frees their contexts and returns their counts.
    fn lose_responses(&mut self, port: u16) -> LostMessages {
        let mut lost = LostMessages::default();
        let outbox = &mut self.ports[port as usize].outbox;
        outbox.discard(|message| lost.count(message));
        self.contexts -= lost.messages as u32;
        lost
    }

    /// Calls `each` with the buffer of each request that arrived through `port` and is still buffered.
    pub fn buffered(&self, port: u16, mut each: impl FnMut(BufferId)) {
        let requests = self.waiting.iter().filter(|request| request.port == port);
        let messages = requests.map(|request| &request.message);
        messages.for_each(|message| each(BufferId::of(message.channel(), message.vc)));
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

    fn wake_medium(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        if let Some(event) = self.backend.next_event() {
            self.wake_at(ctx, event);
        }
    }

    #[inline]
    fn wake_at(&mut self, ctx: &mut Ctx<'_, Parcel>, time: SimTime) {
        // A medium that has not been advanced for a while may have work that is due now.
        let time = time.max(ctx.now());
        if time < self.medium_wake {
            self.medium_wake = time;
            ctx.wake_at(time, MEDIUM);
        }
    }
}
