//! A caching requester: a host or an accelerator with a cache of HDM-DB lines, which the devices keep
//! coherent by back-invalidation, and of HDM-H lines, which only this requester uses.
//!
//! The cache is set-associative, write-back and write-allocate, with the states of MESI. The table
//! [`cxlab_protocol::coherence::requester`] decides the actions for a line; this module adds time and
//! capacity. HDM-H lines use the same mechanism without completions, metadata and snoops: a line that
//! arrives is exclusive, or modified by a store.
//!
//! # Stalls
//! An access that misses takes an MSHR and a way of its set. The evicted line takes an entry for evictions until its
//! completion comes. Accesses to a line with a transaction in flight wait for it, in order. An access that finds no
//! room waits in front of the cache, and so do the accesses after it. These waits count as `queue`, like the wait for
//! another access's line, or for the eviction of the line itself. The latency stages of an access are those of the
//! message that completes it. The second request of a lost upgrade continues with the stages of the first.
//!
//! Responses are always accepted: everything that they cause has its entry, and the outgoing queues have
//! room for a request, a `MemWr`, a `BIConflict` and a snoop response for each. A snoop waits for an entry
//! only if the line is modified, and then only for completions of write-backs that other snoops caused. It
//! occupies its link buffer meanwhile. Every outgoing message passes the cache's access time and the
//! processing time, as constant pipelines in front of the link.
//!
//! # Caches above
//! Another program may have caches above this one ([`above`]). They give up or share a line before a snoop of it
//! is answered, and before it is evicted.
//!
//! # Left out
//! Hits under a stalled access; flushes.

mod above;
mod entries;
mod respond;
mod snoop;
mod stats;

use std::sync::Arc;

use cxlab_agent::{
    AddressMap, CACHE, HOST_QUEUE, RequestAgent, RequestLedger, RequestRow, RootPorts, STAGE_NAMES,
    StageTimes, request_agent_fields,
};
use cxlab_cache::{Geometry, GeometryError, SetRoom, Slot, TagArray, VictimPolicy, victim};
use cxlab_engine::Ctx;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::units::{Hpa, LineAddr, SimTime};
use cxlab_link::Parcel;
use cxlab_protocol::coherence::fields::CoherenceClass;
use cxlab_protocol::coherence::requester::{Event, Line, LineState, step};
use cxlab_protocol::{Channel, Message, PortId};
use cxlab_workload::{Inlet, MemOp};
use serde::{Deserialize, Serialize};

use crate::issuer::{DueWake, ISSUE, Issuer};
use crate::params::{CacheParams, LoadMiss};
use crate::requester::RequesterConfig;
use crate::throttle::{Throttle, ThrottleStats};
use above::CachesAbove;
use entries::{EntryKind, NONE, PendingAccesses, TransactionEntries, TransactionEntry};
use snoop::PendingSnoops;

pub use above::CacheSnoop;
pub use stats::{CoherenceStats, SnoopedState, StallReason};

/// Most accesses that wait for one line, including the first: 20, the `tgts_per_mshr` of the L1 caches
/// in gem5's `configs/common/Caches.py`.
const TARGETS: u32 = 20;

/// Most snoops of modified lines in service at once. *Assumed*.
const SNOOP_ENTRIES: u32 = 32;

/// Wake-up tokens: ports use their number, issuing `ISSUE`, cache hits `HIT` plus their access number.
const HIT: u32 = 1 << 24;

/// Configuration of a caching requester.
pub struct CachingConfig {
    /// Configuration common to all requesters; its `params.cache` is ignored. The ports' egress is the
    /// processing time plus the cache's access time.
    pub requester: RequesterConfig,
    /// Parameters of the coherent cache.
    pub cache: CacheParams,
    /// Coherence class of each device's memory: which side keeps it coherent.
    pub classes: Vec<CoherenceClass>,
    /// Which line of a full set is evicted; least recently used if `None`.
    pub policy: Option<Box<dyn VictimPolicy>>,
    /// Random stream of the victim policy.
    pub policy_rng: StreamRng,
    /// Whether another program has caches above this one, which are snooped.
    pub snooped: bool,
    /// Whether stores draw values, and every access is recorded with its value, for checkers.
    pub observe: bool,
}

