//! Running several parts, one thread each, in windows of one lookahead.
//!
//! In a window every part handles its events before the window's end, which lies one lookahead
//! after the earliest pending event of all, so no letter can arrive inside it. Letters go through
//! double-buffered mailboxes, and one barrier a window suffices.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

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
    fn new(count: usize, processors: usize) -> Barrier {
        Barrier {
            count,
            spins: if count <= processors { SPINS } else { 0 },
            arrived: Apart::default(),
            generation: Apart::default(),
            broken: AtomicBool::new(false),
            asleep: AtomicUsize::new(0),
            lock: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    /// Waits until all threads have arrived; returns whether they can go on.
    fn wait(&self) -> bool {
        // In this order: a thread that panics sets `broken` before it begins a new generation.
        let generation = self.generation.0.load(Ordering::SeqCst);
        if self.broken.load(Ordering::SeqCst) {
            return false;
        }
        if self.arrived.0.fetch_add(1, Ordering::AcqRel) + 1 == self.count {
            self.arrived.0.store(0, Ordering::Relaxed);
            self.open(generation);
        } else if !self.spin(generation) {
            self.sleep(generation);
        }
        !self.broken.load(Ordering::SeqCst)
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

/// What threads exchange at the barrier; index 0 and 1 alternate by window.
struct Exchange<P: Payload> {
    barrier: Barrier,
    /// `mail[turn][from][to]`
    mail: [Vec<Vec<Mailbox<P>>>; 2],
    /// `next[turn][part]`: earliest event that the part knows of, its own letters included, and how many
    /// it has handled in the window that ends.
    next: [Vec<Apart<(AtomicU64, AtomicU64)>>; 2],
    /// One of [`after`].
    after: [AtomicU8; 2],
}

/// Runs several parts, one thread each, until `pause` says to pause; returns whether they were interrupted,
/// or `None` where they can go on. `pause` is asked every few windows.
pub(super) fn run_together<C: Component>(
    parts: &mut [Part<C>],
    (lookahead, until): (u64, u64),
    processors: usize,
    pause: &mut dyn FnMut() -> bool,
    monitor: &Monitor,
) -> Option<bool> {
    let count = parts.len();
    let mail = || {
        (0..count)
            .map(|_| (0..count).map(|_| Apart(Mutex::new(Vec::new()))).collect())
            .collect()
    };
    let next = || {
        (0..count)
            .map(|_| Apart((AtomicU64::new(u64::MAX), AtomicU64::new(0))))
            .collect()
    };
    let exchange: Exchange<C::Payload> = Exchange {
        barrier: Barrier::new(count, processors),
        mail: [mail(), mail()],
        next: [next(), next()],
        after: [AtomicU8::new(after::GO_ON), AtomicU8::new(after::GO_ON)],
    };
    let exchange = &exchange;
    std::thread::scope(|scope| {
        let (first, others) = match parts.split_first_mut() {
            Some(split) => split,
            None => return Some(false),
        };
        let others = others.iter_mut().map(|part| {
            scope
                .spawn(move || part.run_windows(exchange, lookahead, until, &mut || false, monitor))
        });
        let others: Vec<_> = others.collect();
        let ended = first.run_windows(exchange, lookahead, until, pause, monitor);
        for other in others {
            // With the message of the panic, where the scope would say only that there was one.
            other.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
        ended
    })
}

impl<C: Component> Part<C> {
    fn run_windows(
        &mut self,
        exchange: &Exchange<C::Payload>,
        lookahead: u64,
        until: u64,
        pause: &mut dyn FnMut() -> bool,
        monitor: &Monitor,
    ) -> Option<bool> {
        let _others_go_on = OpenOnPanic(&exchange.barrier);
        let me = self.lane.partition as usize;
        let mut turn = 0;
        let mut untold = 0;
        let mut handled = 0;
        let mut windows = Windows::default();
        loop {
            exchange.next[turn][me]
                .0
                .1
                .store(handled, Ordering::Relaxed);
            self.post(exchange, turn, me);
            if me == 0 {
                let after = match () {
                    () if monitor.is_interrupted() => after::INTERRUPTED,
                    () if windows.count % ASK_EVERY == ASK_EVERY - 1 && pause() => after::PAUSE,
                    () => after::GO_ON,
                };
                exchange.after[turn].store(after, Ordering::Release);
            }
            if !exchange.barrier.wait() {
                return Some(true);
            }
            for from in 0..exchange.next[turn].len() {
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
            let earliest = exchange.next[turn]
                .iter()
                .map(|next| next.0.0.load(Ordering::Acquire))
                .min()
                .unwrap_or(u64::MAX);
            if me == 0 {
                let handled = exchange.next[turn].iter();
                let handled = handled.map(|next| next.0.1.load(Ordering::Relaxed));
                let (sum, most) =
                    handled.fold((0, 0), |(sum, most), one| (sum + one, one.max(most)));
                windows.events += sum;
                windows.busiest += most;
            }
            let after = exchange.after[turn].load(Ordering::Acquire);
            let over = earliest >= until || earliest == u64::MAX;
            if over || after != after::GO_ON {
                self.tell(monitor, untold);
                if me == 0 {
                    monitor.windows.add(windows);
                }
                let interrupted = after == after::INTERRUPTED;
                return (over || interrupted).then_some(interrupted);
            }
            windows.count += 1;
            handled = self.advance(earliest.saturating_add(lookahead).min(until), u64::MAX);
            untold += handled;
            if untold >= LOOK_EVERY {
                self.tell(monitor, untold);
                untold = 0;
            }
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
        exchange.next[turn][me]
            .0
            .0
            .store(earliest, Ordering::Release);
    }
}
