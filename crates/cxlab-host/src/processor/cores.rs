//! Cores and their hardware threads: operations begin, look up the private caches, merge with an
//! outstanding request of the core, or become a request to the home agent.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use cxlab_agent::{
    Access, AccessKind, AccessOutcome, AccessResponse, Failure, OvertakingCounter, ThreadAction,
    WaitTicket,
};
use cxlab_cache::GeometryError;
use cxlab_engine::Ctx;
use cxlab_engine::save_state;
use cxlab_engine::units::{LineAddr, SimTime};
use cxlab_link::Parcel;
use serde::{Deserialize, Serialize};

use super::Processor;
use super::caches::{CoreCaches, CoreState, HitLevel};
use super::os::Translated;
use super::params::ProcessorParams;
use super::tokens::{HW_THREAD, OP};

/// A core with its private caches.
pub(super) struct ProcessorCore {
    pub(super) caches: CoreCaches,
    /// Lines that the core has requested from the home agent, with their transactions.
    pub(super) outstanding: Vec<(LineAddr, u32)>,
    /// Accesses and hardware threads that wait for room in `outstanding`, in order.
    waiting: VecDeque<(CoreWaiter, WaitTicket)>,
    turns: OvertakingCounter,
    /// Whether the first that waited is being served now.
    serving: bool,
    /// Whether a hardware thread of the core waits for a page walker.
    full: bool,
}

/// An access or a hardware thread that waits for room among a core's outstanding requests.
#[derive(Clone, Copy, Serialize, Deserialize)]
enum CoreWaiter {
    /// An access that has begun, with its start: its core's requests were all in use when its
    /// physical address became known.
    Access(Access, SimTime),
    /// A hardware thread whose next access has not begun.
    HwThread(u32),
}

impl ProcessorCore {
    fn wait(&mut self, waiter: CoreWaiter) {
        let ticket = self.turns.wait(self.waiting.len());
        self.waiting.push_back((waiter, ticket));
    }

    /// Removes the first that waits, to be served.
    fn serve(&mut self) {
        if let Some((_, ticket)) = self.waiting.pop_front() {
            self.turns.serve(ticket);
        }
    }
}

save_state!(ProcessorCore {
    values: outstanding, waiting, turns, serving, full;
    states: caches;
});

/// The cores, and what their hardware threads wait for.
pub(super) struct Cores {
    cores: Vec<ProcessorCore>,
    /// The core of each hardware thread.
    pub(super) of_thread: Vec<u16>,
    /// Time of each hardware thread's pending wake-up, so that no second one is requested.
    thread_wake: Vec<u64>,
    /// Spinning operations, each with the line whose change it waits for.
    pub(super) spinning: Vec<(LineAddr, Access)>,
}

save_state!(Cores {
    values: spinning;
    sized: thread_wake;
    states: cores;
    built: of_thread;
});

impl Cores {
    /// The cores with empty caches; `of_thread` is the core of each hardware thread.
    ///
    /// # Errors
    /// If a private cache has more lines than a tag array can hold.
    pub(super) fn new(
        params: &ProcessorParams,
        of_thread: Vec<u16>,
    ) -> Result<Cores, GeometryError> {
        let core = |_| {
            Ok(ProcessorCore {
                caches: CoreCaches::new(&params.l1, &params.l2)?,
                outstanding: Vec::with_capacity(params.misses as usize),
                waiting: VecDeque::new(),
                turns: OvertakingCounter::default(),
                serving: false,
                full: false,
            })
        };
        let cores: Result<Vec<ProcessorCore>, GeometryError> =
            (0..params.cores).map(core).collect();
        Ok(Cores {
            cores: cores?,
            thread_wake: vec![u64::MAX; of_thread.len()],
            of_thread,
            spinning: Vec::new(),
        })
    }

    /// Largest number of times that later accesses overtook one that waited for an
    /// outstanding request of its core.
    pub(super) fn most_overtaken(&self) -> u64 {
        let cores = self.cores.iter().map(|core| core.turns.most_overtaken());
        cores.max().unwrap_or(0)
    }
}

impl Index<u16> for Cores {
    type Output = ProcessorCore;

    #[inline]
    fn index(&self, core: u16) -> &ProcessorCore {
        &self.cores[usize::from(core)]
    }
}

impl IndexMut<u16> for Cores {
    #[inline]
    fn index_mut(&mut self, core: u16) -> &mut ProcessorCore {
        &mut self.cores[usize::from(core)]
    }
}

impl Processor {
    pub(super) fn thread_wakes(&mut self, ctx: &mut Ctx<'_, Parcel>, hw_thread: usize) {
        if self.cores.thread_wake[hw_thread] <= ctx.now().0 {
            self.cores.thread_wake[hw_thread] = u64::MAX;
        }
        self.run(ctx, hw_thread);
    }