/// The value that an access read or wrote, at the moment when it took effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Observation {
    /// When the access took effect.
    pub time: SimTime,
    /// The accessed line.
    pub line: LineAddr,
    /// Number of the access, as in its row.
    pub id: u64,
    /// True for a store, false for a load.
    pub write: bool,
    /// The value read or written; 0 before any store.
    pub value: u16,
    /// Whether the access is a load that caches nothing: then its value is that of the line at some time
    /// since its issue, and not at `time`.
    pub once: bool,
}

/// The contents of a cache way.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct CacheWay {
    /// Entry of the transaction in flight, or `NONE`. An entry has the state of the line.
    entry: u32,
    device: PortId,
    data: u16,
    line: Line,
    /// Whether the caches above may have the line.
    above: bool,
}

/// The component of a caching requester.
pub struct CachingRequester {
    number: u16,
    port_id: PortId,
    first_device: u16,
    roots: RootPorts,
    map: Arc<AddressMap>,
    classes: Vec<CoherenceClass>,
    issuer: Issuer,
    ledger: RequestLedger,
    cache: TagArray<CacheWay>,
    process_ps: u64,
    cache_ps: u64,
    clean_evict: bool,
    load_miss: Event,
    /// Time for which a snooped line keeps the cache from serving accesses, in picoseconds.
    snoop_ps: u64,
    throttle: Option<Box<Throttle>>,
    /// Least time between two issues without the throttle, in picoseconds.
    interval_ps: u64,
    /// The lines of the present operation that have not been issued: external ports have operations of several.
    rest: Option<MemOp>,
    accesses: PendingAccesses,
    entries: TransactionEntries,
    snoops: PendingSnoops,
    /// The access that waits in front of the cache, or `NONE`.
    stalled: u32,
    coherence: CoherenceStats,
    stores: u16,
    above: Option<Box<CachesAbove>>,
    observations: Option<Vec<Observation>>,
}

// Observations are not saved: the owner takes them before a state is saved.
save_state!(CachingRequester {
    values: stalled, rest, throttle, coherence, stores, above;
    states: roots, issuer, ledger, cache, accesses, entries, snoops;
    built: number, port_id, first_device, map, classes, process_ps, cache_ps, clean_evict, load_miss, snoop_ps, interval_ps, observations;
});

