//! State changes of buffer, mapping and blocks without time, for sampled runs.

use cxlab_cache::MemoryRequest;
use cxlab_engine::list::NONE;

use super::drive::Drive;
use super::map::SubPageLocation;
use super::mapping_cache::MappingLookup;
use super::params::Unwritten;

impl Drive {
    /// Applies a request, sub-page by sub-page.
    pub(super) fn warm_request(&mut self, request: MemoryRequest) {
        let lines = u64::from(self.geometry.lines);
        let first = request.dpa.line().0;
        let end = first + u64::from(request.lines);
        for logical in first / lines..=(end - 1) / lines {
            let base = logical * lines;
            let whole = first <= base && base + lines <= end;
            match request.write {
                true => self.warm_write(logical as u32, whole),
                false => self.warm_read(logical as u32),
            }
        }
        if request.write {
            self.warm_flush();
        }
    }

    fn warm_read(&mut self, logical: u32) {
        match self.map.get(logical) {
            SubPageLocation::Buffer(_) if self.params.write_buffer.reads => {}
            SubPageLocation::Nowhere if self.params.unwritten == Unwritten::Zero => {}
            _ => self.warm_translation(logical),
        }
    }

    fn warm_write(&mut self, logical: u32, whole: bool) {
        let place = match self.map.get(logical) {
            SubPageLocation::Buffer(_) => return,
            SubPageLocation::Flash(place) => place,
            SubPageLocation::Nowhere => NONE,
        };
        let slot = self.buffer.take(logical, place, true);
        self.map.set(logical, SubPageLocation::Buffer(slot));
        if !whole && (place != NONE || self.params.unwritten == Unwritten::Array) {
            self.warm_translation(logical);
        }
        self.buffer.make_dirty(slot);
        // Flushes after each sub-page, because a longer request would wait for room there.
        self.warm_flush();
    }

    /// Looks up the mapping; an absent translation page is loaded.
    fn warm_translation(&mut self, logical: u32) {
        let page = logical / self.geometry.entries;
        if self.cache.look(page) != MappingLookup::Hit {
            self.warm_mapping(page);
        }
    }

    /// Loads a translation page; a dirty one may be evicted.
    fn warm_mapping(&mut self, page: u32) {
        self.cache.wait(page, NONE);
        let (_, written) = self.cache.arrive(page);
        let Some(old) = written else { return };
        let logical = self.geometry.user + old;
        if !matches!(self.map.get(logical), SubPageLocation::Buffer(_)) {
            let slot = self.buffer.take(logical, self.place_of(logical), false);
            self.map.set(logical, SubPageLocation::Buffer(slot));
            self.buffer.make_dirty(slot);
            self.warm_flush();
        }
    }

    /// Programs pages that must leave the buffer, and collects blocks if needed.
    fn warm_flush(&mut self) {
        while self.has_to_flush() {
            let (mut list, mut count) = ([NONE; 32], 0);
            while count < self.geometry.subs as usize
                && let Some(slot) = self.buffer.flush_first()
            {
                list[count] = self.buffer.get(slot).logical;
                count += 1;
            }
            self.write_at_once(&list[..count]);
            for logical in &list[..count] {
                let page = logical / self.geometry.entries;
                if *logical < self.geometry.user && self.cache.change(page) == MappingLookup::Miss {
                    self.warm_mapping(page);
                }
            }
        }
    }
}
