//! The event queues for block-by-block execution.
//!
//! In a window no block can affect another. So when a block begins, all of its events in the window are
//! known, except those that it will send to itself. The events of the block are distributed over buckets
//! of time, and those of the next block behind them. So the next dozen events are always known, also
//! across blocks, and can be prefetched. A bucket is sorted when its time comes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{EventKey, NOBODY, NearEvent, PoppedEvent, Sorter, Target};
use crate::prefetch::{prefetch, prefetch_to_write};

/// Number of buckets of a window: as many as one word has bits.
const BUCKETS: usize = u64::BITS as usize;

/// Number of windows after the present one whose events are stored in a list, which each window walks
/// (*assumed*). Later events are in a heap.
const WINDOWS: u64 = 16;

/// Marks the end of a linked list.
const NONE: u32 = u32::MAX;

/// Events of a block after the present window.
#[derive(Clone)]
struct Pending {
    /// Events before the horizon, in no particular order.
    events: Vec<NearEvent>,
    /// The time of the earliest event in `events` and `far`, `u64::MAX` when there is none.
    first: u64,
    /// Events that were beyond the horizon when they were added.
    far: BinaryHeap<Reverse<NearEvent>>,
}

impl Pending {
    /// Adds an event beyond the horizon.
    #[cold]
    fn push_far(&mut self, key: EventKey, target: Target, place: u32) {
        self.far.push(Reverse(NearEvent { key, target, place }));
    }
}

/// The buckets of those events of a block that are known when the block begins.
#[derive(Clone)]
struct Buckets {
    /// The end of each bucket among the block's events in [`BlockQueues::line`]. The last bucket has events
    /// after the window.
    ends: [u32; BUCKETS + 1],
    /// A bit for each bucket, set where the bucket has events.
    occupied: u64,
}

impl Buckets {
    const EMPTY: Buckets = Buckets {
        ends: [0; BUCKETS + 1],
        occupied: 0,
    };
}

/// Events that a block has sent to itself in the window, by bucket.
#[derive(Clone)]
struct SelfSentEvents {
    /// Each event with the index of the next one in the list of its bucket.
    events: Vec<(NearEvent, u32)>,
    /// The first event in the list of each bucket.
    heads: [u32; BUCKETS],
    /// A bit for each bucket, set where the bucket has events.
    occupied: u64,
}

/// The events of all blocks of a partition.
#[derive(Clone)]
pub(crate) struct BlockQueues {
    blocks: Vec<Pending>,
    /// Blocks with events in the window that have not begun, the next block last.
    waiting: Vec<usize>,
    /// The events of the active bucket, sorted so that the next event is last.
    active: Vec<NearEvent>,
    sorter: Sorter,
    /// Number of the bucket after the active one.
    reached: usize,
    /// Events of the current block by bucket, and after them those of the next block. Events that a block
    /// sends to itself are not in the line.
    line: Vec<NearEvent>,
    /// Number of events in `line` that are of the current block.
    count: usize,
    /// The buckets of the current block.
    buckets: Box<Buckets>,
    /// The buckets of the next block.
    next_buckets: Box<Buckets>,
    /// Number of entries of `line` already consumed. An event that the block sent to itself counts for an
    /// entry of its bucket, so prefetching advances by one entry an event.
    passed: usize,
    /// The end of the active bucket in the line.
    bucket_end: usize,
    self_sent: Box<SelfSentEvents>,
    /// Beginning of the window in picoseconds.
    start: u64,
    /// End of the window in picoseconds; zero between windows.
    end: u64,
    /// The width of a bucket as a power of two of picoseconds.
    shift: u32,
    /// Time from which on new events go into the heaps, in picoseconds.
    horizon: u64,
    /// Length of a window in picoseconds.
    span: u64,
}

/// The bucket of a time in the window that begins at `start`.
#[inline(always)]
fn bucket(time: u64, start: u64, shift: u32) -> usize {
    ((time - start) >> shift) as usize % BUCKETS
}

