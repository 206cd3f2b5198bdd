//! Follows threads, prices their CPU time, and holds them for what they owe.
//!
//! Everything goes through ptrace, by which a thread is held without its parent, its debugger or
//! its terminal seeing a stop signal, and which the kernel ends by itself: when this process ends,
//! in whatever way, every thread runs on.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use crate::estimate::{PhaseId, Waiting, demand};
use crate::fabric::{Answer, Demand, Fabric, under_way};
use crate::ledger::{Accounts, Ledger};
use crate::maps;
use crate::model::{BEFORE, Window};
use crate::placement::{Place, Placement};
use crate::process::{Facts, Process};
use crate::report::{End, PoolReport};
use crate::sys::{self, Resume, Status, Tid};
use crate::window::{self, After};

/// Time between two looks at CPU times.
const EPOCH: Duration = Duration::from_millis(10);
/// A thread is held when it owes so much: short holds cost more than they charge.
const LEAST_HOLD_NS: u64 = 5_000_000;
/// And when it has used so much CPU time since the last hold: it runs more slowly behind one (what it had in
/// the nearest caches is gone, and its processor slept), which would be taken for waits of its own.
const LEAST_RUN_NS: u64 = 20_000_000;
/// A program that is held nearly always is taken to run at least this part of the time.
const MOST_HELD: f64 = 1000.0;
/// Time between two questions to the fabric.
const ASK: Duration = Duration::from_millis(100);
/// Part of the real time that windows may take: while a thread is where none has been, and otherwise.
const WINDOW_COST: u32 = 20;
const KNOWN_COST: u32 = 40;
/// Windows that are taken at the beginning for more, and how much more.
const FIRST_WINDOWS: u64 = 8;
const FIRST_COST: u32 = 4;
/// Threads that are looked at in an epoch: all stand still until each was.
const LOOKS: usize = 8;
/// A thread is worth a window when it ran for this part of an epoch.
const WORTH: f64 = 0.3;

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Running,
    /// It was asked to stop, for a look at where it is, to be held, or for a window.
    Asked {
        window: bool,
    },
    /// It stands still since and until then, and goes on so.
    Held {
        since: Instant,
        until: Instant,
        then: Resume,
    },
    /// The program's own stop signals hold it.
    Listening,
}

struct Thread {
    pid: Tid,
    state: State,
    /// CPU time that is accounted for, and that of it in user space.
    cpu_ns: u64,
    user_ns: u64,
    /// User CPU time that has no price yet.
    waiting: Waiting,
    /// Whether it was last seen in code that no window has been in.
    elsewhere: bool,
    /// CPU time in this epoch.
    ran_ns: u64,
    /// CPU time since its last window, and since its last hold.
    since_ns: u64,
    unheld_ns: u64,
    ledger: Ledger,
}

impl Thread {
    fn must_be_held(&self) -> bool {
        self.ledger.debt_ns() >= LEAST_HOLD_NS && self.unheld_ns >= LEAST_RUN_NS
    }
}

/// What a pool was used for.
#[derive(Clone, Copy, Default)]
struct PoolSum {
    waits: f64,
    lines: f64,
    /// Waits times their latency.
    waited_ns: f64,
}

/// What was found.
pub(crate) struct Outcome {
    pub(crate) end: End,
    pub(crate) real: Duration,
    pub(crate) cpu_ns: u64,
    pub(crate) accounts: Accounts,
    /// The longest that one thread was held.
    pub(crate) longest_hold_ns: u64,
    pub(crate) processes: u64,
    pub(crate) threads: u64,
    pub(crate) windows: u64,
    pub(crate) window_instructions: u64,
    pub(crate) window_time: Duration,
    pub(crate) pools: Vec<PoolReport>,
    /// User CPU time that never got a price.
    pub(crate) unpriced_ns: f64,
    pub(crate) largest_chance: f64,
    /// Whether the kernel refused to mark touched pages.
    pub(crate) unmarked: bool,
}

