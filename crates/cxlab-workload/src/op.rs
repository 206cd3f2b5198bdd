//! The interface between sources of memory operations and the requesters that issue them. A source only
//! hands out operations: it knows no latency, no host and no device.

use cxlab_engine::rng::StreamRng;
use cxlab_engine::state::SaveState;
use cxlab_engine::units::{Hpa, SimTime};
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
}

/// A stream of memory operations for one requester. A source restored from a checkpoint hands out
/// the operations that the saved source would have.
pub trait OpSource: SaveState + Send {
    /// Returns the next operation; `None` when the source has finished, and at every later call.
    fn next_op(&mut self, rng: &mut StreamRng) -> Option<MemOp>;

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
