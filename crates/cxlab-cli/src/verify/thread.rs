//! Listens to a thread, instruction by instruction: finds what its first cache lacks and which access needs whose data.
//!
//! An access needs the data of an earlier one when a register of its address was computed from them,
//! or when both are in the same line, which is still in flight. Where it needs several, the one counts that
//! comes last by an estimate of a core with unlimited misses. Left out: dependence through lines that are not in
//! flight or that another thread asked for, and the time of computing on loaded data.

use std::collections::{HashMap, VecDeque};

use cxlab_attach::estimate::Estimate;
use cxlab_attach::model::{REGISTERS, Step, Window};
use cxlab_attach::placement::PAGE;
use cxlab_attach::reuse::WindowTrace;
use cxlab_engine::units::LineAddr;
use cxlab_workload::filter::CacheFilter;
use cxlab_workload::{OpKind, SyncPoint};

use super::exact::ThreadWindow;
use super::recorded::{Access, RecordedThread};
use super::recorder::{SharedRecorder, cache};
use super::sampled::{LEAD_IN_STEPS, POSITION_NS, SampledPart, WINDOW_STEPS};
use super::{Assumed, FIRST_CACHE, FIRST_WAYS};

/// Number of instructions of a window of the model: the most that windows of `cxlab attach` have.
const WINDOW_INSTRUCTIONS: u64 = 4096;

/// Producer of a value.
#[derive(Clone, Copy, Default)]
struct Maker {
    /// Number of the access, from 1, or 0 for none.
    access: u64,
    /// Number of the instruction.
    position: u64,
    /// Estimated time at which the value is ready, in nanoseconds.
    ready: f64,
}

pub(super) struct ThreadRecorder {
    number: u16,
    first: CacheFilter,
    registers: [Maker; REGISTERS],
    /// Lines that may be in flight.
    lines: HashMap<u64, Maker>,
    /// Accesses that may be in the reorder buffer, with their lines.
    open: VecDeque<(Maker, u64)>,
    position: u64,
    /// Instruction number of the last access or synchronization point.
    counted: u64,
    /// Number of accesses before the last point of synchronization.
    synced: u64,
    /// Estimated time at which the next instruction is decoded, in nanoseconds.
    front: f64,
    /// Additional delay of decoding by waits for other threads and for free resources, in nanoseconds.
    lag: f64,
    recorded: RecordedThread,
    window: Window,
    /// Time at which the current window began, by the estimated clock.
    window_begun: f64,
    /// Instructions of a possible sampled window, and time of the next one.
    sample: Vec<Step>,
    sampled: bool,
    next_sample: f64,
    /// First instruction of the current part.
    part: u64,
    /// CPU time of the thread until now, by the model.
    clock_ns: f64,
}

impl ThreadRecorder {
    /// A recorder of thread `number`.
    ///
    /// # Errors
    /// A cache that cannot be built.
    pub(super) fn new(number: u16, shared: &SharedRecorder<'_>) -> Result<ThreadRecorder, String> {
        Ok(ThreadRecorder {
            number,
            first: cache(FIRST_CACHE, FIRST_WAYS)?,
            registers: [Maker::default(); REGISTERS],
            lines: HashMap::new(),
            open: VecDeque::new(),
            position: 0,
            counted: 0,
            synced: 0,
            front: 0.0,
            lag: 0.0,
            recorded: RecordedThread::default(),
            window: Window::exact(shared.pools, shared.assumed.overlap),
            window_begun: 0.0,
            sample: Vec::new(),
            sampled: true,
            next_sample: POSITION_NS,
            part: 0,
            clock_ns: 0.0,
        })
    }

    /// Number of instructions so far.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// The estimated clock of the thread in the program, in nanoseconds.
    pub(super) fn clock_ns(&self) -> f64 {
        self.front + self.lag
    }

    /// Delays the thread until a time of its estimated clock.
    pub(super) fn wait_until(&mut self, clock_ns: f64) {
        let waited = (clock_ns - self.clock_ns()).max(0.0);
        self.lag += waited;
        // The length of the current window excludes the wait.
        self.window_begun += waited;
    }

