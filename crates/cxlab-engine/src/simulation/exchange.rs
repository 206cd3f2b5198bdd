//! What threads exchange at the end of each window.

use super::barrier::{Apart, Barrier};
use super::sync::{AtomicU8, AtomicU64, Mutex, Ordering, PoisonError};

/// What all threads do after a window, as the first one says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum After {
    GoOn,
    Pause,
    Interrupted,
}

/// What a part says at the end of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Said {
    /// Time of its earliest pending event, those for other parts included.
    pub(super) next: u64,
    /// Events that it has handled in the window.
    pub(super) handled: u64,
    /// Units of work that it has done in it.
    pub(super) work: u64,
}

/// A [`Said`] that other threads read.
struct Told {
    next: AtomicU64,
    handled: AtomicU64,
    work: AtomicU64,
}

/// Events from one part to another.
type Handover<E> = Apart<Mutex<Vec<E>>>;

/// Cross-partition events `E` of each pair of parts, and what each part says. Everything that has a `turn` exists
/// twice, and windows use the two alternately: a part reads what was written before the barrier while other parts,
/// which may be one window ahead, write the other copy. So one barrier a window suffices.
pub(super) struct Exchange<E> {
    barrier: Barrier,
    /// `events[turn][from][to]`
    events: [Vec<Vec<Handover<E>>>; 2],
    /// `told[turn][part]`
    told: [Vec<Apart<Told>>; 2],
    /// An [`After`] for each turn.
    after: [AtomicU8; 2],
}

impl<E> Exchange<E> {
    /// Between so many parts, whose threads look `spins` times at the barrier before they sleep.
    pub(super) fn new(count: usize, spins: u32) -> Exchange<E> {
        let boxes = |_| (0..count).map(|_| Apart(Mutex::new(Vec::new()))).collect();
        let told = |_| {
            Apart(Told {
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

    /// Hands over the events of a window. The vector is empty afterwards, and has the capacity of an earlier one.
    pub(super) fn post(&self, turn: usize, from: usize, to: usize, events: &mut Vec<E>) {
        let there = &self.events[turn][from][to].0;
        std::mem::swap(
            events,
            &mut there.lock().unwrap_or_else(PoisonError::into_inner),
        );
    }

    /// Shows a part all events that were handed over to it, in the order of the parts that sent them, and removes them.
    pub(super) fn take(&self, turn: usize, to: usize, mut show: impl FnMut(&[E])) {
        for from in &self.events[turn] {
            let mut events = from[to].0.lock().unwrap_or_else(PoisonError::into_inner);
            show(&events);
            events.clear();
        }
    }

    pub(super) fn say(&self, turn: usize, part: usize, said: Said) {
        let told = &self.told[turn][part].0;
        told.next.store(said.next, Ordering::Relaxed);
        told.handled.store(said.handled, Ordering::Relaxed);
        told.work.store(said.work, Ordering::Relaxed);
    }

    /// What parts have said, in their order.
    pub(super) fn said(&self, turn: usize) -> impl Iterator<Item = Said> {
        self.told[turn].iter().map(|Apart(told)| Said {
            next: told.next.load(Ordering::Relaxed),
            handled: told.handled.load(Ordering::Relaxed),
            work: told.work.load(Ordering::Relaxed),
        })
    }

    pub(super) fn set_after(&self, turn: usize, after: After) {
        self.after[turn].store(after as u8, Ordering::Relaxed);
    }

    pub(super) fn after(&self, turn: usize) -> After {
        match self.after[turn].load(Ordering::Relaxed) {
            0 => After::GoOn,
            1 => After::Pause,
            _ => After::Interrupted,
        }
    }
}
