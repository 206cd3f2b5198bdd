//! Traces of block devices: MQSim's and those of the MSR Cambridge servers. Their addresses are positions on a
//! device, and a request is an access of as many bytes.

use super::Format;
use super::lines::{Lines, decimal, first_row};
use super::rows::{RowAccess, Rows, fields};
use crate::error::TraceError;
use crate::op::OpKind;

/// Bytes of a sector (MQSim's `SECTOR_SIZE_IN_BYTE`).
const SECTOR_BYTES: u64 = 512;

/// `TIME DEVICE SECTOR SECTORS 0|1`, MQSim's `ASCII_Trace` (`src/host/ASCII_Trace_Definition.h`): nanoseconds, first
/// sector, number of sectors, and 0 for a write or 1 for a read. The number of the device is not read.
pub(super) const MQSIM: Format = Format {
    name: "mqsim",
    summary: "MQSim: `TIME DEVICE SECTOR SECTORS 0|1`, time in ns, 0 is a write",
    endings: &["mqsim"],
    detect: |start| {
        let row: Vec<&[u8]> = fields(first_row(start)).collect();
        row.len() == 5
            && row.iter().all(|field| decimal(field).is_some())
            && matches!(row[4], b"0" | b"1")
    },
    open: Some(|input, path| Rows::<()>::open(input, path, true, |lines, ()| mqsim(lines))),
    form: None,
};

fn mqsim(lines: &Lines) -> Result<Option<RowAccess>, TraceError> {
    let mut row = fields(lines.line());
    let mut number = |field: &'static str, scale: u64, allowed: &str| {
        let text = row.next().unwrap_or_default();
        let value = decimal(text).and_then(|value| value.checked_mul(scale));
        value.ok_or_else(|| lines.found(field, text, allowed))
    };
    let time = number("time", 1_000, "nanoseconds, 0 to 18446744073709551")?;
    number("device", 1, "a decimal number")?;
    let address = number("sector", SECTOR_BYTES, "a decimal number below 2^55")?;
    let sectors = "a decimal number of sectors of 512 bytes";
    let size = number("sectors", SECTOR_BYTES, sectors)?;
    let kind = match row.next().unwrap_or_default() {
        b"0" => OpKind::Write,
        b"1" => OpKind::Read,
        found => return Err(lines.found("type", found, "0 (write), 1 (read)")),
    };
    if let Some(extra) = row.next() {
        return Err(lines.found("", extra, "five fields: TIME DEVICE SECTOR SECTORS TYPE"));
    }
    Ok(Some((address, size, kind, time)))
}

/// `TIMESTAMP,HOST,DISK,Read|Write,OFFSET,SIZE,RESPONSE`, the MSR Cambridge traces (Narayanan et al., FAST 2008):
/// Windows file times (100 ns since 1601), bytes. Times count from the first row's. Host, disk and response time
/// are not read.
pub(super) const MSR: Format = Format {
    name: "msr",
    summary: "MSR Cambridge: `TIMESTAMP,HOST,DISK,Read|Write,OFFSET,SIZE,RESPONSE`",
    endings: &["msr"],
    detect: |start| {
        let row: Vec<&[u8]> = first_row(start).split(|byte| *byte == b',').collect();
        row.len() == 7 && decimal(row[0]).is_some() && matches!(row[3], b"Read" | b"Write")
    },
    open: Some(|input, path| Rows::open(input, path, true, msr)),
    form: None,
};

/// Picoseconds of a unit of a Windows file time.
const FILE_TIME_PS: u64 = 100_000;

/// Parses a row. `first` is the first row's time stamp.
fn msr(lines: &Lines, first: &mut Option<u64>) -> Result<Option<RowAccess>, TraceError> {
    let mut row = lines
        .line()
        .split(|byte| *byte == b',')
        .map(<[u8]>::trim_ascii);
    let mut next = || row.next().unwrap_or_default();
    let (stamp, _host, _disk, kind) = (next(), next(), next(), next());
    let (offset, size, _response) = (next(), next(), next());
    let allowed = "a Windows file time, from the first row's on";
    let time = decimal(stamp).and_then(|stamp| {
        let since = stamp.checked_sub(*first.get_or_insert(stamp))?;
        since.checked_mul(FILE_TIME_PS)
    });
    let time = time.ok_or_else(|| lines.found("timestamp", stamp, allowed))?;
    let kind = match kind {
        b"Read" => OpKind::Read,
        b"Write" => OpKind::Write,
        found => return Err(lines.found("type", found, "Read, Write")),
    };
    let (offset, size) = (lines.bytes("offset", offset)?, lines.bytes("size", size)?);
    if let Some(extra) = row.next() {
        return Err(lines.found("", extra, "seven values"));
    }
    Ok(Some((offset, size, kind, time)))
}
