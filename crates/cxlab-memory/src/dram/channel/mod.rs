//! One channel: its banks, its queues and its scheduler.
//!
//! Time is counted in ticks. The channel decides the next command and its tick, and then jumps to that tick; between
//! commands nothing is computed. The candidates of a bank are its oldest row hit, and the activate or precharge that
//! its oldest request needs. All candidates are in flat lists, with the tick from which their bank allows them. The
//! constraints of bank group, rank and bus are in `gates`, with one tick for each kind of command and bank group.
//!
//! Each list keeps the tick at which its first candidate can go. Arrivals lower this tick; it is recomputed only when
//! that candidate leaves or the list's gates rise. The choice among the candidates that can go at that tick is made
//! when the command is sent, in one pass without branches over the lists that are due.
//!
//! Decisions never depend on when the owner calls: commands are decided for the ticks up to `now`,
//! and a request that arrives at `now` gets its first command at the next tick or later.

mod candidates;
mod choice;
mod config;
mod issue;
mod queues;
mod refresh;

use std::collections::VecDeque;

use super::observer::{Command, CommandKind, CommandObserver};
use super::outstanding::OutstandingRequests;
use candidates::{CELLS, LISTS};
use choice::CandidateList;
pub(super) use config::{Config, Page, Refresh};
use cxlab_engine::save_state;
pub(super) use queues::Burst;
use queues::{BankQueue, QueueEntry};
use refresh::RefreshUnit;
use serde::{Deserialize, Serialize};

const NIL: u16 = u16::MAX;
/// Value of `Bank::row` while no row is open.
const CLOSED: u32 = u32::MAX;
const NEVER: u64 = u64::MAX;

/// The counters of a channel since measurement began.
#[derive(Clone, Copy, Default, Serialize, Deserialize, Debug)]
pub(super) struct ChannelCounters {
    pub activates: u64,
    pub precharges: u64,
    pub reads: u64,
    pub writes: u64,
    pub refreshes: u64,
    pub fine_refreshes: u64,
    pub managements: u64,
    pub hits: u64,
    pub misses: u64,
    pub conflicts: u64,
    pub forwarded: u64,
    pub coalesced: u64,
    /// Ticks with data on the bus.
    pub busy: u64,
    /// Ticks with a row open, summed over ranks.
    pub open: u64,
}

#[derive(Serialize, Deserialize)]
struct Bank {
    row: u32,
    /// Accesses since the row was opened.
    hits: u32,
    next_act: u64,
    next_pre: u64,
    next_rd: u64,
    next_wr: u64,
    /// Requests for the bank, oldest first: reads and writes. With a queue for each bank, all
    /// requests are in the first list.
    head: [u16; 2],
    tail: [u16; 2],
    /// The request for which the row was opened, until its access; it has left the queue.
    active: u16,
    /// Indices of the bank's candidates in their lists.
    place: [u16; CELLS],
    rank: u16,
    /// Index of its bank group's gate, among those of one kind of command.
    gate: u16,
    /// Whether the bank waits for a refresh.
    blocked: bool,
    /// Whether the row is to be closed because it is idle.
    closing: bool,
    touched: u64,
    /// Activates that refresh management counts (RAA).
    activates: u32,
}

#[derive(Serialize, Deserialize)]
struct Rank {
    /// For each of the last four activates, the tick at which it leaves tFAW's window.
    window: [u64; 4],
    oldest: usize,
    open: u16,
    open_since: u64,
    /// The tick from which one more bank may be refreshed.
    next_fine: u64,
    refresh: RefreshUnit,
}

/// The buses of commands and of the write clock.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Buses {
    /// The ticks from which the row and the column command bus are free.
    free: [u64; 2],
    /// The tick until which the write clock is synchronized.
    wck_until: u64,
}

/// A drain of the queued writes, which go before reads while it lasts.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct WriteDrain {
    on: bool,
    /// Number of writes that still move to the queues of banks or ranks in this drain.
    left: usize,
}

