//! The timing wheel.
//!
//! A slot of the wheel covers some picoseconds and has the list of its events. A slot is sorted when time
//! reaches it. Events beyond the horizon of the wheel are in a binary heap. Pushing and popping allocate
//! nothing once the storage has grown to the largest number of pending events.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::block_queues::BlockQueues;
use super::slab::{NIL, Slab};
use super::{EventKey, EventQueue, NearEvent, PoppedEvent, Sorter, Target};
use crate::prefetch::prefetch;

/// Stands for the number of a slot where there is none.
const NEVER: u64 = u64::MAX;

/// Length of the tables of slots: the number of slots that the largest system uses. Since it is a
/// constant, an index modulo it needs no bounds check.
const SLOTS: usize = 1 << 15;

/// An event in the list of its slot. An entry has the same place as the event's payload, which is stored in
/// the slab, so that walking a list touches little memory.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
struct Entry {
    key: EventKey,
    target: Target,
    /// The place of the next event in the list, or [`NIL`].
    next: u32,
}

impl Entry {
    const NONE: Entry = Entry {
        key: EventKey { time: 0, order: 0 },
        target: Target::NOBODY,
        next: NIL,
    };
}

/// The event queue of a partition: a timing wheel, or queues of blocks of components for block-by-block execution.
#[derive(Clone)]
pub struct WheelQueue<T> {
    slab: Slab<T>,
    wheel: Wheel,
    /// Has no blocks where the wheel is used.
    block_queues: BlockQueues,
}

/// The slots of the timing wheel with their events.
#[derive(Clone)]
struct Wheel {
    /// Events by place.
    entries: Vec<Entry>,
    /// Width of a slot as a power of two of picoseconds.
    shift: u32,
    /// Whether a slot of two events is popped from its list without sorting. In larger systems such a
    /// slot becomes the active one, where its events can be prefetched.
    pairs: bool,
    /// Number of slots, a power of two, less one.
    mask: usize,
    /// The place of the first event of each slot's list.
    heads: Box<[u32; SLOTS]>,
    /// A bit for each slot, set where the slot has events.
    occupied: Box<[u64; SLOTS / 64]>,
    /// A bit for each word of `occupied`, set where the word is not zero.
    words: [u64; SLOTS / 4096],
    /// The events of the active slot, sorted so that the next one is last.
    current: Vec<NearEvent>,
    sorter: Sorter,
    /// For each of two prefetch stages: the number of events in `current`, from its beginning, that have
    /// not been prefetched.
    unfetched: [u32; 2],
    /// Absolute number of the active slot: time divided by the width of a slot.
    slot: u64,
    /// Absolute number of the first occupied slot after the active one.
    next: u64,
    /// The last event of the slot `next` that was prefetched.
    fetched: u32,
    /// Events beyond the horizon, with their places.
    overflow: BinaryHeap<Reverse<(EventKey, u32)>>,
    /// The slot of the first event of `overflow`.
    overflow_slot: u64,
}

/// A table of slots without events, allocated on the heap without a copy on the stack.
fn empty_heads() -> Box<[u32; SLOTS]> {
    match vec![NIL; SLOTS].try_into() {
        Ok(heads) => heads,
        Err(_) => unreachable!("it has that many"),
    }
}

impl<T: Copy + Default> Default for WheelQueue<T> {
    fn default() -> Self {
        WheelQueue::for_components(0)
    }
}

impl<T: Copy + Default> WheelQueue<T> {
    /// A wheel for the events of `count` components. The number affects only speed.
    pub fn for_components(count: usize) -> Self {
        WheelQueue {
            slab: Slab::new(),
            wheel: Wheel::for_components(count),
            block_queues: BlockQueues::new(0, 0, 0),
        }
    }

    /// A queue for blocks, with the number of components of each; a wheel for a single block. The
    /// shortest latency between two blocks is `span` picoseconds. No event is earlier than `time`.
    pub(crate) fn for_blocks(counts: &[usize], span: u64, time: u64) -> Self {
        let mut queue = match counts {
            [count] => WheelQueue::for_components(*count),
            _ => WheelQueue::for_components(0),
        };
        if counts.len() > 1 {
            queue.block_queues = BlockQueues::new(counts.len(), span, time);
        }
        queue.wheel.slot = time >> queue.wheel.shift;
        queue
    }

    /// Calls `show` for all pending events, in no particular order.
    pub(crate) fn for_each(&self, mut show: impl FnMut(EventKey, Target, &T)) {
        let mut show = |key, target, place| show(key, target, self.slab.at(place));
        self.block_queues.for_each(&mut show);
        self.wheel.for_each(&mut show);
    }

