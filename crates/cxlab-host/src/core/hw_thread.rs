//! A hardware thread of a core: the window of its steps, and their outstanding requests.

use std::cmp::Reverse;

use cxlab_engine::Ctx;
use cxlab_engine::save_state;
use cxlab_engine::units::{Hpa, LineAddr, Picos, SimTime};
use cxlab_link::Parcel;
use cxlab_workload::{Action, LOCAL_BASE, Step, StepDependency, SyncPoint};

use super::front_end::FrontEnd;
use super::memory_requests::RequestKind;
use super::params::CoreParams;
use super::prefetch::StreamTable;
use super::shared::CoreShared;
use super::stats::ThreadTimes;
use super::window::{NIL, PENDING, Window, WindowEntry};

/// A hardware thread, which runs one thread of the program.
pub(super) struct HwThread {
    number: u16,
    /// Index of its window's first entry among those of all threads.
    first_index: u32,
    pub(super) front: FrontEnd,
    pub(super) window: Window,
    streams: StreamTable,
    /// Number of outstanding fills, and of those that the prefetcher requested.
    pub(super) fills: u32,
    pub(super) prefetched: u32,
    /// When the thread can go on, in picoseconds; [`PENDING`] if that depends on others.
    pub(super) next: u64,
    /// Whether a step has completed since the thread issued last.
    pub(super) has_progressed: bool,
    /// When the thread began, when it passed or left a point of synchronization last, and how long it has waited
    /// at them, in picoseconds.
    pub(super) begun: Option<u64>,
    ended: u64,
    waited: u64,
}

save_state!(HwThread {
    values: fills, prefetched, next, has_progressed, begun, ended, waited;
    states: front, window, streams;
    built: number, first_index;
});

impl HwThread {
    pub(super) fn new(params: &CoreParams, number: u16, limit: Option<u64>) -> HwThread {
        HwThread {
            number,
            first_index: u32::from(number) * Window::entries_for(params.window),
            front: FrontEnd::new(limit),
            window: Window::new(params.window),
            streams: StreamTable::default(),
            fills: 0,
            prefetched: 0,
            next: PENDING,
            has_progressed: true,
            begun: None,
            ended: 0,
            waited: 0,
        }
    }

    pub(super) fn start(&mut self, now: u64) {
        self.front.begun = now;
        self.front.cycle_start = now;
    }

    pub(super) fn times(&self) -> ThreadTimes {
        let begin = self.begun.unwrap_or(0);
        ThreadTimes {
            begin: SimTime(begin),
            end: SimTime(self.window.latest.max(self.ended).max(begin)),
            waited: Picos(self.waited),
        }
    }

    /// Whether the thread has ended and nothing is outstanding of it.
    pub(super) fn is_done(&self) -> bool {
        let open = self.window.waiting + self.window.pending;
        let ended = self.front.exhausted && self.front.held.is_none();
        ended && self.front.sync.is_none() && open == 0
    }

    /// Begins and takes as many steps as the cycle, the window and memory allow. `next` is when the thread
    /// can go on if only time is missing, or [`PENDING`].
    pub(super) fn issue(&mut self, shared: &mut CoreShared, ctx: &mut Ctx<'_, Parcel>) {
        while let Some(number) = self.window.blocked.front().copied()
            && self.begin(shared, ctx, number)
        {
            self.window.blocked.pop_front();
        }
        let mut next = self.take(shared, ctx);
        self.begin_ready(shared, ctx);
        if shared.params.prefetch > 0 {
            self.prefetch(shared, ctx);
        }
        if let Some(Reverse((time, _))) = self.window.ready.peek()
            && self.window.blocked.is_empty()
        {
            next = next.min(*time);
        }
        // Steps that wait for memory continue when memory responds.
        self.next = next;
        self.has_progressed = false;
    }

    /// Whether the thread may be able to go on at `now`.
    pub(super) fn may_issue(&self, shared: &CoreShared, now: u64) -> bool {
        let released = self.front.passed
            && self
                .front
                .sync
                .is_some_and(|sync| shared.is_past(sync.after));
        self.has_progressed || released || self.next <= now || !self.window.blocked.is_empty()
    }

