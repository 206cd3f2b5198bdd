//! Running several parts, one thread each, in windows of one lookahead.
//!
//! In a window every part handles its events before the window's end, which lies one lookahead
//! after the earliest pending event of all, so no letter can arrive inside it. Letters go through
//! double-buffered mailboxes, and one barrier a window suffices.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvError, Sender, TryRecvError, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::part::{LOOK_EVERY, Part};
use super::{Monitor, Windows};
use crate::component::{Component, Letter, Payload};
use crate::prefetch::prefetch;
use crate::queue::EventQueue;

/// How many letters before its turn one is asked for: it lies with the processor that wrote it.
const AHEAD: usize = 14;

/// Windows between two questions whether to pause: looking at a clock takes some ten nanoseconds.
const ASK_EVERY: u64 = 8;

/// What lies in cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Apart<T>(T);

/// How often a thread looks whether the others have arrived before it sleeps: some ten microseconds, a few
/// times as long as most windows.
const SPINS: u32 = 2_000;

/// A barrier whose threads spin for a moment and then sleep, so that a thread that waits takes no processor
/// from one that works.
struct Barrier {
    count: usize,
    /// How often a thread looks before it sleeps: not at all where threads outnumber processors.
    spins: u32,
    arrived: Apart<AtomicUsize>,
    generation: Apart<AtomicUsize>,
    /// A thread has panicked and will never arrive.
    broken: AtomicBool,
    asleep: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Barrier {
    /// How often threads look, so many on so many processors.
    fn spins(count: usize, processors: usize) -> u32 {
        if count <= processors { SPINS } else { 0 }
    }

    fn new(count: usize, spins: u32) -> Barrier {
        Barrier {
            count,
            spins,
            arrived: Apart::default(),
            generation: Apart::default(),
            broken: AtomicBool::new(false),
            asleep: AtomicUsize::new(0),
            lock: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    /// Whether a thread has panicked, so that nobody can wait here again.
    fn is_broken(&self) -> bool {
        self.broken.load(Ordering::SeqCst)
    }

    /// Waits until all threads have arrived; returns whether they can go on.
    fn wait(&self) -> bool {
        // In this order: a thread that panics sets `broken` before it begins a new generation.
        let generation = self.generation.0.load(Ordering::SeqCst);
        if self.is_broken() {
            return false;
        }
        if self.arrived.0.fetch_add(1, Ordering::AcqRel) + 1 == self.count {
            self.arrived.0.store(0, Ordering::Relaxed);
            self.open(generation);
        } else if !self.spin(generation) {
            self.sleep(generation);
        }
        !self.is_broken()
    }

    /// Lets all go on that wait since `generation`.
    fn open(&self, generation: usize) {
        // Sequentially consistent, as in `sleep`: either this thread sees that another one sleeps, or that one
        // sees the new generation.
        let next = generation.wrapping_add(1);
        self.generation.0.store(next, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) > 0 {
            drop(self.lock.lock());
            self.wake.notify_all();
        }
    }

    fn spin(&self, generation: usize) -> bool {
        for _ in 0..self.spins {
            if self.generation.0.load(Ordering::Acquire) != generation {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    fn sleep(&self, generation: usize) {
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.asleep.fetch_add(1, Ordering::SeqCst);
        while self.generation.0.load(Ordering::SeqCst) == generation {
            let woken = self.wake.wait(guard);
            guard = woken.unwrap_or_else(PoisonError::into_inner);
        }
        self.asleep.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Opens the barrier for the others where a thread panics.
struct OpenOnPanic<'a>(&'a Barrier);

impl Drop for OpenOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let barrier = self.0;
            barrier.broken.store(true, Ordering::SeqCst);
            barrier.open(barrier.generation.0.load(Ordering::SeqCst));
        }
    }
}

/// What all threads do after a window, as the first one says.
mod after {
    pub const GO_ON: u8 = 0;
    pub const PAUSE: u8 = 1;
    pub const INTERRUPTED: u8 = 2;
}

/// Letters from one part to another.
type Mailbox<P> = Apart<Mutex<Vec<Letter<P>>>>;

/// What a part says at the end of a window.
#[derive(Default)]
struct Said {
    /// The earliest event that it knows of, its own letters included.
    next: AtomicU64,
    /// Events that it has handled in the window.
    handled: AtomicU64,
    /// Units of work that it has done in it.
    work: AtomicU64,
}

/// What threads exchange at the barrier; index 0 and 1 alternate by window.
struct Exchange<P: Payload> {
    barrier: Barrier,
    /// `mail[turn][from][to]`
    mail: [Vec<Vec<Mailbox<P>>>; 2],
    /// `said[turn][part]`
    said: [Vec<Apart<Said>>; 2],
    /// One of [`after`].
    after: [AtomicU8; 2],
}

impl<P: Payload> Exchange<P> {
    fn new(count: usize, spins: u32) -> Exchange<P> {
        let mail = || {
            (0..count)
                .map(|_| (0..count).map(|_| Apart(Mutex::new(Vec::new()))).collect())
                .collect()
        };
        let said = || (0..count).map(|_| Apart::default()).collect();
        Exchange {
            barrier: Barrier::new(count, spins),
            mail: [mail(), mail()],
            said: [said(), said()],
            after: [AtomicU8::new(after::GO_ON), AtomicU8::new(after::GO_ON)],
        }
    }
}

/// A part for another thread to run up to a time.
struct Job<C: Component> {
    part: Part<C>,
    exchange: Arc<Exchange<C::Payload>>,
    lookahead: u64,
    until: u64,
}

/// A thread that runs the parts it is handed, and waits for the next one between them.
struct Worker<C: Component> {
    /// `None` once there are no more.
    jobs: Option<Sender<Job<C>>>,
    /// Behind a lock that nobody waits for, so that threads may share what has workers.
    done: Mutex<Receiver<Part<C>>>,
    /// `None` once it was waited for.
    thread: Option<JoinHandle<()>>,
}

impl<C: Component> Worker<C> {
    fn new(spins: u32) -> Worker<C> {
        let (jobs, taken) = channel();
        let (handed_back, done) = channel();
        let thread = std::thread::spawn(move || {
            while let Ok(job) = receive(&taken, spins) {
                let Job {
                    mut part,
                    exchange,
                    lookahead,
                    until,
                } = job;
                part.run_windows(&exchange, lookahead, until, None);
                drop(exchange);
                if handed_back.send(part).is_err() {
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

    fn run(&self, job: Job<C>) {
        if let Some(jobs) = &self.jobs {
            // One that cannot take it has panicked, and hands nothing back.
            let _ = jobs.send(job);
        }
    }

    /// The part that it was handed.
    ///
    /// # Panics
    /// With the panic of the thread, if there was one.
    fn hand_back(&mut self, spins: u32) -> Part<C> {
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
            // Its panic, if there was one, has been told or follows another one.
            let _ = thread.join();
        }
    }
}

/// Receives, looking so often before it sleeps.
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

/// The threads beside that of the caller. They live as long as runs need as many, since a run goes on many
/// times: at ends of batches, at checkpoints.
pub(super) struct Workers<C: Component> {
    others: Vec<Worker<C>>,
    /// What they exchange letters with the thread of the caller by. Its mailboxes are empty between runs and keep
    /// their size. `None` where there are no workers.
    exchange: Option<Arc<Exchange<C::Payload>>>,
}

impl<C: Component> Workers<C> {
    pub(super) const NONE: Workers<C> = Workers {
        others: Vec::new(),
        exchange: None,
    };

    /// The exchange of so many parts, with as many workers less one: what there is if it fits, or a new one.
    fn exchange(&mut self, count: usize, processors: usize) -> Arc<Exchange<C::Payload>> {
        let spins = Barrier::spins(count, processors);
        let fits = |exchange: &&Arc<Exchange<_>>| {
            let barrier = &exchange.barrier;
            (barrier.count, barrier.spins) == (count, spins) && !barrier.is_broken()
        };
        if let Some(exchange) = self.exchange.as_ref().filter(fits) {
            return Arc::clone(exchange);
        }
        self.others = (1..count).map(|_| Worker::new(spins)).collect();
        Arc::clone(self.exchange.insert(Arc::new(Exchange::new(count, spins))))
    }

    /// Runs several parts, one thread each, until `pause` says to pause; returns whether they were interrupted,
    /// or `None` where they can go on. `pause` is asked every few windows.
    pub(super) fn run(
        &mut self,
        parts: &mut Vec<Part<C>>,
        (lookahead, until): (u64, u64),
        processors: usize,
        pause: &mut dyn FnMut() -> bool,
        monitor: &Monitor,
    ) -> Option<bool> {
        let count = parts.len();
        let exchange = self.exchange(count, processors);
        let spins = exchange.barrier.spins;
        for (worker, part) in self.others.iter().zip(parts.drain(1..)) {
            worker.run(Job {
                part,
                exchange: Arc::clone(&exchange),
                lookahead,
                until,
            });
        }
        let lead = Lead {
            pause,
            monitor,
            windows: Windows::default(),
            untold: 0,
        };
        let ended = parts[0].run_windows(&exchange, lookahead, until, Some(lead));
        let others = self.others.iter_mut();
        parts.extend(others.map(|worker| worker.hand_back(spins)));
        ended
    }
}

/// What the thread of the first part does besides.
struct Lead<'a> {
    pause: &'a mut dyn FnMut() -> bool,
    monitor: &'a Monitor,
    windows: Windows,
    /// Events that the monitor has not been told of.
    untold: u64,
}

impl Lead<'_> {
    /// What to do after the window that ends.
    fn after(&mut self) -> u8 {
        match () {
            () if self.monitor.is_interrupted() => after::INTERRUPTED,
            () if self.windows.count % ASK_EVERY == ASK_EVERY - 1 && (self.pause)() => after::PAUSE,
            () => after::GO_ON,
        }
    }

    /// Adds up what parts have said at the end of a window.
    fn count(&mut self, said: &[Apart<Said>]) {
        let (mut sum, mut most, mut work) = (0, 0, 0);
        for Apart(one) in said {
            let handled = one.handled.load(Ordering::Relaxed);
            (sum, most) = (sum + handled, handled.max(most));
            work += one.work.load(Ordering::Relaxed);
        }
        self.windows.events += sum;
        self.windows.busiest += most;
        self.untold += sum;
        if work > 0 {
            self.monitor.work.fetch_add(work, Ordering::Relaxed);
        }
    }

    fn tell(&mut self, time: u64) {
        let events = std::mem::take(&mut self.untold);
        self.monitor.events.fetch_add(events, Ordering::Relaxed);
        self.monitor.time.fetch_max(time, Ordering::Relaxed);
    }
}

impl<C: Component> Part<C> {
    /// Runs windows until one of the threads has a reason to stop; the first part has a `lead`.
    fn run_windows(
        &mut self,
        exchange: &Exchange<C::Payload>,
        lookahead: u64,
        until: u64,
        mut lead: Option<Lead<'_>>,
    ) -> Option<bool> {
        let _others_go_on = OpenOnPanic(&exchange.barrier);
        let me = self.lane.partition as usize;
        let mut turn = 0;
        let mut handled = 0;
        loop {
            let said = &exchange.said[turn][me].0;
            said.handled.store(handled, Ordering::Relaxed);
            let work = std::mem::take(&mut self.lane.work);
            said.work.store(work, Ordering::Relaxed);
            self.post(exchange, turn, me);
            if let Some(lead) = &mut lead {
                exchange.after[turn].store(lead.after(), Ordering::Release);
            }
            if !exchange.barrier.wait() {
                return Some(true);
            }
            let said = &exchange.said[turn];
            for from in 0..said.len() {
                let mailbox = &exchange.mail[turn][from][me].0;
                let mut letters = mailbox.lock().unwrap_or_else(PoisonError::into_inner);
                for at in 0..letters.len() {
                    if let Some(ahead) = letters.get(at + AHEAD) {
                        prefetch(ahead);
                    }
                    let letter = letters[at];
                    *self.lane.arrive(letter.key, letter.target) = letter.payload;
                }
                letters.clear();
            }
            let earliest = said.iter().map(|one| one.0.next.load(Ordering::Acquire));
            let earliest = earliest.min().unwrap_or(u64::MAX);
            let after = exchange.after[turn].load(Ordering::Acquire);
            let over = earliest >= until || earliest == u64::MAX;
            let ends = over || after != after::GO_ON;
            if let Some(lead) = &mut lead {
                lead.count(said);
                if ends || lead.untold >= LOOK_EVERY {
                    lead.tell(self.last);
                }
                lead.windows.count += u64::from(!ends);
                if ends {
                    lead.monitor.windows.add(lead.windows);
                }
            }
            if ends {
                let interrupted = after == after::INTERRUPTED;
                return (over || interrupted).then_some(interrupted);
            }
            handled = self.advance(earliest.saturating_add(lookahead).min(until), u64::MAX);
            turn ^= 1;
        }
    }

    /// Puts this window's letters into the mailboxes and says what is pending next.
    fn post(&mut self, exchange: &Exchange<C::Payload>, turn: usize, me: usize) {
        let mut earliest = self.lane.queue.next_time();
        for (to, outbox) in self.lane.outboxes.iter_mut().enumerate() {
            if outbox.letters.is_empty() {
                continue;
            }
            earliest = earliest.min(std::mem::replace(&mut outbox.earliest, u64::MAX));
            let mailbox = &exchange.mail[turn][me][to].0;
            let mut letters = mailbox.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut outbox.letters, &mut letters);
        }
        exchange.said[turn][me]
            .0
            .next
            .store(earliest, Ordering::Release);
    }
}
