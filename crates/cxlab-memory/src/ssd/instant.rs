//! Changes without simulated time: filling the drive before a run, and power failures.

use cxlab_engine::list::NONE;
use cxlab_engine::units::SimTime;

use super::blocks::{BlockState, WriteStream};
use super::drive::Drive;
use super::map::SubPageLocation;
use super::nand::{ArrayOperation, CommandPurpose};
use super::params::{FillOrder, PowerLoss};

/// The effects of a power failure.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PowerFailure {
    /// User sub-pages that were saved from the write buffer.
    pub saved: u64,
    /// User sub-pages in the write buffer that were lost.
    pub lost: u64,
    /// Pages that were being programmed, or queued for it, and are now unreadable.
    pub torn: u64,
}

impl Drive {
    /// Applies the fill and the overwrites to the mapping and the blocks.
    pub(super) fn precondition(&mut self) {
        let filled = (f64::from(self.geometry.user) * self.params.fill) as u32;
        if filled == 0 {
            return;
        }
        match self.params.fill_order {
            FillOrder::Sequential => self.write_all(0..filled),
            FillOrder::Random => self.write_all(shuffled(filled)),
        }
        let count = (f64::from(filled) * self.params.overwrite) as u64;
        let mut rng = self.rng.clone();
        self.write_all((0..count).map(|_| rng.below(filled.into()) as u32));
        self.rng = rng;
        if !self.cache.is_whole() {
            let pages = filled.div_ceil(self.geometry.entries);
            self.write_all(self.geometry.user..self.geometry.user + pages);
        }
        self.counters = super::report::DriveCounters::default();
    }

    fn write_all(&mut self, list: impl Iterator<Item = u32>) {
        let mut page = [NONE; 32];
        let mut count = 0;
        for logical in list {
            page[count] = logical;
            count += 1;
            if count == self.geometry.subs as usize {
                self.write_at_once(&page[..count]);
                count = 0;
            }
        }
        if count > 0 {
            self.write_at_once(&page[..count]);
        }
    }

    /// Programs a page in no simulated time.
    pub(super) fn write_at_once(&mut self, list: &[u32]) {
        let plane = match self.host_plane() {
            Some(plane) => plane,
            None => {
                (0..self.geometry.planes).for_each(|plane| self.collect_at_once(plane));
                self.host_plane()
                    .expect("collection finds room for all data, by the check of the parameters")
            }
        };
        let (place, block, page) = self.take_page(plane, WriteStream::Host);
        for (sub, logical) in (0..).zip(list) {
            self.own(plane, block, page, sub, *logical);
            match self.map.get(*logical) {
                SubPageLocation::Buffer(slot) => {
                    if let Some(contents) = &mut self.contents {
                        contents.program(slot, place + sub);
                    }
                    self.commit(*logical, slot, place + sub);
                }
                location => {
                    if let SubPageLocation::Flash(old) = location {
                        self.invalidate(old);
                    }
                    self.map.set(*logical, SubPageLocation::Flash(place + sub));
                    self.validate(place + sub);
                }
            }
        }
        self.page_programmed(place);
        self.collect_at_once(plane);
    }

    /// Collects blocks of a plane until it has enough free ones, in no simulated time.
    fn collect_at_once(&mut self, plane: u32) {
        while self.planes[plane as usize].free_blocks() < self.params.collection.start {
            let Some(victim) = self.choose_victim(plane) else {
                return;
            };
            self.counters.collections += 1;
            self.move_at_once(plane, victim, false);
            if let Some(victim) = self.level(plane) {
                self.counters.wear_moves += 1;
                self.move_at_once(plane, victim, true);
            }
        }
    }

    fn move_at_once(&mut self, plane: u32, victim: u32, wear: bool) {
        self.planes[plane as usize].blocks[victim as usize].state = BlockState::Victim;
        let first = self.geometry.place(plane, victim, 0);
        let mut list = Vec::with_capacity(self.geometry.block_subs() as usize);
        for at in 0..self.geometry.block_subs() {
            let owner = self.planes[plane as usize].owners[victim as usize][at as usize];
            if owner != NONE && self.place_of(owner) == first + at {
                list.push((owner, first + at));
            }
        }
        for part in list.chunks(self.geometry.subs as usize) {
            let (place, block, page) = self.take_page(plane, self.moved_to(wear));
            for (sub, (logical, from)) in (0..).zip(part) {
                self.own(plane, block, page, sub, *logical);
                if let Some(contents) = &mut self.contents {
                    contents.copy(*from, place + sub);
                }
                self.relocate(*logical, *from, place + sub);
            }
            self.page_programmed(place);
            self.count_moved(wear, part.len() as u64);
        }
        self.erased(plane, victim);
    }

