//! Page faults and other tasks of a page. The table [`cxlab_os::ats::home`] decides
//! what follows each event.

use cxlab_engine::Ctx;
use cxlab_link::Parcel;
use cxlab_os::ats::home::{Action, Event, HomePagePhase, HomePageState, step};
use cxlab_os::policy::migration::PageMove;
use cxlab_os::space::{MovingPage, ReleasedPages, SpaceError, TouchResult};
use cxlab_os::tlb::InvalidationScope;
use cxlab_os::{Page, PageAccess, VirtAddr};
use serde::{Deserialize, Serialize};

use super::super::Processor;
use super::super::tokens::TASK;
use super::{Os, since, space_index};

/// A walk or device that waits for a page, or has been notified that the page is present
/// and has not found it yet.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(super) enum PageWaiter {
    /// A walk of a core, by number.
    Walk(u32),
    /// A device that has sent a Page Request for the page of 4 KiB.
    Device(u16, Page),
}

/// A page that is touched for the first time, or moves.
#[derive(Serialize, Deserialize)]
pub(super) struct PageTask {
    pub(super) page: Page,
    state: HomePageState,
    /// The touched address, and the kind of access.
    touch: (VirtAddr, PageAccess),
    /// The device that touched the page; `None` for a core.
    device: Option<u16>,
    held: Vec<PageWaiter>,
    /// Whether the frame is being zeroed.
    zeroing: bool,
    /// The move that the migration policy wants.
    pub(super) wanted: Option<PageMove>,
    pub(super) moving: Option<MovingPage>,
}

#[derive(Serialize, Deserialize)]
pub(super) enum TaskSubject {
    Page(PageTask),
    /// Pages that an operation has unmapped, until no translation of them is left.
    Release(ReleasedPages, u32),
}

impl TaskSubject {
    /// A page that `device` or, without one, a core touches, or that the migration policy wants to move.
    pub(super) fn page(
        page: Page,
        need: PageAccess,
        device: Option<u16>,
        wanted: Option<PageMove>,
    ) -> Self {
        TaskSubject::Page(PageTask {
            page,
            state: HomePageState::default(),
            touch: (page.start, need),
            device,
            held: Vec::new(),
            zeroing: false,
            wanted,
            moving: None,
        })
    }

    /// Whether the subject is a page that overlaps the range `scope`.
    pub(super) fn is_within(&self, scope: InvalidationScope) -> bool {
        matches!(self, TaskSubject::Page(task) if scope.concerns(task.page))
    }
}

/// A task of the operating system for one or several pages.
#[derive(Serialize, Deserialize)]
pub(in super::super) struct Task {
    pub(super) subject: TaskSubject,
    /// Number of events for which the task waits: accesses in flight, the interrupt of cores, devices.
    pub(super) waits: u32,
    pub(super) begun: u64,
}

impl Os {
    pub(super) fn open_task(&mut self, subject: TaskSubject, now: u64) -> u32 {
        self.tasks.insert(Task {
            subject,
            waits: 0,
            begun: now,
        })
    }

    /// The task of a page that overlaps `page`.
    pub(super) fn task_of(&self, page: Page) -> Option<u32> {
        let scope = InvalidationScope::page(page);
        let mut tasks = self.tasks.iter();
        let found = tasks.find(|(_, task)| task.subject.is_within(scope));
        found.map(|(id, _)| id)
    }

    fn zeroing_of(&self, page: Page) -> Option<u32> {
        let scope = InvalidationScope::page(page);
        let mut tasks = self.tasks.iter();
        let found = tasks.find(|(_, task)| match &task.subject {
            TaskSubject::Page(task) => task.zeroing && scope.concerns(task.page),
            TaskSubject::Release(..) => false,
        });
        found.map(|(id, _)| id)
    }

    /// Whether a page has a frame that is not zeroed yet.
    pub(super) fn is_being_zeroed(&self, page: Page) -> bool {
        self.zeroing_of(page).is_some()
    }

