//! A check of single writer and multiple readers, for builds with debug assertions.
//!
//! Caches in the simulation hold no bytes, so a copy that should have been taken would still show the
//! newest value: values alone do not tell. Here each line has a version, which every write makes
//! one higher. A holder notes the version when the protocol gives it the line; when it uses its
//! copy later, nobody else may have written meanwhile.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};
use cxlab_engine::units::LineAddr;

/// The versions of the lines of one coherence domain, which its components share.
pub type Versions = Arc<Mutex<BTreeMap<u64, u64>>>;

/// What the holders of one component (its cores, or its cache) know.
#[derive(Debug)]
pub struct Audit {
    versions: Versions,
    held: BTreeMap<(u16, u64), u64>,
}

/// The versions are saved with each component that shares them: they are the same.
impl SaveState for Audit {
    fn save(&self, out: &mut StateWriter) {
        let versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        out.value("audit", &(&*versions, &self.held));
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        (*versions, self.held) = from.value("audit")?;
        Ok(())
    }
}

impl Audit {
    /// Nothing is held.
    pub fn new(versions: Versions) -> Audit {
        Audit {
            versions,
            held: BTreeMap::new(),
        }
    }

    fn version(&self, line: LineAddr) -> u64 {
        let versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        versions.get(&line.0).copied().unwrap_or(0)
    }

    /// The protocol gives a holder the line.
    pub fn filled(&mut self, holder: u16, line: LineAddr) {
        let version = self.version(line);
        self.held.insert((holder, line.0), version);
    }

    /// A holder uses its copy.
    ///
    /// # Panics
    /// If another one has written the line since it got it.
    pub fn used(&mut self, holder: u16, line: LineAddr) {
        let held = self.held.get(&(holder, line.0)).copied();
        let version = self.version(line);
        assert_eq!(
            held,
            Some(version),
            "holder {holder} uses a copy of {line:?} that it should have lost"
        );
    }

    /// A holder, or a device by DMA, writes the line.
    pub fn written(&mut self, holder: Option<u16>, line: LineAddr) {
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        let version = versions.entry(line.0).or_default();
        *version += 1;
        if let Some(holder) = holder {
            self.held.insert((holder, line.0), *version);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "should have lost")]
    fn a_stale_copy_is_found() {
        let versions = Versions::default();
        let (mut one, mut other) = (Audit::new(Arc::clone(&versions)), Audit::new(versions));
        one.filled(0, LineAddr(7));
        one.used(0, LineAddr(7));
        other.filled(0, LineAddr(7));
        other.written(Some(0), LineAddr(7));
        other.used(0, LineAddr(7));
        one.used(0, LineAddr(7));
    }
}
