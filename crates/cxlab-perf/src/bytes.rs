//! Fields of records, in the byte order of x86-64 and Arm.

/// Error of bytes that are no record.
#[derive(Clone, PartialEq, Eq, thiserror::Error, Debug)]
#[error("{what}")]
pub struct RecordError {
    /// The value found, and the values allowed.
    pub what: String,
}

impl RecordError {
    pub(crate) fn new(what: impl Into<String>) -> RecordError {
        RecordError { what: what.into() }
    }
}

/// The rest of some bytes.
#[derive(Clone, Copy)]
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> Bytes<'a> {
    /// The next `count` bytes.
    pub(crate) fn take(&mut self, count: u64) -> Result<&'a [u8], RecordError> {
        let split = usize::try_from(count)
            .ok()
            .and_then(|count| self.0.split_at_checked(count));
        let Some((taken, rest)) = split else {
            return Err(RecordError::new(format!(
                "found {} bytes where a field has {count}",
                self.0.len()
            )));
        };
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn word<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], RecordError> {
        let taken = self.take(BYTES as u64)?;
        let mut word = [0; BYTES];
        word.copy_from_slice(taken);
        Ok(word)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, RecordError> {
        self.word().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, RecordError> {
        self.word().map(u32::from_le_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, RecordError> {
        self.word().map(i32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, RecordError> {
        self.word().map(u64::from_le_bytes)
    }

    /// A text that ends with a zero, or with the bytes.
    pub(crate) fn text(self) -> String {
        let end = self.0.iter().position(|byte| *byte == 0);
        String::from_utf8_lossy(&self.0[..end.unwrap_or(self.0.len())]).into_owned()
    }
}
