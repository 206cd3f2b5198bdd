//! Bytes of a binary trace, read with the place of each.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::Input;
use crate::error::{FilePlace, TraceError};

/// Reads bytes, and makes errors with their offset in the file.
pub(super) struct Bytes {
    input: Input,
    path: PathBuf,
    offset: u64,
}

impl Bytes {
    pub fn new(input: Input, path: &Path) -> Bytes {
        Bytes {
            input,
            path: path.to_owned(),
            offset: 0,
        }
    }

    /// Offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads bytes until `bytes` is full or the file ends, and returns their number.
    ///
    /// # Errors
    /// An error of the file.
    pub fn fill(&mut self, bytes: &mut [u8]) -> Result<usize, TraceError> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.input.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    let place = FilePlace::Offset(self.offset + filled as u64);
                    return Err(TraceError::io(&self.path, place, "read", &error));
                }
            }
        }
        self.offset += filled as u64;
        Ok(filled)
    }

    /// Reads a record of `N` bytes; `None` at the end of the file.
    ///
    /// # Errors
    /// An error of the file, or its end within the record.
    pub fn record<const N: usize>(&mut self) -> Result<Option<[u8; N]>, TraceError> {
        let start = self.offset;
        let mut record = [0; N];
        match self.fill(&mut record)? {
            0 => Ok(None),
            filled if filled == N => Ok(Some(record)),
            filled => {
                let message = format!(
                    "found {filled} bytes of a record; allowed: {N} (the file is truncated)"
                );
                Err(self.error(start, "record", message))
            }
        }
    }

    /// Makes an error about the bytes at an offset.
    pub fn error(&self, offset: u64, field: &'static str, message: String) -> TraceError {
        TraceError::new(&self.path, FilePlace::Offset(offset), field, message)
    }
}
