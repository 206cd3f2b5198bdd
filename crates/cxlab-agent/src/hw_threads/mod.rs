//! Execution of threads and programs on the hardware threads of a core or a processing
//! element: which operation begins next, what it depends on, and when it completes. The owner has
//! the caches, the links and the clock.
//!
//! A hardware thread runs one thread, or one program (see `steps`). A thread's hardware thread begins operations in
//! program order, one access to a line each cycle, and lets them complete in any order. An
//! operation that [follows](ThreadOp::follows) an outstanding operation waits for it, and stalls
//! all later operations of the hardware thread. A range of bytes is accessed line by line.
//!
//! The owner requests the next [`ThreadAction`] of a hardware thread and carries it out. An access takes effect
//! on memory when the owner [performs](HwThreads::perform) it, while the owner has the right to
//! the line. It is [done](HwThreads::access_done) at that time or later. The operation completes
//! with its last access.
//!
//! The statistics count each memory operation as one request. Its latency stages are those of the
//! access that was done last; the time until that access began counts as `host_queue`.

mod effects;

use cxlab_engine::Ctx;
use cxlab_engine::probe::LatencyProbe;
use cxlab_engine::save_state;
use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};
use cxlab_engine::units::{Picos, SimTime};
use cxlab_link::Parcel;
use cxlab_workload::thread::{NextAction, Thread, ThreadOp, Token, UNCOUNTED};
use cxlab_workload::{Image, LOCAL_BASE, Phase};
use serde::{Deserialize, Serialize};

use crate::access::{
    Access, AccessOutcome, AccessResponse, ThreadAction, access_of, bytes_of, is_load, is_request,
    length_of, moves, writes,
};
use crate::audit::{LineVersions, VersionAudit};
use crate::ledger::RequestLedger;
use crate::poison::PoisonedLines;
use crate::stats::{HOST_QUEUE, LOCAL, MEDIA, RequestRow};
use crate::steps::{NextStep, StepWindow, ThreadProgram};

/// Statistics of one phase of a kernel on one component.
#[derive(Clone, Default, Serialize, Deserialize, Debug)]
pub struct ThreadPhase {
    /// Operations of the kernel, by the kernel's own count.
    pub operations: u64,
    /// Operations of threads and programs that completed, without those that take no time.
    pub completed: u64,
    /// Bytes moved by the operations that were served.
    pub bytes: u64,
    /// Completed operations on memory: loads, stores, atomic operations, flushes and so on.
    pub on_memory: u64,
    /// Completed operations on memory whose first byte is in CXL memory.
    pub on_cxl: u64,
    /// Completed operations on memory that waited for the host's own memory. Caches, or CXL
    /// memory, served the others.
    pub from_own: u64,
    /// Completed operations on memory that waited for CXL memory.
    pub from_cxl: u64,
    /// When the first operation began; `None` before.
    pub begin: Option<SimTime>,
    /// When the last operation completed.
    pub end: SimTime,
    /// Time in which an operation that moves bytes was outstanding, up to the last
    /// time when none was.
    busy: Picos,
    /// Time from begin to completion of each served operation that moves bytes.
    pub latency: LatencyProbe,
    /// Number of outstanding operations that move bytes, and the time since which there has
    /// been at least one.
    open: u32,
    since: u64,
}

impl ThreadPhase {
    /// Time from the first begin to the last completion.
    pub fn time(&self) -> Picos {
        let begin = self.begin.unwrap_or(self.end);
        Picos(self.end.0.saturating_sub(begin.0))
    }

    /// Time in which an operation that moves bytes was outstanding, up to the last completion.
    pub fn busy(&self) -> Picos {
        match self.open {
            0 => self.busy,
            _ => Picos(self.busy.0 + self.end.0.saturating_sub(self.since)),
        }
    }
}

