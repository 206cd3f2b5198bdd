//! Tag arrays: which lines are present, and what their owner keeps about each. The base of snoop
//! filters and caches.
//!
//! An array has sets of ways, or one set that holds any line. When a line's set is full, a
//! [`VictimPolicy`] says which line leaves. A line with an operation under way is *pinned*: it
//! stays, and no policy chooses it.
//!
//! Sets of up to 32 ways are searched, for a line as for a victim. Larger sets have a hash table and
//! a heap: finding a line and choosing a victim take constant time however many lines are pinned,
//! and a change of the order at most the logarithm of the ways. An array takes 28 bytes a line and
//! the payload, larger sets 21 to 43 more for the table. Nothing is allocated after construction
//! but the insertion history of `lfi`, which can be bounded. Left out: data, timing, and coherence,
//! which belong to the owner.

mod geometry;
pub(crate) mod line_table;
pub(crate) mod lines;
pub(crate) mod order;

#[cfg(test)]
mod laws;
#[cfg(test)]
mod naive;

use std::ops::{Index, IndexMut};

use cxlab_engine::rng::StreamRng;
use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};
use cxlab_engine::units::LineAddr;

use crate::victim::{Policy, PolicyState, VictimPolicy};
use lines::Lines;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use geometry::{Geometry, GeometryError};

/// Where a resident line is, until it is removed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
pub struct Slot(pub(crate) u32);

impl Slot {
    /// The slot's number, from 0 to [`Geometry::lines`] - 1, for arrays beside the tag array.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Contiguous lines that can leave together, with one invalidation.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Block {
    /// The line that the policy chose; it lies in the set that needs room.
    pub victim: LineAddr,
    /// The first line of the block.
    pub first: LineAddr,
    /// How many lines: 1 to 4.
    pub lines: u32,
}

impl Block {
    /// A block of one line.
    pub fn single(line: LineAddr) -> Self {
        Block {
            victim: line,
            first: line,
            lines: 1,
        }
    }

    /// The lines of the block, in order.
    pub fn iter(self) -> impl Iterator<Item = LineAddr> {
        (self.first.0..self.first.0 + u64::from(self.lines)).map(LineAddr)
    }
}

/// Whether a line's set can take it in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// There is a free way.
    Free,
    /// The block's victim must leave before; the rest of the block may leave with it.
    Evict(Block),
    /// Every line of the set is pinned.
    Pinned,
}

/// What [`TagArray::fill`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Filled<T> {
    /// Where the line is.
    pub slot: Slot,
    /// The line that had to leave, and what was kept about it.
    pub evicted: Option<(LineAddr, T)>,
}

/// A tag array; `T` is what the owner keeps about a line.
///
/// ```
/// use cxlab_engine::rng::StreamRng;
/// use cxlab_engine::units::LineAddr;
/// use cxlab_memory::{Geometry, Room, TagArray, victim};
///
/// let lru = victim::build("lru").unwrap();
/// let rng = StreamRng::new(1, "filter");
/// let mut tags = TagArray::new(Geometry::fully_associative(2).unwrap(), lru.as_ref(), rng);
/// let a = tags.insert(LineAddr(7), 'a');
/// tags.insert(LineAddr(8), 'b');
/// tags.pin(a);
/// let Room::Evict(block) = tags.room(LineAddr(9)) else { panic!() };
/// assert_eq!(block.victim, LineAddr(8), "7 is older, but pinned");
/// ```
pub struct TagArray<T> {
    lines: Lines,
    payloads: Vec<T>,
    policy: PolicyState,
}

impl<T: Copy + Serialize + DeserializeOwned> SaveState for TagArray<T> {
    fn save(&self, out: &mut StateWriter) {
        let TagArray {
            lines,
            payloads,
            policy,
        } = self;
        lines.save(out);
        if size_of::<T>() > 0 {
            out.value("payloads", payloads);
        }
        policy.save(out);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.lines.restore(from)?;
        if size_of::<T>() > 0 {
            let count = self.payloads.len();
            self.payloads = from.value("payloads")?;
            if self.payloads.len() != count {
                return Err(StateError::of_length(
                    "payloads",
                    self.payloads.len(),
                    count,
                ));
            }
        }
        self.policy.restore(from)
    }
}

impl<T: Copy + Default> TagArray<T> {
    /// An empty array. Only policies that draw random numbers use `rng`.
    pub fn new(geometry: Geometry, policy: &dyn VictimPolicy, rng: StreamRng) -> Self {
        TagArray {
            lines: Lines::new(geometry),
            payloads: vec![T::default(); geometry.lines() as usize],
            policy: policy.state(geometry, rng),
        }
    }

    /// Sets and ways.
    pub fn geometry(&self) -> Geometry {
        self.lines.geometry()
    }

    /// How many lines are present.
    pub fn len(&self) -> u32 {
        self.lines.len()
    }

