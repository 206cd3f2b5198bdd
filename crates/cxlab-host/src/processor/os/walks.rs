//! Address translation for cores: TLBs, and walks of the page table through the core's caches.

use cxlab_agent::Access as LineAccess;
use cxlab_engine::Ctx;
use cxlab_engine::units::{Hpa, LINE_BYTES, LineAddr, SimTime};
use cxlab_link::Parcel;
use cxlab_os::page_table::{LEVELS, WalkResult};
use cxlab_os::tlb::Translation;
use cxlab_os::{Page, PageAccess, PageSize, VirtAddr};
use serde::{Deserialize, Serialize};

use super::super::Processor;
use super::super::caches::HitLevel;
use super::super::tokens::{ARRIVE, NONE, WALK};
use super::super::transactions::{Txn, TxnKind};
use super::faults::PageWaiter;
use super::{Os, needed, since, space_index};

/// A page walk of a core.
#[derive(Serialize, Deserialize)]
pub(in super::super) struct PendingWalk {
    core: u16,
    /// The page of 4 KiB around the address.
    pub(super) page: Page,
    need: PageAccess,
    used: bool,
    /// Reads of the walk, known once it has begun.
    reads: Option<([Hpa; LEVELS], u8)>,
    at: u8,
    begun: u64,
    /// Number of page faults that the walk has met.
    faults: u32,
    /// Waiting accesses, with the times at which they began.
    waiters: Vec<(LineAccess, SimTime)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Translated {
    /// The access has its physical address.
    Now,
    /// The access waits for a walk.
    Waits,
    /// Every page walker of the core is busy.
    Full,
}

impl Os {
    /// The physical address of an access of a core, if its TLB has the translation.
    fn look_up(&mut self, core: u16, access: &LineAccess) -> Option<Hpa> {
        let address = VirtAddr(access.addr);
        let mmu = &mut self.mmus[usize::from(core)];
        let found = mmu.tlb.lookup(mmu.process, address)?;
        found.allows(needed(access)).then(|| found.apply(address))
    }

    fn open_walk(&mut self, core: u16, page: Page, now: SimTime) -> u32 {
        let id = self.free_walks.pop().unwrap_or_else(|| {
            self.walks.push(PendingWalk {
                core,
                page,
                need: PageAccess::Read,
                used: false,
                reads: None,
                at: 0,
                begun: 0,
                faults: 0,
                waiters: Vec::new(),
            });
            self.walks.len() as u32 - 1
        });
        let walk = &mut self.walks[id as usize];
        (walk.core, walk.page, walk.need) = (core, page, PageAccess::Read);
        (walk.used, walk.reads, walk.at, walk.begun) = (true, None, 0, now.0);
        walk.faults = 0;
        self.mmus[usize::from(core)].walking += 1;
        id
    }

    /// Plans the reads of a walk, without those that the core's page-walk cache saves.
    fn plan_walk(&mut self, id: u32) {
        let walk = &mut self.walks[id as usize];
        let process = walk.page.pasid;
        let found = self.spaces[space_index(process)].walk(walk.page.start);
        let cache = &mut self.mmus[usize::from(walk.core)].walk_cache;
        let skipped = cache.walk(process, walk.page.start, &found);
        let mut reads = [Hpa::default(); LEVELS];
        let steps = &found.steps()[skipped..];
        reads[..steps.len()].copy_from_slice(steps);
        walk.reads = Some((reads, steps.len() as u8));
        walk.at = 0;
    }
}

impl Processor {
    /// Translates the address of an access, if there is an operating system. `fresh` says that the access
    /// has not begun before; it begins if it has to wait.
    pub(in super::super) fn translate(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        core: u16,
        access: &mut LineAccess,
        begun: SimTime,
        fresh: bool,
    ) -> Translated {
        let Some(os) = &mut self.os else {
            return Translated::Now;
        };
        if let Some(hpa) = os.look_up(core, access) {
            access.hpa = hpa;
            return Translated::Now;
        }
        let process = os.mmus[usize::from(core)].process;
        let page = Page::around(process, VirtAddr(access.addr), PageSize::Small);
        let same = |walk: &PendingWalk| walk.used && walk.core == core && walk.page == page;
        let id = match os.walks.iter().position(same) {
            Some(id) => id as u32,
            None if fresh && os.mmus[usize::from(core)].walking >= os.params.walkers => {
                return Translated::Full;
            }
            None => {
                let id = os.open_walk(core, page, ctx.now());
                ctx.wake_at(ctx.now() + os.tlb_latency, WALK | id);
                id
            }
        };
        let walk = &mut os.walks[id as usize];
        if needed(access) == PageAccess::Write {
            walk.need = PageAccess::Write;
        }
        walk.waiters.push((*access, begun));
        os.stats.tlb_misses += 1;
        if fresh {
            self.hw_threads.access_begun(access, ctx.now());
        }
        Translated::Waits
    }

