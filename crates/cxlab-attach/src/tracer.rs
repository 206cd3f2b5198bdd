//! Follows threads, prices their CPU time, and holds them for the delay that they owe.
//!
//! The tracer uses ptrace alone. It can hold a thread without a stop signal that the thread's
//! parent, debugger or terminal would see. The kernel ends tracing by itself: when this process
//! ends, for whatever reason, every thread runs on.

mod stops;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

use crate::fabric::Fabric;
use crate::ledger::Accounts;
use crate::maps;
use crate::meter::{EventStart, OpenEvents};
use crate::placement::Placement;
use crate::prices::{PricedSums, Prices};
use crate::process::{Facts, Process};
use crate::profile::Profile;
use crate::recorder::Recorder;
use crate::relay::Relay;
use crate::report::End;
use crate::schedule;
use crate::slowdown::PoolReport;
use crate::sys::{self, Resume, Status, Tid};
use crate::thread::{SpentTime, State, Thread};
use stops::Sample;

/// Time between two readings of CPU times.
const EPOCH: Duration = Duration::from_millis(10);
/// Most threads sampled in an epoch. All of them stand still until each was sampled.
const MAX_SAMPLED_THREADS: usize = 8;
/// Share of an epoch that a thread must have run to be worth a window.
const RUN_SHARE: f64 = 0.3;
/// Most programs without the rights of their files that a report names.
const MOST_NAMED: usize = 8;

/// Results of following a program.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) end: End,
    pub(crate) real: Duration,
    pub(crate) cpu_ns: u64,
    pub(crate) accounts: Accounts,
    /// Longest total time that one thread was held.
    pub(crate) longest_hold_ns: u64,
    pub(crate) processes: u64,
    pub(crate) threads: u64,
    pub(crate) windows: u64,
    pub(crate) window_instructions: u64,
    pub(crate) window_time: Duration,
    pub(crate) pools: Vec<PoolReport>,
    pub(crate) priced: PricedSums,
    /// CPU time by which holds slowed threads down.
    pub(crate) slowed_ns: f64,
    pub(crate) largest_chance: f64,
    /// Whether the kernel refused to mark touched pages.
    pub(crate) unmarked: bool,
    /// Number of processes that the program left behind when it ended.
    pub(crate) left: u64,
    /// Programs that did not get the rights of their files.
    pub(crate) without_rights: BTreeSet<String>,
    /// Recorder of the run, if it was recorded.
    pub(crate) recorder: Option<Recorder>,
    /// Lines that an event counted, and the event's first error.
    pub(crate) counted: Option<(f64, Option<String>)>,
    /// Profile of sampled misses, if events sampled them, and their first error.
    pub(crate) metered: Option<(Profile, Option<String>)>,
}

pub(crate) struct Tracer<'a> {
    prices: Prices<'a>,
    /// Event that speeds up opening of other events, if the kernel allows it.
    _no_event: Option<sys::NoEvent>,
    /// Events of all threads, which sample misses or count lines.
    events: OpenEvents,
    relay: Relay,
    placement: Placement,
    /// The process whose end ends the run, and how that process ended.
    root: Tid,
    end: Option<End>,
    threads: BTreeMap<Tid, Thread>,
    processes: BTreeMap<Tid, Process>,
    /// Threads that ended with a debt before the first thread of their process, by process.
    ended: BTreeMap<Tid, Vec<Thread>>,
    /// A thread that is stopped for a window, and time of the stop.
    due: Option<(Tid, Instant)>,
    began: Instant,
    last_window: Instant,
    sum: Outcome,
}

