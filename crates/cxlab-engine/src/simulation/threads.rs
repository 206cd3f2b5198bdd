//! Running several parts, one thread each, in windows of one lookahead.
//!
//! In a window every part handles its events before the window's end, which lies one lookahead
//! after the earliest pending event of all, so no letter can arrive inside it. Letters go through
//! double-buffered mailboxes, and one barrier a window suffices.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::part::{LOOK_EVERY, Part};
use super::{Monitor, Windows};
use crate::component::{Component, Letter, Payload};
use crate::prefetch::prefetch;
use crate::queue::EventQueue;

/// How many letters before its turn one is asked for: it lies with the processor that wrote it.
const AHEAD: usize = 14;

/// What lies in cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Apart<T>(T);

/// A barrier that spins for a moment and then yields: windows are short, and there may be more
/// threads than cores.
struct SpinBarrier {
    count: usize,
    arrived: Apart<AtomicUsize>,
    generation: Apart<AtomicUsize>,
}

impl SpinBarrier {
    fn wait(&self) {
        let (arrived, current) = (&self.arrived.0, &self.generation.0);
        let generation = current.load(Ordering::Acquire);
        if arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.count {
            arrived.store(0, Ordering::Relaxed);
            current.store(generation.wrapping_add(1), Ordering::Release);
            return;
        }
        let mut spins = 0u32;
        while current.load(Ordering::Acquire) == generation {
            spins += 1;
            if spins < 2_000 {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }
}

/// Letters from one part to another.
type Mailbox<P> = Apart<Mutex<Vec<Letter<P>>>>;

/// What threads exchange at the barrier; index 0 and 1 alternate by window.
struct Exchange<P: Payload> {
    barrier: SpinBarrier,
    /// `mail[turn][from][to]`
    mail: [Vec<Vec<Mailbox<P>>>; 2],
    /// `next[turn][part]`: earliest event that the part knows of, its own letters included, and how many
    /// it has handled in the window that ends.
    next: [Vec<Apart<(AtomicU64, AtomicU64)>>; 2],
    interrupted: [AtomicBool; 2],
}

/// Runs several parts, one thread each; returns whether they were interrupted.
pub(super) fn run_together<C: Component>(
    parts: &mut [Part<C>],
    lookahead: u64,
    until: u64,
    monitor: &Monitor,
) -> bool {
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
        barrier: SpinBarrier {
            count,
            arrived: Apart::default(),
            generation: Apart::default(),
        },
        mail: [mail(), mail()],
        next: [next(), next()],
        interrupted: [AtomicBool::new(false), AtomicBool::new(false)],
    };
    let exchange = &exchange;
    std::thread::scope(|scope| {
        let (first, others) = match parts.split_first_mut() {
            Some(split) => split,
            None => return false,
        };
        for part in others {
            scope.spawn(move || part.run_windows(exchange, lookahead, until, monitor));
        }
        first.run_windows(exchange, lookahead, until, monitor)
    })
}

impl<C: Component> Part<C> {
    fn run_windows(
        &mut self,
        exchange: &Exchange<C::Payload>,
        lookahead: u64,
        until: u64,
        monitor: &Monitor,
    ) -> bool {
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
            self.post(exchange, turn, me, monitor);
            exchange.barrier.wait();
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
            let interrupted = exchange.interrupted[turn].load(Ordering::Acquire);
            if interrupted || earliest >= until || earliest == u64::MAX {
                self.tell(monitor, untold);
                if me == 0 {
                    monitor.windows.add(windows);
                }
                return interrupted;
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
    fn post(&mut self, exchange: &Exchange<C::Payload>, turn: usize, me: usize, monitor: &Monitor) {
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
        if me == 0 {
            exchange.interrupted[turn].store(monitor.is_interrupted(), Ordering::Release);
        }
    }
}
