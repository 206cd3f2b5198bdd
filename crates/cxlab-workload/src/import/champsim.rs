//! ChampSim's binary traces: one record of 64 bytes for each instruction, little endian.
//!
//! The record is `struct input_instr` of ChampSim's `inc/trace_instruction.h`: `ip` u64,
//! `is_branch` u8, `branch_taken` u8, destination registers u8 x 2, source registers u8 x 4,
//! `destination_memory` u64 x 2, `source_memory` u64 x 4. An address of 0 means no access. The
//! format has no sizes, so that each access counts as one byte, and no times. The sources of an
//! instruction are read before its destinations are written.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use cxlab_engine::units::SimTime;

use super::{Access, AccessSource, Format, Input};
use crate::error::{Place, TraceError};
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
    input: Input,
    path: PathBuf,
    offset: u64,
    waiting: VecDeque<(u64, OpKind)>,
}

impl ChampSim {
    fn new(input: Input, path: &Path) -> ChampSim {
        ChampSim {
            input,
            path: path.to_owned(),
            offset: 0,
            waiting: VecDeque::with_capacity(6),
        }
    }

    /// Reads the accesses of the next record into `waiting`; false at the end of the file.
    fn read_record(&mut self) -> Result<bool, TraceError> {
        let mut record = [0; RECORD_BYTES];
        let mut filled = 0;
        while filled < RECORD_BYTES {
            match self.input.read(&mut record[filled..]) {
                Ok(0) if filled == 0 => return Ok(false),
                Ok(0) => {
                    let message = format!(
                        "found {filled} bytes of a record; allowed: {RECORD_BYTES} (the file is truncated)"
                    );
                    return Err(self.error(0, "record", message));
                }
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    let place = Place::Offset(self.offset + filled as u64);
                    return Err(TraceError::io(&self.path, place, "read", &error));
                }
            }
        }
        for (at, field) in [(IS_BRANCH, "is_branch"), (BRANCH_TAKEN, "branch_taken")] {
            if record[at] > 1 {
                let message = format!(
                    "found {}; allowed: 0, 1 (is it a ChampSim trace?)",
                    record[at]
                );
                return Err(self.error(at, field, message));
            }
        }
        for (range, kind) in [(SOURCES, OpKind::Read), (DESTINATIONS, OpKind::Write)] {
            let addresses = record[range].as_chunks::<8>().0.iter();
            let addresses = addresses.map(|bytes| u64::from_le_bytes(*bytes));
            self.waiting
                .extend(addresses.filter(|address| *address != 0).map(|a| (a, kind)));
        }
        self.offset += RECORD_BYTES as u64;
        Ok(true)
    }

    fn error(&self, at: usize, field: &'static str, message: String) -> TraceError {
        TraceError::new(
            &self.path,
            Place::Offset(self.offset + at as u64),
            field,
            message,
        )
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
