//! The text format `ADDR R|W TIME`: each row is an access of one line.
//!
//! The address is hexadecimal, the time a decimal number of nanoseconds (*assumed*: the published
//! traces in this format have only zeros). Either all rows have a time or none has. Blank lines and
//! lines that begin with `#` are skipped.

use std::path::Path;

use cxlab_engine::units::SimTime;

use super::lines::{Lines, first_line, hex, time};
use super::rows::fields;
use super::{Access, AccessSource, Format, Input, export};
use crate::error::TraceError;
use crate::op::OpKind;

pub(super) const FORMAT: Format = Format {
    name: "text",
    summary: "rows of `ADDR R|W TIME`: hexadecimal address, time in ns",
    endings: &["trace", "txt"],
    detect,
    open: Some(|input, path| Ok(Box::new(Text::new(input, path)?))),
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

struct Text {
    lines: Lines,
    /// The first row, until it is returned.
    first: Option<Access>,
    /// The first row's line number.
    first_line: u64,
    /// Whether the first row has a time; the other rows must agree.
    timed: bool,
}

/// The fields of a row; a missing field is empty.
struct Row<'a> {
    address: &'a [u8],
    op: &'a [u8],
    when: &'a [u8],
    extra: &'a [u8],
}

impl<'a> Row<'a> {
    fn of(line: &'a [u8]) -> Row<'a> {
        let mut fields = fields(line);
        let mut field = || fields.next().unwrap_or_default();
        Row {
            address: field(),
            op: field(),
            when: field(),
            extra: field(),
        }
    }
}

impl Text {
    fn new(input: Input, path: &Path) -> Result<Text, TraceError> {
        let mut text = Text {
            lines: Lines::new(input, path),
            first: None,
            first_line: 0,
            timed: false,
        };
        if text.advance()? {
            text.timed = !Row::of(text.lines.line()).when.is_empty();
            text.first_line = text.lines.number();
            text.first = Some(text.parse()?);
        }
        Ok(text)
    }

    /// Advances to the next row; false at the end of the file.
    fn advance(&mut self) -> Result<bool, TraceError> {
        while self.lines.advance()? {
            let line = self.lines.line().trim_ascii();
            if !line.is_empty() && !line.starts_with(b"#") {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn parse(&self) -> Result<Access, TraceError> {
        let lines = &self.lines;
        let row = Row::of(lines.line());
        let address = hex(row.address).ok_or_else(|| {
            lines.found("address", row.address, "a hexadecimal number below 2^64")
        })?;
        let kind = kind(row.op).ok_or_else(|| lines.found("operation", row.op, "R, W"))?;
        let time = match (self.timed, row.when) {
            (false, b"") => 0,
            (true, b"") => {
                let message = format!(
                    "found none; allowed: nanoseconds, as in the first row (line {})",
                    self.first_line
                );
                return Err(lines.error("time", message));
            }
            (false, found) => {
                let allowed = format!("none, as in the first row (line {})", self.first_line);
                return Err(lines.found("time", found, &allowed));
            }
            (true, found) => time(found, "ns", 1_000)
                .ok_or_else(|| lines.found("time", found, "nanoseconds, 0 to 18446744073709551"))?,
        };
        if !row.extra.is_empty() {
            return Err(lines.found("", row.extra, "three fields: ADDR R|W TIME"));
        }
        Access::new(address, 1, kind, SimTime(time)).map_err(|(field, m)| lines.error(field, m))
    }
}

impl AccessSource for Text {
    fn next_access(&mut self) -> Result<Option<Access>, TraceError> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        match self.advance()? {
            true => self.parse().map(Some),
            false => Ok(None),
        }
    }

    fn has_time(&self) -> bool {
        self.timed
    }
}