impl CachingRequester {
    /// Builds the component of a caching requester.
    ///
    /// # Errors
    /// A cache with more lines than a tag array can hold.
    pub fn new(config: CachingConfig) -> Result<Self, GeometryError> {
        let CachingConfig {
            requester, cache, ..
        } = config;
        let params = requester.params;
        let ways = u64::from(cache.ways.max(1));
        let sets = (cache.size.0 / 64 / ways).max(1);
        let geometry = Geometry::set_associative(sets * ways, ways)?;
        let policy = config.policy.or_else(|| victim::build("lru"));
        let Some(policy) = policy else {
            unreachable!("the catalog of victim policies has lru")
        };
        let mshrs = cache.mshrs.unwrap_or(params.outstanding).max(1);
        let entries = TransactionEntries::new([mshrs, mshrs, SNOOP_ENTRIES]);
        let above = CachesAbove::new(entries.capacity());
        let limit = params.queue.unwrap_or(params.outstanding) as usize;
        let interval_ps = params.interval_ps();
        let throttle = params.throttle;
        let throttle = throttle.map(|params| Box::new(Throttle::new(params, requester.steps)));
        let throttle_ps = throttle.as_ref().map_or(0, |throttle| throttle.interval());
        let first_interval_ps = interval_ps.max(throttle_ps);
        Ok(CachingRequester {
            number: requester.number,
            port_id: requester.port_id,
            first_device: requester.first_device,
            roots: RootPorts::new(requester.ports, requester.port_to, limit),
            map: requester.map,
            classes: config.classes,
            issuer: Issuer::new(
                requester.source,
                requester.rng,
                requester.limit,
                first_interval_ps,
            ),
            ledger: RequestLedger::new(requester.number, requester.log),
            cache: TagArray::new(geometry, policy.as_ref(), config.policy_rng),
            process_ps: params.process_time.0,
            cache_ps: cache.access_time.0,
            clean_evict: cache.clean_evict,
            load_miss: match cache.load_request {
                LoadMiss::MemRdData => Event::Load,
                LoadMiss::MemRdSnpData => Event::LoadShared,
                LoadMiss::MemRdSnpCur => Event::LoadOnce,
            },
            snoop_ps: cache.snoop_time.0,
            throttle,
            interval_ps,
            rest: None,
            accesses: PendingAccesses::new(params.outstanding),
            snoops: PendingSnoops::new(entries.capacity() + 1),
            entries,
            stalled: NONE,
            coherence: CoherenceStats::default(),
            stores: 0,
            above: config.snooped.then(|| Box::new(above)),
            observations: config.observe.then(Vec::new),
        })
    }

    /// The inlet of the source, if another program hands over the operations.
    pub fn inlet(&mut self) -> Option<&mut Inlet> {
        self.issuer.inlet()
    }

    /// To be called after operations were added to the inlet, or after it was closed. Returns a wake-up that
    /// the caller must pass to the simulation.
    pub fn handed_over(&mut self) -> Option<DueWake> {
        self.issuer.handed_over()
    }

    /// Statistics of the throttle, if the requester has one.
    pub fn throttle(&self) -> Option<ThrottleStats> {
        self.throttle.as_ref().map(|throttle| throttle.stats())
    }

    /// Statistics of the cache.
    pub fn coherence(&self) -> &CoherenceStats {
        &self.coherence
    }

    /// Takes the observations since the last call, in the order in which the accesses took effect.
    pub fn take_observations(&mut self) -> Vec<Observation> {
        let observations = self.observations.as_mut();
        observations.map(std::mem::take).unwrap_or_default()
    }

    /// The state of a line, stable or of its transaction in flight.
    pub fn line(&self, line: LineAddr) -> Line {
        let slot = self.cache.find(line);
        match (self.entry_in_flight(line, slot), slot) {
            (Some(number), _) => self.entries.get(number).state.line,
            (None, Some(slot)) => self.cache[slot].line,
            (None, None) => Line::I,
        }
    }

    /// The value of the cached copy, valid or stale; `None` if the line has no way.
    pub fn copy(&self, line: LineAddr) -> Option<u16> {
        self.cache.find(line).map(|slot| self.cache[slot].data)
    }

    /// The entry that has the state of a line, if there is one; `slot` is the line's way.
    #[inline]
    fn entry_in_flight(&self, line: LineAddr, slot: Option<Slot>) -> Option<u32> {
        let Some(slot) = slot else {
            return self.entries.leaving(line);
        };
        match self.cache[slot].entry {
            NONE => None,
            number => match self.entries.get(number).predecessor {
                NONE => Some(number),
                predecessor => Some(predecessor),
            },
        }
    }

    /// Issues as much as the source offers and limits allow.
    fn issue(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        loop {
            if self.roots.is_full() {
                return;
            }
            if self.stalled != NONE {
                if self.begin(ctx, self.stalled).is_err() {
                    return;
                }
                self.stalled = NONE;
            }
            if self.accesses.is_full() {
                return;
            }
            let Some(op) = self.next_line(ctx) else {
                return;
            };
            let now = ctx.now();
            let id = self.ledger.issued();
            let access = self.accesses.take(op.hpa.line(), now.0, id, &op);
            self.ledger.enter(now);
            if let Err(stall) = self.begin(ctx, access) {
                self.coherence.stalls[stall as usize] += 1;
                self.stalled = access;
                return;
            }
        }
    }