    /// Begins the operations that a hardware thread can begin.
    pub(super) fn run(&mut self, ctx: &mut Ctx<'_, Parcel>, hw_thread: usize) {
        loop {
            match self.hw_threads.next_action(ctx, hw_thread) {
                ThreadAction::Access(access) => {
                    if !self.access(ctx, hw_thread, &access) {
                        return;
                    }
                }
                ThreadAction::Other(op, operation) => self.io_op(ctx, op, operation),
                ThreadAction::Completes(op, time) => {
                    ctx.wake_at(time, OP | op);
                }
                ThreadAction::NotBefore(time) => {
                    if time.0 < self.cores.thread_wake[hw_thread] {
                        self.cores.thread_wake[hw_thread] = time.0;
                        ctx.wake_at(time, HW_THREAD | hw_thread as u32);
                    }
                    return;
                }
                ThreadAction::Waits | ThreadAction::Ended => return,
            }
        }
    }

    /// Begins an access. Returns false if its core has no room for another request or page walk.
    fn access(&mut self, ctx: &mut Ctx<'_, Parcel>, hw_thread: usize, access: &Access) -> bool {
        let now = ctx.now();
        let number = self.cores.of_thread[hw_thread];
        let mut access = *access;
        self.active(ctx);
        match self.translate(ctx, number, &mut access, now, true) {
            Translated::Now => {}
            Translated::Waits => return true,
            Translated::Full => {
                self.cores[number].full = true;
                return false;
            }
        }
        self.issue(ctx, number, access, now, true)
    }

    /// Looks up the line of an access whose physical address is known. If the access has not begun before
    /// (`fresh`), it is refused with false when its core has no room for another request.
    pub(super) fn issue(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        number: u16,
        mut access: Access,
        begun: SimTime,
        fresh: bool,
    ) -> bool {
        let (line, kind) = (access.line(), access.kind);
        if matches!(
            kind,
            AccessKind::Flush | AccessKind::WriteBack | AccessKind::Demote
        ) {
            self.begin(&mut access, begun, fresh);
            self.send_request(ctx, number, &access, begun);
            return true;
        }
        let core = &mut self.cores[number];
        let turn = std::mem::take(&mut core.serving);
        if self.waits_for_request(number, line, kind.owns(), turn) {
            if !fresh {
                self.begin(&mut access, begun, false);
                self.cores[number].wait(CoreWaiter::Access(access, begun));
                return true;
            }
            let hw_thread = self.hw_threads.thread_of(access.op) as u32;
            let core = &mut self.cores[number];
            let is_thread = |waiter: &CoreWaiter| matches!(waiter, CoreWaiter::HwThread(other) if *other == hw_thread);
            if !core.waiting.iter().any(|(waiter, _)| is_thread(waiter)) {
                core.wait(CoreWaiter::HwThread(hw_thread));
            }
            return false;
        }
        self.begin(&mut access, begun, fresh);
        self.look_up(ctx, number, &access, begun);
        true
    }

    fn is_at_miss_limit(&self, number: u16) -> bool {
        self.cores[number].outstanding.len() >= self.params.misses as usize
    }

    /// Whether an access of a core would need a request and has to wait for it. That is so if the core has
    /// its largest number of outstanding requests, or if others wait and it is not the access's turn.
    fn waits_for_request(&self, number: u16, line: LineAddr, owns: bool, turn: bool) -> bool {
        let core = &self.cores[number];
        if !self.is_at_miss_limit(number) && (turn || core.waiting.is_empty()) {
            return false;
        }
        let enough = match owns {
            true => CoreState::Exclusive,
            false => CoreState::Shared,
        };
        core.caches.held(line) < enough && !core.outstanding.iter().any(|(other, _)| *other == line)
    }

    /// Looks up the line of an access that has begun.
    fn look_up(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u16, access: &Access, begun: SimTime) {
        let (line, kind) = (access.line(), access.kind);
        let core = &mut self.cores[number];
        if let Some(level) = core.caches.access(line, kind.owns()) {
            self.hit(ctx, access, level, begun);
            return;
        }
        if !self.merge(number, access, begun) {
            self.cores[number].turns.take();
            self.send_request(ctx, number, access, begun);
        }
    }

    /// Merges an access with its core's outstanding request for the same line. Returns
    /// false if there is none.
    pub(super) fn merge(&mut self, number: u16, access: &Access, begun: SimTime) -> bool {
        let mut outstanding = self.cores[number].outstanding.iter();
        let request = outstanding.find(|(other, _)| *other == access.line());
        let Some((_, txn)) = request.copied() else {
            return false;
        };
        self.home.txns.wait_behind(txn, *access, begun);
        self.stats.merged += 1;
        true
    }

