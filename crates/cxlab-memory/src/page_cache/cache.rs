//! The cache at work.

use std::collections::VecDeque;

use cxlab_engine::catalog::ParamError;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Dpa, LINE_BYTES, LineAddr, SimTime};

use super::fetch::{Fetch, Leaving, NONE, Part, Piece, Request, Slab};
use super::mask::{hull, runs, span};
use super::observer::{Movement, Observer, Silent};
use super::params::{DramCacheParams, Shape};
use crate::backend::{Completion, MemoryBackend, MemoryRequest, Statistic};
use crate::finished::Finished;
use crate::nested::Nested;
use crate::prefetch::{Candidates, Outcome, Prefetcher};
use crate::tag_array::{Room, Slot, TagArray};
use crate::{Medium, Site};

/// Pages that wait to be prefetched; more push the oldest out (*assumed*).
const PREFETCH_QUEUE: usize = 32;
/// Number of a write of the DRAM that nobody waits for.
const FILL: u32 = u32::MAX;
/// Bit of the numbers that mean a page of the write-back buffer.
const LEAVING: u32 = 1 << 31;

/// What is kept of a page in the cache.
#[derive(Clone, Copy)]
struct Page {
    valid: u64,
    dirty: u64,
    /// The first of the fetches under way.
    fetch: u32,
    /// Fetches under way.
    fetches: u32,
    /// The page of the write-back buffer that is still being read out of this frame.
    reading: u32,
    /// Prefetched, and nobody has asked for it.
    prefetched: bool,
}

impl Default for Page {
    fn default() -> Self {
        Page {
            valid: 0,
            dirty: 0,
            fetch: NONE,
            fetches: 0,
            reading: NONE,
            prefetched: false,
        }
    }
}

/// A request or the rest of one, waiting to be looked up.
#[derive(Clone, Copy)]
struct Waiting {
    ready: u64,
    request: u32,
    line: u64,
    lines: u64,
    write: bool,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    hits: u64,
    misses: u64,
    merged: u64,
    write_buffer_hits: u64,
    clean: u64,
    dirty: u64,
    fetches: u64,
    fetched: u64,
    written: u64,
    prefetches: u64,
    useful: u64,
    late: u64,
    useless: u64,
    stalled_ps: u64,
}

/// What a power failure left to do, and did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PowerFail {
    /// Lines of 64 bytes written to the slow medium after the failure.
    pub lines: u64,
    /// When the last of them was written.
    pub at: SimTime,
}

/// A DRAM cache in front of a slow medium.
pub struct DramCache<O: Observer = Silent> {
    shape: Shape,
    /// Pages of the device.
    pages: u64,
    /// Sectors that the slow medium reads and writes as a whole.
    granule_sectors: u64,
    tags: TagArray<Page>,
    dram: Nested,
    behind: Nested,
    prefetcher: Box<dyn Prefetcher>,
    observer: O,
    requests: Slab<Request>,
    input: VecDeque<Waiting>,
    pieces: Slab<Piece>,
    fetches: Vec<Fetch>,
    fetching: usize,
    parts: Slab<Part>,
    leaving: Vec<Leaving>,
    leaves: usize,
    to_prefetch: VecDeque<u64>,
    to_dram: VecDeque<MemoryRequest>,
    demands: VecDeque<MemoryRequest>,
    prefetches: VecDeque<MemoryRequest>,
    writes: VecDeque<MemoryRequest>,
    finished: Finished,
    held: usize,
    /// Since when the first of the input cannot go on.
    stalled: Option<u64>,
    failed: bool,
    done: Vec<Completion>,
    counts: Counts,
}

