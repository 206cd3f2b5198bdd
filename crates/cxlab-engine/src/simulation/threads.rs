//! Runs several partitions, one thread each, in windows of one lookahead.
//!
//! A window ends one lookahead after the earliest pending event of all partitions. Every partition
//! handles its events before that end, and no cross-partition event can arrive inside the window.
//! Cross-partition events go through double-buffered queues, so one barrier for each window suffices.

use std::panic::resume_unwind;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::barrier::OpenOnPanic;
use super::exchange::{Exchange, PartitionReport, WindowAction};
use super::part::{MONITOR_INTERVAL, Partition, SliceEnd};
use super::{Monitor, Windows};
use crate::component::{Component, CrossEvent};
use crate::prefetch::prefetch;
use crate::queue::EventQueue;

/// Prefetch distance in cross-partition events, which are in the cache of the processor that wrote them.
/// Chosen by measurement (`docs/notebook/performance.md`).
const PREFETCH_DISTANCE: usize = 14;

/// Number of times that a thread checks for the others before it sleeps (*assumed*). It takes about ten microseconds,
/// a few times as long as most windows. Threads that outnumber the processors do not spin.
const SPINS: u32 = 2_000;

/// Number of windows between two calls of `pause` (*assumed*), which reads a clock and so takes some ten nanoseconds.
const PAUSE_EVERY: u64 = 8;

/// A partition for another thread to run up to the time `until`.
struct Job<C: Component> {
    part: Partition<C>,
    exchange: Arc<Exchange<CrossEvent<C::Payload>>>,
    lookahead: u64,
    until: u64,
}

/// A thread that runs the partitions that it is given, and waits between them.
struct Worker<C: Component> {
    /// `None` once the worker is being dropped.
    jobs: Option<Sender<Job<C>>>,
    /// The lock is never contended. It makes the worker [`Sync`], and with it the simulation.
    done: Mutex<Receiver<Partition<C>>>,
    /// `None` once the thread has been joined.
    thread: Option<JoinHandle<()>>,
}

impl<C: Component> Worker<C> {
    fn new(spins: u32) -> Worker<C> {
        let (jobs, taken) = channel::<Job<C>>();
        let (handed_back, done) = channel();
        let thread = std::thread::spawn(move || {
            while let Ok(mut job) = receive(&taken, spins) {
                let (part, exchange) = (&mut job.part, &job.exchange);
                part.run_windows(exchange, job.lookahead, job.until, None);
                drop(job.exchange);
                if handed_back.send(job.part).is_err() {
                    return;
                }
            }
        });
        Worker {
            jobs: Some(jobs),
            done: Mutex::new(done),
            thread: Some(thread),
        }
    }

    /// Hands a job to the thread.
    fn run(&self, job: Job<C>) {
        if let Some(jobs) = &self.jobs {
            // A worker that cannot take the job has panicked; `hand_back` reports it.
            let _ = jobs.send(job);
        }
    }

    /// Returns the partition of the last job when it has run.
    ///
    /// # Panics
    /// With the panic of the thread, if it has panicked.
    fn hand_back(&mut self, spins: u32) -> Partition<C> {
        let done = self.done.get_mut().unwrap_or_else(PoisonError::into_inner);
        match (receive(done, spins), self.thread.take()) {
            (Ok(part), thread) => {
                self.thread = thread;
                part
            }
            (Err(_), Some(thread)) => match thread.join() {
                Err(panic) => resume_unwind(panic),
                Ok(()) => unreachable!("a thread ends when it has no more jobs"),
            },
            (Err(_), None) => unreachable!("the thread has panicked before"),
        }
    }
}

impl<C: Component> Drop for Worker<C> {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported, or another panic is being reported.
            let _ = thread.join();
        }
    }
}

/// Receives a value. Checks `spins` times before it sleeps.
fn receive<T>(from: &Receiver<T>, spins: u32) -> Result<T, RecvError> {
    for _ in 0..spins {
        match from.try_recv() {
            Ok(received) => return Ok(received),
            Err(TryRecvError::Disconnected) => return Err(RecvError),
            Err(TryRecvError::Empty) => std::hint::spin_loop(),
        }
    }
    from.recv()
}

/// The threads beside the caller's. They stay alive between runs, because a simulation is often run in
/// many pieces, for batches or checkpoints. They are replaced when the number of threads changes.
pub(super) struct Workers<C: Component> {
    others: Vec<Worker<C>>,
    /// The exchange with the caller's thread. Between runs its queues are empty and keep their capacity.
    /// `None` where there are no workers.
    exchange: Option<Arc<Exchange<CrossEvent<C::Payload>>>>,
}

impl<C: Component> Workers<C> {
    pub(super) const NONE: Workers<C> = Workers {
        others: Vec::new(),
        exchange: None,
    };

    /// The exchange of `count` partitions, with `count - 1` workers: the present one if it fits, otherwise a new one.
    fn exchange(
        &mut self,
        count: usize,
        processors: usize,
    ) -> Arc<Exchange<CrossEvent<C::Payload>>> {
        let spins = if count <= processors { SPINS } else { 0 };
        let fits = |exchange: &&Arc<Exchange<_>>| exchange.barrier().fits(count, spins);
        if let Some(exchange) = self.exchange.as_ref().filter(fits) {
            return Arc::clone(exchange);
        }
        self.others = (1..count).map(|_| Worker::new(spins)).collect();
        Arc::clone(self.exchange.insert(Arc::new(Exchange::new(count, spins))))
    }