    /// The next line of the present operation, or the first of the next one.
    #[inline]
    fn next_line(&mut self, ctx: &mut Ctx<'_, Parcel>) -> Option<MemOp> {
        if let Some(op) = self.rest {
            self.issuer.count_lines(1);
            self.keep_rest(op);
            return Some(op);
        }
        let op = self.issuer.next(ctx, self.ledger.in_flight())?;
        if op.lines > 1 {
            self.keep_rest(op);
        }
        Some(op)
    }

    /// Keeps all lines of an operation but the first.
    #[cold]
    fn keep_rest(&mut self, op: MemOp) {
        self.rest = (op.lines > 1).then(|| MemOp {
            hpa: Hpa(op.hpa.0 + 64),
            lines: op.lines - 1,
            ..op
        });
    }

    /// Looks up an access in the cache: the access hits, waits for its line, or begins a request. On
    /// error nothing has changed.
    fn begin(&mut self, ctx: &mut Ctx<'_, Parcel>, access: u32) -> Result<(), StallReason> {
        let &entries::PendingAccess {
            line, write_back, ..
        } = self.accesses.get(access);
        if write_back {
            self.take_back(ctx, access, line);
            return Ok(());
        }
        match self.cache.find(line) {
            Some(slot) if self.cache[slot].entry != NONE => self.join(access, slot),
            Some(slot) => self.use_copy(ctx, access, slot),
            None => self.miss(ctx, access, line),
        }
    }

    /// Lets an access wait for the transaction in flight of its line.
    fn join(&mut self, access: u32, slot: Slot) -> Result<(), StallReason> {
        let number = self.cache[slot].entry;
        if self.entries.get(number).waiting >= TARGETS {
            return Err(StallReason::Targets);
        }
        // The access may need a request when the line is stable, so the entry must not count as one of a snoop.
        if !self.entries.turn_into_miss(number) {
            return Err(StallReason::Mshrs);
        }
        self.cache.touch(slot);
        self.accesses.append(self.entries.get_mut(number), access);
        self.coherence.merged += 1;
        Ok(())
    }

    /// Serves an access to a present line: a hit, unless a store finds the line shared.
    fn use_copy(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        access: u32,
        slot: Slot,
    ) -> Result<(), StallReason> {
        let write = self.accesses.get(access).write;
        let way = self.cache[slot];
        if write && way.line == Line::S {
            if self.entries.room(EntryKind::Miss) == 0 {
                return Err(StallReason::Mshrs);
            }
            self.cache.touch(slot);
            let number = self.open(access, slot);
            self.request(ctx, number, None);
            return Ok(());
        }
        let id = self.accesses.get(access).id;
        let (next, _) = local_step(LineState::stable(way.line), access_event(write));
        self.cache[slot].line = next.line;
        self.cache[slot].above = self.above.is_some();
        if next.line == Line::S {
            self.accesses.set_shared(access);
        }
        self.cache.touch(slot);
        self.take_effect(ctx.now(), slot, id, write);
        self.hit(ctx, access);
        Ok(())
    }

    /// Completes an access after the access time.
    fn hit(&mut self, ctx: &mut Ctx<'_, Parcel>, access: u32) {
        self.coherence.hits += 1;
        ctx.wake_at(SimTime(ctx.now().0 + self.cache_ps), HIT + access);
    }

