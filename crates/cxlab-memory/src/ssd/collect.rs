//! Garbage collection and static wear levelling, concurrent with requests.
//!
//! A plane collects one block at a time. Its valid sub-pages are read and programmed into pages of
//! the same plane; when the last copy is programmed, the block is erased. A sub-page that is
//! written meanwhile is not copied. Left out: copy-back, and moving data between planes.

use cxlab_engine::list::NONE;

use super::blocks::{BlockCollection, BlockState, WriteStream};
use super::drive::Drive;
use super::map::SubPageLocation;
use super::nand::{CommandPurpose, FlashCommand};
use super::victims::VictimView;

/// Bound on a victim's pages that are read and not yet programmed (*assumed*).
const PAGES_AHEAD: u32 = 4;

impl Drive {
    /// Starts a collection in a plane that is short of free blocks.
    pub(super) fn collect_if_needed(&mut self, plane: u32) {
        let entry = &self.planes[plane as usize];
        let short =
            entry.collection.is_none() && entry.free_blocks() < self.params.collection.start;
        if let Some(victim) = short.then(|| self.choose_victim(plane)).flatten() {
            self.collect(plane, victim, false);
        }
        self.update_urgency(plane);
    }

    pub(super) fn choose_victim(&mut self, plane: u32) -> Option<u32> {
        let mut view = VictimView {
            blocks: &self.planes[plane as usize].blocks,
            most: (self.geometry.pages - 1) * self.geometry.subs,
            block_subs: self.geometry.block_subs(),
            clock: self.clock,
            choices: self.params.collection.choices,
            rng: &mut self.rng,
        };
        self.params.collection.policy.choose(&mut view)
    }

    /// Gives collection priority over requests while a plane is nearly out of free blocks.
    fn update_urgency(&mut self, plane: u32) {
        let entry = &mut self.planes[plane as usize];
        let short = entry.free_blocks() < self.params.collection.hard
            || !self.params.collection.preemptible;
        let urgent = entry.collection.is_some() && short;
        if urgent != entry.urgent {
            entry.urgent = urgent;
            self.nand.set_urgent(plane, urgent);
        }
    }

    fn collect(&mut self, plane: u32, victim: u32, wear: bool) {
        let entry = &mut self.planes[plane as usize];
        entry.blocks[victim as usize].state = BlockState::Victim;
        entry.collection = Some(BlockCollection {
            victim,
            wear,
            ..BlockCollection::default()
        });
        if wear {
            self.counters.wear_moves += 1;
        } else {
            self.counters.collections += 1;
        }
        self.pump(plane);
    }

    /// Mask of the sub-pages of a page that the mapping refers to.
    fn valid_mask(&self, plane: u32, block: u32, page: u32) -> u32 {
        let first = self.geometry.place(plane, block, page);
        let at = (page * self.geometry.subs) as usize;
        let owners = &self.planes[plane as usize].owners[block as usize];
        let owners = &owners[at..at + self.geometry.subs as usize];
        let mut mask = 0;
        for (sub, owner) in (0..).zip(owners) {
            if *owner != NONE && self.place_of(*owner) == first + sub {
                mask |= 1 << sub;
            }
        }
        mask
    }

    /// Advances a plane's collection as far as possible without waiting.
    pub(super) fn pump(&mut self, plane: u32) {
        let Some(mut work) = self.planes[plane as usize].collection.take() else {
            return;
        };
        let subs = self.geometry.subs;
        loop {
            let staged = self.planes[plane as usize].staged.len() as u32;
            let ahead = work.reads + staged / subs;
            if work.page == self.geometry.pages || ahead >= PAGES_AHEAD {
                break;
            }
            let mask = self.valid_mask(plane, work.victim, work.page);
            if mask != 0 {
                let place = self.geometry.place(plane, work.victim, work.page);
                let op = FlashCommand::new(CommandPurpose::CollectRead, place, mask);
                self.nand.submit(op, plane, work.page);
                work.reads += 1;
            }
            work.page += 1;
        }
        let last = work.page == self.geometry.pages && work.reads == 0;
        let least = if last { 1 } else { subs };
        while self.planes[plane as usize].staged.len() as u32 >= least {
            let more = self.program_staged(plane, &work);
            work.programs += u32::from(more);
        }
        let idle = last && work.programs == 0 && !work.erasing;
        let victim = &self.planes[plane as usize].blocks[work.victim as usize];
        if idle && victim.readers == 0 {
            assert_eq!(victim.valid, 0, "nothing is left in a block that is erased");
            let place = self.geometry.place(plane, work.victim, 0);
            let op = FlashCommand::new(CommandPurpose::CollectErase, place, 0);
            self.nand.submit(op, plane, 0);
            work.erasing = true;
        }
        let moved = work.reads == 0 && work.page < self.geometry.pages;
        self.planes[plane as usize].collection = Some(work);
        if moved && self.planes[plane as usize].staged.is_empty() {
            self.pump(plane);
        }
    }

