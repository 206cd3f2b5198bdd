//! Effects of accesses: values in the image, versions of lines, and poison.

use cxlab_engine::units::{LINE_BYTES, LineAddr};
use cxlab_workload::thread::ThreadOp;

use super::{HwThreadCode, HwThreads};
use crate::access::{Access, first_of};

impl HwThreads {
    /// Records that the protocol gave `holder` (a core, or a device's cache) the line.
    #[inline]
    pub fn filled(&mut self, holder: u16, line: LineAddr) {
        if let Some(audit) = &mut self.audit {
            audit.filled(holder, line);
        }
    }

    /// Checks the copy that `holder` uses. Panics like [`crate::VersionAudit::used`] if the copy is stale.
    #[inline]
    pub fn used(&mut self, holder: u16, line: LineAddr) {
        if let Some(audit) = &mut self.audit {
            audit.used(holder, line);
        }
    }

    /// Records that a holder writes the line; `None` is a device that writes by DMA or into the host's cache.
    #[inline]
    pub fn written(&mut self, holder: Option<u16>, line: LineAddr) {
        if let Some(audit) = &mut self.audit {
            audit.written(holder, line);
        }
    }

    /// Records whether a line that memory supplies to a cache is poison.
    #[inline]
    pub fn supplied(&self, line: LineAddr, poison: bool) {
        if let Some(lines) = &self.poison {
            lines.supplied(line, poison);
        }
    }

    /// Whether the newest value of a line is poison.
    #[inline]
    pub fn is_poison(&self, line: LineAddr) -> bool {
        self.poison.as_ref().is_some_and(|lines| lines.has(line))
    }

    /// Whether an access that takes effect now consumes poison.
    #[inline]
    pub fn consumes_poison(&self, access: &Access) -> bool {
        let lines = self.poison.as_ref();
        lines.is_some_and(|lines| lines.is_consumed(access))
    }

    /// Performs an access on the image at its physical address. The owner must have the right to the line.
    pub fn perform(&mut self, access: &Access) {
        let hpa = access.hpa;
        let op = &mut self.ops[access.op as usize];
        let HwThreadCode::Thread(thread) = &mut self.hw_threads[usize::from(op.hw_thread)].code
        else {
            // A program computes on values of its own.
            return;
        };
        let bytes = usize::from(access.bytes);
        let mut line = [0; LINE_BYTES as usize];
        match op.op {
            ThreadOp::ReadRange { addr, .. } => {
                self.image.read_bytes(hpa, &mut line[..bytes]);
                thread.put_bytes(op.token, access.addr - addr, &line[..bytes]);
            }
            ThreadOp::WriteRange { addr, .. } | ThreadOp::Push { addr, .. } => {
                thread.take_bytes(op.token, access.addr - addr, &mut line[..bytes]);
                self.image.write_bytes(hpa, &line[..bytes]);
            }
            other => op.value = other.perform(&self.image, hpa),
        }
    }

    /// Records the physical address of an operation's first byte after translation.
    pub fn translated(&mut self, access: &Access) {
        let op = &mut self.ops[access.op as usize];
        if first_of(op.op) == access.addr {
            op.hpa = access.hpa.0;
        }
    }

    /// Whether a [`ThreadOp::Await`] has just read the value that has to
    /// change, so that the operation continues to wait.
    pub fn waits_on(&self, access: &Access) -> bool {
        let op = &self.ops[access.op as usize];
        matches!(op.op, ThreadOp::Await { value, .. } if value == op.value)
            && !self.hw_threads[usize::from(op.hw_thread)].ended
    }
}
