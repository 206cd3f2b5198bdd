//! The writer of `.cxlt` traces.

use std::io::{self, Write};

use super::block::BlockBuilder;
use super::{BLOCK_RECORDS, Header, MAX_LINE, Record, TAG_FOOTER};

/// The compression level of zstd: 9 is within a few per cent of the best ratio and keeps up
/// with every importer (*assumed*).
const LEVEL: i32 = 9;

/// Totals of a finished trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceTotals {
    /// The number of records.
    pub records: u64,
    /// The number of blocks.
    pub blocks: u64,
    /// Size of the file in bytes.
    pub bytes: u64,
}

/// Writes a `.cxlt` trace as a stream and keeps one block in memory.
///
/// A trace is complete only after [`TraceWriter::finish`]: readers report a trace as truncated if
/// its writer was dropped before.
pub struct TraceWriter<W: Write> {
    out: W,
    has_time: bool,
    block: BlockBuilder,
    totals: TraceTotals,
    chain: crc32fast::Hasher,
}

impl<W: Write> TraceWriter<W> {
    /// Starts a trace by writing its header to `out`.
    ///
    /// # Errors
    /// When writing to `out` fails, or when the provenance takes more than 1 MiB.
    pub fn new(mut out: W, header: &Header) -> io::Result<Self> {
        let bytes = header.write(&mut out)?;
        Ok(TraceWriter {
            out,
            has_time: header.has_time,
            block: BlockBuilder::default(),
            totals: TraceTotals {
                records: 0,
                blocks: 0,
                bytes,
            },
            chain: crc32fast::Hasher::new(),
        })
    }

    /// Adds a record. A trace without times omits the record's time.
    ///
    /// # Errors
    /// When writing fails, or when the line is above [`MAX_LINE`].
    #[inline]
    pub fn push(&mut self, record: Record) -> io::Result<()> {
        if record.line.0 > MAX_LINE {
            let message = format!("found line {}; allowed: 0 to {MAX_LINE}", record.line.0);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        self.block.push(record, self.has_time);
        self.totals.records += 1;
        if self.block.records() == BLOCK_RECORDS {
            self.write_block()
        } else {
            Ok(())
        }
    }

    /// Writes the last block and the footer, and returns `out` with the totals.
    ///
    /// # Errors
    /// When writing fails.
    pub fn finish(mut self) -> io::Result<(W, TraceTotals)> {
        if self.block.records() > 0 {
            self.write_block()?;
        }
        let footer = Footer {
            records: self.totals.records,
            blocks: self.totals.blocks,
            chain: self.chain.clone().finalize(),
        };
        let bytes = footer.bytes();
        self.out.write_all(&bytes)?;
        self.out.flush()?;
        self.totals.bytes += bytes.len() as u64;
        Ok((self.out, self.totals))
    }

    fn write_block(&mut self) -> io::Result<()> {
        let (bytes, checksum) = self.block.finish(LEVEL)?;
        self.out.write_all(&bytes)?;
        self.chain.update(&checksum.to_le_bytes());
        self.totals.blocks += 1;
        self.totals.bytes += bytes.len() as u64;
        Ok(())
    }
}

/// The footer of a complete trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Footer {
    pub records: u64,
    pub blocks: u64,
    /// CRC-32 over the blocks' checksums in order, which detects missing,
    /// repeated and moved blocks.
    pub chain: u32,
}

impl Footer {
    /// Size of a footer in bytes.
    pub const BYTES: usize = 25;

    /// The encoded footer.
    pub fn bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0] = TAG_FOOTER;
        bytes[1..9].copy_from_slice(&self.records.to_le_bytes());
        bytes[9..17].copy_from_slice(&self.blocks.to_le_bytes());
        bytes[17..21].copy_from_slice(&self.chain.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..21]);
        bytes[21..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }
}
