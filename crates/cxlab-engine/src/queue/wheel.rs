//! The timing wheel.
//!
//! Slots hold intrusive lists into a slab; a slot is sorted when the clock reaches it. Events
//! beyond the wheel's horizon wait in a binary heap. Pushing and popping allocate nothing once
//! the slab has grown to the largest number of pending events.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{EventKey, EventQueue, Popped, Target};
use crate::prefetch::prefetch;

/// No event: nothing is kept in the first place of the slab. So memory of slots that are never used is
/// never touched.
const NIL: u32 = 0;

/// No slot.
const NEVER: u64 = u64::MAX;

/// Places for slots: as many as the largest system uses. With a constant, what is taken modulo it
/// needs no check.
const SLOTS: usize = 1 << 15;

/// A pending event's place in its slot's list. What it carries lies elsewhere, so that lists are short ways
/// through memory.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
struct Entry {
    key: EventKey,
    target: Target,
    next: u32,
}

impl Entry {
    const NONE: Entry = Entry {
        key: EventKey { time: 0, order: 0 },
        target: Target::NOBODY,
        next: NIL,
    };
}

/// An event of the active slot, with all that is known of it without looking at its place.
#[derive(Clone, Copy)]
struct Near {
    key: EventKey,
    target: Target,
    place: u32,
}

/// What an event carries. That of a CXL system lies in two cache lines.
#[derive(Clone, Copy, Default)]
#[repr(C, align(32))]
struct Item<T>(T);

/// The timing wheel: one, or one for each block of components, over one slab.
#[derive(Clone)]
pub struct WheelQueue<T> {
    entries: Vec<Entry>,
    /// By the same places.
    items: Vec<Item<T>>,
    free: u32,
    /// That of the block whose events are handled.
    wheel: Wheel,
    block: u32,
    /// Those of all blocks; in the place of the one above, nothing of meaning.
    others: Vec<Wheel>,
}

/// The slots of a block.
#[derive(Clone)]
struct Wheel {
    /// Width of a slot as a power of two of picoseconds.
    shift: u32,
    /// Whether two events of one slot are told apart in their list. In larger systems they become
    /// the active slot, where they can be fetched ahead.
    pairs: bool,
    /// Slots in use less one; their number is a power of two.
    mask: usize,
    /// By slot of the wheel: the first event of its list.
    heads: Box<[u32; SLOTS]>,
    /// A bit for each slot that has events.
    occupied: Box<[u64; SLOTS / 64]>,
    /// A bit for each word of those that has any.
    words: [u64; SLOTS / 4096],
    /// The events of the active slot, sorted so that the next one is last.
    current: Vec<Near>,
    /// How many of them, from the first on in memory, have not been asked for ahead, by what is asked for.
    asked: [u32; 2],
    /// Events that other blocks have sent, not yet in their slots: those lie in no cache until it is
    /// this block's turn.
    inbox: Vec<(EventKey, u32)>,
    /// The time of the earliest of them.
    inbox_first: u64,
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

/// Slots without events, made where they stay.
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
    /// A wheel for the events of so many components.
    pub fn for_components(count: usize) -> Self {
        WheelQueue {
            entries: vec![Entry::NONE],
            items: vec![Item::default()],
            free: NIL,
            wheel: Wheel::for_components(count),
            block: 0,
            others: Vec::new(),
        }
    }

    /// A wheel for each of several blocks of so many components, turned to the first.
    pub(crate) fn for_blocks(counts: &[usize]) -> Self {
        if let [count] = counts {
            return WheelQueue::for_components(*count);
        }
        let mut queue = WheelQueue::for_components(0);
        queue.others = counts.iter().map(|_| Wheel::for_block()).collect();
        queue
    }

    /// The same, without events, beginning at that time.
    pub(crate) fn at(mut self, time: u64) -> Self {
        for wheel in self.others.iter_mut().chain([&mut self.wheel]) {
            wheel.slot = time >> wheel.shift;
        }
        self
    }

    /// Shows all pending events, in no order.
    pub(crate) fn for_each(&self, mut show: impl FnMut(EventKey, Target, &T)) {
        let mut show = |place: u32| {
            let entry = &self.entries[place as usize];
            show(entry.key, entry.target, &self.items[place as usize].0);
            entry.next
        };
        for wheel in self.wheels() {
            for near in &wheel.current {
                show(near.place);
            }
            for (_, place) in &wheel.inbox {
                show(*place);
            }
            for Reverse((_, place)) in &wheel.overflow {
                show(*place);
            }
            for head in wheel.heads.iter() {
                let mut at = *head;
                while at != NIL {
                    at = show(at);
                }
            }
        }
    }

