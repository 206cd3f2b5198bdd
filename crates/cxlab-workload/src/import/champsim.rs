//! ChampSim's binary traces: one record of 64 bytes for each instruction, little endian.
//!
//! The record is `struct input_instr` of ChampSim's `inc/trace_instruction.h`: `ip` u64,
//! `is_branch` u8, `branch_taken` u8, destination registers u8 x 2, source registers u8 x 4,
//! `destination_memory` u64 x 2, `source_memory` u64 x 4. An address of 0 means no access. The
//! format has no sizes, so that each access counts as one byte, and no times. The sources of an
//! instruction are read before its destinations are written.

use std::collections::VecDeque;
use std::path::Path;

use cxlab_engine::units::SimTime;

use super::binary::Bytes;
use super::{Access, AccessSource, Format, Input};
use crate::error::TraceError;
use crate::op::OpKind;

pub(super) const FORMAT: Format = Format {
    name: "champsim",
    summary: "ChampSim instruction traces: 64-byte `input_instr` records",
    endings: &["champsim", "champsimtrace"],
    detect,
    open: Some(|input, path| Ok(Box::new(ChampSim::new(input, path)))),
    form: None,
};

const RECORD_BYTES: usize = 64;
const IS_BRANCH: usize = 8;
const BRANCH_TAKEN: usize = 9;
const DESTINATIONS: std::ops::Range<usize> = 16..32;
const SOURCES: std::ops::Range<usize> = 32..64;

fn detect(start: &[u8]) -> bool {
    let (records, _) = start.as_chunks::<RECORD_BYTES>();
    !records.is_empty()
        && start.contains(&0)
        && start.iter().any(|byte| *byte != 0)
        && records
            .iter()
            .all(|record| record[IS_BRANCH] < 2 && record[BRANCH_TAKEN] < 2)
}

struct ChampSim {
    bytes: Bytes,
    waiting: VecDeque<(u64, OpKind)>,
}

impl ChampSim {
    fn new(input: Input, path: &Path) -> ChampSim {
        ChampSim {
            bytes: Bytes::new(input, path),
            waiting: VecDeque::with_capacity(6),
        }
    }

    /// Reads the accesses of the next record into `waiting`; false at the end of the file.
    fn read_record(&mut self) -> Result<bool, TraceError> {
        let start = self.bytes.offset();
        let Some(record) = self.bytes.record::<RECORD_BYTES>()? else {
            return Ok(false);
        };
        for (at, field) in [(IS_BRANCH, "is_branch"), (BRANCH_TAKEN, "branch_taken")] {
            if record[at] > 1 {
                let message = format!(
                    "found {}; allowed: 0, 1 (is it a ChampSim trace?)",
                    record[at]
                );
                return Err(self.bytes.error(start + at as u64, field, message));
            }
        }
        for (range, kind) in [(SOURCES, OpKind::Read), (DESTINATIONS, OpKind::Write)] {
            let addresses = record[range].as_chunks::<8>().0.iter();
            let addresses = addresses.map(|bytes| u64::from_le_bytes(*bytes));
            self.waiting
                .extend(addresses.filter(|address| *address != 0).map(|a| (a, kind)));
        }
        Ok(true)
    }
}

impl AccessSource for ChampSim {
    fn next_access(&mut self) -> Result<Option<Access>, TraceError> {
        loop {
            if let Some((address, kind)) = self.waiting.pop_front() {
                return Ok(Some(Access {
                    address,
                    size: 1,
                    kind,
                    time: SimTime::ZERO,
                }));
            }
            if !self.read_record()? {
                return Ok(None);
            }
        }
    }

    fn has_time(&self) -> bool {
        false
    }
}
