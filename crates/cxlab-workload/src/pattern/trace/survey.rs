//! The pass over a trace before its replay: it checks the file and collects what the sources need.

use std::path::Path;

use cxlab_engine::units::{Bytes, Hpa, LINE_BYTES, LineAddr};

use super::frames::Frames;
use super::stream::Stream;
use super::{Addresses, Timing, Trace};
use crate::error::{TraceError, WorkloadError};
use crate::import::no_records;
use crate::page_map::{PAGE_BYTES, PAGE_LINES};
use crate::params::require;
use crate::trace::Record;

/// Records read at a time (*assumed*).
const SURVEYED: usize = 4096;

/// The result of one pass over the trace.
pub(super) struct Survey {
    /// The number of records; at least 1.
    pub records: u64,
    /// Earliest time of a record, in picoseconds.
    pub earliest: u64,
    /// Latest time of a record, in picoseconds.
    pub latest: u64,
    mapping: Mapping,
}

/// How lines of the trace are mapped to addresses.
enum Mapping {
    Exact,
    /// Modulo this number of lines.
    Modulo(u64),
    Compact(Frames),
}

impl Survey {
    pub fn new(path: &Path, span: u64, params: &Trace) -> Result<Survey, WorkloadError> {
        let found = format_args!("{} of memory", Bytes(span));
        require(span >= PAGE_BYTES, "addresses", found, "4 KiB and more")?;
        let mapping = match params.addresses {
            Addresses::Exact => Mapping::Exact,
            Addresses::Modulo => Mapping::Modulo(span / LINE_BYTES),
            Addresses::Compact => Mapping::Compact(Frames::default()),
        };
        let mut survey = Survey {
            records: 0,
            earliest: u64::MAX,
            latest: 0,
            mapping,
        };
        let mut records = Stream::open(path, 0, true)?;
        let mut misfit = None;
        while misfit.is_none()
            && records.each(SURVEYED, |record| {
                if misfit.is_none() {
                    misfit = survey.add(record, span).err();
                }
            })? > 0
        {}
        if let Some(misfit) = misfit {
            let message = format!("record {}: {misfit}", survey.records);
            return Err(TraceError::whole(path, "address", message).into());
        }
        if survey.records == 0 {
            return Err(no_records(path).into());
        }
        let timed = records.has_time() && survey.latest > survey.earliest;
        if params.timing == Timing::Timestamps && !timed {
            let message = "all records have the same time; allowed with timing = \"timestamps\": \
                           a trace with times (or timing = \"full-speed\")";
            return Err(TraceError::whole(path, "time", message).into());
        }
        Ok(survey)
    }

    /// Counts a record and adds its page to the map; the error says why its address is not allowed.
    #[inline]
    fn add(&mut self, record: Record, span: u64) -> Result<(), String> {
        match &mut self.mapping {
            Mapping::Modulo(_) => {}
            Mapping::Exact => {
                if record.line.0 >= span / LINE_BYTES {
                    let found = u128::from(record.line.0) * u128::from(LINE_BYTES);
                    return Err(format!(
                        "found {found:#x}; allowed with addresses = \"exact\": below {span:#x} ({} of memory)",
                        Bytes(span)
                    ));
                }
            }
            Mapping::Compact(frames) => {
                let most = (span / PAGE_BYTES).min(Frames::MOST);
                if !frames.add(record.line.0 / PAGE_LINES, most) {
                    return Err(format!(
                        "found more than {most} pages of 4 KiB; allowed: as many as fit in {} of memory",
                        Bytes(span)
                    ));
                }
            }
        }
        self.records += 1;
        self.earliest = self.earliest.min(record.time.0);
        self.latest = self.latest.max(record.time.0);
        Ok(())
    }

    /// The address of a line of the trace; `None` for a line that was not in the trace
    /// when it was surveyed.
    #[inline]
    pub fn hpa(&self, line: LineAddr) -> Option<Hpa> {
        let line = match &self.mapping {
            Mapping::Exact => line.0,
            Mapping::Modulo(lines) => line.0 % lines,
            Mapping::Compact(frames) => {
                frames.get(line.0 / PAGE_LINES)? * PAGE_LINES + line.0 % PAGE_LINES
            }
        };
        Some(Hpa(line * LINE_BYTES))
    }
}
