//! The host-memory cache (HMC) of an accelerator: lines of host memory, cached over CXL.cache.
//!
//! The table [`cxlab_protocol::coherence::cache_agent`] decides what happens to a line. This module adds the timing and
//! the bounded resources. A request allocates a CQID, and so does the eviction of the line that makes space for it.
//! Accesses to a line with a transaction in flight wait for that transaction, in order.

use cxlab_agent::{Access, AccessKind, AccessResponse, WaitingAccess, WaitingAccesses};
use cxlab_cache::prefetch::{PageAccessResult, PrefetchCandidates};
use cxlab_cache::{SetRoom, Slot};
use cxlab_engine::Ctx;
use cxlab_engine::units::{LineAddr, SimTime};
use cxlab_link::Parcel;
use cxlab_protocol::coherence::cache_agent::{Action, Event, Line, LineState, step};
use serde::{Deserialize, Serialize};

use super::{Accelerator, HmcParams, LoadRequest, StoreRequest};

pub(super) const NONE: u32 = u32::MAX;

/// Lines of a page of 4 KiB.
const PAGE_LINES: u64 = 64;

/// A line in the cache.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct CacheWay {
    /// Entry of the transaction in flight, which then has the line's state; or `NONE`.
    pub(super) entry: u32,
    /// Coherence state: I, S, E or M.
    pub(super) line: Line,
    /// Time up to which an atomic operation locks the line.
    pub(super) locked_until_ps: u64,
}

impl Default for CacheWay {
    fn default() -> Self {
        CacheWay {
            entry: NONE,
            line: Line::I,
            locked_until_ps: 0,
        }
    }
}

/// A transaction in flight; its number is its CQID.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct TransactionEntry {
    pub(super) line: LineAddr,
    pub(super) state: LineState,
    pub(super) slot: Option<Slot>,
    /// Queue of the accesses that wait for the transaction: first and last.
    pub(super) first: u32,
    pub(super) last: u32,
    /// UQID of a snoop whose data have to follow.
    pub(super) snoop: u16,
    pub(super) used: bool,
    /// Whether the transaction was made for the first waiting access; prefetches are made for none.
    pub(super) asked: bool,
    /// Whether the transaction recalls a line of the attached memory from the host.
    pub(super) flip: bool,
    /// Number of pushes after the first that the transaction carries to the host.
    pub(super) with: u32,
    /// Whether the load that the transaction was made for read poison, in a copy that a snoop took.
    pub(super) poison: bool,
}

impl Default for TransactionEntry {
    fn default() -> Self {
        TransactionEntry {
            line: LineAddr(0),
            state: LineState::default(),
            slot: None,
            first: NONE,
            last: NONE,
            snoop: 0,
            used: false,
            flip: false,
            asked: false,
            with: 0,
            poison: false,
        }
    }
}

/// The transactions of the cache's lines.
#[derive(Serialize, Deserialize)]
pub(super) struct CacheTransactions {
    /// The entries, by CQID.
    pub(super) entries: Vec<TransactionEntry>,
    pub(super) free: Vec<u32>,
    /// Entries of lines without a way in the cache. There are few, so they are searched linearly.
    pub(super) leaving: Vec<u32>,
    pub(super) waiters: WaitingAccesses,
}

impl CacheTransactions {
    pub(super) fn new(entries: u32) -> CacheTransactions {
        CacheTransactions {
            entries: vec![TransactionEntry::default(); entries as usize],
            free: (0..entries).rev().collect(),
            leaving: Vec::with_capacity(entries as usize),
            waiters: WaitingAccesses::default(),
        }
    }