    /// Whether a holder has been notified that a page is present and has not found it yet. Until then the page
    /// is neither sampled nor demoted, so every requester of a page gets it, however often pages move.
    pub(super) fn is_awaited(&self, page: Page) -> bool {
        let scope = InvalidationScope::page(page);
        self.answered.iter().any(|holder| match *holder {
            PageWaiter::Walk(walk) => scope.concerns(self.walks[walk as usize].page),
            PageWaiter::Device(_, page) => scope.concerns(page),
        })
    }

    /// Removes a holder that has found its page, or never will.
    pub(super) fn found(&mut self, holder: PageWaiter) {
        self.answered.retain(|answered| *answered != holder);
    }

    pub(super) fn page_task(&mut self, id: u32) -> Option<&mut PageTask> {
        match &mut self.tasks.get_mut(id)?.subject {
            TaskSubject::Page(task) => Some(task),
            TaskSubject::Release(..) => None,
        }
    }

    fn fail(&mut self, error: SpaceError) {
        self.error.get_or_insert_with(|| error.to_string());
    }
}

impl Processor {
    /// Handles a request for a page that is not present, from a core's walk or a device.
    pub(super) fn page_request(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        page: Page,
        need: PageAccess,
        holder: PageWaiter,
    ) {
        let Some(os) = &mut self.os else { return };
        let id = match os.task_of(page) {
            Some(id) => id,
            None => {
                let device = match holder {
                    PageWaiter::Walk(_) => None,
                    PageWaiter::Device(device, _) => Some(device),
                };
                let subject = TaskSubject::page(page, need, device, None);
                os.open_task(subject, ctx.now().0)
            }
        };
        self.page_event(ctx, id, Event::PageRequest, Some(holder));
    }

    /// Applies an event of a page with a task to the table, and performs its actions.
    pub(super) fn page_event(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        id: u32,
        event: Event,
        holder: Option<PageWaiter>,
    ) {
        let Some(os) = &mut self.os else { return };
        let Some(PageTask { state, .. }) = os.page_task(id) else {
            return;
        };
        let Some((row, next)) = step(*state, event) else {
            panic!("{event:?} in {state:?} breaks address translation services")
        };
        *state = next;
        for action in row.actions {
            self.page_action(ctx, id, *action, holder);
        }
        let Some(os) = &mut self.os else { return };
        let settled = |task: &mut PageTask| task.state.phase == HomePagePhase::Stable;
        if os.page_task(id).is_some_and(settled) {
            self.settle_page(ctx, id);
        }
    }

    fn page_action(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        id: u32,
        action: Action,
        holder: Option<PageWaiter>,
    ) {
        let Some(os) = &mut self.os else { return };
        let Some(PageTask { page, held, .. }) = os.page_task(id) else {
            return;
        };
        let page = *page;
        match action {
            // Translation requests are served from the page table, whatever the page's phase.
            Action::Walk => {}
            Action::Hold => held.extend(holder),
            Action::Fault => {
                let time = match holder {
                    Some(PageWaiter::Device(..)) => os.params.page_request_time,
                    _ => os.params.fault_time,
                };
                ctx.wake_at(ctx.now() + time, TASK | id);
            }
            Action::AnswerHeld => {
                for holder in std::mem::take(held) {
                    self.notify_page_waiter(ctx, holder, true);
                }
            }
            Action::Answer => {
                if let Some(holder) = holder {
                    self.notify_page_waiter(ctx, holder, true);
                }
            }
            Action::Block => self.tell_devices(ctx, cxlab_agent::AtsKind::Block, page, id),
            Action::Resume => self.tell_devices(ctx, cxlab_agent::AtsKind::Resume, page, id),
            Action::Invalidate => {
                self.tell_devices(ctx, cxlab_agent::AtsKind::Invalidate, page, id);
            }
            Action::Suspend => self.suspend(id),
            Action::FlushIommu => self.shoot_down_page(ctx, id, page),
            Action::Copy => self.waited(ctx, id),
            Action::Install => self.install(id),
        }
    }