    /// The wheels of all blocks.
    fn wheels(&self) -> impl Iterator<Item = &Wheel> {
        let resting = self.others.iter().enumerate();
        let resting = resting.filter(|(block, _)| *block != self.block as usize);
        resting.map(|(_, wheel)| wheel).chain([&self.wheel])
    }

    /// How many blocks there are.
    #[inline]
    pub(crate) fn blocks(&self) -> usize {
        self.others.len().max(1)
    }

    /// The time of a block's first event, `u64::MAX` when there is none.
    pub(crate) fn next_of(&self, block: usize) -> u64 {
        match block == self.block as usize {
            true => self.wheel.next_time(&self.entries),
            false => self.others[block].next_time(&self.entries),
        }
    }

    /// Turns to a block, all of whose events lie at `now` or later: they are the ones that are popped,
    /// and what is pushed is for it.
    pub(crate) fn turn_to(&mut self, block: usize, now: u64) {
        if block != self.block as usize {
            std::mem::swap(&mut self.wheel, &mut self.others[self.block as usize]);
            std::mem::swap(&mut self.wheel, &mut self.others[block]);
            self.block = block as u32;
        }
        // What others push for it is not to lie beyond its horizon because it has been idle.
        let wheel = &mut self.wheel;
        let before = (now >> wheel.shift).saturating_sub(1);
        if wheel.current.is_empty() && wheel.slot < before {
            wheel.slot = before;
            wheel.fetched = NIL;
        }
        wheel.inbox_first = NEVER;
        while let Some((key, place)) = self.wheel.inbox.pop() {
            let target = self.entries[place as usize].target;
            self.entries[place as usize].next = self.wheel.insert(key, target, place);
        }
    }

    /// Adds an event of a block.
    #[inline]
    pub(crate) fn push_to(&mut self, block: usize, key: EventKey, target: Target) -> &mut T {
        if block == self.block as usize {
            return self.push(key, target);
        }
        let at = self.take_place();
        self.others[block].receive(key, at);
        self.fill(at, key, target, NIL)
    }

    /// Makes another event of a popped one, which carries the same until the caller changes it: it
    /// stays where it lies.
    #[inline(always)]
    pub(crate) fn pass_on(&mut self, place: u32, key: EventKey, target: Target) -> &mut T {
        let after = self.wheel.insert(key, target, place);
        self.fill(place, key, target, after)
    }

    /// The same for a block.
    pub(crate) fn pass_to(
        &mut self,
        block: usize,
        place: u32,
        key: EventKey,
        target: Target,
    ) -> &mut T {
        if block == self.block as usize {
            return self.pass_on(place, key, target);
        }
        self.others[block].receive(key, place);
        self.fill(place, key, target, NIL)
    }

    /// What a popped event carries that lies at `place`, to be changed.
    #[inline]
    pub(crate) fn carried_mut(&mut self, place: u32) -> &mut T {
        &mut self.items[place as usize].0
    }

    /// Keeps what is carried by no event, until its place is [released](EventQueue::release) or
    /// [passed on](WheelQueue::pass_on).
    pub(crate) fn hold(&mut self, carried: T) -> u32 {
        let at = self.take_place();
        self.items[at as usize].0 = carried;
        at
    }

    /// A place for an event.
    #[inline(always)]
    fn take_place(&mut self) -> u32 {
        if self.free == NIL {
            self.grow();
        }
        let at = self.free;
        self.free = self.entries[at as usize].next;
        at
    }

    #[inline(always)]
    fn fill(&mut self, at: u32, key: EventKey, target: Target, after: u32) -> &mut T {
        let entry = &mut self.entries[at as usize];
        entry.key = key;
        entry.target = target;
        entry.next = after;
        &mut self.items[at as usize].0
    }

    /// Makes a place for one more event than ever before.
    #[cold]
    fn grow(&mut self) {
        self.free = self.entries.len() as u32;
        self.entries.push(Entry::NONE);
        self.items.push(Item::default());
    }

    /// One more of the next `ahead` events of the active slot, if not all have been asked for: whom it is
    /// for and what it carries. `what` is asked for is 0 or 1.
    #[inline(always)]
    pub(crate) fn ask_ahead(&mut self, what: usize, ahead: usize) -> Option<(Target, &T)> {
        let wheel = &mut self.wheel;
        let pending = wheel.current.len();
        let left = (wheel.asked[what] as usize).min(pending);
        if left <= pending.saturating_sub(ahead) {
            return None;
        }
        wheel.asked[what] = left as u32 - 1;
        let Near { target, place, .. } = wheel.current[left - 1];
        Some((target, &self.items[place as usize].0))
    }