impl<O: Observer> DramCache<O> {
    /// An empty cache for a device.
    ///
    /// # Errors
    /// The parameter that cannot be accepted, or does not go with the device's capacity.
    pub fn new(params: &DramCacheParams, site: Site, observer: O) -> Result<Self, ParamError> {
        let resolved = params.resolve()?;
        resolved.check(site.capacity)?;
        let Site { capacity, mut rng } = site;
        let mut stream = |name| StreamRng::new(rng.next_u64(), name);
        let part = |medium: &dyn Medium, capacity, rng| medium.backend(Site { capacity, rng });
        let dram = part(resolved.dram.as_ref(), resolved.size, stream("dram"));
        let behind = part(resolved.behind.as_ref(), capacity, stream("behind"));
        let tags = TagArray::new(
            resolved.shape.geometry,
            resolved.policy.as_ref(),
            stream("tags"),
        );
        let shape = resolved.shape;
        let sector_bytes = shape.sector_lines * LINE_BYTES;
        let page_sectors = shape.page_lines / shape.sector_lines;
        let granule_sectors = u64::from(behind.granule()) / sector_bytes;
        let fetch = Fetch {
            used: false,
            page: 0,
            slot: Slot(0),
            sectors: 0,
            critical: 0,
            reads: 0,
            held: 0,
            after: NONE,
            prefetch: false,
            first: NONE,
            last: NONE,
            targets: 0,
        };
        let leaving = Leaving {
            used: false,
            page: 0,
            slot: Slot(0),
            sectors: 0,
            reads: 0,
            writes: 0,
        };
        Ok(DramCache {
            pages: capacity.0 / resolved.page.0,
            granule_sectors: granule_sectors.clamp(1, page_sectors),
            tags,
            dram: Nested::new(dram),
            behind: Nested::new(behind),
            prefetcher: resolved.prefetch.state(),
            observer,
            requests: Slab::with_capacity(shape.queue),
            input: VecDeque::with_capacity(shape.queue),
            pieces: Slab::with_capacity(shape.queue),
            fetches: vec![fetch; shape.mshrs],
            fetching: 0,
            parts: Slab::with_capacity(shape.mshrs),
            leaving: vec![leaving; shape.write_buffer],
            leaves: 0,
            to_prefetch: VecDeque::with_capacity(PREFETCH_QUEUE),
            to_dram: VecDeque::with_capacity(shape.queue),
            demands: VecDeque::with_capacity(shape.mshrs),
            prefetches: VecDeque::with_capacity(shape.mshrs),
            writes: VecDeque::with_capacity(shape.write_buffer),
            finished: Finished::with_capacity(shape.queue),
            held: 0,
            stalled: None,
            failed: false,
            done: Vec::with_capacity(shape.mshrs),
            counts: Counts::default(),
            shape,
        })
    }

    /// What hears of movements.
    pub fn observer(&self) -> &O {
        &self.observer
    }

    /// What hears of movements.
    pub fn observer_mut(&mut self) -> &mut O {
        &mut self.observer
    }

    /// Power fails: what the owner was not answered is forgotten, and on stored energy everything
    /// dirty goes to the slow medium. The cache takes no requests afterwards.
    pub fn power_fail(&mut self, now: SimTime) -> PowerFail {
        self.catch_up(now.0);
        self.failed = true;
        self.input.clear();
        self.to_prefetch.clear();
        self.demands.clear();
        self.prefetches.clear();
        self.finished = Finished::with_capacity(0);
        let before = self.counts.written;
        let pending: u64 = self.writes.iter().map(|one| u64::from(one.lines)).sum();
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
        PowerFail {
            lines: self.counts.written - before + pending,
            at: SimTime(at),
        }
    }

    /// Goes on to the next event after a power failure.
    fn wait(&mut self, now: u64) -> u64 {
        let next = self.next_inside().expect("a page that leaves is under way");
        let next = next.max(now);
        self.step(next);
        next
    }

