//! Conversion of any known format to `.cxlt`, optionally through the cache filter.

use std::io::BufWriter;
use std::path::Path;

use cxlab_files::WholeFile;

use super::access::Access;
use super::{LineSplitter, Records};
use crate::error::TraceError;
use crate::filter::{CacheFilter, Hierarchy};
use crate::op::OpKind;
use crate::trace::{Header, Record, TraceWriter, write_error};

/// Number of accesses between two calls of a progress callback.
pub(crate) const PROGRESS_EVERY: u64 = 1 << 16;

/// Counts of an import or a capture.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Summary {
    /// Accesses read, each to one line.
    pub accesses: u64,
    /// Records of reads that were written to the trace.
    pub reads: u64,
    /// Records of writes that were written to the trace.
    pub writes: u64,
    /// Size of the `.cxlt` file in bytes.
    pub bytes: u64,
}

impl Summary {
    /// Records written to the trace: reads and writes.
    pub fn records(&self) -> u64 {
        self.reads + self.writes
    }
}

/// Converts a trace of a known format to `.cxlt`. `format` is a name in [`super::FORMATS`]; with
/// `None`, the format is detected. The accesses pass through the caches of `filter`, if given.
/// `progress` is called at intervals with the bytes read so far and the size of the file. `out`
/// appears only when it is complete.
///
/// # Errors
/// The first error found in the file, a file without accesses, or an error of writing.
pub fn import(
    path: &Path,
    format: Option<&str>,
    filter: Option<Hierarchy>,
    out: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Summary, TraceError> {
    let mut records = Records::open(path, format)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut provenance = match records.provenance() {
        "" => format!("imported from {name} ({})", records.format()),
        known => known.to_owned(),
    };
    if let Some(hierarchy) = &filter {
        provenance.push_str(&format!("; through caches of {hierarchy}"));
    }
    let header = Header {
        has_time: records.has_time(),
        provenance,
    };
    let mut converter = Converter::create(out, &header, filter)?;
    while let Some(record) = records.next_record()? {
        converter.record(record)?;
        if converter.summary.accesses.is_multiple_of(PROGRESS_EVERY) {
            progress(records.done_bytes(), records.total_bytes());
        }
    }
    if converter.summary.accesses == 0 {
        return Err(no_records(path));
    }
    progress(records.total_bytes(), records.total_bytes());
    converter.publish()
}

/// The error for a file without records.
pub(crate) fn no_records(path: &Path) -> TraceError {
    TraceError::whole(path, "records", "found 0; allowed: 1 and more")
}

/// Writes accesses to a `.cxlt` file, optionally through caches.
pub(crate) struct Converter {
    filter: Option<CacheFilter>,
    writer: TraceWriter<BufWriter<WholeFile>>,
    out: std::path::PathBuf,
    summary: Summary,
}

#[cfg_attr(
    not(unix),
    expect(dead_code, reason = "captures use what conversions do not")
)]
impl Converter {
    /// Starts the file that will become `out`.
    pub fn create(
        out: &Path,
        header: &Header,
        filter: Option<Hierarchy>,
    ) -> Result<Converter, TraceError> {
        let filter = filter
            .map(|hierarchy| CacheFilter::new(&hierarchy))
            .transpose()
            .map_err(|message| TraceError::whole(out, "filter", message))?;
        let failed = |error| write_error(out, &error);
        let file = WholeFile::create(out).map_err(failed)?;
        let writer = TraceWriter::new(BufWriter::new(file), header).map_err(failed)?;
        Ok(Converter {
            filter,
            writer,
            out: out.to_owned(),
            summary: Summary::default(),
        })
    }

    /// Records an access of any size.
    pub fn access(&mut self, access: Access) -> Result<(), TraceError> {
        LineSplitter::of(access).try_for_each(|record| self.record(record))
    }

    /// Records an access of one line.
    #[inline]
    pub fn record(&mut self, record: Record) -> Result<(), TraceError> {
        self.summary.accesses += 1;
        let Converter {
            filter,
            writer,
            summary,
            out,
        } = self;
        let mut failed = None;
        let mut write = |kind, line| {
            match kind {
                OpKind::Read => summary.reads += 1,
                OpKind::Write => summary.writes += 1,
            }
            if let Err(error) = writer.push(Record {
                line,
                kind,
                time: record.time,
            }) {
                failed.get_or_insert(error);
            }
        };
        match filter {
            Some(filter) => filter.access(record.line, record.kind, &mut write),
            None => write(record.kind, record.line),
        }
        failed.map_or(Ok(()), |error| Err(write_error(out, &error)))
    }

    /// Passes an access through the caches without recording the misses and write-backs.
    pub fn pass(&mut self, access: Access) {
        for record in LineSplitter::of(access) {
            self.summary.accesses += 1;
            if let Some(filter) = &mut self.filter {
                filter.access(record.line, record.kind, &mut |_, _| {});
            }
        }
    }

    /// The counts so far, without the size of the file.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Completes the file and gives it its name.
    pub fn publish(mut self) -> Result<Summary, TraceError> {
        let failed = |error| write_error(&self.out, &error);
        let (file, totals) = self.writer.finish().map_err(failed)?;
        let whole = file
            .into_inner()
            .map_err(|error| failed(error.into_error()))?;
        whole.publish().map_err(failed)?;
        self.summary.bytes = totals.bytes;
        Ok(self.summary)
    }
}