    /// Asks in advance for one more event of the slot behind the active one: walking its list at once would
    /// wait for each event in turn.
    #[inline(always)]
    pub(crate) fn fetch_behind(&mut self) {
        let at = match self.wheel.fetched {
            NIL => self.wheel.next_head(),
            at => self.entries[at as usize].next,
        };
        self.wheel.fetched = at;
        prefetch(&self.entries[at as usize]);
        prefetch(&self.items[at as usize]);
    }
}

impl Wheel {
    /// In a small system a slot of 64 ps holds one event. More components have more events, and get
    /// narrower slots, of which there are more: the wheel always reaches 524 ns ahead, farther than a
    /// hop or a DRAM access.
    fn for_components(count: usize) -> Self {
        let shift = match count {
            0..=64 => 6,
            65..=512 => 5,
            _ => 4,
        };
        Wheel::with_slots(shift, shift == 6)
    }

    /// Blocks take turns, and each finds its slots displaced from the near caches: so they are few. Most hold
    /// the events of one instant however narrow they are, because flits begin in step.
    fn for_block() -> Self {
        Wheel::with_slots(9, true)
    }

    /// Slots of so many picoseconds, as a power of two, which reach 524 ns ahead.
    fn with_slots(shift: u32, pairs: bool) -> Self {
        Wheel {
            shift,
            pairs,
            mask: (1 << (19 - shift)) - 1,
            heads: empty_heads(),
            occupied: Box::new([0; SLOTS / 64]),
            words: [0; SLOTS / 4096],
            current: Vec::new(),
            asked: [0; 2],
            inbox: Vec::new(),
            inbox_first: NEVER,
            slot: 0,
            next: NEVER,
            fetched: NIL,
            overflow: BinaryHeap::new(),
            overflow_slot: NEVER,
        }
    }

