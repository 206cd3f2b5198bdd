//! The text format `ADDR R|W TIME`: one access of one line a row.
//!
//! The address is hexadecimal, the time a decimal number of nanoseconds (*assumed*: the published
//! traces in this format carry only zeros) and may be left out. Blank lines and lines that begin
//! with `#` are passed over.

use std::path::Path;

use cxlab_engine::units::SimTime;

use super::lines::{Lines, first_line, hex, time};
use super::{Access, AccessSource, Format, Input};
use crate::error::TraceError;
use crate::op::OpKind;

pub(super) const FORMAT: Format = Format {
    name: "text",
    summary: "rows of `ADDR R|W TIME`: hexadecimal address, time in ns",
    endings: &["trace", "txt"],
    detect,
    open: Some(|input, path| Ok(Box::new(Text::new(input, path)))),
};

fn detect(start: &[u8]) -> bool {
    let mut fields = fields(first_line(start));
    first_line(start).starts_with(b"#")
        || fields.next().and_then(hex).is_some() && fields.next().and_then(kind).is_some()
}

fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace)
        .filter(|field| !field.is_empty())
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
}

impl Text {
    fn new(input: Input, path: &Path) -> Text {
        Text {
            lines: Lines::new(input, path),
        }
    }

    fn parse(&self) -> Result<Access, TraceError> {
        let lines = &self.lines;
        let mut fields = fields(lines.line());
        let mut field = || fields.next().unwrap_or_default();
        let (address, op, when, extra) = (field(), field(), field(), field());
        let address = hex(address)
            .ok_or_else(|| lines.found("address", address, "a hexadecimal number below 2^64"))?;
        let kind = kind(op).ok_or_else(|| lines.found("operation", op, "R, W"))?;
        let when = match when {
            b"" => 0,
            _ => time(when, "ns", 1_000)
                .ok_or_else(|| lines.found("time", when, "nanoseconds, 0 to 18446744073709551"))?,
        };
        if !extra.is_empty() {
            return Err(lines.found("", extra, "three fields: ADDR R|W TIME"));
        }
        Access::new(address, 1, kind, SimTime(when)).map_err(|(field, m)| lines.error(field, m))
    }
}

impl AccessSource for Text {
    fn next_access(&mut self) -> Result<Option<Access>, TraceError> {
        while self.lines.advance()? {
            let line = self.lines.line().trim_ascii();
            if !line.is_empty() && !line.starts_with(b"#") {
                return self.parse().map(Some);
            }
        }
        Ok(None)
    }

    fn has_time(&self) -> bool {
        true
    }
}
