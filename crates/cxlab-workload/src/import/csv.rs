//! Comma-separated values, with a header row that names the columns.
//!
//! `address` (decimal, or hexadecimal with `0x`) and `op` (`R`, `W`, `read`, `write`, in any case)
//! are required. `time_ps`, `time_ns`, `time_us` (at most one of them) and `size_bytes` are
//! optional. Other columns are errors, so that a misspelt column is never silently ignored.

use std::path::Path;

use super::lines::{Lines, decimal, first_line, hex, time};
use super::rows::{RowAccess, Rows};
use super::{AccessSource, Format, Input, export};
use crate::error::TraceError;
use crate::op::OpKind;

pub(super) const FORMAT: Format = Format {
    name: "csv",
    summary: "a header row with address, op and optionally time_ps/time_ns/time_us, size_bytes",
    endings: &["csv"],
    detect: |start| {
        first_line(start)
            .split(|byte| *byte == b',')
            .any(|name| trim(name) == b"address")
    },
    open: Some(open),
    form: Some(export::CSV),
};

const COLUMNS: &str = "address, op, time_ps, time_ns, time_us, size_bytes";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Address,
    Op,
    /// The unit, and its picoseconds.
    Time(&'static str, u64),
    Size,
}

/// A value without surrounding blanks and quotes.
fn trim(value: &[u8]) -> &[u8] {
    let value = value.trim_ascii();
    value
        .strip_prefix(b"\"")
        .and_then(|inner| inner.strip_suffix(b"\""))
        .unwrap_or(value)
}

/// Reads the header row, and opens a reader of the rows behind it.
fn open(input: Input, path: &Path) -> Result<Box<dyn AccessSource>, TraceError> {
    let mut lines = Lines::new(input, path);
    let mut found = lines.advance()?;
    while found && lines.line().trim_ascii().is_empty() {
        found = lines.advance()?;
    }
    let mut columns = Vec::new();
    for name in lines.line().split(|byte| *byte == b',').map(trim) {
        let column = match name {
            b"address" => Column::Address,
            b"op" => Column::Op,
            b"time_ps" => Column::Time("ps", 1),
            b"time_ns" => Column::Time("ns", 1_000),
            b"time_us" => Column::Time("us", 1_000_000),
            b"size_bytes" => Column::Size,
            _ => return Err(lines.found("column", name, COLUMNS)),
        };
        let same =
            |other: &Column| std::mem::discriminant(other) == std::mem::discriminant(&column);
        if columns.iter().any(same) {
            return Err(lines.found("column", name, "each column once, and one time"));
        }
        columns.push(column);
    }
    for (column, name) in [(Column::Address, "address"), (Column::Op, "op")] {
        if !columns.contains(&column) {
            return Err(lines.error("column", format!("found no `{name}`; allowed: {COLUMNS}")));
        }
    }
    let is_time = |column: &Column| matches!(column, Column::Time(..));
    Ok(Box::new(Rows {
        lines,
        parse,
        has_time: columns.iter().any(is_time),
        state: columns,
        first: None,
    }))
}

fn parse(lines: &Lines, columns: &mut Vec<Column>) -> Result<Option<RowAccess>, TraceError> {
    let (mut address, mut size, mut when, mut kind) = (0, 1, 0, OpKind::Read);
    let mut values = lines.line().split(|byte| *byte == b',').map(trim);
    for column in &*columns {
        let value = values.next().unwrap_or_default();
        match *column {
            Column::Address => {
                let number = if value.starts_with(b"0x") {
                    hex(value)
                } else {
                    decimal(value)
                };
                let allowed = "a decimal number, or hexadecimal with 0x, below 2^64";
                address = number.ok_or_else(|| lines.found("address", value, allowed))?;
            }
            Column::Op => {
                let allowed = "R, W, read, write";
                kind = op(value).ok_or_else(|| lines.found("op", value, allowed))?;
            }
            Column::Time(unit, scale) => {
                let allowed = "a number whose time is whole picoseconds below 2^64";
                let time = time(value, unit, scale);
                when = time.ok_or_else(|| lines.found("time", value, allowed))?;
            }
            Column::Size => size = lines.bytes("size_bytes", value)?,
        }
    }
    if let Some(extra) = values.next() {
        let allowed = format!("{} values, as many as columns", columns.len());
        return Err(lines.found("", extra, &allowed));
    }
    Ok(Some((address, size, kind, when)))
}

fn op(value: &[u8]) -> Option<OpKind> {
    let is = |names: [&str; 2]| {
        names
            .iter()
            .any(|name| value.eq_ignore_ascii_case(name.as_bytes()))
    };
    match value {
        _ if is(["R", "read"]) => Some(OpKind::Read),
        _ if is(["W", "write"]) => Some(OpKind::Write),
        _ => None,
    }
}
