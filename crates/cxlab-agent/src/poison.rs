//! Poison in the caches of a coherence domain.
//!
//! Poison belongs to the value of a line, as its data do (Data Poisoning; CXL 3.1, section 12.2.3).
//! Simulated caches hold no bytes, and the domain's image has the newest value of each line. One
//! set of lines therefore says which of these values are poison, whichever caches hold them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};
use cxlab_engine::units::LineAddr;

use crate::access::{Access, AccessKind};

/// The lines of a coherence domain whose newest value is poison; shared by the domain's components.
#[derive(Clone, Default, Debug)]
pub struct PoisonedLines(Arc<Mutex<BTreeSet<LineAddr>>>);

impl PoisonedLines {
    /// Calls `use_lines` with the set, which is locked meanwhile.
    fn lines<T>(&self, use_lines: impl FnOnce(&mut BTreeSet<LineAddr>) -> T) -> T {
        use_lines(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the newest value of a line is poison.
    pub fn has(&self, line: LineAddr) -> bool {
        self.lines(|lines| lines.contains(&line))
    }

    /// Records whether a line that memory supplies is poison. No cache had the line, so that is its newest value.
    pub fn supplied(&self, line: LineAddr, poison: bool) {
        self.lines(|lines| match poison {
            true => lines.insert(line),
            false => lines.remove(&line),
        });
    }

    /// Whether an access that takes effect consumes poison. A store of the whole line clears the poison, a smaller
    /// store leaves it, and neither consumes it. Prefetches, flushes, write-backs and demotions consume none.
    pub fn is_consumed(&self, access: &Access) -> bool {
        let line = access.line();
        match access.kind {
            AccessKind::Load | AccessKind::LoadToStore | AccessKind::Atomic => self.has(line),
            AccessKind::Store | AccessKind::Push => {
                if access.is_whole() {
                    self.supplied(line, false);
                }
                false
            }
            AccessKind::Flush
            | AccessKind::WriteBack
            | AccessKind::Demote
            | AccessKind::Prefetch => false,
        }
    }
}

/// Each component that shares the set saves it; all saved copies are equal.
impl SaveState for PoisonedLines {
    fn save(&self, out: &mut StateWriter) {
        self.lines(|lines| out.value("poison", &*lines));
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let saved = from.value("poison")?;
        self.lines(|lines| *lines = saved);
        Ok(())
    }
}