    /// Programs a page with sub-pages that collection has read; `false` if all were written meanwhile.
    fn program_staged(&mut self, plane: u32, work: &BlockCollection) -> bool {
        let mut carried = [(NONE, NONE); 32];
        let mut count = 0;
        while count < self.geometry.subs as usize {
            let Some((logical, from)) = self.planes[plane as usize].staged.pop_front() else {
                break;
            };
            if self.place_of(logical) == from {
                carried[count] = (logical, from);
                count += 1;
            }
        }
        if count == 0 {
            return false;
        }
        let stream = self.moved_to(work.wear);
        let (place, block, page) = self.take_page(plane, stream);
        let mask = ((1u64 << count) - 1) as u32;
        let op = FlashCommand::new(CommandPurpose::CollectProgram, place, mask);
        let id = self.nand.submit(op, plane, page);
        for (sub, (logical, from)) in (0..).zip(&carried[..count]) {
            self.own(plane, block, page, sub, *logical);
            self.carry(id, sub, *logical, *from);
            if let Some(contents) = &mut self.contents {
                contents.copy(*from, place + sub);
            }
        }
        self.count_moved(work.wear, count as u64);
        true
    }

    pub(super) fn moved_to(&self, wear: bool) -> WriteStream {
        match (wear, self.params.collection.separate) {
            (true, _) => WriteStream::Cold,
            (false, true) => WriteStream::Collected,
            (false, false) => WriteStream::Host,
        }
    }

    pub(super) fn count_moved(&mut self, wear: bool, subs: u64) {
        if wear {
            self.counters.wear_moved += subs;
            self.counters.wear_pages += 1;
        } else {
            self.counters.collected += subs;
            self.counters.collected_pages += 1;
        }
    }

    pub(super) fn collect_read_done(&mut self, op: &FlashCommand) {
        let (plane, block, at) = self.geometry.split(op.place);
        for sub in (0..self.geometry.subs).filter(|sub| op.mask & 1 << sub != 0) {
            let (entry, from) = (&self.planes[plane as usize], op.place + sub);
            let owner = entry.owners[block as usize][(at + sub) as usize];
            if self.place_of(owner) == from {
                self.planes[plane as usize].staged.push_back((owner, from));
            }
        }
        if let Some(work) = &mut self.planes[plane as usize].collection {
            work.reads -= 1;
        }
        self.pump(plane);
    }

    pub(super) fn collect_program_done(&mut self, id: u32) {
        let op = self.nand.ops[id];
        for sub in 0..op.mask.count_ones() {
            let (logical, from) = self.carried[(id * self.geometry.subs + sub) as usize];
            if self.relocate(logical, from, op.place + sub) && logical < self.geometry.user {
                self.cache.change(logical / self.geometry.entries);
            }
        }
        self.page_programmed(op.place);
        if let Some(work) = &mut self.planes[op.plane as usize].collection {
            work.programs -= 1;
        }
        self.pump(op.plane);
    }

    /// Updates the mapping to a copy, unless the sub-page was written since it was read.
    pub(super) fn relocate(&mut self, logical: u32, from: u32, to: u32) -> bool {
        match self.map.get(logical) {
            SubPageLocation::Flash(place) if place == from => {
                self.map.set(logical, SubPageLocation::Flash(to))
            }
            SubPageLocation::Buffer(slot) if self.buffer.get(slot).place == from => {
                self.buffer.get_mut(slot).place = to;
            }
            _ => return false,
        }
        self.invalidate(from);
        self.validate(to);
        true
    }

    pub(super) fn erase_done(&mut self, op: &FlashCommand) {
        let (plane, block, _) = self.geometry.split(op.place);
        self.erased(plane, block);
        self.planes[plane as usize].collection = None;
        if let Some(victim) = self.level(plane) {
            self.collect(plane, victim, true);
        }
        self.collect_if_needed(plane);
        self.flush();
    }

    /// Records that a block is erased and empty.
    pub(super) fn erased(&mut self, plane: u32, block: u32) {
        self.planes[plane as usize].erased(block);
        self.counters.erases += 1;
        if let Some(contents) = &mut self.contents {
            let first = self.geometry.place(plane, block, 0);
            (first..first + self.geometry.block_subs())
                .for_each(|place| contents.mark_unreadable(place));
        }
    }

    /// The block whose data should move for wear levelling, if the plane can spare a block.
    pub(super) fn level(&self, plane: u32) -> Option<u32> {
        let entry = &self.planes[plane as usize];
        let spread = self.params.collection.wear_static;
        if spread == 0 || entry.free_blocks() < self.params.collection.hard {
            return None;
        }
        entry.wear_leveling_victim(spread)
    }
}
