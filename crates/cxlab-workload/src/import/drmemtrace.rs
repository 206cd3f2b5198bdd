//! The traces of DynamoRIO's drmemtrace: records of 12 bytes, little endian.
//!
//! A record is `trace_entry_t` of `clients/drcachesim/common/trace_entry.h` (DynamoRIO at commit 05e3165): type and
//! size, 2 bytes each, and an address of 8 bytes. Each thread has a file (`*.trace.gz`; one that is a zip archive has
//! to be unpacked first), which begins with a header. Loads and stores are accesses, and so are prefetches of data,
//! which read. Left out are instructions with their encodings, prefetches of instructions, flushes, and markers.
//! Their time stamps, in microseconds of the traced run, are not those of single accesses.

use std::path::Path;

use cxlab_engine::units::SimTime;

use super::binary::Bytes;
use super::{Access, AccessSource, Format, Input};
use crate::error::TraceError;
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
    bytes: Bytes,
}

impl MemTrace {
    fn new(input: Input, path: &Path) -> Result<MemTrace, TraceError> {
        let mut bytes = Bytes::new(input, path);
        let header = bytes.record()?.map(|record| Entry::of(&record));
        match header.filter(|entry| entry.kind == HEADER) {
            Some(Entry { address, .. }) if VERSIONS.contains(&address) => Ok(MemTrace { bytes }),
            Some(Entry { address, .. }) => {
                let message = format!("found {address}; allowed: 2 to 99");
                Err(bytes.error(0, "version", message))
            }
            None => {
                let message = "found none; allowed: a header (type 25) first".to_owned();
                Err(bytes.error(0, "header", message))
            }
        }
    }
}

impl AccessSource for MemTrace {
    fn next_access(&mut self) -> Result<Option<Access>, TraceError> {
        loop {
            let start = self.bytes.offset();
            let Some(record) = self.bytes.record()? else {
                return Ok(None);
            };
            let entry = Entry::of(&record);
            if entry.kind > LAST {
                let message = format!("found {}; allowed: 0 to {LAST}", entry.kind);
                return Err(self.bytes.error(start, "type", message));
            }
            if let Some(kind) = access(entry.kind) {
                // Prefetches have a size of 0 where the instruction has none.
                let size = u64::from(entry.size.max(u16::from(entry.kind > WRITE)));
                let access = Access::new(entry.address, size, kind, SimTime::ZERO).map(Some);
                return access.map_err(|(field, message)| self.bytes.error(start, field, message));
            }
        }
    }

    fn has_time(&self) -> bool {
        false
    }
}
