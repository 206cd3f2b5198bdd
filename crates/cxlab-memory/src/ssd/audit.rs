//! Invariants of the drive, checked by counting everything again.

use cxlab_engine::list::NONE;

use super::blocks::BlockState;
use super::buffer::BufferSlotState;
use super::drive::Drive;
use super::map::SubPageLocation;

impl Drive {
    /// Checks the invariants of the mapping, the blocks and the buffer, for tests.
    ///
    /// # Panics
    /// If an invariant is violated.
    pub fn audit(&self) {
        let mut mapped = 0;
        for logical in 0..self.geometry.logical() {
            let place = self.place_of(logical);
            if let SubPageLocation::Buffer(slot) = self.map.get(logical) {
                let entry = self.buffer.get(slot);
                assert_eq!(entry.logical, logical, "a slot knows what it holds");
                assert_ne!(
                    entry.state,
                    BufferSlotState::Unused,
                    "a mapped slot is in use"
                );
            }
            if place != NONE {
                mapped += 1;
                let (plane, block, at) = self.geometry.split(place);
                let plane = &self.planes[plane as usize];
                let owner = plane.owners[block as usize][at as usize];
                assert_eq!(owner, logical, "a place knows what it holds");
                let state = plane.blocks[block as usize].state;
                assert_ne!(state, BlockState::Free, "data never lie in a free block");
            }
        }
        let blocks = || self.planes.iter().flat_map(|plane| &plane.blocks);
        let valid: u32 = blocks().map(|block| block.valid).sum();
        assert_eq!(valid, mapped, "every valid sub-page is mapped, once");
        for (plane, number) in self.planes.iter().zip(0..) {
            for (block, at) in plane.blocks.iter().zip(0..) {
                let first = self.geometry.place(number, at, 0);
                let owners = (first..).zip(&plane.owners[at as usize]);
                let found = owners
                    .filter(|(place, owner)| **owner != NONE && self.place_of(**owner) == *place);
                assert_eq!(found.count() as u32, block.valid, "a block counts its data");
                if block.state == BlockState::Free {
                    let empty = plane.owners[at as usize].iter().all(|owner| *owner == NONE);
                    assert!(empty, "a free block is empty");
                }
            }
        }
        let slots = self.buffer.in_use().count() as u32;
        assert_eq!(slots, self.buffer.used(), "slots in use are counted");
        assert_eq!(
            slots,
            self.buffer.dirty + self.buffer.moving,
            "a slot waits or moves"
        );
    }
}
