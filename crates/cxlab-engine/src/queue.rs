//! The event queue: a timing wheel with the exact total order `(time, source, sequence)`.
//!
//! Slots hold intrusive lists into a slab; a slot is sorted when the clock reaches it. Events
//! beyond the wheel's horizon wait in a binary heap. Pushing and popping allocate nothing once
//! the slab has grown to the largest number of pending events. A plain heap behind the same
//! interface ([`HeapQueue`]) is the oracle of its tests and the baseline of its benchmark.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::prefetch::prefetch;

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

/// An event that has left the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Popped {
    /// Its place in the order.
    pub key: EventKey,
    /// Whom it is for.
    pub target: Target,
    /// Where the queue keeps what it carries, until the next push.
    pub place: u32,
}

/// What the executor needs of a queue of events that carry a `T`.
pub trait EventQueue<T: Copy + Default> {
    /// Adds an event, and shows the place for what it carries, which holds anything as yet. Its time
    /// must not lie before the last event popped.
    fn push(&mut self, key: EventKey, target: Target) -> &mut T;
    /// Removes the first event in the order if its time lies before `end`.
    fn pop_before(&mut self, end: u64) -> Option<Popped>;
    /// What an event carries that was popped since the last push.
    fn carried(&self, popped: Popped) -> &T;
    /// The time of the first event, `u64::MAX` when there is none.
    fn next_time(&mut self) -> u64;
    /// How many events are pending. Not quick.
    fn len(&self) -> usize;
    /// Whether no event is pending.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

const NIL: u32 = u32::MAX;

/// No slot.
const NEVER: u64 = u64::MAX;

/// A pending event: its place in its slot's list, and what it carries. That of a CXL system fills
/// two cache lines, of which the first is enough for walking the list.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Entry<T> {
    key: EventKey,
    target: Target,
    next: u32,
    item: T,
}

/// The timing wheel.
#[derive(Clone)]
pub struct WheelQueue<T> {
    entries: Vec<Entry<T>>,
    free: u32,
    /// Width of a slot as a power of two of picoseconds.
    shift: u32,
    /// By slot of the wheel, a power of two: the first event of its list.
    heads: Box<[u32]>,
    /// A bit for each slot that has events.
    occupied: Box<[u64]>,
    /// A bit for each word of those that has any.
    words: Box<[u64]>,
    /// The events of the active slot, sorted so that the next one is last.
    current: Vec<(EventKey, u32)>,
    /// Absolute number of the active slot.
    slot: u64,
    /// Absolute number of the first occupied slot behind the active one.
    next: u64,
    /// The last event of that slot that was fetched ahead.
    fetched: u32,
    overflow: BinaryHeap<Reverse<(EventKey, u32)>>,
    /// The slot of the first event of `overflow`.
    overflow_slot: u64,
}

impl<T> Default for WheelQueue<T> {
    fn default() -> Self {
        WheelQueue::for_components(0)
    }
}

impl<T> WheelQueue<T> {
    /// A wheel for the events of so many components: in a small system a slot of 64 ps holds one
    /// event. More components have more events, and get narrower slots, of which there are more: the
    /// wheel always reaches 524 ns ahead, farther than a hop or a DRAM access.
    pub fn for_components(count: usize) -> Self {
        let shift = match count {
            0..=64 => 6,
            65..=512 => 5,
            _ => 4,
        };
        let slots = 1 << (19 - shift);
        WheelQueue {
            entries: Vec::new(),
            free: NIL,
            shift,
            heads: vec![NIL; slots].into(),
            occupied: vec![0; slots / 64].into(),
            words: vec![0; slots / 4096].into(),
            current: Vec::new(),
            slot: 0,
            next: NEVER,
            fetched: NIL,
            overflow: BinaryHeap::new(),
            overflow_slot: NEVER,
        }
    }
}

impl<T: Copy + Default> WheelQueue<T> {
    /// The place of a slot in the wheel.
    #[inline(always)]
    fn index(&self, slot: u64) -> usize {
        slot as usize & (self.heads.len() - 1)
    }

    /// The first event in the list of the first occupied slot behind the active one.
    #[inline(always)]
    fn next_head(&self) -> u32 {
        match self.next {
            NEVER => NIL,
            slot => self.heads[self.index(slot)],
        }
    }

    /// The first occupied slot behind the active one becomes the active one.
    #[inline(always)]
    fn turn(&mut self) {
        let index = self.index(self.next);
        self.slot = self.next;
        self.fetched = NIL;
        self.heads[index] = NIL;
        let (word, bit) = (index / 64, index % 64);
        let bits = &mut self.occupied[word];
        *bits &= !(1 << bit);
        let ahead = *bits >> bit;
        if *bits == 0 {
            self.words[word / 64] &= !(1 << (word % 64));
        }
        self.next = if ahead != 0 {
            self.slot + u64::from(ahead.trailing_zeros())
        } else {
            self.occupied_after(word)
        };
    }

