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
/// Everything with a `buffer` is double-buffered, and windows use the two buffers alternately. A partition
/// reads one buffer after the barrier, while others, which may be one window ahead, write the other. So
/// one barrier for each window suffices.
pub(super) struct Exchange<E> {
    barrier: Barrier,
    /// `events[buffer][from][to]`
    events: [Vec<Vec<Handover<E>>>; 2],
    /// `reports[buffer][part]`
    reports: [Vec<CacheAligned<SharedPartitionReport>>; 2],
    /// A [`WindowAction`] for each buffer.
    action_after: [AtomicU8; 2],
}

impl<E> Exchange<E> {
    /// An exchange between `count` partitions, whose threads spin `spins` times at the barrier
    /// before they sleep.
    pub(super) fn new(count: usize, spins: u32) -> Exchange<E> {
        let handovers = |_| {
            (0..count)
                .map(|_| CacheAligned(Mutex::new(Vec::new())))
                .collect()
        };
        let report = |_| {
            CacheAligned(SharedPartitionReport {
                next: AtomicU64::new(0),
                handled: AtomicU64::new(0),
                work: AtomicU64::new(0),
            })
        };
        Exchange {
            barrier: Barrier::new(count, spins),
            events: [
                (0..count).map(handovers).collect(),
                (0..count).map(handovers).collect(),
            ],
            reports: [
                (0..count).map(report).collect(),
                (0..count).map(report).collect(),
            ],
            action_after: [AtomicU8::new(0), AtomicU8::new(0)],
        }
    }

    pub(super) fn barrier(&self) -> &Barrier {
        &self.barrier
    }

    /// Hands over the events of a window by swapping vectors: `events` is empty afterwards and keeps the
    /// capacity of an earlier window.
    pub(super) fn post(&self, buffer: usize, from: usize, to: usize, events: &mut Vec<E>) {
        let handover = &self.events[buffer][from][to].0;
        std::mem::swap(
            events,
            &mut handover.lock().unwrap_or_else(PoisonError::into_inner),
        );
    }

    /// Calls `show` with the events for one partition, in the order of the sending partitions,
    /// and removes them.
    pub(super) fn take(&self, buffer: usize, to: usize, mut show: impl FnMut(&[E])) {
        for from in &self.events[buffer] {
            let mut events = from[to].0.lock().unwrap_or_else(PoisonError::into_inner);
            show(&events);
            events.clear();
        }
    }

    /// Writes the report of a partition, for the other threads to read after the barrier.
    pub(super) fn report(&self, buffer: usize, part: usize, report: PartitionReport) {
        let shared = &self.reports[buffer][part].0;
        shared.next.store(report.next, Ordering::Relaxed);
        shared.handled.store(report.handled, Ordering::Relaxed);
        shared.work.store(report.work, Ordering::Relaxed);
    }

    /// The reports of all partitions, in their order.
    pub(super) fn reports(&self, buffer: usize) -> impl Iterator<Item = PartitionReport> {
        self.reports[buffer]
            .iter()
            .map(|CacheAligned(shared)| PartitionReport {
                next: shared.next.load(Ordering::Relaxed),
                handled: shared.handled.load(Ordering::Relaxed),
                work: shared.work.load(Ordering::Relaxed),
            })
    }

    /// Writes the action after this window; called by the thread of the first partition.
    pub(super) fn set_action(&self, buffer: usize, action: WindowAction) {
        self.action_after[buffer].store(action as u8, Ordering::Relaxed);
    }

    /// The action of all threads after this window.
    pub(super) fn action(&self, buffer: usize) -> WindowAction {
        match self.action_after[buffer].load(Ordering::Relaxed) {
            0 => WindowAction::GoOn,
            1 => WindowAction::Pause,
            _ => WindowAction::Interrupted,
        }
    }
}
