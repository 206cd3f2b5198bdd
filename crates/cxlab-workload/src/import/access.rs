//! What importers produce: accesses of any size and alignment, and their lines.

use cxlab_engine::units::{LINE_BYTES, LineAddr, SimTime};

use crate::error::TraceError;
use crate::op::OpKind;
use crate::trace::Record;

/// Most bytes of one access (*assumed*: vector and state-saving instructions stay below 16 KiB,
/// and a larger number is a mistake in the file).
pub const MAX_ACCESS_BYTES: u64 = 1 << 20;

/// One access as a program makes it: any size, any alignment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// The first byte.
    pub address: u64,
    /// How many bytes; at least 1, and `address + size - 1` does not overflow.
    pub size: u64,
    /// Read or write.
    pub kind: OpKind,
    /// When; [`SimTime::ZERO`] in formats without times.
    pub time: SimTime,
}

impl Access {
    /// An access, if its size is allowed; otherwise the field at fault and what is wrong with it.
    pub(crate) fn new(
        address: u64,
        size: u64,
        kind: OpKind,
        time: SimTime,
    ) -> Result<Access, (&'static str, String)> {
        if !(1..=MAX_ACCESS_BYTES).contains(&size) {
            return Err((
                "size",
                format!("found {size}; allowed: 1 to {MAX_ACCESS_BYTES}"),
            ));
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
}

/// A stream of accesses.
pub trait AccessSource: Send {
    /// The next access; `None` at the end of the file.
    ///
    /// # Errors
    /// The first thing that is wrong with the file.
    fn next_access(&mut self) -> Result<Option<Access>, TraceError>;

    /// Whether the accesses carry times.
    fn has_time(&self) -> bool;
}

/// The lines of one access, lowest first.
#[derive(Clone, Copy, Default, Debug)]
pub struct LineSplitter {
    rest: Option<(Access, u64, u64)>,
}

impl LineSplitter {
    /// The lines of an access.
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
