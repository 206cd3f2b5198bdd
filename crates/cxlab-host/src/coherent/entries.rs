//! What is under way: an entry for each line that is not settled, with the accesses that wait
//! for it.
//!
//! Entries lie in a slab, and the message tag is the entry's number. A line that keeps its way in
//! the cache is found through the way; a line that has left it is found through buckets by the low
//! bits of its number. There are three kinds, each with its own bound, so that a snoop never waits
//! for a request.

use cxlab_engine::save_state;
use cxlab_engine::units::LineAddr;
use cxlab_memory::Slot;
use cxlab_protocol::PortId;
use cxlab_protocol::coherence::fields::CoherenceClass;
use cxlab_protocol::coherence::requester::LineState;
use serde::{Deserialize, Serialize};

/// No entry, access or snoop.
pub(super) const NONE: u32 = u32::MAX;

/// What an entry was taken for.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[repr(u8)]
pub(super) enum Kind {
    /// A request: a miss-status holding register (MSHR).
    Miss,
    /// An eviction.
    Evict,
    /// The write-back that a snoop asked for.
    Snoop,
}

/// A line with something under way.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
pub(super) struct Entry {
    pub(super) line: LineAddr,
    pub(super) state: LineState,
    pub(super) kind: Kind,
    pub(super) class: CoherenceClass,
    pub(super) device: PortId,
    /// Its way in the cache; `None` when it has left.
    pub(super) slot: Option<Slot>,
    /// The data that arrived and is not in the cache, or that left it.
    pub(super) data: u16,
    /// When the request under way began, in picoseconds, and how many messages it has sent so
    /// far, each of which passed the processing and the cache once; 0 when the first access that
    /// waits has no request of its own.
    pub(super) begun: u64,
    pub(super) trips: u32,
    /// Of a line that leaves: the entry that asks for it when it has left.
    pub(super) successor: u32,
    /// Of an entry whose request waits until the line has left: the entry of the eviction.
    pub(super) predecessor: u32,
    /// The snoop that it owes an answer, and its place in the block.
    pub(super) snoop: u32,
    pub(super) place: u8,
    /// Accesses that wait, in order, linked through themselves.
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) waiting: u32,
    /// The next entry of its bucket.
    pub(super) chain: u32,
    pub(super) in_use: bool,
}

impl Entry {
    pub(super) const fn new(
        line: LineAddr,
        state: LineState,
        kind: Kind,
        class: CoherenceClass,
        device: PortId,
    ) -> Entry {
        Entry {
            line,
            state,
            kind,
            class,
            device,
            slot: None,
            data: 0,
            begun: 0,
            trips: 0,
            successor: NONE,
            predecessor: NONE,
            snoop: NONE,
            place: 0,
            first: NONE,
            last: NONE,
            waiting: 0,
            chain: NONE,
            in_use: true,
        }
    }
}

/// The slab.
pub(super) struct Entries {
    slab: Vec<Entry>,
    free: Vec<u32>,
    used: [u32; 3],
    limit: [u32; 3],
    buckets: Vec<u32>,
}

save_state!(Entries {
    values: free, used;
    sized: slab, buckets;
    built: limit;
});

impl Entries {
    /// So many entries of each kind.
    pub(super) fn new(limit: [u32; 3]) -> Self {
        let count: u32 = limit.iter().sum();
        let idle = Entry {
            in_use: false,
            ..Entry::new(
                LineAddr(0),
                LineState::default(),
                Kind::Miss,
                CoherenceClass::HdmDb,
                PortId(0),
            )
        };
        let buckets = (2 * limit[Kind::Evict as usize] as usize).next_power_of_two();
        Entries {
            slab: vec![idle; count as usize],
            free: (0..count).rev().collect(),
            used: [0; 3],
            limit,
            buckets: vec![NONE; buckets],
        }
    }

    /// Entries of all kinds.
    pub(super) fn capacity(&self) -> usize {
        self.slab.len()
    }

    /// Entries in use.
    pub(super) fn len(&self) -> u64 {
        u64::from(self.used.iter().sum::<u32>())
    }

    /// How many of a kind are free.
    #[inline]
    pub(super) fn room(&self, kind: Kind) -> u32 {
        self.limit[kind as usize] - self.used[kind as usize]
    }

    /// Takes an entry; the caller looked for [`Entries::room`].
    #[inline]
    pub(super) fn take(&mut self, entry: Entry) -> u32 {
        assert!(self.room(entry.kind) > 0, "an entry of this kind is free");
        self.used[entry.kind as usize] += 1;
        let number = match self.free.pop() {
            Some(number) => number,
            None => unreachable!("there are as many entries as all kinds may use"),
        };
        if entry.slot.is_none() {
            let bucket = self.bucket(entry.line);
            self.slab[number as usize] = Entry {
                chain: self.buckets[bucket],
                ..entry
            };
            self.buckets[bucket] = number;
        } else {
            self.slab[number as usize] = entry;
        }
        number
    }

