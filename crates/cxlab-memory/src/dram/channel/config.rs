//! What a channel is made of.

use super::super::timing::Gaps;
use super::Bank;

/// What a channel is made of; the same for all channels of a memory.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Config {
    pub gaps: Gaps,
    pub clock_ps: u64,
    pub ticks_per_clock: u64,
    /// Ranks of all pseudo channels.
    pub ranks: usize,
    pub pseudo_channels: usize,
    pub groups: usize,
    /// Banks in a group.
    pub banks: usize,
    pub dual: bool,
    pub reads: usize,
    pub writes: usize,
    /// Writes are drained when more than this wait,
    pub high: usize,
    /// and until fewer than this do.
    pub low: usize,
    /// Depth of a queue for each bank, where there is one.
    pub bank_queue: Option<usize>,
    /// After so many accesses to a row an older request may close it ahead of younger hits,
    pub yield_after: u32,
    /// and after so many younger hits wait for it.
    pub hit_cap: u32,
    pub page: Page,
    pub refresh: Refresh,
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

    /// Whether the queue of a bank has room.
    #[inline]
    pub(super) fn bank_room(&self, bank: &Bank) -> bool {
        self.bank_queue
            .is_some_and(|depth| usize::from(bank.length) < depth)
    }

    /// Gates of one kind of command.
    pub(super) fn gates(&self) -> usize {
        self.ranks * self.groups
    }
}
