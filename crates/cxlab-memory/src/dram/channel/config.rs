//! What a channel is made of.

use super::super::timing::Gaps;
use super::queues::BankQueue;

/// What a channel is made of; the same for all channels of a memory.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Config {
    pub gaps: Gaps,
    pub clock_ps: u64,
    pub ticks_per_clock: u64,
    /// Ranks of all pseudo channels.
    pub ranks: usize,
    pub pseudo_channels: usize,
    /// Bank groups of a rank, of all its stack IDs.
    pub groups: usize,
    /// Stack IDs of a rank.
    pub stacks: usize,
    /// Banks in a group.
    pub banks: usize,
    pub dual: bool,
    pub reads: usize,
    pub writes: usize,
    /// Writes are drained when more than this wait,
    pub high: usize,
    /// and until fewer than this do.
    pub low: usize,
    /// Depth of a queue for each bank or each rank, where there are such.
    pub queue: Option<usize>,
    /// Bits of a bank's number below that of its queue: 0 where each bank has one.
    pub queue_shift: u32,
    /// Requests that the channel's queues and banks hold.
    pub entries: usize,
    /// After so many accesses to a row an older request may close it ahead of younger hits,
    pub yield_after: u32,
    /// and after so many younger hits wait for it.
    pub hit_cap: u32,
    pub page: Page,
    pub refresh: Refresh,
    /// Activates after which a bank gets refresh management; 0: never.
    pub rfm: u32,
    pub stagger: bool,
    /// Whether a write to a queued write is absorbed.
    pub coalesce: bool,
    /// Whether a write is done when its data are written, not when it is queued.
    pub written: bool,
}

/// When rows are closed without need.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Page {
    /// With the last access that a queue has for it.
    pub auto: bool,
    /// With this access.
    pub hits: u32,
    /// So many ticks after its last access.
    pub idle: u64,
}

/// What is refreshed at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Refresh {
    Off,
    AllBank,
    PerBank,
    SameBank,
}

impl Config {
    /// The time at which a tick begins.
    #[inline]
    pub(in super::super) fn time(&self, tick: u64) -> u64 {
        match self.ticks_per_clock {
            1 => tick * self.clock_ps,
            ticks => tick * self.clock_ps / ticks,
        }
    }

    /// The last tick that has begun by `now`.
    #[inline]
    pub(in super::super) fn tick(&self, now: u64) -> u64 {
        match self.ticks_per_clock {
            1 => now / self.clock_ps,
            ticks => ((now + 1) * ticks - 1) / self.clock_ps,
        }
    }

    pub(super) fn rank_banks(&self) -> usize {
        self.groups * self.banks
    }

    /// The queue of a bank.
    #[inline]
    pub(super) fn queue_of(&self, bank: usize) -> usize {
        bank >> self.queue_shift
    }

    /// Whether a queue has room.
    #[inline]
    pub(super) fn has_room(&self, queue: &BankQueue) -> bool {
        self.queue
            .is_some_and(|depth| usize::from(queue.length) < depth)
    }

    /// Gates of one kind of command.
    pub(super) fn gates(&self) -> usize {
        self.ranks * self.groups
    }
}
