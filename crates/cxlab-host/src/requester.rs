//! A requester: takes operations from a source, sends them as CXL.mem requests, and accounts for
//! every picosecond of each.
//!
//! At most `outstanding` requests are in flight; a request that the link cannot take waits in a
//! bounded queue, and while that is full nothing is issued: backpressure reaches the source. The
//! processing time lies in front of the link like a pipeline: constant, and nothing overtakes in
//! it, so it is part of the wire's delay and costs no event.

use std::sync::Arc;

use cxlab_engine::Ctx;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Hpa, SimTime};
use cxlab_link::{Buffer, LinkPort, Outbox, Parcel};
use cxlab_protocol::{LatencyStages, MemMeta, Message, Opcode, PortId};
use cxlab_workload::{MemOp, OpKind, OpSource};

use crate::address_map::AddressMap;
use crate::cache::PrivateCache;
use crate::params::RequesterParams;
use crate::stats::{RequestRow, RequesterStats, STAGE_NAMES, Stages};

/// What a requester is built from.
pub struct RequesterConfig {
    /// How it issues.
    pub params: RequesterParams,
    /// Its number among the requesters.
    pub number: u16,
    /// Its edge port.
    pub port_id: PortId,
    /// Its links, one for each root port, and which of them leads to each edge port.
    pub ports: Vec<LinkPort>,
    /// The root port towards each edge port; empty when there is one root port.
    pub port_to: Vec<u16>,
    /// First edge port of a device: devices are numbered from there.
    pub first_device: u16,
    /// Which device owns an address.
    pub map: Arc<AddressMap>,
    /// Where operations come from.
    pub source: Box<dyn OpSource>,
    /// Its random stream.
    pub rng: StreamRng,
    /// Operations to take from the source at most.
    pub limit: Option<u64>,
    /// Whether to keep a row for each completed request.
    pub log: bool,
}

#[derive(Clone, Copy)]
struct Slot {
    hpa: Hpa,
    issued: u64,
    id: u64,
    write: bool,
    kind: SlotKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SlotKind {
    Free,
    Request,
    Hit,
    Writeback,
}

/// Wake-up tokens: ports use their number, cache hits `HIT` plus their slot.
const ISSUE: u32 = u32::MAX;
const HIT: u32 = 1 << 24;

/// The requester component.
pub struct Requester {
    number: u16,
    port_id: PortId,
    first_device: u16,
    ports: Vec<LinkPort>,
    /// What waits for a link, by root port.
    outboxes: Vec<Outbox>,
    port_to: Vec<u16>,
    map: Arc<AddressMap>,
    source: Box<dyn OpSource>,
    rng: StreamRng,
    left: u64,
    cache: Option<PrivateCache>,
    process_ps: u64,
    cache_ps: u64,
    interval_ps: u64,
    queue_limit: usize,
    /// An operation taken from the source that could not be issued yet.
    held: Option<MemOp>,
    exhausted: bool,
    next_issue: u64,
    issue_wake: SimTime,
    slots: Vec<Slot>,
    free: Vec<u32>,
    in_flight: u64,
    issued_sum: u128,
    issued: u64,
    /// A write-back that waits for a slot.
    writeback: Option<Hpa>,
    stats: RequesterStats,
    rows: Option<Vec<RequestRow>>,
}

impl Requester {
    /// Builds the component.
    pub fn new(config: RequesterConfig) -> Self {
        let params = config.params;
        let outstanding = params.outstanding as usize;
        let empty = Slot {
            hpa: Hpa(0),
            issued: 0,
            id: 0,
            write: false,
            kind: SlotKind::Free,
        };
        Requester {
            number: config.number,
            port_id: config.port_id,
            first_device: config.first_device,
            outboxes: vec![Outbox::default(); config.ports.len()],
            ports: config.ports,
            port_to: config.port_to,
            map: config.map,
            source: config.source,
            rng: config.rng,
            left: config.limit.unwrap_or(u64::MAX),
            cache: params.cache.as_ref().map(PrivateCache::new),
            process_ps: params.process_time.0,
            cache_ps: params.cache.as_ref().map_or(0, |cache| cache.access_time.0),
            interval_ps: params.interval_ps(),
            queue_limit: params.queue.unwrap_or(params.outstanding) as usize,
            held: None,
            exhausted: false,
            next_issue: 0,
            issue_wake: SimTime::NEVER,
            slots: vec![empty; outstanding],
            free: (0..outstanding as u32).rev().collect(),
            in_flight: 0,
            issued_sum: 0,
            issued: 0,
            writeback: None,
            stats: RequesterStats::default(),
            rows: config.log.then(Vec::new),
        }
    }

