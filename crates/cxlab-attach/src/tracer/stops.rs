//! What a stopped thread shows: samples of where it is, and windows.

use std::time::Instant;

use super::Tracer;
use crate::estimate::PhaseId;
use crate::maps;
use crate::progress::ThreadPlace;
use crate::recording::StackId;
use crate::reuse::WindowTrace;
use crate::sys::{self, Resume, Tid};
use crate::thread::State;
use crate::window::{self, AfterWindow};

/// Breakpoints of an x86-64 processor, and so lines that a thread watches at most.
const BREAKPOINTS: usize = 4;
/// Most breakpoints of all threads. Each takes a file descriptor (*assumed*: a fourth of the usual limit).
const MOST_WATCHED: usize = 256;

/// Position of a stopped thread, with the calls that led to it if they are recorded.
pub(super) struct Sample {
    place: ThreadPlace,
    /// The phase of its code, if a window has been there.
    phase: Option<PhaseId>,
    /// Whether the thread was on its way out of a system call, where it cannot be stepped.
    inside: bool,
    stack: StackId,
}

impl Sample {
    /// Whether a window may be taken at the thread's position, in code without a window.
    pub(super) fn is_for_window(&self) -> bool {
        self.phase.is_none() && !self.inside
    }
}

impl Tracer<'_> {
    /// Samples a thread that was asked to stop at `since`, when it had used `asked_ns` of CPU time. `None` if the thread
    /// is gone, or if events sample misses.
    pub(super) fn sample(&mut self, tid: Tid, since: Instant, asked_ns: u64) -> Option<Sample> {
        self.account(tid);
        if self.events.locate_misses() {
            return None;
        }
        let thread = self.threads.get_mut(&tid)?;
        let registers = sys::registers(tid).ok()?;
        let inside = window::is_inside(&registers);
        if inside {
            // A running thread stops at once, but a thread in the kernel stops only when it leaves the kernel.
            let late = since.elapsed().as_nanos() as u64;
            let kernel_ns = late.min(thread.cpu_ns.saturating_sub(asked_ns));
            thread.stretch = thread.stretch.without(kernel_ns as f64);
        }
        let recorder = self.prices.recorder.as_mut();
        let stack = recorder.map_or(0, |recorder| recorder.stack(thread.pid, tid, &registers));
        let place = window::place(&registers);
        let process = self.processes.get(&thread.pid);
        Some(Sample {
            place,
            phase: process.and_then(|process| process.at(place.code)),
            inside,
            stack,
        })
    }

    /// Prices the pending time that a sample decides.
    pub(super) fn price(&mut self, tid: Tid, sample: Sample) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        let Some(process) = self.processes.get_mut(&thread.pid) else {
            return;
        };
        let (now, phase) = (sample.place, sample.phase);
        if let Some(phase) = phase {
            process.ran_in(phase, thread.stretch.cpu_ns);
        }
        process.record_watches(thread);
        let before = thread.last_sample();
        let before = before.filter(|sample| sample.code == phase);
        let (cpu_ns, plain) = (thread.stretch.cpu_ns, thread.is_plain());
        let progress = phase.and_then(|phase| process.progress(phase));
        let mut counted = None;
        if let Some((before, progress)) = before.zip(progress) {
            counted = progress.count(&before.place, &now, cpu_ns, plain);
            if let Some(instructions) = counted.filter(|_| !plain) {
                let longer_ns = progress.longer_ns(instructions, cpu_ns);
                self.sum.slowed_ns += thread.slow_down(longer_ns) as f64;
            }
        }
        thread.record_sample(now, phase, counted, sample.stack);
        if let Some(phase) = phase {
            self.prices.seen(thread, process, phase);
            self.schedule_sample(tid, phase);
        }
    }

    /// Schedules another sample before the next epoch, if the registers that count in that code need it.
    pub(super) fn schedule_sample(&mut self, tid: Tid, phase: PhaseId) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        let process = self.processes.get_mut(&thread.pid);
        let progress = process.and_then(|process| process.progress(phase));
        let again = progress.and_then(|progress| progress.again());
        let again = again.filter(|_| !thread.must_be_held());
        thread.again = again.map(|wait| Instant::now() + wait);
    }

    /// Resumes a thread after a window. If the thread owes delay, it is held only when it has
    /// stopped again: a thread whose tracer ends right after a single step would trap, and die.
    pub(super) fn leave_window(&mut self, tid: Tid, since: Instant) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        thread.ledger.take(since.elapsed().as_nanos() as u64);
        if thread.must_be_held() && sys::interrupt(tid).is_ok() {
            thread.state = State::asked(tid, false);
        }
        let _ = sys::resume(tid, Resume::Continue(0));
    }

    /// Takes a window of a thread that is stopped since `since`, and resumes the thread.
    pub(super) fn window(&mut self, tid: Tid, since: Instant) {
        let pid = self.threads.get(&tid).map(|thread| thread.pid);
        let Some(process) = pid.and_then(|pid| self.processes.get_mut(&pid)) else {
            let _ = sys::resume(tid, Resume::Continue(0));
            return;
        };
        if let Some(thread) = self.threads.get_mut(&tid) {
            process.record_watches(thread);
        }
        process.sample(&self.prices.facts);
        process.refresh_maps();
        let (layout, fabric) = (&process.layout, &*self.prices.fabric);
        let mut find = |address| layout.pool(address, fabric);
        let window::ObservedWindow {
            steps,
            places,
            lead_in,
            after,
        } = window::run(tid, self.began.elapsed());
        let lead_in = lead_in.min(steps.len());
        self.sum.windows += 1;
        self.sum.window_instructions += (steps.len() - lead_in) as u64;
        self.sum.window_time += since.elapsed();
        self.last_window = Instant::now();
        let now = sys::registers(tid).ok();
        if let Some(thread) = self.threads.get_mut(&tid) {
            // The window's own CPU time does not count as the program's.
            let now = maps::cpu_ns(tid).unwrap_or(thread.cpu_ns);
            thread.stepped(now.saturating_sub(thread.cpu_ns));
            (thread.cpu_ns, thread.since_ns) = (now, 0);
            thread.used(tid, 0, self.prices.facts.watched_fault_ns);
        }
        let recorded = self.prices.recorder.is_some().then(|| steps.clone());
        let trace = WindowTrace::new(steps, lead_in, &mut find);
        let watched = self.threads.values().map(|thread| thread.watched.len());
        if watched.sum::<usize>() + BREAKPOINTS > MOST_WATCHED {
            self.threads
                .values_mut()
                .for_each(|thread| thread.watched.clear());
        }
        if after == AfterWindow::Stopped
            && !self.events.count_lines()
            && let Some(thread) = self.threads.get_mut(&tid)
        {
            process.watch(tid, thread, &trace, BREAKPOINTS);
        }
        // Objects in memory are identified while the thread is stopped.
        let goes_on = after == AfterWindow::Stopped && recorded.is_none();
        if goes_on {
            self.leave_window(tid, since);
        }
        let Some(process) = pid.and_then(|pid| self.processes.get_mut(&pid)) else {
            return;
        };
        let phase = process.add(trace, &places, &self.prices.facts, &*self.prices.fabric);
        if phase.is_some() {
            let threads = self.threads.values_mut();
            threads
                .filter(|thread| Some(thread.pid) == pid)
                .for_each(|thread| thread.find_code(|place| process.at(place.code)));
        }
        let recorder = self.prices.recorder.as_mut();
        if let Some(((recorder, phase), steps)) = recorder.zip(phase).zip(recorded) {
            recorder.window(process.pid, tid, phase, steps, lead_in);
        }
        if let Some(thread) = self.threads.get_mut(&tid) {
            if let Some(registers) = now {
                let recorder = self.prices.recorder.as_mut();
                let stack =
                    recorder.map_or(0, |recorder| recorder.stack(thread.pid, tid, &registers));
                thread.record_sample(window::place(&registers), phase, None, stack);
            }
            if let Some(phase) = phase {
                self.prices.seen(thread, process, phase);
                self.schedule_sample(tid, phase);
            }
        }
        match after {
            AfterWindow::Stopped if goes_on => {}
            AfterWindow::Stopped => self.leave_window(tid, since),
            AfterWindow::News(status) => {
                if let Some(thread) = self.threads.get_mut(&tid) {
                    thread.ledger.take(since.elapsed().as_nanos() as u64);
                }
                self.news(tid, status);
            }
            AfterWindow::Gone => {}
        }
    }
}
