//! The private memory of a call: the module's stack and constants.

use std::sync::Arc;

/// Bytes from address 0 that no access may touch, so that a null pointer is an error.
pub const NULL_BYTES: u64 = 1024;

/// The private memory of a program: the stack, which begins as zeros, then static data.
pub(crate) struct PrivateImage {
    /// Bytes of the stack, and the address of the static data.
    pub(crate) stack: u64,
    /// Static data, with what is zero at the beginning.
    pub(crate) data: Vec<u8>,
}

impl PrivateImage {
    /// Bytes of the whole memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.stack + self.data.len() as u64
    }
}

/// The private memory of one call.
pub(crate) struct PrivateMemory {
    image: Arc<PrivateImage>,
    /// The stack; empty before the first store.
    stack: Vec<u8>,
}

impl PrivateMemory {
    pub(crate) fn new(image: Arc<PrivateImage>) -> PrivateMemory {
        let stack = Vec::new();
        PrivateMemory { image, stack }
    }

    /// Whether an address is in private memory.
    pub(crate) fn contains(&self, addr: u64) -> bool {
        addr < self.image.bytes()
    }

    /// The bytes of a range.
    ///
    /// # Errors
    /// The range is null, or is neither within the stack nor within static data.
    pub(crate) fn read(&mut self, addr: u64, bytes: u64) -> Result<&[u8], String> {
        self.check(addr, bytes)?;
        let base = self.image.stack;
        Ok(match addr < base {
            true => &self.stack()[addr as usize..(addr + bytes) as usize],
            false => &self.image.data[(addr - base) as usize..(addr + bytes - base) as usize],
        })
    }

    /// The bytes of a range, to be stored to.
    ///
    /// # Errors
    /// The range is null, ends outside of the stack, or is in static data.
    pub(crate) fn write(&mut self, addr: u64, bytes: u64) -> Result<&mut [u8], String> {
        self.check(addr, bytes)?;
        if addr >= self.image.stack {
            return Err(format!(
                "found a store of {bytes} B at {addr:#x}, in the program's static data; allowed: \
                 static data that are constant (what changes is memory that a pointer leads to)"
            ));
        }
        Ok(&mut self.stack()[addr as usize..(addr + bytes) as usize])
    }

    fn stack(&mut self) -> &mut Vec<u8> {
        if self.stack.is_empty() {
            self.stack = vec![0; self.image.stack as usize];
        }
        &mut self.stack
    }

    fn check(&self, addr: u64, bytes: u64) -> Result<(), String> {
        if addr < NULL_BYTES {
            return Err(format!(
                "found an access to {bytes} B at {addr:#x}; allowed: from {NULL_BYTES:#x} (a null \
                 pointer, or a full stack)"
            ));
        }
        let stack = self.image.stack;
        let limit = match addr < stack {
            true => stack,
            false => self.image.bytes(),
        };
        match addr.checked_add(bytes) {
            Some(end) if end <= limit => Ok(()),
            _ => Err(format!(
                "found an access to {bytes} B at {addr:#x}, which begins in private memory; \
                 allowed: within the stack, below {stack:#x}, or the static data, below {:#x}",
                self.image.bytes()
            )),
        }
    }
}
