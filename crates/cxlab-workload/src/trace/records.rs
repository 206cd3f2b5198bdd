//! The records of a trace in any known format: `.cxlt` as it is, other formats split into lines.

use std::io::{BufReader, Read};
use std::path::Path;

use super::{BlockStats, Record, TraceReader};
use crate::error::TraceError;
use crate::import::{self, AccessSource, LineSplitter};

/// The records of a trace in any known format, as a stream.
pub struct Records {
    kind: Kind,
    opened: import::Opened,
}

enum Kind {
    Cxlt(Box<TraceReader<Box<dyn Read + Send>>>),
    Imported {
        source: Box<dyn AccessSource>,
        lines: LineSplitter,
    },
}

impl Records {
    /// Opens a trace; `format` is a name in [`import::FORMATS`], found out when absent.
    ///
    /// # Errors
    /// When the file cannot be opened or its format is unknown.
    pub fn open(path: &Path, format: Option<&str>) -> Result<Records, TraceError> {
        let (opened, input) = import::open(path, format)?;
        let kind = match opened.format.open {
            None => Kind::Cxlt(Box::new(TraceReader::new(input, path)?)),
            Some(open) => {
                let source = open(BufReader::with_capacity(1 << 16, input), path)?;
                Kind::Imported {
                    source,
                    lines: LineSplitter::default(),
                }
            }
        };
        Ok(Records { kind, opened })
    }

    /// The next record; `None` when the trace has been read whole.
    ///
    /// # Errors
    /// The first thing that is wrong with the file.
    #[inline]
    pub fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        match &mut self.kind {
            Kind::Cxlt(reader) => reader.next_record(),
            Kind::Imported { source, lines } => loop {
                if let Some(record) = lines.next() {
                    return Ok(Some(record));
                }
                match source.next_access()? {
                    Some(access) => *lines = LineSplitter::of(access),
                    None => return Ok(None),
                }
            },
        }
    }

    /// Hands out up to `count` records, and returns how many there were: fewer where the trace has been
    /// read whole.
    ///
    /// # Errors
    /// As [`Records::next_record`].
    #[inline]
    pub(crate) fn each(
        &mut self,
        count: usize,
        mut take: impl FnMut(Record),
    ) -> Result<usize, TraceError> {
        if let Kind::Cxlt(reader) = &mut self.kind {
            return reader.each(count, take);
        }
        for taken in 0..count {
            match self.next_record()? {
                Some(record) => take(record),
                None => return Ok(taken),
            }
        }
        Ok(count)
    }

    /// Passes over up to `count` records, and returns how many there were.
    pub(crate) fn skip_records(&mut self, count: u64) -> Result<u64, TraceError> {
        if let Kind::Cxlt(reader) = &mut self.kind {
            return reader.skip_records(count);
        }
        for skipped in 0..count {
            if self.next_record()?.is_none() {
                return Ok(skipped);
            }
        }
        Ok(count)
    }

    /// The format's name.
    pub fn format(&self) -> &'static str {
        self.opened.format.name
    }

    /// How the trace was made; empty when the format does not say.
    pub fn provenance(&self) -> &str {
        match &self.kind {
            Kind::Cxlt(reader) => &reader.header().provenance,
            Kind::Imported { .. } => "",
        }
    }

    /// Whether the records carry times.
    pub fn has_time(&self) -> bool {
        match &self.kind {
            Kind::Cxlt(reader) => reader.header().has_time,
            Kind::Imported { source, .. } => source.has_time(),
        }
    }

    /// The blocks read so far, for `.cxlt`.
    pub fn block_stats(&self) -> Option<BlockStats> {
        match &self.kind {
            Kind::Cxlt(reader) => Some(reader.block_stats()),
            Kind::Imported { .. } => None,
        }
    }

    /// Bytes of the file read so far.
    pub fn done_bytes(&self) -> u64 {
        self.opened.done_bytes()
    }

    /// Bytes of the file.
    pub fn total_bytes(&self) -> u64 {
        self.opened.total_bytes
    }
}
