//! Reads from the buffer or from flash, with the look-up in the mapping.

use cxlab_engine::list::NONE;

use super::buffer::BufferSlotState;
use super::contents::ObservedLine;
use super::drive::{Drive, PendingRead, ReadTarget};
use super::map::SubPageLocation;
use super::mapping_cache::MappingLookup;
use super::nand::{CommandPurpose, FlashCommand};
use super::params::Unwritten;

impl Drive {
    /// Reverses a list of waiters, so that the earliest is at its head.
    pub(super) fn first_come(&mut self, head: u32) -> u32 {
        let (mut at, mut reversed) = (head, NONE);
        while at != NONE {
            let next = std::mem::replace(&mut self.waiters[at].next, reversed);
            reversed = at;
            at = next;
        }
        reversed
    }

    /// Removes and returns the head of a list, and frees its entry.
    pub(super) fn pop_waiter(&mut self, head: &mut u32) -> Option<PendingRead> {
        if *head == NONE {
            return None;
        }
        let number = *head;
        let waiter = self.waiters.remove(number);
        *head = waiter.next;
        Some(waiter)
    }

    /// The place of a logical sub-page in flash; [`NONE`] if it has none.
    #[inline]
    pub(super) fn place_of(&self, logical: u32) -> u32 {
        match self.map.get(logical) {
            SubPageLocation::Nowhere => NONE,
            SubPageLocation::Flash(place) => place,
            SubPageLocation::Buffer(slot) => self.buffer.get(slot).place,
        }
    }

    pub(super) fn read(&mut self, now: u64, request: u32, logical: u32) {
        match self.map.get(logical) {
            SubPageLocation::Buffer(slot) if self.params.write_buffer.reads => {
                self.read_buffer(now, request, slot);
            }
            SubPageLocation::Nowhere if self.params.unwritten == Unwritten::Zero => {
                self.observe_place(request, logical, NONE);
                self.part_done(request, now + self.times.controller + self.times.buffer);
            }
            _ => self.translate(now, ReadTarget::Request(request), logical),
        }
    }

    fn read_buffer(&mut self, now: u64, request: u32, slot: u32) {
        let entry = *self.buffer.get(slot);
        if entry.state == BufferSlotState::Filling {
            let waiter = self.waiters.insert(PendingRead {
                target: ReadTarget::Request(request),
                logical: entry.logical,
                place: NONE,
                next: entry.readers,
            });
            self.buffer.get_mut(slot).readers = waiter;
            return;
        }
        self.counters.buffer_reads += 1;
        self.observe_slot(request, entry.logical, slot);
        self.part_done(request, now + self.times.controller + self.times.buffer);
    }

    /// Looks up the mapping, and reads the sub-page once its translation page is in DRAM.
    pub(super) fn translate(&mut self, now: u64, target: ReadTarget, logical: u32) {
        let page = logical / self.geometry.entries;
        let found = self.cache.look(page);
        let next = match found {
            MappingLookup::Hit => {
                self.read_flash(now, target, logical);
                return;
            }
            MappingLookup::Reading(head) => head,
            MappingLookup::Miss => NONE,
        };
        let waiter = self.waiters.insert(PendingRead {
            target,
            logical,
            place: NONE,
            next,
        });
        self.cache.wait(page, waiter);
        if found == MappingLookup::Miss {
            self.fetch(now, page);
        }
    }

    /// Reads a translation page from flash.
    pub(super) fn fetch(&mut self, now: u64, page: u32) {
        let logical = self.geometry.user + page;
        let target = ReadTarget::Translation(page);
        match self.map.get(logical) {
            SubPageLocation::Flash(place) => {
                self.counters.translation_reads += 1;
                self.read_place(target, logical, place, true);
            }
            SubPageLocation::Nowhere if self.params.unwritten == Unwritten::Array => {
                self.counters.translation_reads += 1;
                let home = self.geometry.home(logical);
                self.read_place(target, logical, home, false);
            }
            SubPageLocation::Nowhere | SubPageLocation::Buffer(_) => {
                self.translation_read(now, page)
            }
        }
    }

    /// Inserts a translation page that was read. A dirty page may be evicted, and
    /// waiting reads proceed.
    fn translation_read(&mut self, now: u64, page: u32) {
        let (head, written) = self.cache.arrive(page);
        if let Some(old) = written {
            self.write_translation(old);
        }
        let mut list = self.first_come(head);
        while let Some(waiter) = self.pop_waiter(&mut list) {
            self.read_flash(now, waiter.target, waiter.logical);
        }
    }

