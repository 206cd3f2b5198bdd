//! The state of a DRAM cache.

mod access;
mod counts;
mod fetches;
mod leaves;
mod lines;
mod warm;

use std::collections::VecDeque;

use cxlab_cache::prefetch::Prefetcher;
use cxlab_cache::{Completion, MemoryBackend, MemoryRequest, Slot, Statistic, TagArray};
use cxlab_engine::catalog::ParamError;
use cxlab_engine::list::NONE;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::slab::Slab;
use cxlab_engine::units::{LINE_BYTES, SimTime};

use super::fetch::{Fetch, PageAccess, Request, SlowRead, WriteBackEntry};
use super::observer::{MovementObserver, NoObserver};
use super::params::{CacheShape, DramCacheParams, ResolvedCache};
use crate::completion_queue::CompletionQueue;
use crate::nested::InnerMedium;
use crate::{Medium, MediumSite};
use counts::CacheCounters;
use serde::{Deserialize, Serialize};

/// Length of the queue of prefetches; further ones push out the oldest (*assumed*).
const PREFETCH_QUEUE: usize = 32;
/// Number of DRAM writes that no request waits for.
const FILL: u32 = u32::MAX;
/// Bit of request numbers that belong to a page of the write-back buffer.
const LEAVING: u32 = 1 << 31;

/// The state of a page in the cache.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct CachedPage {
    valid: u64,
    dirty: u64,
    /// An outstanding fetch of the page, or `NONE`.
    fetch: u32,
    /// Number of outstanding fetches of the page.
    fetches: u32,
    /// The entry of the write-back buffer that is still read out of this frame.
    reading: u32,
    /// Whether the page was prefetched and not used yet.
    prefetched: bool,
}

impl Default for CachedPage {
    fn default() -> Self {
        CachedPage {
            valid: 0,
            dirty: 0,
            fetch: NONE,
            fetches: 0,
            reading: NONE,
            prefetched: false,
        }
    }
}

/// A request, or its rest, that waits for its look-up.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct QueuedRequest {
    ready: u64,
    request: u32,
    line: u64,
    lines: u64,
    write: bool,
}

/// The work that a power failure caused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PowerFailureFlush {
    /// Lines of 64 bytes written to the slow medium after the failure.
    pub lines: u64,
    /// Time at which the last of them was written.
    pub at: SimTime,
}

/// Requests that the media have not accepted yet.
#[derive(Serialize, Deserialize)]
struct Outgoing {
    dram: VecDeque<MemoryRequest>,
    /// Reads of the slow medium that requests wait for, prefetches, and writes.
    demands: VecDeque<MemoryRequest>,
    prefetches: VecDeque<MemoryRequest>,
    writes: VecDeque<MemoryRequest>,
}

/// A DRAM cache in front of a slow medium.
pub struct DramCache<O: MovementObserver = NoObserver> {
    shape: CacheShape,
    /// Number of pages in the device.
    pages: u64,
    /// Number of sectors in a granule of the slow medium.
    granule_sectors: u64,
    tags: TagArray<CachedPage>,
    dram: InnerMedium,
    behind: InnerMedium,
    prefetcher: Box<dyn Prefetcher>,
    observer: O,
    requests: Slab<Request>,
    input: VecDeque<QueuedRequest>,
    pieces: Slab<PageAccess>,
    fetches: Vec<Fetch>,
    fetching: usize,
    parts: Slab<SlowRead>,
    leaving: Vec<WriteBackEntry>,
    leaves: usize,
    to_prefetch: VecDeque<u64>,
    outgoing: Outgoing,
    finished: CompletionQueue,
    held: usize,
    /// Time since which the first waiting request cannot proceed.
    stalled: Option<u64>,
    failed: bool,
    done: Vec<Completion>,
    counts: CacheCounters,
}

save_state!([O: MovementObserver] DramCache<O> {
    values: requests, input, pieces, fetching, parts, leaves, to_prefetch, outgoing, held, stalled, failed, counts;
    sized: fetches, leaving;
    states: tags, dram, behind, prefetcher, finished;
    built: shape, pages, granule_sectors, observer, done;
});