    /// Runs several partitions, one thread each, until `pause` returns true, which is called every few
    /// windows. Returns how the slice ended.
    pub(super) fn run(
        &mut self,
        parts: &mut Vec<Partition<C>>,
        (lookahead, until): (u64, u64),
        processors: usize,
        pause: &mut dyn FnMut() -> bool,
        monitor: &Monitor,
    ) -> SliceEnd {
        let count = parts.len();
        let exchange = self.exchange(count, processors);
        let spins = exchange.barrier().spins();
        for (worker, part) in self.others.iter().zip(parts.drain(1..)) {
            worker.run(Job {
                part,
                exchange: Arc::clone(&exchange),
                lookahead,
                until,
            });
        }
        let lead = LeadThread {
            pause,
            monitor,
            windows: Windows::default(),
            unreported: 0,
        };
        let ended = parts[0].run_windows(&exchange, lookahead, until, Some(lead));
        let others = self.others.iter_mut();
        parts.extend(others.map(|worker| worker.hand_back(spins)));
        ended
    }
}

/// What the thread of the first partition does for all: decides when to stop, and informs the monitor.
struct LeadThread<'a> {
    pause: &'a mut dyn FnMut() -> bool,
    monitor: &'a Monitor,
    windows: Windows,
    /// Events that have not been added to the monitor.
    unreported: u64,
}

impl LeadThread<'_> {
    /// The action of all threads after the window that ends.
    fn action(&mut self) -> WindowAction {
        match () {
            () if self.monitor.is_interrupted() => WindowAction::Interrupted,
            () if self.windows.count % PAUSE_EVERY == PAUSE_EVERY - 1 && (self.pause)() => {
                WindowAction::Pause
            }
            () => WindowAction::GoOn,
        }
    }

    /// Adds up the reports of partitions at the end of a window.
    fn count(&mut self, reports: impl Iterator<Item = PartitionReport>) {
        let (mut events, mut busiest, mut work) = (0, 0, 0);
        for report in reports {
            events += report.handled;
            busiest = report.handled.max(busiest);
            work += report.work;
        }
        self.windows.events += events;
        self.windows.busiest += busiest;
        self.unreported += events;
        if work > 0 {
            self.monitor.work.fetch_add(work, Ordering::Relaxed);
        }
    }

    /// Adds the events since the last call, and the time, to the monitor.
    fn update_monitor(&mut self, time: u64) {
        let events = std::mem::take(&mut self.unreported);
        self.monitor.events.fetch_add(events, Ordering::Relaxed);
        self.monitor.time.fetch_max(time, Ordering::Relaxed);
    }
}

impl<C: Component> Partition<C> {
    /// Runs windows until the end of the run, an interruption or a pause. The first partition has a
    /// `lead`. Returns how the slice ended.
    fn run_windows(
        &mut self,
        exchange: &Exchange<CrossEvent<C::Payload>>,
        lookahead: u64,
        until: u64,
        mut lead: Option<LeadThread<'_>>,
    ) -> SliceEnd {
        let _others_go_on = OpenOnPanic(exchange.barrier());
        let me = self.pending.partition as usize;
        // Which of the two buffers of the exchange the window uses.
        let mut buffer = 0;
        let mut handled = 0;
        loop {
            let report = PartitionReport {
                next: self.post(exchange, buffer, me),
                handled,
                work: std::mem::take(&mut self.pending.work),
            };
            exchange.report(buffer, me, report);
            if let Some(lead) = &mut lead {
                exchange.set_action(buffer, lead.action());
            }
            if !exchange.barrier().wait() {
                return SliceEnd::Interrupted;
            }
            exchange.take(buffer, me, |events| {
                for (index, event) in events.iter().enumerate() {
                    if let Some(later) = events.get(index + PREFETCH_DISTANCE) {
                        prefetch(later);
                    }
                    *self.pending.arrive(event.key, event.target) = event.payload;
                }
            });
            let earliest = exchange
                .reports(buffer)
                .map(|report| report.next)
                .min()
                .unwrap_or(u64::MAX);
            let action = exchange.action(buffer);
            let over = earliest >= until || earliest == u64::MAX;
            let ends = over || action != WindowAction::GoOn;
            if let Some(lead) = &mut lead {
                lead.count(exchange.reports(buffer));
                if ends || lead.unreported >= MONITOR_INTERVAL {
                    lead.update_monitor(self.last);
                }
                lead.windows.count += u64::from(!ends);
                if ends {
                    lead.monitor.windows.add(lead.windows);
                }
            }
            match action {
                WindowAction::Interrupted => return SliceEnd::Interrupted,
                _ if over => return SliceEnd::Finished,
                WindowAction::Pause => return SliceEnd::Paused,
                WindowAction::GoOn => {}
            }
            handled = self.advance(earliest.saturating_add(lookahead).min(until), u64::MAX);
            buffer ^= 1;
        }
    }

    /// Hands over the cross-partition events of the window. Returns the time of the earliest pending
    /// event, including those handed over.
    fn post(
        &mut self,
        exchange: &Exchange<CrossEvent<C::Payload>>,
        buffer: usize,
        me: usize,
    ) -> u64 {
        let mut earliest = self.pending.queue.next_time();
        for (to, outgoing) in self.pending.outgoing.iter_mut().enumerate() {
            if outgoing.events.is_empty() {
                continue;
            }
            earliest = earliest.min(std::mem::replace(&mut outgoing.earliest, u64::MAX));
            exchange.post(buffer, me, to, &mut outgoing.events);
        }
        earliest
    }
}
