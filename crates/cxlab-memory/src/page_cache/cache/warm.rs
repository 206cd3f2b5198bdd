//! State changes of the cache and the slow medium without time, for sampled runs.

use cxlab_cache::prefetch::PageAccessResult;
use cxlab_cache::{MemoryRequest, SetRoom, Slot};
use cxlab_engine::units::{Dpa, LINE_BYTES, LineAddr};

use super::{CachedPage, DramCache};
use crate::page_cache::mask::{hull, runs, span};
use crate::page_cache::observer::MovementObserver;

/// An evicted page with sectors that must be written.
struct EvictedPage {
    page: u64,
    sectors: u64,
}

impl<O: MovementObserver> DramCache<O> {
    /// Applies a request to tags and sectors, page by page.
    pub(super) fn warm_request(&mut self, request: MemoryRequest) {
        let mut line = request.dpa.line().0;
        let end = line + u64::from(request.lines);
        while line < end {
            let shift = self.shape.page_lines.ilog2();
            let page = line >> shift;
            let next = ((page + 1) << shift).min(end);
            self.warm_page(page, line, next - line, request.write);
            line = next;
        }
    }

    fn warm_page(&mut self, page: u64, line: u64, lines: u64, write: bool) {
        let (needed, covered) = self.sectors(line, lines);
        let spared = match write && self.shape.by_sector {
            true => covered,
            false => 0,
        };
        let (slot, left) = match self.tags.find(LineAddr(page)) {
            Some(slot) => (slot, None),
            None => match self.warm_frame(page) {
                Some(frame) => frame,
                None => return,
            },
        };
        let CachedPage {
            valid, prefetched, ..
        } = self.tags[slot];
        let missing = needed & !valid & !spared;
        if missing != 0 {
            let wanted = match self.shape.by_sector {
                true => missing,
                false => self.all() & !valid,
            };
            self.warm_fetch(page, slot, wanted);
        }
        self.warm_write_back(left);
        self.tags.touch(slot);
        let here = &mut self.tags[slot];
        here.prefetched = false;
        if write {
            here.valid |= needed;
            here.dirty |= needed;
            self.tags.set_dirty(slot, true);
        }
        let outcome = match (prefetched, missing) {
            (true, _) => PageAccessResult::PrefetchHit,
            (false, 0) => PageAccessResult::Hit,
            (false, _) => PageAccessResult::Miss,
        };
        self.tell_prefetcher(page, outcome);
        if !self.to_prefetch.is_empty() {
            // The accessed page must not be evicted for a prefetched one.
            self.tags.pin(slot);
            self.warm_prefetch();
            self.tags.unpin(slot);
        }
        if missing != 0 {
            self.prefetcher.filled(page, false);
        }
    }

    /// Marks sectors as fetched from the slow medium.
    fn warm_fetch(&mut self, page: u64, slot: Slot, wanted: u64) {
        let run = hull(self.rounded(wanted));
        self.warm_behind(page, run, false);
        self.tags[slot].valid |= span(run.0, run.1);
    }

    /// Applies a run of sectors of a page to the slow medium.
    fn warm_behind(&mut self, page: u64, run: (u64, u64), write: bool) {
        let (line, lines) = self.lines_of(page, run);
        self.behind.warm(MemoryRequest {
            id: 0,
            dpa: Dpa(line * LINE_BYTES),
            lines: lines as u16,
            write,
        });
    }

    /// A frame for a page, and the evicted page if that must be written. `None` if all frames of
    /// the set are pinned.
    fn warm_frame(&mut self, page: u64) -> Option<(Slot, Option<EvictedPage>)> {
        let mut left = None;
        match self.tags.room(LineAddr(page)) {
            SetRoom::Free => {}
            SetRoom::Pinned => return None,
            SetRoom::Evict(block) => {
                let slot = self.tags.find(block.victim)?;
                let CachedPage { valid, dirty, .. } = self.tags[slot];
                self.tags.remove(slot);
                left = (dirty != 0).then(|| EvictedPage {
                    page: block.victim.0,
                    sectors: self.to_write_back(valid, dirty),
                });
            }
        }
        let slot = self.tags.insert(LineAddr(page), CachedPage::default());
        Some((slot, left))
    }

    /// Writes an evicted page, after the new page has been read.
    fn warm_write_back(&mut self, left: Option<EvictedPage>) {
        if let Some(EvictedPage { page, sectors }) = left {
            runs(sectors).for_each(|run| self.warm_behind(page, run, true));
        }
    }

    /// Fetches all pages that the prefetcher named; none if the only fetch is reserved
    /// for demand misses.
    fn warm_prefetch(&mut self) {
        if self.fetches.len() < 2 {
            return;
        }
        while let Some(page) = self.to_prefetch.pop_front() {
            if page >= self.pages || self.tags.find(LineAddr(page)).is_some() {
                continue;
            }
            let Some((slot, left)) = self.warm_frame(page) else {
                continue;
            };
            self.tags[slot].prefetched = true;
            self.warm_fetch(page, slot, self.all());
            self.warm_write_back(left);
            self.prefetcher.filled(page, true);
        }
    }
}