    /// The first occupied slot whose bit lies behind that word of the active slot.
    fn occupied_after(&self, word: usize) -> u64 {
        let first = (word + 1) & (self.occupied.len() - 1);
        let (at, count) = (first / 64, self.words.len());
        // Words from the first on, then those before it.
        let ahead = self.words[at] & (!0 << (first % 64));
        let others = (1..=count).map(|step| (at + step) & (count - 1));
        let others = others.map(|at| (at, self.words[at]));
        for (at, words) in std::iter::once((at, ahead)).chain(others) {
            if words != 0 {
                let word = at * 64 + words.trailing_zeros() as usize;
                let bits = self.occupied[word];
                let index = (word * 64) as u64 + u64::from(bits.trailing_zeros());
                return self.slot + self.index(index.wrapping_sub(self.slot)) as u64;
            }
        }
        NEVER
    }

    /// Removes the first event if it is alone in its slot and lies before `end`: most slots of a
    /// small system hold one event, which needs no sorting.
    #[inline(always)]
    fn pop_lone(&mut self, end: u64) -> Option<Popped> {
        if self.next >= self.overflow_slot {
            return None;
        }
        let place = self.heads[self.index(self.next)];
        let entry = &mut self.entries[place as usize];
        let (key, target) = (entry.key, entry.target);
        if entry.next != NIL || key.time >= end {
            return None;
        }
        entry.next = self.free;
        self.free = place;
        self.turn();
        Some(Popped { key, target, place })
    }

    /// Makes the earliest non-empty slot the active one. Returns false when nothing is pending.
    #[inline(never)]
    fn activate(&mut self) -> bool {
        debug_assert!(self.current.is_empty());
        let slot = self.next.min(self.overflow_slot);
        if slot == NEVER {
            return false;
        }
        if self.next == slot {
            let mut at = self.next_head();
            self.turn();
            while at != NIL {
                let entry = &self.entries[at as usize];
                self.current.push((entry.key, at));
                at = entry.next;
            }
        }
        if self.overflow_slot == slot {
            self.slot = slot;
            self.activate_overflow();
        }
        sort_descending(&mut self.current);
        true
    }

    /// Moves the overflow's events of the active slot there.
    #[cold]
    fn activate_overflow(&mut self) {
        self.overflow_slot = NEVER;
        while let Some(Reverse((key, _))) = self.overflow.peek() {
            let slot = key.time >> self.shift;
            if slot != self.slot {
                self.overflow_slot = slot;
                break;
            }
            if let Some(Reverse(entry)) = self.overflow.pop() {
                self.current.push(entry);
            }
        }
    }

    /// Puts an event where those go that lie in the active slot or beyond the horizon.
    #[inline(never)]
    fn push_elsewhere(&mut self, key: EventKey, at: u32) {
        let slot = key.time >> self.shift;
        if slot <= self.slot {
            let place = self.current.partition_point(|(other, _)| *other > key);
            self.current.insert(place, (key, at));
        } else {
            self.overflow.push(Reverse((key, at)));
            self.overflow_slot = self.overflow_slot.min(slot);
        }
    }

    /// Makes a place for one more event than ever before.
    #[cold]
    fn grow(&mut self) {
        self.free = self.entries.len() as u32;
        self.entries.push(Entry {
            key: EventKey { time: 0, order: 0 },
            target: Target::port(0, 0),
            next: NIL,
            item: T::default(),
        });
    }

    /// The event `ahead` places after the next one, if the active slot has it: for fetching ahead.
    #[inline(always)]
    pub fn upcoming(&self, ahead: usize) -> Option<(Target, &T)> {
        let place = self.current.len().checked_sub(1 + ahead)?;
        let entry = &self.entries[self.current[place].1 as usize];
        Some((entry.target, &entry.item))
    }

    /// Fetches ahead one more event of the slot behind the active one, and returns whom it is for:
    /// walking its list at once would wait for each event in turn.
    #[inline(always)]
    pub fn fetch_behind(&mut self) -> Option<Target> {
        self.fetched = match self.fetched {
            NIL => self.next_head(),
            at => self.entries[at as usize].next,
        };
        let entry = self.entries.get(self.fetched as usize)?;
        prefetch(entry);
        Some(entry.target)
    }
}

