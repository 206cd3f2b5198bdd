//! Lines of a text trace, read one at a time and limited in length.

use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

use super::Input;
use crate::error::{FilePlace, TraceError};

/// Most bytes of a line (*assumed*: a record takes tens of bytes; a comment may have a command).
const MAX_LINE_BYTES: usize = 1 << 16;

/// Reads lines, and makes errors with the number of the line.
pub(super) struct Lines {
    input: Input,
    path: PathBuf,
    line: Vec<u8>,
    number: u64,
}

impl Lines {
    pub fn new(input: Input, path: &Path) -> Lines {
        Lines {
            input,
            path: path.to_owned(),
            line: Vec::new(),
            number: 0,
        }
    }

    /// Reads the next line; false at the end of the file.
    ///
    /// # Errors
    /// A line that is too long, and a last line without a newline: a row that was cut may look
    /// like a complete one.
    #[inline]
    pub fn advance(&mut self) -> Result<bool, TraceError> {
        self.line.clear();
        self.number += 1;
        let limit = MAX_LINE_BYTES as u64 + 1;
        let mut input = self.input.by_ref().take(limit);
        if let Err(error) = input.read_until(b'\n', &mut self.line) {
            let place = FilePlace::Line(self.number);
            return Err(TraceError::io(&self.path, place, "read", &error));
        }
        if self.line.is_empty() {
            return Ok(false);
        }
        if self.line.last() != Some(&b'\n') {
            let message = match self.line.len() > MAX_LINE_BYTES {
                true => format!("the line is longer than {MAX_LINE_BYTES} bytes: not a text trace"),
                false => {
                    "the last row has no newline: it may be cut; allowed: rows that end with one"
                        .to_owned()
                }
            };
            return Err(self.error("", message));
        }
        while let Some(b'\n' | b'\r') = self.line.last() {
            self.line.pop();
        }
        Ok(true)
    }

    /// The line read last, without its end.
    #[inline]
    pub fn line(&self) -> &[u8] {
        &self.line
    }

    /// The number of the line read last, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Makes an error about the line read last.
    pub fn error(&self, field: &'static str, message: impl Into<String>) -> TraceError {
        TraceError::new(&self.path, FilePlace::Line(self.number), field, message)
    }

    /// Makes an error about a value in the line read last.
    pub fn found(&self, field: &'static str, value: &[u8], allowed: &str) -> TraceError {
        let shown: String = String::from_utf8_lossy(value).chars().take(60).collect();
        self.error(field, format!("found `{shown}`; allowed: {allowed}"))
    }

    /// The hexadecimal address in a field of the line read last.
    #[inline]
    pub fn address(&self, text: &[u8]) -> Result<u64, TraceError> {
        hex(text).ok_or_else(|| self.found("address", text, "a hexadecimal number below 2^64"))
    }

    /// The decimal number of bytes in a field of the line read last.
    #[inline]
    pub fn bytes(&self, field: &'static str, text: &[u8]) -> Result<u64, TraceError> {
        decimal(text).ok_or_else(|| self.found(field, text, "a decimal number of bytes"))
    }

    /// Returns an error for a further field of the line read last.
    pub fn end(&self, extra: &[u8], allowed: &str) -> Result<(), TraceError> {
        match extra {
            b"" => Ok(()),
            _ => Err(self.found("", extra, allowed)),
        }
    }
}

/// Parses a hexadecimal number of up to 64 bits, with or without `0x`.
#[inline]
pub(super) fn hex(text: &[u8]) -> Option<u64> {
    let digits = text
        .strip_prefix(b"0x")
        .or_else(|| text.strip_prefix(b"0X"))
        .unwrap_or(text);
    let mut value = 0u64;
    for digit in digits {
        let digit = (*digit as char).to_digit(16)?;
        if value >> 60 != 0 {
            return None;
        }
        value = value << 4 | u64::from(digit);
    }
    (!digits.is_empty()).then_some(value)
}

/// Parses a decimal number of up to 64 bits.
#[inline]
pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for digit in text {
        let digit = (*digit as char).to_digit(10)?;
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    (!text.is_empty()).then_some(value)
}

/// Parses a time in `unit`, which is `scale` picoseconds: a whole or decimal number,
/// exact to a picosecond.
pub(super) fn time(text: &[u8], unit: &str, scale: u64) -> Option<u64> {
    if let Some(whole) = decimal(text) {
        return whole.checked_mul(scale);
    }
    let text = std::str::from_utf8(text).ok()?;
    let span: cxlab_engine::units::Picos = format!("{text} {unit}").parse().ok()?;
    Some(span.0)
}

/// The first line of `start` that is not blank, without its end.
pub(super) fn first_line(start: &[u8]) -> &[u8] {
    let mut lines = start
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii_end);
    lines.find(|line| !line.is_empty()).unwrap_or_default()
}

/// The first row of a text that is neither blank nor a comment.
pub(super) fn first_row(start: &[u8]) -> &[u8] {
    let mut rows = start.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let row = rows.find(|row| !row.is_empty() && !row.starts_with(b"#"));
    row.unwrap_or_default()
}