    /// Marks an access as a user of its translation until it ends.
    #[inline]
    pub(in super::super) fn use_translation(&mut self, access: &mut LineAccess, hit: bool) {
        if let Some(os) = &mut self.os {
            access.epoch = os.epochs.begin();
            os.stats.tlb_hits += u64::from(hit);
        }
    }

    /// Ends the use of a translation by an access that is over, or spins.
    #[inline]
    pub(in super::super) fn end_translation(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        access: &LineAccess,
    ) {
        if access.epoch == LineAccess::NO_EPOCH {
            return;
        }
        let Some(os) = &mut self.os else { return };
        let tags = os.epochs.done(access.epoch);
        self.drained(ctx, &tags);
    }

    /// Restarts an access that waited, or spins, with its virtual address.
    pub(in super::super) fn access_again(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        core: u16,
        access: &LineAccess,
        begun: SimTime,
    ) {
        let mut access = *access;
        if self.translate(ctx, core, &mut access, begun, false) != Translated::Now {
            return;
        }
        self.issue(ctx, core, access, begun, false);
    }

    /// Sends the next read of a walk, or ends the walk.
    pub(in super::super) fn walk_on(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        let Some(os) = &mut self.os else { return };
        if os.walks[id as usize].reads.is_none() {
            os.plan_walk(id);
        }
        let walk = &mut os.walks[id as usize];
        let Some((reads, count)) = walk.reads else {
            return;
        };
        if walk.at == count {
            self.walk_ended(ctx, id);
            return;
        }
        let line = LineAddr(reads[usize::from(walk.at)].0 / LINE_BYTES);
        walk.at += 1;
        let number = walk.core;
        os.stats.walk_reads += 1;
        let core = &mut self.cores[number];
        if let Some(level) = core.caches.access(line, false) {
            let time = match level {
                HitLevel::L1 => self.params.l1.access_time,
                HitLevel::L2 => self.params.lookup(),
            };
            ctx.wake_at(ctx.now() + time, WALK | id);
            return;
        }
        let mut txn = Txn::new(line, TxnKind::Read, number);
        txn.walk = id;
        let txn = self.home.txns.open(txn);
        self.stats.core_requests += 1;
        let arrival = ctx.now() + self.params.lookup() + self.params.mesh_time;
        ctx.wake_at(arrival, ARRIVE | txn);
    }

    /// Ends a walk with the current page table: the page has a frame, or must be requested.
    fn walk_ended(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        let Some(os) = &mut self.os else { return };
        let PendingWalk {
            core, page, need, ..
        } = os.walks[id as usize];
        let space = &mut os.spaces[space_index(page.pasid)];
        let leaf = space.walk(page.start).leaf;
        let allows = |writable| need == PageAccess::Read || writable;
        let mapping = match leaf {
            WalkResult::Present(mapping)
                if !os.is_being_zeroed(page) && allows(mapping.entry.is_writable()) =>
            {
                mapping
            }
            WalkResult::Present(_) | WalkResult::NotPresent(_) => {
                self.page_request(ctx, page, need, PageWaiter::Walk(id));
                return;
            }
        };
        os.found(PageWaiter::Walk(id));
        os.spaces[space_index(page.pasid)].mark(page.start, need);
        let mapped = Page::around(page.pasid, page.start, mapping.frame.size);
        os.mmus[usize::from(core)]
            .tlb
            .insert(mapped, Translation::from(mapping));
        let walk = &mut os.walks[id as usize];
        walk.used = false;
        os.stats.walks += 1;
        os.stats.walk.record(since(walk.begun, ctx.now().0));
        os.mmus[usize::from(core)].walking -= 1;
        let mut waiters = std::mem::take(&mut walk.waiters);
        for (access, begun) in waiters.drain(..) {
            self.access_again(ctx, core, &access, begun);
        }
        if let Some(os) = &mut self.os {
            os.walks[id as usize].waiters = waiters;
            os.free_walks.push(id);
        }
        self.run_core(ctx, core);
    }

    /// Restarts a walk that met a page fault.
    pub(super) fn walk_anew(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        if let Some(os) = &mut self.os {
            let walk = &mut os.walks[id as usize];
            walk.reads = None;
            walk.faults += 1;
            os.most_faults = os.most_faults.max(walk.faults);
            ctx.wake_at(ctx.now(), WALK | id);
        }
    }

    pub(in super::super) fn walk_read(&mut self, ctx: &mut Ctx<'_, Parcel>, txn: &Txn) {
        if txn.walk != NONE {
            ctx.wake_at(ctx.now() + self.params.mesh_time, WALK | txn.walk);
        }
    }
}
