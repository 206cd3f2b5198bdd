//! The reader of `.cxlt` traces.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::block::{self, BlockCursor, BlockHeader, BlockStats, HEADER_BYTES};
use super::header::read_part;
use super::writer::Footer;
use super::{Header, Record, TAG_BLOCK, TAG_FOOTER};
use crate::error::{FilePlace, TraceError};

/// Reads a `.cxlt` trace as a stream and keeps one block in memory.
///
/// The end of the records is reported only after the footer has been checked against everything
/// that was read: a truncated or altered file always ends in an error.
pub struct TraceReader<R: Read> {
    input: R,
    path: PathBuf,
    header: Header,
    block: BlockCursor,
    stored: Vec<u8>,
    at: u64,
    block_at: u64,
    stats: BlockStats,
    records: u64,
    chain: crc32fast::Hasher,
    state: State,
}

#[derive(Clone, PartialEq, Debug)]
enum State {
    Reading,
    Finished,
    Failed(TraceError),
}

impl<R: Read> TraceReader<R> {
    /// Reads a trace from `input`. Errors name the trace by `path`.
    ///
    /// # Errors
    /// When `input` does not begin with the header of a `.cxlt` trace.
    pub fn new(mut input: R, path: &Path) -> Result<Self, TraceError> {
        let (header, at) = Header::read(&mut input).map_err(|fault| {
            let place = FilePlace::Offset(fault.offset);
            TraceError::new(path, place, fault.field, fault.message)
        })?;
        Ok(TraceReader {
            input,
            path: path.to_owned(),
            header,
            block: BlockCursor::default(),
            stored: Vec::new(),
            at,
            block_at: at,
            stats: BlockStats::default(),
            records: 0,
            chain: crc32fast::Hasher::new(),
            state: State::Reading,
        })
    }

    /// The trace's header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Number and sizes of the blocks read so far.
    pub fn block_stats(&self) -> BlockStats {
        self.stats
    }

