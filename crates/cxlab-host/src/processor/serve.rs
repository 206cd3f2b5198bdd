//! How the home agent serves a transaction that has its line: actions among the cores, actions of the table
//! for devices, and responses.

use cxlab_agent::{
    AccessOutcome, AccessResponse, CACHE, COHERENCE, HOST_QUEUE, MEDIA, PROCESS, STAGE_NAMES,
    WaitingAccess, stages_of,
};
use cxlab_cache::Slot;
use cxlab_engine::Ctx;
use cxlab_engine::units::{LineAddr, SimTime};
use cxlab_link::Parcel;
use cxlab_protocol::coherence::cache_home::{
    Action, CORES, CoreSnoopResult, Event, Filter, Phase, step,
};
use cxlab_protocol::coherence::cache_message::Request;
use cxlab_protocol::coherence::fields::GoState;
use cxlab_protocol::coherence::message::Snoop;
use cxlab_protocol::{LatencyStages, LongStage};

use super::Processor;
use super::caches::CoreState;
use super::home::{CopyAfterSnoop, SnoopedCores};
use super::llc::DirectoryEntry;
use super::params::DeviceEvictions;
use super::tokens::{FINISH, NONE};
use super::transactions::{Txn, TxnKind};

/// Stages that receive their time first if an access began later than its transaction.
const FIRST: [usize; 4] = [CACHE, PROCESS, MEDIA, COHERENCE];

/// The place on the die where a core's request finds its line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DataSource {
    /// The last-level cache, or the core itself.
    Here,
    /// Another core only.
    Core,
    /// No cache: the holders that the directory knew have evicted the line silently.
    Memory,
}

impl Processor {
    pub(super) fn proceed(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        let txn = self.home.txns[id];
        if std::mem::take(&mut self.home.txns[id].forwarded) {
            self.apply(ctx, id, Event::ReadDone);
            return;
        }
        if let Some(found) = self.home.txns[id].found.take() {
            match txn.state.is_busy() {
                true => self.apply(ctx, id, Event::CoresResponded(found)),
                false => self.conclude(ctx, id),
            }
            return;
        }
        if let TxnKind::Missing(request) = txn.kind {
            return self.answer_missing(ctx, id, request);
        }
        if std::mem::take(&mut self.home.txns[id].memory.missing) {
            return self.memory_answered(ctx, id);
        }
        let Some(slot) = txn.slot else {
            unreachable!("a transaction that waits has its line")
        };
        if !self.name(id) || !self.has_write_entries(ctx, id) {
            return;
        }
        let txn = self.home.txns[id];
        if self.must_recall(&txn) {
            self.home.txns[id].recalls = true;
            self.apply(ctx, id, Event::EvictEntry);
            return;
        }
        let cores = txn.state.filter.holders().contains(CORES);
        let alone = txn.state.filter == Filter::Any(CORES);
        match txn.kind {
            TxnKind::Read if cores && self.source(slot, txn.core) != DataSource::Memory => {
                let core = self.source(slot, txn.core) == DataSource::Core;
                let found = self.share_copies(slot, u32::from(txn.core), CopyAfterSnoop::Shared);
                self.on_die(ctx, id, found.dirty, found.snooped || core);
            }
            TxnKind::Own if alone && self.source(slot, txn.core) != DataSource::Memory => {
                let found = self.drop_copies(ctx, slot, u32::from(txn.core));
                self.on_die(ctx, id, found.dirty, found.snooped);
            }
            TxnKind::WriteBack => {
                let dirty = self.share_copies(slot, NONE, CopyAfterSnoop::Clean).dirty;
                let way = &mut self.home.llc[slot];
                if dirty | std::mem::take(&mut way.dirty) {
                    self.write_memory(ctx, txn.line, Some(id), NONE, true);
                }
                self.conclude(ctx, id);
            }
            TxnKind::Demote => {
                let state = self.cores[txn.core].caches.drop_line(txn.line);
                self.home.llc[slot].cores &= !(1 << txn.core);
                if state != CoreState::Invalid {
                    self.keep(ctx, slot, state == CoreState::Modified);
                }
                self.conclude(ctx, id);
            }
            TxnKind::Read => self.apply(ctx, id, Event::CoreRead),
            TxnKind::Own => self.apply(ctx, id, Event::CoreOwn),
            TxnKind::BackInvalidate if self.snoop_of(id).is_none() => self.conclude(ctx, id),
            TxnKind::Flush | TxnKind::BackInvalidate => self.flush(ctx, id, slot),
            TxnKind::Device(_) | TxnKind::DmaWrite | TxnKind::PageWrite
                if self.must_claim(&txn) =>
            {
                self.claim(ctx, id);
            }
            TxnKind::Device(Request::CleanEvict)
                if self.params.llc.device_evictions == DeviceEvictions::Llc =>
            {
                self.apply(ctx, id, Event::CleanEvictWanted(txn.request.peer));
            }
            TxnKind::Device(request) => {
                self.apply(ctx, id, Event::Request(txn.request.peer, request))
            }
            TxnKind::DmaRead
            | TxnKind::DmaWrite
            | TxnKind::PageRead
            | TxnKind::PageWrite
            | TxnKind::WalkRead => {
                let request = Self::dma_request(txn.kind);
                self.apply(ctx, id, Event::Request(txn.request.peer, request));
            }
            TxnKind::Recall => self.apply(ctx, id, Event::EvictEntry),
            TxnKind::Evict | TxnKind::Free | TxnKind::Missing(_) => {}
        }
    }

