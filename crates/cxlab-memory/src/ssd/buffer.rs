//! The write buffer: sub-pages that were written and are not yet in flash.
//!
//! A sub-page is found through the mapping, so the buffer needs no hash table. Each sub-page is in
//! the buffer once. If it is written again while it is programmed, it is programmed again. Changed
//! pages of the mapping pass through the buffer too, even beyond the capacity for user data.

use cxlab_engine::list::NONE;
use cxlab_engine::save_state;
use serde::{Deserialize, Serialize};

/// The state of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(super) enum BufferSlotState {
    Unused,
    /// The rest of the sub-page is being read.
    Filling,
    /// The sub-page waits for its flush.
    Dirty,
    /// The sub-page is being programmed.
    Flushing,
}

#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
pub(super) struct BufferSlot {
    pub state: BufferSlotState,
    /// Whether the sub-page was written again since the flush began.
    pub again: bool,
    /// Whether the sub-page holds user data, rather than a page of the mapping.
    user: bool,
    pub logical: u32,
    /// Place of the sub-page in flash; [`NONE`] if it has none.
    pub place: u32,
    /// List of requests that wait until the rest of the sub-page is read.
    pub readers: u32,
    /// Lists of requests that wait for the next flush, and for the current one.
    pub writers: u32,
    pub flushing_writers: u32,
    next: u32,
}

pub(super) struct WriteBuffer {
    slots: Vec<BufferSlot>,
    unused: Vec<u32>,
    capacity: u32,
    used: u32,
    dirty_head: u32,
    dirty_tail: u32,
    pub dirty: u32,
    /// Number of dirty slots with user data.
    pub dirty_user: u32,
    /// Slots in use that will become free or dirty without another flush.
    pub moving: u32,
}

save_state!(WriteBuffer {
    values: slots, unused, used, dirty_head, dirty_tail, dirty, dirty_user, moving;
    built: capacity;
});

impl WriteBuffer {
    pub fn new(capacity: u32) -> WriteBuffer {
        WriteBuffer {
            slots: Vec::new(),
            unused: Vec::new(),
            capacity,
            used: 0,
            dirty_head: NONE,
            dirty_tail: NONE,
            dirty: 0,
            dirty_user: 0,
            moving: 0,
        }
    }

    #[inline]
    pub fn has_room(&self) -> bool {
        self.used < self.capacity
    }

    /// Number of slots in use.
    pub fn used(&self) -> u32 {
        self.used
    }

    #[inline]
    pub fn get(&self, slot: u32) -> &BufferSlot {
        &self.slots[slot as usize]
    }

    #[inline]
    pub fn get_mut(&mut self, slot: u32) -> &mut BufferSlot {
        &mut self.slots[slot as usize]
    }

    /// Allocates a slot for a sub-page; the caller must then fill it or make it dirty.
    pub fn take(&mut self, logical: u32, place: u32, user: bool) -> u32 {
        self.used += 1;
        let slot = BufferSlot {
            state: BufferSlotState::Filling,
            again: false,
            user,
            logical,
            place,
            readers: NONE,
            writers: NONE,
            flushing_writers: NONE,
            next: NONE,
        };
        self.moving += 1;
        match self.unused.pop() {
            Some(number) => {
                self.slots[number as usize] = slot;
                number
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        }
    }

    /// Queues a slot for a flush, after it was filled, or flushed and written again.
    pub fn make_dirty(&mut self, number: u32) {
        let slot = &mut self.slots[number as usize];
        slot.state = BufferSlotState::Dirty;
        slot.again = false;
        slot.next = NONE;
        self.dirty_user += u32::from(slot.user);
        match self.dirty_tail {
            NONE => self.dirty_head = number,
            tail => self.slots[tail as usize].next = number,
        }
        self.dirty_tail = number;
        self.dirty += 1;
        self.moving -= 1;
    }

    /// Starts the flush of the oldest dirty slot; `None` if no slot is dirty.
    pub fn flush_first(&mut self) -> Option<u32> {
        let number = self.dirty_head;
        if number == NONE {
            return None;
        }
        let slot = &mut self.slots[number as usize];
        slot.state = BufferSlotState::Flushing;
        slot.flushing_writers = std::mem::replace(&mut slot.writers, NONE);
        self.dirty_head = slot.next;
        self.dirty_user -= u32::from(slot.user);
        if self.dirty_head == NONE {
            self.dirty_tail = NONE;
        }
        self.dirty -= 1;
        self.moving += 1;
        Some(number)
    }

    /// Frees a slot that was flushed and not written again.
    pub fn give_back(&mut self, number: u32) {
        self.slots[number as usize].state = BufferSlotState::Unused;
        self.unused.push(number);
        self.used -= 1;
        self.moving -= 1;
    }

    /// The slots in use, by number.
    pub fn in_use(&self) -> impl Iterator<Item = u32> + '_ {
        let numbered = (0..).zip(&self.slots);
        numbered
            .filter(|(_, slot)| slot.state != BufferSlotState::Unused)
            .map(|(number, _)| number)
    }

    /// Marks all slots as being flushed, in no simulated time.
    pub fn flush_all(&mut self) {
        for slot in &mut self.slots {
            if slot.state != BufferSlotState::Unused {
                slot.state = BufferSlotState::Flushing;
                slot.again = false;
            }
        }
        self.dirty_head = NONE;
        self.dirty_tail = NONE;
        self.dirty = 0;
        self.dirty_user = 0;
        self.moving = self.used;
    }

    /// Discards the content of the buffer.
    pub fn clear(&mut self) {
        *self = WriteBuffer::new(self.capacity);
    }
}