    /// What was measured.
    pub fn stats(&self) -> &RequesterStats {
        &self.stats
    }

    /// Requests in flight, write-backs included.
    pub fn in_flight(&self) -> u64 {
        (self.slots.len() - self.free.len()) as u64
    }

    /// Requests in flight that count as requests.
    pub fn requests_in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Summed age, at `now`, of the requests in flight that count as requests.
    pub fn age_ps(&self, now: SimTime) -> u128 {
        u128::from(now.0) * u128::from(self.in_flight) - self.issued_sum
    }

    /// Whether its source has finished and everything has completed.
    pub fn is_done(&self) -> bool {
        self.exhausted && self.held.is_none() && self.free.len() == self.slots.len()
    }

    /// Its ports, for link statistics.
    pub fn ports_mut(&mut self) -> &mut [LinkPort] {
        &mut self.ports
    }

    /// Takes the rows logged since the last call.
    pub fn take_rows(&mut self) -> Vec<RequestRow> {
        self.rows.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Measurement begins.
    pub fn begin_measurement(&mut self, now: SimTime) {
        self.stats.begin(now.0, self.in_flight, self.issued_sum);
        if let Some(rows) = &mut self.rows {
            rows.clear();
        }
        for port in &mut self.ports {
            port.transmitter.reset_stats(now);
        }
    }

    /// The run begins.
    pub fn start(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.issue(ctx);
    }

    /// A parcel arrives from a link.
    #[inline]
    pub fn receive(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, parcel: &Parcel) {
        let credited = self.ports[port as usize].receive(parcel);
        if let Some(mut message) = parcel.message {
            message.hops += 1;
            self.ports[port as usize].release(ctx, Buffer::of(message.channel(), message.vc));
            self.complete(ctx, &message);
        }
        if credited {
            let number = port as usize;
            let token = u32::from(port);
            self.outboxes[number].pump(ctx, &mut self.ports[number], token, |_, _| {});
        }
        self.issue(ctx);
    }

    /// A wake-up: to issue, for a port, or for a cache hit.
    pub fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        if token == ISSUE {
            if ctx.now() == self.issue_wake {
                self.issue_wake = SimTime::NEVER;
            }
        } else if token >= HIT {
            self.complete_hit(ctx, token - HIT);
        } else {
            let number = token as usize;
            self.outboxes[number].wake(ctx, &mut self.ports[number], token, |_, _| {});
        }
        self.issue(ctx);
    }

    /// Issues as much as the source offers and limits allow, and asks to be woken when only time
    /// is missing.
    fn issue(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let now = ctx.now();
        loop {
            if self.free.is_empty() || self.is_queue_full() {
                return;
            }
            if let Some(hpa) = self.writeback.take() {
                self.enter(ctx, hpa, true, SlotKind::Writeback);
                continue;
            }
            if self.held.is_none() && !self.exhausted {
                self.held = if self.left == 0 {
                    None
                } else {
                    self.source.next_op(&mut self.rng)
                };
                self.left = self.left.saturating_sub(1);
                self.exhausted = self.held.is_none();
            }
            let Some(op) = self.held else { return };
            if op.dependent && self.in_flight > 0 {
                return;
            }
            let due = self.next_issue.max(op.not_before.0);
            if due > now.0 {
                if due < self.issue_wake.0 {
                    self.issue_wake = SimTime(due);
                    ctx.wake_at(SimTime(due), ISSUE);
                }
                return;
            }
            self.held = None;
            self.next_issue = now.0 + self.interval_ps;
            let write = op.kind == OpKind::Write;
            let line = Hpa(op.hpa.0 & !63);
            let access = self
                .cache
                .as_mut()
                .map(|cache| cache.access(line.line(), write));
            match access {
                Some(access) if access.hit => self.hit(ctx, line, write),
                Some(access) => {
                    self.writeback = access.evicted.map(|line| Hpa(line.0 * 64));
                    // Write-allocate: a store that misses reads the line.
                    self.enter(ctx, line, false, SlotKind::Request);
                }
                None => self.enter(ctx, line, write, SlotKind::Request),
            }
        }
    }

    /// Takes a slot for a request that counts, or for a write-back.
    fn take_slot(&mut self, now: SimTime, slot: Slot) -> u32 {
        let tag = match self.free.pop() {
            Some(tag) => tag,
            None => unreachable!("issue looked for a free slot"),
        };
        if slot.kind != SlotKind::Writeback {
            self.in_flight += 1;
            self.issued_sum += u128::from(now.0);
            self.stats.in_flight.set(now.0, self.in_flight);
            self.stats.issued += 1;
            self.stats.issued_ever += 1;
            self.issued += 1;
        }
        self.slots[tag as usize] = slot;
        tag
    }

