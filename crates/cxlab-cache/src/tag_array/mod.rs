//! Tag arrays: which lines are present, with a payload of the owner for each. Snoop filters and
//! caches are built on them.
//!
//! An array has sets of ways, or one set that may hold any line. When a line's set is full, a
//! [`VictimPolicy`] chooses the victim. A line with an operation in flight is *pinned*: it stays,
//! and no policy chooses it.
//!
//! Sets of up to 32 ways are searched linearly, for a line as for a victim. Larger sets have a hash
//! table and a heap. Finding a line and choosing a victim then take constant time, however many
//! lines are pinned, and a change of the order takes at most the logarithm of the ways. An array
//! takes 28 bytes a line and the payload; larger sets take 21 to 43 more for the table. Only the
//! insertion history of `lfi` allocates after construction, and it can be bounded. Left out: data,
//! timing and coherence, which belong to the owner.

#[cfg(test)]
mod laws;
#[cfg(test)]
mod naive;

use std::ops::{Index, IndexMut};

use cxlab_engine::rng::StreamRng;
use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};
use cxlab_engine::units::LineAddr;

use crate::resident::lines::ResidentLines;
use crate::resident::{Geometry, LineBlock, Slot};
use crate::victim::{PolicyState, ReplacementPolicy, VictimPolicy};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Whether a set has room for a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetRoom {
    /// The set has a free way.
    Free,
    /// The block's victim must be evicted; the rest of the block may be evicted with it.
    Evict(LineBlock),
    /// Every line of the set is pinned.
    Pinned,
}

/// The result of [`TagArray::fill`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FillResult<T> {
    /// The slot of the inserted line.
    pub slot: Slot,
    /// The victim with its payload, if the set was full.
    pub evicted: Option<(LineAddr, T)>,
}

/// A tag array with a payload `T` of the owner for each line.
///
/// ```
/// use cxlab_engine::rng::StreamRng;
/// use cxlab_engine::units::LineAddr;
/// use cxlab_cache::{Geometry, SetRoom, TagArray, victim};
///
/// let lru = victim::build("lru").unwrap();
/// let rng = StreamRng::new(1, "filter");
/// let mut tags = TagArray::new(Geometry::fully_associative(2).unwrap(), lru.as_ref(), rng);
/// let a = tags.insert(LineAddr(7), 'a');
/// tags.insert(LineAddr(8), 'b');
/// tags.pin(a);
/// let SetRoom::Evict(block) = tags.room(LineAddr(9)) else { panic!() };
/// assert_eq!(block.victim, LineAddr(8), "7 is older, but pinned");
/// ```
pub struct TagArray<T> {
    lines: ResidentLines,
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
            lines: ResidentLines::new(geometry),
            payloads: vec![T::default(); geometry.lines() as usize],
            policy: policy.state(geometry, rng),
        }
    }

    /// The sets and ways of the array.
    pub fn geometry(&self) -> Geometry {
        self.lines.geometry()
    }

    /// Number of resident lines.
    pub fn len(&self) -> u32 {
        self.lines.len()
    }

    /// Whether the array has no resident line.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Finds a line, without effect on the policy.
    #[inline]
    pub fn find(&self, line: LineAddr) -> Option<Slot> {
        self.lines.find(line)
    }

    /// Prefetches the memory that a look-up or an insertion of the line will touch; changes
    /// nothing. Large arrays do not fit into the host machine's caches.
    #[inline]
    pub fn prefetch(&self, line: LineAddr) {
        self.lines.prefetch(line);
    }

    /// Finds a line, and tells the policy of the hit.
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

    /// Whether there is room for an absent line, and which block to evict otherwise.
    /// Nothing changes but the random stream of policies that use one: two calls may
    /// name different victims.
    #[inline]
    pub fn room(&mut self, line: LineAddr) -> SetRoom {
        let set = self.geometry().set_of(line);
        if self.lines.order.has_free(set) {
            return SetRoom::Free;
        }
        match self.policy.victim(&mut self.lines, set) {
            Some(slot) => SetRoom::Evict(self.policy.block(&self.lines, slot)),
            None => SetRoom::Pinned,
        }
    }

    /// Inserts a line, unpinned and with owner 0.
    ///
    /// # Panics
    /// If the line is present or its set is full. [`TagArray::room`] tells whether there is room.
    #[inline]
    pub fn insert(&mut self, line: LineAddr, payload: T) -> Slot {
        let slot = self.lines.insert(line);
        self.payloads[slot.index()] = payload;
        self.policy.inserted(&mut self.lines, slot);
        slot
    }

    /// Inserts an absent line, and evicts another if the set is full. `None` if all lines of the
    /// set are pinned.
    ///
    /// # Panics
    /// If the line is present.
    #[inline]
    pub fn fill(&mut self, line: LineAddr, payload: T) -> Option<FillResult<T>> {
        let set = self.geometry().set_of(line);
        let mut evicted = None;
        if !self.lines.order.has_free(set) {
            let victim = self.policy.victim(&mut self.lines, set)?;
            evicted = Some(self.remove(victim));
        }
        let slot = self.insert(line, payload);
        Some(FillResult { slot, evicted })
    }

    /// Removes a line, pinned or not.
    #[inline]
    pub fn remove(&mut self, slot: Slot) -> (LineAddr, T) {
        self.policy.leaving(&mut self.lines, slot);
        let line = self.lines.remove(slot);
        self.policy.changed(&mut self.lines, line);
        (line, self.payloads[slot.index()])
    }

    /// Pins a line, so that no policy chooses it. A second pin has no effect.
    #[inline]
    pub fn pin(&mut self, slot: Slot) {
        self.lines.order.pin(slot);
        let line = self.lines.line(slot);
        self.policy.changed(&mut self.lines, line);
    }

    /// Unpins a line. Its place in the order is as if it had never been pinned.
    #[inline]
    pub fn unpin(&mut self, slot: Slot) {
        self.lines.order.unpin(slot);
        let line = self.lines.line(slot);
        self.policy.changed(&mut self.lines, line);
    }

    /// Whether the line in a slot is pinned.
    #[inline]
    pub fn is_pinned(&self, slot: Slot) -> bool {
        self.lines.order.is_pinned(slot)
    }

    /// Sets the owner of a line, that is its holders: one invalidation can clear contiguous lines
    /// of one owner. A filter of shared lines gives each set of holders its own number, such as a
    /// bit for each holder.
    #[inline]
    pub fn set_owner(&mut self, slot: Slot, owner: u64) {
        self.policy.owned(&mut self.lines, slot, owner);
    }

    /// Sets whether a line differs from the memory behind the array. A new line is clean. Only
    /// policies that prefer clean victims use this.
    #[inline]
    pub fn set_dirty(&mut self, slot: Slot, dirty: bool) {
        self.policy.dirtied(&mut self.lines, slot, dirty);
    }

    /// The resident lines with their payloads, by slot.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, LineAddr, &T)> {
        let slots = self.lines.slots();
        slots.map(|slot| (slot, self.lines.line(slot), &self.payloads[slot.index()]))
    }
}

/// The payload of the line in a slot.
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
