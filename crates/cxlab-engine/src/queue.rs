//! The event queue: a timing wheel with the exact total order `(time, source, sequence)`.
//!
//! Slots hold intrusive lists into a slab; a slot is sorted when the clock reaches it. Events
//! beyond the wheel's horizon wait in a binary heap. Pushing and popping allocate nothing once
//! the slab has grown to the largest number of pending events. A plain heap behind the same
//! interface ([`HeapQueue`]) is the oracle of its tests and the baseline of its benchmark.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

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

/// What the executor needs of a queue.
pub trait EventQueue<T: Copy> {
    /// Adds an event, and shows where it is kept. Its time must not lie before the last event
    /// popped.
    fn push(&mut self, key: EventKey, item: T) -> &mut T;
    /// Removes the first event in the order if its time lies before `end`.
    fn pop_before(&mut self, end: u64) -> Option<(EventKey, T)>;
    /// The time of the first event, `u64::MAX` when there is none.
    fn next_time(&mut self) -> u64;
    /// How many events are pending.
    fn len(&self) -> usize;
    /// Whether no event is pending.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Width of a slot as a power of two of picoseconds: 64 ps, so that a slot of a small system holds
/// one event.
const SLOT_SHIFT: u32 = 6;
/// Slots of the wheel (power of two). 8,192 slots of 64 ps reach 524 ns ahead, farther than a
/// hop or a DRAM access.
const SLOTS: usize = 8192;
const WORDS: usize = SLOTS / 64;
const NIL: u32 = u32::MAX;

/// An event's place in its slot's list. Kept apart from what the event carries, so that walking
/// a list touches little memory.
#[derive(Clone, Copy)]
struct Link {
    key: EventKey,
    next: u32,
}

/// The timing wheel.
#[derive(Clone)]
pub struct WheelQueue<T> {
    links: Vec<Link>,
    items: Vec<T>,
    free: u32,
    heads: Box<[u32; SLOTS]>,
    occupied: [u64; WORDS],
    /// The events of the active slot, sorted so that the next one is last.
    current: Vec<(EventKey, u32)>,
    /// Absolute number of the active slot.
    slot: u64,
    overflow: BinaryHeap<Reverse<(EventKey, u32)>>,
    len: usize,
}

impl<T: Copy> Default for WheelQueue<T> {
    fn default() -> Self {
        WheelQueue {
            links: Vec::new(),
            items: Vec::new(),
            free: NIL,
            heads: Box::new([NIL; SLOTS]),
            occupied: [0; WORDS],
            current: Vec::new(),
            slot: 0,
            overflow: BinaryHeap::new(),
            len: 0,
        }
    }
}

impl<T: Copy> WheelQueue<T> {
    /// The absolute number of the first occupied wheel slot after the active one.
    #[inline]
    fn next_occupied(&self) -> Option<u64> {
        let start = (self.slot + 1) as usize & (SLOTS - 1);
        let (word, bit) = (start / 64, start % 64);
        let first = self.occupied[word] & (!0u64 << bit);
        if first != 0 {
            return Some(self.absolute(word * 64 + first.trailing_zeros() as usize));
        }
        for step in 1..=WORDS {
            let index = (word + step) % WORDS;
            let bits = self.occupied[index];
            if bits != 0 {
                return Some(self.absolute(index * 64 + bits.trailing_zeros() as usize));
            }
        }
        None
    }

    /// The absolute slot within one turn after the active slot that lies at `index`.
    #[inline]
    fn absolute(&self, index: usize) -> u64 {
        let ahead = (index as u64).wrapping_sub(self.slot + 1) & (SLOTS as u64 - 1);
        self.slot + 1 + ahead
    }

    /// Makes the earliest non-empty slot the active one. Returns false when nothing is pending.
    fn activate(&mut self) -> bool {
        debug_assert!(self.current.is_empty());
        let in_wheel = self.next_occupied();
        let in_heap = self
            .overflow
            .peek()
            .map(|Reverse((key, _))| key.time >> SLOT_SHIFT);
        let slot = match (in_wheel, in_heap) {
            (None, None) => return false,
            (Some(slot), None) | (None, Some(slot)) => slot,
            (Some(a), Some(b)) => a.min(b),
        };
        self.slot = slot;
        if in_wheel == Some(slot) {
            let index = slot as usize & (SLOTS - 1);
            let mut at = std::mem::replace(&mut self.heads[index], NIL);
            self.occupied[index / 64] &= !(1 << (index % 64));
            while at != NIL {
                let link = self.links[at as usize];
                self.current.push((link.key, at));
                at = link.next;
            }
        }
        if in_heap == Some(slot) {
            self.activate_overflow(slot);
        }
        sort_descending(&mut self.current);
        true
    }