/// Transactions on their way to the queues of banks or ranks. Arrays: reads, writes.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Moves {
    /// Transactions that wait for these queues, oldest first.
    transactions: [(u16, u16); 2],
    /// Number of transactions whose queue has room.
    movable: [usize; 2],
    /// The ticks of the next and of the last move.
    next: u64,
    last: u64,
    /// The queue that was served last.
    round_robin: usize,
    /// Number of requests in the queues.
    queued: usize,
}

/// Number of bursts in the channel.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct LiveBursts {
    reads: usize,
    all: usize,
}

/// Refreshes of the ranks.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Refreshes {
    /// The tick at which the next one is due.
    next_due: u64,
    /// Number of ranks that wait for one.
    pending: u32,
}

/// The second half of an activate, in standards that have one.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct SecondHalf {
    /// The bank whose activate lacks it, and the tick by which it must be sent.
    owed: Option<(u16, u64)>,
    /// Whether it is the planned command.
    is_next: bool,
}

/// A channel with its banks, queues and scheduler.
pub(super) struct Channel<O> {
    config: Config,
    number: u32,
    banks: Vec<Bank>,
    ranks: Vec<Rank>,
    /// The ticks from which bank groups allow a command: of reads, writes, activates, precharges.
    gates: Vec<u64>,
    entries: Vec<QueueEntry>,
    free: Vec<u16>,
    /// The queues of banks or ranks, if there are such queues.
    queues: Vec<BankQueue>,
    lists: [CandidateList; LISTS],
    /// Bit masks of the banks with requests in each of their lists.
    occupied: [Vec<u64>; 2],
    /// The tick of the next command, if known.
    plan: Option<u64>,
    bus: Buses,
    /// All is decided before this tick.
    floor: u64,
    order: u64,
    /// Number of queued reads and writes.
    waiting: [usize; 2],
    drain: WriteDrain,
    moves: Moves,
    /// Bursts that found no room in the queues.
    overflow: VecDeque<Burst>,
    live: LiveBursts,
    /// Hash table of the queued writes, by the low bits of their address.
    buckets: [u16; queues::BUCKETS],
    refreshes: Refreshes,
    idle: VecDeque<(u64, u16)>,
    second: SecondHalf,
    counters: ChannelCounters,
    observer: O,
}

save_state!([O] Channel<O> {
    values: free, lists, plan, bus, floor, order, waiting, drain, moves, overflow, live, refreshes, idle, second, counters;
    sized: banks, ranks, gates, entries, occupied, queues;
    arrays: buckets;
    built: config, number, observer;
});

impl<O: CommandObserver> Channel<O> {
    pub(super) fn new(config: Config, number: u32, observer: O) -> Channel<O> {
        let per_rank = config.rank_banks();
        let count = config.ranks * per_rank;
        let capacity = config.entries;
        let queues = config.queue.map_or(0, |_| count >> config.queue_shift);
        let bank = |index: usize| Bank {
            row: CLOSED,
            hits: 0,
            next_act: 0,
            next_pre: 0,
            next_rd: 0,
            next_wr: 0,
            head: [NIL; 2],
            tail: [NIL; 2],
            active: NIL,
            place: [NIL; CELLS],
            rank: (index / per_rank) as u16,
            gate: (index / config.banks) as u16,
            blocked: false,
            closing: false,
            touched: 0,
            activates: 0,
        };
        let ranks = (0..config.ranks)
            .map(|rank| Rank {
                window: [0; 4],
                oldest: 0,
                open: 0,
                open_since: 0,
                next_fine: 0,
                refresh: RefreshUnit::new(&config, rank),
            })
            .collect();
        let mut channel = Channel {
            banks: (0..count).map(bank).collect(),
            ranks,
            gates: vec![0; 4 * config.gates()],
            entries: vec![QueueEntry::NONE; capacity],
            free: (0..capacity as u16).rev().collect(),
            queues: vec![BankQueue::default(); queues],
            lists: std::array::from_fn::<_, LISTS, _>(|_| CandidateList::new(count * 2)),
            occupied: [vec![0; count.div_ceil(64)], vec![0; count.div_ceil(64)]],
            plan: None,
            bus: Buses::default(),
            floor: 0,
            order: 0,
            waiting: [0; 2],
            drain: WriteDrain::default(),
            moves: Moves {
                transactions: [(NIL, NIL); 2],
                movable: [0; 2],
                next: NEVER,
                last: 0,
                round_robin: queues.saturating_sub(1),
                queued: 0,
            },
            overflow: VecDeque::with_capacity(64),
            live: LiveBursts::default(),
            buckets: [NIL; queues::BUCKETS],
            refreshes: Refreshes {
                next_due: NEVER,
                pending: 0,
            },
            idle: VecDeque::with_capacity(if config.page.idle > 0 { 64 } else { 0 }),
            second: SecondHalf::default(),
            counters: ChannelCounters::default(),
            config,
            number,
            observer,
        };
        channel.refreshes.next_due = channel.first_due();
        channel
    }

