//! Speculative reads: a device reads a line before its request arrives, on a
//! host's hint (`MemSpecRd`; CXL 3.1, section 3.5.3.1). There are few such lines,
//! so they are searched linearly.

use cxlab_engine::units::{Dpa, SimTime};
use serde::{Deserialize, Serialize};

/// Maximum number of lines read speculatively; the oldest is dropped. *Assumed*.
const MOST: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) enum SpeculativeRead {
    /// In progress in the medium, under this number; the medium reports its completion later.
    InMedium(u32),
    /// Data available in the controller from this time on.
    Ready(SimTime),
}

/// The lines that a device has read or is reading speculatively.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct SpeculativeReads {
    lines: Vec<(Dpa, SpeculativeRead)>,
}

impl SpeculativeReads {
    pub(crate) fn begin(&mut self, dpa: Dpa, read: SpeculativeRead) {
        if self.lines.len() == MOST {
            self.lines.remove(0);
        }
        self.lines.push((dpa, read));
    }

    /// Records that the medium has finished its request number `id`.
    pub(crate) fn complete(&mut self, id: u32, now: SimTime) {
        let is_it =
            |(_, read): &&mut (Dpa, SpeculativeRead)| *read == SpeculativeRead::InMedium(id);
        if let Some((_, read)) = self.lines.iter_mut().find(is_it) {
            *read = SpeculativeRead::Ready(now);
        }
    }

    pub(crate) fn has(&self, dpa: Dpa) -> bool {
        self.lines.iter().any(|(other, _)| *other == dpa)
    }

    /// Removes a line that is requested or written.
    pub(crate) fn take(&mut self, dpa: Dpa) -> Option<SpeculativeRead> {
        let place = self.lines.iter().position(|(other, _)| *other == dpa)?;
        Some(self.lines.remove(place).1)
    }
}
