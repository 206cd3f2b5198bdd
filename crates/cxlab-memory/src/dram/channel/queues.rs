//! The queues of a channel: one for reads and one for writes, which feed queues for each bank or
//! rank if there are such queues.

use serde::{Deserialize, Serialize};

use super::super::mapping::BurstLocation;
use super::super::observer::CommandObserver;
use super::super::outstanding::OutstandingRequests;
use super::{Channel, NEVER, NIL};

/// Buckets of the hash table of queued writes, which stands for a CAM on the low address bits.
pub(super) const BUCKETS: usize = 64;

/// The state of a request's row before its access.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(super) enum RowOutcome {
    /// The row was open.
    Hit,
    /// The bank had no open row.
    Miss,
    /// Another row had to be closed first.
    Conflict,
}

/// A burst to be read or written.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
pub(in super::super) struct Burst {
    /// The address, in bursts.
    pub address: u64,
    pub place: BurstLocation,
    pub write: bool,
    /// Index of its request in the book.
    pub request: u32,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct QueueEntry {
    pub address: u64,
    /// Age: older entries have lower numbers.
    pub order: u64,
    pub row: u32,
    pub column: u32,
    pub request: u32,
    pub bank: u16,
    pub next: u16,
    pub previous: u16,
    /// The next write in the same bucket.
    pub chain: u16,
    pub write: bool,
    pub opening: RowOutcome,
}

impl QueueEntry {
    pub const NONE: QueueEntry = QueueEntry {
        address: 0,
        order: 0,
        row: 0,
        column: 0,
        request: 0,
        bank: 0,
        next: NIL,
        previous: NIL,
        chain: NIL,
        write: false,
        opening: RowOutcome::Hit,
    };
}

/// The queue of a bank or rank. The requests themselves are in the lists of the banks.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct BankQueue {
    /// Number of requests in the queue.
    pub length: u16,
    /// Number of transactions that wait for the queue, reads and writes.
    pub backlog: [u16; 2],
}

impl<O: CommandObserver> Channel<O> {
    /// Accepts a burst that arrives after the commands of `tick` were decided.
    #[inline]
    pub(in super::super) fn arrive(
        &mut self,
        tick: u64,
        burst: Burst,
        outstanding: &mut OutstandingRequests,
    ) {
        if self.overflow.is_empty() && self.has_room(burst.write) {
            self.admit(tick, burst, outstanding);
        } else {
            self.live.all += 1;
            self.live.reads += usize::from(!burst.write);
            self.overflow.push_back(burst);
        }
    }

    /// Moves bursts that found no room into the queues while there is room.
    #[inline]
    pub(super) fn refill(&mut self, tick: u64, outstanding: &mut OutstandingRequests) {
        while let Some(burst) = self.overflow.front().copied()
            && self.has_room(burst.write)
        {
            self.overflow.pop_front();
            self.live.all -= 1;
            self.live.reads -= usize::from(!burst.write);
            self.admit(tick, burst, outstanding);
        }
    }

    fn admit(&mut self, tick: u64, burst: Burst, outstanding: &mut OutstandingRequests) {
        let next = self.config.time(tick + 1);
        // A queued write serves a read and absorbs a write to the same address.
        if (!burst.write || self.config.coalesce) && self.find_write(burst.address) {
            if burst.write {
                self.counters.coalesced += 1;
            } else {
                self.counters.forwarded += 1;
            }
            outstanding.done(burst.request, next);
            return;
        }
        if burst.write && !self.config.written {
            outstanding.done(burst.request, next);
        }
        let Some(number) = self.free.pop() else {
            unreachable!("the queues have room, so there is an entry")
        };
        let bank = burst.place.bank as u16;
        self.order += 1;
        self.entries[number as usize] = QueueEntry {
            address: burst.address,
            order: self.order,
            row: burst.place.row,
            column: burst.place.column,
            request: burst.request,
            bank,
            write: burst.write,
            ..QueueEntry::NONE
        };
        self.live.all += 1;
        self.live.reads += usize::from(!burst.write);
        self.waiting[usize::from(burst.write)] += 1;
        self.floor = self.floor.max(tick + 1);
        if burst.write {
            let bucket = &mut self.buckets[burst.address as usize % BUCKETS];
            self.entries[number as usize].chain = *bucket;
            *bucket = number;
        }
        if self.config.queue.is_some() {
            let kind = usize::from(burst.write);
            append(
                &mut self.entries,
                &mut self.moves.transactions[kind],
                number,
            );
            let queue = &mut self.queues[self.config.queue_of(bank as usize)];
            queue.backlog[kind] += 1;
            self.moves.movable[kind] += usize::from(self.config.has_room(queue));
            self.moves.next = self.moves.next.min(tick.max(self.moves.last + 1));
        } else {
            self.join_bank(number, usize::from(burst.write));
            self.choose_direction();
        }
    }

    /// Appends an entry to a list of its bank.
    #[inline]
    pub(super) fn join_bank(&mut self, number: u16, list: usize) {
        let QueueEntry {
            bank, row, write, ..
        } = self.entries[number as usize];
        let index = bank as usize;
        let bank = &mut self.banks[index];
        let mut ends = (bank.head[list], bank.tail[list]);
        append(&mut self.entries, &mut ends, number);
        (bank.head[list], bank.tail[list]) = ends;
        self.occupied[list][index / 64] |= 1 << (index % 64);
        let first = bank.head[list] == number;
        let hit = bank.row == row && bank.place[usize::from(write)] == NIL;
        if (first || hit) && list == self.current() {
            self.propose(index);
        }
        if self.banks[index].closing {
            self.propose_idle(index);
        }
    }