    /// The place of a slot in the wheel.
    #[inline(always)]
    fn index(&self, slot: u64) -> usize {
        slot as usize & self.mask & (SLOTS - 1)
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
        let bits = self.occupied[word] & !(1 << bit);
        self.occupied[word] = bits;
        // Those of them that lie behind the slot; none lies before it unless the wheel has turned.
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

    /// The first occupied slot whose bit lies behind that word of the active slot.
    #[inline(never)]
    fn occupied_after(&self, word: usize) -> u64 {
        let (words, count) = (&self.words, self.mask / 4096 + 1);
        let first = (word + 1) & (self.mask / 64);
        let at = first / 64;
        // Words from the first on, then those before it.
        let ahead = words[at % words.len()] & (!0 << (first % 64));
        let others = (1..=count).map(|step| (at + step) & (count - 1));
        let others = others.map(|at| (at, words[at % words.len()]));
        for (at, words) in std::iter::once((at, ahead)).chain(others) {
            if words != 0 {
                let word = at * 64 + words.trailing_zeros() as usize;
                let bits = self.occupied[word % (SLOTS / 64)];
                let index = (word * 64) as u64 + u64::from(bits.trailing_zeros());
                return self.slot + (index.wrapping_sub(self.slot) & self.mask as u64);
            }
        }
        NEVER
    }

    /// Removes the first event if it lies before `end` and is alone in its slot, in a small system
    /// also if there are two: most slots of a small system hold one event or two, which need no sorting.
    #[inline(always)]
    fn pop_near(&mut self, entries: &mut [Entry], end: u64) -> Option<Popped> {
        if self.next >= self.overflow_slot {
            return None;
        }
        let index = self.index(self.next);
        let mut place = self.heads[index];
        let entry = &entries[place as usize];
        let mut key = entry.key;
        let mut rest = entry.next;
        if rest != NIL {
            let other = &entries[rest as usize];
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
        let target = entries[place as usize].target;
        if rest == NIL {
            self.turn();
        } else {
            self.fetched = NIL;
            self.heads[index] = rest;
            entries[rest as usize].next = NIL;
        }
        Some(Popped { key, target, place })
    }

    /// Makes the earliest non-empty slot the active one, unless all of it lies at `end` or later.
    /// Returns false in that case and when nothing is pending.
    #[inline(never)]
    fn activate(&mut self, entries: &[Entry], end: u64) -> bool {
        debug_assert!(self.current.is_empty());
        let slot = self.next.min(self.overflow_slot);
        if slot == NEVER || slot << self.shift >= end {
            return false;
        }
        if self.next == slot {
            let mut at = self.next_head();
            self.turn();
            while at != NIL {
                let entry = &entries[at as usize];
                self.current.push(Near {
                    key: entry.key,
                    target: entry.target,
                    place: at,
                });
                at = entry.next;
            }
        }
        if self.overflow_slot == slot {
            self.slot = slot;
            self.activate_overflow(entries);
        }
        sort_descending(&mut self.current);
        self.asked = [self.current.len() as u32; 2];
        true
    }

    /// Moves the overflow's events of the active slot there.
    #[cold]
    fn activate_overflow(&mut self, entries: &[Entry]) {
        self.overflow_slot = NEVER;
        while let Some(Reverse((key, _))) = self.overflow.peek() {
            let slot = key.time >> self.shift;
            if slot != self.slot {
                self.overflow_slot = slot;
                break;
            }
            if let Some(Reverse((key, place))) = self.overflow.pop() {
                let target = entries[place as usize].target;
                self.current.push(Near { key, target, place });
            }
        }
    }

    /// Puts an event where those go that lie in the active slot or beyond the horizon.
    #[inline(never)]
    fn push_elsewhere(&mut self, key: EventKey, target: Target, at: u32) {
        let slot = key.time >> self.shift;
        if slot <= self.slot {
            let behind = self.current.partition_point(|other| other.key > key);
            let place = at;
            self.current.insert(behind, Near { key, target, place });
        } else {
            self.overflow.push(Reverse((key, at)));
            self.overflow_slot = self.overflow_slot.min(slot);
        }
    }

    /// Links an event into its slot; returns which one is behind it there.
    #[inline(always)]
    fn insert(&mut self, key: EventKey, target: Target, at: u32) -> u32 {
        let slot = key.time >> self.shift;
        if slot.wrapping_sub(self.slot + 1) >= self.mask as u64 {
            self.push_elsewhere(key, target, at);
            return NIL;
        }
        let index = self.index(slot);
        let after = std::mem::replace(&mut self.heads[index], at);
        let word = &mut self.occupied[index / 64];
        if *word == 0 {
            self.words[index / 4096] |= 1 << (index / 64 % 64);
        }
        *word |= 1 << (index % 64);
        self.next = self.next.min(slot);
        after
    }

    /// Takes an event that another block has sent.
    #[inline(always)]
    fn receive(&mut self, key: EventKey, at: u32) {
        self.inbox.push((key, at));
        self.inbox_first = self.inbox_first.min(key.time);
    }

    /// The time of the first event, `u64::MAX` when there is none.
    fn next_time(&self, entries: &[Entry]) -> u64 {
        if let Some(near) = self.current.last() {
            return self.inbox_first.min(near.key.time);
        }
        let overflow = self.overflow.peek();
        let overflow = overflow.map_or(NEVER, |Reverse((key, _))| key.time);
        let mut first = overflow.min(self.inbox_first);
        let mut at = self.next_head();
        while at != NIL {
            let entry = &entries[at as usize];
            first = first.min(entry.key.time);
            at = entry.next;
        }
        first
    }
}

/// Sorts a slot's few events, the first in the order last.
#[inline]
fn sort_descending(events: &mut [Near]) {
    if let [one, other] = *events {
        // Which goes first cannot be predicted, so it is computed.
        let later = usize::from(one.key < other.key);
        (events[later], events[1 - later]) = (one, other);
        return;
    }
    if events.len() > 16 {
        events.sort_unstable_by_key(|event| Reverse(event.key));
        return;
    }
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

impl<T: Copy + Default> EventQueue<T> for WheelQueue<T> {
    #[inline(always)]
    fn push(&mut self, key: EventKey, target: Target) -> &mut T {
        let at = self.take_place();
        let after = self.wheel.insert(key, target, at);
        self.fill(at, key, target, after)
    }

    #[inline(always)]
    fn pop_before(&mut self, end: u64) -> Option<Popped> {
        let wheel = &mut self.wheel;
        if wheel.current.is_empty() {
            if let Some(popped) = wheel.pop_near(&mut self.entries, end) {
                return Some(popped);
            }
            if !wheel.activate(&self.entries, end) {
                return None;
            }
        }
        let Near { key, target, place } = *wheel.current.last()?;
        if key.time >= end {
            return None;
        }
        wheel.current.pop();
        Some(Popped { key, target, place })
    }

    #[inline(always)]
    fn carried(&self, place: u32) -> &T {
        &self.items[place as usize].0
    }

    #[inline(always)]
    fn release(&mut self, place: u32) {
        self.entries[place as usize].next = self.free;
        self.free = place;
    }

    #[inline]
    fn next_time(&self) -> u64 {
        let times = self.wheels().map(|wheel| wheel.next_time(&self.entries));
        times.min().unwrap_or(u64::MAX)
    }

    fn len(&self) -> usize {
        let mut free = 0;
        let mut at = self.free;
        while at != NIL {
            free += 1;
            at = self.entries[at as usize].next;
        }
        self.entries.len() - 1 - free
    }
}
