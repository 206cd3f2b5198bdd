//! Text from tools that watch programs: Pin's `pinatrace`, and `perf script` with sampled addresses.

use super::lines::{Lines, first_row, hex, time};
use super::rows::{RowAccess, Rows, fields};
use super::{Format, export};
use crate::error::TraceError;
use crate::op::OpKind;

/// `IP: R ADDRESS` or `IP: W ADDRESS`, from the example `pinatrace` of Intel's Pin, all hexadecimal; a size in bytes,
/// and a value that is not read, may follow. Rows that begin with `#` are comments; the tool ends with `#eof`.
pub(super) const PIN: Format = Format {
    name: "pin",
    summary: "Intel Pin's pinatrace: `IP: R ADDRESS`, hexadecimal",
    endings: &["pin", "pinatrace"],
    detect: |start| {
        let mut row = fields(first_row(start));
        let pointer = row
            .next()
            .and_then(|ip| ip.strip_suffix(b":"))
            .and_then(hex);
        pointer.is_some() && matches!(row.next(), Some(b"R" | b"W"))
    },
    open: Some(|input, path| Rows::<()>::open(input, path, false, |lines, ()| pin(lines))),
    form: Some(export::PIN),
};

fn pin(lines: &Lines) -> Result<Option<RowAccess>, TraceError> {
    let line = lines.line();
    if line.starts_with(b"#") {
        return Ok(None);
    }
    let mut row = fields(line);
    let mut next = || row.next().unwrap_or_default();
    let pointer = next();
    if pointer.strip_suffix(b":").and_then(hex).is_none() {
        let allowed = "a hexadecimal number and `:`";
        return Err(lines.found("instruction pointer", pointer, allowed));
    }
    let kind = match next() {
        b"R" => OpKind::Read,
        b"W" => OpKind::Write,
        found => return Err(lines.found("operation", found, "R, W")),
    };
    let address = lines.address(next())?;
    let size = match next() {
        b"" => 1,
        size => lines.bytes("size", size)?,
    };
    Ok(Some((address, size, kind, 0)))
}

/// `perf script -F time,addr,data_src`, after `perf mem record`: in each row a time in seconds and `:`, the address,
/// and what the sample says of it (`|OP LOAD|LVL ...`). Other fields may stand before the address. Samples without
/// an address (0), and of instructions, are left out. A trace of samples has one of many accesses.
pub(super) const PERF_SCRIPT: Format = Format {
    name: "perf-script",
    summary: "perf script -F time,addr,data_src: sampled addresses (PEBS, IBS, SPE)",
    endings: &["perf"],
    detect: |start| first_row(start).windows(OP.len()).any(|part| part == OP),
    open: Some(|input, path| Rows::<()>::open(input, path, true, |lines, ()| sample(lines))),
    form: None,
};

const OP: &[u8] = b"|OP ";

fn sample(lines: &Lines) -> Result<Option<RowAccess>, TraceError> {
    let line = lines.line();
    if line.starts_with(b"#") {
        return Ok(None);
    }
    let Some(at) = line.windows(OP.len()).position(|part| part == OP) else {
        let allowed = "a row with `|OP ` (perf script -F time,addr,data_src)";
        return Err(lines.found("row", line, allowed));
    };
    let (before, source) = (&line[..at], &line[at + OP.len()..]);
    let mut last = [&b""[..]; 2];
    let mut when = None;
    for field in fields(before) {
        let seconds = field
            .strip_suffix(b":")
            .filter(|seconds| seconds.contains(&b'.'));
        when = seconds.or(when);
        last = [last[1], field];
    }
    let Some(when) = when else {
        let message = "found none; allowed: seconds and `:` (perf script -F time)";
        return Err(lines.error("time", message));
    };
    let allowed = "seconds, 0 to 18446744";
    let when =
        time(when, "s", 1_000_000_000_000).ok_or_else(|| lines.found("time", when, allowed))?;
    let [address, code] = last;
    if hex(code).is_none() {
        return Err(lines.found("data_src", code, "a hexadecimal number before `|OP `"));
    }
    let address = lines.address(address)?;
    let operation = source.split(|byte| *byte == b'|').next();
    let kind = match operation.unwrap_or_default().trim_ascii() {
        b"STORE" => OpKind::Write,
        b"LOAD" | b"PFETCH" | b"LOAD or PFETCH" => OpKind::Read,
        b"EXEC" | b"N/A" => return Ok(None),
        found => return Err(lines.found("operation", found, "LOAD, STORE, PFETCH, EXEC, N/A")),
    };
    Ok((address != 0).then_some((address, 1, kind, when)))
}
