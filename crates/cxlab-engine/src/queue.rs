//! The event queue: events in the exact total order `(time, source, sequence)`.
//!
//! The executor uses a timing wheel ([`WheelQueue`]). A plain heap behind the same interface
//! ([`HeapQueue`]) is the oracle of its tests and the baseline of its benchmark.

mod heap;
mod slab;
#[cfg(test)]
mod tests;
mod turns;
mod wheel;

use std::cmp::{Ordering, Reverse};

pub use heap::HeapQueue;
pub use wheel::WheelQueue;

/// Position of an event in the total order: its time in picoseconds, then the source component
/// and the source's own sequence number packed into one word (24 and 40 bits).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EventKey {
    /// Delivery time, picoseconds.
    pub time: u64,
    /// `source << 40 | sequence`.
    pub order: u64,
}

impl EventKey {
    /// Bits of a sequence number.
    pub(crate) const SEQUENCE_BITS: u32 = 40;

    /// Both words as one number, which compares without a branch.
    #[inline]
    fn rank(self) -> u128 {
        u128::from(self.time) << 64 | u128::from(self.order)
    }
}

impl Ord for EventKey {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for EventKey {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Whom an event is for. It lies beside the key, because it is looked at before the event's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    /// The receiver's number in its part, and [`Target::WAKE`] for a wake-up.
    to: u32,
    /// The port at which something arrives, or the token of a wake-up.
    pub at: u32,
}

impl Target {
    const WAKE: u32 = 1 << 31;

    /// The target of no event.
    const NOBODY: Target = Target { to: 0, at: 0 };

    /// A port of the component of that number, below 2^31.
    #[inline]
    pub fn port(component: u32, port: u16) -> Target {
        Target {
            to: component,
            at: u32::from(port),
        }
    }

    /// A wake-up of that component, with a token.
    #[inline]
    pub fn wake(component: u32, token: u32) -> Target {
        Target {
            to: component | Self::WAKE,
            at: token,
        }
    }

    /// Whether it is a wake-up, which carries nothing.
    #[inline]
    pub fn is_wake(self) -> bool {
        self.to & Self::WAKE != 0
    }

    /// The receiver's number.
    #[inline]
    pub fn component(self) -> usize {
        (self.to & !Self::WAKE) as usize
    }
}

/// An event that has left the order, and is handled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Popped {
    /// Its place in the order.
    pub key: EventKey,
    /// Whom it is for.
    pub target: Target,
    /// Where the queue keeps what it carries, until it is [released](EventQueue::release) or goes on as
    /// another event.
    pub place: u32,
}

/// An event that will soon be popped, with all that is known of it without looking at its place.
#[derive(Clone, Copy)]
struct Near {
    key: EventKey,
    target: Target,
    place: u32,
}

/// In places that no event has taken.
const NOBODY: Near = Near {
    key: EventKey { time: 0, order: 0 },
    target: Target::NOBODY,
    place: 0,
};

impl PartialEq for Near {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Near {}

impl PartialOrd for Near {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Near {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

/// Sorts the events of a slot, the first in the order last.
#[derive(Clone, Default)]
struct Sorter {
    /// Of each event its place in the order, and behind that in the same word which one it is.
    ranks: Vec<u64>,
    sorted: Vec<Near>,
}

impl Sorter {
    /// More events than these are sorted by words, which is faster than moving them to and fro.
    const MANY: usize = 32;

    #[inline]
    fn sort(&mut self, events: &mut Vec<Near>) {
        if let [one, other] = events[..] {
            // Which goes first cannot be predicted, so it is computed.
            let later = usize::from(one.key < other.key);
            (events[later], events[1 - later]) = (one, other);
        } else if events.len() <= 16 {
            insert_each(events);
        } else if events.len() <= Self::MANY || !self.by_rank(events) {
            events.sort_unstable_by_key(|event| Reverse(event.key));
        }
    }

    /// Sorts many, if their keys, as far as they differ, fit a word.
    #[inline(never)]
    fn by_rank(&mut self, events: &mut Vec<Near>) -> bool {
        const SEQUENCE: u64 = (1 << EventKey::SEQUENCE_BITS) - 1;
        let bits = |number: u64| u64::BITS - number.leading_zeros();
        let (mut first, mut last, mut orders) = (u64::MAX, 0, 0);
        for event in &*events {
            first = first.min(event.key.time);
            last = last.max(event.key.time);
            orders |= event.key.order;
        }
        let source = bits(orders >> EventKey::SEQUENCE_BITS);
        let sequence = bits(orders & SEQUENCE);
        let number = bits(events.len() as u64);
        if bits(last - first) + source + sequence + number > u64::BITS {
            return false;
        }
        self.ranks.clear();
        self.ranks.extend(events.iter().zip(0..).map(|(event, at)| {
            let EventKey { time, order } = event.key;
            let rank = (time - first) << source | order >> EventKey::SEQUENCE_BITS;
            (rank << sequence | order & SEQUENCE) << number | at
        }));
        self.ranks.sort_unstable();
        let in_order = self.ranks.iter().rev();
        self.sorted.clear();
        self.sorted
            .extend(in_order.map(|rank| events[(rank & ((1 << number) - 1)) as usize]));
        std::mem::swap(events, &mut self.sorted);
        true
    }
}

/// Sorts few events, the first in the order last.
#[inline]
fn insert_each(events: &mut [Near]) {
    for end in 1..events.len() {
        let event = events[end];
        let mut at = end;
        while at > 0 && events[at - 1].key < event.key {
            events[at] = events[at - 1];
            at -= 1;
        }
        events[at] = event;
    }
}

/// What the executor needs of a queue of events that carry a `T`.
pub trait EventQueue<T: Copy + Default> {
    /// Adds an event, and shows the place for what it carries, which holds anything as yet. Its time
    /// must not lie before the last event popped.
    fn push(&mut self, key: EventKey, target: Target) -> &mut T;
    /// Removes the first event from the order if its time lies before `end`. What it carries stays.
    fn pop_before(&mut self, end: u64) -> Option<Popped>;
    /// What a popped event carries that lies at `place`.
    fn carried(&self, place: u32) -> &T;
    /// Forgets what a popped event carries.
    fn release(&mut self, place: u32);
    /// The time of the first event, `u64::MAX` when there is none.
    fn next_time(&self) -> u64;
    /// How many events are pending. Not quick.
    fn len(&self) -> usize;
    /// Whether no event is pending.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
