//! The `.cxlt` trace format (`docs/reference/cxlt.md`): records of line accesses in independently
//! compressed blocks. Checksums cover every byte, and only a file with a footer is complete.
//!
//! Readers and writers stream: they keep one block in memory, however long the trace is.

mod block;
mod header;
mod reader;
mod writer;

use cxlab_engine::units::{LINE_BYTES, LineAddr, SimTime};

use crate::op::OpKind;

pub use block::BlockStats;
pub use header::{Header, MAGIC, VERSION};
pub use reader::TraceReader;
pub use writer::{TraceTotals, TraceWriter};

pub(crate) use reader::{looks_like_cxlt, write_error};

/// Records in a full block. The columns of such a block take a few hundred kilobytes, which
/// compress nearly as well as the whole trace would (*assumed*).
pub const BLOCK_RECORDS: usize = 65_536;

/// The largest line number, as byte addresses have 64 bits.
pub const MAX_LINE: u64 = u64::MAX / LINE_BYTES;

/// One record of a trace: an access to one line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// The line accessed.
    pub line: LineAddr,
    /// Whether the access reads or writes.
    pub kind: OpKind,
    /// Time of the access; [`SimTime::ZERO`] in a trace without times.
    pub time: SimTime,
}

/// The first byte of a block.
const TAG_BLOCK: u8 = b'B';

/// The first byte of the footer.
const TAG_FOOTER: u8 = b'F';
