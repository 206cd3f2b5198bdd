//! The data that threads exchange at the end of each window.

use super::barrier::{Barrier, CacheAligned};
use super::sync::{AtomicU8, AtomicU64, Mutex, Ordering, PoisonError};

/// The action of all threads after a window; the thread of the first partition decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum WindowAction {
    GoOn,
    Pause,
    Interrupted,
}

/// The report of a partition at the end of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PartitionReport {
    /// Time of the earliest pending event, including those that the partition sent to others.
    pub(super) next: u64,
    /// Events handled in the window.
    pub(super) handled: u64,
    /// Units of work done in the window.
    pub(super) work: u64,
}

/// A [`PartitionReport`] in atomics, for other threads to read.
struct SharedPartitionReport {
    next: AtomicU64,
    handled: AtomicU64,
    work: AtomicU64,
}

/// Events from one partition to another.
type Handover<E> = CacheAligned<Mutex<Vec<E>>>;

/// Cross-partition events `E` of each pair of partitions, and the report of each partition.
///
/// Everything with a `turn` is double-buffered, and windows use the two buffers alternately. A partition
/// reads one buffer after the barrier, while others, which may be one window ahead, write the other. So
/// one barrier for each window suffices.
pub(super) struct Exchange<E> {
    barrier: Barrier,
    /// `events[turn][from][to]`
    events: [Vec<Vec<Handover<E>>>; 2],
    /// `told[turn][part]`
    told: [Vec<CacheAligned<SharedPartitionReport>>; 2],
    /// An [`WindowAction`] for each turn.
    after: [AtomicU8; 2],
}

impl<E> Exchange<E> {
    /// An exchange between `count` partitions, whose threads spin `spins` times at the barrier
    /// before they sleep.
    pub(super) fn new(count: usize, spins: u32) -> Exchange<E> {
        let boxes = |_| {
            (0..count)
                .map(|_| CacheAligned(Mutex::new(Vec::new())))
                .collect()
        };
        let told = |_| {
            CacheAligned(SharedPartitionReport {
                next: AtomicU64::new(0),
                handled: AtomicU64::new(0),
                work: AtomicU64::new(0),
            })
        };
        Exchange {
            barrier: Barrier::new(count, spins),
            events: [
                (0..count).map(boxes).collect(),
                (0..count).map(boxes).collect(),
            ],
            told: [
                (0..count).map(told).collect(),
                (0..count).map(told).collect(),
            ],
            after: [AtomicU8::new(0), AtomicU8::new(0)],
        }
    }

    pub(super) fn barrier(&self) -> &Barrier {
        &self.barrier
    }

    /// Hands over the events of a window by swapping vectors: `events` is empty afterwards and keeps the
    /// capacity of an earlier window.
    pub(super) fn post(&self, turn: usize, from: usize, to: usize, events: &mut Vec<E>) {
        let there = &self.events[turn][from][to].0;
        std::mem::swap(
            events,
            &mut there.lock().unwrap_or_else(PoisonError::into_inner),
        );
    }

    /// Calls `show` with the events for one partition, in the order of the sending partitions,
    /// and removes them.
    pub(super) fn take(&self, turn: usize, to: usize, mut show: impl FnMut(&[E])) {
        for from in &self.events[turn] {
            let mut events = from[to].0.lock().unwrap_or_else(PoisonError::into_inner);
            show(&events);
            events.clear();
        }
    }

    pub(super) fn say(&self, turn: usize, part: usize, said: PartitionReport) {
        let told = &self.told[turn][part].0;
        told.next.store(said.next, Ordering::Relaxed);
        told.handled.store(said.handled, Ordering::Relaxed);
        told.work.store(said.work, Ordering::Relaxed);
    }

    /// The reports of all partitions, in their order.
    pub(super) fn said(&self, turn: usize) -> impl Iterator<Item = PartitionReport> {
        self.told[turn]
            .iter()
            .map(|CacheAligned(told)| PartitionReport {
                next: told.next.load(Ordering::Relaxed),
                handled: told.handled.load(Ordering::Relaxed),
                work: told.work.load(Ordering::Relaxed),
            })
    }

    pub(super) fn set_after(&self, turn: usize, after: WindowAction) {
        self.after[turn].store(after as u8, Ordering::Relaxed);
    }

    pub(super) fn after(&self, turn: usize) -> WindowAction {
        match self.after[turn].load(Ordering::Relaxed) {
            0 => WindowAction::GoOn,
            1 => WindowAction::Pause,
            _ => WindowAction::Interrupted,
        }
    }
}