    /// Whether there is room for one more read or write.
    #[inline]
    pub(super) fn has_room(&self, write: bool) -> bool {
        let (waiting, most) = if write {
            (self.waiting[1], self.config.writes)
        } else {
            (self.waiting[0], self.config.reads)
        };
        waiting < most
    }

    /// Number of bursts that found no room.
    #[inline]
    pub(super) fn waiting_outside(&self) -> usize {
        self.overflow.len()
    }

    /// Decides and sends all commands up to and including `tick`. Returns the tick of the channel's next event.
    #[inline]
    pub(super) fn run(&mut self, tick: u64, outstanding: &mut OutstandingRequests) -> u64 {
        loop {
            let command = self.planned();
            let idle = self.idle.front().map_or(NEVER, |first| first.0);
            let next = command
                .min(self.refreshes.next_due)
                .min(self.moves.next)
                .min(idle);
            if next > tick {
                return next;
            }
            if next == self.refreshes.next_due {
                self.refresh_due(tick);
            } else if next == idle {
                self.close_idle();
            } else if next == command {
                self.issue(outstanding);
            } else {
                self.move_transaction(outstanding);
            }
        }
    }

    /// A lower bound on the tick of the next completion that is not known yet, and, with `blocked`,
    /// on the tick at which a queue gets room. Valid only after [`Channel::run`].
    #[inline]
    pub(super) fn wake(&self, blocked: bool) -> u64 {
        if self.live.all == 0 {
            return NEVER;
        }
        let command = self.plan.unwrap_or(NEVER);
        if blocked || !self.overflow.is_empty() {
            return self.room();
        }
        let gaps = &self.config.gaps;
        let least = match (self.config.written, self.live.reads) {
            (true, _) => gaps.read_done.min(gaps.write_done),
            (false, 0) => return NEVER,
            (false, _) => gaps.read_done,
        };
        let first = command.min(self.moves.next.saturating_add(1));
        first.saturating_add(least)
    }

    pub(super) fn begin_measurement(&mut self, tick: u64) {
        self.counters = ChannelCounters::default();
        for rank in &mut self.ranks {
            rank.open_since = rank.open_since.max(tick);
        }
    }

    pub(super) fn counters(&self, tick: u64) -> ChannelCounters {
        let mut counters = self.counters;
        for rank in self.ranks.iter().filter(|rank| rank.open > 0) {
            counters.open += tick.saturating_sub(rank.open_since);
        }
        counters
    }

    pub(super) fn observer(&self) -> &O {
        &self.observer
    }

    /// Reports a command to the observer, if it is active.
    #[inline]
    fn report(&mut self, kind: CommandKind, bank: usize, row: u32, column: u32, tick: u64) {
        if O::ON {
            let config = &self.config;
            self.observer.command(&Command {
                kind,
                channel: self.number,
                rank: (bank / config.rank_banks()) as u32,
                group: (bank / config.banks % config.groups) as u32,
                bank: (bank % config.banks) as u32,
                row,
                column,
                tick,
                at: cxlab_engine::units::SimTime(config.time(tick)),
            });
        }
    }
}
