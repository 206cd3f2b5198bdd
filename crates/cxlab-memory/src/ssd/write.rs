//! Writes into the buffer, and flushes of whole pages to flash.

use cxlab_engine::list::NONE;

use super::blocks::WriteStream;
use super::buffer::BufferSlotState;
use super::drive::{Drive, PendingRead, ReadTarget, WriteTask};
use super::map::SubPageLocation;
use super::mapping_cache::MappingLookup;
use super::nand::{CommandPurpose, FlashCommand};
use super::params::Unwritten;

impl Drive {
    /// Starts a write: its sub-pages go to the buffer one by one.
    pub(super) fn write_request(&mut self, now: u64, request: u32, first: u32, last: u32) {
        let entry = self.requests[request];
        let lines = u64::from(self.geometry.lines);
        self.counters.writes += 1;
        self.counters.written_lines += u64::from(entry.lines);
        let mut number = 0;
        if let Some(contents) = &mut self.contents {
            contents.writes += 1;
            number = contents.writes;
        }
        for logical in first..=last {
            let base = u64::from(logical) * lines;
            let from = entry.line.max(base);
            let to = (entry.line + u64::from(entry.lines)).min(base + lines);
            let task = WriteTask {
                request,
                logical,
                first: (from - base) as u32,
                lines: (to - from) as u32,
                number,
            };
            let here = matches!(self.map.get(logical), SubPageLocation::Buffer(_));
            // All writes queue behind a stalled write, so that none to the same sub-page
            // can pass it.
            if self.blocked.is_empty() && (here || self.buffer.has_room()) {
                self.write(now, task);
            } else {
                self.counters.blocked_writes += 1;
                self.blocked.push_back(task);
            }
        }
        self.flush();
    }

    fn write(&mut self, now: u64, task: WriteTask) {
        let place = match self.map.get(task.logical) {
            SubPageLocation::Buffer(slot) => {
                self.counters.coalesced += 1;
                let entry = self.buffer.get_mut(slot);
                entry.again |= entry.state == BufferSlotState::Flushing;
                self.put(now, slot, &task);
                return;
            }
            SubPageLocation::Flash(place) => place,
            SubPageLocation::Nowhere => NONE,
        };
        let slot = self.buffer.take(task.logical, place, true);
        self.map.set(task.logical, SubPageLocation::Buffer(slot));
        if let Some(contents) = &mut self.contents {
            contents.take(slot);
        }
        self.put(now, slot, &task);
        let somewhere = place != NONE || self.params.unwritten == Unwritten::Array;
        if task.lines < self.geometry.lines && somewhere {
            self.counters.fills += 1;
            self.translate(now, ReadTarget::Fill(slot), task.logical);
        } else {
            if let Some(contents) = &mut self.contents {
                contents.fill(slot, None);
            }
            self.buffer.make_dirty(slot);
        }
    }

    /// Writes data to a slot. The write completes now, or when the slot has been programmed.
    fn put(&mut self, now: u64, slot: u32, task: &WriteTask) {
        if let Some(contents) = &mut self.contents {
            contents.write(slot, task.first as usize, task.lines as usize, task.number);
        }
        if self.eager {
            let waiter = self.waiters.insert(PendingRead {
                target: ReadTarget::Request(task.request),
                logical: task.logical,
                place: NONE,
                next: self.buffer.get(slot).writers,
            });
            self.buffer.get_mut(slot).writers = waiter;
        } else {
            self.part_done(
                task.request,
                now + self.times.controller + self.times.buffer,
            );
        }
    }

    /// Resumes stalled writes in order while there is room.
    fn unblock(&mut self, now: u64) {
        while let Some(task) = self.blocked.front().copied() {
            let here = matches!(self.map.get(task.logical), SubPageLocation::Buffer(_));
            if !here && !self.buffer.has_room() {
                break;
            }
            self.blocked.pop_front();
            self.write(now, task);
        }
    }

    /// Moves a changed translation page from the mapping cache to the buffer.
    pub(super) fn write_translation(&mut self, page: u32) {
        let logical = self.geometry.user + page;
        match self.map.get(logical) {
            SubPageLocation::Buffer(slot) => {
                let entry = self.buffer.get_mut(slot);
                entry.again |= entry.state == BufferSlotState::Flushing;
            }
            _ => {
                let slot = self.buffer.take(logical, self.place_of(logical), false);
                self.map.set(logical, SubPageLocation::Buffer(slot));
                if let Some(contents) = &mut self.contents {
                    contents.take(slot);
                    contents.fill(slot, None);
                }
                self.buffer.make_dirty(slot);
                self.flush();
            }
        }
    }

    /// Whether a page must leave the buffer.
    ///
    /// Full pages leave while more slots are dirty than allowed, or while writes are stalled.
    /// A page is padded only if there would be no room otherwise, or if writes complete when
    /// they are programmed.
    pub(super) fn has_to_flush(&self) -> bool {
        let full = self.buffer.dirty >= self.geometry.subs;
        let pressed = !self.blocked.is_empty() || !self.buffer.has_room();
        let go = (self.eager && self.buffer.dirty_user > 0)
            || (full && (pressed || self.buffer.dirty > self.dirty_limit))
            || (pressed && self.buffer.moving == 0);
        go && self.buffer.dirty > 0
    }

    /// Programs the pages that must leave the buffer.
    pub(super) fn flush(&mut self) {
        while self.has_to_flush() {
            let Some(plane) = self.host_plane() else {
                for plane in 0..self.geometry.planes {
                    self.collect_if_needed(plane);
                }
                break;
            };
            self.flush_page(plane);
        }
    }