    /// Number of blocks, at least 1.
    #[inline]
    pub(crate) fn blocks(&self) -> usize {
        self.block_queues.count().max(1)
    }

    /// The queues of the blocks.
    pub(crate) fn block_queues(&mut self) -> &mut BlockQueues {
        &mut self.block_queues
    }

    /// Receiver and payload of the event that is `behind` events after the current one, with block-by-block execution.
    #[inline(always)]
    pub(crate) fn coming(&self, behind: usize) -> Option<(Target, &T)> {
        let (target, place) = self.block_queues.coming(behind)?;
        Some((target, self.slab.at(place)))
    }

    /// Whether the events are in the timing wheel.
    #[inline(always)]
    fn uses_wheel(&self) -> bool {
        self.block_queues.count() == 0
    }

    /// Adds an event for a component of this block.
    #[inline]
    pub(crate) fn push_to(&mut self, block: usize, key: EventKey, target: Target) -> &mut T {
        let place = self.slab.take();
        self.pass_to(block, place, key, target)
    }

    /// Adds an event to the wheel that carries the payload at `place`, of a popped event. The payload is
    /// not copied, and the caller may change it.
    #[inline(always)]
    pub(crate) fn pass_on(&mut self, place: u32, key: EventKey, target: Target) -> &mut T {
        self.wheel.insert(key, target, place);
        self.slab.at_mut(place)
    }

    /// Adds an event for a component of this block that carries the payload at `place`, of a popped event.
    pub(crate) fn pass_to(
        &mut self,
        block: usize,
        place: u32,
        key: EventKey,
        target: Target,
    ) -> &mut T {
        match self.uses_wheel() {
            true => self.wheel.insert(key, target, place),
            false => self.block_queues.push_to(block, key, target, place),
        }
        self.slab.at_mut(place)
    }

    /// The payload of the popped event with this place, to be changed.
    #[inline]
    pub(crate) fn carried_mut(&mut self, place: u32) -> &mut T {
        self.slab.at_mut(place)
    }

    /// Stores a payload without an event, until its place is [released](EventQueue::release)
    /// or [passed on](WheelQueue::pass_on).
    pub(crate) fn hold(&mut self, carried: T) -> u32 {
        let place = self.slab.take();
        *self.slab.at_mut(place) = carried;
        place
    }

    /// Receiver and payload of the first of the next `ahead` events of the active slot to which prefetch
    /// stage `stage` (0 or 1) has not been applied yet.
    #[inline(always)]
    pub(crate) fn next_to_prefetch(&mut self, stage: usize, ahead: usize) -> Option<(Target, &T)> {
        let (target, place) = self.wheel.next_to_prefetch(stage, ahead)?;
        Some((target, self.slab.at(place)))
    }

    /// Prefetches one more event of the next slot. Walking the list of a slot at once would stall at each event.
    #[inline(always)]
    pub(crate) fn prefetch_next_slot(&mut self) {
        prefetch(self.slab.at(self.wheel.prefetch_next_slot()));
    }
}

impl Wheel {
    /// A wheel whose slots have one or two events: 64 ps wide in small systems, narrower and more in systems with more
    /// components (limits *assumed*). The horizon is always 524 ns, more than a hop or a DRAM access takes.
    fn for_components(count: usize) -> Self {
        let shift = match count {
            0..=64 => 6,
            65..=512 => 5,
            _ => 4,
        };
        Wheel::with_slots(shift, shift == 6)
    }

    /// A wheel with slots of 2^`shift` picoseconds and a horizon of 524 ns.
    fn with_slots(shift: u32, pairs: bool) -> Self {
        Wheel {
            entries: vec![Entry::NONE],
            shift,
            pairs,
            mask: (1 << (19 - shift)) - 1,
            heads: empty_heads(),
            occupied: Box::new([0; SLOTS / 64]),
            words: [0; SLOTS / 4096],
            current: Vec::new(),
            sorter: Sorter::default(),
            unfetched: [0; 2],
            slot: 0,
            next: NEVER,
            fetched: NIL,
            overflow: BinaryHeap::new(),
            overflow_slot: NEVER,
        }
    }

    /// The index of a slot in the tables.
    #[inline(always)]
    fn index(&self, slot: u64) -> usize {
        slot as usize & self.mask & (SLOTS - 1)
    }

    /// The first event in the list of the first occupied slot after the active one.
    #[inline(always)]
    fn next_head(&self) -> u32 {
        match self.next {
            NEVER => NIL,
            slot => self.heads[self.index(slot)],
        }
    }