impl<'a> Tracer<'a> {
    pub(crate) fn new(
        fabric: &'a mut dyn Fabric,
        placement: Placement,
        (facts, recorder, events): (Facts, Option<Recorder>, OpenEvents),
        root: Tid,
        relay: Relay,
    ) -> Tracer<'a> {
        let mut prices = Prices::new(fabric, facts);
        prices.recorder = recorder;
        prices.has_lines = events.count_lines();
        Tracer {
            prices,
            _no_event: sys::NoEvent::open().ok(),
            events,
            relay,
            placement,
            root,
            end: None,
            threads: BTreeMap::new(),
            processes: BTreeMap::new(),
            ended: BTreeMap::new(),
            due: None,
            began: Instant::now(),
            last_window: Instant::now(),
            sum: Outcome::default(),
        }
    }

    /// Adds a thread that is traced from now on. Its events begin now, or when it executes a program.
    pub(crate) fn add(&mut self, tid: Tid, begins: EventStart) {
        let pid = maps::process_of(tid).unwrap_or(tid);
        self.events.add(pid, tid, begins);
        self.sum.threads += 1;
        if !self.processes.contains_key(&pid) {
            self.sum.processes += 1;
            // A process that is forked has its parent's memory and code.
            let parent = maps::stat(pid).ok().map(|stat| stat.parent);
            let parent = parent.and_then(|parent| self.processes.get(&parent));
            let process = match parent {
                Some(parent) => parent.forked(pid),
                None => Process::new(pid, self.placement),
            };
            if let Some(recorder) = &mut self.prices.recorder
                && let Some(parent) = parent
            {
                recorder.forked(parent.pid, pid);
            }
            self.processes.insert(pid, process);
        }
        self.threads.insert(tid, Thread::new(tid, pid));
    }

    /// Follows all threads until none is left, until a program that the command started has ended,
    /// or until the command requests the end.
    pub(crate) fn follow(mut self) -> io::Result<Outcome> {
        let mut next_epoch = Instant::now() + EPOCH;
        loop {
            loop {
                match sys::wait(-1, false) {
                    Ok(Some((tid, status))) => self.news(tid, status),
                    Ok(None) => break,
                    // No thread is left.
                    Err(error) if error.raw_os_error() == Some(libc::ECHILD) => {
                        return Ok(self.finish());
                    }
                    Err(error) => return Err(error),
                }
            }
            // Windows come after all quick events, because the threads of those stand still meanwhile.
            if let Some((tid, since)) = self.due.take() {
                self.window(tid, since);
                continue;
            }
            self.relay.pass_on();
            let over = self.end.is_some() && self.relay.is_program(self.root);
            if over || self.relay.must_leave() {
                self.sum.left = if over { self.processes.len() as u64 } else { 0 };
                return Ok(self.finish());
            }
            self.release();
            self.stop_for_samples();
            if Instant::now() >= next_epoch {
                self.epoch();
                next_epoch = Instant::now() + EPOCH;
            }
            let next = self.next_due().map_or(next_epoch, |at| at.min(next_epoch));
            let timeout = next.saturating_duration_since(Instant::now());
            let _ = sys::wait_signal(&[libc::SIGCHLD], timeout);
        }
    }

    /// The next time at which a thread must be released or sampled.
    fn next_due(&self) -> Option<Instant> {
        let due = |thread: &Thread| match thread.state {
            State::Held { until, .. } => Some(until),
            State::Running => thread.again,
            _ => None,
        };
        self.threads.values().filter_map(due).min()
    }

    /// Stops threads whose next sample is due before the next epoch.
    fn stop_for_samples(&mut self) {
        let now = Instant::now();
        for (tid, thread) in &mut self.threads {
            if thread.state == State::Running
                && thread.again.take_if(|at| now >= *at).is_some()
                && sys::interrupt(*tid).is_ok()
            {
                thread.state = State::asked(*tid, false);
            }
        }
    }

    /// Resumes threads whose hold is over.
    fn release(&mut self) {
        for (tid, thread) in &mut self.threads {
            if let State::Held { until, .. } = thread.state
                && Instant::now() >= until
                && let Some(then) = thread.end_hold()
            {
                let _ = sys::resume(*tid, then);
            }
        }
    }

    fn news(&mut self, tid: Tid, status: Status) {
        // A thread that was killed while it stood still for a window needs none.
        self.due = self.due.filter(|(due, _)| *due != tid);
        if let Status::Exited(_) | Status::Killed(_) = status {
            self.gone(tid, status);
            return;
        }
        if !self.threads.contains_key(&tid) {
            self.add(tid, EventStart::Now);
        }
        self.notify_relay(tid, status);
        match status {
            Status::Event(libc::PTRACE_EVENT_STOP, signal) if signal != libc::SIGTRAP => {
                self.set(tid, State::Listening);
                let _ = sys::resume(tid, Resume::Listen);
            }
            Status::Event(libc::PTRACE_EVENT_EXEC, _) => {
                self.exec(tid);
                self.resume(tid, 0, false);
            }
            Status::Event(libc::PTRACE_EVENT_EXIT, _) => self.settle(tid),
            Status::Event(event, _) => self.resume(tid, 0, event == libc::PTRACE_EVENT_STOP),
            Status::Signal(signal) => self.resume(tid, signal, false),
            Status::Exited(_) | Status::Killed(_) => {}
        }
    }

    /// Reports signals, stops and continuations of the program to the relay.
    fn notify_relay(&mut self, tid: Tid, status: Status) {
        let Some(thread) = self.threads.get(&tid) else {
            return;
        };
        if !self.relay.is_program(thread.pid) {
            return;
        }
        match status {
            Status::Signal(_) => {
                if let Ok(given) = sys::signal_of_stop(tid) {
                    self.relay.arrived(given);
                }
            }
            Status::Event(libc::PTRACE_EVENT_STOP, libc::SIGTRAP)
                if thread.state == State::Listening =>
            {
                self.relay.continued();
            }
            Status::Event(libc::PTRACE_EVENT_STOP, libc::SIGTRAP) => {}
            Status::Event(libc::PTRACE_EVENT_STOP, signal) => self.relay.stopped(signal),
            _ => {}
        }
    }

    fn set(&mut self, tid: Tid, state: State) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.state = state;
        }
    }

    /// Performs the sample, hold or window for which a stopped thread was asked to stop, and resumes it with a signal. Any
    /// other stop serves as well, because it replaces the requested one.
    fn resume(&mut self, tid: Tid, signal: i32, plain: bool) {
        let since = Instant::now();
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        let asked = std::mem::replace(&mut thread.state, State::Running);
        let sample = match asked {
            State::Asked { since, cpu_ns, .. } if plain => self.sample(tid, since, cpu_ns),
            _ => None,
        };
        let unknown = sample.as_ref().is_some_and(Sample::is_for_window);
        // Windows run one at a time. A thread that was asked in an earlier epoch may stop only now.
        let window = matches!(asked, State::Asked { window: true, .. });
        let window = window || unknown && self.may_have_window(true);
        let window = window && plain && self.due.is_none();
        let thread = self.threads.get(&tid);
        let owes = thread.is_some_and(Thread::must_be_held);
        let hold = matches!(asked, State::Asked { .. }) && owes;
        if window {
            self.due = Some((tid, since));
        } else if !hold {
            // It runs while its sample is priced.
            self.hold_or_resume(tid, since, Resume::Continue(signal), false);
        }
        if let Some(sample) = sample {
            self.price(tid, sample);
        }
        if hold && !window {
            self.hold_or_resume(tid, since, Resume::Continue(signal), true);
        }
    }

    /// Holds a thread that is stopped since `since` for the delay that it owes, or resumes it.
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

    /// Handles the execution of another program by a thread's process, which then has this thread alone.
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
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.watched.clear();
        }
        if let Some(recorder) = &mut self.prices.recorder {
            recorder.end(tid);
        }
        let known = self.sum.without_rights.len() < MOST_NAMED;
        let without = known.then(|| maps::without_its_rights(tid));
        self.sum.without_rights.extend(without.flatten());
    }

    /// Makes a thread that is about to end pay the delay that it owes. The first thread of a process also waits for the
    /// longest delay that other threads owe, because its end may end them unpaid.
    fn settle(&mut self, tid: Tid) {
        let since = Instant::now();
        self.account(tid);
        let ending = self.threads.get_mut(&tid);
        if let Some(thread) = ending
            && let Some(process) = self.processes.get_mut(&thread.pid)
        {
            process.record_watches(thread);
        }
        self.end_waiting(tid);
        let others = self.threads.iter();
        let others: Vec<Tid> = others
            .filter(|(other, thread)| thread.pid == tid && **other != tid)
            .map(|(other, _)| *other)
            .collect();
        let mut longest = Duration::ZERO;
        for other in others {
            self.account(other);
            self.end_waiting(other);
            if let Some(thread) = self.threads.get(&other) {
                longest = longest.max(thread.owes());
            }
        }
        let ended = self.ended.remove(&tid).unwrap_or_default();
        longest = ended.iter().map(Thread::owes).fold(longest, Duration::max);
        let then = Resume::Continue(0);
        match self.threads.get_mut(&tid) {
            Some(thread) if thread.ledger.debt_ns() == 0 && !longest.is_zero() => {
                let until = since;
                thread.state = State::Held { since, until, then };
            }
            _ => self.hold_or_resume(tid, since, then, true),
        }
        self.hold_for_others(tid, since, longest);
        for mut thread in ended {
            let owes = thread.owes();
            thread.ledger.hold(owes.as_nanos() as u64);
            self.close(&thread);
        }
    }

    /// Stops the first thread of a process until `time` after `since`, for the delay of other threads.
    fn hold_for_others(&mut self, tid: Tid, since: Instant, time: Duration) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        if let State::Held {
            since: began,
            until,
            ..
        } = &mut thread.state
        {
            let more = (since + time).saturating_duration_since(*until);
            *began += more;
            *until += more;
        }
    }

    /// Removes a thread that has ended, and its process with the last thread.
    fn gone(&mut self, tid: Tid, status: Status) {
        if tid == self.root {
            self.end = Some(match status {
                Status::Killed(signal) => End::Killed(signal),
                Status::Exited(code) => End::Exited(code),
                Status::Signal(_) | Status::Event(..) => End::Detached,
            });
        }
        // A thread that ends with its process may do so without a stop.
        self.end_waiting(tid);
        self.events.remove(tid);
        if let Some(mut thread) = self.threads.remove(&tid) {
            let pid = thread.pid;
            // It may have been killed while it was held.
            thread.end_hold();
            let owes = thread.owes();
            let first = self.threads.get(&pid).map(|first| first.state);
            match first.filter(|_| !owes.is_zero()) {
                Some(State::Held { .. }) => {
                    self.hold_for_others(pid, Instant::now(), owes);
                    thread.ledger.hold(owes.as_nanos() as u64);
                    self.close(&thread);
                }
                // The first thread ends later, and pays then.
                Some(_) => self.ended.entry(pid).or_default().push(thread),
                None => self.close(&thread),
            }
            if !self.threads.values().any(|other| other.pid == pid) {
                for thread in self.ended.remove(&pid).unwrap_or_default() {
                    self.close(&thread);
                }
                if let Some(ended) = self.processes.remove(&pid)
                    && let Some(parent) =
                        ended.parent().and_then(|pid| self.processes.get_mut(&pid))
                {
                    parent.learn(ended);
                }
                if let Some(recorder) = &mut self.prices.recorder {
                    recorder.end(pid);
                }
            }
        }
    }

    fn close(&mut self, thread: &Thread) {
        let ledger = &thread.ledger;
        self.sum.accounts.add(ledger);
        self.sum.longest_hold_ns = self.sum.longest_hold_ns.max(ledger.held_ns);
        let open = thread.open.iter().map(|sample| sample.spent.user_ns);
        self.prices.priced.unpriced_ns += open.sum::<f64>() + thread.stretch.user_ns;
    }

    /// Records the CPU time that a thread has used since the last call. The next sample prices it.
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
        let process = self.processes.get_mut(&thread.pid);
        if let OpenEvents::Addresses(meter) = &mut self.events {
            let Some(process) = process else { return };
            let (ran, fabric) = (ran as f64, &*self.prices.fabric);
            let mut again = true;
            let mut find = |address| process.pool_of(address, fabric, &mut again);
            let missed = meter.read(tid, ran, fabric.pools().len(), &mut find);
            self.prices.metered(thread, ran, &missed);
            return;
        }
        let lines = match &mut self.events {
            OpenEvents::Lines(lines) => lines.read(tid),
            OpenEvents::Nothing | OpenEvents::Addresses(_) => 0.0,
        };
        let user = thread.used(tid, ran, self.prices.facts.watched_fault_ns);
        thread.stretch.add(SpentTime {
            cpu_ns: ran as f64,
            user_ns: user as f64,
            lines,
        });
        if let Some(process) = process {
            process.ran(ran);
        }
    }

    /// Prices a thread's pending time when no further window of its code follows.
    fn end_waiting(&mut self, tid: Tid) {
        if self.events.locate_misses() {
            return;
        }
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        if let Some(process) = self.processes.get_mut(&thread.pid) {
            self.prices.end(thread, process);
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
        if self.events.locate_misses() {
            self.prices.ask_fabric(&mut self.threads);
            self.choose_samples();
            return;
        }
        let mut running: BTreeMap<Tid, usize> = BTreeMap::new();
        let run = |thread: &&Thread| thread.ran_ns as f64 >= RUN_SHARE * EPOCH.as_nanos() as f64;
        for thread in self.threads.values().filter(run) {
            *running.entry(thread.pid).or_default() += 1;
        }
        for process in self.processes.values_mut() {
            process.runs(running.get(&process.pid).copied().unwrap_or(1));
            process.sample(&self.prices.facts);
            process.refresh_maps();
            self.sum.largest_chance = self.sum.largest_chance.max(process.chance());
            // The marks of a process that has just ended are unknown.
            self.sum.unmarked |= process.is_unmarked() && maps::threads(process.pid).is_ok();
        }
        self.prices.ask_fabric(&mut self.threads);
        if self.may_have_window(false) {
            self.choose_window();
        }
        self.choose_samples();
    }

    /// Whether there is time for a window: in code without a window if `elsewhere`, and otherwise in any code. Windows in
    /// any code come later while time waits for a window of its own code.
    fn may_have_window(&self, elsewhere: bool) -> bool {
        let wants = self.processes.values().map(Process::wants_windows);
        let (few, doubtful) = wants.fold((false, false), |one, other| {
            (one.0 | other.0, one.1 | other.1)
        });
        let uncertain = doubtful || self.prices.is_uncertain(self.sum.cpu_ns as f64);
        let cost = schedule::cost(self.sum.windows, elsewhere || few, uncertain);
        let mean = self.sum.window_time / self.sum.windows.clamp(1, u64::from(u32::MAX)) as u32;
        let later = !elsewhere && self.threads.values().any(Thread::is_unknown);
        let later = if later { schedule::LATER_FACTOR } else { 1 };
        let paid = self.are_windows_paid();
        let paid = if paid { 1 } else { schedule::UNPAID_FACTOR };
        self.last_window.elapsed() >= mean * cost * later * paid
    }

    /// Whether the program may owe as much delay as windows took so far. Always true with a recording, whose replays may
    /// add more delay than this run.
    fn are_windows_paid(&self) -> bool {
        if self.prices.recorder.is_some() {
            return true;
        }
        let open_ns = self.threads.values().map(Thread::waits_ns).sum();
        self.prices.most_owed_ns(open_ns) >= self.sum.window_time.as_nanos() as f64
    }

    /// Stops threads that owe enough delay to be held. Of the threads that ran, stops those with
    /// the longest time since their last sample.
    fn choose_samples(&mut self) {
        let mut worth: Vec<(u64, Tid)> = Vec::new();
        for (tid, thread) in &mut self.threads {
            thread.ran_ns = 0;
            let ran = thread.stretch.cpu_ns / EPOCH.as_nanos() as f64;
            if thread.state != State::Running {
                continue;
            }
            if thread.must_be_held() && sys::interrupt(*tid).is_ok() {
                thread.state = State::asked(*tid, false);
            } else if ran >= RUN_SHARE {
                let waits_ns = thread.waits_ns() as u64;
                worth.push((waits_ns, *tid));
            }
        }
        worth.sort_unstable();
        for (_, tid) in worth.into_iter().rev().take(MAX_SAMPLED_THREADS) {
            if sys::interrupt(tid).is_ok() {
                self.set(tid, State::asked(tid, false));
            }
        }
    }

    /// Stops a thread for a window: the running thread that has run for longest since its last window.
    fn choose_window(&mut self) {
        let running = self.threads.iter_mut();
        let worth = running.filter(|(_, thread)| {
            let part = thread.ran_ns as f64 / EPOCH.as_nanos() as f64;
            thread.state == State::Running && part >= RUN_SHARE
        });
        if let Some((tid, thread)) = worth.max_by_key(|(_, thread)| thread.since_ns)
            && sys::interrupt(*tid).is_ok()
        {
            thread.state = State::asked(*tid, true);
        }
    }

    fn finish(mut self) -> Outcome {
        // Held threads resume. The kernel ends tracing when this process ends.
        for (tid, thread) in &mut self.threads {
            if let Some(then) = thread.end_hold() {
                let _ = sys::resume(*tid, then);
            }
        }
        let ended = std::mem::take(&mut self.ended).into_values().flatten();
        let threads = std::mem::take(&mut self.threads).into_values();
        for thread in threads.chain(ended) {
            self.close(&thread);
        }
        let cpu_ns = self.sum.cpu_ns as f64;
        match self.events {
            OpenEvents::Nothing => {}
            OpenEvents::Addresses(meter) => self.sum.metered = Some(meter.finish(cpu_ns)),
            OpenEvents::Lines(lines) => self.sum.counted = Some(lines.finish()),
        }
        self.sum.pools = self.prices.pools();
        self.sum.recorder = self.prices.recorder.take();
        self.sum.priced = self.prices.priced;
        self.sum.real = self.began.elapsed();
        self.sum.end = self.end.unwrap_or(End::Detached);
        self.sum
    }
}