    /// Invalidates a line in the cores and in the last-level cache, and writes it if it is newer than memory.
    fn flush(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32, slot: Slot) {
        let txn = self.home.txns[id];
        let dirty = self.drop_copies(ctx, slot, NONE).dirty;
        self.home.llc.drop_data(slot);
        if dirty | std::mem::take(&mut self.home.llc[slot].dirty) {
            let keeps = !txn.state.filter.holders().without(CORES).is_empty();
            let shared = self.memory.shared.as_ref();
            if shared.is_some_and(|shared| shared.holds(txn.line)) || self.is_hdm_db(txn.line) {
                // Software may notify other hosts, or the device, of the flushed line, so the transaction
                // is over only when memory has the line.
                self.write_memory(ctx, txn.line, Some(id), id, keeps);
                return;
            }
            self.write_memory(ctx, txn.line, Some(id), NONE, keeps);
        }
        self.apply(ctx, id, Event::Request(CORES, Request::ClFlush));
    }

    /// Whether a transaction takes, without its data, a line of a Type 2 device that no cache here holds:
    /// the device must learn it, as it would from a read.
    fn must_claim(&self, txn: &Txn) -> bool {
        let request = match txn.kind {
            TxnKind::Device(request) => request,
            kind => Self::dma_request(kind),
        };
        let without_data = matches!(
            request,
            Request::RdOwnNoData
                | Request::ItoMWr
                | Request::WrCur
                | Request::WrInv
                | Request::WoWrInv
                | Request::WoWrInvF
        );
        without_data
            && txn.state.filter == Filter::Invalid
            && !txn.memory.claimed
            && self.is_device_biased(txn.line)
    }

    /// Where a core's request finds its line, if the directory gives the line to the cores.
    fn source(&self, slot: Slot, core: u16) -> DataSource {
        let way = &self.home.llc[slot];
        let me = 1 << core;
        if way.data || way.cores & me != 0 || !self.home.llc.is_victim_cache() {
            DataSource::Here
        } else if way.cores != 0 {
            DataSource::Core
        } else {
            DataSource::Memory
        }
    }

    /// Serves a request among the cores; `snooped` says whether a core had to be snooped.
    fn on_die(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32, dirty: bool, snooped: bool) {
        let txn = &mut self.home.txns[id];
        if let Some(slot) = txn.slot {
            self.home.llc[slot].dirty |= dirty;
        }
        if snooped {
            txn.found = Some(CoreSnoopResult::Clean);
            ctx.wake_at(ctx.now() + self.params.snoop_time, FINISH | id);
        } else {
            self.conclude(ctx, id);
        }
    }

    /// Applies an event of a line to the table, and performs its actions.
    ///
    /// # Panics
    /// If the table has no row for the event: a message broke the protocol, which is an error in cxlab.
    pub(super) fn apply(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32, event: Event) {
        let mut pending = Some(event);
        while let Some(event) = pending.take() {
            let before = self.home.txns[id].state;
            let Some((next, actions)) = step(before, event) else {
                panic!("{event:?} in {before:?} breaks CXL.cache")
            };
            self.home.txns[id].state = next;
            for action in actions.iter() {
                pending = self.act(ctx, id, action).or(pending);
            }
        }
        if !self.home.txns[id].state.is_busy() {
            self.conclude(ctx, id);
        }
    }

