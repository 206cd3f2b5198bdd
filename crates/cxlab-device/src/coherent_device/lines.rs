//! Busy lines, which have an operation in flight, and requests in the device.

use cxlab_cache::Slot;
use cxlab_engine::save_state;
use cxlab_engine::units::{LineAddr, SimTime};
use cxlab_protocol::Message;
use cxlab_protocol::coherence::dcoh::{LineState, Peer};
use cxlab_protocol::coherence::message::M2s;
use serde::{Deserialize, Serialize};

/// Marks the absence of a line or a request.
pub(super) const NONE: u32 = u32::MAX;

/// A request in the device, from its acceptance until its responses have been sent.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) message: Message,
    pub(super) opcode: M2s,
    pub(super) peer: Peer,
    /// The port that the request arrived through; the responses leave through it.
    pub(super) port: u16,
    /// Time up to which the request's latency is accounted to a stage.
    pub(super) since: SimTime,
    /// Number of the busy line that the request is for.
    pub(super) line: u32,
    /// Value that the medium read.
    pub(super) data: u16,
    /// Number of responses that have not been sent.
    pub(super) replies: u8,
    /// The next request in the queue of the same line.
    pub(super) next: u32,
}

/// The requests in the device, by context number.
pub(super) struct Contexts {
    slab: Vec<Request>,
    free: Vec<u32>,
    limit: u32,
}

save_state!(Contexts {
    values: slab, free;
    built: limit;
});

impl Contexts {
    pub(super) fn new(limit: u32) -> Self {
        Contexts {
            slab: Vec::new(),
            free: Vec::new(),
            limit,
        }
    }

    pub(super) fn len(&self) -> u32 {
        (self.slab.len() - self.free.len()) as u32
    }

    #[inline]
    pub(super) fn has_room(&self) -> bool {
        !self.free.is_empty() || (self.slab.len() as u32) < self.limit
    }

    /// Allocates a context. The caller has checked [`Contexts::has_room`].
    #[inline]
    pub(super) fn take(&mut self, request: Request) -> u32 {
        if let Some(number) = self.free.pop() {
            self.slab[number as usize] = request;
            return number;
        }
        assert!((self.slab.len() as u32) < self.limit, "a context is free");
        self.slab.push(request);
        self.slab.len() as u32 - 1
    }