    fn free_slot(&mut self, now: SimTime, tag: u32) -> Slot {
        let slot = self.slots[tag as usize];
        assert!(
            slot.kind != SlotKind::Free,
            "a response to a request that was never made"
        );
        self.slots[tag as usize].kind = SlotKind::Free;
        self.free.push(tag);
        if slot.kind != SlotKind::Writeback {
            self.in_flight -= 1;
            self.issued_sum -= u128::from(slot.issued);
            self.stats.in_flight.set(now.0, self.in_flight);
        }
        slot
    }

    fn hit(&mut self, ctx: &mut Ctx<'_, Parcel>, hpa: Hpa, write: bool) {
        let now = ctx.now();
        let id = self.issued;
        let kind = SlotKind::Hit;
        let slot = Slot {
            hpa,
            issued: now.0,
            id,
            write,
            kind,
        };
        let tag = self.take_slot(now, slot);
        ctx.wake_at(SimTime(now.0 + self.cache_ps), HIT + tag);
    }

    fn complete_hit(&mut self, ctx: &mut Ctx<'_, Parcel>, tag: u32) {
        let slot = self.free_slot(ctx.now(), tag);
        let mut stages: Stages = [0; STAGE_NAMES.len()];
        stages[1] = self.cache_ps;
        self.log(ctx, slot, stages, 0, u16::MAX, true);
    }

    /// A request takes a slot and waits for the link, or goes at once.
    fn enter(&mut self, ctx: &mut Ctx<'_, Parcel>, hpa: Hpa, write: bool, kind: SlotKind) {
        let now = ctx.now();
        let device = match self.map.locate(hpa) {
            Some((device, _)) => device,
            None => panic!("{hpa:?} lies outside the memory that the plan gave the workload"),
        };
        let slot = Slot {
            hpa,
            issued: now.0,
            id: self.issued,
            write,
            kind,
        };
        let tag = self.take_slot(now, slot);
        if kind == SlotKind::Writeback {
            self.stats.writebacks += 1;
        }
        let message = Message {
            hpa,
            issued_ps: now.0,
            stages: LatencyStages::default(),
            tag,
            source: self.port_id,
            destination: device,
            opcode: if write { Opcode::MemWr } else { Opcode::MemRd },
            vc: 0,
            hops: 0,
            meta: MemMeta::NONE,
            lines: 1,
            data: 0,
        };
        let port = self.port_towards(device);
        let (outbox, link) = (&mut self.outboxes[port], &mut self.ports[port]);
        outbox.offer(ctx, link, port as u32, message, now, |_, _| {});
    }

    /// Whether as many requests wait for links as may.
    #[inline]
    fn is_queue_full(&self) -> bool {
        let waiting: usize = self.outboxes.iter().map(Outbox::len).sum();
        waiting >= self.queue_limit
    }

    #[inline]
    fn port_towards(&self, device: PortId) -> usize {
        self.port_to
            .get(device.0 as usize)
            .map_or(0, |port| *port as usize)
    }

    fn complete(&mut self, ctx: &mut Ctx<'_, Parcel>, message: &Message) {
        let slot = self.free_slot(ctx.now(), message.tag);
        assert_eq!(
            slot.hpa, message.hpa,
            "a response carries its request's address"
        );
        if slot.kind == SlotKind::Writeback {
            return;
        }
        let own = &message.stages;
        let stages: Stages = [
            self.process_ps,
            self.cache_ps,
            own.queue,
            u64::from(own.link),
            u64::from(own.port),
            u64::from(own.switch),
            u64::from(own.device),
            own.coherence,
            own.media,
        ];
        let total: u64 = stages.iter().sum();
        assert_eq!(
            total,
            ctx.now().0 - slot.issued,
            "latency stages sum to the latency"
        );
        let device = message.source.0 - self.first_device;
        self.log(ctx, slot, stages, message.hops, device, false);
    }

    fn log(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        slot: Slot,
        stages: Stages,
        hops: u16,
        device: u16,
        hit: bool,
    ) {
        let row = RequestRow {
            requester: self.number,
            device,
            id: slot.id,
            write: slot.write,
            hpa: slot.hpa.0,
            issued_ps: slot.issued,
            completed_ps: ctx.now().0,
            hops,
            stages,
        };
        self.stats.complete(&row, hit);
        ctx.count_work(1);
        if let Some(rows) = &mut self.rows {
            rows.push(row);
        }
    }
}