    /// Performs an action of the table. Returns the event that follows at once, if any.
    fn act(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32, action: Action) -> Option<Event> {
        let txn = self.home.txns[id];
        let slot = txn.slot?;
        match action {
            Action::Snoop(snoop, peers) => self.snoop_devices(ctx, id, snoop, peers),
            Action::SnoopCores(snoop) => return self.snoop_cores(ctx, id, slot, snoop),
            Action::ReadLlc if self.home.llc[slot].data => return Some(Event::ReadDone),
            Action::ReadLlc if self.home.llc[slot].cores != 0 => {
                // Only cores have the line: the requesting core, or another.
                if txn.is_miss() && self.source(slot, txn.core) == DataSource::Here {
                    return Some(Event::ReadDone);
                }
                self.stats.core_snoops += 1;
                self.home.txns[id].forwarded = true;
                ctx.wake_at(ctx.now() + self.params.snoop_time, FINISH | id);
            }
            Action::ReadMemory | Action::ReadLlc => {
                self.stats.memory_reads += 1;
                self.read_or_wait(ctx, id);
            }
            Action::WriteMemory => {
                let waits = matches!(txn.state.phase, Phase::Writing(_));
                self.home.llc[slot].dirty = false;
                let keeps = txn.state.filter != Filter::Invalid;
                let parent = if waits { id } else { NONE };
                self.write_memory(ctx, txn.line, Some(id), parent, keeps);
            }
            Action::WriteLlc => self.keep(ctx, slot, true),
            Action::FillLlc => self.keep(ctx, slot, false),
            Action::Respond(..) if txn.kind == TxnKind::DmaRead => self.dma_read(ctx, id),
            Action::Respond(..) if txn.kind == TxnKind::DmaWrite => {
                self.dma_write(ctx, id);
                return Some(Event::PulledData(false));
            }
            Action::Respond(..) if txn.kind == TxnKind::PageWrite => {
                self.page_write(ctx, &txn);
                return Some(Event::PulledData(false));
            }
            Action::Respond(..) if matches!(txn.kind, TxnKind::PageRead | TxnKind::WalkRead) => {}
            Action::Respond(_, reply) => self.reply(ctx, id, reply),
            Action::GrantCores(GoState::Invalid) => {}
            Action::GrantCores(state) => {
                let fills = !self.home.llc.is_victim_cache();
                let way = &mut self.home.llc[slot];
                way.data |= fills;
                way.dirty |= state == GoState::Modified;
            }
        }
        None
    }

    /// Applies a snoop to the cores and the last-level cache.
    fn snoop_cores(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        id: u32,
        slot: Slot,
        snoop: Snoop,
    ) -> Option<Event> {
        // If the last-level cache has no copy, one of the cores has to supply the data.
        let data = self.home.llc[slot].data;
        let by_core = !data && self.home.llc[slot].cores != 0;
        let SnoopedCores { dirty, snooped } = match snoop {
            Snoop::Inv => self.drop_copies(ctx, slot, NONE),
            Snoop::Data => self.share_copies(slot, NONE, CopyAfterSnoop::Shared),
            Snoop::Cur if data => self.share_copies(slot, NONE, CopyAfterSnoop::Clean),
            Snoop::Cur => self.share_copies(slot, NONE, CopyAfterSnoop::AsItIs),
        };
        let way = &mut self.home.llc[slot];
        let dirty = dirty | way.dirty;
        let found = match (data || by_core, dirty) {
            (_, true) => CoreSnoopResult::Dirty,
            (true, false) => CoreSnoopResult::Clean,
            (false, false) => CoreSnoopResult::Nothing,
        };
        // A read of the current value leaves the line unchanged; other snoops hand the modified data
        // over, or have it written.
        way.dirty = dirty && data && snoop == Snoop::Cur;
        if snoop == Snoop::Inv {
            self.home.llc.drop_data(slot);
        }
        if !snooped && !by_core {
            return Some(Event::CoresResponded(found));
        }
        self.home.txns[id].found = Some(found);
        ctx.wake_at(ctx.now() + self.params.snoop_time, FINISH | id);
        None
    }