    /// Records that a response has been sent; true for the request's last one.
    #[inline]
    pub(super) fn replied(&mut self, number: u32) -> bool {
        let request = &mut self.slab[number as usize];
        request.replies -= 1;
        if request.replies > 0 {
            return false;
        }
        self.free.push(number);
        true
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> &Request {
        &self.slab[number as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, number: u32) -> &mut Request {
        &mut self.slab[number as usize]
    }
}

/// A line with an operation in flight, or with a request that waits for an entry of the filter.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct BusyLine {
    pub(super) line: LineAddr,
    pub(super) state: LineState,
    /// The line's entry in the filter, which is pinned.
    pub(super) slot: Option<Slot>,
    /// Whether the entry is being evicted.
    pub(super) evicted: bool,
    /// Whether the current request waits for an entry.
    pub(super) starved: bool,
    /// The current request.
    pub(super) current_request: u32,
    /// Queue of further requests, in order, linked through their `next`.
    pub(super) first: u32,
    pub(super) last: u32,
    /// The next line that waits for an entry of the same set.
    pub(super) next: u32,
    /// The next line of the same hash bucket.
    chain: u32,
    in_use: bool,
}

/// The busy lines: a slab, found through hash buckets by the low bits of the line number.
/// There is at most one for each request in the device and for each entry of the filter; the
/// slab grows as needed.
pub(super) struct BusyLines {
    slab: Vec<BusyLine>,
    free: Vec<u32>,
    buckets: Vec<u32>,
}

save_state!(BusyLines {
    values: slab, free;
    sized: buckets;
});

impl BusyLines {
    /// Sizes the buckets for `usual` busy lines; more lines only lengthen the buckets.
    pub(super) fn new(usual: u32) -> Self {
        BusyLines {
            slab: Vec::with_capacity(usual.min(1024) as usize),
            free: Vec::new(),
            buckets: vec![NONE; (2 * usual as usize).next_power_of_two()],
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slab.len() - self.free.len()
    }

    #[inline]
    fn bucket(&self, line: LineAddr) -> usize {
        line.0 as usize & (self.buckets.len() - 1)
    }

    #[inline]
    pub(super) fn find(&self, line: LineAddr) -> Option<u32> {
        let mut number = self.buckets[self.bucket(line)];
        while number != NONE {
            let busy = &self.slab[number as usize];
            if busy.line == line {
                return Some(number);
            }
            number = busy.chain;
        }
        None
    }

    /// Adds a line that is not busy yet.
    #[inline]
    pub(super) fn take(&mut self, line: LineAddr, state: LineState, slot: Option<Slot>) -> u32 {
        let bucket = self.bucket(line);
        let busy = BusyLine {
            line,
            state,
            slot,
            evicted: false,
            starved: false,
            current_request: NONE,
            first: NONE,
            last: NONE,
            next: NONE,
            chain: self.buckets[bucket],
            in_use: true,
        };
        let number = match self.free.pop() {
            Some(number) => {
                self.slab[number as usize] = busy;
                number
            }
            None => {
                self.slab.push(busy);
                self.slab.len() as u32 - 1
            }
        };
        self.buckets[bucket] = number;
        number
    }

    /// Removes a line that is no longer busy.
    #[inline]
    pub(super) fn give_back(&mut self, number: u32) {
        let busy = self.slab[number as usize];
        assert!(busy.in_use && busy.first == NONE && !busy.starved);
        let bucket = self.bucket(busy.line);
        let mut other = self.buckets[bucket];
        if other == number {
            self.buckets[bucket] = busy.chain;
        } else {
            while self.slab[other as usize].chain != number {
                other = self.slab[other as usize].chain;
            }
            self.slab[other as usize].chain = busy.chain;
        }
        self.slab[number as usize].in_use = false;
        self.free.push(number);
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> &BusyLine {
        &self.slab[number as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, number: u32) -> &mut BusyLine {
        &mut self.slab[number as usize]
    }

    /// Appends a request to the queue of a line.
    #[inline]
    pub(super) fn append(&mut self, number: u32, contexts: &mut Contexts, request: u32) {
        let busy = &mut self.slab[number as usize];
        contexts.get_mut(request).next = NONE;
        if busy.first == NONE {
            busy.first = request;
        } else {
            contexts.get_mut(busy.last).next = request;
        }
        busy.last = request;
    }

    /// Makes the first request in a line's queue the current one.
    #[inline]
    pub(super) fn next_asker(&mut self, number: u32, contexts: &Contexts) -> Option<u32> {
        let busy = &mut self.slab[number as usize];
        let request = busy.first;
        if request == NONE {
            return None;
        }
        busy.first = contexts.get(request).next;
        busy.current_request = request;
        Some(request)
    }
}

/// Lines of one set that wait for an entry, in order, and the number of evictions in
/// progress in the set.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct SetQueue {
    pub(super) first: u32,
    last: u32,
    pub(super) waiting: u32,
    pub(super) evicting: u32,
}

impl SetQueue {
    pub(super) const EMPTY: SetQueue = SetQueue {
        first: NONE,
        last: NONE,
        waiting: 0,
        evicting: 0,
    };

    /// Whether more lines wait than evictions are in progress.
    #[inline]
    pub(super) fn needs_room(&self) -> bool {
        self.waiting > self.evicting
    }

    #[inline]
    pub(super) fn append(&mut self, lines: &mut BusyLines, number: u32) {
        let busy = lines.get_mut(number);
        busy.starved = true;
        busy.next = NONE;
        if self.first == NONE {
            self.first = number;
        } else {
            lines.get_mut(self.last).next = number;
        }
        self.last = number;
        self.waiting += 1;
    }

    #[inline]
    pub(super) fn pop(&mut self, lines: &mut BusyLines) -> Option<u32> {
        let number = self.first;
        if number == NONE {
            return None;
        }
        let busy = lines.get_mut(number);
        busy.starved = false;
        self.first = busy.next;
        self.waiting -= 1;
        Some(number)
    }
}
