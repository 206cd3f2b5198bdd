//! Entries of the snoop filter: allocation, waiting for a free entry, and eviction.

use cxlab_cache::{LineBlock, SetRoom, Slot};
use cxlab_engine::Ctx;
use cxlab_engine::units::{Bytes, LINE_BYTES, LineAddr};
use cxlab_link::Parcel;
use cxlab_protocol::coherence::dcoh::{Action, Event, Filter, LineState};

use super::{CoherentDevice, dpa_of, row};

impl CoherentDevice {
    pub(super) fn filter_of(&self, slot: Option<Slot>) -> Filter {
        slot.map_or(Filter::Invalid, |slot| self.filter[slot])
    }

    #[inline]
    pub(super) fn set_of(&self, line: LineAddr) -> usize {
        self.filter.geometry().set_of(line) as usize
    }

    /// Stores the holders of a line in its entry.
    pub(super) fn keep(&mut self, slot: Slot, filter: Filter) {
        if self.filter[slot] != filter {
            self.filter[slot] = filter;
            self.filter.set_owner(slot, filter.holders().0);
        }
    }

    /// Allocates an entry for a line. If none is free, the line waits, and an eviction starts for
    /// it. Returns whether the line has an entry.
    pub(super) fn find_entry(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        number: u32,
        line: LineAddr,
    ) -> bool {
        self.log_entry(number, false);
        let set = self.set_of(line);
        if self.sets[set].waiting > 0 {
            self.sets[set].append(&mut self.lines, number);
            if !self.eager {
                self.make_room(ctx, set);
            } else if let SetRoom::Evict(block) = self.filter.room(line) {
                self.evict(ctx, self.trim(block));
            }
            return false;
        }
        let room = self.filter.room(line);
        if room == SetRoom::Free {
            self.take_entry(number);
            return true;
        }
        self.sets[set].append(&mut self.lines, number);
        match room {
            SetRoom::Evict(block) if self.eager || self.sets[set].needs_room() => {
                self.evict(ctx, self.trim(block));
            }
            _ => {}
        }
        false
    }

    pub(super) fn take_entry(&mut self, number: u32) {
        self.log_entry(number, true);
        let busy = self.lines.get_mut(number);
        let slot = self.filter.insert(busy.line, Filter::Invalid);
        busy.slot = Some(slot);
        self.filter.pin(slot);
        self.coherence.peak_entries = self.coherence.peak_entries.max(self.filter.len());
    }

    /// Frees the entry of a busy line without holders.
    pub(super) fn give_up_entry(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u32, slot: Slot) {
        let busy = self.lines.get_mut(number);
        busy.slot = None;
        busy.evicted = false;
        let (line, _) = self.filter.remove(slot);
        self.entry_freed(ctx, self.set_of(line));
    }

    /// Gives a free entry of a set to the first line that waits for one.
    pub(super) fn entry_freed(&mut self, ctx: &mut Ctx<'_, Parcel>, set: usize) {
        if let Some(number) = self.sets[set].pop(&mut self.lines) {
            self.take_entry(number);
            let waited = self.wait_ends(ctx.now(), self.lines.get(number).current_request);
            self.coherence.entry_waits += 1;
            self.coherence.entry_wait.0 += waited.0;
            self.ready.push_back(number);
        }
    }

    /// Evicts entries of a set while more lines wait for one than evictions are in progress; false
    /// if all entries are pinned.
    pub(super) fn make_room(&mut self, ctx: &mut Ctx<'_, Parcel>, set: usize) -> bool {
        while self.sets[set].needs_room() {
            let waiting = self.lines.get(self.sets[set].first).line;
            match self.filter.room(waiting) {
                SetRoom::Evict(block) => self.evict(ctx, self.trim(block)),
                SetRoom::Pinned => return false,
                SetRoom::Free => unreachable!("a free entry goes to the line that waits"),
            }
        }
        true
    }

    /// The part of a block that one snoop may cover: its lines must be contiguous in
    /// the requester's addresses too.
    pub(super) fn trim(&self, block: LineBlock) -> LineBlock {
        let most = u32::from(self.block);
        let mut trimmed = block;
        if block.lines > most {
            let (first, victim) = (block.first.0, block.victim.0);
            let aligned = block.lines.is_power_of_two()
                && first.is_multiple_of(u64::from(block.lines))
                && most.is_power_of_two();
            trimmed.lines = most;
            trimmed.first = LineAddr(if aligned {
                victim & !u64::from(most - 1)
            } else {
                first.max((victim + 1).saturating_sub(u64::from(most)))
            });
        }
        let bytes = Bytes(u64::from(trimmed.lines) * LINE_BYTES);
        if trimmed.lines > 1 && !self.decoders.is_contiguous(dpa_of(trimmed.first), bytes) {
            return LineBlock::single(block.victim);
        }
        trimmed
    }

    /// Evicts the entries of a block's lines, which have the same holders. The lines are idle, or
    /// busy without an operation.
    pub(super) fn evict(&mut self, ctx: &mut Ctx<'_, Parcel>, block: LineBlock) {
        let mut holders = None;
        for line in block.iter() {
            let number = match self.lines.find(line) {
                Some(number) => number,
                None => {
                    let Some(slot) = self.filter.find(line) else {
                        unreachable!("a victim has an entry")
                    };
                    self.filter.pin(slot);
                    self.lines
                        .take(line, LineState::idle(self.filter[slot]), Some(slot))
                }
            };
            let busy = self.lines.get_mut(number);
            let (next, actions) = row(busy.state, Event::EvictEntry);
            busy.state = next;
            busy.evicted = true;
            self.sets[self.filter.geometry().set_of(line) as usize].evicting += 1;
            self.coherence.evictions += 1;
            for action in actions.iter() {
                let Action::Snoop(kind, peers) = action else {
                    unreachable!("an eviction only snoops")
                };
                let before = *holders.get_or_insert((kind, peers));
                assert_eq!(
                    before,
                    (kind, peers),
                    "lines of a block have the same holders"
                );
            }
        }
        if let Some((kind, peers)) = holders {
            self.snoop(ctx, kind, block.first, block.lines as u8, peers);
        }
    }
}