    /// Fetches the next step of one of several threads, and passes the points of synchronization before it. Returns when
    /// the thread can go on, or [`PENDING`], if it waits at one.
    fn hold_or_synchronize(&mut self, shared: &mut CoreShared, now: u64) -> Option<u64> {
        loop {
            self.front
                .hold_of(&mut shared.running, usize::from(self.number));
            let sync = self.front.sync?;
            if let Some(next) = self.synchronize(shared, &sync, now) {
                return Some(next);
            }
        }
    }

    /// Passes a point of synchronization, and waits there for another thread. Returns when the thread
    /// can go on, or [`PENDING`] if that is not known.
    fn synchronize(&mut self, shared: &mut CoreShared, sync: &SyncPoint, now: u64) -> Option<u64> {
        if !self.front.passed {
            let open = self.window.pending + self.window.waiting;
            if open > 0 {
                return Some(PENDING);
            }
            let done = self.window.latest.max(self.front.cycle_start);
            let passes = done + sync.cycles * shared.params.cycle.0;
            if passes > now {
                return Some(passes);
            }
            // All earlier steps have completed.
            self.window.oldest = self.window.next;
            self.window.position += sync.instructions;
            self.front.passed = true;
            self.ended = now;
            shared.points[usize::from(self.number)] += 1;
            shared.moved = true;
        }
        if !shared.is_past(sync.after) {
            return Some(PENDING);
        }
        match self.begun {
            // A thread begins when another one has made it.
            None => self.begun = Some(now),
            Some(_) => self.waited += now - self.ended,
        }
        self.ended = now;
        self.front.go_on(now);
        (self.front.sync, self.front.passed) = (None, false);
        None
    }

    /// Begins the steps whose data are available, as far as memory accepts their requests.
    fn begin_ready(&mut self, shared: &mut CoreShared, ctx: &mut Ctx<'_, Parcel>) {
        let now = ctx.now().0;
        while self.window.blocked.is_empty()
            && let Some(Reverse((time, number))) = self.window.ready.peek().copied()
            && time <= now
        {
            self.window.ready.pop();
            if !self.begin(shared, ctx, number) {
                self.window.blocked.push_back(number);
            }
        }
    }

    /// Takes steps into the window. Returns when the next step can be taken, or [`PENDING`] if that depends
    /// on memory or no step is left.
    fn take(&mut self, shared: &mut CoreShared, ctx: &mut Ctx<'_, Parcel>) -> u64 {
        let now = ctx.now().0;
        loop {
            self.begin_ready(shared, ctx);
            if shared.points.len() == 1 {
                self.front.hold(&mut shared.running);
            } else if let Some(next) = self.hold_or_synchronize(shared, now) {
                return next;
            }
            let full = self.retire(shared, now);
            let Some(step) = self.front.held else {
                return PENDING;
            };
            if !self.window.blocked.is_empty() {
                return PENDING;
            }
            let due = full.unwrap_or_else(|| self.due(shared, &step));
            if due > now {
                return due;
            }
            self.front.take(now);
            self.enter(shared, ctx, &step);
        }
    }

    /// Retires completed steps from the window. If the next step does not fit yet, returns when the
    /// oldest step completes.
    fn retire(&mut self, shared: &CoreShared, now: u64) -> Option<u64> {
        let next = self.front.held.map_or(self.window.position, |step| {
            self.window.position + u64::from(step.instructions)
        });
        while self.window.oldest < self.window.next {
            let oldest = &self.window[self.window.oldest];
            let beyond = (next - oldest.position).checked_sub(self.window.size);
            if oldest.done > now {
                return beyond.map(|_| oldest.done);
            }
            if let (Some(beyond), Some(step)) = (beyond, self.front.held) {
                // The instructions that did not fit execute after the oldest step has completed.
                let computing = u64::from(step.cycles) * shared.params.cycle.0;
                let rest = computing * beyond / u64::from(step.instructions.max(1));
                self.front.room = self.front.room.max(oldest.done + rest);
            }
            self.window.oldest += 1;
        }
        None
    }

