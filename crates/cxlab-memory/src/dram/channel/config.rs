//! The configuration of a channel.

use super::super::timing::CommandSpacing;
use super::queues::BankQueue;

/// The configuration of a channel, equal for all channels of a memory.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Config {
    pub gaps: CommandSpacing,
    pub clock_ps: u64,
    pub ticks_per_clock: u64,
    /// Ranks in all pseudo channels.
    pub ranks: usize,
    pub pseudo_channels: usize,
    /// Bank groups in a rank, over all its stack IDs.
    pub groups: usize,
    /// Number of stack IDs in a rank.
    pub stacks: usize,
    /// Banks in a bank group.
    pub banks: usize,
    pub dual: bool,
    pub reads: usize,
    pub writes: usize,
    /// High mark: a drain starts when more writes than this are queued.
    pub high: usize,
    /// Low mark: a drain ends when fewer writes than this are queued.
    pub low: usize,
    /// Depth of the queue for each bank or rank; `None` without such queues.
    pub queue: Option<usize>,
    /// Right shift from a bank's number to its queue's; 0 if each bank has a queue.
    pub queue_shift: u32,
    /// Most requests in the channel's queues and banks.
    pub entries: usize,
    /// Accesses to a row after which an older request may close it ahead of younger hits.
    pub yield_after: u32,
    /// Accesses to a row after which younger hits wait for an older request.
    pub hit_cap: u32,
    pub page: Page,
    pub refresh: Refresh,
    /// Activates after which a bank gets refresh management; 0 for never.
    pub rfm: u32,
    pub stagger: bool,
    /// Whether a queued write absorbs a later write to the same burst.
    pub coalesce: bool,
    /// Whether a write is done when its data are written, rather than when it is queued.
    pub written: bool,
}

/// The page policy: when rows are closed although no request needs another row.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Page {
    /// With the last access that a queue holds for the row.
    pub auto: bool,
    /// With this access after the row was opened.
    pub hits: u32,
    /// This many ticks after the last access; 0 for never.
    pub idle: u64,
}

/// The banks that one refresh command covers.
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

    /// The index of a bank's queue.
    #[inline]
    pub(super) fn queue_of(&self, bank: usize) -> usize {
        bank >> self.queue_shift
    }

    /// Whether a bank's or rank's queue has room.
    #[inline]
    pub(super) fn has_room(&self, queue: &BankQueue) -> bool {
        self.queue
            .is_some_and(|depth| usize::from(queue.length) < depth)
    }

    /// Number of gates for one kind of command.
    pub(super) fn gates(&self) -> usize {
        self.ranks * self.groups
    }
}