    pub(super) fn in_flight(&self) -> u64 {
        (self.entries.len() - self.free.len()) as u64
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LookupAttempt {
    /// Its first lookup: the access has not begun.
    Fresh,
    /// A repeated lookup: the access has begun, and waited.
    Again,
    /// As `Again`, and the access is next in line after an atomic operation.
    InTurn,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LookupOutcome {
    /// The access is complete, or will be at a known time.
    Done,
    /// The access waits for a transaction, a lock or the medium.
    Waits,
    /// The access needs a CQID or a way, and none is free.
    Blocked,
}

/// Counters since measurement began.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub(super) struct HmcStats {
    pub(super) hits: u64,
    pub(super) misses: u64,
    pub(super) merged: u64,
    pub(super) upgrades: u64,
    pub(super) dirty_evictions: u64,
    pub(super) clean_evictions: u64,
    pub(super) pushes: u64,
    pub(super) machine_checks: u64,
    pub(super) reads_once: u64,
    pub(super) writes: u64,
    pub(super) prefetches: u64,
    pub(super) snoops: u64,
    pub(super) snooped_modified: u64,
}

impl Accelerator {
    /// Begins an access to host memory or attached memory; false when no CQID or way is free for it.
    pub(super) fn cached(&mut self, ctx: &mut Ctx<'_, Parcel>, access: &Access) -> bool {
        let now = ctx.now();
        let hw_thread = self.hw_threads.thread_of(access.op);
        let line = access.line();
        let was = self.cache.find(line).is_some();
        let begins = self.look_for_element(ctx, access, hw_thread as u32);
        if begins && !self.owns_line(line) {
            self.prefetch_ahead(ctx, line, was);
        }
        if begins {
            self.cache_free = now.0 + self.params.cycle.0;
            self.queues.port_turns.take();
        }
        begins
    }

    /// Looks up the line of an access, and starts what the access needs.
    pub(super) fn look(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        access: &Access,
        begun: SimTime,
        how: LookupAttempt,
    ) -> LookupOutcome {
        let fresh = how == LookupAttempt::Fresh;
        let line = access.line();
        let slot = self.cache.find(line);
        let busy = match slot {
            Some(slot) => self.cache[slot].entry,
            None => self.leaving(line),
        };
        if busy != NONE {
            self.begin(access, ctx.now(), fresh);
            self.wait_for(busy, *access, begun);
            self.hmc.merged += 1;
            return LookupOutcome::Waits;
        }
        let is_own_line = self.owns_line(line);
        if how != LookupAttempt::InTurn {
            let locked = match slot {
                Some(slot) => self.cache[slot].locked_until_ps,
                None if is_own_line => self.locked_until(line),
                None => 0,
            };
            if self.waits_for_lock(ctx, access, begun, locked) {
                self.begin(access, ctx.now(), fresh);
                return LookupOutcome::Waits;
            }
        }
        if is_own_line && !self.is_host_biased(line) {
            self.begin(access, ctx.now(), fresh);
            self.local(ctx, access, begun);
            return LookupOutcome::Waits;
        }
        let state = slot.map_or(Line::I, |slot| self.cache[slot].line);
        let event = match is_own_line {
            true => Event::Flush,
            false => event_of(access, state, &self.params.cache),
        };
        let Some((next, actions)) = step(LineState::stable(state), event) else {
            // A demotion or write-back of a line that is not modified has no effect.
            self.begin(access, ctx.now(), fresh);
            self.over(ctx, access, AccessResponse::by_cache(begun, ctx.now()));
            return LookupOutcome::Done;
        };
        let asks = actions
            .iter()
            .any(|action| matches!(action, Action::Send(_)));
        if !asks {
            self.begin(access, ctx.now(), fresh);
            if let Some(slot) = slot {
                self.cache[slot].line = next.line;
                self.cache.touch(slot);
                self.hit(ctx, access, begun, slot);
            }
            return LookupOutcome::Done;
        }
        let Some(id) = self.make_room(ctx, line, slot, next.line) else {
            return LookupOutcome::Blocked;
        };
        self.begin(access, ctx.now(), fresh);
        self.hmc.upgrades += u64::from(slot.is_some());
        self.hmc.misses += u64::from(slot.is_none());
        self.transactions.entries[id as usize].state = next;
        self.transactions.entries[id as usize].flip = is_own_line;
        if let Some(memory) = &mut self.attached_memory {
            memory.bias.pass();
        }
        if is_own_line {
            self.flip_asks(ctx, line);
        }
        let response = AccessResponse::by_cache(begun, ctx.now());
        if access.kind == AccessKind::Prefetch {
            self.over(ctx, access, response);
        } else {
            self.hw_threads.image().prefetch(access.hpa);
            self.wait_for(id, *access, begun);
            self.transactions.entries[id as usize].asked = true;
        }
        for action in actions.iter() {
            self.act(ctx, id, action, None);
        }
        match is_own_line {
            true => self.go_on_flipping(ctx),
            false => self.flip_in_turn(ctx),
        }
        LookupOutcome::Waits
    }

    /// Informs the prefetcher of an access, and requests the lines that it returns.
    fn prefetch_ahead(&mut self, ctx: &mut Ctx<'_, Parcel>, line: LineAddr, hit: bool) {
        let Some(prefetcher) = &mut self.prefetcher else {
            return;
        };
        let mut wanted = PrefetchCandidates::default();
        let outcome = match hit {
            true => PageAccessResult::Hit,
            false => PageAccessResult::Miss,
        };
        prefetcher.accessed(line.0, outcome, &mut wanted);
        for wanted in wanted.as_slice() {
            // With virtual addresses, the next physical page may belong to another page of the process.
            if self.translator.is_none() || wanted / PAGE_LINES == line.0 / PAGE_LINES {
                self.prefetch(ctx, LineAddr(*wanted));
            }
        }
    }

    /// Prefetches a line, unless it is cached or in flight, or resources are short.
    fn prefetch(&mut self, ctx: &mut Ctx<'_, Parcel>, line: LineAddr) {
        let known = self.cache.find(line).is_some() || self.leaving(line) != NONE;
        let exists = |(first, end): &(u64, u64)| (*first..*end).contains(&line.0);
        if known
            || self.transactions.free.len() <= self.transactions.entries.len() / 2
            || !self.memory.iter().any(exists)
            || self.owns_line(line)
        {
            return;
        }
        let load = match self.params.cache.load_request {
            LoadRequest::RdShared => Event::LoadShared,
            LoadRequest::RdAny | LoadRequest::RdCurr => Event::Load,
        };
        let Some((next, actions)) = step(LineState::stable(Line::I), load) else {
            return;
        };
        let Some(id) = self.make_room(ctx, line, None, next.line) else {
            return;
        };
        self.hmc.prefetches += 1;
        self.transactions.entries[id as usize].state = next;
        for action in actions.iter() {
            self.act(ctx, id, action, None);
        }
    }

    fn begin(&mut self, access: &Access, now: SimTime, fresh: bool) {
        if fresh {
            self.hw_threads.access_begun(access, now);
        }
    }

    /// Allocates a CQID, and a way in the cache if the line will be kept; `None` if that is
    /// impossible. The way may need an eviction, which takes a CQID too.
    pub(super) fn make_room(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        line: LineAddr,
        slot: Option<Slot>,
        next: Line,
    ) -> Option<u32> {
        let keeps = slot.is_some() || !is_write(next);
        if self.transactions.free.is_empty() || !self.queues.may_allocate() {
            return None;
        }
        let slot = match slot {
            Some(slot) => Some(slot),
            None if !keeps => None,
            None => match self.cache.room(line) {
                SetRoom::Free => Some(self.cache.insert(line, CacheWay::default())),
                SetRoom::Pinned => return None,
                SetRoom::Evict(block) => {
                    let victim = self.cache.find(block.victim)?;
                    let silent =
                        self.cache[victim].line != Line::M && !self.params.cache.clean_evict;
                    if silent {
                        self.drop_clean(victim);
                    } else {
                        self.evict(ctx, victim);
                        if self.transactions.free.is_empty() {
                            return None;
                        }
                    }
                    Some(self.cache.insert(line, CacheWay::default()))
                }
            },
        };
        let id = self.transactions.free.pop()?;
        self.transactions.entries[id as usize] = TransactionEntry {
            line,
            slot,
            used: true,
            ..TransactionEntry::default()
        };
        match slot {
            Some(slot) => {
                self.cache[slot].entry = id;
                self.cache.pin(slot);
            }
            None => self.transactions.leaving.push(id),
        }
        Some(id)
    }

    /// Evicts a clean line without a message.
    pub(super) fn drop_clean(&mut self, slot: Slot) {
        let (_, way) = self.cache.remove(slot);
        debug_assert!(step(LineState::stable(way.line), Event::EvictSilently).is_some());
        self.hmc.clean_evictions += 1;
    }

    /// Evicts a line with a message to the host.
    pub(super) fn evict(&mut self, ctx: &mut Ctx<'_, Parcel>, slot: Slot) {
        let (line, way) = self.cache.remove(slot);
        let event = match way.line {
            Line::E if self.params.cache.clean_evict_data => Event::EvictWithData,
            _ => Event::Evict,
        };
        let Some((next, actions)) = step(LineState::stable(way.line), event) else {
            unreachable!("a settled line can be evicted")
        };
        let Some(id) = self.transactions.free.pop() else {
            unreachable!("there is a free CQID")
        };
        match way.line {
            Line::M => self.hmc.dirty_evictions += 1,
            _ => self.hmc.clean_evictions += 1,
        }
        self.transactions.entries[id as usize] = TransactionEntry {
            line,
            state: next,
            used: true,
            ..TransactionEntry::default()
        };
        self.transactions.leaving.push(id);
        for action in actions.iter() {
            self.act(ctx, id, action, None);
        }
    }

    /// The entry in flight for a line that has no way in the cache, or `NONE`.
    pub(super) fn leaving(&self, line: LineAddr) -> u32 {
        let mut leaving = self.transactions.leaving.iter();
        let found = leaving.find(|id| self.transactions.entries[**id as usize].line == line);
        found.copied().unwrap_or(NONE)
    }

    fn wait_for(&mut self, id: u32, access: Access, begun: SimTime) {
        let CacheTransactions {
            entries, waiters, ..
        } = &mut self.transactions;
        let entry = &mut entries[id as usize];
        waiters.append(&mut entry.first, &mut entry.last, access, begun);
    }

    /// Takes the access that an entry was made for, if that access still waits.
    pub(super) fn take_first(&mut self, id: u32) -> Option<WaitingAccess> {
        let asked = std::mem::take(&mut self.transactions.entries[id as usize].asked);
        asked.then(|| self.take_next(id)).flatten()
    }

    /// Takes the first access that waits for an entry.
    pub(super) fn take_next(&mut self, id: u32) -> Option<WaitingAccess> {
        let entry = &mut self.transactions.entries[id as usize];
        let first = entry.first;
        if first == NONE {
            return None;
        }
        let waiter = self.transactions.waiters.take(first);
        entry.first = waiter.next;
        if waiter.next == NONE {
            entry.last = NONE;
        }
        Some(waiter)
    }

    fn hit(&mut self, ctx: &mut Ctx<'_, Parcel>, access: &Access, begun: SimTime, slot: Slot) {
        self.hmc.hits += 1;
        let mut completes = ctx.now() + self.cycles(self.params.cache.hit_cycles);
        if access.kind == AccessKind::Atomic {
            completes += self.cycles(self.params.atomic_cycles);
            self.cache[slot].locked_until_ps = completes.0;
        }
        self.hw_threads.used(0, access.line());
        self.take_effect(ctx, access, AccessResponse::by_cache(begun, completes));
    }

    /// Performs an access to the copy in a cache. The access fails if it consumes poison, spins if it
    /// waits for another value, and otherwise completes with `response`.
    #[inline]
    pub(super) fn take_effect(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        access: &Access,
        response: AccessResponse,
    ) {
        if self.perform(access, true) {
            self.poisoned(
                ctx,
                access,
                AccessResponse::by_cache(response.begun, response.completes),
            );
        } else if self.hw_threads.waits_on(access) {
            self.spin(ctx, access);
        } else {
            self.over(ctx, access, response);
            if access.kind.writes() {
                self.changed(ctx, access.line());
            }
        }
    }

    /// Performs a write into the host when the host pulls its data. Returns whether only some bytes of the line are
    /// written. While a push waits for the pull, its bytes are in a buffer of the line's size, so pushes of the same
    /// line that directly follow in the queue are sent along with it.
    pub(super) fn pulled(&mut self, id: u32) -> bool {
        let mut waiter = self.transactions.entries[id as usize].first;
        let mut count: u32 = 0;
        let partial = waiter != NONE && {
            let access = self.transactions.waiters.get(waiter).access;
            access.kind == AccessKind::Store && !access.is_whole()
        };
        while waiter != NONE {
            let WaitingAccess { access, next, .. } = *self.transactions.waiters.get(waiter);
            if count > 0 && access.kind != AccessKind::Push {
                break;
            }
            self.perform(&access, false);
            count += 1;
            waiter = match access.kind {
                AccessKind::Push => next,
                _ => NONE,
            };
        }
        self.transactions.entries[id as usize].with = count.saturating_sub(1);
        partial
    }

    /// Performs an access unless it consumes poison, in which case the result is true. `holds` is
    /// whether the line is in the cache, and not on its way to the host.
    pub(super) fn perform(&mut self, access: &Access, holds: bool) -> bool {
        if self.hw_threads.consumes_poison(access) {
            return true;
        }
        self.hw_threads.perform(access);
        if access.kind.writes() {
            self.hw_threads.written(holds.then_some(0), access.line());
        }
        false
    }
}

/// Whether a transaction ends without a copy in the cache: a write into the host, or a flush.
fn is_write(line: Line) -> bool {
    matches!(
        line,
        Line::IwA | Line::IuA | Line::IvA | Line::IfA | Line::IcD
    )
}

fn event_of(access: &Access, held: Line, cache: &HmcParams) -> Event {
    use StoreRequest as Stores;
    let is_whole = access.is_whole();
    match access.kind {
        AccessKind::Load if held == Line::I => match cache.load_request {
            LoadRequest::RdAny => Event::Load,
            LoadRequest::RdShared => Event::LoadShared,
            LoadRequest::RdCurr => Event::LoadOnce,
        },
        AccessKind::Store if held == Line::I && cache.store_request != Stores::RdOwn => {
            match (cache.store_request, is_whole) {
                (Stores::ItoMWr, true) => Event::WriteOwn,
                (Stores::WrCur, true) => Event::WriteCurrent,
                (Stores::WrInv, _) => Event::WriteThrough,
                (Stores::WOWrInv, true) => Event::WriteWeakly,
                (Stores::WOWrInv, false) => Event::WriteWeaklyPart,
                (Stores::RdOwn | Stores::ItoMWr | Stores::WrCur, _) => Event::Store,
            }
        }
        AccessKind::LoadToStore if matches!(held, Line::I | Line::S) => Event::Store,
        AccessKind::Load | AccessKind::LoadToStore | AccessKind::Prefetch => Event::Load,
        AccessKind::Store if is_whole => Event::StoreLine,
        AccessKind::Store | AccessKind::Atomic => Event::Store,
        AccessKind::Push => Event::Push,
        AccessKind::Flush if held == Line::I => Event::Flush,
        AccessKind::Flush | AccessKind::WriteBack | AccessKind::Demote => Event::Evict,
    }
}