/// An operation that has been taken from its thread or program.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct OutstandingOp {
    op: ThreadOp,
    token: Token,
    hw_thread: u16,
    phase: u8,
    /// Whether all of its accesses have begun.
    begun: bool,
    /// Accesses that have begun and are not done.
    open: u32,
    /// Bytes whose access has begun.
    covered: u64,
    issued: u64,
    /// Number of the request in the ledger.
    number: u64,
    /// Response to the access that completes last.
    last: AccessResponse,
    /// Outcome of the operation: served only if all of its accesses were.
    outcome: AccessOutcome,
    /// For a program: number of the step, and whether an operation of the
    /// program completes with it.
    step: u64,
    ends: bool,
    value: u64,
    /// Physical address of the first byte, once it is translated.
    hpa: u64,
}

impl OutstandingOp {
    fn new(op: ThreadOp, token: Token, hw_thread: usize, phase: u8, now: SimTime) -> OutstandingOp {
        OutstandingOp {
            op,
            token,
            hw_thread: hw_thread as u16,
            phase,
            begun: false,
            open: 0,
            covered: 0,
            issued: now.0,
            number: 0,
            last: AccessResponse::NONE,
            outcome: AccessOutcome::Served,
            step: 0,
            ends: false,
            value: 0,
            hpa: 0,
        }
    }
}

/// What a hardware thread executes.
enum HwThreadCode {
    Thread(Thread),
    Program(Box<StepWindow>),
}

impl SaveState for HwThreadCode {
    fn save(&self, out: &mut StateWriter) {
        match self {
            HwThreadCode::Thread(thread) => thread.save(out),
            HwThreadCode::Program(steps) => steps.save(out),
        }
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        match self {
            HwThreadCode::Thread(thread) => thread.restore(from),
            HwThreadCode::Program(steps) => steps.restore(from),
        }
    }
}

/// The next operation of a hardware thread.
enum NextOp {
    /// The operation with this number.
    Op(u32),
    /// No operation before this time, in picoseconds.
    NotBefore(u64),
    /// No operation until an outstanding one completes, if ever.
    Nothing,
}

/// A hardware thread and its operations.
struct HwThread {
    code: HwThreadCode,
    /// Operation whose accesses are being begun.
    held: Option<u32>,
    /// Operations that have begun and are not complete, oldest first.
    outstanding: Vec<u32>,
    /// Number of outstanding operations that are not plain loads.
    changing: u32,
    /// Earliest time at which the next access can begin.
    free_at: u64,
    ended: bool,
}

save_state!(HwThread {
    values: held, outstanding, changing, free_at, ended;
    states: code;
});

/// The hardware threads of a component, their outstanding operations and their statistics.
pub struct HwThreads {
    hw_threads: Vec<HwThread>,
    /// Operations by number, and the numbers that are free.
    ops: Vec<OutstandingOp>,
    free: Vec<u32>,
    image: Image,
    /// Length of a cycle, in picoseconds.
    cycle: u64,
    /// Most outstanding operations of each thread.
    window: usize,
    /// The phases, and the statistics of each.
    names: Vec<Phase>,
    phases: Vec<ThreadPhase>,
    /// Number of outstanding operations of all threads.
    outstanding: u64,
    /// Accounting of the operations on memory.
    pub ledger: RequestLedger,
    /// Check that no stale copy of a line is used; only in builds with debug assertions.
    audit: Option<VersionAudit>,
    /// The lines whose value is poison; `None` where memory never supplies poison.
    poison: Option<PoisonedLines>,
}

// The host saves the image, for all components that share it.
save_state!(HwThreads {
    values: ops, free, outstanding;
    sized: phases;
    states: hw_threads, ledger, audit, poison;
    built: image, cycle, window, names;
});