    /// Begins a miss: the line gets a way and is requested, at once or after its own eviction has
    /// completed. Another line may have to be evicted.
    fn miss(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        access: u32,
        line: LineAddr,
    ) -> Result<(), StallReason> {
        if self.entries.room(EntryKind::Miss) == 0 {
            return Err(StallReason::Mshrs);
        }
        let evicted = self.make_room(ctx, line)?;
        let hpa = Hpa(line.0 * 64);
        let Some(device) = self.map.owner(hpa) else {
            panic!("{hpa:?} lies outside the memory that the plan gave the workload")
        };
        let slot = self.cache.insert(
            line,
            CacheWay {
                entry: NONE,
                device,
                data: 0,
                line: Line::I,
                above: false,
            },
        );
        self.coherence.misses += 1;
        let number = self.open(access, slot);
        match self.entries.leaving(line) {
            Some(predecessor) => {
                self.coherence.after_evictions += 1;
                self.entries.get_mut(predecessor).successor = number;
                self.entries.get_mut(number).predecessor = predecessor;
            }
            None => self.request(ctx, number, None),
        }
        if let Some((victim, way, event)) = evicted {
            self.evict(ctx, victim, way, event);
        }
        Ok(())
    }

    /// Takes an MSHR for an access to a line that has a way.
    fn open(&mut self, access: u32, slot: Slot) -> u32 {
        let way = self.cache[slot];
        let number = self.entries.take(TransactionEntry {
            slot: Some(slot),
            ..self.entry(self.cache.line(slot), way, EntryKind::Miss)
        });
        self.cache[slot].entry = number;
        self.cache.pin(slot);
        self.accesses.append(self.entries.get_mut(number), access);
        number
    }

    /// A new entry for a line that is settled.
    fn entry(&self, line: LineAddr, way: CacheWay, kind: EntryKind) -> TransactionEntry {
        let class = self.class_of(way.device);
        TransactionEntry::new(line, LineState::stable(way.line), kind, class, way.device)
    }

    #[inline]
    fn class_of(&self, device: PortId) -> CoherenceClass {
        self.classes[usize::from(device.0 - self.first_device)]
    }

    /// Makes room for a line by removing another from its set. Returns the removed line and the
    /// event of its eviction. Caches above give it up first.
    fn make_room(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        line: LineAddr,
    ) -> Result<Option<(LineAddr, CacheWay, Event)>, StallReason> {
        let block = match self.cache.room(line) {
            SetRoom::Free => return Ok(None),
            SetRoom::Pinned => return Err(StallReason::Set),
            SetRoom::Evict(block) => block,
        };
        let Some(slot) = self.cache.find(block.victim) else {
            unreachable!("a victim is present")
        };
        let way = self.cache[slot];
        if way.above {
            return Err(self.recall(ctx, slot));
        }
        let sends_notice = self.clean_evict && self.class_of(way.device) == CoherenceClass::HdmDb;
        let event = if way.line == Line::M || sends_notice {
            Event::Evict
        } else {
            Event::EvictSilently
        };
        if event == Event::Evict && self.entries.room(EntryKind::Evict) == 0 {
            return Err(StallReason::Evictions);
        }
        self.cache.remove(slot);
        Ok(Some((block.victim, way, event)))
    }

    /// Evicts a line that has been removed from its way.
    fn evict(&mut self, ctx: &mut Ctx<'_, Parcel>, line: LineAddr, way: CacheWay, event: Event) {
        let (next, actions) = local_step(LineState::stable(way.line), event);
        if next.is_settled() {
            self.coherence.silent_evictions += 1;
            return;
        }
        if way.line == Line::M {
            self.coherence.dirty_evictions += 1;
        } else {
            self.coherence.clean_evictions += 1;
        }
        let number = self.entries.take(TransactionEntry {
            state: next,
            data: way.data,
            ..self.entry(line, way, EntryKind::Evict)
        });
        self.perform(ctx, number, &actions, None);
    }

    /// Lets an access read or write the copy in a way, and records the observation.
    #[inline]
    fn take_effect(&mut self, time: SimTime, slot: Slot, id: u64, write: bool) {
        if self.observations.is_none() {
            return;
        }
        if write {
            self.stores = self.stores.wrapping_add(1);
            self.cache[slot].data = self.stores.wrapping_mul(64) | (self.number % 64);
        }
        let observation = Observation {
            time,
            line: self.cache.line(slot),
            id,
            write,
            value: self.cache[slot].data,
            once: false,
        };
        self.observe(observation);
    }

