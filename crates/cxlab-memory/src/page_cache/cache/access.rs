//! Look-up of requests in the cache.

use cxlab_cache::Slot;
use cxlab_cache::prefetch::PageAccessResult;
use cxlab_engine::list::NONE;
use cxlab_engine::units::LineAddr;

use super::{CachedPage, DramCache};
use crate::page_cache::fetch::{Fetch, PageAccess, Request};
use crate::page_cache::observer::{Movement, MovementObserver};

impl<O: MovementObserver> DramCache<O> {
    /// Looks up the waiting requests, until one cannot proceed.
    pub(super) fn look_up(&mut self, now: u64) {
        while let Some(first) = self.input.front().copied()
            && first.ready <= now
        {
            let page = first.line / self.shape.page_lines;
            let end = (page + 1) * self.shape.page_lines;
            let piece = PageAccess {
                request: first.request,
                line: first.line,
                lines: first.lines.min(end - first.line),
                write: first.write,
                next: NONE,
            };
            if !self.access(now, page, piece) {
                self.stalled.get_or_insert(now);
                return;
            }
            if let Some(since) = self.stalled.take() {
                self.counts.stalled_ps += now - since;
            }
            if piece.lines < first.lines {
                let rest = &mut self.input[0];
                rest.line += piece.lines;
                rest.lines -= piece.lines;
            } else {
                self.input.pop_front();
                self.request_done(first.request, now);
            }
        }
    }

    /// Looks up one piece; `false` if it must wait.
    fn access(&mut self, now: u64, page: u64, piece: PageAccess) -> bool {
        let (needed, spared) = self.needs(piece);
        let slot = match self.tags.find(LineAddr(page)) {
            Some(slot) => slot,
            None => {
                if let Some(at) = self.in_write_buffer(page)
                    && !piece.write
                    && self.leaving[at].reads == 0
                    && needed & !self.leaving[at].sectors == 0
                {
                    self.serve_from_write_buffer(now, piece);
                    return true;
                }
                let fetches = needed & !spared != 0;
                if fetches && self.fetching == self.fetches.len() {
                    return false;
                }
                match self.allocate(page) {
                    Some(slot) => slot,
                    None => return false,
                }
            }
        };
        let here = self.tags[slot];
        let missing = needed & !here.valid & !spared;
        if missing == 0 {
            let new = needed & !here.valid;
            if new != 0 && (here.reading != NONE || self.in_write_buffer(page).is_some()) {
                return false;
            }
            self.hit(page, slot, piece, needed);
            return true;
        }
        if self.shape.merge
            && let Some(fetch) = self.bringing(here, page, missing)
        {
            if self.fetches[fetch as usize].targets == self.shape.targets {
                return false;
            }
            self.counts.merged += 1;
            let outcome = self.first_use(slot, PageAccessResult::Hit);
            self.join(fetch, piece);
            self.tags.touch(slot);
            self.tell_prefetcher(page, outcome);
            return true;
        }
        if self.fetching == self.fetches.len() {
            return false;
        }
        let wanted = if self.shape.by_sector {
            missing
        } else {
            self.all() & !here.valid
        };
        self.counts.misses += 1;
        let outcome = self.first_use(slot, PageAccessResult::Miss);
        let fetch = self.fetch(page, slot, wanted, missing, false);
        self.join(fetch, piece);
        self.tags.touch(slot);
        self.tell_prefetcher(page, outcome);
        true
    }

    /// The sectors that a piece touches, and those that need no fetch, because it writes them whole.
    pub(super) fn needs(&self, piece: PageAccess) -> (u64, u64) {
        let (touched, covered) = self.sectors(piece.line, piece.lines);
        let spares = piece.write && self.shape.by_sector;
        (touched, if spares { covered } else { 0 })
    }

    /// An outstanding fetch that brings these sectors of a page.
    fn bringing(&self, here: CachedPage, page: u64, sectors: u64) -> Option<u32> {
        if here.fetches == 0 {
            return None;
        }
        let brings = |one: &Fetch| one.used && one.page == page && sectors & !one.sectors == 0;
        if here.fetch != NONE && brings(&self.fetches[here.fetch as usize]) {
            return Some(here.fetch);
        }
        let other = self.fetches.iter().position(brings);
        other.map(|number| number as u32)
    }

    /// Serves a piece whose sectors are valid or are written as a whole.
    fn hit(&mut self, page: u64, slot: Slot, piece: PageAccess, needed: u64) {
        self.counts.hits += 1;
        let outcome = self.first_use(slot, PageAccessResult::Hit);
        self.tags.touch(slot);
        let number = self.add_piece(piece);
        self.touch_data(slot, number, needed);
        self.tell_prefetcher(page, outcome);
    }

    /// Sends a piece to the DRAM.
    pub(super) fn touch_data(&mut self, slot: Slot, number: u32, needed: u64) {
        let piece = self.pieces[number];
        self.apply(slot, piece, needed);
        let request = self.in_dram(slot, piece.line, piece.lines, piece.write, number);
        self.outgoing.dram.push_back(request);
    }

    /// Updates the page's state for a piece.
    pub(super) fn apply(&mut self, slot: Slot, piece: PageAccess, needed: u64) {
        let id = self.requests[piece.request].id;
        let mut movement = Movement::Read { id };
        if piece.write {
            let page = &mut self.tags[slot];
            page.valid |= needed;
            page.dirty |= needed;
            self.tags.set_dirty(slot, true);
            movement = Movement::Write { id };
        }
        self.observer.moved(movement, piece.line, piece.lines);
    }

    /// The outcome that the prefetcher is told: `PrefetchHit` at the first use of
    /// a prefetched page.
    fn first_use(&mut self, slot: Slot, otherwise: PageAccessResult) -> PageAccessResult {
        let page = &mut self.tags[slot];
        if !std::mem::take(&mut page.prefetched) {
            return otherwise;
        }
        self.counts.useful += 1;
        self.counts.late += u64::from(page.fetches > 0);
        PageAccessResult::PrefetchHit
    }

    pub(super) fn add_piece(&mut self, piece: PageAccess) -> u32 {
        self.requests[piece.request].pieces += 1;
        self.pieces.insert(piece)
    }

    pub(super) fn piece_done(&mut self, number: u32, at: u64) {
        let piece = self.pieces.remove(number);
        self.request_done(piece.request, at);
    }

    /// Counts one piece of a request, or its look-up, as done.
    fn request_done(&mut self, number: u32, at: u64) {
        let request = &mut self.requests[number];
        request.pieces -= 1;
        request.at = request.at.max(at);
        if request.pieces == 0 {
            let Request { id, at, .. } = self.requests.remove(number);
            self.finished.push(at, id);
        }
    }
}
