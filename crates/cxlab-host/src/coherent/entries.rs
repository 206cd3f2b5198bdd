//! Transactions in flight: an entry for each line that is not settled, with the accesses waiting for the line.
//!
//! Entries are stored in a slab, and the message tag is the entry's number. The entry of a line that keeps
//! its way in the cache is found through the way. The entry of a line that has left its way is found
//! through buckets, by the low bits of the line's number. There are three kinds of entries, each with its
//! own bound, so that a snoop never waits for a request.

use cxlab_cache::Slot;
use cxlab_engine::save_state;
use cxlab_engine::units::LineAddr;
use cxlab_protocol::PortId;
use cxlab_protocol::coherence::fields::CoherenceClass;
use cxlab_protocol::coherence::requester::LineState;
use cxlab_workload::{MemOp, OpKind};
use serde::{Deserialize, Serialize};

use super::above::SnoopReason;

/// No entry, access or snoop.
pub(super) const NONE: u32 = u32::MAX;

/// What an entry is for.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[repr(u8)]
pub(super) enum EntryKind {
    /// A request: a miss-status holding register (MSHR).
    Miss,
    /// An eviction with its write-back or notice.
    Evict,
    /// The write-back that a snoop requires.
    Snoop,
}

/// The state of a line with a transaction in flight.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
pub(super) struct TransactionEntry {
    pub(super) line: LineAddr,
    pub(super) state: LineState,
    pub(super) kind: EntryKind,
    pub(super) class: CoherenceClass,
    pub(super) device: PortId,
    /// Way of the line in the cache; `None` if the line has left it.
    pub(super) slot: Option<Slot>,
    /// Data that arrived and are not in the cache yet, or that left it.
    pub(super) data: u16,
    /// Start of the outstanding request, in picoseconds, and the number of messages that it has sent so
    /// far. Each message passed the processing and the cache once. The number is 0 if the first waiting
    /// access has no request of its own.
    pub(super) begun: u64,
    pub(super) messages_sent: u32,
    /// For a line that leaves the cache: the entry that requests the line again afterwards, or [`NONE`].
    pub(super) successor: u32,
    /// For an entry whose request waits until the line has left: the entry of the eviction, or [`NONE`].
    pub(super) predecessor: u32,
    /// The snoop to which the entry owes a response, or [`NONE`], and the line's index in the snoop.
    pub(super) snoop: u32,
    pub(super) snoop_index: u8,
    /// The reason to snoop the caches above for the line, until the line is stable and they have responded.
    pub(super) snoop_reason: Option<SnoopReason>,
    /// Whether the caches above were snooped to give up or share the line, and have not responded.
    pub(super) asked: bool,
    /// Waiting accesses, in order, as a linked list.
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) waiting: u32,
    /// Next entry of the same bucket.
    pub(super) chain: u32,
    pub(super) in_use: bool,
}

impl TransactionEntry {
    pub(super) const fn new(
        line: LineAddr,
        state: LineState,
        kind: EntryKind,
        class: CoherenceClass,
        device: PortId,
    ) -> TransactionEntry {
        TransactionEntry {
            line,
            state,
            kind,
            class,
            device,
            slot: None,
            data: 0,
            begun: 0,
            messages_sent: 0,
            successor: NONE,
            predecessor: NONE,
            snoop: NONE,
            snoop_index: 0,
            snoop_reason: None,
            asked: false,
            first: NONE,
            last: NONE,
            waiting: 0,
            chain: NONE,
            in_use: true,
        }
    }
}

/// The entries of all lines with a transaction in flight.
pub(super) struct TransactionEntries {
    slab: Vec<TransactionEntry>,
    free: Vec<u32>,
    /// By kind: number of entries in use, and its bound.
    used: [u32; 3],
    limit: [u32; 3],
    /// The first entry of each bucket, for lines that have left the cache.
    buckets: Vec<u32>,
}

save_state!(TransactionEntries {
    values: free, used;
    sized: slab, buckets;
    built: limit;
});

impl TransactionEntries {
    /// A slab with `limit` entries of each kind.
    pub(super) fn new(limit: [u32; 3]) -> Self {
        let count: u32 = limit.iter().sum();
        let idle = TransactionEntry {
            in_use: false,
            ..TransactionEntry::new(
                LineAddr(0),
                LineState::default(),
                EntryKind::Miss,
                CoherenceClass::HdmDb,
                PortId(0),
            )
        };
        let buckets = (2 * limit[EntryKind::Evict as usize] as usize).next_power_of_two();
        TransactionEntries {
            slab: vec![idle; count as usize],
            free: (0..count).rev().collect(),
            used: [0; 3],
            limit,
            buckets: vec![NONE; buckets],
        }
    }

    /// Number of entries of all kinds.
    pub(super) fn capacity(&self) -> usize {
        self.slab.len()
    }

    /// Number of entries in use.
    pub(super) fn len(&self) -> u64 {
        u64::from(self.used.iter().sum::<u32>())
    }

    /// Number of free entries of a kind.
    #[inline]
    pub(super) fn room(&self, kind: EntryKind) -> u32 {
        self.limit[kind as usize] - self.used[kind as usize]
    }

