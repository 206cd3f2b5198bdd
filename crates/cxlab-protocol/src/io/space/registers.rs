//! Registers addressed by byte, with masks of the bits that can be written and of the bits that a one clears.

use std::fmt;

/// An access that registers reject.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessError {
    /// The width is not 1, 2, 4 or 8 bytes, or the offset is not a multiple of the width.
    Alignment {
        /// Offset of the access.
        offset: u64,
        /// Width in bytes.
        width: u32,
    },
    /// The access is outside the registers; its offset.
    Range(u64),
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AccessError::Alignment { offset, width } => {
                write!(f, "an access of {width} bytes at {offset:#x}")
            }
            AccessError::Range(offset) => write!(f, "no register at {offset:#x}"),
        }
    }
}

impl std::error::Error for AccessError {}

/// Registers: little endian, addressed by byte.
#[derive(Clone, PartialEq, Eq)]
pub struct Registers {
    value: Vec<u8>,
    writable: Vec<u8>,
    cleared_by_one: Vec<u8>,
}

impl Registers {
    /// Registers that read as 0 and cannot be written.
    pub fn new(bytes: usize) -> Registers {
        Registers {
            value: vec![0; bytes],
            writable: vec![0; bytes],
            cleared_by_one: vec![0; bytes],
        }
    }

    /// Number of bytes of the registers.
    pub fn len(&self) -> usize {
        self.value.len()
    }

    /// Whether there is not a single register.
    pub fn is_empty(&self) -> bool {
        self.value.is_empty()
    }

    fn place(&self, offset: u64, width: u32) -> Result<std::ops::Range<usize>, AccessError> {
        if !matches!(width, 1 | 2 | 4 | 8) || !offset.is_multiple_of(width.into()) {
            return Err(AccessError::Alignment { offset, width });
        }
        let end = offset + u64::from(width);
        if end > self.value.len() as u64 {
            return Err(AccessError::Range(offset));
        }
        Ok(offset as usize..end as usize)
    }

    /// Reads 1, 2, 4 or 8 bytes.
    ///
    /// # Errors
    /// If the width or the offset is not allowed.
    pub fn read(&self, offset: u64, width: u32) -> Result<u64, AccessError> {
        let bytes = &self.value[self.place(offset, width)?];
        Ok(little_endian(bytes))
    }

    /// Writes as software does: read-only bits stay, and a one clears the bits that are declared so.
    ///
    /// # Errors
    /// If the width or the offset is not allowed.
    pub fn write(&mut self, offset: u64, width: u32, value: u64) -> Result<(), AccessError> {
        let place = self.place(offset, width)?;
        for (at, byte) in place.zip(value.to_le_bytes()) {
            let writable = self.writable[at];
            let cleared = byte & self.cleared_by_one[at];
            self.value[at] = (self.value[at] & !writable | byte & writable) & !cleared;
        }
        Ok(())
    }

    /// Sets a value and the mask of its writable bits, as hardware does.
    ///
    /// # Panics
    /// If the range is outside the registers, which is a mistake of the program.
    pub(crate) fn set(&mut self, offset: usize, width: usize, value: u64, writable: u64) {
        let place = offset..offset + width;
        self.value[place.clone()].copy_from_slice(&value.to_le_bytes()[..width]);
        self.writable[place].copy_from_slice(&writable.to_le_bytes()[..width]);
    }

    /// Sets a value as hardware does; the mask of writable bits stays.
    pub(crate) fn force(&mut self, offset: usize, width: usize, value: u64) {
        self.value[offset..offset + width].copy_from_slice(&value.to_le_bytes()[..width]);
    }

    /// Declares bits that are cleared by writing a one.
    pub(crate) fn cleared_by_one(&mut self, offset: usize, width: usize, bits: u64) {
        self.cleared_by_one[offset..offset + width].copy_from_slice(&bits.to_le_bytes()[..width]);
    }

    /// A word of 4 bytes as hardware sees it; 0 outside the registers.
    pub(crate) fn word(&self, offset: usize) -> u32 {
        let bytes = self.value.get(offset..offset + 4).unwrap_or(&[]);
        little_endian(bytes) as u32
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |all, byte| all << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_change_what_is_writable_and_ones_clear_what_they_clear() {
        let mut registers = Registers::new(16);
        registers.set(4, 4, 0x1234_5678, 0x0000_ff00);
        registers.write(4, 4, 0xffff_ffff).unwrap();
        assert_eq!(registers.read(4, 4), Ok(0x1234_ff78));
        registers.write(5, 1, 0x0a).unwrap();
        assert_eq!(registers.read(4, 2), Ok(0x0a78));
        registers.set(8, 2, 0b1111, 0);
        registers.cleared_by_one(8, 2, 0b0110);
        registers.write(8, 2, 0b0011).unwrap();
        assert_eq!(registers.read(8, 2), Ok(0b1101));
        registers.write(8, 2, 0).unwrap();
        assert_eq!(registers.read(8, 2), Ok(0b1101));
    }

    #[test]
    fn accesses_are_aligned_and_inside() {
        let registers = Registers::new(16);
        let alignment = AccessError::Alignment {
            offset: 2,
            width: 4,
        };
        assert_eq!(registers.read(2, 4), Err(alignment));
        assert_eq!(registers.read(16, 4), Err(AccessError::Range(16)));
        assert!(registers.read(0, 3).is_err());
        assert_eq!(registers.read(8, 8), Ok(0));
    }
}