    /// Removes an entry from a list of its bank.
    #[inline]
    pub(super) fn leave_bank(&mut self, number: u16, list: usize) {
        let index = usize::from(self.entries[number as usize].bank);
        let bank = &mut self.banks[index];
        let mut ends = (bank.head[list], bank.tail[list]);
        unlink(&mut self.entries, &mut ends, number);
        (bank.head[list], bank.tail[list]) = ends;
        if ends.0 == NIL {
            self.occupied[list][index / 64] &= !(1 << (index % 64));
        }
    }

    /// Counts a request out of its bank's queue, which makes room for transactions.
    #[inline]
    pub(super) fn leave_queue(&mut self, bank: usize) {
        let queue = &mut self.queues[self.config.queue_of(bank)];
        if !self.config.has_room(queue) {
            for kind in 0..2 {
                self.moves.movable[kind] += usize::from(queue.backlog[kind]);
            }
        }
        queue.length -= 1;
        self.moves.queued -= 1;
    }

    /// Whether a queued write has this address.
    #[inline]
    fn find_write(&self, address: u64) -> bool {
        let mut next = self.buckets[address as usize % BUCKETS];
        while next != NIL {
            let entry = &self.entries[next as usize];
            if entry.address == address {
                return true;
            }
            next = entry.chain;
        }
        false
    }

    /// Frees an entry whose access was sent.
    #[inline]
    pub(super) fn release(&mut self, number: u16) {
        let QueueEntry {
            address,
            write,
            chain,
            ..
        } = self.entries[number as usize];
        self.live.all -= 1;
        if write {
            let bucket = &mut self.buckets[address as usize % BUCKETS];
            if *bucket == number {
                *bucket = chain;
            } else {
                let mut before = *bucket as usize;
                while self.entries[before].chain != number {
                    before = self.entries[before].chain as usize;
                }
                self.entries[before].chain = chain;
            }
        } else {
            self.live.reads -= 1;
        }
        self.free.push(number);
    }

    /// Starts a drain when many writes or no reads are queued, and ends it when few writes and
    /// some reads are.
    #[inline]
    pub(super) fn choose_direction(&mut self) {
        let [reads, writes] = self.waiting;
        let drain = if self.drain.on {
            writes >= self.config.low.max(1) || (reads == 0 && writes > 0)
        } else {
            writes > self.config.high || (reads == 0 && writes > 0)
        };
        if drain != self.drain.on {
            self.turn();
        }
    }

    /// Moves the oldest transaction whose queue has room to that queue; one each tick.
    pub(super) fn move_transaction(&mut self, outstanding: &mut OutstandingRequests) {
        let tick = self.moves.next;
        self.moves.next = NEVER;
        let writes = self.waiting[1];
        if self.drain.left == 0
            && (writes >= self.config.writes.min(self.config.high + 1)
                || (self.moves.queued == 0
                    && (writes > self.config.low
                        || (self.config.written && writes > 0 && self.waiting[0] == 0))))
        {
            self.drain.left = writes;
        }
        let kind = usize::from(self.drain.left > 0);
        if self.moves.movable[kind] == 0 {
            return;
        }
        let mut number = self.moves.transactions[kind].0;
        let queue = loop {
            let QueueEntry { bank, next, .. } = self.entries[number as usize];
            let queue = self.config.queue_of(usize::from(bank));
            if self.config.has_room(&self.queues[queue]) {
                break queue;
            }
            number = next;
        };
        unlink(
            &mut self.entries,
            &mut self.moves.transactions[kind],
            number,
        );
        self.waiting[kind] -= 1;
        self.drain.left -= kind;
        self.moves.queued += 1;
        let queue = &mut self.queues[queue];
        queue.backlog[kind] -= 1;
        queue.length += 1;
        self.moves.movable[kind] -= 1;
        if !self.config.has_room(queue) {
            for kind in 0..2 {
                self.moves.movable[kind] -= usize::from(queue.backlog[kind]);
            }
        }
        self.moves.last = tick;
        self.floor = self.floor.max(tick + 1);
        self.moves.next = tick + 1;
        self.join_bank(number, 0);
        self.refill(tick, outstanding);
    }
}

#[inline]
fn append(entries: &mut [QueueEntry], ends: &mut (u16, u16), number: u16) {
    entries[number as usize].next = NIL;
    entries[number as usize].previous = ends.1;
    if ends.1 == NIL {
        ends.0 = number;
    } else {
        entries[ends.1 as usize].next = number;
    }
    ends.1 = number;
}

#[inline]
fn unlink(entries: &mut [QueueEntry], ends: &mut (u16, u16), number: u16) {
    let QueueEntry { next, previous, .. } = entries[number as usize];
    if previous == NIL {
        ends.0 = next;
    } else {
        entries[previous as usize].next = next;
    }
    if next == NIL {
        ends.1 = previous;
    } else {
        entries[next as usize].previous = previous;
    }
}
