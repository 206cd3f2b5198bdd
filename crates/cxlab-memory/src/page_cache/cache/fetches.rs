//! Fetches, the requests that wait for them, and prefetches.

use cxlab_cache::prefetch::{PageAccessResult, PrefetchCandidates};
use cxlab_cache::{MemoryRequest, Slot};
use cxlab_engine::list::NONE;
use cxlab_engine::units::{Dpa, LINE_BYTES, LineAddr};

use super::{DramCache, FILL, PREFETCH_QUEUE};
use crate::page_cache::fetch::{Fetch, PageAccess, SlowRead};
use crate::page_cache::mask::{hull, runs, span};
use crate::page_cache::observer::{Movement, MovementObserver};

impl<O: MovementObserver> DramCache<O> {
    /// Starts a fetch of sectors; a fetch must be free.
    pub(super) fn fetch(
        &mut self,
        page: u64,
        slot: Slot,
        wanted: u64,
        critical: u64,
        prefetch: bool,
    ) -> u32 {
        let (first, count) = hull(self.rounded(wanted));
        let sectors = span(first, count);
        let number = self.fetches.iter().position(|one| !one.used);
        let number = number.expect("a fetch is free") as u32;
        let after = self.in_write_buffer(page).map_or(NONE, |at| at as u32);
        self.fetching += 1;
        self.counts.fetches += 1;
        self.fetches[number as usize] = Fetch {
            used: true,
            page,
            slot,
            sectors,
            critical: self.rounded(critical) & sectors,
            reads: 0,
            held: 0,
            after,
            prefetch,
            first: NONE,
            last: NONE,
            targets: 0,
        };
        let state = &mut self.tags[slot];
        state.fetches += 1;
        if state.fetch == NONE {
            state.fetch = number;
        }
        self.tags.pin(slot);
        if after == NONE {
            self.ask(number);
        }
        number
    }

    /// Queues the reads of the slow medium for a fetch.
    pub(super) fn ask(&mut self, number: u32) {
        if self.failed {
            return;
        }
        let fetch = self.fetches[number as usize];
        let mut pieces = [fetch.sectors, 0, 0];
        if self.shape.critical_first && fetch.critical != 0 {
            let (first, count) = hull(fetch.critical);
            let (low, all) = hull(fetch.sectors);
            let end = first + count;
            pieces = [
                span(first, count),
                span(end.min(63), low + all - end),
                span(low, first - low),
            ];
        }
        for set in pieces.into_iter().filter(|set| *set != 0) {
            let part = SlowRead {
                fetch: number,
                sectors: set,
            };
            let id = self.parts.insert(part);
            self.fetches[number as usize].reads += 1;
            let (line, lines) = self.lines_of(fetch.page, hull(set));
            self.counts.fetched += lines;
            self.report(Movement::Asked, fetch.page, set);
            let queue = match fetch.prefetch {
                true => &mut self.outgoing.prefetches,
                false => &mut self.outgoing.demands,
            };
            queue.push_back(MemoryRequest {
                id,
                dpa: Dpa(line * LINE_BYTES),
                lines: lines as u16,
                write: false,
            });
        }
    }

    /// Appends a piece to those that wait for a fetch.
    pub(super) fn join(&mut self, fetch: u32, piece: PageAccess) {
        let number = self.add_piece(piece);
        self.fetches[fetch as usize].targets += 1;
        self.wait_for(fetch, number);
    }

    fn wait_for(&mut self, fetch: u32, number: u32) {
        self.pieces[number].next = NONE;
        let fetch = &mut self.fetches[fetch as usize];
        match fetch.last {
            NONE => fetch.first = number,
            last => self.pieces[last].next = number,
        }
        fetch.last = number;
    }

    /// Handles the arrival of sectors from the slow medium.
    pub(super) fn arrived(&mut self, now: u64, part: u32) {
        let SlowRead { fetch, sectors } = self.parts.remove(part);
        if self.failed {
            return;
        }
        self.fetches[fetch as usize].reads -= 1;
        let slot = self.fetches[fetch as usize].slot;
        if self.tags[slot].reading != NONE {
            self.fetches[fetch as usize].held |= sectors;
            return;
        }
        self.install(now, fetch, sectors);
    }

    /// Writes sectors into the frame, and serves requests that waited for them.
    pub(super) fn install(&mut self, now: u64, number: u32, sectors: u64) {
        let Fetch { page, slot, .. } = self.fetches[number as usize];
        let new = sectors & !self.tags[slot].valid;
        self.tags[slot].valid |= new;
        self.report(Movement::Installed, page, new);
        for run in runs(new) {
            let (line, lines) = self.lines_of(page, run);
            let request = self.in_dram(slot, line, lines, true, FILL);
            self.outgoing.dram.push_back(request);
        }
        self.serve(now, number, new);
        let fetch = self.fetches[number as usize];
        if fetch.reads == 0 && fetch.held == 0 {
            self.end_fetch(number);
        }
    }

    /// Serves the requests of a fetch whose sectors are now all present: from the arrived data if
    /// that has all they need, else from the DRAM.
    fn serve(&mut self, now: u64, number: u32, new: u64) {
        let slot = self.fetches[number as usize].slot;
        let mut at = std::mem::replace(&mut self.fetches[number as usize].first, NONE);
        self.fetches[number as usize].last = NONE;
        while at != NONE {
            let piece = self.pieces[at];
            let (needed, spared) = self.needs(piece);
            if needed & !self.tags[slot].valid & !spared != 0 {
                self.wait_for(number, at);
            } else if needed & !new == 0 {
                self.fetches[number as usize].targets -= 1;
                self.apply(slot, piece, needed);
                self.piece_done(at, now);
            } else {
                self.fetches[number as usize].targets -= 1;
                self.touch_data(slot, at, needed);
            }
            at = piece.next;
        }
    }

    /// Ends a fetch that has brought all its sectors.
    fn end_fetch(&mut self, number: u32) {
        let fetch = self.fetches[number as usize];
        assert!(fetch.first == NONE, "a fetch brings all that is needed");
        self.fetches[number as usize].used = false;
        self.fetching -= 1;
        let state = &mut self.tags[fetch.slot];
        state.fetches -= 1;
        if state.fetch == number {
            state.fetch = NONE;
        }
        if state.fetches == 0 {
            self.tags.unpin(fetch.slot);
        }
        self.prefetcher.filled(fetch.page, fetch.prefetch);
    }

    pub(super) fn tell_prefetcher(&mut self, page: u64, outcome: PageAccessResult) {
        let mut wanted = PrefetchCandidates::default();
        self.prefetcher.accessed(page, outcome, &mut wanted);
        for page in wanted.as_slice() {
            if self.to_prefetch.len() == PREFETCH_QUEUE {
                self.to_prefetch.pop_front();
            }
            self.to_prefetch.push_back(*page);
        }
    }

    /// Starts prefetches, and leaves at least one fetch free for demand misses.
    pub(super) fn prefetch(&mut self) {
        if self.stalled.is_some() {
            return;
        }
        while self.fetching + 1 < self.fetches.len()
            && let Some(page) = self.to_prefetch.pop_front()
        {
            let known = self.tags.find(LineAddr(page)).is_some();
            if page >= self.pages || known || self.in_write_buffer(page).is_some() {
                continue;
            }
            let Some(slot) = self.allocate(page) else {
                continue;
            };
            self.counts.prefetches += 1;
            self.tags[slot].prefetched = true;
            let all = self.all();
            self.fetch(page, slot, all, 0, true);
        }
    }
}
