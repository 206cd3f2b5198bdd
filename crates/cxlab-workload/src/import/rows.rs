//! Formats of text with one access a row, whose rows a function parses.

use std::path::Path;

use cxlab_engine::units::SimTime;

use super::lines::Lines;
use super::{Access, AccessSource, Input};
use crate::error::TraceError;
use crate::op::OpKind;

/// A row's access: address, size in bytes, kind, and time in picoseconds.
pub(super) type RowAccess = (u64, u64, OpKind, u64);

/// Parses the row that was read last; `None` for a row that is no access.
pub(super) type Parse<S> = fn(&Lines, &mut S) -> Result<Option<RowAccess>, TraceError>;

/// Reads rows with a function. `S` is what the function keeps from row to row.
pub(super) struct Rows<S> {
    pub lines: Lines,
    pub parse: Parse<S>,
    pub state: S,
    pub has_time: bool,
    /// The first access, where it was parsed to find out whether the rows have times.
    pub first: Option<Access>,
}

impl<S: Default + Send + 'static> Rows<S> {
    /// Opens a reader.
    pub fn open(
        input: Input,
        path: &Path,
        has_time: bool,
        parse: Parse<S>,
    ) -> Result<Box<dyn AccessSource>, TraceError> {
        Ok(Box::new(Rows {
            lines: Lines::new(input, path),
            parse,
            state: S::default(),
            has_time,
            first: None,
        }))
    }
}

impl<S: Send> AccessSource for Rows<S> {
    fn next_access(&mut self) -> Result<Option<Access>, TraceError> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        while self.lines.advance()? {
            if self.lines.line().trim_ascii().is_empty() {
                continue;
            }
            if let Some((address, size, kind, time)) = (self.parse)(&self.lines, &mut self.state)? {
                let access = Access::new(address, size, kind, SimTime(time)).map(Some);
                return access.map_err(|(field, message)| self.lines.error(field, message));
            }
        }
        Ok(None)
    }

    fn has_time(&self) -> bool {
        self.has_time
    }
}

/// The fields of a row that blanks separate.
pub(super) fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace)
        .filter(|field| !field.is_empty())
}
