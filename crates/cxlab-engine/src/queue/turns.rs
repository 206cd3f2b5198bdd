//! Events of blocks of components that take turns in windows.
//!
//! In a window no block can notice another, so all of a block's events are known when its turn comes, but those that
//! it sends to itself. They are put into buckets of time, and while they are handled those of the next block are too,
//! so that what they will touch can be asked for long before, also across blocks. A bucket is sorted when its time comes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{EventKey, NOBODY, Near, Popped, Sorter, Target};
use crate::prefetch::{prefetch, prefetch_to_write};

/// Buckets of a window.
const BUCKETS: usize = u64::BITS as usize;

/// Windows behind the one at hand whose events are looked at in each; later ones wait in a heap.
const WINDOWS: u64 = 16;

/// The end of a list.
const NONE: u32 = u32::MAX;

/// Events of a block that lie behind the window, in no order.
#[derive(Clone)]
struct Pending {
    events: Vec<Near>,
    /// The time of the earliest of them and of `far`, `u64::MAX` when there is none.
    first: u64,
    far: BinaryHeap<Reverse<Near>>,
}

impl Pending {
    /// Adds one that lies far behind the window.
    #[cold]
    fn wait(&mut self, key: EventKey, target: Target, place: u32) {
        self.far.push(Reverse(Near { key, target, place }));
    }
}