    fn observe(&mut self, observation: Observation) {
        if let Some(observations) = &mut self.observations {
            observations.push(observation);
        }
    }

    /// Completes an access that hit the cache.
    fn complete_hit(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u32) {
        let now = ctx.now();
        let access = self.accesses.give_back(number);
        let mut stages: StageTimes = [0; STAGE_NAMES.len()];
        stages[CACHE] = self.cache_ps;
        stages[HOST_QUEUE] = now.0 - access.issued - self.cache_ps;
        self.close(ctx, &access, stages, 0, u16::MAX);
    }

    /// Completes an access. A device of `u16::MAX` means that the access hit.
    fn close(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        access: &entries::PendingAccess,
        stages: StageTimes,
        hops: u16,
        device: u16,
    ) {
        let now = ctx.now();
        self.ledger.check_stages(&stages, now.0 - access.issued);
        self.ledger.leave(now, access.issued);
        let row = RequestRow {
            requester: self.number,
            device,
            id: access.id,
            write: access.write,
            hpa: access.line.0 * 64,
            issued_ps: access.issued,
            completed_ps: now.0,
            hops,
            stages,
            denied: false,
            failure: None,
            value: 0,
            shared: access.shared,
        };
        self.ledger.complete(ctx, row, device == u16::MAX);
    }
}

impl RequestAgent for CachingRequester {
    request_agent_fields!(roots, ledger);

    /// Number of accesses, evictions and snoops in flight.
    fn in_flight(&self) -> u64 {
        self.accesses.len() + self.entries.len() + self.snoops.delayed.len() as u64
    }

    /// Whether the source has ended and nothing is in flight. An access of another requester may still snoop the cache.
    fn is_done(&self) -> bool {
        self.issuer.is_done() && self.rest.is_none() && self.in_flight() == 0
    }

    fn start(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.issuer.begin(ctx.now());
        if let Some(throttle) = &mut self.throttle {
            throttle.begin(ctx.now());
        }
        self.issue(ctx);
    }

    #[inline]
    fn receive_message(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, message: &Message) {
        let mut message = *message;
        message.hops += 1;
        match message.channel() {
            Channel::S2mBisnp => self.snoop(ctx, message, port),
            _ => self.respond(ctx, &message),
        }
    }

    #[inline(always)]
    fn leaves_buffer(message: &Message) -> bool {
        message.channel() != Channel::S2mBisnp
    }

    /// Handles a wake-up: for issuing, a port, or a cache hit.
    fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        if token == ISSUE {
            self.issuer.woken(ctx.now());
        } else if token >= above::SNOOP {
            self.wake_above(ctx, token);
        } else if token >= HIT {
            self.complete_hit(ctx, token - HIT);
        } else {
            self.roots.wake(ctx, token);
        }
        self.issue_pending(ctx);
    }

    /// Does everything that is possible now. Snoops come first; issuing can free an entry for them.
    fn issue_pending(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.take_delayed(ctx);
        self.issue(ctx);
        self.take_delayed(ctx);
    }

    fn reset_statistics(&mut self, _now: SimTime) {
        if let Some(throttle) = &mut self.throttle {
            throttle.begin_measurement();
        }
        self.coherence = CoherenceStats::default();
    }
}

const fn access_event(write: bool) -> Event {
    if write { Event::Store } else { Event::Load }
}

/// A step of the table for an event of the processor or the cache. Called only if the table has a row.
#[inline]
fn local_step(
    state: LineState,
    event: Event,
) -> (LineState, cxlab_protocol::coherence::requester::Actions) {
    match step(state, event) {
        Some(stepped) => stepped,
        None => unreachable!("a stable line takes every access and eviction"),
    }
}