    /// Whether no line is present.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Looks for a line; the policy does not hear of it.
    #[inline]
    pub fn find(&self, line: LineAddr) -> Option<Slot> {
        self.lines.find(line)
    }

    /// Begins to fetch what will be touched when a line is looked for or taken in; changes nothing.
    /// Large arrays do not fit the machine's caches.
    #[inline]
    pub fn prefetch(&self, line: LineAddr) {
        self.lines.prefetch(line);
    }

    /// Looks for a line, and tells the policy of the hit.
    #[inline]
    pub fn access(&mut self, line: LineAddr) -> Option<Slot> {
        let slot = self.find(line)?;
        self.touch(slot);
        Some(slot)
    }

    /// Tells the policy of a hit.
    #[inline]
    pub fn touch(&mut self, slot: Slot) {
        self.policy.touched(&mut self.lines, slot);
    }

    /// The line in a slot.
    #[inline]
    pub fn line(&self, slot: Slot) -> LineAddr {
        self.lines.line(slot)
    }

    /// Whether an absent line can be taken in, and what may leave for it. Nothing changes but the
    /// stream of a policy that draws random numbers: asking twice may give two victims.
    #[inline]
    pub fn room(&mut self, line: LineAddr) -> Room {
        let set = self.geometry().set_of(line);
        if self.lines.order.has_free(set) {
            return Room::Free;
        }
        match self.policy.victim(&mut self.lines, set) {
            Some(slot) => Room::Evict(self.policy.block(&self.lines, slot)),
            None => Room::Pinned,
        }
    }

    /// Takes a line in, unpinned and with owner 0.
    ///
    /// # Panics
    /// If the line is present or its set is full: the owner asks [`TagArray::room`] before.
    #[inline]
    pub fn insert(&mut self, line: LineAddr, payload: T) -> Slot {
        let slot = self.lines.insert(line);
        self.payloads[slot.index()] = payload;
        self.policy.inserted(&mut self.lines, slot);
        slot
    }

    /// Takes an absent line in, and lets one line leave if it must. `None`: all are pinned.
    ///
    /// # Panics
    /// If the line is present.
    #[inline]
    pub fn fill(&mut self, line: LineAddr, payload: T) -> Option<Filled<T>> {
        let set = self.geometry().set_of(line);
        let mut evicted = None;
        if !self.lines.order.has_free(set) {
            let victim = self.policy.victim(&mut self.lines, set)?;
            evicted = Some(self.remove(victim));
        }
        let slot = self.insert(line, payload);
        Some(Filled { slot, evicted })
    }

    /// Lets a line leave, pinned or not.
    #[inline]
    pub fn remove(&mut self, slot: Slot) -> (LineAddr, T) {
        self.policy.leaving(&mut self.lines, slot);
        let line = self.lines.remove(slot);
        self.policy.changed(&mut self.lines, line);
        (line, self.payloads[slot.index()])
    }

    /// Keeps a line from leaving. Pinning twice is pinning once.
    #[inline]
    pub fn pin(&mut self, slot: Slot) {
        self.lines.order.pin(slot);
        let line = self.lines.line(slot);
        self.policy.changed(&mut self.lines, line);
    }

    /// Lets a line be chosen again, at the place in the order that it would have had.
    #[inline]
    pub fn unpin(&mut self, slot: Slot) {
        self.lines.order.unpin(slot);
        let line = self.lines.line(slot);
        self.policy.changed(&mut self.lines, line);
    }

    /// Whether a line is pinned.
    #[inline]
    pub fn is_pinned(&self, slot: Slot) -> bool {
        self.lines.order.is_pinned(slot)
    }

    /// Says who holds a line: lines with equal owners can be invalidated together. A filter of
    /// shared lines gives each set of holders its own number, such as a bit for each.
    #[inline]
    pub fn set_owner(&mut self, slot: Slot, owner: u64) {
        self.policy.owned(&mut self.lines, slot, owner);
    }

    /// Says whether a line differs from what lies behind the array. A line comes in clean. Only
    /// policies that prefer clean victims listen.
    #[inline]
    pub fn set_dirty(&mut self, slot: Slot, dirty: bool) {
        self.policy.dirtied(&mut self.lines, slot, dirty);
    }

    /// Every line that is present, by slot.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, LineAddr, &T)> {
        let slots = self.lines.slots();
        slots.map(|slot| (slot, self.lines.line(slot), &self.payloads[slot.index()]))
    }
}

/// What the owner keeps about the line in a slot.
impl<T> Index<Slot> for TagArray<T> {
    type Output = T;
    #[inline]
    fn index(&self, slot: Slot) -> &T {
        &self.payloads[slot.index()]
    }
}

impl<T> IndexMut<Slot> for TagArray<T> {
    #[inline]
    fn index_mut(&mut self, slot: Slot) -> &mut T {
        &mut self.payloads[slot.index()]
    }
}
