//! A block: up to [`BLOCK_RECORDS`] records as two columns, compressed together.
//!
//! The differences in each block start from line 0 and time 0, so that a reader
//! can skip blocks unread.
//!
//! ```text
//! tag 'B' | records u32 | address bytes u32 | time bytes u32 | stored bytes u32 | checksum u32 | zstd
//! ```
//! The checksum is the CRC-32 of the block without the checksum itself. The address column has for
//! each record the varint of `zigzag(line - previous line) * 2 + (1 for a write)`. The time column
//! has for each record the varint of `zigzag(time - previous time)`, in picoseconds. The time
//! column is empty in a trace without times.

use cxlab_engine::units::{LineAddr, SimTime};

use super::{BLOCK_RECORDS, MAX_LINE, Record, TAG_BLOCK};
use crate::op::OpKind;
use crate::varint::{self, unzigzag, zigzag};

/// Bytes of a block's header, including tag and checksum.
pub(super) const HEADER_BYTES: usize = 21;

/// Leading bytes of the header that the checksum covers, together with the compressed columns.
const SIGNED: usize = 17;

/// Most bytes of a column before compression.
const MAX_COLUMN: usize = BLOCK_RECORDS * varint::MAX_BYTES;

/// Most compressed bytes of a block: zstd expands incompressible input by less than 1 part in 128.
const MAX_STORED: usize = 2 * MAX_COLUMN + 2 * MAX_COLUMN / 128 + 1024;

/// The header of a block, without its tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BlockHeader {
    pub records: usize,
    pub address_bytes: usize,
    pub time_bytes: usize,
    pub stored_bytes: usize,
    pub checksum: u32,
}

/// Number and sizes of the blocks of a `.cxlt` trace.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct BlockStats {
    /// The number of blocks.
    pub blocks: u64,
    /// Bytes of all blocks in the file, with their headers.
    pub stored_bytes: u64,
    /// Bytes of the blocks' columns before compression.
    pub column_bytes: u64,
}

impl BlockStats {
    pub(super) fn add(&mut self, header: &BlockHeader) {
        self.blocks += 1;
        self.stored_bytes += (HEADER_BYTES + header.stored_bytes) as u64;
        self.column_bytes += (header.address_bytes + header.time_bytes) as u64;
    }
}

/// A faulty field of a block: its name, and what is wrong.
pub(super) type BlockFault = (&'static str, String);

impl BlockHeader {
    /// Parses and checks a header, whose first byte is the tag.
    pub fn parse(bytes: &[u8; HEADER_BYTES], has_time: bool) -> Result<BlockHeader, BlockFault> {
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let limited = |field, at, low: usize, high: usize| {
            let value = word(at) as usize;
            if (low..=high).contains(&value) {
                return Ok(value);
            }
            Err((field, format!("found {value}; allowed: {low} to {high}")))
        };
        let records = limited("records", 1, 1, BLOCK_RECORDS)?;
        let most = records * varint::MAX_BYTES;
        let (low, high) = if has_time { (records, most) } else { (0, 0) };
        Ok(BlockHeader {
            records,
            address_bytes: limited("address bytes", 5, records, most)?,
            time_bytes: limited("time bytes", 9, low, high)?,
            stored_bytes: limited("stored bytes", 13, 1, MAX_STORED)?,
            checksum: word(17),
        })
    }
}

/// The checksum of a block, over its header and its compressed columns.
pub(super) fn checksum(header: &[u8; HEADER_BYTES], stored: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&header[..SIGNED]);
    hasher.update(stored);
    hasher.finalize()
}

/// Encodes the records of one block.
#[derive(Default)]
pub(super) struct BlockBuilder {
    records: usize,
    addresses: Vec<u8>,
    times: Vec<u8>,
    line: u64,
    time: u64,
}

impl BlockBuilder {
    /// The number of records added since the block began.
    pub fn records(&self) -> usize {
        self.records
    }

    /// Adds a record, whose line number is at most [`MAX_LINE`].
    #[inline]
    pub fn push(&mut self, record: Record, has_time: bool) {
        let write = u64::from(record.kind == OpKind::Write);
        let delta = zigzag(record.line.0.wrapping_sub(self.line));
        varint::put((delta << 1) | write, &mut self.addresses);
        self.line = record.line.0;
        if has_time {
            let delta = zigzag(record.time.0.wrapping_sub(self.time));
            varint::put(delta, &mut self.times);
            self.time = record.time.0;
        }
        self.records += 1;
    }