/// Parameters of [`HwThreads::new`].
pub struct HwThreadsConfig {
    /// Threads, one for each of the first hardware threads.
    pub threads: Vec<Thread>,
    /// Programs, one for each of the hardware threads after those of the threads.
    pub programs: Vec<ThreadProgram>,
    /// Phases of the threads' kernel, followed by those of the programs.
    pub phases: Vec<Phase>,
    /// The memory that the threads share.
    pub image: Image,
    /// Length of a cycle.
    pub cycle: Picos,
    /// Maximum number of outstanding operations of each thread.
    pub window: u32,
    /// Number of the requester.
    pub number: u16,
    /// Whether to log a row for each request.
    pub log: bool,
    /// Versions of the coherence domain's lines, where they are checked.
    pub versions: Option<LineVersions>,
    /// Lines of the coherence domain whose value is poison, where memory may supply poison.
    pub poison: Option<PoisonedLines>,
}

impl HwThreads {
    /// Hardware threads for the threads and programs of `config`.
    pub fn new(config: HwThreadsConfig) -> HwThreads {
        let HwThreadsConfig {
            threads,
            programs,
            phases,
            image,
            cycle,
            window,
            ..
        } = config;
        let cycle = cycle.0.max(1);
        let threads = threads.into_iter().map(HwThreadCode::Thread);
        let programs = programs.into_iter();
        let programs = programs
            .map(|program| HwThreadCode::Program(Box::new(StepWindow::new(program, cycle))));
        let hw_thread = |code| HwThread {
            code,
            held: None,
            outstanding: Vec::with_capacity(window.min(4096) as usize),
            changing: 0,
            free_at: 0,
            ended: false,
        };
        HwThreads {
            hw_threads: threads.chain(programs).map(hw_thread).collect(),
            ops: Vec::new(),
            free: Vec::new(),
            image,
            cycle,
            window: window.max(1) as usize,
            phases: vec![ThreadPhase::default(); phases.len().max(1)],
            names: phases,
            outstanding: 0,
            ledger: RequestLedger::new(config.number, config.log),
            audit: config.versions.map(VersionAudit::new),
            poison: config.poison,
        }
    }

    /// Number of hardware threads.
    pub fn len(&self) -> usize {
        self.hw_threads.len()
    }

    /// Whether the component has no hardware threads at all.
    pub fn is_empty(&self) -> bool {
        self.hw_threads.is_empty()
    }

    /// Checks the results of the programs that have finished.
    ///
    /// # Errors
    /// The first wrong result, as text.
    pub fn check(&self) -> Result<(), String> {
        self.hw_threads
            .iter()
            .try_for_each(|hw_thread| match &hw_thread.code {
                HwThreadCode::Thread(_) => Ok(()),
                HwThreadCode::Program(steps) => steps.check(),
            })
    }

    /// Whether every thread and program has ended and all of its operations are complete.
    pub fn is_done(&self) -> bool {
        self.outstanding == 0 && self.hw_threads.iter().all(|hw_thread| hw_thread.ended)
    }

    /// Number of operations that have begun and are not complete.
    pub fn in_flight(&self) -> u64 {
        self.outstanding
    }

    /// The phases, each with its statistics since the run began.
    pub fn phases(&self) -> impl Iterator<Item = (&Phase, &ThreadPhase)> {
        self.names.iter().zip(&self.phases)
    }

    /// The memory that the threads share.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// Index of the hardware thread that an operation belongs to.
    #[inline]
    pub fn thread_of(&self, op: u32) -> usize {
        usize::from(self.ops[op as usize].hw_thread)
    }

    /// The operation with this number.
    #[inline]
    pub fn op(&self, op: u32) -> ThreadOp {
        self.ops[op as usize].op
    }

    /// Whether a hardware thread runs a thread rather than a program.
    pub fn is_thread(&self, hw_thread: usize) -> bool {
        matches!(self.hw_threads[hw_thread].code, HwThreadCode::Thread(_))
    }

