//! What threads tell each other at the end of each window.

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
    /// The earliest event that it knows of, its own letters included.
    pub(super) next: u64,
    /// Events that it has handled in the window.
    pub(super) handled: u64,
    /// Units of work that it has done in it.
    pub(super) work: u64,
}

/// The same where others read it.
struct Told {
    next: AtomicU64,
    handled: AtomicU64,
    work: AtomicU64,
}

type Mailbox<L> = Apart<Mutex<Vec<L>>>;

/// Letters `L` from one part to another, and what parts say. Whatever has a `turn` is there twice, and windows use
/// the two alternately: a part reads what was written before the barrier while others, which may be a window
/// ahead, write the other one. So one barrier a window suffices.
pub(super) struct Exchange<L> {
    barrier: Barrier,
    /// `mail[turn][from][to]`
    mail: [Vec<Vec<Mailbox<L>>>; 2],
    /// `told[turn][part]`
    told: [Vec<Apart<Told>>; 2],
    /// An [`After`] for each turn.
    after: [AtomicU8; 2],
}

impl<L> Exchange<L> {
    /// Between so many parts, whose threads look `spins` times at the barrier before they sleep.
    pub(super) fn new(count: usize, spins: u32) -> Exchange<L> {
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
            mail: [
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

    /// Puts letters into a mailbox, and the empty one that was there in their place.
    pub(super) fn post(&self, turn: usize, from: usize, to: usize, letters: &mut Vec<L>) {
        let mailbox = &self.mail[turn][from][to].0;
        std::mem::swap(
            letters,
            &mut mailbox.lock().unwrap_or_else(PoisonError::into_inner),
        );
    }

    /// Shows all letters to a part, those of each part together, in the order of parts, and drops them.
    pub(super) fn take(&self, turn: usize, to: usize, mut show: impl FnMut(&[L])) {
        for from in &self.mail[turn] {
            let mut letters = from[to].0.lock().unwrap_or_else(PoisonError::into_inner);
            show(&letters);
            letters.clear();
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