    /// When a step can be taken into the window; [`PENDING`] if it waits for steps whose completion time is not known.
    fn due(&self, shared: &CoreShared, step: &Step) -> u64 {
        let cycle = shared.params.cycle.0;
        let slot = match self.front.in_cycle < shared.params.width {
            true => self.front.cycle_start,
            false => self.front.cycle_start + cycle,
        };
        let computing = u64::from(step.cycles) * cycle;
        let computed = match step.after {
            StepDependency::Nothing | StepDependency::Back(_) => self.front.cycle_start + computing,
            // The step computes when its data are available, and does not block younger steps.
            StepDependency::Previous => 0,
            StepDependency::All if self.window.pending + self.window.waiting > 0 => return PENDING,
            StepDependency::All => self.window.latest.max(self.front.cycle_start) + computing,
        };
        if step.action == Action::Flush && self.window.waiting > 0 {
            return PENDING;
        }
        slot.max(computed)
            .max(self.front.room)
            .max(self.front.begun + step.not_before.0)
    }

    /// Puts a step into the window, and begins it if nothing is missing.
    fn enter(&mut self, shared: &mut CoreShared, ctx: &mut Ctx<'_, Parcel>, step: &Step) {
        let now = ctx.now().0;
        let number = self.window.next;
        let needed = self.window.needed(number, step.after);
        let data = needed.map_or(0, |needed| self.window[needed].done);
        let mut sibling = NIL;
        if let (Some(needed), PENDING) = (needed, data) {
            let index = self.window.index_of(number);
            sibling = std::mem::replace(&mut self.window[needed].waiters, index);
        }
        self.window.next += 1;
        self.window.position += u64::from(step.instructions);
        let position = self.window.position;
        self.window[number] = WindowEntry {
            step: *step,
            begun: now,
            done: PENDING,
            waiters: NIL,
            sibling,
            position,
        };
        self.window.waiting += 1;
        match step.action {
            Action::Load => shared.stats.loads += 1,
            Action::Store => shared.stats.stores += 1,
            Action::Flush => shared.stats.flushes += 1,
        }
        let phase = &mut shared.stats.phases[step.phase as usize];
        if phase.issued == 0 {
            phase.begin = SimTime(now);
        }
        phase.issued += 1;
        self.begun = self.begun.or(Some(now));
        if data == PENDING {
            return;
        }
        let begin = match step.after {
            StepDependency::Previous | StepDependency::Back(_) => {
                Self::when_computed(shared, data, step)
            }
            StepDependency::Nothing | StepDependency::All => now,
        };
        if begin > now {
            self.window.ready.push(Reverse((begin, number)));
        } else if !self.begin(shared, ctx, number) {
            self.window.blocked.push_back(number);
        }
    }

    /// When a step begins whose data are available at `data`.
    fn when_computed(shared: &CoreShared, data: u64, step: &Step) -> u64 {
        match step.after {
            StepDependency::Back(_) => data,
            StepDependency::Previous | StepDependency::Nothing | StepDependency::All => {
                data + u64::from(step.cycles) * shared.params.cycle.0
            }
        }
    }

    /// Begins a step of the window. Returns false if memory cannot accept its request yet.
    fn begin(&mut self, shared: &mut CoreShared, ctx: &mut Ctx<'_, Parcel>, number: u64) -> bool {
        let Step { hpa, action, .. } = self.window[number].step;
        let line = hpa.line();
        let store = action == Action::Store;
        if action == Action::Flush {
            return self.begin_flush(shared, ctx, number, line);
        }
        let begun = self.begin_access(shared, ctx, number, line, store);
        if begun && shared.params.prefetch > 0 {
            self.streams.observe(line);
            self.prefetch(shared, ctx);
        }
        begun
    }

