//! The text format `ADDR R|W TIME`: each row is an access of one line.
//!
//! The address is hexadecimal, the time a decimal number of nanoseconds (*assumed*: the published
//! traces in this format have only zeros). Either all rows have a time or none has. Blank lines and
//! lines that begin with `#` are skipped.

use std::path::Path;

use super::lines::{Lines, first_line, hex, time};
use super::rows::{RowAccess, Rows, fields};
use super::{AccessSource, Format, Input, export};
use crate::error::TraceError;
use crate::op::OpKind;

pub(super) const FORMAT: Format = Format {
    name: "text",
    summary: "rows of `ADDR R|W TIME`: hexadecimal address, time in ns",
    endings: &["trace", "txt"],
    detect,
    open: Some(open),
    form: Some(export::TEXT),
};

fn detect(start: &[u8]) -> bool {
    let mut fields = fields(first_line(start));
    first_line(start).starts_with(b"#")
        || fields.next().and_then(hex).is_some() && fields.next().and_then(kind).is_some()
}

fn kind(text: &[u8]) -> Option<OpKind> {
    match text {
        b"R" | b"r" => Some(OpKind::Read),
        b"W" | b"w" => Some(OpKind::Write),
        _ => None,
    }
}

/// The first row: its line, and whether it has a time. The other rows must agree.
#[derive(Default)]
struct First {
    line: u64,
    has_time: bool,
}

fn open(input: Input, path: &Path) -> Result<Box<dyn AccessSource>, TraceError> {
    let mut rows = Rows {
        lines: Lines::new(input, path),
        parse,
        state: First::default(),
        has_time: false,
        first: None,
    };
    rows.first = rows.next_access()?;
    rows.has_time = rows.state.has_time;
    Ok(Box::new(rows))
}

fn parse(lines: &Lines, first: &mut First) -> Result<Option<RowAccess>, TraceError> {
    let line = lines.line();
    if line.trim_ascii().starts_with(b"#") {
        return Ok(None);
    }
    let mut fields = fields(line);
    let mut field = || fields.next().unwrap_or_default();
    let (address, op, when, extra) = (field(), field(), field(), field());
    if first.line == 0 {
        first.line = lines.number();
        first.has_time = !when.is_empty();
    }
    let address = lines.address(address)?;
    let kind = kind(op).ok_or_else(|| lines.found("operation", op, "R, W"))?;
    let as_first = format_args!("as in the first row (line {})", first.line);
    let time = match (first.has_time, when) {
        (false, b"") => 0,
        (true, b"") => {
            let message = format!("found none; allowed: nanoseconds, {as_first}");
            return Err(lines.error("time", message));
        }
        (false, found) => return Err(lines.found("time", found, &format!("none, {as_first}"))),
        (true, found) => time(found, "ns", 1_000)
            .ok_or_else(|| lines.found("time", found, "nanoseconds, 0 to 18446744073709551"))?,
    };
    lines.end(extra, "three fields: ADDR R|W TIME")?;
    Ok(Some((address, 1, kind, time)))
}
