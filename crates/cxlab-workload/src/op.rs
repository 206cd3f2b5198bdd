//! The interface between sources of memory operations and the requesters that issue them. A source only
//! hands out operations: it knows no latency, no host and no device.

use std::collections::VecDeque;

use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::state::SaveState;
use cxlab_engine::units::{Bytes, Hpa, SimTime};
use serde::{Deserialize, Serialize};

/// The kind of a memory operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Debug)]
pub enum OpKind {
    /// The operation loads.
    Read,
    /// The operation stores.
    Write,
}

/// One operation on one or more consecutive 64-byte lines of memory.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct MemOp {
    /// The first byte of the first line.
    pub hpa: Hpa,
    /// Whether the operation reads or writes.
    pub kind: OpKind,
    /// Number of consecutive lines, 1 to 64. The operation completes when all of them have.
    pub lines: u8,
    /// Earliest time of issue; [`SimTime::ZERO`] for no limit.
    pub not_before: SimTime,
    /// Whether the operation may issue only after the source's previous
    /// operation completes (pointer chase).
    pub dependent: bool,
    /// Whether the caches of another program give the lines up with this write. Only a host of kind
    /// `external` whose program is snooped has such operations.
    pub write_back: bool,
}

/// A stream of memory operations for one requester. A source restored from a checkpoint hands out
/// the operations that the saved source would have.
pub trait OpSource: SaveState + Send {
    /// Returns the next operation; `None` when the source has finished, and at every later call. A source with
    /// an [inlet](OpSource::inlet) also returns `None` while it is empty.
    fn next_op(&mut self, rng: &mut StreamRng) -> Option<MemOp>;

    /// The inlet through which another program adds operations while the simulation runs, if the source has
    /// one. Such a source has finished only when it is empty and its inlet is closed.
    fn inlet(&mut self) -> Option<&mut Inlet> {
        None
    }

    /// Appends up to `count` operations to `out`, in order; fewer only when
    /// the source has finished.
    fn next_ops(&mut self, rng: &mut StreamRng, count: usize, out: &mut Vec<MemOp>) {
        for _ in 0..count {
            match self.next_op(rng) {
                Some(op) => out.push(op),
                None => return,
            }
        }
    }
}

/// Why an [`Inlet`] does not take an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InletError {
    /// The queue is full. There is room again after the requester has issued an operation.
    Full,
    /// The inlet was closed, and takes no more operations.
    Closed,
}

/// A bounded queue of operations between another program and a requester.
///
/// The source is open until [`Inlet::close`]: a requester that finds it empty waits for more.
pub struct Inlet {
    queue: VecDeque<MemOp>,
    depth: usize,
    span: Bytes,
    closed: bool,
}

save_state!(Inlet {
    values: queue, closed;
    built: depth, span;
});

impl Inlet {
    /// An empty inlet for at most `depth` operations in a memory of `span` bytes.
    pub fn new(depth: usize, span: Bytes) -> Inlet {
        Inlet {
            queue: VecDeque::with_capacity(depth),
            depth,
            span,
            closed: false,
        }
    }

    /// Most operations in the queue.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Number of further operations that the inlet takes now.
    pub fn room(&self) -> usize {
        match self.closed {
            true => 0,
            false => self.depth - self.queue.len(),
        }
    }

    /// Size of the memory that operations may address, from 0 on.
    pub fn span(&self) -> Bytes {
        self.span
    }

    /// Whether more operations may follow.
    pub fn is_open(&self) -> bool {
        !self.closed
    }

    /// Adds an operation. The caller checks that its lines are within [`Inlet::span`], and that its time is
    /// not earlier than that of the operation before it.
    ///
    /// # Errors
    /// If the queue is full, or the inlet was closed.
    pub fn push(&mut self, op: MemOp) -> Result<(), InletError> {
        if self.closed {
            return Err(InletError::Closed);
        }
        if self.queue.len() == self.depth {
            return Err(InletError::Full);
        }
        self.queue.push_back(op);
        Ok(())
    }

    /// Ends the source after the operations in the queue.
    pub fn close(&mut self) {
        self.closed = true;
    }
}

impl OpSource for Inlet {
    fn next_op(&mut self, _: &mut StreamRng) -> Option<MemOp> {
        self.queue.pop_front()
    }

    fn inlet(&mut self) -> Option<&mut Inlet> {
        Some(self)
    }
}
