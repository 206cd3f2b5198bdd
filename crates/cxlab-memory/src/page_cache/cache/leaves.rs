//! Evictions: victims, the write-back buffer, and power failure.

use cxlab_cache::{MemoryRequest, SetRoom, Slot};
use cxlab_engine::list::NONE;
use cxlab_engine::units::{Dpa, LINE_BYTES, LineAddr, SimTime};

use super::{CachedPage, DramCache, LEAVING, PowerFailureFlush};
use crate::completion_queue::CompletionQueue;
use crate::page_cache::fetch::{PageAccess, WriteBackEntry};
use crate::page_cache::mask::{runs, span};
use crate::page_cache::observer::{Movement, MovementObserver};

impl<O: MovementObserver> DramCache<O> {
    /// Allocates a frame for a page; `None` if no victim can leave now.
    pub(super) fn allocate(&mut self, page: u64) -> Option<Slot> {
        let mut reading = NONE;
        match self.tags.room(LineAddr(page)) {
            SetRoom::Free => {}
            SetRoom::Pinned => return None,
            SetRoom::Evict(block) => {
                let slot = self.tags.find(block.victim)?;
                let victim = self.tags[slot];
                if victim.dirty != 0 {
                    if self.leaves == self.leaving.len() {
                        return None;
                    }
                    reading = self.write_back(slot);
                    self.counts.dirty += 1;
                } else {
                    // The victim came and leaves while its frame is still read out for an earlier page.
                    reading = victim.reading;
                    self.counts.clean += 1;
                }
                self.counts.useless += u64::from(victim.prefetched);
                self.report(Movement::Dropped, block.victim.0, victim.valid);
                self.tags.remove(slot);
            }
        }
        let state = CachedPage {
            reading,
            ..CachedPage::default()
        };
        Some(self.tags.insert(LineAddr(page), state))
    }

    /// Moves a dirty page to the write-back buffer, which must have room.
    fn write_back(&mut self, slot: Slot) -> u32 {
        let page = self.tags.line(slot).0;
        let CachedPage { valid, dirty, .. } = self.tags[slot];
        let sectors = self.to_write_back(valid, dirty);
        let free = self.leaving.iter().position(|one| !one.used);
        let at = free.expect("the write-back buffer has room");
        self.leaves += 1;
        self.leaving[at] = WriteBackEntry {
            used: true,
            page,
            slot,
            sectors,
            reads: runs(sectors).count() as u32,
            writes: 0,
        };
        self.report(Movement::Buffered, page, sectors);
        for run in runs(sectors) {
            let (line, lines) = self.lines_of(page, run);
            let request = self.in_dram(slot, line, lines, false, LEAVING | at as u32);
            self.outgoing.dram.push_back(request);
        }
        at as u32
    }

    /// The sectors that an eviction writes to the slow medium: the dirty ones, and all others of a
    /// granule that is completely valid.
    pub(super) fn to_write_back(&self, valid: u64, dirty: u64) -> u64 {
        let mut sectors = dirty;
        for (first, count) in runs(self.rounded(dirty)) {
            for granule in 0..count / self.granule_sectors {
                let set = span(first + granule * self.granule_sectors, self.granule_sectors);
                if set & !valid == 0 {
                    sectors |= set;
                }
            }
        }
        sectors
    }

    /// Handles the end of a read of an evicted page from the DRAM.
    pub(super) fn read_out(&mut self, now: u64, number: u32) {
        let leaving = &mut self.leaving[number as usize];
        leaving.reads -= 1;
        if leaving.reads > 0 {
            return;
        }
        let left = *leaving;
        leaving.writes = runs(left.sectors).count() as u32;
        for run in runs(left.sectors) {
            let (line, lines) = self.lines_of(left.page, run);
            self.counts.written += lines;
            self.outgoing.writes.push_back(MemoryRequest {
                id: LEAVING | number,
                dpa: Dpa(line * LINE_BYTES),
                lines: lines as u16,
                write: true,
            });
        }
        self.report(Movement::Writing, left.page, left.sectors);
        if self.tags[left.slot].reading == number {
            self.tags[left.slot].reading = NONE;
            for number in 0..self.fetches.len() {
                let fetch = self.fetches[number];
                if fetch.used && fetch.slot == left.slot && fetch.held != 0 {
                    self.fetches[number].held = 0;
                    self.install(now, number as u32, fetch.held);
                }
            }
        }
    }

    /// Handles the end of a write of an evicted page to the slow medium.
    pub(super) fn written(&mut self, number: u32) {
        let leaving = &mut self.leaving[number as usize];
        leaving.writes -= 1;
        if leaving.writes > 0 {
            return;
        }
        leaving.used = false;
        self.leaves -= 1;
        let WriteBackEntry { page, sectors, .. } = *leaving;
        self.report(Movement::Written, page, sectors);
        for fetch in 0..self.fetches.len() {
            if self.fetches[fetch].used && self.fetches[fetch].after == number {
                self.fetches[fetch].after = NONE;
                self.ask(fetch as u32);
            }
        }
    }

    pub(super) fn in_write_buffer(&self, page: u64) -> Option<usize> {
        if self.leaves == 0 {
            return None;
        }
        let same = |one: &WriteBackEntry| one.used && one.page == page;
        self.leaving.iter().position(same)
    }

    pub(super) fn serve_from_write_buffer(&mut self, now: u64, piece: PageAccess) {
        self.counts.write_buffer_hits += 1;
        let id = self.requests[piece.request].id;
        let movement = Movement::ReadWriteBuffer { id };
        self.observer.moved(movement, piece.line, piece.lines);
        let number = self.add_piece(piece);
        self.piece_done(number, now);
    }

    /// Models a power failure. Requests without a response are lost, and stored energy writes all
    /// dirty data to the slow medium. The cache accepts no requests afterwards.
    pub fn power_fail(&mut self, now: SimTime) -> PowerFailureFlush {
        self.catch_up(now.0);
        self.failed = true;
        self.input.clear();
        self.to_prefetch.clear();
        self.outgoing.demands.clear();
        self.outgoing.prefetches.clear();
        self.finished = CompletionQueue::with_capacity(0);
        let before = self.counts.written;
        let pending = self.outgoing.writes.iter();
        let pending: u64 = pending.map(|one| u64::from(one.lines)).sum();
        let dirty: Vec<Slot> = self.tags.iter().map(|(slot, _, _)| slot).collect();
        let mut at = now.0;
        for slot in dirty {
            if self.tags[slot].dirty == 0 {
                continue;
            }
            while self.leaves == self.leaving.len() {
                at = self.wait(at);
            }
            self.write_back(slot);
            self.tags[slot].dirty = 0;
            self.drain(at);
        }
        while self.leaves > 0 {
            at = self.wait(at);
        }
        PowerFailureFlush {
            lines: self.counts.written - before + pending,
            at: SimTime(at),
        }
    }

    /// Advances to the next event after a power failure, and returns its time.
    fn wait(&mut self, now: u64) -> u64 {
        let next = self.next_inside().expect("a page that leaves is under way");
        let next = next.max(now);
        self.step(next);
        next
    }
}
