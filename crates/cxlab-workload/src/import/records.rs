//! The records of a trace in any known format. Accesses of formats other than `.cxlt` are split into lines.

use std::io::{BufReader, Read};
use std::path::Path;

use super::{AccessSource, LineSplitter, OpenedTrace};
use crate::error::TraceError;
use crate::trace::{BlockStats, Record, TraceReader};

/// A stream of the records of a trace in any known format.
pub struct Records {
    kind: Kind,
    opened: OpenedTrace,
}

enum Kind {
    Cxlt(Box<TraceReader<Box<dyn Read + Send>>>),
    Imported {
        source: Box<dyn AccessSource>,
        lines: LineSplitter,
    },
}

impl Records {
    /// Opens a trace. `format` is a name in [`super::FORMATS`]; with `None`, the format is detected.
    ///
    /// # Errors
    /// When the file cannot be opened, its format is unknown, or its header is faulty.
    pub fn open(path: &Path, format: Option<&str>) -> Result<Records, TraceError> {
        let (opened, input) = super::open(path, format)?;
        let kind = match opened.format.open {
            None => Kind::Cxlt(Box::new(TraceReader::new(input, path)?)),
            Some(open) => {
                let source = open(BufReader::with_capacity(1 << 16, input), path)
                    .map_err(|error| error.read_as(opened.format.name))?;
                Kind::Imported {
                    source,
                    lines: LineSplitter::default(),
                }
            }
        };
        Ok(Records { kind, opened })
    }

    /// Returns the next record; `None` at the end of the trace.
    ///
    /// # Errors
    /// The first error found in the file.
    #[inline]
    pub fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        match &mut self.kind {
            Kind::Cxlt(reader) => reader.next_record(),
            Kind::Imported { source, lines } => loop {
                if let Some(record) = lines.next() {
                    return Ok(Some(record));
                }
                let format = self.opened.format.name;
                match source
                    .next_access()
                    .map_err(|error| error.read_as(format))?
                {
                    Some(access) => *lines = LineSplitter::of(access),
                    None => return Ok(None),
                }
            },
        }
    }

    /// Hands up to `count` records to `take` and returns their number, which is below `count` only
    /// at the end of the trace.
    ///
    /// # Errors
    /// Those of [`Records::next_record`].
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

    /// Skips up to `count` records and returns their number.
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

    /// The name of the trace's format.
    pub fn format(&self) -> &'static str {
        self.opened.format.name
    }

    /// How the trace was made; empty when the trace does not say.
    pub fn provenance(&self) -> &str {
        match &self.kind {
            Kind::Cxlt(reader) => &reader.header().provenance,
            Kind::Imported { .. } => "",
        }
    }

    /// Whether the trace's records have times.
    pub fn has_time(&self) -> bool {
        match &self.kind {
            Kind::Cxlt(reader) => reader.header().has_time,
            Kind::Imported { source, .. } => source.has_time(),
        }
    }

    /// Number and sizes of the blocks read so far; `None` for formats other than `.cxlt`.
    pub fn block_stats(&self) -> Option<BlockStats> {
        match &self.kind {
            Kind::Cxlt(reader) => Some(reader.block_stats()),
            Kind::Imported { .. } => None,
        }
    }

    /// Bytes of the file read so far, compressed if the file is.
    pub fn done_bytes(&self) -> u64 {
        self.opened.done_bytes()
    }

    /// Size of the file in bytes.
    pub fn total_bytes(&self) -> u64 {
        self.opened.total_bytes
    }
}
