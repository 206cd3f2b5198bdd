//! Accesses to lines, of which operations on memory are made.

use cxlab_engine::units::{Hpa, LINE_BYTES, LineAddr, SimTime};
use cxlab_workload::thread::ThreadOp;
use serde::{Deserialize, Serialize};

use crate::stats::{Failure, STAGE_NAMES, Stages};

/// What an access does to its line.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub enum AccessKind {
    /// Reads some bytes.
    Load,
    /// Reads some bytes of a line that will be written, and asks for ownership of the line.
    LoadToStore,
    /// Writes some bytes.
    Store,
    /// Reads, changes and writes a number without letting the line go in between.
    Atomic,
    /// Writes the whole line and gives it to the host's last-level cache (NC-P).
    Push,
    /// Writes the line back and drops it everywhere (CLFLUSH).
    Flush,
    /// Writes the line back (CLWB).
    WriteBack,
    /// Moves the line to the last-level cache (CLDEMOTE).
    Demote,
    /// Fetches the line; nobody waits.
    Prefetch,
}

impl AccessKind {
    /// Whether it needs the only copy of its line.
    #[inline]
    pub fn owns(self) -> bool {
        self.writes() || self == AccessKind::LoadToStore
    }

    /// Whether it counts as a write.
    #[inline]
    pub fn writes(self) -> bool {
        matches!(
            self,
            AccessKind::Store | AccessKind::Atomic | AccessKind::Push
        )
    }
}

/// An access of an operation to one line.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Access {
    /// The operation.
    pub op: u32,
    /// What it does.
    pub kind: AccessKind,
    /// First byte, in the address space of the thread.
    pub addr: u64,
    /// Its physical address: the same until somebody translates.
    pub hpa: Hpa,
    /// The epoch of translated accesses that it belongs to, [`Access::NO_EPOCH`] without one.
    pub epoch: u64,
    /// Bytes, within the line.
    pub bytes: u8,
}

impl Access {
    /// It uses no translation.
    pub const NO_EPOCH: u64 = u64::MAX;

    /// The line.
    #[inline]
    pub fn line(&self) -> LineAddr {
        LineAddr(self.hpa.0 / LINE_BYTES)
    }

    /// Whether it covers its whole line.
    #[inline]
    pub fn is_whole(&self) -> bool {
        u64::from(self.bytes) == LINE_BYTES
    }
}

/// What a lane does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// This access; the owner says when it has [begun](crate::Lanes::access_begun).
    Access(Access),
    /// This operation, which is no access to memory; the owner says when it has
    /// [begun](crate::Lanes::begin) and when it is [complete](crate::Lanes::complete).
    Other(u32, ThreadOp),
    /// An operation that has begun completes at this time by itself.
    Completes(u32, SimTime),
    /// Nothing before this time.
    NotBefore(SimTime),
    /// Nothing before something completes.
    Waits,
    /// The code has ended and everything is complete.
    Ended,
}

/// What an access, or the message of one, ends with.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub enum Ending {
    /// Data, or the completion of a write.
    #[default]
    Served,
    /// Nothing: the device has no decoder for the address.
    Denied,
    /// Nothing: a component has failed.
    Failed(Failure),
}

/// How an access was answered.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Answer {
    /// When it began.
    pub begun: SimTime,
    /// When it is over.
    pub at: SimTime,
    /// By which device; `u16::MAX` for a cache, [`crate::LOCAL`] for the host's own memory.
    pub device: u16,
    /// Links that the answer crossed.
    pub hops: u16,
    /// Where the time went; they sum to the time from `begun` to `at`.
    pub stages: Stages,
    /// With what.
    pub ending: Ending,
}

impl Answer {
    /// Nothing yet.
    pub(crate) const NONE: Answer = Answer {
        begun: SimTime::ZERO,
        at: SimTime::ZERO,
        device: u16::MAX,
        hops: 0,
        stages: [0; STAGE_NAMES.len()],
        ending: Ending::Served,
    };

    /// By a cache, in one stage.
    pub fn by_cache(begun: SimTime, at: SimTime) -> Answer {
        Answer::by_cache_after(begun, begun, at)
    }

