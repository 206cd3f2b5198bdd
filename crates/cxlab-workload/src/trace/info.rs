//! What a trace holds: `cxlab trace info` and `cxlab trace head`.

use std::path::Path;

use cxlab_engine::units::SimTime;

use super::block::{BlockHeader, HEADER_BYTES};
use super::footprint::{Footprint, FootprintCounter};
use super::{Record, Records};
use crate::error::TraceError;
use crate::import::no_records;
use crate::op::OpKind;

/// The blocks of a `.cxlt` trace.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct BlockStats {
    /// Blocks.
    pub blocks: u64,
    /// Bytes of all blocks in the file.
    pub stored_bytes: u64,
    /// Bytes of their columns before compression.
    pub column_bytes: u64,
}

impl BlockStats {
    pub(super) fn add(&mut self, header: &BlockHeader) {
        self.blocks += 1;
        self.stored_bytes += (HEADER_BYTES + header.stored_bytes) as u64;
        self.column_bytes += (header.address_bytes + header.time_bytes) as u64;
    }
}

/// What a trace holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceInfo {
    /// The format, by its name in [`crate::import::FORMATS`].
    pub format: &'static str,
    /// How the trace was made; empty when the format does not say.
    pub provenance: String,
    /// Records.
    pub accesses: u64,
    /// Records that read.
    pub reads: u64,
    /// Records that write.
    pub writes: u64,
    /// Different lines.
    pub footprint: Footprint,
    /// Earliest and latest time; `None` for a trace without times.
    pub time_range: Option<(SimTime, SimTime)>,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// The blocks of a `.cxlt` trace; `None` for other formats.
    pub blocks: Option<BlockStats>,
}

/// Reads a trace of any known format from end to end and says what it holds.
///
/// # Errors
/// The first thing that is wrong with it.
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

/// The first `n` records of a trace of any known format.
///
/// # Errors
/// When the file cannot be opened; the iterator ends behind its first error.
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
