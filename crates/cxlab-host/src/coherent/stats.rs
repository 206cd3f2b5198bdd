//! What a caching requester measures beside its requests.

use cxlab_protocol::coherence::requester::Line;
use serde::{Deserialize, Serialize};

/// In what state a snoop found a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Found {
    /// No copy.
    Invalid,
    /// A shared copy.
    Shared,
    /// An exclusive, clean copy.
    Exclusive,
    /// A modified copy.
    Modified,
    /// A request or a write-back under way.
    Busy,
}

impl Found {
    /// How many there are.
    pub const COUNT: usize = 5;

    pub(super) const fn of(line: Line) -> Found {
        match line {
            Line::I => Found::Invalid,
            Line::S => Found::Shared,
            Line::E => Found::Exclusive,
            Line::M => Found::Modified,
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
            | Line::MeA => Found::Busy,
        }
    }
}

/// Why an access had to wait in front of the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Stall {
    /// Every MSHR is in use.
    Mshrs,
    /// The line's MSHR has as many accesses waiting as it may.
    Targets,
    /// Every way of the set has something under way.
    Set,
    /// Every entry for evictions is in use.
    Evictions,
}

impl Stall {
    /// How many there are.
    pub const COUNT: usize = 4;
}

/// What a caching requester did, from the beginning of measurement.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct CoherenceStats {
    /// Accesses that the cache answered.
    pub hits: u64,
    /// Accesses that began a request for an absent line.
    pub misses: u64,
    /// Misses that waited for the eviction of the same line.
    pub after_evictions: u64,
    /// Accesses that waited for the request of another.
    pub merged: u64,
    /// Stores that began a request to own a shared line.
    pub upgrades: u64,
    /// Upgrades whose shared copy a snoop took, so that the line had to be read.
    pub upgrades_lost: u64,
    /// Clean lines that made room and were announced with `MemClnEvct`.
    pub clean_evictions: u64,
    /// Loads that cached nothing.
    pub loads_once: u64,
    /// Clean lines that made room silently.
    pub silent_evictions: u64,
    /// Modified lines that made room.
    pub dirty_evictions: u64,
    /// Modified lines written because of a snoop.
    pub snoop_writebacks: u64,
    /// Lines that snoops asked for, by `Snoop` and [`Found`].
    pub snooped: [[u64; Found::COUNT]; 3],
    /// Snoop messages for several lines.
    pub block_snoops: u64,
    /// Copies that snoops took.
    pub invalidated: u64,
    /// `BIConflict` sent.
    pub conflicts: u64,
    /// Conflicts whose acknowledgement came before the completion.
    pub early_conflicts: u64,
    /// Snoop messages that waited for an entry.
    pub snoops_delayed: u64,
    /// Accesses that waited in front of the cache, by [`Stall`] at first sight.
    pub stalls: [u64; Stall::COUNT],
}
