//! Accesses to cache lines: each memory operation of a thread is split into such accesses.

use cxlab_engine::units::{Hpa, LINE_BYTES, LineAddr, SimTime};
use cxlab_workload::thread::ThreadOp;
use serde::{Deserialize, Serialize};

use crate::stats::{Failure, STAGE_NAMES, StageTimes};

/// What an access does to its line.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub enum AccessKind {
    /// Reads some bytes.
    Load,
    /// Reads some bytes of a line that will be written, and requests ownership of the line.
    LoadToStore,
    /// Writes some bytes.
    Store,
    /// Reads, modifies and writes a number; the line cannot leave the cache in between.
    Atomic,
    /// Writes the whole line and pushes it into the host's last-level cache (NC-P).
    Push,
    /// Writes the line back and invalidates it in all caches (CLFLUSH).
    Flush,
    /// Writes the line back and keeps it in the cache (CLWB).
    WriteBack,
    /// Moves the line to the last-level cache (CLDEMOTE).
    Demote,
    /// Fetches the line into the cache; the thread does not wait for the data.
    Prefetch,
}

impl AccessKind {
    /// Whether the access needs exclusive ownership of its line.
    #[inline]
    pub fn owns(self) -> bool {
        self.writes() || self == AccessKind::LoadToStore
    }

    /// Whether the access is counted as a write.
    #[inline]
    pub fn writes(self) -> bool {
        matches!(
            self,
            AccessKind::Store | AccessKind::Atomic | AccessKind::Push
        )
    }
}

/// One operation's access to one cache line.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Access {
    /// Number of the operation in [`HwThreads`](crate::HwThreads).
    pub op: u32,
    /// What the access does to its line.
    pub kind: AccessKind,
    /// First byte accessed, as an address of the thread: virtual where addresses are translated.
    pub addr: u64,
    /// First byte accessed, as a physical address; equal to `addr` until the access is translated.
    pub hpa: Hpa,
    /// Epoch of translated accesses that this access belongs to, or [`Access::NO_EPOCH`].
    pub epoch: u64,
    /// Bytes accessed, 1 to 64; they do not cross the end of the line.
    pub bytes: u8,
}

impl Access {
    /// Epoch of an access whose address is not translated.
    pub const NO_EPOCH: u64 = u64::MAX;

    /// The line that contains the first byte, by its physical address.
    #[inline]
    pub fn line(&self) -> LineAddr {
        LineAddr(self.hpa.0 / LINE_BYTES)
    }

    /// Whether the access covers all 64 bytes of its line.
    #[inline]
    pub fn is_whole(&self) -> bool {
        u64::from(self.bytes) == LINE_BYTES
    }
}

/// What a hardware thread does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThreadAction {
    /// Begins this access. The owner reports its start with
    /// [`HwThreads::access_begun`](crate::HwThreads::access_begun).
    Access(Access),
    /// Begins this operation, which is not a memory access. The owner
    /// reports its start with [`HwThreads::begin`](crate::HwThreads::begin) and
    /// its end with [`HwThreads::complete`](crate::HwThreads::complete).
    Other(u32, ThreadOp),
    /// An operation has begun and completes at this time; no further event is needed.
    Completes(u32, SimTime),
    /// Nothing can begin before this time.
    NotBefore(SimTime),
    /// Nothing can begin before an outstanding operation completes.
    Waits,
    /// The code has ended and all of its operations are complete.
    Ended,
}

/// Outcome of an access, or of a message sent for one.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub enum AccessOutcome {
    /// Data, or the completion of a write.
    #[default]
    Served,
    /// The device denied the request: no decoder maps the address.
    Denied,
    /// A component failed, and the request was not served.
    Failed(Failure),
}

/// The response to an access.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct AccessResponse {
    /// When the access began.
    pub begun: SimTime,
    /// When the access completes.
    pub completes: SimTime,
    /// Number of the responding device; `u16::MAX` for a cache, [`crate::LOCAL`] for
    /// the host's own memory.
    pub device: u16,
    /// Number of links that the response crossed.
    pub hops: u16,
    /// Time spent in each stage; the stages sum to the time from `begun` to `completes`.
    pub stages: StageTimes,
    /// Outcome of the access.
    pub outcome: AccessOutcome,
}

impl AccessResponse {
    /// The initial value: no time and no device.
    pub(crate) const NONE: AccessResponse = AccessResponse {
        begun: SimTime::ZERO,
        completes: SimTime::ZERO,
        device: u16::MAX,
        hops: 0,
        stages: [0; STAGE_NAMES.len()],
        outcome: AccessOutcome::Served,
    };

    /// A response of a cache, with all of its time in the `cache` stage.
    pub fn by_cache(begun: SimTime, completes: SimTime) -> AccessResponse {
        AccessResponse::by_cache_after(begun, begun, completes)
    }

    /// A response of a cache that the access reached at `from`; the time
    /// before counts as `host_queue`.
    pub fn by_cache_after(begun: SimTime, from: SimTime, completes: SimTime) -> AccessResponse {
        let mut stages = [0; STAGE_NAMES.len()];
        stages[crate::HOST_QUEUE] = from.0 - begun.0;
        stages[crate::CACHE] = completes.0 - from.0;
        AccessResponse {
            begun,
            completes,
            stages,
            ..AccessResponse::NONE
        }
    }
}

/// Whether an operation only loads. Such operations need not wait for one another.
pub(crate) fn is_load(op: ThreadOp) -> bool {
    matches!(op, ThreadOp::Load { .. } | ThreadOp::ReadRange { .. })
}

/// Whether an operation accesses memory, by accesses to lines.
pub(crate) fn is_request(op: ThreadOp) -> bool {
    access_of(0, op, 0).is_some()
}

/// Whether an operation moves bytes, by memory accesses or by DMA.
pub(crate) fn moves(op: ThreadOp) -> bool {
    bytes_of(op) > 0
}

/// Whether an operation accesses memory and writes.
pub(crate) fn writes(op: ThreadOp) -> bool {
    access_of(0, op, 0).is_some_and(|access| access.kind.writes())
}

/// The first byte of a memory operation; 0 for other operations.
pub(crate) fn first_of(op: ThreadOp) -> u64 {
    access_of(0, op, 0).map_or(0, |access| access.addr)
}

/// Bytes that an operation spans. Its accesses cover them in order; 1 for operations
/// on a whole line.
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

/// Bytes that an operation moves; 0 for flushes, prefetches and operations without data.
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

/// The access that begins `covered` bytes into an operation; `None` where the operation
/// does not access memory.
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
    let start = addr + covered;
    let left = length_of(op) - covered;
    let in_line = LINE_BYTES - start % LINE_BYTES;
    Some(Access {
        op: id,
        kind,
        addr: start,
        hpa: Hpa(start),
        epoch: Access::NO_EPOCH,
        bytes: left.min(in_line) as u8,
    })
}