    /// Returns the next record; `None` at the end of the trace.
    ///
    /// # Errors
    /// The first error found in the file, at this call and at every later one.
    #[inline]
    pub fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        while self.block.left() == 0 {
            if self.state == State::Finished {
                return Ok(None);
            }
            self.next_part(true)?;
        }
        let next = self.block.next(self.header.has_time).map(Some);
        next.or_else(|(field, message)| self.fail(field, message))
    }

    /// Hands up to `count` records to `take` and returns their number, which is below `count` only
    /// at the end of the trace.
    ///
    /// # Errors
    /// Those of [`TraceReader::next_record`].
    #[inline]
    pub fn each(
        &mut self,
        count: usize,
        mut take: impl FnMut(Record),
    ) -> Result<usize, TraceError> {
        let mut taken = 0;
        while taken < count {
            if self.block.left() == 0 {
                if self.state == State::Finished {
                    break;
                }
                self.next_part(true)?;
                continue;
            }
            let some = self.block.left().min(count - taken);
            if let Err((field, message)) = self.block.each(self.header.has_time, some, &mut take) {
                return self.fail(field, message);
            }
            taken += some;
        }
        Ok(taken)
    }

    /// Skips up to `count` records and returns their number. Whole blocks are
    /// checked but not decompressed.
    ///
    /// # Errors
    /// Those of [`TraceReader::next_record`].
    pub fn skip_records(&mut self, count: u64) -> Result<u64, TraceError> {
        let mut skipped = 0;
        while skipped < count {
            if self.block.left() > 0 {
                if self.next_record()?.is_none() {
                    break;
                }
                skipped += 1;
                continue;
            }
            if self.state == State::Finished {
                break;
            }
            if let Some(header) = self.next_part(false)? {
                if header.records as u64 <= count - skipped {
                    skipped += header.records as u64;
                } else {
                    self.decompress(&header)?;
                }
            }
        }
        Ok(skipped)
    }

    /// Reads the next block, and decompresses it if `decompress`, or the footer (`None`).
    fn next_part(&mut self, decompress: bool) -> Result<Option<BlockHeader>, TraceError> {
        if let State::Failed(error) = &self.state {
            return Err(error.clone());
        }
        self.block_at = self.at;
        let mut tag = [0];
        self.fill(&mut tag, "tag")?;
        match tag[0] {
            TAG_BLOCK => {
                let header = self.read_block()?;
                if decompress {
                    self.decompress(&header)?;
                }
                Ok(Some(header))
            }
            TAG_FOOTER => self.read_footer().map(|()| None),
            other => {
                let message = format!("found {other:#04x}; allowed: 0x42 (B), 0x46 (F)");
                self.fail("tag", message)
            }
        }
    }

    fn read_block(&mut self) -> Result<BlockHeader, TraceError> {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = TAG_BLOCK;
        self.fill(&mut bytes[1..], "header")?;
        let header = BlockHeader::parse(&bytes, self.header.has_time)
            .or_else(|(field, message)| self.fail(field, message))?;
        let mut stored = std::mem::take(&mut self.stored);
        stored.resize(header.stored_bytes, 0);
        let filled = self.fill(&mut stored, "records");
        self.stored = stored;
        filled?;
        if block::checksum(&bytes, &self.stored) != header.checksum {
            let message = "does not match the block: the file is damaged";
            return self.fail("checksum", message.to_owned());
        }
        self.chain.update(&header.checksum.to_le_bytes());
        self.stats.add(&header);
        self.records += header.records as u64;
        Ok(header)
    }

    fn decompress(&mut self, header: &BlockHeader) -> Result<(), TraceError> {
        let loaded = self.block.load(header, &self.stored);
        loaded.or_else(|(field, message)| self.fail(field, message))
    }

    fn read_footer(&mut self) -> Result<(), TraceError> {
        let mut found = [0; Footer::BYTES];
        found[0] = TAG_FOOTER;
        self.fill(&mut found[1..], "footer")?;
        let blocks = self.stats.blocks;
        let footer = Footer {
            records: self.records,
            blocks,
            chain: self.chain.clone().finalize(),
        };
        if found != footer.bytes() {
            let message = format!(
                "does not match the {} records in {} blocks before it: the file is damaged",
                footer.records, footer.blocks
            );
            return self.fail("footer", message);
        }
        match self.input.read(&mut [0]) {
            Ok(0) => self.state = State::Finished,
            Ok(_) => return self.fail("footer", "the file goes on behind its footer".to_owned()),
            Err(error) => return self.fail("footer", format!("cannot read: {error}")),
        }
        Ok(())
    }

    fn fill(&mut self, bytes: &mut [u8], field: &'static str) -> Result<(), TraceError> {
        read_part(&mut self.input, bytes).or_else(|message| self.fail(field, message))?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn fail<T>(&mut self, field: &'static str, message: String) -> Result<T, TraceError> {
        // The current block is the last one counted while records of it remain, and the
        // block after it otherwise.
        let behind = u64::from(self.block.left() > 0);
        let place = FilePlace::Block {
            index: self.stats.blocks.saturating_sub(behind),
            offset: self.block_at,
        };
        let error = TraceError::new(&self.path, place, field, message);
        self.block = BlockCursor::default();
        self.state = State::Failed(error.clone());
        Err(error)
    }
}

impl<R: Read> Iterator for TraceReader<R> {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_record().transpose()
    }
}

/// Whether a file that starts with `start` is a `.cxlt` trace, by its magic.
pub(crate) fn looks_like_cxlt(start: &[u8]) -> bool {
    start.starts_with(&super::MAGIC)
}

/// Converts an [`io::Error`] of a writer to a trace error.
pub(crate) fn write_error(path: &Path, error: &io::Error) -> TraceError {
    TraceError::io(path, FilePlace::File, "write the trace", error)
}
