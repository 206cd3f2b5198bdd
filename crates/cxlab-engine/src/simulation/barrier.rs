//! The barrier at the end of each window.

use super::sync::{AtomicBool, AtomicUsize, Condvar, Mutex, Ordering, PoisonError, spin_loop};

/// A value that shares its pair of cache lines with no other value.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct CacheAligned<T>(pub(super) T);

/// A barrier whose threads spin for a moment and then sleep. A sleeping thread leaves its processor to a
/// thread that still has events.
pub(super) struct Barrier {
    count: usize,
    /// Number of times that a thread checks the generation before it sleeps.
    spins: u32,
    arrived: CacheAligned<AtomicUsize>,
    generation: CacheAligned<AtomicUsize>,
    asleep: CacheAligned<AtomicUsize>,
    /// Whether a thread has panicked, so that it will never arrive.
    broken: AtomicBool,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Barrier {
    pub(super) fn new(count: usize, spins: u32) -> Barrier {
        Barrier {
            count,
            spins,
            arrived: CacheAligned(AtomicUsize::new(0)),
            generation: CacheAligned(AtomicUsize::new(0)),
            asleep: CacheAligned(AtomicUsize::new(0)),
            broken: AtomicBool::new(false),
            lock: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    pub(super) fn spins(&self) -> u32 {
        self.spins
    }

    /// Whether the barrier serves this number of threads with this number of spins, and is not broken.
    pub(super) fn fits(&self, count: usize, spins: u32) -> bool {
        (self.count, self.spins) == (count, spins) && !self.is_broken()
    }

    /// Whether a thread has panicked. A broken barrier stops no thread.
    fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// Waits until all threads have arrived. Returns false if a thread has panicked.
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

    /// Breaks the barrier: releases the threads that wait now, and all threads that arrive later.
    pub(super) fn break_open(&self) {
        self.broken.store(true, Ordering::Release);
        self.open(self.generation.0.load(Ordering::Acquire));
    }

    /// Releases the threads that wait in `generation`.
    fn open(&self, generation: usize) {
        self.generation
            .0
            .store(generation.wrapping_add(1), Ordering::Release);
        // Both this function and `sleep` modify `asleep` before they read on. The second of the two
        // sees the effect of the first: either this function sees that a thread sleeps, or the thread
        // sees the new generation.
        if self.asleep.0.fetch_add(0, Ordering::AcqRel) > 0 {
            drop(self.lock.lock());
            self.wake.notify_all();
        }
    }

    /// Returns whether the barrier opened within the number of spins.
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

/// Breaks the barrier when its thread panics, so that the other threads do not wait for it.
pub(super) struct OpenOnPanic<'a>(pub(super) &'a Barrier);

impl Drop for OpenOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.break_open();
        }
    }
}