    /// Ends all threads, as a signal ends their process. No further operation of them begins;
    /// operations that have begun complete. Returns the operations that have no access outstanding,
    /// each with its earliest completion time; `None` if no thread was running.
    pub fn end_threads(&mut self, now: SimTime) -> Option<Vec<(u32, SimTime)>> {
        let mut any = false;
        let mut done = Vec::new();
        for hw_thread in &mut self.hw_threads {
            if hw_thread.ended || matches!(hw_thread.code, HwThreadCode::Program(_)) {
                continue;
            }
            any = true;
            hw_thread.ended = true;
            let Some(id) = hw_thread.held.take() else {
                continue;
            };
            let op = &mut self.ops[id as usize];
            if op.covered == 0 {
                self.free.push(id);
                continue;
            }
            op.begun = true;
            if op.open == 0 {
                if op.last.completes < now {
                    op.last = AccessResponse::by_cache(now, now);
                }
                done.push((id, op.last.completes));
            }
        }
        any.then_some(done)
    }

    /// When an operation began.
    #[inline]
    pub fn issued(&self, op: u32) -> SimTime {
        SimTime(self.ops[op as usize].issued)
    }

    /// What a hardware thread does next.
    pub fn next_action(&mut self, ctx: &mut Ctx<'_, Parcel>, hw_thread: usize) -> ThreadAction {
        let now = ctx.now();
        loop {
            let id = match self.held(hw_thread, now) {
                NextOp::Op(id) => id,
                NextOp::NotBefore(time) => return ThreadAction::NotBefore(SimTime(time)),
                NextOp::Nothing => {
                    let hw_thread = &mut self.hw_threads[hw_thread];
                    return match hw_thread.ended && hw_thread.outstanding.is_empty() {
                        true => ThreadAction::Ended,
                        false => ThreadAction::Waits,
                    };
                }
            };
            let thread = &self.hw_threads[hw_thread];
            if thread.free_at > now.0 {
                return ThreadAction::NotBefore(SimTime(thread.free_at));
            }
            let OutstandingOp { op, covered, .. } = self.ops[id as usize];
            let ordered = matches!(thread.code, HwThreadCode::Thread(_));
            if ordered
                && covered == 0
                && (thread.outstanding.len() >= self.window || self.must_wait(hw_thread, op))
            {
                return ThreadAction::Waits;
            }
            match op {
                ThreadOp::Fence => {
                    self.begin(id, now);
                    self.complete(ctx, id);
                }
                ThreadOp::Compute { cycles } => {
                    let completes = now.0 + u64::from(cycles) * self.cycle;
                    self.hw_threads[hw_thread].free_at = completes;
                    self.begin(id, now);
                    return ThreadAction::Completes(id, SimTime(completes));
                }
                _ => {
                    return match access_of(id, op, covered) {
                        Some(access) => ThreadAction::Access(access),
                        None => ThreadAction::Other(id, op),
                    };
                }
            }
        }
    }

    /// The operation that is being begun, or else the next of the hardware thread's code.
    fn held(&mut self, hw_thread: usize, now: SimTime) -> NextOp {
        let thread = &self.hw_threads[hw_thread];
        if let Some(id) = thread.held {
            return NextOp::Op(id);
        }
        match &thread.code {
            _ if thread.ended => NextOp::Nothing,
            HwThreadCode::Thread(_) => self.next_op(hw_thread, now),
            HwThreadCode::Program(_) => self.next_step(hw_thread, now),
        }
    }

    fn next_step(&mut self, hw_thread: usize, now: SimTime) -> NextOp {
        let HwThread { code, ended, .. } = &mut self.hw_threads[hw_thread];
        let HwThreadCode::Program(steps) = code else {
            return NextOp::Nothing;
        };
        match steps.next(now.0) {
            NextStep::Begin(number, step) => {
                let (op, phase) = steps.operation(&step);
                let mut op = OutstandingOp::new(op, Token(0), hw_thread, phase, now);
                op.step = number;
                op.ends = step.ends;
                NextOp::Op(self.hold(hw_thread, op))
            }
            NextStep::NotBefore(time) => NextOp::NotBefore(time),
            NextStep::Waits => NextOp::Nothing,
            NextStep::Ended => {
                *ended = true;
                NextOp::Nothing
            }
        }
    }