    pub(super) fn is_snooping(&self, id: u32) -> bool {
        matches!(self.home.txns[id].state.phase, Phase::Snooping(_))
    }

    /// Ends a transaction: its accesses take effect, and the next transaction gets the line.
    fn conclude(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        let txn = self.home.txns[id];
        let Some(slot) = txn.slot else {
            unreachable!("a transaction that is over had its line")
        };
        self.home.llc[slot].filter = txn.state.filter;
        if std::mem::take(&mut self.home.txns[id].recalls) {
            return self.proceed(ctx, id);
        }
        if txn.kind == TxnKind::Flush && !txn.memory.claimed && self.is_hdm_db(txn.line) {
            // The other caches invalidate the line as well.
            return self.claim(ctx, id);
        }
        self.forget_flushed(ctx, slot);
        if txn.kind == TxnKind::Own {
            // The table covers devices; the other cores are snooped here.
            let found = self.drop_copies(ctx, slot, u32::from(txn.core));
            self.home.llc[slot].dirty |= found.dirty;
        }
        if txn.memory.outcome != AccessOutcome::Served {
            self.give_up(ctx, &txn, slot);
        } else if txn.is_miss() {
            self.grant(ctx, &txn, slot);
        }
        self.answer(ctx, id);
        // Other transactions may have queued for the line meanwhile.
        let txn = self.home.txns[id];
        self.release(ctx, &txn, slot);
        self.home.txns.close(id);
        self.unname(ctx, txn.request.uqid);
        self.return_entries(ctx, id);
        let reads_itself = match txn.kind {
            TxnKind::PageRead | TxnKind::WalkRead => true,
            TxnKind::Read => txn.walk != NONE,
            _ => false,
        };
        if reads_itself && self.hw_threads.is_poison(txn.line) {
            self.machine_check(ctx);
        }
        match txn.kind {
            TxnKind::BackInvalidate => self.gave_up(ctx, id),
            TxnKind::DmaWrite => self.dma_written(ctx, &txn),
            TxnKind::PageRead => self.page_read(ctx, &txn),
            TxnKind::PageWrite => self.page_written(ctx, &txn),
            TxnKind::WalkRead => self.device_walk_read(ctx, &txn),
            TxnKind::Read => self.walk_read(ctx, &txn),
            _ => {}
        }
        self.retry(ctx, &txn);
    }

    /// Inserts the line into the caches of the requesting core.
    fn grant(&mut self, ctx: &mut Ctx<'_, Parcel>, txn: &Txn, slot: Slot) {
        let me = 1 << txn.core;
        let others = self.home.llc[slot].cores & !me;
        let alone = txn.state.filter == Filter::Any(CORES);
        let held = match txn.kind {
            TxnKind::Own => CoreState::Modified,
            _ if others == 0 && alone => CoreState::Exclusive,
            _ => CoreState::Shared,
        };
        let held = self.hand_over(ctx, slot, held);
        self.home.llc[slot].cores |= me;
        self.hw_threads.filled(txn.core, txn.line);
        let core = &mut self.cores[txn.core];
        let held = held.max(core.caches.held(txn.line));
        if let Some((line, state)) = core.caches.insert(txn.line, held) {
            self.left_core(ctx, line, state, txn.core);
        }
        let core = &mut self.cores[txn.core];
        if let Some(index) = core
            .outstanding
            .iter()
            .position(|(line, _)| *line == txn.line)
        {
            core.outstanding.swap_remove(index);
        }
    }

    /// Hands a line of a non-inclusive cache to a core. The cache drops a line that the core takes exclusively, and
    /// stores modified data of a line that several cores share. Returns the state of the core's copy.
    fn hand_over(&mut self, ctx: &mut Ctx<'_, Parcel>, slot: Slot, held: CoreState) -> CoreState {
        if !self.home.llc.is_victim_cache() {
            return held;
        }
        let DirectoryEntry { data, dirty, .. } = self.home.llc[slot];
        match held {
            CoreState::Exclusive | CoreState::Modified => {
                self.home.llc.drop_data(slot);
                self.home.llc[slot].dirty = false;
                if dirty { CoreState::Modified } else { held }
            }
            _ => {
                if dirty && !data {
                    self.keep(ctx, slot, true);
                }
                held
            }
        }
    }