    /// Models a power failure and the return of power. Outstanding requests are lost and get no completion. With
    /// capacitors, pages being programmed and the write buffer are programmed first. Without capacitors they are lost,
    /// and the mapping is what a scan of the flash finds. Blocks being collected stay as they were, except for finished
    /// copies; an interrupted erase is repeated. The time of saving and scanning is not modelled.
    pub fn power_fail(&mut self, now: SimTime) -> PowerFailure {
        let mut failure = PowerFailure::default();
        let saved = self.params.power_loss == PowerLoss::Capacitor;
        let mut unfinished = self.nand.power_fail(now.0);
        unfinished.sort_unstable_by_key(|id| self.nand.ops[*id].place);
        for id in unfinished {
            let op = self.nand.ops[id];
            if op.counted {
                let (plane, block, _) = self.geometry.split(op.place);
                self.planes[plane as usize].blocks[block as usize].readers -= 1;
            }
            match op.command {
                ArrayOperation::Read => {}
                ArrayOperation::Program if saved => self.finish_program(id, &mut failure),
                ArrayOperation::Program => self.interrupt_program(op.place, op.mask, &mut failure),
                ArrayOperation::Erase => {
                    let (plane, block, _) = self.geometry.split(op.place);
                    self.erased(plane, block);
                    self.planes[plane as usize].collection = None;
                }
            }
        }
        for plane in &mut self.planes {
            if let Some(work) = plane.collection.take() {
                plane.blocks[work.victim as usize].state = BlockState::Closed;
            }
            plane.staged.clear();
            plane.urgent = false;
        }
        self.drop_requests();
        self.nand.clear();
        let changed = self.cache.drain_dirty();
        if saved {
            self.save_buffer(&mut failure);
            let user = self.geometry.user;
            self.write_all(changed.into_iter().map(|page| user + page));
        } else {
            self.lose_buffer(&mut failure);
        }
        failure
    }

    fn finish_program(&mut self, id: u32, failure: &mut PowerFailure) {
        let op = self.nand.ops[id];
        for sub in 0..op.mask.count_ones() {
            let (logical, from) = self.carried[(id * self.geometry.subs + sub) as usize];
            if op.class == CommandPurpose::Program {
                self.commit(logical, from, op.place + sub);
                failure.saved += u64::from(logical < self.geometry.user);
            } else {
                self.relocate(logical, from, op.place + sub);
            }
        }
        self.page_programmed(op.place);
    }

    fn interrupt_program(&mut self, place: u32, mask: u32, failure: &mut PowerFailure) {
        failure.torn += 1;
        let (plane, block, at) = self.geometry.split(place);
        for sub in 0..mask.count_ones() {
            self.planes[plane as usize].owners[block as usize][(at + sub) as usize] = NONE;
            if let Some(contents) = &mut self.contents {
                contents.mark_unreadable(place + sub);
            }
        }
        self.page_programmed(place);
    }

    fn save_buffer(&mut self, failure: &mut PowerFailure) {
        let slots: Vec<u32> = self.buffer.in_use().collect();
        let mut list = Vec::with_capacity(slots.len());
        for slot in slots {
            let entry = *self.buffer.get(slot);
            if let Some(contents) = &mut self.contents {
                contents.fill(slot, (entry.place != NONE).then_some(entry.place));
            }
            failure.saved += u64::from(entry.logical < self.geometry.user);
            list.push(entry.logical);
        }
        self.buffer.flush_all();
        self.write_all(list.into_iter());
        self.buffer.clear();
    }

    fn lose_buffer(&mut self, failure: &mut PowerFailure) {
        let slots: Vec<u32> = self.buffer.in_use().collect();
        for slot in slots {
            let entry = *self.buffer.get(slot);
            let location = match entry.place {
                NONE => SubPageLocation::Nowhere,
                place => SubPageLocation::Flash(place),
            };
            self.map.set(entry.logical, location);
            failure.lost += u64::from(entry.logical < self.geometry.user);
        }
        self.buffer.clear();
    }
}

/// The numbers below `count`, each once, in a fixed random order. Multiplications by odd numbers
/// and shifts are bijections modulo a power of two; results from `count` on are skipped.
fn shuffled(count: u32) -> impl Iterator<Item = u32> {
    let size = u64::from(count).next_power_of_two();
    let shift = size.trailing_zeros().div_ceil(2);
    let mix = move |number: u64| {
        let mut bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) & (size - 1);
        for factor in [0xbf58_476d_1ce4_e5b9u64, 0x94d0_49bb_1331_11eb] {
            bits ^= bits >> shift;
            bits = bits.wrapping_mul(factor) & (size - 1);
        }
        bits ^ bits >> shift
    };
    (0..size)
        .map(mix)
        .filter(move |number| *number < u64::from(count))
        .map(|number| number as u32)
}