    /// Begins an access whose physical address is known.
    fn begin(&mut self, access: &mut Access, now: SimTime, fresh: bool) {
        match fresh {
            true => self.hw_threads.access_begun(access, now),
            false => self.hw_threads.translated(access),
        }
        self.use_translation(access, fresh);
    }

    /// Completes an access that hits in a private cache.
    fn hit(&mut self, ctx: &mut Ctx<'_, Parcel>, access: &Access, level: HitLevel, begun: SimTime) {
        let now = ctx.now();
        let time = match level {
            HitLevel::L1 => {
                self.stats.l1_hits += 1;
                self.params.l1.access_time
            }
            HitLevel::L2 => {
                self.stats.l2_hits += 1;
                self.params.lookup()
            }
        };
        let holder = self.holder_of(access);
        self.hw_threads.used(holder, access.line());
        let answer = AccessResponse::by_cache_after(begun, now, now + time);
        self.take_effect(ctx, access, answer);
    }

    fn holder_of(&self, access: &Access) -> u16 {
        self.cores.of_thread[self.hw_threads.thread_of(access.op)]
    }

    /// Lets an access take effect now, while its core holds the line. The access ends now or later.
    pub(super) fn take_effect(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        access: &Access,
        answer: AccessResponse,
    ) {
        if self.hw_threads.consumes_poison(access) {
            let outcome = AccessOutcome::Failed(Failure::Poisoned);
            self.over(ctx, access, AccessResponse { outcome, ..answer });
            self.poisoned(ctx, access.op, access.kind);
            return;
        }
        self.hw_threads.perform(access);
        if access.kind.writes() {
            let holder = self.holder_of(access);
            self.hw_threads.written(Some(holder), access.line());
        }
        if self.hw_threads.waits_on(access) {
            self.cores.spinning.push((access.line(), *access));
            self.end_translation(ctx, access);
            return;
        }
        if access.kind.writes() {
            self.changed(ctx, access.line());
        }
        self.over(ctx, access, answer);
    }

    /// Ends an access, now or later.
    pub(super) fn over(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        access: &Access,
        response: AccessResponse,
    ) {
        self.end_translation(ctx, access);
        if let Some(completes) = self.hw_threads.access_done(access.op, response) {
            ctx.wake_at(completes.max(ctx.now()), OP | access.op);
        }
    }

    /// Retries the operations that spin on a line whose value may have changed.
    pub(super) fn changed(&mut self, ctx: &mut Ctx<'_, Parcel>, line: LineAddr) {
        if self.cores.spinning.is_empty() {
            return;
        }
        let spinning = std::mem::take(&mut self.cores.spinning).into_iter();
        let (retried, kept): (Vec<_>, Vec<_>) = spinning.partition(|(spun_on, _)| *spun_on == line);
        self.cores.spinning = kept;
        for (_, access) in retried {
            let begun = self.hw_threads.issued(access.op);
            let number = self.cores.of_thread[self.hw_threads.thread_of(access.op)];
            if self.os.is_some() {
                self.access_again(ctx, number, &access, begun);
                continue;
            }
            match self.cores[number].caches.access(line, false) {
                Some(_) => {
                    let completes = ctx.now() + self.params.l1.access_time;
                    self.hw_threads.used(number, line);
                    self.take_effect(ctx, &access, AccessResponse::by_cache(begun, completes));
                }
                None => self.send_request(ctx, number, &access, begun),
            }
        }
    }

    pub(super) fn op_done(&mut self, ctx: &mut Ctx<'_, Parcel>, op: u32) {
        let hw_thread = self.hw_threads.thread_of(op);
        self.hw_threads.complete(ctx, op);
        self.run(ctx, hw_thread);
    }

    /// Serves accesses and hardware threads that wait for an outstanding request of a core, in the order
    /// in which they arrived.
    pub(super) fn run_core(&mut self, ctx: &mut Ctx<'_, Parcel>, core: u16) {
        if self.cores[core].serving {
            return;
        }
        while let Some((first, _)) = self.cores[core].waiting.front().copied() {
            match first {
                CoreWaiter::Access(access, begun) => {
                    if self.waits_for_request(core, access.line(), access.kind.owns(), true) {
                        return;
                    }
                    self.cores[core].serve();
                    self.look_up(ctx, core, &access, begun);
                }
                CoreWaiter::HwThread(hw_thread) => {
                    if self.is_at_miss_limit(core) {
                        return;
                    }
                    self.cores[core].serve();
                    self.cores[core].serving = true;
                    self.run(ctx, hw_thread as usize);
                    self.cores[core].serving = false;
                }
            }
        }
        if std::mem::take(&mut self.cores[core].full) {
            for hw_thread in 0..self.cores.of_thread.len() {
                if self.cores.of_thread[hw_thread] == core {
                    self.run(ctx, hw_thread);
                }
            }
        }
    }
}