    /// Takes an entry. The caller has checked [`TransactionEntries::room`].
    #[inline]
    pub(super) fn take(&mut self, entry: TransactionEntry) -> u32 {
        assert!(self.room(entry.kind) > 0, "an entry of this kind is free");
        self.used[entry.kind as usize] += 1;
        let number = match self.free.pop() {
            Some(number) => number,
            None => unreachable!("there are as many entries as all kinds may use"),
        };
        if entry.slot.is_none() {
            let bucket = self.bucket(entry.line);
            self.slab[number as usize] = TransactionEntry {
                chain: self.buckets[bucket],
                ..entry
            };
            self.buckets[bucket] = number;
        } else {
            self.slab[number as usize] = entry;
        }
        number
    }

    /// Returns an entry to the free ones.
    #[inline]
    pub(super) fn give_back(&mut self, number: u32) {
        let entry = self.slab[number as usize];
        assert!(entry.in_use && entry.first == NONE && entry.snoop == NONE);
        if entry.slot.is_none() {
            let bucket = self.bucket(entry.line);
            let mut other = self.buckets[bucket];
            if other == number {
                self.buckets[bucket] = entry.chain;
            } else {
                while self.slab[other as usize].chain != number {
                    other = self.slab[other as usize].chain;
                }
                self.slab[other as usize].chain = entry.chain;
            }
        }
        self.slab[number as usize].in_use = false;
        self.used[entry.kind as usize] -= 1;
        self.free.push(number);
    }

    /// Turns an entry into one for a request, if the bound allows it. An entry for snoops becomes free by this.
    #[inline]
    pub(super) fn turn_into_miss(&mut self, number: u32) -> bool {
        let kind = self.slab[number as usize].kind;
        if kind == EntryKind::Miss {
            return true;
        }
        if self.room(EntryKind::Miss) == 0 {
            return false;
        }
        self.used[kind as usize] -= 1;
        self.used[EntryKind::Miss as usize] += 1;
        self.slab[number as usize].kind = EntryKind::Miss;
        true
    }

    /// The entry of a line that has left the cache.
    #[inline]
    pub(super) fn leaving(&self, line: LineAddr) -> Option<u32> {
        let mut number = self.buckets[self.bucket(line)];
        while number != NONE {
            if self.slab[number as usize].line == line {
                return Some(number);
            }
            number = self.slab[number as usize].chain;
        }
        None
    }

    #[inline]
    fn bucket(&self, line: LineAddr) -> usize {
        line.0 as usize & (self.buckets.len() - 1)
    }

    #[inline]
    pub(super) fn is_in_use(&self, number: u32) -> bool {
        self.slab
            .get(number as usize)
            .is_some_and(|entry| entry.in_use)
    }

    /// The entry with this number.
    #[inline]
    pub(super) fn get(&self, number: u32) -> &TransactionEntry {
        &self.slab[number as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, number: u32) -> &mut TransactionEntry {
        &mut self.slab[number as usize]
    }
}

/// An access in flight.
#[derive(Clone, Copy, Default, Serialize, Deserialize, Debug)]
pub(super) struct PendingAccess {
    pub(super) line: LineAddr,
    /// When the access was issued, in picoseconds.
    pub(super) issued: u64,
    /// Number of the access, as in its row.
    pub(super) id: u64,
    pub(super) write: bool,
    /// Whether the caches above give the line up with this access.
    pub(super) write_back: bool,
    /// Whether the line was shared when the access hit.
    pub(super) shared: bool,
    /// The next access that waits for the same line, or [`NONE`].
    next: u32,
}

/// The accesses in flight, in a slab.
pub(super) struct PendingAccesses {
    slab: Vec<PendingAccess>,
    free: Vec<u32>,
}

save_state!(PendingAccesses {
    values: free;
    sized: slab;
});

impl PendingAccesses {
    pub(super) fn new(count: u32) -> Self {
        PendingAccesses {
            slab: vec![PendingAccess::default(); count as usize],
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
    pub(super) fn take(&mut self, line: LineAddr, issued: u64, id: u64, op: &MemOp) -> u32 {
        let number = match self.free.pop() {
            Some(number) => number,
            None => unreachable!("issue looked for a free place"),
        };
        self.slab[number as usize] = PendingAccess {
            line,
            issued,
            id,
            write: op.kind == OpKind::Write,
            write_back: op.write_back,
            shared: false,
            next: NONE,
        };
        number
    }

    #[inline]
    pub(super) fn give_back(&mut self, number: u32) -> PendingAccess {
        self.free.push(number);
        self.slab[number as usize]
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> &PendingAccess {
        &self.slab[number as usize]
    }

    /// Records that an access hit a shared line.
    #[inline]
    pub(super) fn set_shared(&mut self, number: u32) {
        self.slab[number as usize].shared = true;
    }

    /// Appends an access to those that wait for a line.
    #[inline]
    pub(super) fn append(&mut self, entry: &mut TransactionEntry, number: u32) {
        self.slab[number as usize].next = NONE;
        if entry.first == NONE {
            entry.first = number;
        } else {
            self.slab[entry.last as usize].next = number;
        }
        entry.last = number;
        entry.waiting += 1;
    }

    /// Removes the first access that waits for a line.
    #[inline]
    pub(super) fn pop(&mut self, entry: &mut TransactionEntry) -> PendingAccess {
        let number = entry.first;
        entry.first = self.slab[number as usize].next;
        entry.waiting -= 1;
        self.give_back(number)
    }
}