    /// Adds a synchronization point, where all accesses of the thread have completed, and returns its number, from 1.
    pub(super) fn synchronize(&mut self, after: Option<(u16, u64)>) -> u64 {
        let sync = SyncPoint {
            cycles: self.position - self.counted,
            instructions: self.position - self.counted,
            after,
        };
        let syncs = &mut self.recorded.syncs;
        // Signalling and then waiting without an access between is one point.
        match syncs.last_mut() {
            Some((before, last))
                if after.is_some()
                    && last.after.is_none()
                    && *before == self.recorded.accesses.len()
                    && sync.cycles == 0 =>
            {
                last.after = after;
            }
            _ => syncs.push((self.recorded.accesses.len(), sync)),
        }
        let passed = syncs.len() as u64;
        self.counted = self.position;
        self.synced = self.recorded.accesses.len() as u64;
        for (maker, _) in self.open.drain(..) {
            self.front = self.front.max(maker.ready);
        }
        self.lines.clear();
        passed
    }

    /// Adds an executed instruction: filters its accesses by the caches, and advances the estimated clock.
    pub(super) fn step(&mut self, shared: &mut SharedRecorder<'_>, step: &Step) {
        if self.position.is_multiple_of(WINDOW_INSTRUCTIONS) {
            self.part = step.code;
        }
        self.position += 1;
        self.front += shared.assumed.base_ns();
        self.retire(&shared.assumed);
        let window = u64::from(shared.assumed.overlap.window);
        let (position, registers) = (self.position, &self.registers);
        let in_reach = |maker: &Maker| maker.access > 0 && position - maker.position < window;
        let all = |needed: &[u8]| {
            needed
                .iter()
                .map(|register| registers[usize::from(*register)])
                .filter(in_reach)
                .fold(Maker::default(), later)
        };
        let (base, mut made) = (all(&step.addresses), all(&step.reads));
        // Of the lines that the model asks about, those that miss, with their pools.
        let mut missed: Vec<(u64, usize)> = Vec::new();
        for touch in &step.touches {
            let line = touch.address / 64;
            let mut maker = base;
            if let Some(other) = self.lines.get(&line) {
                maker = later(maker, *other);
            }
            let kind = match touch.write {
                true => OpKind::Write,
                false => OpKind::Read,
            };
            let (mut asks, mut writes) = (false, None);
            self.first
                .access(LineAddr(line), kind, &mut |kind, line| match kind {
                    OpKind::Read => asks = true,
                    OpKind::Write => writes = Some(line.0),
                });
            if asks {
                let page = shared.pages.touch(touch.address);
                let misses = self.ask_last(shared, line, kind);
                if misses {
                    shared.misses += 1;
                    if !touch.write {
                        let at = (self.position, self.clock_ns());
                        shared.sampled(self.number, at, step.code, touch.address);
                    }
                    missed.push((line, shared.pages.pool(page)));
                }
                let made_here = self.access(shared, touch.address, page, kind, (base, misses));
                if !touch.write {
                    maker = later(maker, made_here);
                }
            }
            if let Some(line) = writes {
                // The line goes to the next cache, and no instruction waits for it.
                let page = shared.pages.touch(line * 64);
                self.ask_last(shared, line, OpKind::Write);
                self.access(
                    shared,
                    line * 64,
                    page,
                    OpKind::Write,
                    (Maker::default(), false),
                );
            }
            if !touch.write {
                made = later(made, maker);
            }
        }
        for register in &step.writes {
            self.registers[usize::from(*register)] = made;
        }
        self.window.step(step, &mut |address| {
            let found = missed.iter().find(|(line, _)| *line == address / 64);
            found.map(|(_, pool)| *pool)
        });
        if self.sampled && (1..=WINDOW_STEPS).contains(&(self.position % WINDOW_INSTRUCTIONS)) {
            self.sample.push(step.clone());
        }
        if self.position.is_multiple_of(WINDOW_INSTRUCTIONS) {
            self.end_window(shared);
        }
    }

