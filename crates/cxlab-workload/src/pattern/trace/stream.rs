//! The records of a trace, read as they are needed or ahead by a thread.

use std::path::Path;

use crate::error::TraceError;
use crate::import::{Records, RecordsAhead};
use crate::trace::Record;

/// Whether the platform has threads, one of which can read ahead.
const CAN_READ_AHEAD: bool = cfg!(not(target_family = "wasm"));

/// The records of a trace from some record on.
pub(super) enum Stream {
    /// The records are read when the requester needs them. Used when several
    /// requesters share a trace.
    Here(Records),
    /// A thread reads the records ahead. Used when there is only one requester.
    Ahead(RecordsAhead),
}

impl Stream {
    /// Opens a trace after its first `before` records, for one requester `alone` or for several.
    pub(super) fn open(path: &Path, before: u64, alone: bool) -> Result<Stream, TraceError> {
        let mut records = Records::open(path, None)?;
        records.skip_records(before)?;
        Ok(match alone && CAN_READ_AHEAD {
            true => Stream::Ahead(RecordsAhead::new(records)),
            false => Stream::Here(records),
        })
    }

    /// Skips `skip` records, which belong to other requesters, and returns the next; `None` at the
    /// end of the trace.
    pub(super) fn next(&mut self, skip: u64) -> Result<Option<Record>, TraceError> {
        if let (Stream::Here(records), 1..) = (&mut *self, skip) {
            records.skip_records(skip)?;
        }
        let mut next = None;
        self.each(1, |record| next = Some(record))?;
        Ok(next)
    }

    /// Hands out records as [`Records::each`] does.
    #[inline]
    pub(super) fn each(
        &mut self,
        count: usize,
        take: impl FnMut(Record),
    ) -> Result<usize, TraceError> {
        match self {
            Stream::Here(records) => records.each(count, take),
            Stream::Ahead(records) => records.each(count, take),
        }
    }

    /// Whether the records of the trace have times.
    pub(super) fn has_time(&self) -> bool {
        match self {
            Stream::Here(records) => records.has_time(),
            Stream::Ahead(records) => records.has_time(),
        }
    }
}
