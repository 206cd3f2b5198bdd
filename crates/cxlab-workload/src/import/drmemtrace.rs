//! The traces of DynamoRIO's drmemtrace: records of 12 bytes, little endian.
//!
//! A record is `trace_entry_t` of `clients/drcachesim/common/trace_entry.h` (DynamoRIO at commit 05e3165): type and
//! size, 2 bytes each, and an address of 8 bytes. Each thread has a file (`*.trace.gz`; one that is a zip archive has
//! to be unpacked first), which begins with a header. Loads and stores are accesses, and so are prefetches of data,
//! which read. Left out are instructions with their encodings, prefetches of instructions, flushes, and markers.
//! Their time stamps, in microseconds of the traced run, are not those of single accesses.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use cxlab_engine::units::SimTime;

use super::{Access, AccessSource, Format, Input};
use crate::error::{Place, TraceError};
use crate::op::OpKind;

pub(super) const FORMAT: Format = Format {
    name: "drmemtrace",
    summary: "DynamoRIO's drmemtrace: 12-byte records of a thread",
    endings: &["memtrace"],
    detect: |start| {
        let header = start.first_chunk::<RECORD_BYTES>().map(Entry::of);
        header.is_some_and(|entry| entry.kind == HEADER && VERSIONS.contains(&entry.address))
    },
    open: Some(|input, path| Ok(Box::new(MemTrace::new(input, path)?))),
    form: None,
};

const RECORD_BYTES: usize = 12;
/// Types of records.
const WRITE: u16 = 1;
const HEADER: u16 = 25;
const LAST: u16 = 50;
/// Versions of the format: the first with the present types, and room for later ones.
const VERSIONS: std::ops::RangeInclusive<u64> = 2..=99;

/// A record: type, size and address.
#[derive(Clone, Copy)]
struct Entry {
    kind: u16,
    size: u16,
    address: u64,
}

impl Entry {
    fn of(bytes: &[u8; RECORD_BYTES]) -> Entry {
        let [k0, k1, s0, s1, address @ ..] = *bytes;
        Entry {
            kind: u16::from_le_bytes([k0, k1]),
            size: u16::from_le_bytes([s0, s1]),
            address: u64::from_le_bytes(address),
        }
    }
}

/// Whether a record of this type reads or writes data, or does neither.
fn access(kind: u16) -> Option<OpKind> {
    match kind {
        WRITE => Some(OpKind::Write),
        // Loads; prefetches of data by programs, also of those that will be written, and by hardware.
        0 | 2..=8 | 27 | 32..=34 | 41..=46 => Some(OpKind::Read),
        _ => None,
    }
}

struct MemTrace {
    input: Input,
    path: PathBuf,
    offset: u64,
}

impl MemTrace {
    fn new(input: Input, path: &Path) -> Result<MemTrace, TraceError> {
        let mut trace = MemTrace {
            input,
            path: path.to_owned(),
            offset: 0,
        };
        let header = trace.entry()?;
        trace.offset = 0;
        let version = header
            .filter(|entry| entry.kind == HEADER)
            .map(|entry| entry.address);
        match version {
            Some(version) if VERSIONS.contains(&version) => {}
            Some(version) => {
                let message = format!("found {version}; allowed: 2 to 99");
                return Err(trace.error("version", message));
            }
            None => {
                let message = "found none; allowed: a header (type 25) first".to_owned();
                return Err(trace.error("header", message));
            }
        }
        trace.offset = RECORD_BYTES as u64;
        Ok(trace)
    }

    /// Reads the next record; `None` at the end of the file.
    fn entry(&mut self) -> Result<Option<Entry>, TraceError> {
        let mut record = [0; RECORD_BYTES];
        let mut filled = 0;
        while filled < RECORD_BYTES {
            match self.input.read(&mut record[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => {
                    let message = format!(
                        "found {filled} bytes of a record; allowed: {RECORD_BYTES} (the file is truncated)"
                    );
                    return Err(self.error("record", message));
                }
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    let place = Place::Offset(self.offset + filled as u64);
                    return Err(TraceError::io(&self.path, place, "read", &error));
                }
            }
        }
        Ok(Some(Entry::of(&record)))
    }

    fn error(&self, field: &'static str, message: String) -> TraceError {
        TraceError::new(&self.path, Place::Offset(self.offset), field, message)
    }
}

impl AccessSource for MemTrace {
    fn next_access(&mut self) -> Result<Option<Access>, TraceError> {
        while let Some(entry) = self.entry()? {
            if entry.kind > LAST {
                let message = format!("found {}; allowed: 0 to {LAST}", entry.kind);
                return Err(self.error("type", message));
            }
            if let Some(kind) = access(entry.kind) {
                // Prefetches have a size of 0 where the instruction has none.
                let size = u64::from(entry.size.max(u16::from(entry.kind > WRITE)));
                let access = Access::new(entry.address, size, kind, SimTime::ZERO);
                let access = access.map_err(|(field, message)| self.error(field, message))?;
                self.offset += RECORD_BYTES as u64;
                return Ok(Some(access));
            }
            self.offset += RECORD_BYTES as u64;
        }
        Ok(None)
    }

    fn has_time(&self) -> bool {
        false
    }
}
