//! The barrier at the end of each window.

use super::sync::{AtomicBool, AtomicUsize, Condvar, Mutex, Ordering, PoisonError, spin_loop};

/// A value in a pair of cache lines of its own, which no other value shares.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Apart<T>(pub(super) T);

/// A barrier whose threads spin for a moment and then sleep, so that a thread that waits takes no processor
/// from one that works.
pub(super) struct Barrier {
    count: usize,
    /// How often a thread looks before it sleeps.
    spins: u32,
    arrived: Apart<AtomicUsize>,
    generation: Apart<AtomicUsize>,
    asleep: Apart<AtomicUsize>,
    /// A thread has panicked and will never arrive.
    broken: AtomicBool,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Barrier {
    pub(super) fn new(count: usize, spins: u32) -> Barrier {
        Barrier {
            count,
            spins,
            arrived: Apart(AtomicUsize::new(0)),
            generation: Apart(AtomicUsize::new(0)),
            asleep: Apart(AtomicUsize::new(0)),
            broken: AtomicBool::new(false),
            lock: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    pub(super) fn spins(&self) -> u32 {
        self.spins
    }

    /// Whether so many threads that look so often can use it.
    pub(super) fn fits(&self, count: usize, spins: u32) -> bool {
        (self.count, self.spins) == (count, spins) && !self.is_broken()
    }

    /// Whether a thread has panicked, so that nobody can wait here again.
    fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// Waits until all threads have arrived; returns whether they can go on.
    pub(super) fn wait(&self) -> bool {
        // In this order: a thread that panics sets `broken` before it begins a new generation.
        let generation = self.generation.0.load(Ordering::Acquire);
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

    /// Lets all threads go on, those that wait now and those that come.
    pub(super) fn break_open(&self) {
        self.broken.store(true, Ordering::Release);
        self.open(self.generation.0.load(Ordering::Acquire));
    }

    /// Lets all go on that wait since `generation`.
    fn open(&self, generation: usize) {
        self.generation
            .0
            .store(generation.wrapping_add(1), Ordering::Release);
        // Both this and `sleep` change `asleep` before they look further. Whichever comes second sees what the
        // other one did: this one that somebody sleeps, or that one the new generation.
        if self.asleep.0.fetch_add(0, Ordering::AcqRel) > 0 {
            drop(self.lock.lock());
            self.wake.notify_all();
        }
    }

    fn spin(&self, generation: usize) -> bool {
        for _ in 0..self.spins {
            if self.generation.0.load(Ordering::Acquire) != generation {
                return true;
            }
            spin_loop();
        }
        false
    }

    fn sleep(&self, generation: usize) {
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.asleep.0.fetch_add(1, Ordering::AcqRel);
        while self.generation.0.load(Ordering::Acquire) == generation {
            let woken = self.wake.wait(guard);
            guard = woken.unwrap_or_else(PoisonError::into_inner);
        }
        self.asleep.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Opens the barrier for the others where a thread panics.
pub(super) struct OpenOnPanic<'a>(pub(super) &'a Barrier);

impl Drop for OpenOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.break_open();
        }
    }
}
