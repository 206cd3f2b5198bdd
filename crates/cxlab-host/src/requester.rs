//! A requester: takes operations from a source, sends them as CXL.mem requests, and accounts for
//! every picosecond of each.
//!
//! At most `outstanding` requests are in flight. A request that the link cannot accept waits in a bounded
//! queue. While that queue is full nothing is issued, so backpressure reaches the source. The processing
//! time is a pipeline in front of the link: it is constant, and no request overtakes another in it. It is
//! therefore part of the wire's delay and costs no event.

use std::mem::offset_of;
use std::sync::Arc;

use cxlab_agent::{
    AddressMap, CACHE, Failure, FailureHandling, RequestAgent, RequestLedger, RequestRow,
    RequesterStats, RootPorts, STAGE_NAMES, StageTimes, request_agent_fields, stages_of,
};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::units::{BytesPerSec, Hpa, Picos, SimTime};
use cxlab_engine::{Ctx, prefetch, prefetch_first};
use cxlab_link::{LinkPort, Parcel};
use cxlab_protocol::{CacheMeta, DevLoad, Message, Opcode, PortId};
use cxlab_workload::{OpKind, OpSource};
use serde::{Deserialize, Serialize};

mod failures;
mod inlet;
mod multi_line;
mod overfetch;
mod sampled;

use crate::cache::PrivateCache;
use crate::issuer::{ISSUE, Issuer};
use crate::params::{PartialWrite, RequesterParams};
use crate::throttle::{Throttle, ThrottleStats};
use multi_line::MultiLineOp;
use overfetch::Overfetch;
pub use sampled::{WarmAccess, WarmBuffer};

/// Configuration of a plain or a caching requester.
pub struct RequesterConfig {
    /// Later steps of the requester's throttle, each with its start after the workloads begin, in order of time.
    pub steps: Vec<(Picos, BytesPerSec)>,
    /// Limits, times and cache of the requester.
    pub params: RequesterParams,
    /// Number of the requester among all requesters.
    pub number: u16,
    /// Edge port of the requester.
    pub port_id: PortId,
    /// Links of the requester, one for each root port.
    pub ports: Vec<LinkPort>,
    /// The root port towards each edge port; empty when there is one root port.
    pub port_to: Vec<u16>,
    /// Edge port of the first device; devices are numbered from there.
    pub first_device: u16,
    /// Map from addresses to the devices that own them.
    pub map: Arc<AddressMap>,
    /// Source of the operations.
    pub source: Box<dyn OpSource>,
    /// Random stream of the source.
    pub rng: StreamRng,
    /// Most operations to take from the source.
    pub limit: Option<u64>,
    /// Whether to keep a row for each completed request.
    pub log: bool,
    /// Whether a plain requester's writes are partial, if it has no cache.
    pub partial: bool,
    /// Whether stores of a plain requester draw values, for checkers.
    pub values: bool,
    /// When a plain requester's workload begins, after the start of the run.
    pub joins_after: Picos,
    /// When the requester stops issuing, after the start of the run.
    pub leaves_after: Option<Picos>,
}

/// A request in flight, and the place of its tag.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct RequestSlot {
    hpa: Hpa,
    /// When the request was issued, in picoseconds.
    issued_ps: u64,
    /// Number of the request among those of the requester.
    id: u64,
    write: bool,
    kind: RequestSlotKind,
    /// A partial write has read its line, and writes the merged line.
    merged: bool,
    /// Number of the operation with several lines that the request belongs to, from 1; 0 for none.
    multi_line: u32,
}

/// The values that stores write: the base of the requester, equal for every sixteenth, with the number of the request
/// in the lower bits.
#[derive(Clone, Copy)]
struct StoredValues {
    base: u16,
    /// The bits of a value that are stored: 0 without checkers.
    mask: u16,
}

impl RequestSlotKind {
    /// Whether the slot belongs to a request of the workload.
    fn is_counted(self) -> bool {
        !matches!(
            self,
            RequestSlotKind::Writeback | RequestSlotKind::Overfetch
        )
    }
}