    /// Moves the overflow's events of a slot into the active slot.
    #[cold]
    fn activate_overflow(&mut self, slot: u64) {
        while let Some(Reverse((key, _))) = self.overflow.peek() {
            if key.time >> SLOT_SHIFT != slot {
                break;
            }
            if let Some(Reverse(entry)) = self.overflow.pop() {
                self.current.push(entry);
            }
        }
    }
}

impl<T: Copy> WheelQueue<T> {
    /// What the event `ahead` places after the next one carries, if the active slot has it: for
    /// fetching ahead.
    #[inline]
    pub fn upcoming(&self, ahead: usize) -> Option<&T> {
        let place = self.current.len().checked_sub(1 + ahead)?;
        Some(&self.items[self.current[place].1 as usize])
    }
}

/// Sorts a slot's few events, the first in the order last.
#[inline]
fn sort_descending(events: &mut [(EventKey, u32)]) {
    if events.len() > 16 {
        events.sort_unstable_by_key(|(key, _)| Reverse(*key));
        return;
    }
    for end in 1..events.len() {
        let event = events[end];
        let mut at = end;
        while at > 0 && events[at - 1].0 < event.0 {
            events[at] = events[at - 1];
            at -= 1;
        }
        events[at] = event;
    }
}

impl<T: Copy> EventQueue<T> for WheelQueue<T> {
    #[inline(always)]
    fn push(&mut self, key: EventKey, item: T) -> &mut T {
        let at = if self.free != NIL {
            let at = self.free;
            let link = &mut self.links[at as usize];
            self.free = link.next;
            link.key = key;
            self.items[at as usize] = item;
            at
        } else {
            self.links.push(Link { key, next: NIL });
            self.items.push(item);
            (self.items.len() - 1) as u32
        };
        self.len += 1;
        let slot = key.time >> SLOT_SHIFT;
        if slot <= self.slot {
            let place = self.current.partition_point(|(other, _)| *other > key);
            self.current.insert(place, (key, at));
        } else if slot - self.slot < SLOTS as u64 {
            let index = slot as usize & (SLOTS - 1);
            self.links[at as usize].next = self.heads[index];
            self.heads[index] = at;
            self.occupied[index / 64] |= 1 << (index % 64);
        } else {
            self.overflow.push(Reverse((key, at)));
        }
        &mut self.items[at as usize]
    }

    #[inline(always)]
    fn pop_before(&mut self, end: u64) -> Option<(EventKey, T)> {
        if self.current.is_empty() && !self.activate() {
            return None;
        }
        let (key, at) = *self.current.last()?;
        if key.time >= end {
            return None;
        }
        self.current.pop();
        self.len -= 1;
        self.links[at as usize].next = self.free;
        self.free = at;
        Some((key, self.items[at as usize]))
    }

    #[inline]
    fn next_time(&mut self) -> u64 {
        if self.current.is_empty() && !self.activate() {
            return u64::MAX;
        }
        self.current.last().map_or(u64::MAX, |(key, _)| key.time)
    }

    fn len(&self) -> usize {
        self.len
    }
}

/// A binary heap behind the same interface: the oracle and the baseline.
pub struct HeapQueue<T> {
    heap: BinaryHeap<Reverse<(EventKey, u32)>>,
    items: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for HeapQueue<T> {
    fn default() -> Self {
        HeapQueue {
            heap: BinaryHeap::new(),
            items: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T: Copy> EventQueue<T> for HeapQueue<T> {
    fn push(&mut self, key: EventKey, item: T) -> &mut T {
        let at = match self.free.pop() {
            Some(at) => {
                self.items[at as usize] = item;
                at
            }
            None => {
                self.items.push(item);
                (self.items.len() - 1) as u32
            }
        };
        self.heap.push(Reverse((key, at)));
        &mut self.items[at as usize]
    }

    fn pop_before(&mut self, end: u64) -> Option<(EventKey, T)> {
        if self.heap.peek()?.0.0.time >= end {
            return None;
        }
        let Reverse((key, at)) = self.heap.pop()?;
        self.free.push(at);
        Some((key, self.items[at as usize]))
    }

    fn next_time(&mut self) -> u64 {
        self.heap
            .peek()
            .map_or(u64::MAX, |Reverse((key, _))| key.time)
    }

    fn len(&self) -> usize {
        self.heap.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Pushes spread over every part of the queue (active slot, wheel, overflow) and pops
        /// bounded by arbitrary ends come out exactly as from the heap.
        #[test]
        fn the_wheel_pops_exactly_what_the_heap_pops(
            steps in prop::collection::vec((0u8..4, 0u64..3_000_000, 0u64..4), 1..400)
        ) {
            let mut wheel = WheelQueue::default();
            let mut heap = HeapQueue::default();
            let (mut now, mut order) = (0u64, 0u64);
            for (kind, value, source) in steps {
                if kind < 3 {
                    let ahead = match kind { 0 => value % 300, 1 => value % 500_000, _ => value };
                    order += 1;
                    let key = EventKey { time: now + ahead, order: source << 40 | order };
                    wheel.push(key, order);
                    heap.push(key, order);
                } else {
                    let end = now + value % 100_000;
                    prop_assert_eq!(wheel.next_time(), heap.next_time());
                    loop {
                        let (a, b) = (wheel.pop_before(end), heap.pop_before(end));
                        prop_assert_eq!(a, b);
                        match a { Some((key, _)) => now = key.time, None => break }
                    }
                    now = now.max(end);
                }
                prop_assert_eq!(wheel.len(), heap.len());
            }
            while let Some(expected) = heap.pop_before(u64::MAX) {
                prop_assert_eq!(wheel.pop_before(u64::MAX), Some(expected));
            }
            prop_assert!(wheel.is_empty());
        }
    }
}
