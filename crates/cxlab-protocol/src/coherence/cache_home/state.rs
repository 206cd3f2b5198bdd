//! The state that a home agent stores for a line.

use serde::{Deserialize, Serialize};

use crate::coherence::filter::{Filter, Peer, Peers};
use crate::coherence::message::Snoop;
use crate::coherence::table::{RowPhases, phases};

listed! {
    /// An operation on a line.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
    #[repr(u8)]
    pub enum Operation {
        /// `RdShared`.
        Share,
        /// `RdAny`, and a core's load.
        ShareOrOwn,
        /// `RdOwn`, and a core's store.
        Own,
        /// `RdOwnNoData`.
        OwnNoData,
        /// `RdCurr`.
        Current,
        /// `CLFlush`.
        Flush,
        /// `ItoMWr`, and `WrCur` of a line that the cores had: into the last-level cache.
        WriteLlc,
        /// `WrCur`, into memory if the cores do not have the line.
        WriteCurrent,
        /// `WrInv`.
        WriteThrough,
        /// `WOWrInv` and `WOWrInvF`.
        WriteWeakly,
        /// `DirtyEvict`.
        EvictDirty,
        /// `DirtyEvict` of a push: into the last-level cache.
        EvictPush,
        /// `CleanEvict` whose data the last-level cache takes.
        EvictClean,
        /// An eviction that a snoop overtook.
        EvictStale,
        /// The directory evicts its entry of the line.
        EvictEntry,
        /// A write to an address without memory.
        WriteMissing,
        /// A weakly ordered write to an address without memory.
        WriteMissingWeakly,
    }
}

impl Operation {
    /// The snoop that the operation sends to the other holders.
    #[inline]
    pub(super) const fn snoop(self) -> Snoop {
        match self {
            Operation::Share | Operation::ShareOrOwn => Snoop::Data,
            Operation::Current => Snoop::Cur,
            _ => Snoop::Inv,
        }
    }
}

/// Progress of the operation on a line.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub enum Phase {
    /// No operation is in flight.
    #[default]
    Idle,
    /// Responses to snoops are outstanding.
    Snooping(Operation),
    /// Memory, or the last-level cache, reads the line.
    Reading(Operation),
    /// The home waits for the requester's data.
    Pulling(Operation),
    /// Memory writes the line.
    Writing(Operation),
}

phases! { Snooping Reading Pulling Writing }

/// The data that snoops have brought into the home's buffer.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
#[repr(u8)]
pub enum CollectedData {
    /// Snoops have brought no data.
    #[default]
    Nothing,
    /// The line from the cores, equal to memory.
    CoresClean,
    /// The line from the cores; memory has an older value.
    CoresDirty,
    /// The line from a device; memory has an older value.
    DeviceDirty,
}

/// Which part of a device's response to a snoop, the message or its data, is outstanding.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub enum Forward {
    /// Neither, or both have arrived.
    #[default]
    Nothing,
    /// The response has arrived, the data have not.
    AwaitData,
    /// The data have arrived, the response has not.
    AwaitResponse,
}

/// The state that the home stores for one line. `filter` is the entry of the directory; the rest is
/// needed only while an operation is in flight.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct LineState {
    /// The holders that may have a copy.
    pub filter: Filter,
    /// Holders whose responses are outstanding.
    pub waiting: Peers,
    /// Progress of the operation.
    pub phase: Phase,
    /// Requester of the operation; without meaning for `EvictEntry`.
    pub requester: Peer,
    /// The data that snoops have brought.
    pub collected: CollectedData,
    /// Response or data still outstanding from a device that had the line modified.
    pub forward: Forward,
}

impl LineState {
    /// A line without an operation.
    pub const fn idle(filter: Filter) -> LineState {
        LineState {
            filter,
            waiting: Peers::NONE,
            phase: Phase::Idle,
            requester: Peer(0),
            collected: CollectedData::Nothing,
            forward: Forward::Nothing,
        }
    }

    /// Whether an operation is in flight.
    #[inline]
    pub const fn is_busy(&self) -> bool {
        !matches!(self.phase, Phase::Idle)
    }
}