    /// The next operation of a thread. `Mark`, `Count` and `Time` operations take no
    /// time and complete here.
    fn next_op(&mut self, hw_thread: usize, now: SimTime) -> NextOp {
        let HwThread { code, ended, .. } = &mut self.hw_threads[hw_thread];
        let HwThreadCode::Thread(thread) = code else {
            return NextOp::Nothing;
        };
        loop {
            match thread.next_op() {
                NextAction::Op(token, ThreadOp::Mark { .. }, _) => thread.complete(token, 0),
                NextAction::Op(token, ThreadOp::Time, _) => thread.complete(token, now.0),
                NextAction::Op(token, ThreadOp::Count { operations }, phase) => {
                    let phase = &mut self.phases[usize::from(phase)];
                    phase.operations += u64::from(operations);
                    phase.end = phase.end.max(now);
                    thread.complete(token, 0);
                }
                NextAction::Op(token, op, phase) => {
                    let op = OutstandingOp::new(op, token, hw_thread, phase, now);
                    return NextOp::Op(self.hold(hw_thread, op));
                }
                NextAction::Blocked => return NextOp::Nothing,
                NextAction::Finished => {
                    *ended = true;
                    return NextOp::Nothing;
                }
            }
        }
    }

    /// Stores an operation taken from a hardware thread's code as the one that is being begun,
    /// and returns its number.
    fn hold(&mut self, hw_thread: usize, op: OutstandingOp) -> u32 {
        let id = match self.free.pop() {
            Some(id) => {
                self.ops[id as usize] = op;
                id
            }
            None => {
                self.ops.push(op);
                self.ops.len() as u32 - 1
            }
        };
        self.hw_threads[hw_thread].held = Some(id);
        id
    }

    fn must_wait(&self, hw_thread: usize, op: ThreadOp) -> bool {
        let HwThread {
            outstanding,
            changing,
            ..
        } = &self.hw_threads[hw_thread];
        if is_load(op) && *changing == 0 {
            return false;
        }
        outstanding
            .iter()
            .any(|earlier| op.follows(self.ops[*earlier as usize].op))
    }

    /// Records that the access of the hardware thread's last action has begun. The next access begins
    /// in a later cycle.
    pub fn access_begun(&mut self, access: &Access, now: SimTime) {
        let id = access.op;
        let hw_thread = self.thread_of(id);
        self.hw_threads[hw_thread].free_at = now.0 + self.cycle;
        let first = self.ops[id as usize].covered == 0;
        let op = &mut self.ops[id as usize];
        op.covered += u64::from(access.bytes);
        op.open += 1;
        let last = op.covered >= length_of(op.op);
        if first {
            op.hpa = access.hpa.0;
            self.begin(id, now);
        }
        if last {
            self.ops[id as usize].begun = true;
            self.hw_threads[hw_thread].held = None;
        } else {
            self.ops[id as usize].begun = false;
            self.hw_threads[hw_thread].held = Some(id);
        }
    }

    /// Records that an operation has begun: one that is not a memory access, or one whose
    /// first access has begun.
    pub fn begin(&mut self, id: u32, now: SimTime) {
        let op = &mut self.ops[id as usize];
        op.issued = now.0;
        op.begun = true;
        if op.phase != UNCOUNTED {
            if is_request(op.op) {
                op.number = self.ledger.issued();
                self.ledger.enter(now);
            }
            let phase = &mut self.phases[usize::from(op.phase)];
            phase.begin.get_or_insert(now);
            if moves(op.op) {
                if phase.open == 0 {
                    phase.since = now.0;
                }
                phase.open += 1;
            }
        }
        let hw_thread = &mut self.hw_threads[usize::from(op.hw_thread)];
        hw_thread.held = None;
        hw_thread.outstanding.push(id);
        hw_thread.changing += u32::from(!is_load(op.op));
        self.outstanding += 1;
    }

