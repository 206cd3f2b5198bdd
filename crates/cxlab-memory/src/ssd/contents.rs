//! The contents of a drive, for tests: for each line, the number of the write that it came from.
//!
//! Lines move exactly as the drive moves sub-pages. A place that is read too late, erased too early
//! or merged wrongly shows as a wrong number.

use cxlab_engine::save_state;
use serde::{Deserialize, Serialize};

/// Marks a line of a short write's sub-page that has not been read yet.
const ABSENT: u32 = u32::MAX;

/// A line that a read returned, for comparison by a test.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct ObservedLine {
    /// The owner's number of the request.
    pub id: u32,
    /// Number of the line in the device.
    pub line: u64,
    /// Number of the write that the line came from, counted from 1; 0 if it was never written.
    pub write: u32,
}

/// The lines of all places, and of all slots of the write buffer.
pub(super) struct DriveContents {
    lines: usize,
    places: Vec<u32>,
    slots: Vec<u32>,
    pub observed: Vec<ObservedLine>,
    pub writes: u32,
}

save_state!(DriveContents {
    values: slots, observed, writes;
    sized: places;
    built: lines;
});

impl DriveContents {
    pub fn new(places: usize, lines: usize) -> DriveContents {
        DriveContents {
            lines,
            places: vec![0; places * lines],
            slots: Vec::new(),
            observed: Vec::new(),
            writes: 0,
        }
    }

    fn place_mut(&mut self, place: u32) -> &mut [u32] {
        let from = place as usize * self.lines;
        &mut self.places[from..from + self.lines]
    }

    pub fn place(&self, place: u32) -> &[u32] {
        &self.places[place as usize * self.lines..][..self.lines]
    }

    /// The lines of a slot.
    pub fn slot(&self, slot: u32) -> &[u32] {
        &self.slots[slot as usize * self.lines..][..self.lines]
    }

    /// Starts a slot for a sub-page, with all lines absent.
    pub fn take(&mut self, slot: u32) {
        let end = (slot as usize + 1) * self.lines;
        if self.slots.len() < end {
            self.slots.resize(end, ABSENT);
        }
        self.slots[end - self.lines..end].fill(ABSENT);
    }

    pub fn write(&mut self, slot: u32, first: usize, lines: usize, write: u32) {
        let from = slot as usize * self.lines + first;
        self.slots[from..from + lines].fill(write);
    }

    /// Fills the absent lines of a slot from flash; with 0 if the sub-page has no place.
    pub fn fill(&mut self, slot: u32, place: Option<u32>) {
        for line in 0..self.lines {
            let at = slot as usize * self.lines + line;
            if self.slots[at] == ABSENT {
                self.slots[at] =
                    place.map_or(0, |place| self.places[place as usize * self.lines + line]);
            }
        }
    }

    /// Copies a slot to the place where it is programmed.
    pub fn program(&mut self, slot: u32, place: u32) {
        let from = slot as usize * self.lines;
        assert!(
            self.slots[from..from + self.lines]
                .iter()
                .all(|line| *line != ABSENT),
            "a sub-page is whole before it is programmed"
        );
        let to = place as usize * self.lines;
        let (lines, slots) = (self.lines, &self.slots);
        self.places[to..to + lines].copy_from_slice(&slots[from..from + lines]);
    }

    /// Copies a sub-page for collection.
    pub fn copy(&mut self, from: u32, to: u32) {
        let start = from as usize * self.lines;
        let to = to as usize * self.lines;
        self.places.copy_within(start..start + self.lines, to);
    }

    /// Marks a place as unreadable after an erase or an interrupted program.
    pub fn mark_unreadable(&mut self, place: u32) {
        self.place_mut(place).fill(ABSENT);
    }
}