    fn read_flash(&mut self, now: u64, target: ReadTarget, logical: u32) {
        let place = match (self.map.get(logical), target) {
            (SubPageLocation::Buffer(slot), ReadTarget::Request(request))
                if self.params.write_buffer.reads =>
            {
                self.read_buffer(now, request, slot);
                return;
            }
            _ => self.place_of(logical),
        };
        if place == NONE {
            self.read_place(target, logical, self.geometry.home(logical), false);
        } else {
            self.read_place(target, logical, place, true);
        }
    }

    /// Reads a place. `real`: the place holds data, so its block must not be erased
    /// before the read.
    fn read_place(&mut self, target: ReadTarget, logical: u32, place: u32, real: bool) {
        let (plane, block, sub) = self.geometry.split(place);
        let (page, sub) = (sub / self.geometry.subs, sub % self.geometry.subs);
        let first = place - sub;
        let waiter = PendingRead {
            target,
            logical,
            place: if real { place } else { NONE },
            next: NONE,
        };
        let waiter = self.waiters.insert(waiter);
        let id = match self.nand.waiting_read(plane, first) {
            Some(id) => id,
            None => {
                let op = FlashCommand::new(CommandPurpose::Read, first, 0);
                self.nand.submit(op, plane, page)
            }
        };
        let op = &mut self.nand.ops[id];
        op.mask |= 1 << sub;
        self.waiters[waiter].next = op.waiters;
        op.waiters = waiter;
        if real && !op.counted {
            op.counted = true;
            self.planes[plane as usize].blocks[block as usize].readers += 1;
        }
    }

    /// Handles the end of a read of a page for requests, for the mapping, or for the rest of
    /// a short write.
    pub(super) fn read_done(&mut self, now: u64, op: &FlashCommand) {
        let mut list = self.first_come(op.waiters);
        while let Some(waiter) = self.pop_waiter(&mut list) {
            match waiter.target {
                ReadTarget::Request(request) => {
                    match self.map.get(waiter.logical) {
                        SubPageLocation::Buffer(slot) if !self.params.write_buffer.reads => {
                            self.observe_slot(request, waiter.logical, slot);
                        }
                        _ => self.observe_place(request, waiter.logical, waiter.place),
                    }
                    self.part_done(request, now + self.times.controller + self.times.mapping);
                }
                ReadTarget::Fill(slot) => self.filled(now, slot, waiter.place),
                ReadTarget::Translation(page) => self.translation_read(now, page),
            }
        }
        if op.counted {
            let (plane, block, _) = self.geometry.split(op.place);
            let entry = &mut self.planes[plane as usize].blocks[block as usize];
            entry.readers -= 1;
            if entry.readers == 0 {
                self.pump(plane);
            }
        }
    }

    /// Completes a slot with the old data of a short write.
    fn filled(&mut self, now: u64, slot: u32, place: u32) {
        if let Some(contents) = &mut self.contents {
            contents.fill(slot, (place != NONE).then_some(place));
        }
        let readers = std::mem::replace(&mut self.buffer.get_mut(slot).readers, NONE);
        self.buffer.make_dirty(slot);
        let mut list = self.first_come(readers);
        while let Some(waiter) = self.pop_waiter(&mut list) {
            if let ReadTarget::Request(request) = waiter.target {
                self.observe_slot(request, waiter.logical, slot);
                self.part_done(request, now + self.times.controller + self.times.buffer);
            }
        }
        self.flush();
    }

    fn observe_place(&mut self, request: u32, logical: u32, place: u32) {
        self.note(request, logical, |contents, line| match place {
            NONE => 0,
            place => contents.place(place)[line],
        });
    }

    fn observe_slot(&mut self, request: u32, logical: u32, slot: u32) {
        self.note(request, logical, |contents, line| contents.slot(slot)[line]);
    }

    fn note(
        &mut self,
        request: u32,
        logical: u32,
        value: impl Fn(&super::contents::DriveContents, usize) -> u32,
    ) {
        let Some(contents) = &mut self.contents else {
            return;
        };
        let entry = self.requests[request];
        let lines = u64::from(self.geometry.lines);
        let base = u64::from(logical) * lines;
        let from = entry.line.max(base);
        let to = (entry.line + u64::from(entry.lines)).min(base + lines);
        for line in from..to {
            let write = value(contents, (line - base) as usize);
            contents.observed.push(ObservedLine {
                id: entry.id,
                line,
                write,
            });
        }
    }
}
