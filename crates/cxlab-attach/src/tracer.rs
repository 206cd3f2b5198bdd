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
use crate::model::Window;
use crate::onward;
use crate::placement::{Place, Placement};
use crate::process::{Facts, Process};
use crate::progress;
use crate::report::{End, PoolReport};
use crate::schedule;
use crate::sys::{self, Resume, Status, Tid};
use crate::window::{self, After};

/// Time between two looks at CPU times.
const EPOCH: Duration = Duration::from_millis(10);
/// A thread is held when it owes so much: short holds cost more than they charge.
const LEAST_HOLD_NS: u64 = 5_000_000;
/// And when it has used so much CPU time since the last hold: it runs more slowly behind one (what it had in
/// the nearest caches is gone, and its processor slept), which would be taken for waits of its own.
const LEAST_RUN_NS: u64 = 20_000_000;
/// CPU time behind a hold in which a thread is known to run more slowly.
const BEHIND_NS: u64 = 12_000_000;
/// A program that is held nearly always is taken to run at least this part of the time.
const MOST_HELD: f64 = 1000.0;
/// Time between two questions to the fabric.
const ASK: Duration = Duration::from_millis(100);
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
    /// CPU time since the last look at where it is.
    stretch: Stretch,
    /// CPU time in that code that waits for its pace to be known.
    undecided: Stretch,
    /// Where it was then, and in which code.
    seen: Option<(PhaseId, progress::Place)>,
    /// When it is to be looked at again, before the next epoch.
    again: Option<Instant>,
    /// Whether it was last seen in code that no window has been in.
    elsewhere: bool,
    /// CPU time in this epoch.
    ran_ns: u64,
    /// CPU time of what it was asked for since the last question to the fabric.
    computed_ns: u64,
    /// CPU time since its last window, and since its last hold.
    since_ns: u64,
    unheld_ns: u64,
    /// What holds have slowed it down by and was not taken down yet, in nanoseconds.
    slower_ns: f64,
    ledger: Ledger,
}

impl Stretch {
    fn add(&mut self, other: Stretch) {
        self.cpu_ns += other.cpu_ns;
        self.user_ns += other.user_ns;
    }
}

impl Thread {
    /// It took so much longer because it had been held, or so much less. Over all of it that is taken from it.
    fn slow_down(&mut self, longer_ns: f64) -> u64 {
        self.slower_ns += longer_ns;
        let taken = self.slower_ns.max(0.0) as u64;
        self.slower_ns -= taken as f64;
        self.ledger.take(taken);
        taken
    }

    /// No hold was shortly before.
    fn is_plain(&self) -> bool {
        self.ledger.held_ns == 0 || self.unheld_ns > BEHIND_NS
    }

    fn must_be_held(&self) -> bool {
        self.ledger.debt_ns() >= LEAST_HOLD_NS && self.unheld_ns >= LEAST_RUN_NS
    }
}

/// What lies between two looks at where a thread is.
#[derive(Clone, Copy, Default)]
struct Stretch {
    /// CPU time, and that of it in user space, in nanoseconds.
    cpu_ns: u64,
    user_ns: u64,
}

/// By what the CPU time of threads was told to be how many instructions, in nanoseconds of it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Told {
    /// Registers, between two looks.
    pub(crate) counted_ns: f64,
    /// The pace at which registers counted the same code.
    pub(crate) paced_ns: f64,
    /// The time that the model says, of that in user space.
    pub(crate) priced_ns: f64,
}

/// What of a thread's time in a piece of code is known.
#[derive(Clone, Copy, PartialEq)]
enum Used {
    /// So many instructions in so much CPU time, in nanoseconds.
    Counted { instructions: f64, cpu_ns: f64 },
    /// So much CPU time.
    Cpu(f64),
    /// So much CPU time in user space, as far as ticks show it.
    User(f64),
    /// The same, somewhere else where no window has been.
    Elsewhere(f64),
}