/// Sorts a slot's few events, the first in the order last.
#[inline]
fn sort_descending(events: &mut [(EventKey, u32)]) {
    if let [one, other] = *events {
        // Which goes first cannot be predicted, so it is computed.
        let later = usize::from(one.0 < other.0);
        (events[later], events[1 - later]) = (one, other);
        return;
    }
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

impl<T: Copy + Default> EventQueue<T> for WheelQueue<T> {
    #[inline(always)]
    fn push(&mut self, key: EventKey, target: Target) -> &mut T {
        if self.free == NIL {
            self.grow();
        }
        let at = self.free;
        let slot = key.time >> self.shift;
        let slots = self.heads.len();
        let mut after = NIL;
        if slot.wrapping_sub(self.slot + 1) < slots as u64 - 1 {
            let index = slot as usize & (slots - 1);
            after = std::mem::replace(&mut self.heads[index], at);
            self.occupied[index / 64] |= 1 << (index % 64);
            self.words[index / 4096] |= 1 << (index / 64 % 64);
            self.next = self.next.min(slot);
        } else {
            self.push_elsewhere(key, at);
        }
        let entry = &mut self.entries[at as usize];
        self.free = entry.next;
        entry.key = key;
        entry.target = target;
        entry.next = after;
        &mut entry.item
    }

    #[inline(always)]
    fn pop_before(&mut self, end: u64) -> Option<Popped> {
        if self.current.is_empty() {
            if let Some(popped) = self.pop_lone(end) {
                return Some(popped);
            }
            if !self.activate() {
                return None;
            }
        }
        let (key, place) = *self.current.last()?;
        if key.time >= end {
            return None;
        }
        self.current.pop();
        let entry = &mut self.entries[place as usize];
        entry.next = self.free;
        self.free = place;
        let target = entry.target;
        Some(Popped { key, target, place })
    }

    #[inline(always)]
    fn carried(&self, popped: Popped) -> &T {
        &self.entries[popped.place as usize].item
    }

    #[inline]
    fn next_time(&mut self) -> u64 {
        if self.current.is_empty() && !self.activate() {
            return u64::MAX;
        }
        self.current.last().map_or(u64::MAX, |(key, _)| key.time)
    }

    fn len(&self) -> usize {
        let mut free = 0;
        let mut at = self.free;
        while at != NIL {
            free += 1;
            at = self.entries[at as usize].next;
        }
        self.entries.len() - free
    }
}

/// A binary heap behind the same interface: the oracle and the baseline.
pub struct HeapQueue<T> {
    heap: BinaryHeap<Reverse<(EventKey, u32)>>,
    items: Vec<(Target, T)>,
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

impl<T: Copy + Default> EventQueue<T> for HeapQueue<T> {
    fn push(&mut self, key: EventKey, target: Target) -> &mut T {
        let place = self.free.pop().unwrap_or(self.items.len() as u32);
        if place as usize == self.items.len() {
            self.items.push((target, T::default()));
        }
        self.heap.push(Reverse((key, place)));
        let item = &mut self.items[place as usize];
        item.0 = target;
        &mut item.1
    }

    fn pop_before(&mut self, end: u64) -> Option<Popped> {
        if self.heap.peek()?.0.0.time >= end {
            return None;
        }
        let Reverse((key, place)) = self.heap.pop()?;
        self.free.push(place);
        let target = self.items[place as usize].0;
        Some(Popped { key, target, place })
    }

    fn carried(&self, popped: Popped) -> &T {
        &self.items[popped.place as usize].1
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
            components in prop::sample::select(vec![1usize, 100, 1000]),
            steps in prop::collection::vec((0u8..4, 0u64..3_000_000, 0u64..4), 1..400)
        ) {
            let mut wheel = WheelQueue::<u64>::for_components(components);
            let mut heap = HeapQueue::<u64>::default();
            let pop = |wheel: &mut WheelQueue<u64>, heap: &mut HeapQueue<u64>, end: u64| {
                wheel.fetch_behind();
                let (a, b) = (wheel.pop_before(end), heap.pop_before(end));
                let a = a.map(|one| (one.key, one.target, *wheel.carried(one)));
                let b = b.map(|one| (one.key, one.target, *heap.carried(one)));
                (a, b)
            };
            let (mut now, mut order) = (0u64, 0u64);
            for (kind, value, source) in steps {
                if kind < 3 {
                    let ahead = match kind { 0 => value % 300, 1 => value % 500_000, _ => value };
                    order += 1;
                    let key = EventKey { time: now + ahead, order: source << 40 | order };
                    let target = match order % 3 {
                        0 => Target::wake(order as u32, value as u32),
                        _ => Target::port(order as u32, value as u16),
                    };
                    *wheel.push(key, target) = order;
                    *heap.push(key, target) = order;
                } else {
                    let end = now + value % 100_000;
                    prop_assert_eq!(wheel.next_time(), heap.next_time());
                    loop {
                        let (a, b) = pop(&mut wheel, &mut heap, end);
                        prop_assert_eq!(a, b);
                        match a { Some((key, ..)) => now = key.time, None => break }
                    }
                    now = now.max(end);
                }
                prop_assert_eq!(wheel.len(), heap.len());
            }
            while !heap.is_empty() {
                let (a, b) = pop(&mut wheel, &mut heap, u64::MAX);
                prop_assert_eq!(a, b);
            }
            prop_assert!(wheel.is_empty());
        }
    }
}
