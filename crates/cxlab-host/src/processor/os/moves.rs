//! Moves of pages between nodes, the end of mappings, and the invalidation of translations that both need.
//! Translations are stored in the TLBs of cores, which are interrupted, in the IOMMU, and in devices.

use cxlab_agent::AtsKind;
use cxlab_engine::Ctx;
use cxlab_engine::units::SimTime;
use cxlab_link::Parcel;
use cxlab_os::ats::home::Event;
use cxlab_os::policy::migration::PageMove;
use cxlab_os::space::AreaOptions;
use cxlab_os::tlb::InvalidationScope;
use cxlab_os::{NodeId, NodeSet, Page, PageAccess, PageSize, VirtAddr};

use super::super::Processor;
use super::super::tokens::{OP, SCAN, TASK};
use super::faults::{PageTask, TaskSubject};
use super::{Os, PROCESS, space_index};

/// Granularity of mappings, in bytes.
const PAGE: u64 = 4096;

/// Tag of an invalidation for which no task waits.
pub(super) const NO_TASK: u32 = u32::MAX >> 8;

/// The whole pages of a range in the process of threads and devices.
fn range(addr: u64, bytes: u64) -> InvalidationScope {
    InvalidationScope::Range {
        pasid: PROCESS,
        start: VirtAddr(addr),
        length: bytes.next_multiple_of(PAGE),
    }
}

impl Os {
    /// Invalidates translations in every core and in the IOMMU.
    fn forget(&mut self, scope: InvalidationScope) {
        for mmu in &mut self.mmus {
            mmu.tlb.invalidate(scope);
            mmu.walk_cache.invalidate(scope);
        }
        self.iommu.invalidate(scope);
        self.stats.shootdowns += 1;
    }

    /// Whether a move that the policy wants may begin: the page has its frame and no task, and no
    /// holder waits for it to stay.
    fn may_move(&self, wanted: &PageMove) -> bool {
        let page = wanted.page;
        let space = &self.spaces[space_index(page.pasid)];
        // A range that is to be unmapped waits only for moves that are already in progress.
        let mut unmaps = self.unmaps.iter();
        let leaves = unmaps.any(|&(_, addr, bytes)| range(addr, bytes).concerns(page));
        let awaited = !wanted.promotion && self.is_awaited(page);
        let resident = space.table().lookup(page.start).is_some();
        resident && !leaves && !awaited && self.task_of(page).is_none()
    }

    /// Nodes whose pages age in a scan: those with processors or accelerators.
    fn fast_nodes(&self) -> NodeSet {
        let fast = |node: &NodeId| {
            let spec = self.frames.spec(*node);
            spec.is_some_and(|spec| spec.kind != cxlab_os::frames::NodeKind::Memory)
        };
        self.frames.nodes().iter().filter(fast).collect()
    }
}

impl Processor {
    /// Invalidates translations of a task's pages in cores and IOMMU. The task then waits for the interrupt
    /// of the cores and for their accesses that use a translation.
    fn shoot_down(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        id: u32,
        scope: InvalidationScope,
        time: u64,
    ) {
        let Some(os) = &mut self.os else { return };
        os.forget(scope);
        let idle = os.epochs.invalidate(id);
        if let Some(task) = os.tasks.get_mut(id) {
            task.waits += 1 + u32::from(!idle);
        }
        ctx.wake_at(SimTime(ctx.now().0 + time), TASK | id);
        // Operations that spin on an old frame look up the new one.
        let page = |addr| Page::around(PROCESS, VirtAddr(addr), PageSize::Small);
        let mut again = Vec::new();
        self.cores.spinning.retain(|(_, access)| {
            let stays = !scope.concerns(page(access.addr));
            if !stays {
                again.push(*access);
            }
            stays
        });
        for access in again {
            let core = self.cores.of_thread[self.hw_threads.thread_of(access.op)];
            let begun = self.hw_threads.issued(access.op);
            self.access_again(ctx, core, &access, begun);
        }
    }

