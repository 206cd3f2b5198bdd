//! The `.cxlt` trace format (`docs/guide/traces.md`): line-granular records in independent compressed
//! blocks, every byte under a checksum, and a footer without which a file is not whole.
//!
//! Readers and writers stream: their memory is one block, however long the trace.

mod ahead;
mod block;
mod footprint;
mod header;
mod info;
mod reader;
mod records;
mod writer;

use cxlab_engine::units::{LINE_BYTES, LineAddr, SimTime};

use crate::op::OpKind;

pub use footprint::Footprint;
pub use header::{Header, MAGIC, VERSION};
pub use info::{BlockStats, TraceInfo, head, info};
pub use reader::TraceReader;
pub use records::Records;
pub use writer::{TraceTotals, TraceWriter};

pub(crate) use ahead::Ahead;
pub(crate) use reader::{looks_like_cxlt, write_error};

/// Records in a full block: a block's columns then take a few hundred kilobytes, which compress
/// nearly as well as the whole trace would (*assumed*).
pub const BLOCK_RECORDS: usize = 65_536;

/// The largest line number: byte addresses are 64 bits wide.
pub const MAX_LINE: u64 = u64::MAX / LINE_BYTES;

/// One record of a trace: an access to one line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// The line.
    pub line: LineAddr,
    /// Read or write.
    pub kind: OpKind,
    /// When it happened; [`SimTime::ZERO`] throughout a trace without times.
    pub time: SimTime,
}

/// The byte that begins a block.
const TAG_BLOCK: u8 = b'B';

/// The byte that begins the footer.
const TAG_FOOTER: u8 = b'F';