    /// Makes the first occupied slot after the active one the active slot.
    #[inline(always)]
    fn begin_next_slot(&mut self) {
        let index = self.index(self.next);
        self.slot = self.next;
        self.fetched = NIL;
        self.heads[index] = NIL;
        let (word, bit) = (index / 64, index % 64);
        let bits = self.occupied[word] & !(1 << bit);
        self.occupied[word] = bits;
        // The later slots of the word. Bits of earlier slots belong to the next turn of the wheel.
        let ahead = bits >> bit;
        self.next = if ahead != 0 {
            self.slot + u64::from(ahead.trailing_zeros())
        } else {
            if bits == 0 {
                self.words[word / 64] &= !(1 << (word % 64));
            }
            self.occupied_after(word)
        };
    }

    /// The first occupied slot whose bit is in a later word than `word`, that of the active slot.
    #[inline(never)]
    fn occupied_after(&self, word: usize) -> u64 {
        let (words, count) = (&self.words, self.mask / 4096 + 1);
        let first = (word + 1) & (self.mask / 64);
        let group = first / 64;
        // First the words from `first` on, then those before it, in groups that have one entry in `words`.
        let ahead = words[group % words.len()] & (!0 << (first % 64));
        let others = (1..=count).map(|step| (group + step) & (count - 1));
        let others = others.map(|group| (group, words[group % words.len()]));
        for (group, words) in std::iter::once((group, ahead)).chain(others) {
            if words != 0 {
                let word = group * 64 + words.trailing_zeros() as usize;
                let bits = self.occupied[word % (SLOTS / 64)];
                let index = (word * 64) as u64 + u64::from(bits.trailing_zeros());
                return self.slot + (index.wrapping_sub(self.slot) & self.mask as u64);
            }
        }
        NEVER
    }

    /// Removes the first event if it is before `end` and alone in its slot, in a small system also if the
    /// slot has two events. Most slots of a small system have one or two events, which need no sorting.
    #[inline(always)]
    fn pop_near(&mut self, end: u64) -> Option<PoppedEvent> {
        if self.next >= self.overflow_slot {
            return None;
        }
        let index = self.index(self.next);
        let mut place = self.heads[index];
        let entry = &self.entries[place as usize];
        let mut key = entry.key;
        let mut rest = entry.next;
        if rest != NIL {
            let other = &self.entries[rest as usize];
            if other.next != NIL || !self.pairs {
                return None;
            }
            if other.key < key {
                (place, rest, key) = (rest, place, other.key);
            }
        }
        if key.time >= end {
            return None;
        }
        let target = self.entries[place as usize].target;
        if rest == NIL {
            self.begin_next_slot();
        } else {
            self.fetched = NIL;
            self.heads[index] = rest;
            self.entries[rest as usize].next = NIL;
        }
        Some(PoppedEvent { key, target, place })
    }

    /// Makes the earliest occupied slot the active one. Returns false if no event is pending, or if the
    /// slot begins at `end` or later.
    #[inline(never)]
    fn activate(&mut self, end: u64) -> bool {
        debug_assert!(self.current.is_empty());
        let slot = self.next.min(self.overflow_slot);
        if slot == NEVER || slot << self.shift >= end {
            return false;
        }
        if self.next == slot {
            let mut place = self.next_head();
            self.begin_next_slot();
            while place != NIL {
                let entry = &self.entries[place as usize];
                let (key, target) = (entry.key, entry.target);
                self.current.push(NearEvent { key, target, place });
                place = entry.next;
            }
        }
        if self.overflow_slot == slot {
            self.slot = slot;
            self.activate_overflow();
        }
        self.sorter.sort(&mut self.current);
        self.unfetched = [self.current.len() as u32; 2];
        true
    }

    /// Moves the events of the active slot from the overflow heap to the active slot.
    #[cold]
    fn activate_overflow(&mut self) {
        self.overflow_slot = NEVER;
        while let Some(Reverse((key, _))) = self.overflow.peek() {
            let slot = key.time >> self.shift;
            if slot != self.slot {
                self.overflow_slot = slot;
                break;
            }
            if let Some(Reverse((key, place))) = self.overflow.pop() {
                let target = self.entries[place as usize].target;
                self.current.push(NearEvent { key, target, place });
            }
        }
    }

    /// Adds an event that is in the active slot or beyond the horizon.
    #[inline(never)]
    fn push_elsewhere(&mut self, key: EventKey, target: Target, place: u32) {
        let slot = key.time >> self.shift;
        if slot <= self.slot {
            let later = self.current.partition_point(|other| other.key > key);
            self.current.insert(later, NearEvent { key, target, place });
        } else {
            self.overflow.push(Reverse((key, place)));
            self.overflow_slot = self.overflow_slot.min(slot);
        }
    }