    /// The sectors of a page that lines touch, and those that they cover.
    fn sectors(&self, line: u64, lines: u64) -> (u64, u64) {
        let size = self.shape.sector_lines;
        let first = line % self.shape.page_lines;
        let end = first + lines;
        let (low, high) = (first / size, end.div_ceil(size));
        let (inner, top) = (first.div_ceil(size), end / size);
        let covered = top.saturating_sub(inner);
        (span(low, high - low), span(inner.min(63), covered))
    }

    /// Every sector of a page.
    fn all(&self) -> u64 {
        span(0, self.shape.page_lines / self.shape.sector_lines)
    }

    /// A set of sectors, rounded out to what the slow medium reads and writes as a whole.
    fn rounded(&self, set: u64) -> u64 {
        let size = self.granule_sectors;
        if size == 1 {
            return set;
        }
        let mut out = 0;
        let mut rest = set;
        while rest != 0 {
            let first = u64::from(rest.trailing_zeros()) / size * size;
            let granule = span(first, size);
            out |= granule;
            rest &= !granule;
        }
        out
    }

    /// The first line and the number of lines of a run of sectors of a page.
    fn lines_of(&self, page: u64, (first, count): (u64, u64)) -> (u64, u64) {
        let size = self.shape.sector_lines;
        (page * self.shape.page_lines + first * size, count * size)
    }

    /// Tells the observer of each run of a set of sectors.
    fn tell(&mut self, movement: Movement, page: u64, set: u64) {
        for run in runs(set) {
            let (line, lines) = self.lines_of(page, run);
            self.observer.moved(movement, line, lines);
        }
    }

    /// Lines of a page in the DRAM, as a request to it.
    fn in_dram(&self, slot: Slot, line: u64, lines: u64, write: bool, id: u32) -> MemoryRequest {
        let line = slot.index() as u64 * self.shape.page_lines + line % self.shape.page_lines;
        MemoryRequest {
            id,
            dpa: Dpa(line * LINE_BYTES),
            lines: lines as u16,
            write,
        }
    }

    /// When something happens inside.
    fn next_inside(&self) -> Option<u64> {
        let input = match (self.stalled, self.input.front()) {
            (None, Some(first)) => Some(first.ready),
            _ => None,
        };
        let parts = [input, self.dram.next_event(), self.behind.next_event()];
        parts.into_iter().flatten().min()
    }

    fn catch_up(&mut self, now: u64) {
        while let Some(next) = self.next_inside()
            && next <= now
        {
            self.step(next);
        }
    }

    /// Does what happens at `now`.
    fn step(&mut self, now: u64) {
        let mut done = std::mem::take(&mut self.done);
        self.behind.advance(now, &mut done);
        for one in done.drain(..) {
            if one.id & LEAVING != 0 {
                self.written(one.id & !LEAVING);
            } else {
                self.arrived(now, one.id);
            }
        }
        self.dram.advance(now, &mut done);
        for one in done.drain(..) {
            match one.id {
                FILL => {}
                id if id & LEAVING != 0 => self.read_out(now, id & !LEAVING),
                id => self.piece_done(id, now),
            }
        }
        self.done = done;
        self.look_up(now);
        self.prefetch();
        self.drain(now);
    }

