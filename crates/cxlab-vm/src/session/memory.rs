//! The memory of a guest, by that of QEMU's process.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::device::Physical;
use crate::ring::{Extent, ModelWords};

/// The memory of a QEMU that this process has started.
pub(super) struct QemuMemory<'a> {
    file: File,
    shared: ModelWords<'a>,
}

impl<'a> QemuMemory<'a> {
    /// Opens the memory of `process`. The plugin publishes in `shared` where the guest's memory is.
    ///
    /// # Errors
    /// The system's error, where it does not let a process see its child's memory.
    pub(super) fn open(process: u32, shared: ModelWords<'a>) -> io::Result<QemuMemory<'a>> {
        let mut options = File::options();
        let file = options.read(true).write(true);
        Ok(QemuMemory {
            file: file.open(format!("/proc/{process}/mem"))?,
            shared,
        })
    }
}

impl Physical for QemuMemory<'_> {
    fn extents(&self) -> Vec<Extent> {
        self.shared.extents().unwrap_or_default()
    }

    fn read(&self, memory: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(bytes, memory)
    }

    fn write(&self, memory: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, memory)
    }
}
