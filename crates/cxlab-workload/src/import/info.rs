//! Summary and first records of a trace, for `cxlab trace info` and `cxlab trace head`.

use std::path::Path;

use cxlab_engine::units::SimTime;

use super::footprint::{Footprint, FootprintCounter};
use super::{Records, no_records};
use crate::error::TraceError;
use crate::op::OpKind;
use crate::trace::{BlockStats, Record};

/// A summary of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceInfo {
    /// The format's name in [`super::FORMATS`].
    pub format: &'static str,
    /// How the trace was made; empty when the trace does not say.
    pub provenance: String,
    /// The number of records.
    pub accesses: u64,
    /// The number of records that read.
    pub reads: u64,
    /// The number of records that write.
    pub writes: u64,
    /// The number of different lines accessed.
    pub footprint: Footprint,
    /// Earliest and latest time; `None` for a trace without times.
    pub time_range: Option<(SimTime, SimTime)>,
    /// Size of the file in bytes.
    pub file_bytes: u64,
    /// Number and sizes of a `.cxlt` trace's blocks; `None` for other formats.
    pub blocks: Option<BlockStats>,
}

/// Reads a trace of any known format from end to end and summarizes it.
///
/// # Errors
/// The first error found in the file, and a trace without records.
pub fn info(path: &Path) -> Result<TraceInfo, TraceError> {
    let mut records = Records::open(path, None)?;
    let mut lines = FootprintCounter::new();
    let (mut accesses, mut reads) = (0, 0);
    let mut times = (SimTime::NEVER, SimTime::ZERO);
    while let Some(record) = records.next_record()? {
        accesses += 1;
        reads += u64::from(record.kind == OpKind::Read);
        times = (times.0.min(record.time), times.1.max(record.time));
        lines.add(record.line);
    }
    if accesses == 0 {
        return Err(no_records(path));
    }
    Ok(TraceInfo {
        format: records.format(),
        provenance: records.provenance().to_owned(),
        accesses,
        reads,
        writes: accesses - reads,
        footprint: lines.footprint(),
        time_range: records.has_time().then_some(times),
        file_bytes: records.total_bytes(),
        blocks: records.block_stats(),
    })
}

/// Iterates over the first `n` records of a trace of any known format.
///
/// # Errors
/// When the file cannot be opened or its format is unknown. The iterator ends
/// after its first error.
pub fn head(
    path: &Path,
    n: u64,
) -> Result<impl Iterator<Item = Result<Record, TraceError>> + use<>, TraceError> {
    let mut records = Records::open(path, None)?;
    let mut left = n;
    Ok(std::iter::from_fn(move || {
        left = left.checked_sub(1)?;
        let record = records.next_record().transpose();
        if matches!(record, Some(Err(_))) {
            left = 0;
        }
        record
    }))
}