    /// Gives an entry back.
    #[inline]
    pub(super) fn give_back(&mut self, number: u32) {
        let entry = self.slab[number as usize];
        assert!(entry.in_use && entry.first == NONE && entry.snoop == NONE);
        if entry.slot.is_none() {
            let bucket = self.bucket(entry.line);
            let mut at = self.buckets[bucket];
            if at == number {
                self.buckets[bucket] = entry.chain;
            } else {
                while self.slab[at as usize].chain != number {
                    at = self.slab[at as usize].chain;
                }
                self.slab[at as usize].chain = entry.chain;
            }
        }
        self.slab[number as usize].in_use = false;
        self.used[entry.kind as usize] -= 1;
        self.free.push(number);
    }

    /// An entry becomes one for a request, if one may; snoops then have theirs back.
    #[inline]
    pub(super) fn turn_into_miss(&mut self, number: u32) -> bool {
        let kind = self.slab[number as usize].kind;
        if kind == Kind::Miss {
            return true;
        }
        if self.room(Kind::Miss) == 0 {
            return false;
        }
        self.used[kind as usize] -= 1;
        self.used[Kind::Miss as usize] += 1;
        self.slab[number as usize].kind = Kind::Miss;
        true
    }

    /// The entry of a line that has left the cache.
    #[inline]
    pub(super) fn leaving(&self, line: LineAddr) -> Option<u32> {
        let mut at = self.buckets[self.bucket(line)];
        while at != NONE {
            if self.slab[at as usize].line == line {
                return Some(at);
            }
            at = self.slab[at as usize].chain;
        }
        None
    }

    #[inline]
    fn bucket(&self, line: LineAddr) -> usize {
        line.0 as usize & (self.buckets.len() - 1)
    }

    /// Whether an entry of this number is in use.
    #[inline]
    pub(super) fn is_in_use(&self, number: u32) -> bool {
        self.slab
            .get(number as usize)
            .is_some_and(|entry| entry.in_use)
    }

    /// The entry of this number.
    #[inline]
    pub(super) fn get(&self, number: u32) -> &Entry {
        &self.slab[number as usize]
    }

    /// The entry of this number.
    #[inline]
    pub(super) fn get_mut(&mut self, number: u32) -> &mut Entry {
        &mut self.slab[number as usize]
    }
}

/// An access on its way.
#[derive(Clone, Copy, Default, Serialize, Deserialize, Debug)]
pub(super) struct Access {
    pub(super) line: LineAddr,
    pub(super) issued: u64,
    pub(super) id: u64,
    pub(super) write: bool,
    next: u32,
}

/// The accesses in flight.
pub(super) struct Accesses {
    slab: Vec<Access>,
    free: Vec<u32>,
}

save_state!(Accesses {
    values: free;
    sized: slab;
});

impl Accesses {
    pub(super) fn new(count: u32) -> Self {
        Accesses {
            slab: vec![Access::default(); count as usize],
            free: (0..count).rev().collect(),
        }
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    pub(super) fn len(&self) -> u64 {
        (self.slab.len() - self.free.len()) as u64
    }

    #[inline]
    pub(super) fn take(&mut self, line: LineAddr, issued: u64, id: u64, write: bool) -> u32 {
        let number = match self.free.pop() {
            Some(number) => number,
            None => unreachable!("issue looked for a free place"),
        };
        self.slab[number as usize] = Access {
            line,
            issued,
            id,
            write,
            next: NONE,
        };
        number
    }

    #[inline]
    pub(super) fn give_back(&mut self, number: u32) -> Access {
        self.free.push(number);
        self.slab[number as usize]
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> &Access {
        &self.slab[number as usize]
    }

    /// An access waits behind those that wait for this line.
    #[inline]
    pub(super) fn append(&mut self, entry: &mut Entry, number: u32) {
        self.slab[number as usize].next = NONE;
        if entry.first == NONE {
            entry.first = number;
        } else {
            self.slab[entry.last as usize].next = number;
        }
        entry.last = number;
        entry.waiting += 1;
    }

    /// The first access that waits for this line waits no more.
    #[inline]
    pub(super) fn pop(&mut self, entry: &mut Entry) -> Access {
        let number = entry.first;
        entry.first = self.slab[number as usize].next;
        entry.waiting -= 1;
        self.give_back(number)
    }
}