impl Used {
    fn ns(self) -> f64 {
        match self {
            Used::Counted { cpu_ns: ns, .. }
            | Used::Cpu(ns)
            | Used::User(ns)
            | Used::Elsewhere(ns) => ns,
        }
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
    /// User CPU time that never got a price, and what the other was priced by.
    pub(crate) unpriced_ns: f64,
    pub(crate) told: Told,
    /// CPU time that holds have slowed threads down by.
    pub(crate) slowed_ns: f64,
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
                told: Told::default(),
                slowed_ns: 0.0,
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
                stretch: Stretch::default(),
                undecided: Stretch::default(),
                seen: None,
                again: None,
                elsewhere: true,
                ran_ns: 0,
                computed_ns: 0,
                since_ns: 0,
                unheld_ns: 0,
                slower_ns: 0.0,
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
            self.look_again();
            if Instant::now() >= next_epoch {
                self.epoch();
                next_epoch = Instant::now() + EPOCH;
            }
            let next = self.next_due().map_or(next_epoch, |at| at.min(next_epoch));
            let timeout = next.saturating_duration_since(Instant::now());
            // What `leave` looks for is not taken here.
            let _ = sys::wait_signal(&[libc::SIGCHLD], timeout);
        }
    }

    /// When somebody must be let go on, or looked at.
    fn next_due(&self) -> Option<Instant> {
        let due = self
            .threads
            .values()
            .filter_map(|thread| match thread.state {
                State::Held { until, .. } => Some(until),
                State::Running => thread.again,
                _ => None,
            });
        due.min()
    }

    /// Stops threads that are to be looked at behind a short stretch.
    fn look_again(&mut self) {
        let now = Instant::now();
        for (tid, thread) in &mut self.threads {
            if thread.state == State::Running
                && thread.again.take_if(|at| now >= *at).is_some()
                && sys::interrupt(*tid).is_ok()
            {
                thread.state = State::Asked { window: false };
            }
        }
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
        // One at a time: another that was asked in an epoch before may only stop now.
        if asked == (State::Asked { window: true }) && plain && self.due.is_none() {
            self.due = Some((tid, since));
            return;
        }
        let thread = self.threads.get(&tid);
        let owes = thread.is_some_and(Thread::must_be_held);
        let hold = matches!(asked, State::Asked { .. }) && owes;
        self.hold_or_resume(tid, since, Resume::Continue(signal), hold);
    }

    /// Looks where a stopped thread is, and prices what waits for that. Where no window has been yet, one is
    /// taken soon.
    fn look(&mut self, tid: Tid) {
        self.account(tid);
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        let process = self.processes.get_mut(&thread.pid);
        let now = sys::registers(tid).ok().map(|all| window::place(&all));
        let Some((process, now)) = process.zip(now) else {
            return;
        };
        let phase = process.at(now.code);
        let seen = phase.map(|phase| (phase, now));
        let before = std::mem::replace(&mut thread.seen, seen);
        thread.elsewhere = phase.is_none();
        let stretch = std::mem::take(&mut thread.stretch);
        let plain = thread.is_plain();
        let Some(phase) = phase else {
            self.decide(tid);
            self.pass(tid, stretch);
            self.waits_elsewhere(tid);
            return;
        };
        let before = before.filter(|(known, _)| *known == phase);
        let cpu_ns = stretch.cpu_ns as f64;
        let used = before.zip(process.progress(phase));
        let mut longer_ns = 0.0;
        let used = used.and_then(|((_, before), progress)| {
            match progress.count(&before, &now, cpu_ns, plain) {
                Some(instructions) => {
                    if !plain {
                        longer_ns = progress.longer_ns(instructions, cpu_ns);
                    }
                    Some(Used::Counted {
                        instructions,
                        cpu_ns,
                    })
                }
                None => progress.pace().map(|_| Used::Cpu(cpu_ns)),
            }
        });
        self.sum.slowed_ns += thread.slow_down(longer_ns) as f64;
        let is_undecided = before.is_some()
            && used.is_none()
            && (process.progress(phase)).is_some_and(|progress| progress.is_undecided());
        if is_undecided {
            thread.undecided.add(stretch);
        } else {
            match used {
                Some(used) => {
                    let late = std::mem::take(&mut thread.undecided);
                    self.price(tid, phase, Used::Cpu(late.cpu_ns as f64));
                    self.price(tid, phase, used);
                }
                None => {
                    self.decide(tid);
                    self.pass(tid, stretch);
                }
            }
        }
        self.waits_no_longer(tid, phase);
        self.look_soon(tid, phase);
    }

    /// It is looked at again before the next epoch, where what counts in that code needs it.
    fn look_soon(&mut self, tid: Tid, phase: PhaseId) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        let process = self.processes.get_mut(&thread.pid);
        let progress = process.and_then(|process| process.progress(phase));
        let again = progress.and_then(|progress| progress.again());
        let again = again.filter(|_| !thread.must_be_held());
        thread.again = again.map(|wait| Instant::now() + wait);
    }

    /// What waits for the pace of its code waits no longer.
    fn decide(&mut self, tid: Tid) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            let late = std::mem::take(&mut thread.undecided);
            self.pass(tid, late);
        }
    }

    /// CPU time that was not counted: half of it has a price where the thread was seen before.
    fn pass(&mut self, tid: Tid, stretch: Stretch) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        if let Some((phase, user_ns)) = thread.waiting.pass(stretch.user_ns as f64) {
            self.price(tid, phase, Used::User(user_ns));
        }
    }

    fn waits_elsewhere(&mut self, tid: Tid) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.waiting.elsewhere();
        }
    }

    /// The thread was seen in that code: what waits has its price.
    fn waits_no_longer(&mut self, tid: Tid, phase: PhaseId) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            let (phase, user_ns) = thread.waiting.seen(phase);
            self.price(tid, phase, Used::User(user_ns));
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
        thread.again = None;
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
        let mut find = |address| {
            layout.place(address).map(|place| match place {
                Place::Cxl(offset) => fabric.pool_of(offset),
                Place::Local => 0,
            })
        };
        let window::Seen {
            steps,
            places,
            before,
            after,
        } = window::run(tid);
        let window = Window::new(self.pools.len(), self.facts.overlap);
        let used = onward::go_on(window, steps, before, &mut find);
        self.sum.windows += 1;
        self.sum.window_instructions += used.seen;
        self.sum.window_time += since.elapsed();
        let phase = process.add(used, &places);
        if let Some(thread) = self.threads.get_mut(&tid) {
            // The window's own CPU time is not the program's.
            thread.cpu_ns = maps::cpu_ns(tid).unwrap_or(thread.cpu_ns);
            thread.user_ns = maps::user_ns(tid).unwrap_or(thread.user_ns);
            let at = sys::registers(tid).ok().map(|all| window::place(&all));
            thread.seen = phase.zip(at).filter(|_| after == After::Stopped);
            if let Some(phase) = phase {
                self.waits_no_longer(tid, phase);
                self.look_soon(tid, phase);
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
        if thread.seen.is_none() {
            let late = thread.undecided.user_ns + thread.stretch.user_ns;
            self.sum.unpriced_ns += late as f64;
        }
    }

    /// Takes down the CPU time that a thread has used since the last time. It has a price at the next look.
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
        thread.stretch.cpu_ns += ran;
        thread.stretch.user_ns += user;
        if let Some(process) = self.processes.get_mut(&thread.pid) {
            process.ran(ran);
        }
    }

    /// No further window of this code will come: what of a thread's time waits for one is priced without.
    fn end_waiting(&mut self, tid: Tid) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        thread.seen = None;
        let stretch = std::mem::take(&mut thread.stretch);
        self.decide(tid);
        self.pass(tid, stretch);
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        let process = self.processes.get(&thread.pid);
        let last = process.and_then(Process::last_phase);
        let known = thread.waiting.is_known();
        if let Some((phase, user_ns)) = thread.waiting.end(last) {
            let used = match known {
                true => Used::User(user_ns),
                false => Used::Elsewhere(user_ns),
            };
            self.price(tid, phase, used);
        }
    }

    /// Asks a thread for what its time in that code costs: for that of its instructions, where their number or
    /// pace is known.
    fn price(&mut self, tid: Tid, phase: PhaseId, used: Used) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        let Some(process) = self.processes.get_mut(&thread.pid) else {
            return;
        };
        let machine = process.machine(&self.facts);
        let pace = process.progress(phase).and_then(|one| one.pace());
        let Some(estimate) = process.estimate(phase, &self.facts) else {
            self.sum.unpriced_ns += used.ns();
            return;
        };
        let told = &mut self.sum.told;
        let (told, instructions) = match (used, pace) {
            (Used::Counted { instructions, .. }, _) => (&mut told.counted_ns, Some(instructions)),
            (Used::Cpu(_) | Used::User(_), Some(pace)) => {
                (&mut told.paced_ns, Some(used.ns() * pace))
            }
            (_, _) => (&mut told.priced_ns, None),
        };
        *told += used.ns();
        thread.computed_ns += used.ns() as u64;
        // The model knows rates by CPU time: that which it would take so many instructions for.
        let user_ns = match instructions {
            Some(instructions) => instructions * estimate.instruction_ns(),
            None => used.ns(),
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
        let elsewhere = self.threads.values().any(|thread| thread.elsewhere);
        let cost = schedule::cost(self.sum.windows, elsewhere);
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
            thread.ran_ns = 0;
            let ran = thread.stretch.cpu_ns as f64 / EPOCH.as_nanos() as f64;
            if thread.state != State::Running {
                continue;
            }
            if thread.must_be_held() && sys::interrupt(*tid).is_ok() {
                thread.state = State::Asked { window: false };
            } else if ran >= WORTH {
                let waits_ns = thread.waiting.ns() as u64 + thread.stretch.cpu_ns;
                worth.push((waits_ns, *tid));
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
        // A hold that ends now may have begun before the last question, and time that has a price now may have
        // passed before it.
        let running = (real - longest.unwrap_or(0) as f64).max(real / MOST_HELD);
        let computed = self.threads.values_mut();
        let computed = computed.map(|thread| std::mem::take(&mut thread.computed_ns));
        let running = running.max(computed.max().unwrap_or(0) as f64);
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
        self.answers = at(real.max(running));
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