    /// The sampled window, without caches: only the pools of its lines are known.
    fn seen(&mut self, shared: &SharedRecorder<'_>) -> Option<WindowTrace> {
        let steps = std::mem::take(&mut self.sample);
        let pages = &shared.pages;
        let trace = WindowTrace::new(steps, LEAD_IN_STEPS, &mut |address| pages.pool_at(address));
        (!trace.is_empty()).then_some(trace)
    }

    /// Whether a line misses the last level cache. A modified line that is evicted is written back.
    fn ask_last(&mut self, shared: &mut SharedRecorder<'_>, line: u64, kind: OpKind) -> bool {
        let (misses, back) = shared.ask_last(line, kind);
        if let Some(line) = back {
            self.window.write_back(shared.pages.last_pool(line * 64));
        }
        misses
    }

    fn access(
        &mut self,
        shared: &mut SharedRecorder<'_>,
        address: u64,
        page: u32,
        kind: OpKind,
        (base, misses): (Maker, bool),
    ) -> Maker {
        let number = self.recorded.accesses.len() as u64 + 1;
        let back = match base.access {
            0 => 0,
            // All accesses before a point of synchronization have completed.
            access if access <= self.synced => 0,
            access => u32::try_from(number - access).unwrap_or(0),
        };
        self.recorded.accesses.push(Access {
            page,
            instructions: u32::try_from(self.position - self.counted).unwrap_or(u32::MAX),
            back,
            line: (address % PAGE / 64) as u8,
            store: kind == OpKind::Write,
        });
        self.counted = self.position;
        shared.kept += 1;
        let wait = if misses {
            shared.assumed.local_ns()
        } else {
            0.0
        };
        let maker = Maker {
            access: number,
            position: self.position,
            ready: self.front.max(base.ready) + wait,
        };
        if misses {
            self.lines.insert(address / 64, maker);
            self.open.push_back((maker, address / 64));
        }
        maker
    }

    /// Retires the oldest accesses of a full reorder buffer. Younger instructions wait until these have completed.
    fn retire(&mut self, assumed: &Assumed) {
        let window = u64::from(assumed.overlap.window);
        while let Some((maker, line)) = self.open.front().copied()
            && self.position - maker.position >= window
        {
            self.open.pop_front();
            self.front = self.front.max(maker.ready);
            if self.lines.get(&line).map(|last| last.access) == Some(maker.access) {
                self.lines.remove(&line);
            }
        }
    }

    fn end_window(&mut self, shared: &mut SharedRecorder<'_>) {
        let used = self.window.take();
        let sample = self.seen(shared);
        let machine = shared.assumed.machine();
        let own = Estimate::of([&used].into_iter(), &machine, 1.0);
        let time_ns = own.map_or(0.0, |own| own.time_ns());
        self.clock_ns += time_ns;
        self.sampled = self.clock_ns >= self.next_sample;
        if self.sampled {
            self.next_sample = self.clock_ns + POSITION_NS;
        }
        self.lag += (self.window_begun + time_ns - self.clock_ns()).max(0.0);
        let ended_ns = self.clock_ns();
        let used_bytes = shared.passed(time_ns, (self.position, ended_ns));
        let begun_ns = std::mem::replace(&mut self.window_begun, ended_ns);
        shared.windows.push(ThreadWindow {
            thread: usize::from(self.number),
            begun_ns,
            ended_ns,
            used,
        });
        shared.parts.push(SampledPart {
            thread: usize::from(self.number),
            begun_ns,
            ended_ns,
            code: self.part,
            sample,
            time_ns,
            used_bytes,
        });
    }

    /// The recorded accesses of the thread.
    pub(super) fn finish(mut self, shared: &mut SharedRecorder<'_>) -> RecordedThread {
        self.end_window(shared);
        // The current block.
        shared.windows.push(ThreadWindow {
            thread: usize::from(self.number),
            begun_ns: self.clock_ns(),
            ended_ns: self.clock_ns(),
            used: self.window.finish(),
        });
        self.recorded.instructions = self.position;
        self.recorded
    }
}

/// The producer that is ready last.
fn later(one: Maker, other: Maker) -> Maker {
    match other.access > 0 && (one.access == 0 || other.ready > one.ready) {
        true => other,
        false => one,
    }
}