    /// Invalidates the translations of a moving page. The task also waits for the table to order the copy.
    pub(super) fn shoot_down_page(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32, page: Page) {
        let Some(os) = &mut self.os else { return };
        if let Some(task) = os.tasks.get_mut(id) {
            task.waits += 1;
        }
        let time = os.params.shootdown_time.0 + os.params.move_time.0;
        self.shoot_down(ctx, id, InvalidationScope::page(page), time);
    }

    /// Handles the end of the last core accesses that began before an invalidation.
    pub(in super::super) fn drained(&mut self, ctx: &mut Ctx<'_, Parcel>, tags: &[u32]) {
        for tag in tags {
            self.waited(ctx, *tag);
        }
    }

    /// Counts one event for which a task has waited.
    pub(super) fn waited(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        let Some(os) = &mut self.os else { return };
        let Some(task) = os.tasks.get_mut(id) else {
            return;
        };
        task.waits -= 1;
        if task.waits > 0 {
            return;
        }
        match &mut task.subject {
            TaskSubject::Page(task) => match task.moving {
                Some(moving) => self.fill(ctx, id, Some(moving.from), moving.to),
                None => self.page_event(ctx, id, Event::Copied, None),
            },
            TaskSubject::Release(..) => self.release_pages(ctx, id),
        }
    }

    /// Frees the frames of unmapped pages, of which no translation is left.
    fn release_pages(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        let Some(os) = &mut self.os else { return };
        let Some(TaskSubject::Release(released, op)) = os.tasks.remove(id).map(|task| task.subject)
        else {
            return;
        };
        for page in &released.pages {
            os.migration.released(*page);
        }
        released.free(&mut os.frames);
        ctx.wake_at(ctx.now(), OP | op);
        self.unmap_again(ctx);
    }

    /// Gives a moving page its new frame; the page is not present until the copy is complete. Without a
    /// free frame it stays where it is.
    pub(super) fn suspend(&mut self, id: u32) {
        let Some(os) = &mut self.os else { return };
        let Some(task) = os.tasks.get_mut(id) else {
            return;
        };
        if let TaskSubject::Page(task) = &mut task.subject
            && let Some(wanted) = &task.wanted
        {
            let space = &mut os.spaces[space_index(task.page.pasid)];
            let moved = space.begin_move(task.page.start, wanted.to, wanted.keep, &mut os.frames);
            task.moving = moved.ok();
            // Holders that wait for the page will find it, wherever it is by then.
            space.end_sample(task.page);
        }
    }

    /// Makes the page present at its new frame.
    pub(super) fn install(&mut self, id: u32) {
        let Some(os) = &mut self.os else { return };
        if let Some(PageTask {
            page,
            moving: Some(_),
            ..
        }) = os.page_task(id)
        {
            let page = *page;
            os.spaces[space_index(page.pasid)].end_move(page, &mut os.frames);
        }
    }

    /// Begins the moves that the migration policy wants.
    pub(super) fn migrate(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        loop {
            let Some(os) = &mut self.os else { return };
            if !os.migrates || os.moves >= os.params.moves {
                return;
            }
            let Some(wanted) = os.migration.wanted(&os.frames) else {
                return;
            };
            if !os.may_move(&wanted) {
                // The policy would propose the same page again at once.
                os.migration.ended(wanted, false);
                os.stats.refused += 1;
                return;
            }
            os.moves += 1;
            let subject = TaskSubject::page(wanted.page, PageAccess::Read, None, Some(wanted));
            let id = os.open_task(subject, ctx.now().0);
            let devices = self.accelerators.ports.len() as u8;
            self.page_event(ctx, id, Event::Move(devices), None);
        }
    }

    /// Records activity that may use memory, so that scans continue.
    #[inline]
    pub(in super::super) fn active(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let Some(os) = &mut self.os else { return };
        os.scans.activity += 1;
        if os.migrates && !os.scans.scanning {
            os.scans.scanning = true;
            ctx.wake_at(os.migration.next_scan().max(ctx.now()), SCAN);
        }
    }

