//! The home agent: transactions of lines, one at a time for each line, and the last-level cache with the directory.
//!
//! The table [`cxlab_protocol::coherence::cache_home`] decides the actions for a line; this module adds
//! time and capacity. In the table, cores and last-level cache are a single holder. Requests of cores for
//! lines that this holder may use are therefore served here, without the table.

use cxlab_agent::{Access, AccessKind};
use cxlab_cache::{GeometryError, Slot};
use cxlab_engine::Ctx;
use cxlab_engine::save_state;
use cxlab_engine::units::SimTime;
use cxlab_link::Parcel;
use cxlab_protocol::Message;
use cxlab_protocol::coherence::cache_home::{CORES, LineState};

use super::Processor;
use super::admission::WaitingSets;
use super::back_invalidation::PendingSnoop;
use super::caches::CoreState;
use super::devices::Uqids;
use super::flushed::PendingCacheFlush;
use super::llc::Llc;
use super::params::ProcessorParams;
use super::tokens::{ARRIVE, FINISH, NONE};
use super::transactions::{Transactions, Txn, TxnKind};
use super::writes::WriteBuffer;

/// The copy of a line that cores keep after a snoop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CopyAfterSnoop {
    /// A shared copy.
    Shared,
    /// A copy that agrees with memory, or with the last-level cache.
    Clean,
    /// Their copy, unchanged.
    AsItIs,
}

/// The result of a snoop of the cores of a host.
#[derive(Clone, Copy, Default)]
pub(super) struct SnoopedCores {
    /// Whether a core had the line modified.
    pub(super) dirty: bool,
    /// Whether a core had to be snooped, which takes time: a core had a copy (invalidation), or an exclusive or
    /// modified one (other snoops).
    pub(super) snooped: bool,
}

/// The home agent of a processor: its transactions, last-level cache, directory and write buffer.
pub(super) struct HomeAgent {
    pub(super) txns: Transactions,
    pub(super) llc: Llc,
    pub(super) uqids: Uqids,
    /// When the home agent accepts the next request of a device, in picoseconds.
    pub(super) free_at: u64,
    pub(super) writes: WriteBuffer,
    /// Transactions that wait for directory entries.
    pub(super) admission: WaitingSets,
    /// Responses that grant devices lines of their own memory with a write in flight.
    pub(super) held_grants: Vec<Message>,
    /// Snoops without a response of accelerators that keep their own memory coherent.
    pub(super) snooped: Vec<PendingSnoop>,
    /// Devices whose `CacheFlushed` has no response yet.
    pub(super) flushed: Vec<PendingCacheFlush>,
}

save_state!(HomeAgent {
    values: txns, free_at, writes, admission, held_grants, snooped, flushed;
    states: llc, uqids;
});

impl HomeAgent {
    /// The home agent with an empty directory.
    ///
    /// # Errors
    /// If an array of directory or cache has more lines than a tag array can hold.
    pub(super) fn new(params: &ProcessorParams) -> Result<HomeAgent, GeometryError> {
        Ok(HomeAgent {
            txns: Transactions::new((params.cores * params.misses) as usize),
            llc: Llc::new(params)?,
            uqids: Uqids::new(),
            free_at: 0,
            writes: WriteBuffer::new(params.llc.write_buffer),
            admission: WaitingSets::default(),
            held_grants: Vec::new(),
            snooped: Vec::new(),
            flushed: Vec::new(),
        })
    }
}

impl Processor {
    /// Sends a request of a core to the home agent on behalf of an access.
    pub(super) fn send_request(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        core: u16,
        access: &Access,
        begun: SimTime,
    ) {
        let kind = match access.kind {
            AccessKind::Load | AccessKind::Prefetch => TxnKind::Read,
            AccessKind::LoadToStore | AccessKind::Store | AccessKind::Atomic | AccessKind::Push => {
                TxnKind::Own
            }
            AccessKind::Flush => TxnKind::Flush,
            AccessKind::WriteBack => TxnKind::WriteBack,
            AccessKind::Demote => TxnKind::Demote,
        };
        let line = access.line();
        let id = self.home.txns.open(Txn::new(line, kind, core));
        if matches!(kind, TxnKind::Read | TxnKind::Own) {
            self.cores[core].outstanding.push((line, id));
        }
        self.home.txns.wait_behind(id, *access, begun);
        self.stats.core_requests += 1;
        let arrival = ctx.now() + self.params.lookup() + self.params.mesh_time;
        ctx.wake_at(arrival, ARRIVE | id);
    }

    /// Handles the arrival of a core's request at the home agent.
    pub(super) fn arrive(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        self.home.txns[id].times.arrived = ctx.now().0;
        self.admit(ctx, id);
    }