    /// Returns the block's bytes and its checksum, and empties the builder. `level`
    /// is that of zstd.
    pub fn finish(&mut self, level: i32) -> std::io::Result<(Vec<u8>, u32)> {
        let address_bytes = self.addresses.len();
        self.addresses.append(&mut self.times);
        let stored = zstd::bulk::compress(&self.addresses, level)?;
        let mut header = [0; HEADER_BYTES];
        header[0] = TAG_BLOCK;
        let time_bytes = self.addresses.len() - address_bytes;
        let words = [self.records, address_bytes, time_bytes, stored.len()];
        for (slot, word) in header[1..SIGNED].chunks_exact_mut(4).zip(words) {
            slot.copy_from_slice(&(word as u32).to_le_bytes());
        }
        let sum = checksum(&header, &stored);
        header[SIGNED..].copy_from_slice(&sum.to_le_bytes());
        self.addresses.clear();
        (self.records, self.line, self.time) = (0, 0, 0);
        let mut bytes = header.to_vec();
        bytes.extend(stored);
        Ok((bytes, sum))
    }
}

/// Decodes the records of one block from its decompressed columns.
#[derive(Default)]
pub(super) struct BlockCursor {
    columns: Vec<u8>,
    left: usize,
    address_at: usize,
    address_end: usize,
    time_at: usize,
    line: u64,
    time: u64,
}

impl BlockCursor {
    /// Decompresses a block whose checksum has been checked.
    pub fn load(&mut self, header: &BlockHeader, stored: &[u8]) -> Result<(), BlockFault> {
        let wanted = header.address_bytes + header.time_bytes;
        self.left = 0;
        self.columns.clear();
        self.columns.reserve(wanted);
        let found = zstd::bulk::Decompressor::new()
            .and_then(|mut zstd| zstd.decompress_to_buffer(stored, &mut self.columns))
            .map_err(|error| ("zstd", error.to_string()))?;
        if found != wanted {
            return Err(("zstd", format!("found {found} bytes; allowed: {wanted}")));
        }
        self.left = header.records;
        (self.address_at, self.address_end, self.time_at) =
            (0, header.address_bytes, header.address_bytes);
        (self.line, self.time) = (0, 0);
        Ok(())
    }

    /// The number of records not yet handed out.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Hands the next `count` records to `take`; at most [`BlockCursor::left`].
    #[inline]
    pub fn each(
        &mut self,
        has_time: bool,
        count: usize,
        mut take: impl FnMut(Record),
    ) -> Result<(), BlockFault> {
        for _ in 0..count {
            take(self.next(has_time)?);
        }
        Ok(())
    }

    /// Returns the next record. May be called only while [`BlockCursor::left`] is above 0.
    #[inline(always)]
    pub fn next(&mut self, has_time: bool) -> Result<Record, BlockFault> {
        let word = varint::get(&self.columns[..self.address_end], &mut self.address_at)
            .ok_or_else(|| ("address", "a number is cut off or too long".to_owned()))?;
        self.line = self.line.wrapping_add(unzigzag(word >> 1));
        if self.line > MAX_LINE {
            let message = format!("found line {}; allowed: 0 to {MAX_LINE}", self.line);
            return Err(("address", message));
        }
        if has_time {
            let delta = varint::get(&self.columns, &mut self.time_at)
                .ok_or_else(|| ("time", "a number is cut off or too long".to_owned()))?;
            self.time = self.time.wrapping_add(unzigzag(delta));
        }
        self.left -= 1;
        if self.left == 0
            && (self.address_at != self.address_end || self.time_at != self.columns.len())
        {
            let message = "the columns hold more than the block's records".to_owned();
            return Err(("records", message));
        }
        let kind = if word & 1 == 1 {
            OpKind::Write
        } else {
            OpKind::Read
        };
        Ok(Record {
            line: LineAddr(self.line),
            kind,
            time: SimTime(self.time),
        })
    }
}