    /// Looks up what waits, until one cannot go on.
    fn look_up(&mut self, now: u64) {
        while let Some(first) = self.input.front().copied()
            && first.ready <= now
        {
            let page = first.line / self.shape.page_lines;
            let end = (page + 1) * self.shape.page_lines;
            let piece = Piece {
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

    /// One piece goes into the cache; false if it must wait.
    fn access(&mut self, now: u64, page: u64, piece: Piece) -> bool {
        let (needed, covered) = self.sectors(piece.line, piece.lines);
        let spared = if piece.write && self.shape.by_sector {
            covered
        } else {
            0
        };
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
            let outcome = self.first_use(slot, Outcome::Hit);
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
        let outcome = self.first_use(slot, Outcome::Miss);
        let fetch = self.fetch(page, slot, wanted, missing, false);
        self.join(fetch, piece);
        self.tags.touch(slot);
        self.tell_prefetcher(page, outcome);
        true
    }

    /// A fetch under way that brings sectors of a page.
    fn bringing(&self, here: Page, page: u64, sectors: u64) -> Option<u32> {
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

    /// The sectors are there, or are written as a whole.
    fn hit(&mut self, page: u64, slot: Slot, piece: Piece, needed: u64) {
        self.counts.hits += 1;
        let outcome = self.first_use(slot, Outcome::Hit);
        self.tags.touch(slot);
        let number = self.add_piece(piece);
        self.touch_data(slot, number, needed);
        self.tell_prefetcher(page, outcome);
    }

    /// A piece goes to the DRAM.
    fn touch_data(&mut self, slot: Slot, number: u32, needed: u64) {
        let piece = self.pieces.get(number);
        self.apply(slot, piece, needed);
        let request = self.in_dram(slot, piece.line, piece.lines, piece.write, number);
        self.to_dram.push_back(request);
    }

    /// What a piece does to the page's state.
    fn apply(&mut self, slot: Slot, piece: Piece, needed: u64) {
        let id = self.requests.get(piece.request).id;
        if piece.write {
            let page = &mut self.tags[slot];
            page.valid |= needed;
            page.dirty |= needed;
            self.tags.set_dirty(slot, true);
            self.observer
                .moved(Movement::Write { id }, piece.line, piece.lines);
        } else {
            self.observer
                .moved(Movement::Read { id }, piece.line, piece.lines);
        }
    }

    /// What is said of a page that a request asks for: whether a prefetch brought it.
    fn first_use(&mut self, slot: Slot, otherwise: Outcome) -> Outcome {
        let page = &mut self.tags[slot];
        if !std::mem::take(&mut page.prefetched) {
            return otherwise;
        }
        self.counts.useful += 1;
        self.counts.late += u64::from(page.fetches > 0);
        Outcome::PrefetchHit
    }

    fn tell_prefetcher(&mut self, page: u64, outcome: Outcome) {
        let mut wanted = Candidates::default();
        self.prefetcher.accessed(page, outcome, &mut wanted);
        for page in wanted.as_slice() {
            if self.to_prefetch.len() == PREFETCH_QUEUE {
                self.to_prefetch.pop_front();
            }
            self.to_prefetch.push_back(*page);
        }
    }

    fn in_write_buffer(&self, page: u64) -> Option<usize> {
        if self.leaves == 0 {
            return None;
        }
        let same = |one: &Leaving| one.used && one.page == page;
        self.leaving.iter().position(same)
    }

    fn serve_from_write_buffer(&mut self, now: u64, piece: Piece) {
        self.counts.write_buffer_hits += 1;
        let id = self.requests.get(piece.request).id;
        let movement = Movement::ReadWriteBuffer { id };
        self.observer.moved(movement, piece.line, piece.lines);
        let number = self.add_piece(piece);
        self.piece_done(number, now);
    }

    /// A frame for a page that has none; `None` if it must wait.
    fn allocate(&mut self, page: u64) -> Option<Slot> {
        let mut reading = NONE;
        match self.tags.room(LineAddr(page)) {
            Room::Free => {}
            Room::Pinned => return None,
            Room::Evict(block) => {
                let slot = self.tags.find(block.victim)?;
                let victim = self.tags[slot];
                if victim.dirty != 0 {
                    if self.leaves == self.leaving.len() {
                        return None;
                    }
                    reading = self.write_back(slot);
                    self.counts.dirty += 1;
                } else {
                    // A page that came and went while its frame was still being read out.
                    reading = victim.reading;
                    self.counts.clean += 1;
                }
                self.counts.useless += u64::from(victim.prefetched);
                self.tell(Movement::Dropped, block.victim.0, victim.valid);
                self.tags.remove(slot);
            }
        }
        let state = Page {
            reading,
            ..Page::default()
        };
        Some(self.tags.insert(LineAddr(page), state))
    }

    /// Puts a dirty page into the write-back buffer, which has room.
    fn write_back(&mut self, slot: Slot) -> u32 {
        let page = self.tags.line(slot).0;
        let Page { valid, dirty, .. } = self.tags[slot];
        let mut sectors = dirty;
        // A granule of the slow medium that is here as a whole is written as a whole.
        let granules = self.rounded(dirty);
        for (first, count) in runs(granules) {
            for granule in 0..count / self.granule_sectors {
                let set = span(first + granule * self.granule_sectors, self.granule_sectors);
                if set & !valid == 0 {
                    sectors |= set;
                }
            }
        }
        let free = self.leaving.iter().position(|one| !one.used);
        let at = free.expect("the write-back buffer has room");
        self.leaves += 1;
        self.leaving[at] = Leaving {
            used: true,
            page,
            slot,
            sectors,
            reads: runs(sectors).count() as u32,
            writes: 0,
        };
        self.tell(Movement::Buffered, page, sectors);
        for run in runs(sectors) {
            let (line, lines) = self.lines_of(page, run);
            let request = self.in_dram(slot, line, lines, false, LEAVING | at as u32);
            self.to_dram.push_back(request);
        }
        at as u32
    }

    /// Lines of a page were read out of the DRAM.
    fn read_out(&mut self, now: u64, number: u32) {
        let leaving = &mut self.leaving[number as usize];
        leaving.reads -= 1;
        if leaving.reads > 0 {
            return;
        }
        let Leaving {
            page,
            slot,
            sectors,
            ..
        } = *leaving;
        leaving.writes = runs(sectors).count() as u32;
        for run in runs(sectors) {
            let (line, lines) = self.lines_of(page, run);
            self.counts.written += lines;
            self.writes.push_back(MemoryRequest {
                id: LEAVING | number,
                dpa: Dpa(line * LINE_BYTES),
                lines: lines as u16,
                write: true,
            });
        }
        self.tell(Movement::Writing, page, sectors);
        if self.tags[slot].reading == number {
            self.tags[slot].reading = NONE;
            for fetch in 0..self.fetches.len() {
                let Fetch {
                    used,
                    slot: frame,
                    held,
                    ..
                } = self.fetches[fetch];
                if used && frame == slot && held != 0 {
                    self.fetches[fetch].held = 0;
                    self.install(now, fetch as u32, held);
                }
            }
        }
    }

    /// The slow medium has written lines of a page.
    fn written(&mut self, number: u32) {
        let leaving = &mut self.leaving[number as usize];
        leaving.writes -= 1;
        if leaving.writes > 0 {
            return;
        }
        leaving.used = false;
        self.leaves -= 1;
        let Leaving { page, sectors, .. } = *leaving;
        self.tell(Movement::Written, page, sectors);
        for fetch in 0..self.fetches.len() {
            if self.fetches[fetch].used && self.fetches[fetch].after == number {
                self.fetches[fetch].after = NONE;
                self.ask(fetch as u32);
            }
        }
    }

    /// Begins to fetch sectors; there is a fetch free.
    fn fetch(&mut self, page: u64, slot: Slot, wanted: u64, critical: u64, prefetch: bool) -> u32 {
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

    /// Asks the slow medium for what a fetch brings.
    fn ask(&mut self, number: u32) {
        let Fetch {
            page,
            sectors,
            critical,
            prefetch,
            ..
        } = self.fetches[number as usize];
        if self.failed {
            return;
        }
        let mut pieces = [sectors, 0, 0];
        if self.shape.critical_first && critical != 0 {
            let (first, count) = hull(critical);
            let (low, all) = hull(sectors);
            let end = first + count;
            pieces = [
                span(first, count),
                span(end.min(63), low + all - end),
                span(low, first - low),
            ];
        }
        for set in pieces.into_iter().filter(|set| *set != 0) {
            let part = Part {
                fetch: number,
                sectors: set,
            };
            let id = self.parts.add(part);
            self.fetches[number as usize].reads += 1;
            let (line, lines) = self.lines_of(page, hull(set));
            self.counts.fetched += lines;
            self.tell(Movement::Asked, page, set);
            let queue = match prefetch {
                true => &mut self.prefetches,
                false => &mut self.demands,
            };
            queue.push_back(MemoryRequest {
                id,
                dpa: Dpa(line * LINE_BYTES),
                lines: lines as u16,
                write: false,
            });
        }
    }

    /// A piece joins those that wait for a fetch.
    fn join(&mut self, fetch: u32, piece: Piece) {
        let number = self.add_piece(piece);
        self.fetches[fetch as usize].targets += 1;
        self.wait_for(fetch, number);
    }

    fn wait_for(&mut self, fetch: u32, number: u32) {
        self.pieces.get_mut(number).next = NONE;
        let fetch = &mut self.fetches[fetch as usize];
        match fetch.last {
            NONE => fetch.first = number,
            last => self.pieces.get_mut(last).next = number,
        }
        fetch.last = number;
    }

    /// Sectors came from the slow medium.
    fn arrived(&mut self, now: u64, part: u32) {
        let Part { fetch, sectors } = self.parts.remove(part);
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

    /// Sectors go into the frame, and the requests that waited for them go on.
    fn install(&mut self, now: u64, number: u32, sectors: u64) {
        let Fetch { page, slot, .. } = self.fetches[number as usize];
        let new = sectors & !self.tags[slot].valid;
        self.tags[slot].valid |= new;
        self.tell(Movement::Installed, page, new);
        for run in runs(new) {
            let (line, lines) = self.lines_of(page, run);
            let request = self.in_dram(slot, line, lines, true, FILL);
            self.to_dram.push_back(request);
        }
        self.serve(now, number, new);
        let fetch = self.fetches[number as usize];
        if fetch.reads == 0 && fetch.held == 0 {
            self.end_fetch(number);
        }
    }

    /// The requests that wait for a fetch and lack nothing any more are served: from what just
    /// came if that is all they need, else by the DRAM.
    fn serve(&mut self, now: u64, number: u32, new: u64) {
        let slot = self.fetches[number as usize].slot;
        let mut at = std::mem::replace(&mut self.fetches[number as usize].first, NONE);
        self.fetches[number as usize].last = NONE;
        while at != NONE {
            let piece = self.pieces.get(at);
            let (needed, covered) = self.sectors(piece.line, piece.lines);
            let spared = if piece.write && self.shape.by_sector {
                covered
            } else {
                0
            };
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

    /// A fetch has brought everything.
    fn end_fetch(&mut self, number: u32) {
        let Fetch {
            page,
            slot,
            prefetch,
            first,
            ..
        } = self.fetches[number as usize];
        assert!(first == NONE, "a fetch brings all that its requests need");
        self.fetches[number as usize].used = false;
        self.fetching -= 1;
        let state = &mut self.tags[slot];
        state.fetches -= 1;
        if state.fetch == number {
            state.fetch = NONE;
        }
        if state.fetches == 0 {
            self.tags.unpin(slot);
        }
        self.prefetcher.filled(page, prefetch);
    }

    /// Fetches pages that nobody has asked for, while a fetch is left for those who will.
    fn prefetch(&mut self) {
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

    /// Gives the media what they accept.
    fn drain(&mut self, now: u64) {
        let offer = |medium: &mut Nested, queue: &mut VecDeque<MemoryRequest>| {
            while let Some(first) = queue.front().copied()
                && medium.offer(now, first)
            {
                queue.pop_front();
            }
        };
        offer(&mut self.dram, &mut self.to_dram);
        offer(&mut self.behind, &mut self.demands);
        if self.demands.is_empty() {
            offer(&mut self.behind, &mut self.prefetches);
        }
        offer(&mut self.behind, &mut self.writes);
    }

    fn add_piece(&mut self, piece: Piece) -> u32 {
        self.requests.get_mut(piece.request).pieces += 1;
        self.pieces.add(piece)
    }

    fn piece_done(&mut self, number: u32, at: u64) {
        let piece = self.pieces.remove(number);
        self.request_done(piece.request, at);
    }

    /// A piece of a request is done, or all of it was looked up.
    fn request_done(&mut self, number: u32, at: u64) {
        let request = self.requests.get_mut(number);
        request.pieces -= 1;
        request.at = request.at.max(at);
        if request.pieces == 0 {
            let Request { id, at, .. } = self.requests.remove(number);
            self.finished.push(at, id);
        }
    }
}

impl<O: Observer> MemoryBackend for DramCache<O> {
    fn can_accept(&mut self, _now: SimTime, _write: bool) -> bool {
        !self.failed && self.held < self.shape.queue
    }

    fn enqueue(&mut self, now: SimTime, request: MemoryRequest) -> Option<SimTime> {
        self.catch_up(now.0);
        self.held += 1;
        let number = self.requests.add(Request {
            id: request.id,
            pieces: 1,
            at: now.0,
        });
        self.input.push_back(Waiting {
            ready: now.0 + self.shape.lookup_ps,
            request: number,
            line: request.dpa.line().0,
            lines: request.lines.into(),
            write: request.write,
        });
        if self.shape.lookup_ps == 0 {
            self.catch_up(now.0);
        }
        None
    }

    fn next_event(&self) -> Option<SimTime> {
        let next = match (self.next_inside(), self.finished.next()) {
            (Some(inside), Some(finished)) => Some(inside.min(finished)),
            (inside, finished) => inside.or(finished),
        };
        next.map(SimTime)
    }

    fn advance(&mut self, now: SimTime, done: &mut Vec<Completion>) {
        self.catch_up(now.0);
        let before = done.len();
        self.finished.drain(now.0, done);
        self.held -= done.len() - before;
    }

    fn begin_measurement(&mut self, now: SimTime) {
        self.counts = Counts::default();
        if self.stalled.is_some() {
            self.stalled = Some(now.0);
        }
        self.dram.begin_measurement(now);
        self.behind.begin_measurement(now);
    }

    fn statistics(&self, now: SimTime, out: &mut Vec<Statistic>) {
        let counts = &self.counts;
        let asked = counts.hits + counts.misses + counts.merged + counts.write_buffer_hits;
        let stalled = counts.stalled_ps + self.stalled.map_or(0, |since| now.0 - since);
        let part = |of: u64, all: u64| of as f64 / all.max(1) as f64;
        for (name, value) in [
            ("hits", counts.hits as f64),
            ("misses", counts.misses as f64),
            ("merged", counts.merged as f64),
            ("write_buffer_hits", counts.write_buffer_hits as f64),
            ("hit_ratio", part(counts.hits, asked)),
            ("evictions_clean", counts.clean as f64),
            ("evictions_dirty", counts.dirty as f64),
            ("fetches", counts.fetches as f64),
            ("fetched_lines", counts.fetched as f64),
            ("written_back_lines", counts.written as f64),
            ("prefetches", counts.prefetches as f64),
            ("prefetches_useful", counts.useful as f64),
            ("prefetches_late", counts.late as f64),
            ("prefetches_useless", counts.useless as f64),
            (
                "prefetch_accuracy",
                part(counts.useful, counts.useful + counts.useless),
            ),
            ("stalled_ns", stalled as f64 / 1e3),
        ] {
            out.push(Statistic {
                name: name.to_owned(),
                value,
            });
        }
        self.dram.statistics(now, "dram.", out);
        self.behind.statistics(now, "behind.", out);
    }
}
