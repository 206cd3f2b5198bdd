//! Statistics of a caching requester, besides those of its requests.

use cxlab_protocol::coherence::requester::Line;
use serde::{Deserialize, Serialize};

/// The state in which a snoop found a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum SnoopedState {
    /// The cache had no copy.
    Invalid,
    /// A shared copy.
    Shared,
    /// An exclusive, clean copy.
    Exclusive,
    /// A modified copy.
    Modified,
    /// A line with a request or a write-back in flight.
    Busy,
}

impl SnoopedState {
    /// Number of variants.
    pub const COUNT: usize = 5;

    pub(super) const fn of(line: Line) -> SnoopedState {
        match line {
            Line::I => SnoopedState::Invalid,
            Line::S => SnoopedState::Shared,
            Line::E => SnoopedState::Exclusive,
            Line::M => SnoopedState::Modified,
            Line::IsAD
            | Line::IsA
            | Line::SD
            | Line::ED
            | Line::ImAD
            | Line::ImA
            | Line::MD
            | Line::SmA
            | Line::ImN
            | Line::IcAD
            | Line::IcA
            | Line::IcD
            | Line::IfA
            | Line::CiA
            | Line::MiA
            | Line::MsA
            | Line::MeA => SnoopedState::Busy,
        }
    }
}

/// The reason for which an access had to wait in front of the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum StallReason {
    /// Every MSHR is in use.
    Mshrs,
    /// The line's MSHR has the largest number of waiting accesses.
    Targets,
    /// Every way of the set has a transaction in flight.
    Set,
    /// Every entry for evictions is in use.
    Evictions,
    /// The caches above have not given up the line to be evicted.
    Above,
}

impl StallReason {
    /// Number of variants.
    pub const COUNT: usize = 5;
}

/// Statistics of a caching requester since measurement began.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct CoherenceStats {
    /// Number of accesses that hit.
    pub hits: u64,
    /// Number of accesses that began a request for an absent line.
    pub misses: u64,
    /// Number of misses that waited for the eviction of the same line.
    pub after_evictions: u64,
    /// Number of accesses that merged with an outstanding transaction of their line.
    pub merged: u64,
    /// Number of requests to own a shared line for a store.
    pub upgrades: u64,
    /// Number of upgrades whose shared copy a snoop invalidated, so that the line had to be read.
    pub upgrades_lost: u64,
    /// Number of clean lines evicted with `MemClnEvct`.
    pub clean_evictions: u64,
    /// Number of loads that did not cache their line.
    pub loads_once: u64,
    /// Number of clean lines evicted silently.
    pub silent_evictions: u64,
    /// Number of modified lines evicted.
    pub dirty_evictions: u64,
    /// Number of modified lines written because of a snoop.
    pub snoop_writebacks: u64,
    /// Number of lines snooped, by `Snoop` and [`SnoopedState`].
    pub snooped: [[u64; SnoopedState::COUNT]; 3],
    /// Number of snoop messages for several lines.
    pub block_snoops: u64,
    /// Number of copies that snoops invalidated.
    pub invalidated: u64,
    /// Number of `BIConflict` messages sent.
    pub conflicts: u64,
    /// Number of conflicts whose acknowledgement came before the completion.
    pub early_conflicts: u64,
    /// Number of snoop messages that waited for an entry.
    pub snoops_delayed: u64,
    /// Number of accesses that waited in front of the cache, by [`StallReason`]: the first reason found.
    pub stalls: [u64; StallReason::COUNT],
}