    /// Evicts a line from the directory and so from every private cache. The eviction happens at once,
    /// unless a device holds the line and must be snooped; then the result is true. An inclusive last-level
    /// cache loses the line too. A non-inclusive one stores the copy that cores had.
    pub(super) fn evict(&mut self, ctx: &mut Ctx<'_, Parcel>, slot: Slot) -> bool {
        let line = self.home.llc.line(slot);
        match self.home.llc.is_victim_cache() {
            true => self.stats.directory_evictions += 1,
            false => self.stats.llc_evictions += 1,
        }
        if self.is_recalled(slot) {
            let id = self.home.txns.open(Txn::new(line, TxnKind::Recall, 0));
            self.home.txns[id].times.arrived = ctx.now().0;
            self.take(ctx, id, slot);
            return true;
        }
        let SnoopedCores { dirty, snooped } = self.drop_copies(ctx, slot, NONE);
        if self.home.llc.is_victim_cache() {
            self.stats.back_invalidations += u64::from(snooped);
            self.keep(ctx, slot, dirty);
            self.home.llc.settle(slot);
            return false;
        }
        let (_, way) = self.home.llc.remove(slot);
        if dirty || way.dirty {
            self.write_memory(ctx, line, None, NONE, false);
        }
        false
    }

    /// Whether devices hold a line, so that it must be recalled before its eviction from the directory.
    pub(super) fn is_recalled(&self, slot: Slot) -> bool {
        !self.home.llc[slot]
            .filter
            .holders()
            .without(CORES)
            .is_empty()
    }

    /// Stores a line in the last-level cache. A line evicted by this is written to memory if it is newer.
    pub(super) fn keep(&mut self, ctx: &mut Ctx<'_, Parcel>, slot: Slot, dirty: bool) {
        let Some(leaving) = self.home.llc.keep(slot, dirty) else {
            return;
        };
        self.stats.llc_evictions += 1;
        if leaving.dirty {
            self.write_memory(ctx, leaving.line, None, NONE, leaving.keeps);
        }
    }

    /// Invalidates a line in every core except `except`.
    pub(super) fn drop_copies(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        slot: Slot,
        except: u32,
    ) -> SnoopedCores {
        let line = self.home.llc.line(slot);
        let mut left = self.home.llc[slot].cores;
        let mut found = SnoopedCores::default();
        while left != 0 {
            let core = left.trailing_zeros();
            left &= left - 1;
            if core == except {
                continue;
            }
            let state = self.cores[core as u16].caches.drop_line(line);
            found.dirty |= state == CoreState::Modified;
            found.snooped |= state != CoreState::Invalid;
            self.home.llc[slot].cores &= !(1 << core);
        }
        if found.snooped {
            self.stats.core_snoops += 1;
            self.changed(ctx, line);
        }
        found
    }

    /// Downgrades the copies of a line in every core except `except` to `most`. Shared copies need no snoop.
    pub(super) fn share_copies(
        &mut self,
        slot: Slot,
        except: u32,
        most: CopyAfterSnoop,
    ) -> SnoopedCores {
        let line = self.home.llc.line(slot);
        let mut left = self.home.llc[slot].cores;
        let mut found = SnoopedCores::default();
        while left != 0 {
            let core = left.trailing_zeros();
            left &= left - 1;
            if core == except {
                continue;
            }
            let caches = &mut self.cores[core as u16].caches;
            let state = match most {
                CopyAfterSnoop::Shared => caches.share(line),
                CopyAfterSnoop::Clean => caches.clean(line),
                CopyAfterSnoop::AsItIs => caches.held(line),
            };
            found.dirty |= state == CoreState::Modified;
            found.snooped |= state >= CoreState::Exclusive;
        }
        if found.snooped {
            self.stats.core_snoops += 1;
        }
        found
    }

    /// Gives a transaction its line, and starts the lookup in directory and last-level cache.
    pub(super) fn take(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32, slot: Slot) {
        debug_assert!(
            self.home.txns.is_first_of_its_line(id),
            "a later transaction has the line before"
        );
        let way = &mut self.home.llc[slot];
        way.txn = id;
        let filter = way.filter;
        self.stats.llc_hits += u64::from(way.data);
        self.home.llc.pin(slot);
        let txn = &mut self.home.txns[id];
        txn.slot = Some(slot);
        txn.state = LineState::idle(filter);
        if self.params.llc.speculative_reads {
            self.speculate(ctx, id);
        }
        ctx.wake_at(ctx.now() + self.params.llc.access_time, FINISH | id);
    }
}
