//! Accesses of any size and alignment, as importers produce them, and their lines.

use cxlab_engine::units::{LINE_BYTES, LineAddr, SimTime};

use crate::error::TraceError;
use crate::op::OpKind;
use crate::trace::Record;

/// Most bytes of one access (*assumed*: vector and state-saving instructions access less than
/// 16 KiB, and a larger number is an error in the file).
pub const MAX_ACCESS_BYTES: u64 = 1 << 20;

/// One access of a program, of any size and alignment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Address of the first byte.
    pub address: u64,
    /// Number of bytes; at least 1, and `address + size - 1` does not overflow.
    pub size: u64,
    /// Whether the access reads or writes.
    pub kind: OpKind,
    /// Time of the access; [`SimTime::ZERO`] in formats without times.
    pub time: SimTime,
}

impl Access {
    /// Makes an access if its size is allowed; otherwise returns the faulty field and what
    /// is wrong with it.
    pub(crate) fn new(
        address: u64,
        size: u64,
        kind: OpKind,
        time: SimTime,
    ) -> Result<Access, (&'static str, String)> {
        if !(1..=MAX_ACCESS_BYTES).contains(&size) {
            let message = format!("found {size}; allowed: 1 to {MAX_ACCESS_BYTES}");
            return Err(("size", message));
        }
        if address.checked_add(size - 1).is_none() {
            let message = format!("found {address:#x} with {size} bytes; allowed: up to 2^64");
            return Err(("address", message));
        }
        Ok(Access {
            address,
            size,
            kind,
            time,
        })
    }

    /// The write of the same bytes at the same time.
    pub(crate) fn to_write(self) -> Access {
        let kind = OpKind::Write;
        Access { kind, ..self }
    }
}

/// A stream of accesses from a file or a recorder.
pub trait AccessSource: Send {
    /// Returns the next access; `None` at the end of the input.
    ///
    /// # Errors
    /// The first error found in the input.
    fn next_access(&mut self) -> Result<Option<Access>, TraceError>;

    /// Whether the source's accesses have times.
    fn has_time(&self) -> bool;
}

/// Iterates over the lines of one access, lowest first.
#[derive(Clone, Copy, Default, Debug)]
pub struct LineSplitter {
    rest: Option<(Access, u64, u64)>,
}

impl LineSplitter {
    /// Splits an access into its lines.
    #[inline]
    pub fn of(access: Access) -> LineSplitter {
        let first = access.address / LINE_BYTES;
        let last = access.address.saturating_add(access.size.max(1) - 1) / LINE_BYTES;
        LineSplitter {
            rest: Some((access, first, last)),
        }
    }
}

impl Iterator for LineSplitter {
    type Item = Record;

    #[inline]
    fn next(&mut self) -> Option<Record> {
        let (access, line, last) = self.rest?;
        self.rest = (line < last).then_some((access, line + 1, last));
        Some(Record {
            line: LineAddr(line),
            kind: access.kind,
            time: access.time,
        })
    }
}
