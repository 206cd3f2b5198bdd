//! Text traces of memory simulators: DRAMsim3's and Ramulator's.

use super::lines::{Lines, decimal, first_row, hex};
use super::rows::{RowAccess, Rows, fields};
use super::{Format, export};
use crate::error::TraceError;
use crate::op::OpKind;

/// `ADDRESS READ|WRITE CYCLE`, as DRAMsim3 reads it (`src/common.cc` at commit 29817593): a hexadecimal address and a
/// clock cycle. The clock is in DRAMsim3's own configuration, so the cycles are checked and not used.
pub(super) const DRAMSIM3: Format = Format {
    name: "dramsim3",
    summary: "DRAMsim3: `ADDRESS READ|WRITE CYCLE`; the cycles are not used",
    endings: &["dramsim3"],
    detect: |start| {
        let mut row = fields(first_row(start));
        row.next().and_then(hex).is_some() && row.next().and_then(operation).is_some()
    },
    open: Some(|input, path| Rows::<()>::open(input, path, false, |lines, ()| dramsim3(lines))),
    form: Some(export::DRAMSIM3),
};

fn operation(text: &[u8]) -> Option<OpKind> {
    match text {
        b"READ" | b"read" | b"P_MEM_RD" | b"P_FETCH" | b"IFETCH" => Some(OpKind::Read),
        b"WRITE" | b"write" | b"P_MEM_WR" | b"BOFF" => Some(OpKind::Write),
        _ => None,
    }
}

fn dramsim3(lines: &Lines) -> Result<Option<RowAccess>, TraceError> {
    let mut row = fields(lines.line());
    let mut next = || row.next().unwrap_or_default();
    let (address, kind, cycle, extra) = (next(), next(), next(), next());
    let address = lines.address(address)?;
    let kind = operation(kind)
        .ok_or_else(|| lines.found("operation", kind, "READ, WRITE, P_MEM_RD, P_MEM_WR, BOFF"))?;
    if decimal(cycle).is_none() {
        return Err(lines.found("cycle", cycle, "a decimal number of clock cycles"));
    }
    lines.end(extra, "three fields: ADDRESS READ|WRITE CYCLE")?;
    Ok(Some((address, 1, kind, 0)))
}

/// `LD ADDRESS` or `ST ADDRESS`, Ramulator 2's `LoadStoreTrace`: decimal addresses, or hexadecimal with `0x`.
pub(super) const RAMULATOR: Format = Format {
    name: "ramulator",
    summary: "Ramulator 2's LoadStoreTrace: `LD ADDRESS`, `ST ADDRESS`",
    endings: &["ramulator"],
    detect: |start| {
        let mut row = fields(first_row(start));
        matches!(row.next(), Some(b"LD" | b"ST")) && row.next().and_then(number).is_some()
    },
    open: Some(|input, path| Rows::<()>::open(input, path, false, |lines, ()| ramulator(lines))),
    form: Some(export::RAMULATOR),
};

/// A decimal number, or a hexadecimal one with `0x`.
fn number(text: &[u8]) -> Option<u64> {
    match text.starts_with(b"0x") || text.starts_with(b"0X") {
        true => hex(text),
        false => decimal(text),
    }
}

fn ramulator(lines: &Lines) -> Result<Option<RowAccess>, TraceError> {
    let mut row = fields(lines.line());
    let mut next = || row.next().unwrap_or_default();
    let (kind, address, extra) = (next(), next(), next());
    let kind = match kind {
        b"LD" => OpKind::Read,
        b"ST" => OpKind::Write,
        found => return Err(lines.found("operation", found, "LD, ST")),
    };
    let allowed = "a decimal number, or hexadecimal with 0x, below 2^64";
    let address = number(address).ok_or_else(|| lines.found("address", address, allowed))?;
    lines.end(extra, "two fields: LD|ST ADDRESS")?;
    Ok(Some((address, 1, kind, 0)))
}