    /// Notifies a waiting holder that its page is present, or that it never will be.
    fn notify_page_waiter(&mut self, ctx: &mut Ctx<'_, Parcel>, holder: PageWaiter, present: bool) {
        if let Some(os) = &mut self.os {
            os.found(holder);
            if os.migrates && present {
                os.answered.push(holder);
            }
        }
        match holder {
            PageWaiter::Walk(walk) if present => self.walk_anew(ctx, walk),
            // The process has an error, so the access never ends.
            PageWaiter::Walk(_) => {}
            PageWaiter::Device(device, page) => {
                self.answer_page_request(ctx, device, page, present);
            }
        }
    }

    /// Handles the end of a fault's time, or of the cores' interrupt.
    pub(in super::super) fn task_wakes(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        let Some(os) = &mut self.os else { return };
        match os.page_task(id) {
            Some(task) if task.state.phase == HomePagePhase::Faulting => self.handle_fault(ctx, id),
            _ => self.waited(ctx, id),
        }
    }

    fn handle_fault(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        let Some(os) = &mut self.os else { return };
        let Some(TaskSubject::Page(task)) = os.tasks.get_mut(id).map(|task| &mut task.subject)
        else {
            return;
        };
        let ((address, need), process) = (task.touch, task.page.pasid);
        let by = match task.device {
            Some(device) => os.devices.get(usize::from(device)).copied(),
            None => None,
        };
        let by = by.unwrap_or(os.home);
        match os.spaces[space_index(process)].touch(address, need, by, &mut os.frames) {
            Ok(TouchResult::Placed(mapping, node)) => {
                let page = Page::around(process, address, mapping.frame.size);
                (task.page, task.zeroing) = (page, true);
                os.migration.placed(page, node);
                self.fill(ctx, id, None, mapping.frame);
                return;
            }
            Ok(TouchResult::Hinted(mapping)) => {
                let page = Page::around(process, address, mapping.frame.size);
                os.stats.hint_faults += 1;
                os.migration.hint_fault(ctx.now(), page, by);
            }
            // A fault nearby has placed a page of 2 MiB: the holders of this page now wait for that one.
            Ok(TouchResult::Present(mapping)) => {
                let held = std::mem::take(&mut task.held);
                let page = Page::around(process, address, mapping.frame.size);
                let heir = os.zeroing_of(page).unwrap_or(id);
                if let Some(heir) = os.page_task(heir) {
                    heir.held.extend(held);
                }
            }
            Err(error) => {
                for holder in std::mem::take(&mut task.held) {
                    self.notify_page_waiter(ctx, holder, false);
                }
                if let Some(os) = &mut self.os {
                    os.fail(error);
                }
            }
        }
        self.page_event(ctx, id, Event::Faulted, None);
        self.migrate(ctx);
    }

    /// Handles a frame that has been zeroed or copied.
    pub(super) fn filled(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        let Some(os) = &mut self.os else { return };
        let Some(task) = os.page_task(id) else {
            return;
        };
        let event = match std::mem::take(&mut task.zeroing) {
            true => Event::Faulted,
            false => Event::Copied,
        };
        self.page_event(ctx, id, event, None);
        self.migrate(ctx);
    }

    /// Ends the task of a page.
    fn settle_page(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        let Some(os) = &mut self.os else { return };
        let Some(Task {
            subject: TaskSubject::Page(task),
            begun,
            ..
        }) = os.tasks.remove(id)
        else {
            return;
        };
        let took = since(begun, ctx.now().0);
        match (task.wanted, task.device) {
            (Some(wanted), _) => {
                let done = task.moving.is_some();
                os.moves -= 1;
                os.migration.ended(wanted, done);
                match (done, wanted.promotion) {
                    (false, _) => os.stats.refused += 1,
                    (true, true) => os.stats.promoted += 1,
                    (true, false) => os.stats.demoted += 1,
                }
                if done {
                    os.stats.moved.record(took);
                }
            }
            (None, None) => {
                os.stats.faults += 1;
                os.stats.fault.record(took);
            }
            (None, Some(_)) => {
                os.stats.device_faults += 1;
                os.stats.device_fault.record(took);
            }
        }
        self.unmap_again(ctx);
    }
}