/// The buckets of a block's events of a window, as they are known when its turn comes.
#[derive(Clone)]
struct Buckets {
    /// Where each ends among the block's events in the line; the last one is of what lies behind the window.
    ends: [u32; BUCKETS + 1],
    /// A bit for each that has any.
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
struct Own {
    /// Each with the next in its list.
    events: Vec<(Near, u32)>,
    heads: [u32; BUCKETS],
    occupied: u64,
}

/// The events of all blocks.
#[derive(Clone)]
pub(crate) struct Turns {
    blocks: Vec<Pending>,
    /// Those that have events in the window and whose turn has not come, the next one last.
    turns: Vec<usize>,
    /// The bucket at hand, sorted so that the next one is last.
    active: Vec<Near>,
    sorter: Sorter,
    /// Buckets before this one have had their time.
    reached: usize,
    /// Events of the block at hand by bucket, and behind them those of the next one.
    line: Vec<Near>,
    /// How many of them are of the block at hand.
    count: usize,
    buckets: Box<Buckets>,
    /// Those of the next block.
    next: Box<Buckets>,
    /// How many of the line have passed: been popped, or others of their bucket in their place that nobody knew of.
    passed: usize,
    /// The end of the bucket at hand in the line.
    bucket_end: usize,
    own: Box<Own>,
    /// When the window begins.
    start: u64,
    /// When it ends; zero between windows.
    end: u64,
    /// The width of a bucket as a power of two of picoseconds.
    shift: u32,
    /// Events from then on wait in the heaps.
    horizon: u64,
    /// How long a window is.
    span: u64,
}

/// The bucket of a time in the window.
#[inline(always)]
fn bucket(time: u64, start: u64, shift: u32) -> usize {
    ((time - start) >> shift) as usize % BUCKETS
}

impl Turns {
    /// Without events, for so many blocks, whose windows are so long and begin at `time`.
    pub(super) fn new(blocks: usize, span: u64, time: u64) -> Turns {
        let pending = Pending {
            events: Vec::new(),
            first: u64::MAX,
            far: BinaryHeap::new(),
        };
        Turns {
            blocks: vec![pending; blocks],
            turns: Vec::with_capacity(blocks),
            active: Vec::new(),
            sorter: Sorter::default(),
            reached: 0,
            line: Vec::new(),
            count: 0,
            buckets: Box::new(Buckets::EMPTY),
            next: Box::new(Buckets::EMPTY),
            passed: 0,
            bucket_end: 0,
            own: Box::new(Own {
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

    /// How many blocks there are.
    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        self.blocks.len()
    }

    /// A window begins with the first event, if that lies before `limit`, where the window ends at the latest.
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
        self.turns.extend(ready.map(|(block, _)| block));
        self.fill_next();
        true
    }

    /// The turn of the next block comes, whose events alone are popped, and which is returned. Behind the last one
    /// the window ends. What is sent to others lies behind it.
    pub(crate) fn turn(&mut self) -> Option<usize> {
        debug_assert!(self.active.is_empty());
        let Some(block) = self.turns.pop() else {
            self.end = 0;
            return None;
        };
        self.line.drain(..self.count);
        std::mem::swap(&mut self.buckets, &mut self.next);
        self.count = self.line.len();
        (self.reached, self.passed, self.bucket_end) = (0, 0, 0);
        self.fill_next();
        if let [.., after, _] = self.turns[..] {
            for two in self.blocks[after].events.chunks(2) {
                prefetch(two);
            }
        }
        Some(block)
    }

    /// Puts the events of the next block that lie before the end of the window behind the line.
    fn fill_next(&mut self) {
        let Some(&block) = self.turns.last() else {
            return;
        };
        let (start, end, shift) = (self.start, self.end, self.shift);
        let (pending, buckets) = (&mut self.blocks[block], &mut *self.next);
        while let Some(Reverse(near)) = pending.far.peek() {
            if near.key.time >= end {
                break;
            }
            pending.events.push(*near);
            pending.far.pop();
        }
        // Nobody can predict which events lie in the window, so all are put in order, with one bucket for those
        // that do not.
        let bucket = |near: &Near| match near.key.time < end {
            true => bucket(near.key.time, start, shift),
            false => BUCKETS,
        };
        *buckets = Buckets::EMPTY;
        for near in &pending.events {
            buckets.ends[bucket(near)] += 1;
        }
        let mut before = 0;
        for (number, place) in buckets.ends.iter_mut().enumerate() {
            buckets.occupied |= u64::from(*place > 0).unbounded_shl(number as u32);
            before += std::mem::replace(place, before);
        }
        let behind = self.line.len();
        self.line.resize(behind + pending.events.len(), NOBODY);
        let line = &mut self.line[behind..];
        for near in &pending.events {
            let place = &mut buckets.ends[bucket(near)];
            line[*place as usize] = *near;
            *place += 1;
        }
        let (_, later) = line.split_at(buckets.ends[BUCKETS - 1] as usize);
        pending.events.clear();
        pending.events.extend_from_slice(later);
        let far = pending.far.peek().map(|Reverse(near)| near);
        let times = later.iter().chain(far).map(|near| near.key.time);
        pending.first = times.min().unwrap_or(u64::MAX);
        self.line
            .truncate(behind + buckets.ends[BUCKETS - 1] as usize);
    }

    /// Adds an event of a block, in the window if the block is the one at hand, or behind it.
    #[inline(always)]
    pub(super) fn push_to(&mut self, block: usize, key: EventKey, target: Target, place: u32) {
        if key.time < self.end {
            return self.insert(key, target, place);
        }
        let pending = &mut self.blocks[block];
        pending.first = pending.first.min(key.time);
        if key.time >= self.horizon {
            return pending.wait(key, target, place);
        }
        pending.events.push(Near { key, target, place });
        if let Some(ahead) = pending.events.spare_capacity_mut().get(2) {
            prefetch_to_write(ahead);
        }
    }

    /// Adds one of the window.
    #[inline(never)]
    fn insert(&mut self, key: EventKey, target: Target, place: u32) {
        let near = Near { key, target, place };
        let bucket = bucket(key.time, self.start, self.shift);
        if bucket < self.reached {
            let behind = self.active.partition_point(|other| other.key > key);
            self.active.insert(behind, near);
            return;
        }
        let own = &mut *self.own;
        let number = own.events.len() as u32;
        let after = std::mem::replace(&mut own.heads[bucket], number);
        own.events.push((near, after));
        own.occupied |= 1 << bucket;
    }

    /// The next event of the block at hand.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<Popped> {
        let Near { key, target, place } = match self.active.pop() {
            Some(near) => near,
            None => {
                self.activate();
                self.active.pop()?
            }
        };
        Some(Popped { key, target, place })
    }

    /// The next bucket that has events becomes the one at hand.
    #[inline(never)]
    fn activate(&mut self) {
        let (buckets, own) = (&*self.buckets, &mut *self.own);
        let ahead = match self.reached {
            BUCKETS => 0,
            reached => (buckets.occupied | own.occupied) >> reached,
        };
        if ahead == 0 {
            own.events.clear();
            return;
        }
        let bucket = self.reached + ahead.trailing_zeros() as usize;
        self.reached = bucket + 1;
        if buckets.occupied >> bucket & 1 > 0 {
            let bounds = self.bucket_end..buckets.ends[bucket] as usize;
            self.bucket_end = bounds.end;
            self.active.extend_from_slice(&self.line[bounds]);
        }
        if own.occupied >> bucket & 1 > 0 {
            own.occupied ^= 1 << bucket;
            let mut at = std::mem::replace(&mut own.heads[bucket], NONE);
            while at != NONE {
                let (near, next) = own.events[at as usize];
                self.active.push(near);
                at = next;
            }
        }
        self.sorter.sort(&mut self.active);
    }

    /// After each event that is popped: whether one more of the line has passed.
    #[inline(always)]
    pub(crate) fn pass(&mut self) -> bool {
        let more = self.passed < self.bucket_end;
        self.passed += usize::from(more);
        more
    }

    /// Whom the event is for that comes behind so many more of the line, also one of the next block, and the place
    /// of what it carries.
    #[inline(always)]
    pub(crate) fn coming(&self, behind: usize) -> Option<(Target, u32)> {
        let near = self.line.get(self.passed + behind)?;
        Some((near.target, near.place))
    }

    /// Shows all pending events, in no order. Only between windows.
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