impl RequestSlot {
    /// The row of a request that ends now, without a response.
    #[inline(always)]
    fn row(&self, now: SimTime, stages: StageTimes) -> RequestRow {
        RequestRow {
            requester: 0,
            device: u16::MAX,
            id: self.id,
            write: self.write,
            hpa: self.hpa.0,
            issued_ps: self.issued_ps,
            completed_ps: now.0,
            hops: 0,
            stages,
            denied: false,
            failure: None,
            value: 0,
            shared: false,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum RequestSlotKind {
    Free,
    /// A request of the workload.
    Request,
    /// A hit in the private cache, until its access time has passed.
    Hit,
    /// The write-back of a line that the private cache has evicted.
    Writeback,
    /// A line that is read in vain.
    Overfetch,
    /// A request to a device that no route reaches, until the root port responds to it.
    CutOff,
    /// A request that has timed out: the tag is not reused until the response comes.
    Late,
}

/// How a request has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RequestOutcome {
    /// A hit in the private cache.
    Cache,
    /// Data, or the completion of a write.
    Device,
    /// Denied: the device had no decoder for the address.
    Denied,
    /// Poisoned data from the device.
    Poisoned,
}

/// Token of the wake-up that completes a hit of the private cache, plus the hit's tag. Ports use their number.
const HIT: u32 = 1 << 24;
/// Token of the wake-up that ends issuing.
const LEAVE: u32 = u32::MAX - 1;

/// The requester component. Fields that every request needs come first.
#[repr(C)]
pub struct Requester {
    port_id: PortId,
    first_device: u16,
    values: StoredValues,
    roots: RootPorts,
    /// Requests by tag.
    slots: Vec<RequestSlot>,
    /// Tags of the free slots.
    free: Vec<u32>,
    /// Opcode of the first request of a write.
    write_opcode: Opcode,
    map: Arc<AddressMap>,
    process_ps: u64,
    cache_ps: u64,
    throttle: Option<Box<Throttle>>,
    /// Address of a write-back that waits for a slot.
    writeback: Option<Hpa>,
    overfetch: Option<Box<Overfetch>>,
    /// Number of the operation whose remaining lines go before the next operation, from 1; 0 for none.
    current_multi_line: u32,
    cache: Option<PrivateCache>,
    issuer: Issuer,
    ledger: RequestLedger,
    /// Number of slots without a request in flight that cannot be reused: [`RequestSlotKind::Late`], and those in `spare`.
    retired_slots: usize,
    /// Slots that are not needed, because others have replaced them.
    spare: Vec<u32>,
    /// Operations of several lines, and the indices of completed ones.
    multi_line_ops: Vec<MultiLineOp>,
    free_multi_line_ops: Vec<u32>,
    /// Least time between two issues without the throttle, in picoseconds.
    interval_ps: u64,
    joins_after: Picos,
    leaves_after: Option<Picos>,
}

save_state!(Requester {
    values: free, writeback, overfetch, slots, retired_slots, spare, throttle, current_multi_line, multi_line_ops, free_multi_line_ops;
    states: roots, issuer, cache, ledger;
    built: port_id, first_device, write_opcode, map, process_ps, cache_ps, interval_ps, values, joins_after, leaves_after;
});

impl Requester {
    /// Builds the requester component.
    pub fn new(config: RequesterConfig) -> Self {
        let params = config.params;
        let outstanding = params.outstanding as usize;
        let empty = RequestSlot {
            hpa: Hpa(0),
            issued_ps: 0,
            id: 0,
            write: false,
            kind: RequestSlotKind::Free,
            merged: false,
            multi_line: 0,
        };
        let limit = params.queue.unwrap_or(params.outstanding) as usize;
        let roots = RootPorts::new(config.ports, config.port_to, limit);
        let overfetch = params.overfetch.as_ref();
        let interval_ps = params.interval_ps();
        let throttle = params.throttle;
        let throttle = throttle.map(|params| Box::new(Throttle::new(params, config.steps)));
        let throttle_ps = throttle.as_ref().map_or(0, |throttle| throttle.interval());
        let first_interval_ps = interval_ps.max(throttle_ps);
        Requester {
            port_id: config.port_id,
            first_device: config.first_device,
            roots: match params.in_order {
                true => roots.in_order(),
                false => roots,
            },
            write_opcode: match params.partial_write {
                _ if !config.partial || params.cache.is_some() => Opcode::MemWr,
                PartialWrite::MemWrPtl => Opcode::MemWrPtl,
                PartialWrite::MemRdFill => Opcode::MemRdFill,
            },
            map: config.map,
            issuer: Issuer::new(config.source, config.rng, config.limit, first_interval_ps),
            cache: params.cache.as_ref().map(PrivateCache::new),
            process_ps: params.process_time.0,
            cache_ps: params.cache.as_ref().map_or(0, |cache| cache.access_time.0),
            slots: vec![empty; outstanding],
            free: (0..outstanding as u32).rev().collect(),
            retired_slots: 0,
            spare: Vec::new(),
            current_multi_line: 0,
            multi_line_ops: Vec::new(),
            free_multi_line_ops: Vec::new(),
            writeback: None,
            overfetch: overfetch.map(|params| Box::new(Overfetch::new(params))),
            ledger: RequestLedger::new(config.number, config.log),
            interval_ps,
            throttle,
            values: StoredValues {
                base: (config.number + 1) << 12,
                mask: if config.values { u16::MAX } else { 0 },
            },
            joins_after: config.joins_after,
            leaves_after: config.leaves_after,
        }
    }

    /// Statistics of the throttle, if the requester has one.
    pub fn throttle(&self) -> Option<ThrottleStats> {
        self.throttle.as_ref().map(|throttle| throttle.stats())
    }

    /// Prefetches the state that a parcel needs which will arrive soon.
    #[inline]
    pub fn prefetch(&self, port: u16, parcel: &Parcel) {
        if let Some(message) = &parcel.message
            && let Some(slot) = self.slots.get(message.tag as usize)
        {
            prefetch(slot);
        }
        if let Some(link) = self.roots.ports.get(port as usize) {
            link.prefetch(1);
        }
        prefetch_first::<{ offset_of!(Self, retired_slots) - RequesterStats::SELDOM }, _>(self);
    }

    /// Prefetches more for a parcel that will arrive sooner.
    #[inline]
    pub fn prefetch_next(&self, parcel: &Parcel) {
        if let Some(message) = &parcel.message {
            self.ledger.stats.prefetch(message.hops + 1);
        }
        if let Some(free) = self.free.last() {
            prefetch(free);
        }
        self.roots.prefetch();
        self.issuer.prefetch();
    }

    /// Issues as much as the source offers and the limits allow. Requests a wake-up if only time is missing.
    fn issue(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        loop {
            if self.free.is_empty() || self.roots.is_full() {
                return;
            }
            if let Some(hpa) = self.writeback.take() {
                self.enter(ctx, hpa, true, RequestSlotKind::Writeback, 0);
                continue;
            }
            let (hpa, write, multi_line) = match self.next_line() {
                Some(next_line) => next_line,
                None => {
                    if self.overfetch.is_some() && self.read_in_vain(ctx) {
                        continue;
                    }
                    let Some(op) = self.issuer.next(ctx, self.ledger.in_flight()) else {
                        return;
                    };
                    if let Some(overfetch) = &mut self.overfetch {
                        overfetch.observe(&op);
                    }
                    let multi_line = match op.lines > 1 {
                        true => self.begin_multi_line(ctx.now(), op),
                        false => 0,
                    };
                    (Hpa(op.hpa.0 & !63), op.kind == OpKind::Write, multi_line)
                }
            };
            let cache = self.cache.as_mut();
            match cache.map(|cache| cache.access(hpa.line(), write)) {
                Some(access) if access.hit => self.hit(ctx, hpa, write, multi_line),
                Some(access) => {
                    self.writeback = access.evicted.map(|line| Hpa(line.0 * 64));
                    // Write-allocate: a store that misses reads the line.
                    self.enter(ctx, hpa, false, RequestSlotKind::Request, multi_line);
                }
                None => self.enter(ctx, hpa, write, RequestSlotKind::Request, multi_line),
            }
        }
    }

    /// Reads a line beyond the end of a run, if one is left that a device owns.
    #[inline(never)]
    fn read_in_vain(&mut self, ctx: &mut Ctx<'_, Parcel>) -> bool {
        let Some(line) = self.overfetch.as_mut().and_then(|lines| lines.line()) else {
            return false;
        };
        if self.map.owner(line).is_some() {
            self.enter(ctx, line, false, RequestSlotKind::Overfetch, 0);
        }
        true
    }

    /// Takes a slot for a request or a write-back.
    #[inline(always)]
    fn take_slot(
        &mut self,
        now: SimTime,
        hpa: Hpa,
        write: bool,
        kind: RequestSlotKind,
        multi_line: u32,
    ) -> (u32, RequestSlot) {
        let slot = RequestSlot {
            hpa,
            issued_ps: now.0,
            id: self.ledger.issued(),
            write,
            kind,
            merged: false,
            multi_line,
        };
        let tag = match self.free.pop() {
            Some(tag) => tag,
            None => unreachable!("issue looked for a free slot"),
        };
        if slot.kind.is_counted() {
            self.ledger.enter(now);
        }
        self.slots[tag as usize] = slot;
        (tag, slot)
    }

    /// Frees the slot of a request that has ended, and returns the slot's content.
    #[inline(always)]
    fn free_slot(&mut self, now: SimTime, tag: u32) -> RequestSlot {
        let slot = self.slots[tag as usize];
        let is_used = slot.kind != RequestSlotKind::Free;
        assert!(is_used, "a response to a request that was never made");
        self.slots[tag as usize].kind = RequestSlotKind::Free;
        self.free.push(tag);
        if slot.kind.is_counted() {
            self.ledger.leave(now, slot.issued_ps);
        }
        slot
    }

    /// Begins a hit in the private cache, which completes after the access time.
    fn hit(&mut self, ctx: &mut Ctx<'_, Parcel>, hpa: Hpa, write: bool, multi_line: u32) {
        let now = ctx.now();
        let (tag, _) = self.take_slot(now, hpa, write, RequestSlotKind::Hit, multi_line);
        ctx.wake_at(SimTime(now.0 + self.cache_ps), HIT + tag);
    }

    /// Completes a hit in the private cache, which accesses no device.
    fn complete_hit(&mut self, ctx: &mut Ctx<'_, Parcel>, tag: u32) {
        let slot = self.free_slot(ctx.now(), tag);
        let mut stages: StageTimes = [0; STAGE_NAMES.len()];
        stages[CACHE] = self.cache_ps;
        self.log(ctx, slot, stages, 0, u16::MAX, RequestOutcome::Cache, 0);
    }

    /// The value that a request stores: 0 for a read, and 0 without checkers. Branch prediction cannot tell
    /// which, so the code has no branch.
    #[inline(always)]
    fn stored(&self, slot: &RequestSlot) -> u16 {
        let value = self.values.base | (slot.id as u16 & 0xfff);
        value & (self.values.mask * u16::from(slot.write))
    }

    /// Takes a slot for a request, and sends the request or queues it for the link.
    fn enter(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        hpa: Hpa,
        write: bool,
        kind: RequestSlotKind,
        multi_line: u32,
    ) {
        let now = ctx.now();
        let device = match self.map.owner(hpa) {
            Some(device) => device,
            None => panic!("{hpa:?} lies outside the memory that the plan gave the workload"),
        };
        let (tag, slot) = self.take_slot(now, hpa, write, kind, multi_line);
        match kind {
            RequestSlotKind::Writeback => self.ledger.stats.writebacks += 1,
            RequestSlotKind::Overfetch => self.ledger.stats.overfetched += 1,
            _ => {}
        }
        let opcode = if write {
            self.write_opcode
        } else {
            Opcode::MemRd
        };
        let message = Message {
            data: self.stored(&slot),
            ..Message::new(opcode, hpa, tag, self.port_id, device, now)
        };
        self.roots.send(ctx, message);
    }

    /// Passes the load that a response reports to the throttle.
    #[inline(never)]
    fn report_load(&mut self, now: SimTime, message: &Message) {
        let (throttle, issued) = (self.throttle.as_mut(), self.issuer.issued());
        let load = DevLoad::of(message);
        if let Some(interval) = throttle.and_then(|throttle| throttle.observe(now, load, issued)) {
            self.issuer.set_interval(self.interval_ps.max(interval));
        }
    }

    #[inline]
    fn complete(&mut self, ctx: &mut Ctx<'_, Parcel>, message: &Message) {
        if self.throttle.is_some() {
            self.report_load(ctx.now(), message);
        }
        if self.write_opcode == Opcode::MemRdFill && self.merge(ctx, message) {
            return;
        }
        let slot = self.free_slot(ctx.now(), message.tag);
        assert_eq!(
            slot.hpa, message.hpa,
            "a response carries its request's address"
        );
        if !slot.kind.is_counted() {
            return;
        }
        // A merged write has passed the processing time twice.
        let process = self.process_ps << u32::from(slot.merged);
        let stages = stages_of(&message.stages, process, self.cache_ps);
        self.ledger
            .check_stages(&stages, ctx.now().0 - slot.issued_ps);
        let device = message.source.0 - self.first_device;
        let hops = message.hops + 1;
        if message.lines == Message::DENIED || message.cache.has(CacheMeta::POISON) {
            self.log_unserved(ctx, slot, stages, hops, device, message);
            return;
        }
        let (outcome, value) = (RequestOutcome::Device, message.data);
        self.log(ctx, slot, stages, hops, device, outcome, value);
    }

    /// Handles the data of a line for a partial write: the merged line is written back. Returns
    /// false for other responses.
    #[cold]
    #[inline(never)]
    fn merge(&mut self, ctx: &mut Ctx<'_, Parcel>, message: &Message) -> bool {
        let slot = &mut self.slots[message.tag as usize];
        if !slot.write || message.opcode != Opcode::MemData {
            return false;
        }
        slot.merged = true;
        let slot = *slot;
        let merged = Message {
            source: message.destination,
            destination: message.source,
            opcode: Opcode::MemWr,
            vc: 0,
            hops: 0,
            lines: 1,
            data: self.stored(&slot),
            ..*message
        };
        self.roots.send(ctx, merged);
        true
    }

    /// Logs a request that a device has denied, or that returned poison.
    #[cold]
    #[inline(never)]
    fn log_unserved(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        slot: RequestSlot,
        stages: StageTimes,
        hops: u16,
        device: u16,
        message: &Message,
    ) {
        let outcome = match message.lines {
            Message::DENIED => RequestOutcome::Denied,
            _ => RequestOutcome::Poisoned,
        };
        self.ledger.stats.denied_ever += u64::from(outcome == RequestOutcome::Denied);
        self.log(ctx, slot, stages, hops, device, outcome, message.data);
    }

    /// Completes a request: its row goes to the ledger, and its operation of several lines has one line less.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "what a row has beside its slot")]
    fn log(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        slot: RequestSlot,
        stages: StageTimes,
        hops: u16,
        device: u16,
        outcome: RequestOutcome,
        value: u16,
    ) {
        let row = RequestRow {
            device,
            hops,
            denied: outcome == RequestOutcome::Denied,
            failure: (outcome == RequestOutcome::Poisoned).then_some(Failure::Poisoned),
            value,
            shared: false,
            ..slot.row(ctx.now(), stages)
        };
        let hit = outcome == RequestOutcome::Cache;
        self.ledger.complete(ctx, row, hit);
        if slot.multi_line != 0 {
            let served = !matches!(outcome, RequestOutcome::Denied | RequestOutcome::Poisoned);
            self.line_done(ctx.now(), slot.multi_line, served);
        }
    }
}

impl RequestAgent for Requester {
    request_agent_fields!(roots, ledger);

    fn in_flight(&self) -> u64 {
        (self.slots.len() - self.retired_slots - self.free.len()) as u64
    }

    fn is_done(&self) -> bool {
        self.issuer.is_done() && self.current_multi_line == 0 && self.in_flight() == 0
    }

    fn start(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.issuer.begin(ctx.now() + self.joins_after);
        if let Some(throttle) = &mut self.throttle {
            throttle.begin(ctx.now());
        }
        if let Some(leaves) = self.leaves_after {
            ctx.wake_at(ctx.now() + leaves, LEAVE);
        }
        self.issue(ctx);
    }

    #[inline(always)]
    fn receive_message(&mut self, ctx: &mut Ctx<'_, Parcel>, _port: u16, message: &Message) {
        self.complete(ctx, message);
    }

    /// Handles a wake-up: for issuing, the end of issuing, a port, or a cache hit.
    fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        if token == ISSUE {
            self.issuer.woken(ctx.now());
        } else if token >= HIT {
            match token {
                LEAVE => {
                    self.issuer.stop();
                    self.drop_unissued();
                }
                hit => self.complete_hit(ctx, hit - HIT),
            }
        } else {
            self.roots.wake(ctx, token);
        }
        self.issue(ctx);
    }

    #[inline(always)]
    fn issue_pending(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.issue(ctx);
    }

    fn reset_statistics(&mut self, _now: SimTime) {
        if let Some(throttle) = &mut self.throttle {
            throttle.begin_measurement();
        }
    }

    fn failure_handling(&mut self) -> Option<&mut dyn FailureHandling> {
        Some(self)
    }
}