impl<O: MovementObserver> DramCache<O> {
    /// An empty cache for a device.
    ///
    /// # Errors
    /// The parameter that is invalid, or does not fit the capacity of the device.
    pub fn new(
        params: &DramCacheParams,
        site: MediumSite,
        observer: O,
    ) -> Result<Self, ParamError> {
        DramCache::resolved(&params.resolve()?, site, observer)
    }

    /// An empty cache for a device, from resolved parameters.
    ///
    /// # Errors
    /// The parameter that does not fit the capacity of the device.
    pub(super) fn resolved(
        resolved: &ResolvedCache,
        site: MediumSite,
        observer: O,
    ) -> Result<Self, ParamError> {
        resolved.check_capacity(site.capacity)?;
        let MediumSite {
            capacity,
            mut rng,
            context,
        } = site;
        let mut stream = |name| StreamRng::new(rng.next_u64(), name);
        let part = |medium: &dyn Medium, capacity, rng| {
            medium.backend(MediumSite {
                capacity,
                rng,
                context: context.clone(),
            })
        };
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
            slot: Slot::default(),
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
        let leaving = WriteBackEntry {
            used: false,
            page: 0,
            slot: Slot::default(),
            sectors: 0,
            reads: 0,
            writes: 0,
        };
        Ok(DramCache {
            pages: capacity.0 / resolved.page.0,
            granule_sectors: granule_sectors.clamp(1, page_sectors),
            tags,
            dram: InnerMedium::new(dram),
            behind: InnerMedium::new(behind),
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
            outgoing: Outgoing {
                dram: VecDeque::with_capacity(shape.queue),
                demands: VecDeque::with_capacity(shape.mshrs),
                prefetches: VecDeque::with_capacity(shape.mshrs),
                writes: VecDeque::with_capacity(shape.write_buffer),
            },
            finished: CompletionQueue::with_capacity(shape.queue),
            held: 0,
            stalled: None,
            failed: false,
            done: Vec::with_capacity(shape.mshrs),
            counts: CacheCounters::default(),
            shape,
        })
    }

    /// The observer of movements.
    pub fn observer(&self) -> &O {
        &self.observer
    }

    /// The observer of movements, mutable.
    pub fn observer_mut(&mut self) -> &mut O {
        &mut self.observer
    }

    /// Time of the next internal event.
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

    /// Handles the events at `now`.
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

    /// Passes queued requests to the media while they accept them.
    fn drain(&mut self, now: u64) {
        let offer = |medium: &mut InnerMedium, queue: &mut VecDeque<MemoryRequest>| {
            while let Some(first) = queue.front().copied()
                && medium.offer(now, first)
            {
                queue.pop_front();
            }
        };
        offer(&mut self.dram, &mut self.outgoing.dram);
        offer(&mut self.behind, &mut self.outgoing.demands);
        if self.outgoing.demands.is_empty() {
            offer(&mut self.behind, &mut self.outgoing.prefetches);
        }
        offer(&mut self.behind, &mut self.outgoing.writes);
    }
}

impl<O: MovementObserver> MemoryBackend for DramCache<O> {
    fn can_accept(&mut self, _now: SimTime, _write: bool) -> bool {
        !self.failed && self.held < self.shape.queue
    }

    fn enqueue(&mut self, now: SimTime, request: MemoryRequest) -> Option<SimTime> {
        self.catch_up(now.0);
        self.held += 1;
        let number = self.requests.insert(Request {
            id: request.id,
            pieces: 1,
            at: now.0,
        });
        self.input.push_back(QueuedRequest {
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

    fn warm(&mut self, request: MemoryRequest) {
        self.warm_request(request);
    }

    fn begin_measurement(&mut self, now: SimTime) {
        self.counts = CacheCounters::default();
        if self.stalled.is_some() {
            self.stalled = Some(now.0);
        }
        self.dram.begin_measurement(now);
        self.behind.begin_measurement(now);
    }

    fn statistics(&self, now: SimTime, out: &mut Vec<Statistic>) {
        let stalled = self.stalled.map_or(0, |since| now.0 - since);
        self.counts.append_statistics(stalled, out);
        let first = out.len();
        self.dram.statistics(now, "", out);
        // The names of the medium `dram` begin so already.
        let others = out[first..]
            .iter_mut()
            .filter(|one| !one.name.starts_with("dram."));
        others.for_each(|one| one.name.insert_str(0, "dram."));
        self.behind.statistics(now, "behind.", out);
    }
}