    /// Runs a scan of the migration policy: some pages are sampled, and all pages of fast nodes age.
    pub(in super::super) fn scan(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let Some(os) = &mut self.os else { return };
        if os.scans.seen == os.scans.activity {
            os.scans.scanning = false;
            return;
        }
        os.scans.seen = os.scans.activity;
        // Processes whose translations have become stale.
        let mut old = vec![false; os.spaces.len()];
        for page in os.migration.scan(ctx.now()) {
            let number = space_index(page.pasid);
            let settled = os.task_of(page).is_none() && !os.is_awaited(page);
            old[number] |= settled && os.spaces[number].sample(page);
        }
        let fast = os.fast_nodes();
        for (number, space) in os.spaces.iter_mut().enumerate() {
            for (page, node) in space.pages(&os.frames) {
                if fast.contains(node) && space.take_accessed(page) {
                    os.migration.accessed(page);
                    old[number] = true;
                }
            }
        }
        ctx.wake_at(os.migration.next_scan(), SCAN);
        for number in (0..old.len()).filter(|number| old[*number]) {
            os.forget(InvalidationScope::Process(os.spaces[number].pasid()));
        }
        if old[space_index(PROCESS)] {
            let page = Page {
                pasid: PROCESS,
                start: VirtAddr(0),
                size: PageSize::Small,
            };
            self.tell_devices(ctx, AtsKind::InvalidateAll, page, NO_TASK);
        }
        self.migrate(ctx);
    }

    /// Handles `mmap`. If no addresses are left, the process has an error and never continues.
    pub(in super::super) fn map(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        op: u32,
        bytes: u64,
        policy: u16,
    ) {
        let Some(os) = &mut self.os else { return };
        let options = AreaOptions {
            writable: true,
            pages: os.params.pages.size(),
        };
        let nodes = os.frames.nodes();
        let policy = match usize::from(policy).checked_sub(1) {
            Some(number) => os.mappings.get(number).map(|policy| policy.state(nodes)),
            None => None,
        };
        let bytes = bytes.next_multiple_of(PAGE);
        match os.spaces[space_index(PROCESS)].mmap(bytes, options, policy) {
            Ok(start) => {
                self.hw_threads.set_value(op, start.0);
                ctx.wake_at(ctx.now() + os.params.syscall_time, OP | op);
            }
            Err(error) => {
                os.error.get_or_insert_with(|| error.to_string());
            }
        }
    }

    /// Handles `munmap`, which waits for faults and moves of the pages. The operation completes when
    /// no translation is left.
    pub(in super::super) fn unmap(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        op: u32,
        addr: u64,
        bytes: u64,
    ) {
        let Some(os) = &mut self.os else { return };
        let scope = range(addr, bytes);
        if os
            .tasks
            .iter()
            .any(|(_, task)| task.subject.is_within(scope))
        {
            os.unmaps.push((op, addr, bytes));
            return;
        }
        let length = bytes.next_multiple_of(PAGE);
        let released = match os.spaces[space_index(PROCESS)].munmap(VirtAddr(addr), length) {
            Ok(released) => released,
            Err(error) => {
                os.error.get_or_insert_with(|| error.to_string());
                return;
            }
        };
        let id = os.open_task(TaskSubject::Release(released, op), ctx.now().0);
        if let Some(task) = os.tasks.get_mut(id) {
            task.waits += self.accelerators.ports.len() as u32;
        }
        let time = os.params.syscall_time.0 + os.params.shootdown_time.0;
        let page = Page::around(PROCESS, VirtAddr(addr), PageSize::Small);
        self.shoot_down(ctx, id, scope, time);
        self.tell_devices(ctx, AtsKind::InvalidateAll, page, id);
    }

    /// Retries the unmapping of ranges that waited for tasks of their pages.
    pub(super) fn unmap_again(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let Some(os) = &mut self.os else { return };
        if os.unmaps.is_empty() {
            return;
        }
        for (op, addr, bytes) in std::mem::take(&mut os.unmaps) {
            self.unmap(ctx, op, addr, bytes);
        }
    }
}