impl BlockQueues {
    /// Empty queues for this number of blocks, with windows of `span` picoseconds, from `time` on.
    pub(super) fn new(blocks: usize, span: u64, time: u64) -> BlockQueues {
        let pending = Pending {
            events: Vec::new(),
            first: u64::MAX,
            far: BinaryHeap::new(),
        };
        BlockQueues {
            blocks: vec![pending; blocks],
            waiting: Vec::with_capacity(blocks),
            active: Vec::new(),
            sorter: Sorter::default(),
            reached: 0,
            line: Vec::new(),
            count: 0,
            buckets: Box::new(Buckets::EMPTY),
            next_buckets: Box::new(Buckets::EMPTY),
            passed: 0,
            bucket_end: 0,
            self_sent: Box::new(SelfSentEvents {
                events: Vec::new(),
                heads: [NONE; BUCKETS],
                occupied: 0,
            }),
            start: 0,
            end: 0,
            shift: (u64::BITS - span.leading_zeros()).saturating_sub(BUCKETS.ilog2()),
            horizon: time.saturating_add(span.saturating_mul(WINDOWS)),
            span,
        }
    }

    /// Number of blocks.
    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        self.blocks.len()
    }

    /// Begins a window at the time of the earliest event. The window ends at `limit` at the latest.
    /// Returns false if no event is before `limit`.
    pub(crate) fn open(&mut self, limit: u64) -> bool {
        self.start = self.next_time();
        if self.start >= limit {
            return false;
        }
        self.end = self.start.saturating_add(self.span).min(limit);
        self.horizon = self.end.saturating_add(self.span.saturating_mul(WINDOWS));
        self.line.clear();
        (self.count, self.passed) = (0, 0);
        let blocks = self.blocks.iter().enumerate().rev();
        let ready = blocks.filter(|(_, pending)| pending.first < self.end);
        self.waiting.extend(ready.map(|(block, _)| block));
        self.fill_next();
        true
    }

    /// Begins the next block, whose events alone are popped from then on, and returns it. Returns `None`
    /// and ends the window after the last block. Events for other blocks are always after the window.
    pub(crate) fn begin_block(&mut self) -> Option<usize> {
        debug_assert!(self.active.is_empty());
        let Some(block) = self.waiting.pop() else {
            self.end = 0;
            return None;
        };
        self.line.drain(..self.count);
        std::mem::swap(&mut self.buckets, &mut self.next_buckets);
        self.count = self.line.len();
        (self.reached, self.passed, self.bucket_end) = (0, 0, 0);
        self.fill_next();
        if let [.., after_next, _] = self.waiting[..] {
            for events in self.blocks[after_next].events.chunks(2) {
                prefetch(events);
            }
        }
        Some(block)
    }

    /// Appends the events of the next block in the window to the line.
    fn fill_next(&mut self) {
        let Some(&block) = self.waiting.last() else {
            return;
        };
        let (start, end, shift) = (self.start, self.end, self.shift);
        let (pending, buckets) = (&mut self.blocks[block], &mut *self.next_buckets);
        while let Some(Reverse(near)) = pending.far.peek() {
            if near.key.time >= end {
                break;
            }
            pending.events.push(*near);
            pending.far.pop();
        }
        // A branch on whether an event is in the window could not be predicted. So all events are
        // distributed, with one bucket for those after the window.
        let bucket = |near: &NearEvent| match near.key.time < end {
            true => bucket(near.key.time, start, shift),
            false => BUCKETS,
        };
        *buckets = Buckets::EMPTY;
        for near in &pending.events {
            buckets.ends[bucket(near)] += 1;
        }
        let mut before = 0;
        // Each count becomes the index at which the bucket begins, and with the last of its events its end.
        for (number, end) in buckets.ends.iter_mut().enumerate() {
            buckets.occupied |= u64::from(*end > 0).unbounded_shl(number as u32);
            before += std::mem::replace(end, before);
        }
        let first = self.line.len();
        self.line.resize(first + pending.events.len(), NOBODY);
        let line = &mut self.line[first..];
        for near in &pending.events {
            let end = &mut buckets.ends[bucket(near)];
            line[*end as usize] = *near;
            *end += 1;
        }
        let (_, later) = line.split_at(buckets.ends[BUCKETS - 1] as usize);
        pending.events.clear();
        pending.events.extend_from_slice(later);
        let far = pending.far.peek().map(|Reverse(near)| near);
        let times = later.iter().chain(far).map(|near| near.key.time);
        pending.first = times.min().unwrap_or(u64::MAX);
        self.line
            .truncate(first + buckets.ends[BUCKETS - 1] as usize);
    }

    /// Adds an event for a component of this block: for the current block also in the window,
    /// otherwise after it.
    #[inline(always)]
    pub(super) fn push_to(&mut self, block: usize, key: EventKey, target: Target, place: u32) {
        if key.time < self.end {
            return self.insert(key, target, place);
        }
        let pending = &mut self.blocks[block];
        pending.first = pending.first.min(key.time);
        if key.time >= self.horizon {
            return pending.push_far(key, target, place);
        }
        pending.events.push(NearEvent { key, target, place });
        if let Some(ahead) = pending.events.spare_capacity_mut().get(2) {
            prefetch_to_write(ahead);
        }
    }

    /// Adds an event in the window for the current block.
    #[inline(never)]
    fn insert(&mut self, key: EventKey, target: Target, place: u32) {
        let near = NearEvent { key, target, place };
        let bucket = bucket(key.time, self.start, self.shift);
        if bucket < self.reached {
            let later = self.active.partition_point(|other| other.key > key);
            self.active.insert(later, near);
            return;
        }
        let self_sent = &mut *self.self_sent;
        let index = self_sent.events.len() as u32;
        let after = std::mem::replace(&mut self_sent.heads[bucket], index);
        self_sent.events.push((near, after));
        self_sent.occupied |= 1 << bucket;
    }

    /// Removes the next event of the current block; `None` when the block has no more events in the window.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<PoppedEvent> {
        let NearEvent { key, target, place } = match self.active.pop() {
            Some(near) => near,
            None => {
                self.activate();
                self.active.pop()?
            }
        };
        Some(PoppedEvent { key, target, place })
    }

    /// Makes the next bucket with events the active one.
    #[inline(never)]
    fn activate(&mut self) {
        let (buckets, self_sent) = (&*self.buckets, &mut *self.self_sent);
        let ahead = match self.reached {
            BUCKETS => 0,
            reached => (buckets.occupied | self_sent.occupied) >> reached,
        };
        if ahead == 0 {
            self_sent.events.clear();
            return;
        }
        let bucket = self.reached + ahead.trailing_zeros() as usize;
        self.reached = bucket + 1;
        if buckets.occupied >> bucket & 1 > 0 {
            let bounds = self.bucket_end..buckets.ends[bucket] as usize;
            self.bucket_end = bounds.end;
            self.active.extend_from_slice(&self.line[bounds]);
        }
        if self_sent.occupied >> bucket & 1 > 0 {
            self_sent.occupied ^= 1 << bucket;
            let mut index = std::mem::replace(&mut self_sent.heads[bucket], NONE);
            while index != NONE {
                let (near, next_index) = self_sent.events[index as usize];
                self.active.push(near);
                index = next_index;
            }
        }
        self.sorter.sort(&mut self.active);
    }

    /// To be called for each event that is popped. Returns whether it consumes an entry of the line.
    #[inline(always)]
    pub(crate) fn pass(&mut self) -> bool {
        let consumes = self.passed < self.bucket_end;
        self.passed += usize::from(consumes);
        consumes
    }

    /// Receiver and place of the event `behind` entries after the first entry of the line that is not
    /// consumed. It may be an event of the next block.
    #[inline(always)]
    pub(crate) fn coming(&self, behind: usize) -> Option<(Target, u32)> {
        let near = self.line.get(self.passed + behind)?;
        Some((near.target, near.place))
    }

    /// Calls `show` for all pending events, in no particular order. Only between windows.
    pub(super) fn for_each(&self, mut show: impl FnMut(EventKey, Target, u32)) {
        for pending in &self.blocks {
            let far = pending.far.iter().map(|Reverse(near)| near);
            for near in pending.events.iter().chain(far) {
                show(near.key, near.target, near.place);
            }
        }
    }

    /// The time of the first event, `u64::MAX` when there is none. Only between windows.
    pub(super) fn next_time(&self) -> u64 {
        let firsts = self.blocks.iter().map(|pending| pending.first);
        firsts.min().unwrap_or(u64::MAX)
    }
}