    /// By a cache that it came to at `from`: it waited before.
    pub fn by_cache_after(begun: SimTime, from: SimTime, at: SimTime) -> Answer {
        let mut stages = [0; STAGE_NAMES.len()];
        stages[crate::HOST_QUEUE] = from.0 - begun.0;
        stages[crate::CACHE] = at.0 - from.0;
        Answer {
            begun,
            at,
            stages,
            ..Answer::NONE
        }
    }
}

/// Whether an operation only loads: such operations need not wait for one another.
pub(crate) fn is_load(op: ThreadOp) -> bool {
    matches!(op, ThreadOp::Load { .. } | ThreadOp::ReadRange { .. })
}

/// Whether an operation is on memory, by accesses to lines.
pub(crate) fn is_request(op: ThreadOp) -> bool {
    access_of(0, op, 0).is_some()
}

/// Whether an operation moves bytes, by accesses or by DMA.
pub(crate) fn moves(op: ThreadOp) -> bool {
    bytes_of(op) > 0
}

/// Whether an operation on memory writes.
pub(crate) fn writes(op: ThreadOp) -> bool {
    access_of(0, op, 0).is_some_and(|access| access.kind.writes())
}

/// The first byte of an operation on memory.
pub(crate) fn first_of(op: ThreadOp) -> u64 {
    access_of(0, op, 0).map_or(0, |access| access.addr)
}

/// Bytes that an operation spans, by which its accesses are counted off.
pub(crate) fn length_of(op: ThreadOp) -> u64 {
    match op {
        ThreadOp::Load { size, .. }
        | ThreadOp::Store { size, .. }
        | ThreadOp::Atomic { size, .. }
        | ThreadOp::Await { size, .. } => u64::from(size),
        ThreadOp::ReadRange { bytes, .. }
        | ThreadOp::WriteRange { bytes, .. }
        | ThreadOp::Push { bytes, .. } => bytes,
        _ => 1,
    }
}

/// Bytes that an operation moves.
pub(crate) fn bytes_of(op: ThreadOp) -> u64 {
    match op {
        ThreadOp::Dma { bytes, .. } => bytes,
        ThreadOp::Load { .. }
        | ThreadOp::Store { .. }
        | ThreadOp::Atomic { .. }
        | ThreadOp::ReadRange { .. }
        | ThreadOp::WriteRange { .. }
        | ThreadOp::Push { .. } => length_of(op),
        _ => 0,
    }
}

/// The access of an operation that begins `covered` bytes into it; `None` where it is no access.
pub(crate) fn access_of(id: u32, op: ThreadOp, covered: u64) -> Option<Access> {
    let (kind, addr) = match op {
        ThreadOp::Load { addr, .. } | ThreadOp::Await { addr, .. } => (AccessKind::Load, addr),
        ThreadOp::ReadRange { addr, to_store, .. } => match to_store {
            true => (AccessKind::LoadToStore, addr),
            false => (AccessKind::Load, addr),
        },
        ThreadOp::Store { addr, .. } | ThreadOp::WriteRange { addr, .. } => {
            (AccessKind::Store, addr)
        }
        ThreadOp::Atomic { addr, .. } => (AccessKind::Atomic, addr),
        ThreadOp::Push { addr, .. } => (AccessKind::Push, addr),
        ThreadOp::Flush { addr } => (AccessKind::Flush, addr),
        ThreadOp::WriteBack { addr } => (AccessKind::WriteBack, addr),
        ThreadOp::Demote { addr } => (AccessKind::Demote, addr),
        ThreadOp::Prefetch { addr } => (AccessKind::Prefetch, addr),
        _ => return None,
    };
    let at = addr + covered;
    let left = length_of(op) - covered;
    let in_line = LINE_BYTES - at % LINE_BYTES;
    Some(Access {
        op: id,
        kind,
        addr: at,
        hpa: Hpa(at),
        epoch: Access::NO_EPOCH,
        bytes: left.min(in_line) as u8,
    })
}