    /// Begins a load or a store. Returns false if memory cannot accept its request yet.
    fn begin_access(
        &mut self,
        shared: &mut CoreShared,
        ctx: &mut Ctx<'_, Parcel>,
        number: u64,
        line: LineAddr,
        store: bool,
    ) -> bool {
        let now = ctx.now().0;
        if let Some(level) = shared
            .caches
            .find(line, store, &mut shared.requests.evicted)
        {
            shared.stats.hits[level] += 1;
            self.window.begin(number, now);
            self.completes(shared, number, now + shared.caches.level_ps[level]);
            return true;
        }
        let waiter = (self.number, self.first_index + self.window.index_of(number));
        if let Some(tag) = shared.requests.fill_of(line) {
            shared.stats.merged += 1;
            self.window.begin(number, now);
            self.window.begin_wait(now);
            shared.requests.list[tag as usize].dirty |= store;
            shared.requests.wait(tag, waiter.1);
            return true;
        }
        let misses = self.fills - self.prefetched;
        let full = misses >= shared.params.misses || self.fills >= shared.params.fills();
        if full || shared.requests.is_writing_back_most() || shared.requests.is_going_back(line) {
            return false;
        }
        shared.stats.misses += 1;
        self.window.begin(number, now);
        self.window.begin_wait(now);
        let tag = shared.request(ctx, line, RequestKind::Fill, waiter);
        shared.requests.list[tag as usize].dirty = store;
        shared.requests.fills.push(tag);
        self.fills += 1;
        true
    }

    /// Requests the lines that the prefetcher proposes, as long as there is room.
    fn prefetch(&mut self, shared: &mut CoreShared, ctx: &mut Ctx<'_, Parcel>) {
        let most = shared.params.prefetch;
        while self.fills < most
            && !shared.requests.is_writing_back_most()
            && let Some(line) = self.streams.next(most)
        {
            let hpa = Hpa(line.0 * 64);
            let cached = shared.caches.has(line);
            let nowhere = hpa < LOCAL_BASE && shared.map.owner(hpa).is_none();
            if cached
                || nowhere
                || shared.requests.fill_of(line).is_some()
                || shared.requests.is_going_back(line)
            {
                continue;
            }
            let tag = shared.request(ctx, line, RequestKind::Fill, (self.number, NIL));
            shared.requests.list[tag as usize].prefetch = true;
            shared.requests.fills.push(tag);
            self.fills += 1;
            self.prefetched += 1;
            shared.stats.prefetches += 1;
        }
    }

    /// Begins a flush. Returns false if memory cannot accept its write yet.
    fn begin_flush(
        &mut self,
        shared: &mut CoreShared,
        ctx: &mut Ctx<'_, Parcel>,
        number: u64,
        line: LineAddr,
    ) -> bool {
        let now = ctx.now().0;
        if shared.requests.is_writing_back_most()
            || shared.requests.fill_of(line).is_some()
            || shared.requests.is_going_back(line)
        {
            return false;
        }
        let dirty = shared.caches.clean(line);
        self.window.begin(number, now);
        if !dirty {
            self.completes(shared, number, now + shared.caches.lookup_ps);
            return true;
        }
        shared.stats.flushes_dirty += 1;
        self.window.begin_wait(now);
        let waiter = (self.number, self.first_index + self.window.index_of(number));
        let tag = shared.request(ctx, line, RequestKind::Flush, waiter);
        shared.requests.writebacks.push(tag);
        true
    }

    /// Sets the completion time of a step. A step that waits for its data begins then, or when it has computed.
    pub(super) fn completes(&mut self, shared: &mut CoreShared, number: u64, done: u64) {
        let entry = &mut self.window[number];
        entry.done = done;
        let (step, begun) = (entry.step, entry.begun);
        self.window.latest = self.window.latest.max(done);
        self.has_progressed = true;
        let phase = &mut shared.stats.phases[step.phase as usize];
        phase.completed += 1;
        phase.operations += u64::from(step.ends);
        phase.end = phase.end.max(SimTime(done));
        if step.action == Action::Load {
            phase.loads += 1;
            phase.load_ps += u128::from(done - begun);
        }
        let mut index = std::mem::replace(&mut self.window[number].waiters, NIL);
        while index != NIL {
            let WindowEntry { step, sibling, .. } = self.window.entries[index as usize];
            let waiter = self.window.number_at(index);
            let begins = Self::when_computed(shared, done, &step);
            self.window.ready.push(Reverse((begins, waiter)));
            index = sibling;
        }
    }
}