    /// Handles a line that a core's caches have evicted in this state.
    fn left_core(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        line: LineAddr,
        state: CoreState,
        core: u16,
    ) {
        let Some(slot) = self.home.llc.find(line) else {
            unreachable!("the directory knows what private caches hold")
        };
        self.home.llc[slot].cores &= !(1 << core);
        self.keep(ctx, slot, state == CoreState::Modified);
        self.home.llc.settle(slot);
    }

    /// Lets the accesses of a transaction take effect in order, as far as the core's copy allows. For the
    /// others the core sends a new request, in the slot that the transaction had.
    fn answer(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        let txn = self.home.txns[id];
        let now = ctx.now();
        let completes = now + self.params.mesh_time;
        let mut waiter = txn.first;
        while waiter != NONE {
            let is_first = waiter == txn.first;
            let WaitingAccess {
                access,
                begun,
                next,
            } = self.home.txns.take_waiter(waiter);
            waiter = next;
            let response = self.response_to(&txn, now.0, begun, completes);
            if response.outcome != AccessOutcome::Served {
                if response.outcome == AccessOutcome::Denied {
                    self.access_denied(&access);
                }
                self.over(ctx, &access, response);
                self.poisoned(ctx, access.op, access.kind);
                continue;
            }
            if !txn.is_miss() {
                self.over(ctx, &access, response);
                continue;
            }
            let caches = &mut self.cores[txn.core].caches;
            match caches.access(txn.line, access.kind.owns()) {
                Some(_) => self.take_effect(ctx, &access, response),
                None if is_first => {
                    panic!("the access that requested {:?} has no copy", txn.line)
                }
                None if self.merge(txn.core, &access, SimTime(begun)) => {}
                None => self.send_request(ctx, txn.core, &access, SimTime(begun)),
            }
        }
    }

    /// The latency stages of an access; `HOST_QUEUE` receives the rest.
    fn response_to(&self, txn: &Txn, now: u64, begun: u64, completes: SimTime) -> AccessResponse {
        let total = completes.0 - begun;
        // Stages of the message to CXL memory; empty if there was none.
        let message_stages = match txn.kind {
            TxnKind::Device(_) => LatencyStages::default(),
            _ => txn.stages,
        };
        let process = 2 * self.params.mesh_time.0 + txn.memory.round_trip_ps;
        let mut parts = stages_of(&message_stages, process, self.params.lookup().0);
        let outside = message_stages.total().0 - message_stages.of(LongStage::Media);
        parts[MEDIA] = txn.memory.media_ps;
        if !matches!(txn.memory.outcome, AccessOutcome::Failed(_)) {
            let memory = outside + txn.memory.media_ps + txn.memory.round_trip_ps;
            parts[COHERENCE] += now - txn.times.arrived - txn.times.waited_ps - memory;
        }
        let mut stages = [0; STAGE_NAMES.len()];
        let mut left = total;
        for stage in FIRST.into_iter().chain(0..STAGE_NAMES.len()) {
            let part = (parts[stage] - stages[stage]).min(left);
            stages[stage] += part;
            left -= part;
        }
        stages[HOST_QUEUE] += left;
        AccessResponse {
            begun: SimTime(begun),
            completes,
            device: txn.memory.device,
            hops: txn.memory.hops,
            stages,
            outcome: txn.memory.outcome,
        }
    }

    /// Releases the line of a transaction: the entry may be evicted for transactions that wait for its set,
    /// or the next transaction gets the line.
    fn release(&mut self, ctx: &mut Ctx<'_, Parcel>, txn: &Txn, slot: Slot) {
        self.home.llc[slot].txn = NONE;
        self.home.llc.unpin(slot);
        let set = self.home.llc.set_of(txn.line);
        self.recalled(txn.kind, set);
        self.serve_set(ctx, set);
        let mut waiting = txn.next;
        while waiting != NONE {
            let next = std::mem::replace(&mut self.home.txns[waiting].next, NONE);
            self.admit(ctx, waiting);
            waiting = next;
        }
    }

    /// Retries transactions and accesses that wait for entries.
    fn retry(&mut self, ctx: &mut Ctx<'_, Parcel>, txn: &Txn) {
        self.admit_stalled(ctx);
        if txn.is_miss() {
            self.run_core(ctx, txn.core);
        }
    }
}