    /// Records the response to an access. Returns the completion time of the operation if this
    /// was its last access.
    #[inline]
    pub fn access_done(&mut self, id: u32, response: AccessResponse) -> Option<SimTime> {
        let op = &mut self.ops[id as usize];
        op.open -= 1;
        if response.completes >= op.last.completes {
            op.last = response;
        }
        if response.outcome != AccessOutcome::Served {
            op.outcome = response.outcome;
        }
        (op.begun && op.open == 0).then_some(op.last.completes)
    }

    /// Completes an operation now, with the value that was performed.
    ///
    /// # Panics
    /// If the stages of the last access do not sum to its latency.
    pub fn complete(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        let now = ctx.now();
        let op = self.ops[id as usize];
        let hw_thread = &mut self.hw_threads[usize::from(op.hw_thread)];
        let mut outstanding = hw_thread.outstanding.iter();
        if let Some(index) = outstanding.position(|other| *other == id) {
            hw_thread.outstanding.remove(index);
        }
        hw_thread.changing -= u32::from(!is_load(op.op));
        self.outstanding -= 1;
        self.free.push(id);
        match &mut hw_thread.code {
            HwThreadCode::Thread(thread) => thread.complete(op.token, op.value),
            HwThreadCode::Program(steps) => steps.complete(op.step, now.0),
        }
        if op.phase != UNCOUNTED {
            self.count(ctx, &op);
        }
    }

    /// Counts a completed operation in its phase and in the ledger.
    fn count(&mut self, ctx: &mut Ctx<'_, Parcel>, op: &OutstandingOp) {
        let now = ctx.now();
        let phase = &mut self.phases[usize::from(op.phase)];
        phase.completed += 1;
        let served = op.outcome == AccessOutcome::Served;
        match &self.hw_threads[usize::from(op.hw_thread)].code {
            HwThreadCode::Thread(_) if served => phase.bytes += bytes_of(op.op),
            HwThreadCode::Program(_) if op.ends => {
                phase.operations += 1;
                phase.bytes += self.names[usize::from(op.phase)].bytes.0;
            }
            _ => {}
        }
        phase.end = phase.end.max(now);
        if moves(op.op) {
            if served {
                phase.latency.record(Picos(now.0 - op.issued));
            }
            phase.open -= 1;
            if phase.open == 0 {
                phase.busy.0 += now.0 - phase.since;
            }
        }
        if is_request(op.op) {
            phase.on_memory += 1;
            phase.on_cxl += u64::from(op.hpa < LOCAL_BASE.0);
            phase.from_cxl += u64::from(op.last.device < LOCAL);
            let waited = op.last.device == LOCAL && op.last.stages[MEDIA] > 0;
            phase.from_own += u64::from(waited);
            self.record_completion(ctx, op);
        }
    }

    /// Sets the value that an operation completes with.
    pub fn set_value(&mut self, id: u32, value: u64) {
        self.ops[id as usize].value = value;
    }

    /// Completes an operation now, with this value.
    pub fn complete_with(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32, value: u64) {
        self.set_value(id, value);
        self.complete(ctx, id);
    }

    fn record_completion(&mut self, ctx: &mut Ctx<'_, Parcel>, op: &OutstandingOp) {
        let now = ctx.now();
        let mut stages = op.last.stages;
        stages[HOST_QUEUE] += op.last.begun.0 - op.issued;
        self.ledger.check_stages(&stages, now.0 - op.issued);
        self.ledger.leave(now, op.issued);
        let hit = op.last.device == u16::MAX;
        let row = RequestRow {
            requester: 0,
            device: op.last.device,
            id: op.number,
            write: writes(op.op),
            hpa: op.hpa,
            issued_ps: op.issued,
            completed_ps: now.0,
            hops: op.last.hops,
            stages,
            denied: op.outcome == AccessOutcome::Denied,
            failure: match op.outcome {
                AccessOutcome::Failed(failure) => Some(failure),
                AccessOutcome::Served | AccessOutcome::Denied => None,
            },
            value: 0,
            shared: false,
        };
        self.ledger.complete(ctx, row, hit);
    }
}