pub(crate) struct Tracer<'a> {
    fabric: &'a mut dyn Fabric,
    placement: Placement,
    facts: Facts,
    /// Which process ends the run, and how it ended.
    root: Tid,
    end: Option<End>,
    threads: BTreeMap<Tid, Thread>,
    processes: BTreeMap<Tid, Process>,
    answers: Vec<Answer>,
    /// Lines asked for since the last question, by pool.
    asked: Vec<Demand>,
    asked_at: Instant,
    /// A thread that stands still for a window since then.
    due: Option<(Tid, Instant)>,
    /// By thread: time held until the last question.
    held_before: BTreeMap<Tid, u64>,
    began: Instant,
    pools: Vec<PoolSum>,
    sum: Outcome,
}

impl<'a> Tracer<'a> {
    pub(crate) fn new(
        fabric: &'a mut dyn Fabric,
        placement: Placement,
        facts: Facts,
        root: Tid,
    ) -> Tracer<'a> {
        let pools = fabric.pools().len();
        let none = vec![Demand::default(); pools];
        let answers = fabric.answer(&none, facts.overlap.stream);
        let now = Instant::now();
        Tracer {
            fabric,
            placement,
            facts,
            root,
            end: None,
            threads: BTreeMap::new(),
            processes: BTreeMap::new(),
            answers,
            asked: none,
            asked_at: now,
            due: None,
            held_before: BTreeMap::new(),
            began: now,
            pools: vec![PoolSum::default(); pools],
            sum: Outcome {
                end: End::Detached,
                real: Duration::ZERO,
                cpu_ns: 0,
                accounts: Accounts::default(),
                longest_hold_ns: 0,
                processes: 0,
                threads: 0,
                windows: 0,
                window_instructions: 0,
                window_time: Duration::ZERO,
                pools: Vec::new(),
                unpriced_ns: 0.0,
                largest_chance: 0.0,
                unmarked: false,
            },
        }
    }

    /// A thread that is traced from now on.
    pub(crate) fn add(&mut self, tid: Tid) {
        let pid = maps::process_of(tid).unwrap_or(tid);
        self.sum.threads += 1;
        if !self.processes.contains_key(&pid) {
            self.sum.processes += 1;
            self.processes
                .insert(pid, Process::new(pid, self.placement));
        }
        self.threads.insert(
            tid,
            Thread {
                pid,
                state: State::Running,
                cpu_ns: maps::cpu_ns(tid).unwrap_or(0),
                user_ns: maps::user_ns(tid).unwrap_or(0),
                waiting: Waiting::default(),
                elsewhere: true,
                ran_ns: 0,
                since_ns: 0,
                unheld_ns: 0,
                ledger: Ledger::default(),
            },
        );
    }

    /// Follows until the root has ended and nothing of it is left, or until `leave` says so.
    pub(crate) fn follow(mut self, leave: &mut dyn FnMut() -> bool) -> io::Result<Outcome> {
        let mut next_epoch = Instant::now() + EPOCH;
        loop {
            loop {
                match sys::wait(-1, false) {
                    Ok(Some((tid, status))) => self.news(tid, status),
                    Ok(None) => break,
                    // Nobody is left.
                    Err(error) if error.raw_os_error() == Some(libc::ECHILD) => {
                        return Ok(self.finish());
                    }
                    Err(error) => return Err(error),
                }
            }
            // Behind all that is quickly answered, because others stand still meanwhile.
            if let Some((tid, since)) = self.due.take() {
                self.window(tid, since);
                continue;
            }
            if leave() {
                self.let_go();
                return Ok(self.finish());
            }
            self.release();
            if Instant::now() >= next_epoch {
                self.epoch();
                next_epoch = Instant::now() + EPOCH;
            }
            let next = self
                .next_release()
                .map_or(next_epoch, |at| at.min(next_epoch));
            let timeout = next.saturating_duration_since(Instant::now());
            // What `leave` looks for is not taken here.
            let _ = sys::wait_signal(&[libc::SIGCHLD], timeout);
        }
    }

    fn next_release(&self) -> Option<Instant> {
        let held = self
            .threads
            .values()
            .filter_map(|thread| match thread.state {
                State::Held { until, .. } => Some(until),
                _ => None,
            });
        held.min()
    }

    /// Lets go on whoever has stood still for long enough.
    fn release(&mut self) {
        for (tid, thread) in &mut self.threads {
            if let State::Held { since, until, then } = thread.state
                && Instant::now() >= until
            {
                thread.ledger.hold(since.elapsed().as_nanos() as u64);
                thread.state = State::Running;
                let _ = sys::resume(*tid, then);
            }
        }
    }

    /// Everybody goes on; the kernel does the rest when we end.
    fn let_go(&mut self) {
        for (tid, thread) in &mut self.threads {
            if let State::Held { since, then, .. } = thread.state {
                thread.ledger.hold(since.elapsed().as_nanos() as u64);
                thread.state = State::Running;
                let _ = sys::resume(*tid, then);
            }
        }
    }

    fn news(&mut self, tid: Tid, status: Status) {
        // Killed while it stood still for a window.
        self.due = self.due.filter(|(due, _)| *due != tid);
        if let Status::Exited(_) | Status::Killed(_) = status {
            self.gone(tid, status);
            return;
        }
        if !self.threads.contains_key(&tid) {
            self.add(tid);
        }
        match status {
            Status::Event(libc::PTRACE_EVENT_STOP, signal) if signal != libc::SIGTRAP => {
                self.set(tid, State::Listening);
                let _ = sys::resume(tid, Resume::Listen);
            }
            Status::Event(libc::PTRACE_EVENT_EXEC, _) => {
                self.exec(tid);
                self.go_on(tid, 0, false);
            }
            Status::Event(libc::PTRACE_EVENT_EXIT, _) => self.settle(tid),
            Status::Event(event, _) => self.go_on(tid, 0, event == libc::PTRACE_EVENT_STOP),
            Status::Signal(signal) => self.go_on(tid, signal, false),
            Status::Exited(_) | Status::Killed(_) => {}
        }
    }

    fn set(&mut self, tid: Tid, state: State) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.state = state;
        }
    }

    /// A stopped thread does what it was asked to stop for, and goes on with a signal. Any stop
    /// serves, because it takes the place of the one asked for.
    fn go_on(&mut self, tid: Tid, signal: i32, plain: bool) {
        let since = Instant::now();
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        let asked = std::mem::replace(&mut thread.state, State::Running);
        if plain && matches!(asked, State::Asked { .. }) {
            self.look(tid);
        }
        if asked == (State::Asked { window: true }) && plain {
            self.due = Some((tid, since));
            return;
        }
        let owes = self
            .threads
            .get(&tid)
            .map_or(0, |thread| thread.ledger.debt_ns());
        let hold = matches!(asked, State::Asked { .. }) && owes >= LEAST_HOLD_NS;
        self.hold_or_resume(tid, since, Resume::Continue(signal), hold);
    }

    /// Looks where a stopped thread is, and prices what waits for that. Where no window has been yet, one is
    /// taken soon.
    fn look(&mut self, tid: Tid) {
        self.account(tid);
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        let process = self.processes.get(&thread.pid);
        let at = sys::registers(tid).ok().map(|registers| registers.rip);
        let phase = process.zip(at).and_then(|(process, at)| process.at(at));
        thread.elsewhere = phase.is_none();
        match phase {
            Some(phase) => {
                let (phase, user_ns) = thread.waiting.seen(phase);
                self.price(tid, phase, user_ns);
            }
            None => thread.waiting.elsewhere(),
        }
    }

    /// Lets a thread go on that was stepped, and holds it, if it owes anything, only when it has
    /// stopped again. A thread that is left by its tracer behind a step would trap, and end.
    fn leave_window(&mut self, tid: Tid, since: Instant) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        thread.ledger.take(since.elapsed().as_nanos() as u64);
        if thread.must_be_held() && sys::interrupt(tid).is_ok() {
            thread.state = State::Asked { window: false };
        }
        let _ = sys::resume(tid, Resume::Continue(0));
    }

    /// Holds a thread that stands still since then for what it owes, or lets it go on.
    fn hold_or_resume(&mut self, tid: Tid, since: Instant, then: Resume, hold: bool) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        let debt = thread.ledger.debt_ns();
        if !hold || debt == 0 {
            let _ = sys::resume(tid, then);
            thread.ledger.take(since.elapsed().as_nanos() as u64);
            return;
        }
        let until = since + Duration::from_nanos(debt);
        thread.unheld_ns = 0;
        thread.state = State::Held { since, until, then };
    }

    /// A window of a thread that stands still since then; afterwards it goes on.
    fn window(&mut self, tid: Tid, since: Instant) {
        let pid = self.threads.get(&tid).map(|thread| thread.pid);
        let Some(process) = pid.and_then(|pid| self.processes.get_mut(&pid)) else {
            let _ = sys::resume(tid, Resume::Continue(0));
            return;
        };
        process.look(&self.facts);
        process.refresh_maps();
        let (layout, fabric) = (&process.layout, &*self.fabric);
        let mut find = |address| match layout.place(address) {
            Some(Place::Cxl(offset)) => Some(fabric.pool_of(offset)),
            Some(Place::Local) | None => Some(0),
        };
        let window = Window::new(self.pools.len(), self.facts.overlap).after(BEFORE);
        let (used, after) = window::run(tid, window, &mut find);
        self.sum.windows += 1;
        self.sum.window_instructions += used.instructions;
        self.sum.window_time += since.elapsed();
        let phase = process.add(used);
        if let Some(thread) = self.threads.get_mut(&tid) {
            // The window's own CPU time is not the program's.
            thread.cpu_ns = maps::cpu_ns(tid).unwrap_or(thread.cpu_ns);
            thread.user_ns = maps::user_ns(tid).unwrap_or(thread.user_ns);
            if let Some(phase) = phase {
                let (phase, user_ns) = thread.waiting.seen(phase);
                self.price(tid, phase, user_ns);
            }
        }
        match after {
            After::Stopped => self.leave_window(tid, since),
            After::News(status) => {
                if let Some(thread) = self.threads.get_mut(&tid) {
                    thread.ledger.take(since.elapsed().as_nanos() as u64);
                }
                self.news(tid, status);
            }
            After::Gone => {}
        }
    }

    /// The thread's process runs another program, in this thread alone.
    fn exec(&mut self, tid: Tid) {
        if let Ok(former) = sys::event_message(tid)
            && former as Tid != tid
        {
            self.threads.remove(&(former as Tid));
        }
        self.end_waiting(tid);
        if let Some(process) = self.processes.get_mut(&tid) {
            process.exec();
        }
    }

    /// A thread is about to end: it pays what it owes first.
    fn settle(&mut self, tid: Tid) {
        let since = Instant::now();
        self.account(tid);
        self.end_waiting(tid);
        self.hold_or_resume(tid, since, Resume::Continue(0), true);
    }

    fn gone(&mut self, tid: Tid, status: Status) {
        if tid == self.root {
            self.end = Some(match status {
                Status::Killed(signal) => End::Killed(signal),
                Status::Exited(code) => End::Exited(code),
                Status::Signal(_) | Status::Event(..) => End::Detached,
            });
        }
        if let Some(thread) = self.threads.remove(&tid) {
            let pid = thread.pid;
            self.close(&thread);
            if !self.threads.values().any(|other| other.pid == pid) {
                self.processes.remove(&pid);
            }
        }
    }

    fn close(&mut self, thread: &Thread) {
        let mut ledger = thread.ledger;
        if let State::Held { since, .. } = thread.state {
            // Killed while it stood still.
            ledger.hold(since.elapsed().as_nanos() as u64);
        }
        self.sum.accounts.add(&ledger);
        self.sum.longest_hold_ns = self.sum.longest_hold_ns.max(ledger.held_ns);
        self.sum.unpriced_ns += thread.waiting.unseen_ns();
    }

    /// Prices the CPU time that a thread has used since the last time.
    fn account(&mut self, tid: Tid) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        let Ok(now) = maps::cpu_ns(tid) else { return };
        let ran = now.saturating_sub(thread.cpu_ns);
        thread.cpu_ns = now;
        thread.ran_ns += ran;
        thread.since_ns += ran;
        thread.unheld_ns += ran;
        self.sum.cpu_ns += ran;
        let user = maps::user_ns(tid).map_or(0, |now| now.saturating_sub(thread.user_ns));
        thread.user_ns += user;
        let due = thread.waiting.pass(user as f64);
        if let Some((phase, user_ns)) = due {
            self.price(tid, phase, user_ns);
        }
    }

    /// No further window of this code will come: what of a thread's time waits for one is priced without.
    fn end_waiting(&mut self, tid: Tid) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        let process = self.processes.get(&thread.pid);
        let last = process.and_then(Process::last_phase);
        if let Some((phase, user_ns)) = thread.waiting.end(last) {
            self.price(tid, phase, user_ns);
        }
    }

    /// Asks a thread for what so much of its CPU time in that code costs.
    fn price(&mut self, tid: Tid, phase: PhaseId, user_ns: f64) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        let Some(process) = self.processes.get_mut(&thread.pid) else {
            return;
        };
        let machine = process.machine(&self.facts);
        let Some(estimate) = process.estimate(phase, &self.facts) else {
            self.sum.unpriced_ns += user_ns;
            return;
        };
        let delay = user_ns * estimate.delay(&self.answers, &machine);
        thread.ledger.ask(delay);
        for (pool, rate) in estimate.rates.iter().enumerate() {
            let latency = match pool {
                0 => machine.local_ns,
                _ => self.answers[pool].latency_ns,
            };
            let sum = &mut self.pools[pool];
            sum.waits += user_ns * rate.waits;
            sum.lines += user_ns * (rate.reads + rate.writes);
            sum.waited_ns += user_ns * rate.waits * latency;
        }
        let more = demand(&estimate.rates, user_ns, 1.0);
        for (asked, more) in self.asked.iter_mut().zip(more) {
            asked.reads_per_ns += more.reads_per_ns;
            asked.writes_per_ns += more.writes_per_ns;
        }
    }

    fn epoch(&mut self) {
        let tids: Vec<Tid> = self.threads.keys().copied().collect();
        for tid in &tids {
            let state = self.threads.get(tid).map(|thread| thread.state);
            if matches!(state, Some(State::Running | State::Asked { .. })) {
                self.account(*tid);
            }
        }
        for process in self.processes.values_mut() {
            process.look(&self.facts);
            process.refresh_maps();
            self.sum.largest_chance = self.sum.largest_chance.max(process.chance());
            // Of one that has just ended nothing is known.
            self.sum.unmarked |= process.is_unmarked() && maps::threads(process.pid).is_ok();
        }
        self.ask_fabric();
        let first = self.sum.windows < FIRST_WINDOWS;
        let elsewhere = self.threads.values().any(|thread| thread.elsewhere);
        let cost = match (first, elsewhere) {
            (true, _) => FIRST_COST,
            (false, true) => WINDOW_COST,
            (false, false) => KNOWN_COST,
        };
        if self.began.elapsed() >= self.sum.window_time * cost {
            self.choose_window();
        }
        self.choose_looks();
    }

    /// Stops threads that owe much, to be held; and of those that ran, the ones that were not looked at for
    /// longest.
    fn choose_looks(&mut self) {
        let mut worth: Vec<(u64, Tid)> = Vec::new();
        for (tid, thread) in &mut self.threads {
            let ran = std::mem::take(&mut thread.ran_ns) as f64 / EPOCH.as_nanos() as f64;
            if thread.state != State::Running {
                continue;
            }
            if thread.must_be_held() && sys::interrupt(*tid).is_ok() {
                thread.state = State::Asked { window: false };
            } else if ran >= WORTH {
                worth.push((thread.waiting.ns() as u64, *tid));
            }
        }
        worth.sort_unstable();
        for (_, tid) in worth.into_iter().rev().take(LOOKS) {
            if sys::interrupt(tid).is_ok() {
                self.set(tid, State::Asked { window: false });
            }
        }
    }

    /// Stops a thread for a window: of those that run, one that is where no window has been, or else the one
    /// that has run for longest since its last one.
    fn choose_window(&mut self) {
        let running = self.threads.iter_mut();
        let worth = running.filter(|(_, thread)| {
            let part = thread.ran_ns as f64 / EPOCH.as_nanos() as f64;
            thread.state == State::Running && part >= WORTH
        });
        if let Some((tid, thread)) =
            worth.max_by_key(|(_, thread)| (thread.elsewhere, thread.since_ns))
            && sys::interrupt(*tid).is_ok()
        {
            thread.state = State::Asked { window: true };
            thread.since_ns = 0;
        }
    }

    /// Tells the fabric what was asked of it lately. Latencies are those at the load as it is; what
    /// the fabric cannot carry is told of the time without holds, which would hide it.
    fn ask_fabric(&mut self) {
        let passed = self.asked_at.elapsed();
        if passed < ASK {
            return;
        }
        let real = passed.as_nanos() as f64;
        let held: BTreeMap<Tid, u64> = self
            .threads
            .iter()
            .map(|(tid, thread)| (*tid, thread.ledger.held_ns))
            .collect();
        let before = |tid: &Tid| self.held_before.get(tid).copied().unwrap_or(0);
        let longest = held.iter().map(|(tid, now)| now - before(tid)).max();
        let running = (real - longest.unwrap_or(0) as f64).max(real / MOST_HELD);
        let reads = self.facts.overlap.stream * self.threads.len().max(1) as f64;
        let lines = under_way(&self.asked, reads);
        let per = |asked: &Demand, time: f64| Demand {
            reads_per_ns: asked.reads_per_ns / time,
            writes_per_ns: asked.writes_per_ns / time,
        };
        let mut at = |time| {
            let asked: Vec<Demand> = self.asked.iter().map(|asked| per(asked, time)).collect();
            self.fabric.answer(&asked, lines)
        };
        let undelayed = at(running);
        self.answers = at(real);
        for (answer, undelayed) in self.answers.iter_mut().zip(undelayed) {
            answer.stretch = undelayed.stretch;
        }
        self.held_before = held;
        self.asked.fill(Demand::default());
        self.asked_at = Instant::now();
    }

    fn finish(mut self) -> Outcome {
        for (_, thread) in std::mem::take(&mut self.threads) {
            self.close(&thread);
        }
        let all: f64 = self.pools.iter().map(|pool| pool.lines).sum();
        let pools = self.fabric.pools().into_iter().zip(&self.pools);
        self.sum.pools = pools
            .map(|(name, sum)| PoolReport {
                name,
                share: if all > 0.0 { sum.lines / all } else { 0.0 },
                lines: sum.lines,
                waits: sum.waits,
                latency_ns: if sum.waits > 0.0 {
                    sum.waited_ns / sum.waits
                } else {
                    0.0
                },
            })
            .collect();
        self.sum.real = self.began.elapsed();
        self.sum.end = self.end.unwrap_or(End::Detached);
        self.sum
    }
}