    /// Adds an event to its slot.
    #[inline(always)]
    fn insert(&mut self, key: EventKey, target: Target, place: u32) {
        let next = self.link(key, target, place);
        // Each field is written by itself, so that no copy of the entry is built first.
        match self.entries.get_mut(place as usize) {
            Some(entry) => (entry.key, entry.target, entry.next) = (key, target, next),
            None => self.grow(place, key, target, next),
        }
    }

    /// Makes an event the first in the list of its slot; returns the place of the event after it.
    #[inline(always)]
    fn link(&mut self, key: EventKey, target: Target, place: u32) -> u32 {
        let slot = key.time >> self.shift;
        if slot.wrapping_sub(self.slot + 1) >= self.mask as u64 {
            self.push_elsewhere(key, target, place);
            return NIL;
        }
        let index = self.index(slot);
        let after = std::mem::replace(&mut self.heads[index], place);
        let word = &mut self.occupied[index / 64];
        if *word == 0 {
            self.words[index / 4096] |= 1 << (index / 64 % 64);
        }
        *word |= 1 << (index % 64);
        self.next = self.next.min(slot);
        after
    }

    /// Extends the table of entries to `place`, and writes this entry.
    #[cold]
    fn grow(&mut self, place: u32, key: EventKey, target: Target, next: u32) {
        self.entries.resize(place as usize, Entry::NONE);
        self.entries.push(Entry { key, target, next });
    }

    /// The next event to prefetch, as in [`WheelQueue::next_to_prefetch`].
    #[inline(always)]
    fn next_to_prefetch(&mut self, stage: usize, ahead: usize) -> Option<(Target, u32)> {
        let pending = self.current.len();
        let left = (self.unfetched[stage] as usize).min(pending);
        if left <= pending.saturating_sub(ahead) {
            return None;
        }
        self.unfetched[stage] = left as u32 - 1;
        let NearEvent { target, place, .. } = self.current[left - 1];
        Some((target, place))
    }

    /// Prefetches one more event of the next slot; returns its place.
    #[inline(always)]
    fn prefetch_next_slot(&mut self) -> u32 {
        let place = match self.fetched {
            NIL => self.next_head(),
            fetched => self.entries[fetched as usize].next,
        };
        self.fetched = place;
        prefetch(&self.entries[place as usize]);
        place
    }

    /// Calls `show` for all pending events, in no particular order.
    fn for_each(&self, mut show: impl FnMut(EventKey, Target, u32)) {
        let mut show = |place: u32| {
            let entry = &self.entries[place as usize];
            show(entry.key, entry.target, place);
            entry.next
        };
        for near in &self.current {
            show(near.place);
        }
        for Reverse((_, place)) in &self.overflow {
            show(*place);
        }
        for head in self.heads.iter() {
            let mut place = *head;
            while place != NIL {
                place = show(place);
            }
        }
    }

    /// The time of the first event, `u64::MAX` when there is none.
    fn next_time(&self) -> u64 {
        if let Some(near) = self.current.last() {
            return near.key.time;
        }
        let overflow = self.overflow.peek();
        let overflow = overflow.map_or(NEVER, |Reverse((key, _))| key.time);
        let mut first = overflow;
        let mut place = self.next_head();
        while place != NIL {
            let entry = &self.entries[place as usize];
            first = first.min(entry.key.time);
            place = entry.next;
        }
        first
    }
}

impl<T: Copy + Default> EventQueue<T> for WheelQueue<T> {
    #[inline(always)]
    fn push(&mut self, key: EventKey, target: Target) -> &mut T {
        let place = self.slab.take();
        self.pass_on(place, key, target)
    }

    #[inline(always)]
    fn pop_before(&mut self, end: u64) -> Option<PoppedEvent> {
        let wheel = &mut self.wheel;
        if wheel.current.is_empty() {
            if let Some(popped) = wheel.pop_near(end) {
                return Some(popped);
            }
            if !wheel.activate(end) {
                return None;
            }
        }
        let NearEvent { key, target, place } = *wheel.current.last()?;
        if key.time >= end {
            return None;
        }
        wheel.current.pop();
        Some(PoppedEvent { key, target, place })
    }

    #[inline(always)]
    fn carried(&self, place: u32) -> &T {
        self.slab.at(place)
    }

    #[inline(always)]
    fn release(&mut self, place: u32) {
        self.slab.release(place);
    }

    #[inline]
    fn next_time(&self) -> u64 {
        match self.uses_wheel() {
            true => self.wheel.next_time(),
            false => self.block_queues.next_time(),
        }
    }

    fn len(&self) -> usize {
        self.slab.in_use()
    }
}
