//! The event queue: events in the total order *(time, source, sequence number)*.
//!
//! The executor uses a timing wheel ([`WheelQueue`]). A binary heap with the same interface
//! ([`HeapQueue`]) is the reference of its tests and the baseline of its benchmark.
//!
//! A queue stores the payload of each event at a numbered place, its *place*. A popped event has the number of
//! its place, which stays in use until it is released.
//!
//! ```
//! use cxlab_engine::queue::{EventKey, EventQueue, Target, WheelQueue};
//!
//! let mut queue = WheelQueue::<char>::default();
//! let key = |time, source: u64, sequence| EventKey { time, order: source << 40 | sequence };
//! *queue.push(key(20, 0, 0), Target::port(0, 0)) = 'd';
//! *queue.push(key(10, 2, 0), Target::port(0, 0)) = 'c';
//! *queue.push(key(10, 1, 8), Target::port(0, 0)) = 'b';
//! *queue.push(key(10, 1, 7), Target::port(0, 0)) = 'a';
//!
//! let mut order = String::new();
//! while let Some(event) = queue.pop_before(20) {
//!     order.push(*queue.carried(event.place));
//!     queue.release(event.place);
//! }
//! assert_eq!(order, "abc");
//! assert_eq!((queue.len(), queue.next_time()), (1, 20));
//! ```

mod block_queues;
mod heap;
mod slab;
#[cfg(test)]
mod tests;
mod wheel;

use std::cmp::{Ordering, Reverse};

pub use heap::HeapQueue;
pub use wheel::WheelQueue;

/// The position of an event in the total order: its time, then the number of the source component and the
/// sequence number of this source, packed into one word of 24 and 40 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EventKey {
    /// Time of the event in picoseconds.
    pub time: u64,
    /// `source << 40 | sequence`.
    pub order: u64,
}

impl EventKey {
    /// Number of bits of a sequence number.
    pub(crate) const SEQUENCE_BITS: u32 = 40;

    /// Both words as one number, for a comparison without a branch.
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

/// The receiver of an event. It is stored beside the key, because prefetching reads it before the event is popped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    /// The receiver's index in its partition, with the bit [`Target::WAKE`] for a wake-up.
    receiver: u32,
    /// The port at which a payload arrives, or the token of a wake-up.
    pub port_or_token: u32,
}

impl Target {
    const WAKE: u32 = 1 << 31;

    /// A placeholder, which no event has.
    const NOBODY: Target = Target {
        receiver: 0,
        port_or_token: 0,
    };

    /// A port of the component with this index, below 2^31.
    #[inline]
    pub fn port(component: u32, port: u16) -> Target {
        Target {
            receiver: component,
            port_or_token: u32::from(port),
        }
    }

    /// A wake-up of the component with this index, below 2^31, with a token.
    #[inline]
    pub fn wake(component: u32, token: u32) -> Target {
        Target {
            receiver: component | Self::WAKE,
            port_or_token: token,
        }
    }

    /// Whether the event is a wake-up, which carries nothing.
    #[inline]
    pub fn is_wake(self) -> bool {
        self.receiver & Self::WAKE != 0
    }

    /// The index of the receiver.
    #[inline]
    pub fn component(self) -> usize {
        (self.receiver & !Self::WAKE) as usize
    }
}

/// An event that was removed from the order, to be handled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoppedEvent {
    /// The event's position in the order.
    pub key: EventKey,
    /// The event's receiver.
    pub target: Target,
    /// The place of the event's payload. It stays in use until it is [released](EventQueue::release)
    /// or becomes that of another event.
    pub place: u32,
}

/// An event that will soon be popped: everything except its payload.
#[derive(Clone, Copy)]
struct NearEvent {
    key: EventKey,
    target: Target,
    place: u32,
}

/// Fills entries of a list that no event has taken yet.
const NOBODY: NearEvent = NearEvent {
    key: EventKey { time: 0, order: 0 },
    target: Target::NOBODY,
    place: 0,
};

impl PartialEq for NearEvent {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for NearEvent {}

impl PartialOrd for NearEvent {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for NearEvent {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

/// Sorts the events of a slot of the wheel, so that the first in the order is last in the list.
#[derive(Clone, Default)]
struct Sorter {
    /// For each event, its position in the order and its index in the list, packed into one word.
    ranks: Vec<u64>,
    sorted: Vec<NearEvent>,
}

impl Sorter {
    /// Largest number of events that are sorted by insertion (*assumed*).
    const INSERTION_SORT_MAX: usize = 16;
    /// Largest number of events that are sorted by moving them (*assumed*). Sorting words is faster for more events.
    const MOVING_SORT_MAX: usize = 32;

    #[inline]
    fn sort(&mut self, events: &mut Vec<NearEvent>) {
        if let [first, second] = events[..] {
            // A branch on the order could not be predicted, so the indices are computed.
            let index_of_first = usize::from(first.key < second.key);
            (events[index_of_first], events[1 - index_of_first]) = (first, second);
        } else if events.len() <= Self::INSERTION_SORT_MAX {
            insert_each(events);
        } else if events.len() <= Self::MOVING_SORT_MAX || !self.by_rank(events) {
            events.sort_unstable_by_key(|event| Reverse(event.key));
        }
    }

    /// Sorts many events by one word each. Returns false, with the events unchanged, if the differing
    /// bits of the keys do not fit a word.
    #[inline(never)]
    fn by_rank(&mut self, events: &mut Vec<NearEvent>) -> bool {
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
        self.ranks
            .extend(events.iter().zip(0..).map(|(event, index)| {
                let EventKey { time, order } = event.key;
                let rank = (time - first) << source | order >> EventKey::SEQUENCE_BITS;
                (rank << sequence | order & SEQUENCE) << number | index
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

/// Sorts few events by insertion, so that the first in the order is last.
#[inline]
fn insert_each(events: &mut [NearEvent]) {
    for end in 1..events.len() {
        let event = events[end];
        let mut index = end;
        while index > 0 && events[index - 1].key < event.key {
            events[index] = events[index - 1];
            index -= 1;
        }
        events[index] = event;
    }
}

/// A queue of events that each carry a value of type `T`.
pub trait EventQueue<T: Copy + Default> {
    /// Adds an event, not earlier than the time of the last event popped. Returns a reference to which
    /// the caller writes what the event carries; until then the value is arbitrary.
    fn push(&mut self, key: EventKey, target: Target) -> &mut T;
    /// Removes the first event from the order if its time is before `end`. Its place stays in use.
    fn pop_before(&mut self, end: u64) -> Option<PoppedEvent>;
    /// The payload of the popped event with this place.
    fn carried(&self, place: u32) -> &T;
    /// Frees the place of a popped event.
    fn release(&mut self, place: u32);
    /// The time of the first event, `u64::MAX` when there is none.
    fn next_time(&self) -> u64;
    /// The number of pending events. A popped event may count until its place is released.
    fn len(&self) -> usize;
    /// Whether no event is pending, as [`EventQueue::len`] counts.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