    /// The next plane that has a page for the write buffer.
    pub(super) fn host_plane(&mut self) -> Option<u32> {
        let shared = !self.params.collection.separate;
        for _ in 0..self.geometry.planes {
            let plane = self.geometry.order[self.next_plane as usize];
            self.next_plane += 1;
            if self.next_plane == self.geometry.planes {
                self.next_plane = 0;
            }
            if self.planes[plane as usize].has_page(shared) {
                return Some(plane);
            }
        }
        None
    }

    /// Allocates a page of a stream: its first place, its block, and its number in the block.
    pub(super) fn take_page(&mut self, plane: u32, stream: WriteStream) -> (u32, u32, u32) {
        let dynamic = self.params.collection.wear_dynamic;
        let (block, page) = self.planes[plane as usize].take_page(stream, dynamic, &self.geometry);
        self.clock += 1;
        (self.geometry.place(plane, block, page), block, page)
    }

    fn flush_page(&mut self, plane: u32) {
        let (place, block, page) = self.take_page(plane, WriteStream::Host);
        let mut op = FlashCommand::new(CommandPurpose::Program, place, 0);
        let mut slots = [NONE; 32];
        for sub in 0..self.geometry.subs {
            let Some(slot) = self.buffer.flush_first() else {
                break;
            };
            op.mask |= 1 << sub;
            slots[sub as usize] = slot;
            let logical = self.buffer.get(slot).logical;
            self.own(plane, block, page, sub, logical);
            if let Some(contents) = &mut self.contents {
                contents.program(slot, place + sub);
            }
            if logical < self.geometry.user {
                self.counters.flushed += 1;
            } else {
                self.counters.translation_writes += 1;
            }
        }
        self.counters.host_pages += 1;
        let id = self.nand.submit(op, plane, page);
        for sub in 0..op.mask.count_ones() {
            let slot = slots[sub as usize];
            let logical = self.buffer.get(slot).logical;
            self.carry(id, sub, logical, slot);
        }
        self.collect_if_needed(plane);
    }

    pub(super) fn own(&mut self, plane: u32, block: u32, page: u32, sub: u32, logical: u32) {
        let at = page * self.geometry.subs + sub;
        self.planes[plane as usize].owners[block as usize][at as usize] = logical;
    }

    pub(super) fn carry(&mut self, op: u32, sub: u32, logical: u32, from: u32) {
        let subs = self.geometry.subs as usize;
        let end = (op as usize + 1) * subs;
        if self.carried.len() < end {
            self.carried.resize(end, (NONE, NONE));
        }
        self.carried[end - subs + sub as usize] = (logical, from);
    }

    /// Handles the end of a program from the write buffer.
    pub(super) fn flush_done(&mut self, now: u64, id: u32) {
        let op = self.nand.ops[id];
        for sub in 0..op.mask.count_ones() {
            let (logical, slot) = self.carried[(id * self.geometry.subs + sub) as usize];
            self.flushed(now, logical, slot, op.place + sub);
        }
        self.page_programmed(op.place);
        self.unblock(now);
        self.flush();
        self.collect_if_needed(op.plane);
    }

    /// Handles the end of a flush of a slot.
    fn flushed(&mut self, now: u64, logical: u32, slot: u32, place: u32) {
        let mut writers = std::mem::replace(&mut self.buffer.get_mut(slot).flushing_writers, NONE);
        self.commit(logical, slot, place);
        writers = self.first_come(writers);
        while let Some(waiter) = self.pop_waiter(&mut writers) {
            if let ReadTarget::Request(request) = waiter.target {
                self.part_done(request, now + self.times.controller);
            }
        }
        self.mapping_changed(now, logical);
    }

    /// Updates the mapping after a flush; the slot is free or dirty again.
    pub(super) fn commit(&mut self, logical: u32, slot: u32, place: u32) {
        let old = std::mem::replace(&mut self.buffer.get_mut(slot).place, place);
        self.invalidate(old);
        self.validate(place);
        if self.buffer.get(slot).again {
            self.buffer.make_dirty(slot);
        } else {
            self.map.set(logical, SubPageLocation::Flash(place));
            self.buffer.give_back(slot);
        }
    }

    /// Handles a change of the mapping by a write: an absent translation page is read. The places
    /// of translation pages themselves are always in DRAM. Collection defers changes of absent
    /// translation pages, because reading and writing them would cost more than collection gains.
    pub(super) fn mapping_changed(&mut self, now: u64, logical: u32) {
        if logical < self.geometry.user {
            let page = logical / self.geometry.entries;
            if self.cache.change(page) == MappingLookup::Miss {
                self.cache.wait(page, NONE);
                self.fetch(now, page);
            }
        }
    }

    pub(super) fn invalidate(&mut self, place: u32) {
        if place != NONE {
            let (plane, block, _) = self.geometry.split(place);
            let entry = &mut self.planes[plane as usize].blocks[block as usize];
            entry.valid -= 1;
            entry.touched = self.clock;
        }
    }

    pub(super) fn validate(&mut self, place: u32) {
        let (plane, block, _) = self.geometry.split(place);
        self.planes[plane as usize].blocks[block as usize].valid += 1;
    }

    /// Ends the pending state of a page.
    pub(super) fn page_programmed(&mut self, place: u32) {
        let (plane, block, _) = self.geometry.split(place);
        if self.planes[plane as usize].programmed(block, self.closed) {
            self.closed += 1;
        }
    }
}
